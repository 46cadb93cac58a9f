//! What a probe moved on the ports of both ends, read from a real kernel while real bytes move.

use rdmascope_host::{Host, PortCounters};
use rdmascope_model::{BandwidthSpec, LatencySpec, Manner, Outcome, ProbeSpec};
use rdmascope_tests::guest::{Adapters, Endpoint, Pair};
use rdmascope_transport::PortReader;
use rdmascope_transport::verbs::Verbs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const FROM: Endpoint = Endpoint(1);
const TO: Endpoint = Endpoint(2);
const STREAM: ProbeSpec = ProbeSpec::Bandwidth(BandwidthSpec {
    message_bytes: 64 << 10,
    depth: 8,
    warmup: Duration::from_millis(20),
    duration: Duration::from_millis(1_000),
    completions_min: 10,
    // No limit to meet before the second is over: the counters below rise by time.
    bytes_max: 1 << 40,
});

fn pair() -> Pair {
    let host = Host::new("/".into()).expect("this machine can be read");
    let counters = PortCounters::new(host);
    let effects: PortReader = Arc::new(move |endpoint| counters.read(endpoint).into());
    Pair::new(FROM, TO, &effects, |effects, waker| {
        Box::new(Verbs::new(effects, waker, None, Path::new("/dev/infiniband")))
    })
}

#[test]
fn counters_that_move_during_a_stream_are_told_by_each_end_for_its_own_port() {
    let adapters = Adapters::dress();
    let mut pair = pair();
    // 1,000 pause frames a second that stop the source for 200 ms of it, and a receiver that marks and drops.
    adapters.rise(FROM, "rx_prio3_pause", 1_000);
    adapters.rise(FROM, "rx_prio3_pause_duration", 200_000);
    adapters.rise(FROM, "rp_cnp_handled", 500);
    adapters.rise(TO, "np_cnp_sent", 500);
    adapters.rise(TO, "np_ecn_marked_roce_packets", 700);
    adapters.rise(TO, "rx_discards_phy", 300);
    let [source, target] = pair.run(STREAM, Manner::default()).map(|end| end.expect("both ends tell"));
    assert!(matches!(source.outcome, Outcome::Bandwidth(..)), "{source:?}");
    assert_eq!(target.outcome, Outcome::Served);
    let (source, target) = (source.effects.expect("looked at"), target.effects.expect("looked at"));
    let paused = source.pause_received.expect("counted").0;
    assert!(paused[3] >= 900 && paused.iter().sum::<u64>() == paused[3], "{paused:?}");
    let paused_ns = source.pause_received_ns.expect("counted").0;
    assert!(paused_ns[3] >= 180_000_000, "microseconds of the driver as nanoseconds: {paused_ns:?}");
    assert!(source.congestion_notifications_handled.is_some_and(|cnps| cnps >= 450), "{source:?}");
    assert_eq!((source.congestion_notifications_sent, source.discards), (Some(0), Some(0)));
    assert!(target.congestion_notifications_sent.is_some_and(|cnps| cnps >= 450), "{target:?}");
    assert!(target.congestion_marked.is_some_and(|marked| marked >= 630), "{target:?}");
    assert!(target.discards.is_some_and(|discards| discards >= 270), "{target:?}");
    assert_eq!(target.pause_received.map(|all| all.sum()), Some(0));
    for effects in [source, target] {
        // This adapter does not count packets by priority: not known, and not none.
        assert_eq!((effects.packets_sent, effects.packets_received), (None, None));
        assert!(effects.retransmits.is_some(), "rxe counts them");
        assert!(effects.processor_ns.is_some_and(|time| time > 0));
    }
}

#[test]
fn a_lossy_path_shows_as_retransmissions_at_the_source_and_a_plain_port_has_no_pauses_to_tell() {
    let mut pair = pair();
    let fault = TO.netem("loss 5%");
    let latency = ProbeSpec::Latency(LatencySpec { samples: 300, warmup: 10, message_bytes: 8 });
    let [source, _] = pair.run(latency, Manner::default()).map(|end| end.expect("both ends tell"));
    drop(fault);
    let Outcome::Latency(_, delta) = source.outcome else { panic!("no latency: {source:?}") };
    let effects = source.effects.expect("looked at");
    assert_eq!(delta.retransmits, effects.retransmits);
    assert!(effects.retransmits.is_some_and(|resent| resent > 0), "5 % of 310 messages: {effects:?}");
    assert_eq!((effects.pause_received, effects.congestion_marked, effects.discards), (None, None, None));
}
