//! The verbs transport on real devices, against the suite of all transports.

use rdmascope_model::{EndpointInfo, Fabric, Manner, Operation, Role};
use rdmascope_tests::guest::Endpoint;
use rdmascope_transport::conformance::{RealTime, Subject, check};
use rdmascope_transport::verbs::Verbs;
use rdmascope_transport::{PortReading, Transport};
use std::path::Path;
use std::sync::Arc;

/// Ways of probing besides the ordinary one: each verb one way and both ways, on one queue pair and on several.
pub(crate) fn manners() -> [Manner; 6] {
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
fn verbs_on_real_devices_does_what_every_transport_must_do() {
    let mut drive = RealTime::new();
    let waker = drive.waker();
    let mut make = |role| -> (Box<dyn Transport>, EndpointInfo) {
        let endpoint = match role {
            Role::Source => Endpoint(1),
            Role::Target => Endpoint(2),
        };
        let info = EndpointInfo {
            gid: Some(format!("::ffff:{}", endpoint.address()).parse().expect("a GID")),
            netdev: Some(endpoint.port()),
            ..EndpointInfo::bare(endpoint.name().parse().expect("an endpoint name"), Fabric::Roce)
        };
        (
            Box::new(Verbs::new(
                Arc::new(|_| PortReading::default()),
                waker.clone(),
                None,
                Path::new("/dev/infiniband"),
            )),
            info,
        )
    };
    check(Subject { make: &mut make, drive: &mut drive, held: None, manners: &manners() });
}
