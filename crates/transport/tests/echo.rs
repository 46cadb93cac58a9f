//! What is particular to echoes, over loopback: counts in both directions, strangers, and datagrams that do not fit.

mod support;

use rdmascope_model::{
    Cause, EchoSpec, EchoStats, EndpointInfo, Gid, Marks, Outcome, ProbePlan, ProbeSpec, Role, Step,
};
use rdmascope_probe::TransportEvent;
use rdmascope_transport::echo::Echo;
use rdmascope_transport::{PortReading, Transport};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use support::{NOW, endpoint, failure, next, offer, plan, waker};

const LONG: Duration = Duration::from_secs(20);
const SPEC: EchoSpec = EchoSpec { count: 30, payload_bytes: 8_972, interval: Duration::from_millis(1) };
/// Where the port stands in an offer.
const PORT_AT: std::ops::Range<usize> = 21..23;

fn echo() -> Echo {
    Echo::new(Arc::new(|_| PortReading::default()), waker(), Ipv4Addr::LOCALHOST.into())
}

fn lease(role: Role, spec: EchoSpec, expires_in: Duration) -> ProbePlan {
    plan(role, 1, ProbeSpec::Echo(spec), expires_in)
}

/// A transport with a prepared lease on an endpoint of this MTU, and its offer.
fn prepared(role: Role, spec: EchoSpec, mtu: u32) -> (Echo, Vec<u8>) {
    let mut echo = echo();
    let plan = lease(role, spec, LONG);
    let endpoint = EndpointInfo { netdev_mtu: Some(mtu), ..endpoint(&plan.local.to_string()) };
    echo.prepare(&plan, &endpoint, NOW);
    let offer = offer(&mut echo);
    (echo, offer)
}

fn go(echo: &mut Echo, offer: &[u8]) {
    echo.connect(rdmascope_model::LeaseId(1), offer, NOW);
    assert_eq!(next(echo), TransportEvent::Connected);
    echo.start(rdmascope_model::LeaseId(1), NOW);
}

/// Both ends connected to each other, the target started.
fn connected(spec: EchoSpec) -> (Echo, Echo, Vec<u8>) {
    let (mut source, from_source) = prepared(Role::Source, spec, 65_536);
    let (mut target, from_target) = prepared(Role::Target, spec, 65_536);
    go(&mut target, &from_source);
    source.connect(rdmascope_model::LeaseId(1), &from_target, NOW);
    assert_eq!(next(&mut source), TransportEvent::Connected);
    (source, target, from_target)
}

fn stats(echo: &mut Echo) -> EchoStats {
    match next(echo) {
        TransportEvent::Finished(Outcome::Echo(stats)) => stats,
        other => panic!("no echo: {other:?}"),
    }
}

#[test]
fn every_datagram_comes_back_and_is_counted_at_both_ends() {
    for payload_bytes in [32, 8_972, 65_507] {
        let (mut source, mut target, _) = connected(EchoSpec { payload_bytes, ..SPEC });
        source.start(rdmascope_model::LeaseId(1), NOW);
        let seen = stats(&mut source);
        assert_eq!(
            (seen.payload_bytes, seen.sent, seen.heard, seen.answered),
            (payload_bytes, 30, Some(30), 30)
        );
        let delays = seen.round_trip.expect("answers came");
        let figures = [1, delays.min_ns, delays.p50_ns, delays.max_ns];
        assert!(delays.count == 30 && figures.is_sorted(), "{delays:?}");
        assert_eq!(next(&mut target), TransportEvent::Finished(Outcome::Served));
    }
}

#[test]
fn strangers_without_the_token_are_not_answered_and_change_nothing() {
    let (mut source, mut target, from_target) = connected(SPEC);
    let port = u16::from_be_bytes([from_target[PORT_AT.start], from_target[PORT_AT.start + 1]]);
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    // With the token too: the target's socket hears its peer alone.
    let mut guessed = from_target[23..].to_vec();
    guessed.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    stranger.send_to(&guessed, SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
    assert!(stranger.recv(&mut [0; 64]).is_err(), "nobody answers a stranger");
    source.start(rdmascope_model::LeaseId(1), NOW);
    assert_eq!(stats(&mut source).heard, Some(30));
    assert_eq!(next(&mut target), TransportEvent::Finished(Outcome::Served));
}

#[test]
fn a_target_that_is_not_there_gives_a_count_that_is_not_known() {
    let (mut source, target, _) = connected(EchoSpec { count: 3, ..SPEC });
    drop(target);
    source.start(rdmascope_model::LeaseId(1), NOW);
    let seen = stats(&mut source);
    assert_eq!((seen.sent, seen.heard, seen.answered, seen.round_trip), (3, None, 0, None));
}

#[test]
fn a_datagram_that_the_device_does_not_take_is_told_with_its_mtu() {
    // One byte more than UDP can carry.
    let spec = EchoSpec { payload_bytes: 65_508, ..SPEC };
    let (mut source, _) = prepared(Role::Source, spec, 1_500);
    let (_target, from_target) = prepared(Role::Target, spec, 1_500);
    go(&mut source, &from_target);
    let failed = failure(&mut source);
    assert_eq!((failed.cause, failed.step), (Cause::MessageTooLong, Step::Measure), "{failed}");
    assert_eq!(failed.evidence, "65508 bytes and 28 of headers in one piece; lo has an MTU of 1500");
}

#[test]
fn addresses_that_cannot_meet_and_ends_without_one_are_refused() {
    let (mut source, _) = prepared(Role::Source, SPEC, 65_536);
    let (_target, mut from_target) = prepared(Role::Target, SPEC, 65_536);
    let other: Gid = "2001:db8::1".parse().unwrap();
    from_target[5..21].copy_from_slice(&other.0);
    source.connect(rdmascope_model::LeaseId(1), &from_target, NOW);
    assert_eq!(failure(&mut source).cause, Cause::AddressFamily);

    let mut unbound = Echo::new(Arc::new(|_| PortReading::default()), waker(), Ipv4Addr::UNSPECIFIED.into());
    unbound.prepare(&lease(Role::Source, SPEC, LONG), &endpoint("a/lo/1"), NOW);
    assert_eq!(failure(&mut unbound).cause, Cause::NoUsableGid);
}

#[test]
fn an_rdma_endpoint_is_probed_through_its_network_device_alone() {
    let roce = |netdev: Option<&str>, address: &str| EndpointInfo {
        fabric: rdmascope_model::Fabric::Roce,
        gid: Some(address.parse().unwrap()),
        netdev: netdev.map(str::to_owned),
        ..endpoint("a/lo/1")
    };
    let cases = [
        (roce(Some("lo"), "::ffff:127.0.0.1"), None),
        (roce(Some("no-such"), "::ffff:127.0.0.1"), Some(Cause::DeviceGone)),
        (roce(None, "::ffff:127.0.0.1"), Some(Cause::NotAvailable)),
        (roce(Some("lo"), "fe80::1"), Some(Cause::NotAvailable)),
    ];
    for (endpoint, expected) in cases {
        let mut echo = Echo::new(Arc::new(|_| PortReading::default()), waker(), Ipv4Addr::UNSPECIFIED.into());
        let mut plan = lease(Role::Source, SPEC, LONG);
        plan.manner.marks = Marks { traffic_class: 104, ..Marks::default() };
        echo.prepare(&plan, &endpoint, NOW);
        match expected {
            Some(cause) => assert_eq!(failure(&mut echo).cause, cause, "{endpoint:?}"),
            None => drop(offer(&mut echo)),
        }
    }
}
