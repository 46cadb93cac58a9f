//! Labels, peers that cannot be reached, and the pings of leases.

use super::*;
use rdmascope_model::{Cause, PingSpec, Side, Step};
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
    let answer = |asked, received: Stamps, sent: &[Stamp]| {
        let mut engine = Net::new(2).engines.swap_remove(0);
        let at = Mono(2 * SECOND);
        let ping = Header { delay: Some((0, asked)), ..ping(1, 0) };
        engine.received(Some(source(1)), &ping.encode(), 64, received, at);
        let Some(Output::Send(first)) = engine.pop() else { panic!("no answer") };
        sent.iter().for_each(|&sent| engine.sent(first.id, sent));
        let Some(Output::Send(second)) = engine.pop() else { return Err("no second answer") };
        assert_eq!(engine.pop(), None, "one second answer at most");
        Ok(Header::decode(&second.header).unwrap().delay)
    };
    let told = |received: Stamp, sent| answer(StampClock::Hardware, received.into(), &[sent]).unwrap();
    assert_eq!(told(hardware(5_000), hardware(7_500)), Some((2_500, StampClock::Hardware)));
    assert_eq!(told(software(5_000), software(7_500)), Some((2_500, StampClock::Software)), "no device's");
    // A device that stamps as well: which clock counts is the prober's to say, and only that one's stamp sets off the answer.
    let both = Stamps { software: software(5_000), hardware: Some(hardware(1_000)) };
    let sent = [software(7_500), hardware(1_300)];
    assert_eq!(answer(StampClock::Hardware, both, &sent), Ok(Some((300, StampClock::Hardware))));
    assert_eq!(answer(StampClock::Software, both, &sent), Ok(Some((2_500, StampClock::Software))));
    assert_eq!(answer(StampClock::Hardware, both, &sent[..1]), Err("no second answer"), "two clocks");
    assert_eq!(told(hardware(0), hardware(7_500)), None, "no stamp");
    assert_eq!(told(hardware(7_500), hardware(5_000)), None, "backwards");
}

#[test]
fn a_batch_to_a_peer_without_stamps_of_its_device_goes_by_both_programs_clocks_from_its_first_answer_on() {
    let mut batch = Batch::new(1, name(1), address(1), plan(StampClock::Hardware));
    let told = |batch: &mut Batch, sequence, clock| {
        // The device's clock begins elsewhere; by the program's, the network takes 20 µs and the peer 30.
        let both = |us: u64| Stamps {
            software: Stamp::software(Mono(500_000 + us * 1_000)),
            hardware: Some(Stamp::hardware(7_000_000 + us * 3_000)),
        };
        batch.issue(Mono(500_000));
        batch.sent(sequence, both(10).software);
        batch.sent(sequence, both(10).hardware.unwrap());
        let ack = Header { delay: Some((30_000, clock)), ..ping(1, sequence) };
        batch.answered(&ack, true, both(60), Mono(600_000));
        batch.answered(&ack, false, both(61), Mono(601_000));
    };
    for sequence in 0..8 {
        told(&mut batch, sequence, StampClock::Software);
    }
    let figures = crate::mesh::stats::stats(&batch);
    assert_eq!((figures.clock, figures.invalid_stamps), (StampClock::Software, 1), "{figures:?}");
    let all = [figures.network, figures.network_large].into_iter().flatten();
    let all: Vec<_> = all.map(|delays| (delays.count, delays.min_ns, delays.max_ns)).collect();
    assert_eq!(all, [(5, 20_000, 20_000), (2, 20_000, 20_000)], "{figures:?}");
}
