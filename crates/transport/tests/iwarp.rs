//! iWARP over a fake connection manager: the suite of all transports, who is let in, and which cause each failing step has.

#[path = "../../sys/tests/fake/mod.rs"]
mod fake;
#[path = "../../sys/tests/fake/cm.rs"]
mod fake_cm;
mod support;

use fake::Fake;
use fake_cm::{FakeManagers, QueuePairs};
use rdmascope_model::{
    Cause, EndpointInfo, Fabric, Failure, LatencySpec, LeaseId, Manner, Operation, Outcome, ProbeSpec, Role,
    Step,
};
use rdmascope_probe::TransportEvent;
use rdmascope_sys::{ConnectionParameters, VerbError};
use rdmascope_transport::conformance::{RealTime, Subject, check};
use rdmascope_transport::verbs::{Means, Verbs};
use rdmascope_transport::{PortReading, Transport, Waker};
use std::path::Path;
use std::sync::Arc;
use std::thread::park_timeout;
use std::time::{Duration, Instant};
use support::{NOW, STREAM, endpoint, failure, next, offer, plan, waker};

const LEASE: LeaseId = LeaseId(1);
const LONG: Duration = Duration::from_secs(20);
const LATENCY: ProbeSpec = ProbeSpec::Latency(LatencySpec { samples: 300, warmup: 10, message_bytes: 8 });

struct Pairs(Arc<Fake>);

impl QueuePairs for Pairs {
    fn join(&self, one: u32, other: u32) {
        self.0.join(one, other);
    }

    fn part(&self, one: u32) {
        self.0.part(one);
    }
}

struct Lab {
    fake: Arc<Fake>,
    managers: FakeManagers,
}

impl Lab {
    fn new() -> Self {
        let fake = Arc::new(Fake::new());
        fake.set("devices", 2);
        let managers = FakeManagers::new(Pairs(Arc::clone(&fake)));
        Self { fake, managers }
    }

    fn verbs(&self, waker: Waker) -> Verbs {
        let managers = self.managers.clone();
        let means = Means { manager: Arc::new(move || Ok(managers.open())), cuda: None };
        let nodes = Path::new("/nonexistent");
        Verbs::with_means(Arc::new(|_| PortReading::default()), waker, Some(self.fake.path()), nodes, means)
    }

    fn asked(&self, role: Role, spec: ProbeSpec) -> Verbs {
        let mut verbs = self.verbs(waker());
        verbs.prepare(&plan(role, LEASE.0, spec, LONG), &end(role), NOW);
        verbs
    }

    /// Both ends, prepared and told of each other.
    fn called(&self, spec: ProbeSpec) -> (Verbs, Verbs) {
        let (mut source, mut target) = (self.asked(Role::Source, spec), self.asked(Role::Target, spec));
        let (from_source, from_target) = (offer(&mut source), offer(&mut target));
        source.connect(LEASE, &from_target, NOW);
        target.connect(LEASE, &from_source, NOW);
        (source, target)
    }

    fn connected(&self, spec: ProbeSpec) -> (Verbs, Verbs) {
        let (mut source, mut target) = self.called(spec);
        assert_eq!(next(&mut source), TransportEvent::Connected);
        assert_eq!(next(&mut target), TransportEvent::Connected);
        (source, target)
    }

    fn wait(&self, what: &str, mut there: impl FnMut(&Self) -> bool) {
        let until = Instant::now() + LONG;
        while !there(self) {
            assert!(Instant::now() < until, "{what}");
            park_timeout(Duration::from_millis(1));
        }
    }
}

fn end(role: Role) -> EndpointInfo {
    let (name, address) = match role {
        Role::Source => ("a/fake_0/1", "::ffff:10.7.0.1"),
        Role::Target => ("b/fake_1/1", "::ffff:10.7.0.2"),
    };
    EndpointInfo { fabric: Fabric::Iwarp, gid: Some(address.parse().expect("a GID")), ..endpoint(name) }
}

#[test]
fn iwarp_does_what_every_transport_must_do() {
    let lab = Lab::new();
    // Else a long window is over before the suite can do anything in its middle.
    lab.fake.set("wire_us", 20);
    let mut drive = RealTime::new();
    let waker = drive.waker();
    let mut make =
        |role| -> (Box<dyn Transport>, EndpointInfo) { (Box::new(lab.verbs(waker.clone())), end(role)) };
    let held = || usize::try_from(lab.fake.get("pairs")).unwrap_or(0) + lab.managers.ends();
    let of =
        |operation, queue_pairs, both_ways| Manner { operation, queue_pairs, both_ways, ..Manner::default() };
    let manners = [of(Operation::Read, 3, false), of(Operation::Send, 3, true)];
    check(Subject { make: &mut make, drive: &mut drive, held: Some(&held), manners: &manners });
    lab.fake.assert_nothing_left();
}

#[test]
fn a_target_listens_at_its_own_address_until_its_peer_is_there_and_never_longer_than_its_lease() {
    let lab = Lab::new();
    let mut target = lab.asked(Role::Target, LATENCY);
    offer(&mut target);
    let [listener] = lab.managers.listeners()[..] else { panic!("one listener") };
    assert_eq!(listener.ip().to_string(), "10.7.0.2");
    target.close(LEASE, NOW);
    lab.wait("the listener ends with its lease", |lab| lab.managers.ends() == 0);

    let (source, target) = lab.connected(LATENCY);
    assert_eq!(lab.managers.listeners(), [], "nobody else is expected");
    drop((source, target));
    lab.wait("both ends end", |lab| lab.managers.ends() == 0);
}

/// Asks the only listener for a connection from another address, or from the peer's with other data.
fn intrude(lab: &Lab, from: &str, data: &[u8]) -> Result<(), VerbError> {
    let [listener] = lab.managers.listeners()[..] else { panic!("one listener") };
    let mut manager = lab.managers.open();
    let id = manager.create()?;
    manager.resolve_address(id, from.parse().expect("an address"), listener, LONG)?;
    let parameters = ConnectionParameters {
        queue_pair: 1,
        max_incoming_reads: 1,
        max_outgoing_reads: 1,
        private_data: data,
    };
    manager.connect(id, &parameters)?;
    lab.wait("the intruder is answered", |_| {
        let event = manager.next_event().expect("events");
        event.is_some_and(|event| event.kind.to_string() == "RDMA_CM_EVENT_REJECTED")
    });
    Ok(())
}

#[test]
fn only_the_leased_peer_with_the_leases_token_is_let_in() {
    let lab = Lab::new();
    let (mut source, mut target) = (lab.asked(Role::Source, LATENCY), lab.asked(Role::Target, LATENCY));
    let (from_source, from_target) = (offer(&mut source), offer(&mut target));
    target.connect(LEASE, &from_source, NOW);
    let token = &from_target[from_target.len() - 8..];
    let right = [b"RDM1", token, &[0]].concat();
    intrude(&lab, "10.7.0.9:1", &right).expect("the right token from the wrong address");
    let guessed = [b"RDM1", &[7; 8][..], &[0]].concat();
    intrude(&lab, "10.7.0.1:1", &guessed).expect("the right address with the wrong token");
    intrude(&lab, "10.7.0.1:1", b"").expect("no token");
    // The peer itself still gets in.
    source.connect(LEASE, &from_target, NOW);
    assert_eq!(next(&mut source), TransportEvent::Connected);
    assert_eq!(next(&mut target), TransportEvent::Connected);
}

#[test]
fn a_source_without_the_token_is_told_that_it_was_rejected() {
    let lab = Lab::new();
    let (mut source, mut target) = (lab.asked(Role::Source, LATENCY), lab.asked(Role::Target, LATENCY));
    let (from_source, mut from_target) = (offer(&mut source), offer(&mut target));
    *from_target.last_mut().expect("a token") ^= 1;
    target.connect(LEASE, &from_source, NOW);
    source.connect(LEASE, &from_target, NOW);
    let failed = failure(&mut source);
    assert_eq!((failed.cause, failed.step), (Cause::ConnectionRejected, Step::Rts), "{failed}");
    assert!(failed.evidence.contains("10.7.0.2"), "{failed}");
    assert!(failed.evidence.contains("RDMA_CM_EVENT_REJECTED (status -111, Connection refused)"), "{failed}");
}

#[test]
fn each_step_of_the_connection_manager_has_its_own_cause() {
    let source = |set: &dyn Fn(&FakeManagers)| -> Failure {
        let lab = Lab::new();
        set(&lab.managers);
        let (mut source, _target) = lab.called(LATENCY);
        failure(&mut source)
    };
    let failed = [
        source(&|m| m.fail(fake_cm::RESOLVE_ADDRESS, 19)),
        source(&|m| m.fail(fake_cm::RESOLVE_ADDRESS, 101)),
        source(&|m| m.answer(fake_cm::RESOLVE_ADDRESS, 1, -110)),
        source(&|m| m.answer(fake_cm::RESOLVE_ROUTE, 3, -113)),
        source(&|m| m.fail(fake_cm::CONNECT, 22)),
        source(&|m| m.answer(fake_cm::CONNECT, 7, -110)),
        source(&|m| m.answer(fake_cm::CONNECT, 8, -104)),
        source(&|m| m.answer(fake_cm::CONNECT, 11, 0)),
    ];
    let expected = [
        (Cause::NoUsableGid, Step::Resolve),
        (Cause::NoRoute, Step::Resolve),
        (Cause::NoRoute, Step::Resolve),
        (Cause::NoRoute, Step::Resolve),
        (Cause::BadParameters, Step::Rts),
        (Cause::RetryExceeded, Step::Rts),
        (Cause::ConnectionRejected, Step::Rts),
        (Cause::DeviceGone, Step::Rts),
    ];
    for (failed, expected) in failed.iter().zip(expected) {
        assert_eq!((failed.cause, failed.step), expected, "{failed}");
        assert!(failed.evidence.contains("10.7.0.2:"), "the address that was looked for: {failed}");
    }
    let listen = |command, errno| {
        let lab = Lab::new();
        lab.managers.fail(command, errno);
        let failed = failure(&mut lab.asked(Role::Target, LATENCY));
        lab.wait("nothing is left", |lab| lab.fake.get("pairs") == 0 && lab.managers.ends() == 0);
        (failed.cause, failed.step)
    };
    assert_eq!(listen(fake_cm::BIND, 99), (Cause::NoUsableGid, Step::Init));
    assert_eq!(listen(fake_cm::CREATE_ID, 12), (Cause::NoResources, Step::Init));
    let lab = Lab::new();
    lab.managers.fail(fake_cm::ACCEPT, 22);
    let (_source, mut target) = lab.called(LATENCY);
    let failed = failure(&mut target);
    assert_eq!((failed.cause, failed.step), (Cause::BadParameters, Step::Rts), "{failed}");
}

#[test]
fn a_host_without_the_kernels_module_says_what_to_load() {
    let fake = Fake::new();
    fake.set("devices", 2);
    let nodes = Path::new("/nonexistent");
    let mut verbs = Verbs::new(Arc::new(|_| PortReading::default()), waker(), Some(fake.path()), nodes);
    verbs.prepare(&plan(Role::Source, LEASE.0, LATENCY, LONG), &end(Role::Source), NOW);
    let failed = failure(&mut verbs);
    assert_eq!((failed.cause, failed.step), (Cause::NotAvailable, Step::Open), "{failed}");
    assert!(failed.evidence.contains("rdma_ucm"), "{failed}");
}

#[test]
fn a_peer_that_ends_the_connection_is_told_as_that() {
    let lab = Lab::new();
    let (mut source, mut target) = lab.connected(STREAM);
    target.start(LEASE, NOW);
    source.start(LEASE, NOW);
    lab.wait("something was written", |lab| lab.fake.get("written") > 0);
    target.close(LEASE, NOW);
    let failed = failure(&mut source);
    assert_eq!((failed.cause, failed.step), (Cause::PathLost, Step::Measure), "{failed}");
    assert!(failed.evidence.starts_with("RDMA_CM_EVENT_DISCONNECTED"), "{failed}");
}

#[test]
fn what_is_measured_over_iwarp_are_the_ordinary_figures() {
    let lab = Lab::new();
    let (mut source, mut target) = lab.connected(LATENCY);
    target.start(LEASE, NOW);
    source.start(LEASE, NOW);
    let TransportEvent::Finished(Outcome::Latency(stats, _)) = next(&mut source) else { panic!("latency") };
    assert_eq!(stats.count, 300);
    assert_eq!(lab.fake.get("path_mtu"), 0, "no walk by hand to RTR");
}
