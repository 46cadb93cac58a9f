//! The cases of other ways of probing: verbs, queue pairs, both directions. Run for each one that a transport names.

use super::bench::Bench;
use super::cases::{
    A_WHILE, Case, LATENCY, LONG, LONG_BANDWIDTH, LONG_LATENCY, STREAM, close_both, expect_end,
};
use rdmascope_model::{BandwidthSpec, BandwidthStats, Operation, Outcome, ProbeSpec, Role};

/// Every case by its name.
pub(super) const ALL: &[(&str, Case)] = &[
    ("latency in this manner gives the samples asked for, and the passive end serves", latency),
    ("bandwidth in this manner is told by who sends, and the other end serves", bandwidth),
    ("bandwidth in this manner stops at its byte cap", capped),
    ("a window in this manner is closed in the middle, and the endpoint is free", closed),
    ("a target that is closed in the middle of this manner gives a failure", target_closed),
];

fn latency(bench: &mut Bench<'_>) {
    let lease = bench.open(LATENCY, LONG);
    for role in [Role::Source, Role::Target] {
        match bench.report(role, lease, LONG) {
            Outcome::Latency(stats, _) => assert_eq!(stats.count, 400, "{role:?}"),
            Outcome::Served => {
                assert!(role == Role::Target && bench.manner.operation == Operation::Read, "{role:?} served");
            }
            other => panic!("{role:?}: {other:?}"),
        }
        expect_end(bench, role, lease, true);
    }
}

fn sends(bench: &Bench<'_>, role: Role) -> bool {
    role == Role::Source || bench.manner.both_ways
}

fn bandwidth_of(bench: &mut Bench<'_>, role: Role, lease: rdmascope_model::LeaseId) -> BandwidthStats {
    match bench.report(role, lease, LONG) {
        Outcome::Bandwidth(stats, _) => stats,
        other => panic!("{role:?}: no bandwidth: {other:?}"),
    }
}

fn bandwidth(bench: &mut Bench<'_>) {
    let lease = bench.open(ProbeSpec::Bandwidth(STREAM), LONG);
    for role in [Role::Source, Role::Target] {
        if sends(bench, role) {
            let stats = bandwidth_of(bench, role, lease);
            // A slow machine may not get so far in the longest window that there is.
            let enough = stats.completions >= STREAM.completions_min;
            let longest = u128::from(stats.duration_ns) >= 4 * STREAM.duration.as_nanos();
            assert!(enough || longest, "{role:?}: {stats:?}");
            assert_eq!(stats.bytes, u64::from(stats.completions) * u64::from(STREAM.message_bytes));
        } else {
            assert_eq!(bench.report(role, lease, LONG), Outcome::Served);
        }
        expect_end(bench, role, lease, true);
    }
}

fn capped(bench: &mut Bench<'_>) {
    let bytes_max = 50 * u64::from(STREAM.message_bytes);
    let spec = BandwidthSpec { bytes_max, completions_min: 1, ..STREAM };
    let lease = bench.open(ProbeSpec::Bandwidth(spec), LONG);
    for role in [Role::Source, Role::Target] {
        if !sends(bench, role) {
            continue;
        }
        let stats = bandwidth_of(bench, role, lease);
        assert!(stats.completions >= 1 && stats.bytes <= bytes_max, "{role:?}: {stats:?}");
    }
}

fn closed(bench: &mut Bench<'_>) {
    for spec in [LONG_LATENCY, LONG_BANDWIDTH] {
        let lease = bench.open(spec, LONG);
        bench.wait_measuring(lease, A_WHILE);
        assert_eq!(
            bench.probe(Role::Source, lease).report,
            None,
            "the window was over too soon for this case"
        );
        close_both(bench, lease);
        bench.expect_free();
    }
    latency(bench);
}

fn target_closed(bench: &mut Bench<'_>) {
    for spec in [LONG_LATENCY, LONG_BANDWIDTH] {
        let lease = bench.open(spec, LONG);
        bench.wait_measuring(lease, A_WHILE);
        bench.close(Role::Target, lease);
        let outcome = bench.report(Role::Source, lease, LONG);
        assert!(matches!(&outcome, Outcome::Failed(why) if why.side == Role::Source.side()), "{outcome:?}");
        close_both(bench, lease);
    }
}
