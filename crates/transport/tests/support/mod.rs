//! What the tests of transports share: endpoints, transports, both ends of a connection, and a wait for what they tell.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use rdmascope_model::{
    BandwidthSpec, Effects, EndpointInfo, Fabric, Failure, LeaseId, Manner, Mono, Outcome, ProbePlan,
    ProbeSpec, Role, Urgency,
};
use rdmascope_probe::TransportEvent;
use rdmascope_transport::tcp::Tcp;
use rdmascope_transport::{Transport, Waker};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::thread::{current, park_timeout};
use std::time::{Duration, Instant};

/// No test waits longer: what takes so long is broken.
const LIMIT: Duration = Duration::from_secs(20);
pub(crate) const NOW: Mono = Mono(0);
/// Messages of 16 full packets, for longer than any test waits for.
pub(crate) const STREAM: ProbeSpec = ProbeSpec::Bandwidth(BandwidthSpec {
    message_bytes: 64 << 10,
    depth: 8,
    warmup: Duration::from_millis(1),
    duration: Duration::from_secs(5),
    completions_min: 50,
    bytes_max: 50_000_000_000,
});

pub(crate) fn endpoint(name: &str) -> EndpointInfo {
    EndpointInfo {
        netdev: Some("lo".to_owned()),
        ..EndpointInfo::bare(name.parse().expect("a good name"), Fabric::Tcp)
    }
}

/// A RoCE endpoint of the fake library with two devices: the source has the first one, the target the second.
pub(crate) fn roce(role: Role) -> EndpointInfo {
    let (name, address) = match role {
        Role::Source => ("a/fake_0/1", "::ffff:10.8.0.1"),
        Role::Target => ("b/fake_1/1", "::ffff:10.8.0.2"),
    };
    EndpointInfo { fabric: Fabric::Roce, gid: Some(address.parse().expect("a GID")), ..endpoint(name) }
}

/// Wakes the calling thread.
pub(crate) fn waker() -> Waker {
    let thread = current();
    Arc::new(move || thread.unpark())
}

pub(crate) fn tcp(bind: Ipv4Addr, waker: &Waker) -> Tcp {
    Tcp::new(
        Arc::new(|_| Effects { retransmits: Some(7), ..Effects::default() }.into()),
        waker.clone(),
        bind.into(),
        None,
    )
}

pub(crate) fn plan(role: Role, lease: u64, spec: ProbeSpec, expires_in: Duration) -> ProbePlan {
    let [source, target] = ["a/lo/1", "b/lo/1"].map(|name| name.parse().expect("a good name"));
    let (local, peer) = if role == Role::Source { (source, target) } else { (target, source) };
    let manner = Manner::default();
    ProbePlan {
        lease: LeaseId(lease),
        role,
        local,
        peer,
        spec,
        manner,
        urgency: Urgency::Operator,
        expires_in,
    }
}

/// The next event of a transport, but for what a probe moved.
pub(crate) fn next(transport: &mut dyn Transport) -> TransportEvent {
    loop {
        match any_next(transport) {
            TransportEvent::Effects(_) => {}
            other => return other,
        }
    }
}

/// The next event of a transport.
pub(crate) fn any_next(transport: &mut dyn Transport) -> TransportEvent {
    let until = Instant::now() + LIMIT;
    while Instant::now() < until {
        if let Some((_, event)) = transport.poll(NOW) {
            return event;
        }
        park_timeout(Duration::from_millis(1));
    }
    panic!("the transport told nothing for {LIMIT:?}")
}

pub(crate) fn offer(transport: &mut dyn Transport) -> Vec<u8> {
    match next(transport) {
        TransportEvent::Prepared { offer } => offer,
        other => panic!("not prepared: {other:?}"),
    }
}

/// Connects both ends of one lease, which were asked to prepare it, with what `tamper` makes of the target's offer.
pub(crate) fn connect(
    source: &mut dyn Transport,
    target: &mut dyn Transport,
    lease: LeaseId,
    tamper: impl Fn(&mut Vec<u8>),
) {
    let (from_source, mut from_target) = (offer(source), offer(target));
    tamper(&mut from_target);
    source.connect(lease, &from_target, NOW);
    target.connect(lease, &from_source, NOW);
    assert_eq!(next(source), TransportEvent::Connected);
    assert_eq!(next(target), TransportEvent::Connected);
}

pub(crate) fn failure(transport: &mut dyn Transport) -> Failure {
    match next(transport) {
        TransportEvent::Finished(Outcome::Failed(failure)) => failure,
        other => panic!("no failure: {other:?}"),
    }
}
