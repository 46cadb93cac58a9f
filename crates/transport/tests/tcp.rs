//! What is particular to tcp: whom a target lets in, where it listens, and what a failed connection is called.

mod support;

use rdmascope_model::{
    Cause, CounterDelta, Effects, EndpointInfo, Gid, LatencySpec, LeaseId, Outcome, ProbePlan, ProbeSpec,
    Role, Step,
};
use rdmascope_probe::TransportEvent;
use rdmascope_transport::tcp::Tcp;
use rdmascope_transport::{PortReading, Transport};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use support::{NOW, endpoint, failure, next, offer, plan, tcp, waker};

const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;
const LONG: Duration = Duration::from_secs(20);
const SPEC: ProbeSpec = ProbeSpec::Latency(LatencySpec { samples: 10, warmup: 2, message_bytes: 8 });
const LEASE: LeaseId = LeaseId(1);

/// A transport with a prepared lease, and its offer.
fn prepared(role: Role, bind: Ipv4Addr, expires_in: Duration) -> (Tcp, Vec<u8>) {
    let mut tcp = tcp(bind, &waker());
    let offer = prepare(&mut tcp, &plan(role, LEASE.0, SPEC, expires_in));
    (tcp, offer)
}

fn prepare(tcp: &mut Tcp, plan: &ProbePlan) -> Vec<u8> {
    tcp.prepare(plan, &endpoint(&plan.local.to_string()), NOW);
    offer(tcp)
}

/// Connects, waits for that, and starts.
fn go(tcp: &mut Tcp, offer: &[u8]) {
    tcp.connect(LEASE, offer, NOW);
    assert_eq!(next(tcp), TransportEvent::Connected);
    tcp.start(LEASE, NOW);
}

fn expect_latency(tcp: &mut Tcp) -> CounterDelta {
    match next(tcp) {
        TransportEvent::Finished(Outcome::Latency(_, delta)) => delta,
        other => panic!("no latency: {other:?}"),
    }
}

#[test]
fn a_stranger_with_a_wrong_token_is_turned_away_and_the_peer_is_still_served() {
    let (mut target, to_target) = prepared(Role::Target, LOOPBACK, LONG);
    let (mut source, to_source) = prepared(Role::Source, LOOPBACK, LONG);
    let (mut stranger, _) = prepared(Role::Source, LOOPBACK, LONG);
    go(&mut target, &to_source);
    let mut guessed = to_target.clone();
    *guessed.last_mut().unwrap() ^= 1;
    go(&mut stranger, &guessed);
    assert_eq!(failure(&mut stranger).cause, Cause::NoFirstByte);
    go(&mut source, &to_target);
    expect_latency(&mut source);
    expect_latency(&mut target);
}

#[test]
fn a_stranger_from_another_address_is_turned_away_even_with_the_token() {
    let (mut target, to_target) = prepared(Role::Target, LOOPBACK, LONG);
    let (mut source, to_source) = prepared(Role::Source, LOOPBACK, LONG);
    let (mut stranger, _) = prepared(Role::Source, Ipv4Addr::new(127, 0, 0, 2), LONG);
    go(&mut target, &to_source);
    go(&mut stranger, &to_target);
    assert_eq!(failure(&mut stranger).cause, Cause::NoFirstByte);
    go(&mut source, &to_target);
    expect_latency(&mut source);
}

#[test]
fn callers_that_say_nothing_do_not_keep_the_peer_out() {
    let (mut target, to_target) = prepared(Role::Target, LOOPBACK, LONG);
    let (mut source, to_source) = prepared(Role::Source, LOOPBACK, LONG);
    let port = u16::from_be_bytes([to_target[21], to_target[22]]);
    let address = SocketAddr::from((LOOPBACK, port));
    let _silent: Vec<_> = (0..20).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    go(&mut target, &to_source);
    go(&mut source, &to_target);
    expect_latency(&mut source);
}

#[test]
fn a_port_where_nobody_listens_is_told_as_connect_refused() {
    let (mut target, to_target) = prepared(Role::Target, LOOPBACK, LONG);
    target.close(LEASE, NOW);
    drop(target);
    let (mut source, _) = prepared(Role::Source, LOOPBACK, LONG);
    source.connect(LEASE, &to_target, NOW);
    let failure = failure(&mut source);
    assert_eq!((failure.cause, failure.step), (Cause::ConnectRefused, Step::Rtr), "{failure}");
}

#[test]
fn a_peer_that_does_not_answer_the_connection_request_is_told_before_the_lease_ends() {
    // Nobody accepts: once the queue of one is full, Linux drops further requests without a word.
    let full = TcpListener::bind((LOOPBACK, 0)).unwrap();
    rustix::net::listen(&full, 0).unwrap();
    let address = full.local_addr().unwrap();
    let _first = std::net::TcpStream::connect(address).unwrap();
    let (_target, mut to_target) = prepared(Role::Target, LOOPBACK, LONG);
    to_target[21..23].copy_from_slice(&address.port().to_be_bytes());
    let (mut source, _) = prepared(Role::Source, LOOPBACK, Duration::from_secs(1));
    source.connect(LEASE, &to_target, NOW);
    let failure = failure(&mut source);
    assert_eq!((failure.cause, failure.step), (Cause::RetryExceeded, Step::Rtr), "{failure}");
}

#[test]
fn addresses_of_different_families_are_told_as_such() {
    let other = Gid::from(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1])).0;
    for role in [Role::Source, Role::Target] {
        let (mut tcp, _) = prepared(role, LOOPBACK, LONG);
        let peer = if role == Role::Source { Role::Target } else { Role::Source };
        let (_peer, mut offer) = prepared(peer, LOOPBACK, LONG);
        offer[5..21].copy_from_slice(&other);
        tcp.connect(LEASE, &offer, NOW);
        assert_eq!(failure(&mut tcp).cause, Cause::AddressFamily, "{role:?}");
    }
}

#[test]
fn targets_listen_inside_their_port_range_and_say_when_it_is_used_up() {
    let free = TcpListener::bind((LOOPBACK, 0)).unwrap().local_addr().unwrap().port();
    let mut tcp = Tcp::new(Arc::new(|_| PortReading::default()), waker(), LOOPBACK.into(), Some(free..=free));
    let first = prepare(&mut tcp, &plan(Role::Target, 1, SPEC, LONG));
    assert_eq!(first[21..23], free.to_be_bytes());
    let second = plan(Role::Target, 2, SPEC, LONG);
    tcp.prepare(&second, &endpoint("b/lo/1"), NOW);
    let failure = failure(&mut tcp);
    assert_eq!(failure.cause, Cause::NoResources);
    assert_eq!(failure.evidence, format!("listening on 127.0.0.1: no port of {free}-{free} is free"));
    tcp.close(LeaseId(1), NOW);
    prepare(&mut tcp, &plan(Role::Target, 3, SPEC, LONG));
}

#[test]
fn without_an_address_to_bind_the_endpoints_own_is_used() {
    let unspecified = Ipv4Addr::UNSPECIFIED.into();
    let mut tcp = Tcp::new(Arc::new(|_| PortReading::default()), waker(), unspecified, None);
    let mut own = endpoint("b/lo/1");
    tcp.prepare(&plan(Role::Target, 1, SPEC, LONG), &own, NOW);
    assert_eq!(failure(&mut tcp).cause, Cause::NoUsableGid);
    own.gid = Some(Gid::from(Ipv4Addr::new(127, 0, 0, 3)));
    tcp.prepare(&plan(Role::Target, 2, SPEC, LONG), &own, NOW);
    let offer = offer(&mut tcp);
    assert_eq!(offer[5..21], Gid::from(Ipv4Addr::new(127, 0, 0, 3)).0);
}

#[test]
fn the_counters_are_read_before_and_after_and_a_gap_is_no_zero() {
    type Reading = fn(u64) -> Option<u64>;
    let readings: [(Reading, Option<u64>); 3] = [
        (|n| Some(100 + 3 * n), Some(3)),
        (|n| (n > 0).then_some(5), None),
        (|n| 100_u64.checked_sub(n), None),
    ];
    for (reading, expected) in readings {
        let (mut target, to_target) = prepared(Role::Target, LOOPBACK, LONG);
        let reads = AtomicU64::new(0);
        let reader = move |endpoint: &EndpointInfo| {
            assert_eq!(endpoint.name.to_string(), "a/lo/1");
            let retransmits = reading(reads.fetch_add(1, Ordering::Relaxed));
            Effects { retransmits, ..Effects::default() }.into()
        };
        let mut source = Tcp::new(Arc::new(reader), waker(), LOOPBACK.into(), None);
        let to_source = prepare(&mut source, &plan(Role::Source, LEASE.0, SPEC, LONG));
        go(&mut target, &to_source);
        go(&mut source, &to_target);
        assert_eq!(expect_latency(&mut source), CounterDelta { retransmits: expected });
    }
}
