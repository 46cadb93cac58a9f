//! The tcp transport over loopback, against the suite of all transports; alone in its process, since it counts sockets.

mod support;

use rdmascope_model::{EndpointInfo, Role};
use rdmascope_transport::Transport;
use rdmascope_transport::conformance::{RealTime, Subject, check};
use std::net::Ipv4Addr;
use support::{endpoint, tcp};

/// Sockets that this process has open, as the kernel shows them.
fn sockets() -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").expect("proc is mounted");
    let links = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

#[test]
fn tcp_does_what_every_transport_must_do() {
    let mut drive = RealTime::new();
    let waker = drive.waker();
    let mut make = |role| -> (Box<dyn Transport>, EndpointInfo) {
        let name = if role == Role::Source { "a/lo/1" } else { "b/lo/1" };
        (Box::new(tcp(Ipv4Addr::LOCALHOST, &waker)), endpoint(name))
    };
    check(Subject { make: &mut make, drive: &mut drive, held: Some(&sockets), manners: &[] });
    assert_eq!(sockets(), 0);
}
