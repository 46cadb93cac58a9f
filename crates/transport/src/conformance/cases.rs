//! The cases: one function per rule of the contract.

use super::bench::Bench;
use rdmascope_model::{
    BandwidthSpec, Cause, Failure, LatencySpec, LatencyStats, LeaseId, Outcome, ProbeSpec, Role,
};
use rdmascope_probe::{Input, Output, TransportEvent};
use std::time::Duration;

/// A lease that is long enough for everything, on a slow emulated machine too.
pub(super) const LONG: Duration = Duration::from_secs(20);
/// A lease that runs out while the case waits for that.
const SHORT: Duration = Duration::from_secs(2);
/// Time in which something has surely begun, and a measurement of [`LONG_LATENCY`] or [`LONG_BANDWIDTH`] is not over.
pub(super) const A_WHILE: Duration = Duration::from_millis(5);

pub(super) const LATENCY: ProbeSpec =
    ProbeSpec::Latency(LatencySpec { samples: 400, warmup: 20, message_bytes: 8 });
/// Takes at least 40 ms on the fastest hardware there is (1 µs one way).
pub(super) const LONG_LATENCY: ProbeSpec =
    ProbeSpec::Latency(LatencySpec { samples: 10_000, warmup: 10_000, message_bytes: 8 });
pub(super) const STREAM: BandwidthSpec = BandwidthSpec {
    message_bytes: 64 << 10,
    depth: 8,
    warmup: Duration::from_millis(5),
    duration: Duration::from_millis(50),
    completions_min: 50,
    bytes_max: 4 << 30,
};
const BANDWIDTH: ProbeSpec = ProbeSpec::Bandwidth(STREAM);
pub(super) const LONG_BANDWIDTH: ProbeSpec = ProbeSpec::Bandwidth(BandwidthSpec {
    duration: Duration::from_millis(500),
    bytes_max: 50_000_000_000,
    ..STREAM
});

pub(super) type Case = fn(&mut Bench<'_>);

/// Every case by its name.
pub(super) const ALL: &[(&str, Case)] = &[
    ("latency gives exactly the samples asked for, on both sides", latency),
    ("latency works with one sample, one byte, large messages", odd_latency),
    ("bandwidth gives what was completed, from the source; the target tells no more than its end", bandwidth),
    ("bandwidth stops at its byte cap", capped_bandwidth),
    ("an offer that is garbage is told as bad peer data", garbage_offer),
    ("a peer that never connects is told by name", peer_never_connects),
    ("a peer that never answers fails the source before the lease ends", target_never_starts),
    ("a peer that never sends fails the target before the lease ends", source_never_starts),
    ("close before the peer is known frees everything", close_before_connect),
    ("close at once, before anything was told", close_at_once),
    ("close in the middle of a latency window", close_in_latency),
    ("close in the middle of a bandwidth window", close_in_bandwidth),
    ("a lease after another uses the same endpoint, also by the same number", one_after_another),
    ("preparing a lease twice changes nothing", prepare_twice),
    ("a target that is closed in the middle gives the source a failure, never a number", target_closed),
    ("other leases are prepared and closed while one measures", overlapping),
    ("commands for a lease that is not there do nothing", unknown_lease),
];

fn latency(bench: &mut Bench<'_>) {
    let lease = bench.open(LATENCY, LONG);
    for role in [Role::Source, Role::Target] {
        let stats = latency_of(bench, role, lease);
        assert_eq!(stats.count, 400, "{role:?}");
        let p99 = stats.p99_ns.unwrap_or_else(|| panic!("{role:?}: 400 samples tell a 99th percentile"));
        assert_eq!(stats.p999_ns, None, "{role:?}: 400 samples cannot tell a 99.9th percentile");
        let figures = [1, stats.min_ns, stats.p50_ns, stats.p90_ns, p99, stats.max_ns];
        assert!(figures.is_sorted(), "{role:?}: out of order: {stats:?}");
        assert!(stats.host_delayed <= stats.count, "{role:?}: {stats:?}");
    }
    expect_end(bench, Role::Source, lease, true);
    expect_end(bench, Role::Target, lease, true);
}

fn odd_latency(bench: &mut Bench<'_>) {
    for (samples, warmup, message_bytes) in [(1, 0, 1), (2, 5, 8), (10, 0, 256 << 10)] {
        let spec = ProbeSpec::Latency(LatencySpec { samples, warmup, message_bytes });
        let lease = bench.open(spec, LONG);
        for role in [Role::Source, Role::Target] {
            assert_eq!(latency_of(bench, role, lease).count, samples, "{role:?} of {spec:?}");
        }
        close_both(bench, lease);
    }
}

fn bandwidth(bench: &mut Bench<'_>) {
    let lease = bench.open(BANDWIDTH, LONG);
    let outcome = bench.report(Role::Source, lease, LONG);
    let Outcome::Bandwidth(stats, _) = outcome else { panic!("no bandwidth: {outcome:?}") };
    // Fewer than asked for are told when they take more than four times the duration: an emulated machine may be as slow.
    let patience = STREAM.duration * 4;
    let enough = stats.completions >= STREAM.completions_min;
    assert!(enough || u128::from(stats.duration_ns) >= patience.as_nanos(), "{stats:?}");
    assert_eq!(stats.bytes, u64::from(stats.completions) * u64::from(STREAM.message_bytes));
    assert!(stats.bytes <= STREAM.bytes_max, "{stats:?}");
    let bits = u128::from(stats.bytes) * 8_000_000_000;
    assert_eq!(u128::from(stats.average_bps), bits / u128::from(stats.duration_ns), "{stats:?}");
    assert_eq!(stats.worst_window_bps.is_some(), enough, "{stats:?}");
    assert!(stats.worst_window_bps.is_none_or(|worst| worst <= stats.average_bps), "{stats:?}");
    expect_end(bench, Role::Source, lease, true);
    bench.wait(A_WHILE, |bench| bench.probe(Role::Target, lease).report.is_some());
    // Whoever has told what it moved tells its end, too.
    if matches!(bench.probe(Role::Target, lease).heard.last(), Some(TransportEvent::Effects(_))) {
        bench.wait(LONG, |bench| bench.probe(Role::Target, lease).report.is_some());
    }
    let report = &bench.probe(Role::Target, lease).report;
    assert!(matches!(report, None | Some(Outcome::Served)), "the target has no figures: {report:?}");
    let told = report.is_some();
    expect_end(bench, Role::Target, lease, told);
}

fn capped_bandwidth(bench: &mut Bench<'_>) {
    let bytes_max = 20 * u64::from(STREAM.message_bytes);
    for warmup in [Duration::ZERO, STREAM.warmup, Duration::from_secs(2)] {
        let spec = BandwidthSpec { bytes_max, warmup, completions_min: 1, ..STREAM };
        let lease = bench.open(ProbeSpec::Bandwidth(spec), LONG);
        let outcome = bench.report(Role::Source, lease, LONG);
        let Outcome::Bandwidth(stats, _) = outcome else { panic!("no bandwidth: {outcome:?}") };
        assert!(stats.completions >= 1 && stats.bytes <= bytes_max, "warm-up {warmup:?}: {stats:?}");
        close_both(bench, lease);
    }
}

fn garbage_offer(bench: &mut Bench<'_>) {
    let garbage: [fn(Vec<u8>) -> Vec<u8>; 5] = [
        |_| Vec::new(),
        |_| vec![0; 3],
        |offer| vec![0xa5; offer.len()],
        |_| (0..=255).collect(),
        |mut offer| {
            offer.pop();
            offer
        },
    ];
    for make in garbage {
        bench.tamper(move |_, output| match output {
            Output::SendOffer(offer) => Some(Output::SendOffer(make(offer))),
            other => Some(other),
        });
        let lease = bench.open(LATENCY, LONG);
        for role in [Role::Source, Role::Target] {
            assert_eq!(failure_of(bench, role, lease, LONG).cause, Cause::BadPeerData, "{role:?}");
        }
        close_both(bench, lease);
    }
}

fn peer_never_connects(bench: &mut Bench<'_>) {
    bench.tamper(|role, output| match output {
        Output::Connect(_) if role == Role::Target => None,
        other => Some(other),
    });
    let lease = bench.open(LATENCY, SHORT);
    bench.wait(SHORT / 2, |_| false);
    bench.feed(Role::Source, lease, Input::Expired { lease: false });
    let cause = failure_of(bench, Role::Source, lease, SHORT / 2).cause;
    assert!(matches!(cause, Cause::PeerSilent | Cause::NoRoute), "{cause:?}");
}

fn target_never_starts(bench: &mut Bench<'_>) {
    bench.tamper(|role, output| match output {
        Output::Start if role == Role::Target => None,
        other => Some(other),
    });
    let lease = bench.open(LATENCY, SHORT);
    let failure = failure_of(bench, Role::Source, lease, SHORT);
    assert_eq!(failure.cause, Cause::NoFirstByte, "{failure}");
}

fn source_never_starts(bench: &mut Bench<'_>) {
    bench.tamper(|role, output| match output {
        Output::Start if role == Role::Source => None,
        other => Some(other),
    });
    let lease = bench.open(LATENCY, SHORT);
    let failure = failure_of(bench, Role::Target, lease, SHORT);
    assert_eq!(failure.cause, Cause::NoFirstByte, "{failure}");
}

fn close_before_connect(bench: &mut Bench<'_>) {
    bench.tamper(|_, output| match output {
        Output::SendOffer(_) => None,
        other => Some(other),
    });
    let lease = bench.open(LATENCY, LONG);
    let prepared = bench.wait(LONG, |bench| {
        [Role::Source, Role::Target].iter().all(|role| !bench.probe(*role, lease).heard.is_empty())
    });
    assert!(prepared, "both sides answer to prepare");
    close_both(bench, lease);
    bench.expect_free();
}

fn close_at_once(bench: &mut Bench<'_>) {
    let lease = bench.open(LATENCY, LONG);
    close_both(bench, lease);
}

fn close_in_latency(bench: &mut Bench<'_>) {
    close_in_the_middle(bench, LONG_LATENCY);
}

fn close_in_bandwidth(bench: &mut Bench<'_>) {
    close_in_the_middle(bench, LONG_BANDWIDTH);
}

fn close_in_the_middle(bench: &mut Bench<'_>, spec: ProbeSpec) {
    let lease = bench.open(spec, LONG);
    bench.wait_measuring(lease, A_WHILE);
    assert_eq!(bench.probe(Role::Source, lease).report, None, "the window was over too soon for this case");
    close_both(bench, lease);
    bench.expect_free();
    let next = bench.open(LATENCY, LONG);
    assert_eq!(latency_of(bench, Role::Source, next).count, 400, "the endpoint is free for the next lease");
}

fn one_after_another(bench: &mut Bench<'_>) {
    let lease = bench.next_lease();
    for _ in 0..3 {
        bench.open_side(Role::Source, lease, LATENCY, LONG);
        bench.open_side(Role::Target, lease, LATENCY, LONG);
        for role in [Role::Source, Role::Target] {
            assert_eq!(latency_of(bench, role, lease).count, 400, "{role:?}");
        }
        close_both(bench, lease);
    }
}

fn prepare_twice(bench: &mut Bench<'_>) {
    let lease = bench.open(LATENCY, LONG);
    bench.open_side(Role::Target, lease, BANDWIDTH, LONG);
    bench.open_side(Role::Source, lease, BANDWIDTH, LONG);
    for role in [Role::Source, Role::Target] {
        assert_eq!(latency_of(bench, role, lease).count, 400, "{role:?}");
        expect_end(bench, role, lease, true);
    }
}

fn target_closed(bench: &mut Bench<'_>) {
    for spec in [LONG_LATENCY, LONG_BANDWIDTH] {
        let lease = bench.open(spec, LONG);
        bench.wait_measuring(lease, A_WHILE);
        bench.close(Role::Target, lease);
        let failure = failure_of(bench, Role::Source, lease, LONG);
        assert_eq!(failure.side, Role::Source.side(), "{failure}");
        close_both(bench, lease);
    }
}

fn overlapping(bench: &mut Bench<'_>) {
    let running = bench.open(LONG_BANDWIDTH, LONG);
    bench.wait_measuring(running, A_WHILE);
    let others = [bench.next_lease(), bench.next_lease(), bench.next_lease()];
    for other in others {
        bench.open_side(Role::Target, other, LATENCY, LONG);
    }
    let prepared =
        bench.wait(LONG, |bench| others.iter().all(|o| !bench.probe(Role::Target, *o).heard.is_empty()));
    assert!(prepared, "a target that is busy prepares others");
    for other in others {
        let heard = &bench.probe(Role::Target, other).heard;
        assert!(matches!(heard[..], [TransportEvent::Prepared { .. }]), "{heard:?}");
        bench.close(Role::Target, other);
    }
    let outcome = bench.report(Role::Source, running, LONG);
    assert!(matches!(outcome, Outcome::Bandwidth(..)), "{outcome:?}");
}

fn unknown_lease(bench: &mut Bench<'_>) {
    let lease = bench.next_lease();
    for role in [Role::Source, Role::Target] {
        let (transport, now) = bench.transport(role);
        transport.connect(lease, &[1, 2, 3], now);
        transport.start(lease, now);
        transport.close(lease, now);
    }
}

pub(super) fn close_both(bench: &mut Bench<'_>, lease: LeaseId) {
    bench.close(Role::Source, lease);
    bench.close(Role::Target, lease);
}

fn latency_of(bench: &mut Bench<'_>, role: Role, lease: LeaseId) -> LatencyStats {
    match bench.report(role, lease, LONG) {
        Outcome::Latency(stats, _) => stats,
        other => panic!("{role:?}: no latency: {other:?}"),
    }
}

fn failure_of(bench: &mut Bench<'_>, role: Role, lease: LeaseId, within: Duration) -> Failure {
    match bench.report(role, lease, within) {
        Outcome::Failed(failure) => failure,
        other => panic!("{role:?}: no failure: {other:?}"),
    }
}

/// Prepared, connected, then what it moved (where it looked) and the end, where that `is_told`; each once, in this order.
pub(super) fn expect_end(bench: &Bench<'_>, role: Role, lease: LeaseId, is_told: bool) {
    let heard = &bench.probe(role, lease).heard;
    let in_order = match &heard[..] {
        [TransportEvent::Prepared { .. }, TransportEvent::Connected, end @ ..] => match end {
            [] => !is_told,
            [TransportEvent::Finished(_)] => is_told,
            [TransportEvent::Effects(effects), TransportEvent::Finished(outcome)] => {
                let resent = match outcome {
                    Outcome::Latency(_, delta) | Outcome::Bandwidth(_, delta) => delta.retransmits,
                    _ => effects.retransmits,
                };
                is_told && resent == effects.retransmits
            }
            _ => false,
        },
        _ => false,
    };
    assert!(in_order, "{role:?} heard {heard:?}");
}
