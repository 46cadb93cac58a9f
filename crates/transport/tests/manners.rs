//! What is particular to other ways of probing over verbs: what a device cannot do, agents of before, and receives that run out.

#[path = "../../sys/tests/fake/mod.rs"]
mod fake;
mod support;

use fake::Fake;
use rdmascope_model::{
    BandwidthSpec, Cause, Effects, EndpointInfo, Fabric, LatencySpec, LeaseId, Manner, Memory, Operation,
    Outcome, ProbeSpec, Role, Step,
};
use rdmascope_probe::TransportEvent;
use rdmascope_transport::Transport;
use rdmascope_transport::verbs::Verbs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use support::{NOW, any_next, connect, endpoint, failure, next, offer, plan, waker};

const LEASE: LeaseId = LeaseId(1);
const LONG: Duration = Duration::from_secs(20);
const LATENCY: ProbeSpec = ProbeSpec::Latency(LatencySpec { samples: 300, warmup: 10, message_bytes: 8 });
const STREAM: BandwidthSpec = BandwidthSpec {
    message_bytes: 64 << 10,
    depth: 8,
    warmup: Duration::from_millis(1),
    duration: Duration::from_millis(20),
    completions_min: 50,
    bytes_max: 50_000_000_000,
};

fn fake() -> Fake {
    let fake = Fake::new();
    fake.set("devices", 2);
    fake
}

fn asked(fake: &Fake, role: Role, spec: ProbeSpec, manner: Manner) -> Verbs {
    let reader = Arc::new(|_: &EndpointInfo| Effects { retransmits: Some(7), ..Effects::default() }.into());
    let mut verbs = Verbs::new(reader, waker(), Some(fake.path()), Path::new("/nonexistent"));
    let (name, address) = match role {
        Role::Source => ("a/fake_0/1", "::ffff:10.8.0.1"),
        Role::Target => ("b/fake_1/1", "::ffff:10.8.0.2"),
    };
    let gid = Some(address.parse().expect("a GID"));
    let mut plan = plan(role, LEASE.0, spec, LONG);
    plan.manner = manner;
    verbs.prepare(&plan, &EndpointInfo { fabric: Fabric::Roce, gid, ..endpoint(name) }, NOW);
    verbs
}

/// Both ends, connected and not started; `tamper` sees the target's offer.
fn connected(fake: &Fake, spec: ProbeSpec, manner: Manner, tamper: impl Fn(&mut Vec<u8>)) -> (Verbs, Verbs) {
    let (mut source, mut target) =
        (asked(fake, Role::Source, spec, manner), asked(fake, Role::Target, spec, manner));
    connect(&mut source, &mut target, LEASE, tamper);
    (source, target)
}

fn of(operation: Operation) -> Manner {
    Manner { operation, ..Manner::default() }
}

#[test]
fn what_a_device_or_build_cannot_do_is_not_available() {
    let fake = fake();
    for (role, manner) in [
        (Role::Source, Manner { source_memory: Memory::Gpu(3), ..Manner::default() }),
        (Role::Target, Manner { target_memory: Memory::Gpu(3), ..Manner::default() }),
    ] {
        let failed = failure(&mut asked(&fake, role, LATENCY, manner));
        assert_eq!((failed.cause, failed.step), (Cause::NotAvailable, Step::Open));
        assert!(failed.evidence.contains("GPU"), "{failed}");
        let other = if role == Role::Source { Role::Target } else { Role::Source };
        let failed = failure(&mut asked(&fake, other, LATENCY, manner));
        assert_eq!(failed.cause, Cause::NotAvailable, "both ends know that latency has no such form");
    }
    let echo = rdmascope_model::EchoSpec { count: 1, payload_bytes: 64, interval: LONG };
    let failed = failure(&mut asked(&fake, Role::Source, ProbeSpec::Echo(echo), Manner::default()));
    assert_eq!(failed.cause, Cause::NotAvailable);
}

#[test]
fn the_target_tells_its_end_with_what_it_moved_and_beside_an_old_source_stays_silent() {
    let spec = ProbeSpec::Bandwidth(STREAM);
    let fake = fake();
    let (mut source, mut target) = connected(&fake, spec, Manner::default(), |_| {});
    target.start(LEASE, NOW);
    source.start(LEASE, NOW);
    assert!(matches!(next(&mut source), TransportEvent::Finished(Outcome::Bandwidth(..))));
    let TransportEvent::Effects(effects) = any_next(&mut target) else { panic!("no effects first") };
    assert_eq!(effects.retransmits, Some(0), "7 before and after");
    assert!(effects.processor_ns.is_some());
    assert_eq!(any_next(&mut target), TransportEvent::Finished(Outcome::Served));
    drop((source, target));

    // An old target offers a buffer with nothing behind it: the source writes no further than that.
    let (mut source, mut target) = connected(&fake, spec, Manner::default(), |offer| {
        let at = offer.len() - 8;
        offer[at..].copy_from_slice(&u64::from(STREAM.message_bytes).to_be_bytes());
    });
    target.start(LEASE, NOW);
    source.start(LEASE, NOW);
    assert!(matches!(next(&mut source), TransportEvent::Finished(Outcome::Bandwidth(..))));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(target.poll(NOW), None);
}

#[test]
fn an_offer_for_another_number_of_queue_pairs_is_refused() {
    let fake = fake();
    let (spec, manner) = (ProbeSpec::Bandwidth(STREAM), of(Operation::Read));
    let mut source = asked(&fake, Role::Source, spec, Manner { queue_pairs: 2, ..manner });
    let mut target = asked(&fake, Role::Target, spec, Manner { queue_pairs: 3, ..manner });
    offer(&mut source);
    let from_target = offer(&mut target);
    source.connect(LEASE, &from_target, NOW);
    let failed = failure(&mut source);
    assert_eq!((failed.cause, failed.step), (Cause::BadPeerData, Step::Exchange), "{failed}");
    let mut plain = asked(&fake, Role::Source, spec, Manner::default());
    offer(&mut plain);
    plain.connect(LEASE, &from_target, NOW);
    assert_eq!(failure(&mut plain).cause, Cause::BadPeerData);
}

#[test]
fn a_sender_waits_for_a_target_that_takes_nothing_in_and_gets_no_error_from_it() {
    // On the fake device a message without a receive fails at once, as status 13.
    let fake = fake();
    let (mut source, mut target) =
        connected(&fake, ProbeSpec::Bandwidth(STREAM), of(Operation::Send), |_| {});
    // The target is not started: it offers its first receives, and none again.
    source.start(LEASE, NOW);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(source.poll(NOW), None, "it waits");
    target.start(LEASE, NOW);
    assert!(matches!(next(&mut source), TransportEvent::Finished(Outcome::Bandwidth(..))));
    assert_eq!(next(&mut target), TransportEvent::Finished(Outcome::Served));
}

#[test]
fn reads_are_told_whole_and_their_target_serves() {
    let fake = fake();
    let (mut source, mut target) = connected(&fake, LATENCY, of(Operation::Read), |_| {});
    target.start(LEASE, NOW);
    fake.set("wire_us", 200);
    source.start(LEASE, NOW);
    match next(&mut source) {
        TransportEvent::Finished(Outcome::Latency(stats, _)) => {
            assert_eq!(stats.count, 300);
            assert!(stats.min_ns >= 200_000, "the whole of 200 us, and not half of it: {stats:?}");
        }
        other => panic!("no latency: {other:?}"),
    }
    assert_eq!(next(&mut target), TransportEvent::Finished(Outcome::Served));
}
