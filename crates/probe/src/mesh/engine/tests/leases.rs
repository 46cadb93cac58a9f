//! Labels, peers that cannot be reached, and the pings of leases.

use super::*;
use rdmascope_model::{Cause, Side, Step};
use std::time::Duration;

#[test]
fn labels_are_told_apart_and_the_slow_or_lossy_one_is_named() {
    let mut net = Net::granted(2, MeshGrant { labels: 4, pings_per_batch: 36, ..grant(100 * SECOND) });
    net.lose = |h, at| at == 0 && h.label == 2 && h.kind == Kind::Ping;
    net.run(8 * SECOND);
    let first = net.stats(0)[0];
    assert_eq!(first.labels.len(), 4);
    assert!(first.labels.iter().all(|label| label.sent == 9 && label.flow_label != 0));
    let lossy: Vec<u32> = first.labels.iter().map(|label| label.sent - label.answered).collect();
    assert_eq!(lossy, [0, 0, 9, 0]);
    assert_eq!((first.labels[2].p50_ns, first.labels[1].p50_ns), (None, Some(2 * WIRE)));
}

#[test]
fn a_peer_that_cannot_be_resolved_is_told_with_the_cause_and_not_asked_for_again_at_once() {
    let mut engine = Net::new(2).engines.swap_remove(0);
    engine.set_grant(Some(grant(100 * SECOND)), Mono(SECOND));
    let (mut now, mut failed) = (SECOND, 0);
    while now < 11 * SECOND {
        while let Some(output) = engine.pop() {
            match output {
                Output::Resolve { batch, .. } => {
                    let failure = Failure {
                        cause: Cause::NoRoute,
                        step: Step::Resolve,
                        side: Side::Source,
                        evidence: String::new(),
                    };
                    engine.resolved(batch, Err(failure), Mono(now));
                }
                Output::Unreachable(peer, failure) => {
                    assert_eq!((peer, failure.cause), (name(1), Cause::NoRoute));
                    failed += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        now = engine.due(Mono(now)).unwrap().0.max(now);
        engine.tick(Mono(now));
    }
    assert!((2..=24).contains(&failed), "{failed} tries in 10 s");
}

#[test]
fn a_lease_sends_its_pings_without_a_grant_to_a_peer_that_no_book_names() {
    let mut net = Net::new(2);
    let now = Mono(net.now);
    net.engines.iter_mut().for_each(|engine| engine.set_book(Arc::new([]), now));
    let batch = net.engines[0].reserve_batch();
    let (lease, until) = (LeaseId(3), Mono(6 * SECOND));
    let marks = Marks { traffic_class: 104, ..Marks::default() };
    let spec = PingSpec { count: 50, labels: 4, interval: Duration::from_millis(1) };
    let pings = LeasedPings { lease, peer: name(1), address: address(1), batch, spec, marks, until };
    net.engines[1].serve_lease(LeasedPings { peer: name(0), address: address(0), ..pings.clone() });
    net.engines[0].start_lease(pings, now);
    net.run(4 * SECOND);
    // The target knows how many there are.
    let [(1, Output::Heard(heard)), (0, Output::Leased(LeaseId(3), Ok(stats)))] = &net.told[..] else {
        panic!("{:?}", net.told)
    };
    assert_eq!((heard.batch, heard.small, heard.large), (batch, 200, 200));
    assert_eq!((stats.small.sent, stats.small.answered, stats.large.answered), (200, 200, 200));
    assert_eq!(stats.labels.iter().map(|label| label.answered).collect::<Vec<_>>(), [100; 4]);
    assert_eq!(net.classes, [104; 1_200], "pings and both answers go in the class asked for");
    net.engines[1].end_lease(lease);
    assert!(
        upon(&mut net.engines[1], Some(source(0)), &ping(batch, 0), 5 * SECOND).is_empty(),
        "the lease is over"
    );
}

#[test]
fn a_lease_is_over_in_its_time_whatever_it_was_asked_for() {
    let mut net = Net::new(2);
    let now = Mono(net.now);
    net.lose = |_, _| true;
    let batch = net.engines[0].reserve_batch();
    let spec = PingSpec { count: u32::MAX, labels: 3, interval: Duration::ZERO };
    let until = Mono(3 * SECOND);
    let lease = LeaseId(1);
    net.engines[0].start_lease(
        LeasedPings {
            lease,
            peer: name(1),
            address: address(1),
            batch,
            spec,
            marks: Marks::default(),
            until,
        },
        now,
    );
    net.run(10 * SECOND);
    let [(0, Output::Leased(_, Ok(stats)))] = &net.told[..] else { panic!("{:?}", net.told) };
    let sent = stats.small.sent + stats.large.sent;
    // 1.5 s at 5,000 a second.
    assert!((7_400..=7_505).contains(&sent), "{sent} pings");
    assert_eq!(stats.small.lost_forward, None);
    let last = net.pings.iter().map(|(at, _)| *at).max().unwrap();
    assert!(last < until.0, "the last datagram left at {last}");
}

#[test]
fn when_no_send_completes_the_engine_stops_and_takes_no_more_memory() {
    let mut engine = Net::new(2).engines.swap_remove(0);
    let mut sends = 0;
    for i in 0..1_000_u64 {
        let at = Mono(SECOND + i * 20 * MS);
        engine.received(Some(source(1)), &ping(1, i as u32).encode(), 64, Stamp::software(at), at);
        while let Some(output) = engine.pop() {
            sends += u32::from(matches!(output, Output::Send(_)));
        }
    }
    assert_eq!(sends as usize, Engine::SENDS_MAX);
    // What could not be answered was heard all the same: that is no loss of the network.
    (0..=0xff).for_each(|slot| engine.completed(1 << 8 | slot));
    let next = upon(&mut engine, Some(source(1)), &ping(1, 1_000), 22 * SECOND)[0];
    assert_eq!((next.heard.small, next.acked.small), (1_001, Engine::SENDS_MAX as u32 + 1), "{next:?}");
}

#[test]
fn a_responder_tells_its_delay_only_when_both_stamps_are_of_one_clock_and_in_order() {
    let hardware = |ns| Stamp { ns, clock: StampClock::Hardware, vague: false };
    let software = |ns| Stamp { ns, clock: StampClock::Software, vague: false };
    let told = |received: Stamp, sent: Stamp| {
        let mut engine = Net::new(2).engines.swap_remove(0);
        let at = Mono(2 * SECOND);
        engine.received(Some(source(1)), &ping(1, 0).encode(), 64, received, at);
        let Some(Output::Send(first)) = engine.pop() else { panic!("no answer") };
        engine.sent(first.id, sent);
        let Some(Output::Send(second)) = engine.pop() else { panic!("no second answer") };
        Header::decode(&second.header).unwrap().delay
    };
    assert_eq!(told(hardware(5_000), hardware(7_500)), Some((2_500, StampClock::Hardware)));
    assert_eq!(told(software(5_000), software(7_500)), Some((2_500, StampClock::Software)));
    assert_eq!(told(hardware(5_000), software(7_500)), None, "two clocks");
    assert_eq!(told(hardware(0), hardware(7_500)), None, "no stamp");
    assert_eq!(told(hardware(7_500), hardware(5_000)), None, "backwards");
}
