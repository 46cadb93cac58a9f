//! The verbs transport over a fake libibverbs, against the suite of all transports.

#[path = "../../sys/tests/fake/mod.rs"]
mod fake;
mod support;

use fake::Fake;
use rdmascope_model::{Effects, EndpointInfo, Fabric, Manner, Operation, Role};
use rdmascope_transport::Transport;
use rdmascope_transport::conformance::{RealTime, Subject, check};
use rdmascope_transport::verbs::Verbs;
use std::path::Path;
use std::sync::Arc;
use support::endpoint;

/// Ways of probing besides the ordinary one: each verb one way and both ways, on one queue pair and on several.
fn manners() -> [Manner; 6] {
    use Operation::{Read, Send, Write};
    [
        (Write, 1, true),
        (Write, 16, false),
        (Read, 1, false),
        (Read, 3, true),
        (Send, 1, false),
        (Send, 16, true),
    ]
    .map(|(operation, queue_pairs, both_ways)| Manner {
        operation,
        queue_pairs,
        both_ways,
        ..Manner::default()
    })
}

#[test]
fn verbs_does_what_every_transport_must_do() {
    let fake = Fake::new();
    fake.set("devices", 2);
    // Else a long window is over before the suite can do anything in its middle.
    fake.set("wire_us", 20);
    let mut drive = RealTime::new();
    let waker = drive.waker();
    let mut make = |role| -> (Box<dyn Transport>, EndpointInfo) {
        let (name, address) = match role {
            Role::Source => ("a/fake_0/1", "::ffff:10.8.0.1"),
            Role::Target => ("b/fake_1/1", "::ffff:10.8.0.2"),
        };
        let gid = Some(address.parse().expect("a GID"));
        let endpoint = EndpointInfo { fabric: Fabric::Roce, gid, ..endpoint(name) };
        let nodes = Path::new("/nonexistent");
        (
            Box::new(Verbs::new(
                Arc::new(|_| Effects { retransmits: Some(7), ..Effects::default() }.into()),
                waker.clone(),
                Some(fake.path()),
                nodes,
            )),
            endpoint,
        )
    };
    let held = || usize::try_from(fake.get("pairs")).unwrap_or(0);
    check(Subject { make: &mut make, drive: &mut drive, held: Some(&held), manners: &manners() });
    fake.assert_nothing_left();
}
