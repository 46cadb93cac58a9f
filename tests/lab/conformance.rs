//! The verbs transport on real devices, against the suite of all transports.

use rdmascope_model::{EndpointInfo, Fabric, Role};
use rdmascope_tests::guest::Endpoint;
use rdmascope_transport::Transport;
use rdmascope_transport::conformance::{RealTime, Subject, check};
use rdmascope_transport::verbs::Verbs;
use std::path::Path;
use std::sync::Arc;

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
        (Box::new(Verbs::new(Arc::new(|_, _| None), waker.clone(), None, Path::new("/dev/infiniband"))), info)
    };
    check(Subject { make: &mut make, drive: &mut drive, held: None });
}
