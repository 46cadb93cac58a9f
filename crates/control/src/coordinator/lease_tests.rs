//! What two agents say of one lease, and what the pair's cells must make of it.

use super::super::work::Origin;
use super::*;
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{BandwidthStats, LatencyStats, LeaseId, Manner, Metric, ProbeSpec, Urgency, Wall};

const JUDGE_AT: Mono = Mono(6_700_000_000);
const SOURCE: ConnectionId = ConnectionId(11);
const TARGET: ConnectionId = ConnectionId(22);

fn at(ms: u64) -> Mono {
    Mono(ms * 1_000_000)
}

fn lease(metric: Metric) -> Lease {
    let job = Job {
        source: EndpointIndex(0),
        target: EndpointIndex(1),
        spec: ProbeSpec::usual(metric),
        manner: Manner::default(),
        urgency: Urgency::Operator,
        origin: Origin::Sweep,
    };
    Lease::new(job, Now::default(), JUDGE_AT, [SOURCE, TARGET], Vec::new())
}

fn result(role: Role, metric: Metric, outcome: Outcome) -> ProbeResult {
    let (local, peer) = match role {
        Role::Source => ("a/d/1", "b/d/1"),
        Role::Target => ("b/d/1", "a/d/1"),
    };
    ProbeResult {
        lease: Some(LeaseId(1)),
        local: local.parse().unwrap(),
        peer: peer.parse().unwrap(),
        role,
        metric: Some(metric),
        measured_at: Wall(5),
        outcome,
        effects: None,
        evidence: String::new(),
    }
}

fn latency(p50_ns: u64) -> Outcome {
    let stats = LatencyStats {
        count: 1,
        min_ns: p50_ns,
        p50_ns,
        p90_ns: p50_ns,
        p99_ns: None,
        p999_ns: None,
        max_ns: p50_ns,
        host_delayed: 0,
    };
    Outcome::Latency(stats, CounterDelta { retransmits: None })
}

fn bandwidth() -> Outcome {
    let stats = BandwidthStats {
        bytes: 1,
        duration_ns: 1,
        average_bps: 8_000_000_000,
        worst_window_bps: None,
        variation_permille: None,
        completions: 1,
    };
    Outcome::Bandwidth(stats, CounterDelta { retransmits: None })
}

fn failure(cause: Cause, side: Side) -> Failure {
    Failure { cause, step: Step::Measure, side, evidence: String::new() }
}

fn say(lease: &mut Lease, role: Role, outcome: Outcome, now: Mono) {
    lease.result(role, result(role, lease.job.cell().unwrap(), outcome), now);
}

fn say_failed(lease: &mut Lease, role: Role, cause: Cause, now: Mono) {
    say(lease, role, Outcome::Failed(failure(cause, role.side())), now);
}

/// Causes of source→target and target→source.
#[track_caller]
fn causes(news: &[CellNews; 2]) -> [Cause; 2] {
    match news {
        [CellNews::Failed(forward), CellNews::Failed(backward)] => [forward.cause, backward.cause],
        other => panic!("not failed both ways: {other:?}"),
    }
}

#[test]
fn latency_fills_both_cells_each_with_what_its_own_source_measured() {
    let mut l = lease(Metric::Latency);
    say(&mut l, Role::Source, latency(100), at(50));
    assert!(!l.is_decided(at(51)), "the other direction is still to come");
    say(&mut l, Role::Target, latency(200), at(52));
    assert!(l.is_decided(at(52)));
    let of = |role, p50| CellNews::Measured(Box::new(result(role, Metric::Latency, latency(p50))));
    assert_eq!(l.verdict(None), [of(Role::Source, 100), of(Role::Target, 200)]);
}

#[test]
fn a_named_cause_does_not_spoil_a_probe_that_completed() {
    let mut l = lease(Metric::Latency);
    say(&mut l, Role::Source, latency(100), at(50));
    say(&mut l, Role::Target, latency(100), at(50));
    let named = failure(Cause::PortDown, Side::Target);
    assert!(matches!(l.verdict(Some(named)), [CellNews::Measured(_), CellNews::Measured(_)]));
}

#[test]
fn bandwidth_is_the_sources_word_and_says_nothing_of_the_way_back() {
    let mut l = lease(Metric::Bandwidth);
    say(&mut l, Role::Source, bandwidth(), at(300));
    assert!(l.is_decided(at(300)), "the target of a bandwidth probe has nothing to say");
    assert!(matches!(l.verdict(None), [CellNews::Measured(_), CellNews::Nothing]));
}

#[test]
fn a_bandwidth_target_that_fails_fails_the_pair_at_once() {
    let mut l = lease(Metric::Bandwidth);
    say_failed(&mut l, Role::Target, Cause::MemoryLock, at(2));
    assert!(l.is_decided(at(2)));
    match l.verdict(None) {
        [CellNews::Failed(f), CellNews::Nothing] => {
            assert_eq!((f.cause, f.side), (Cause::MemoryLock, Side::Target));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cause_that_names_the_culprit_ends_the_lease_at_once_and_beats_the_symptom() {
    let mut l = lease(Metric::Latency);
    say_failed(&mut l, Role::Source, Cause::RetryExceeded, at(600));
    assert!(!l.is_decided(at(600)), "the other side may know why");
    say_failed(&mut l, Role::Target, Cause::DeviceGone, at(700));
    assert!(l.is_decided(at(700)));
    assert_eq!(causes(&l.verdict(None)), [Cause::DeviceGone; 2]);
}

/// Pitfall 22: the peer's own error is shown, not "failed to exchange data".
#[test]
fn what_fails_at_the_peer_is_told_in_the_peers_words_beside_ones_own() {
    let mut l = lease(Metric::Latency);
    let with = |cause, side, step, evidence: &str| {
        Outcome::Failed(Failure { cause, step, side, evidence: evidence.to_owned() })
    };
    let silent = with(Cause::NoFirstByte, Side::Source, Step::FirstByte, "nothing from the peer for 3.0 s");
    let limited =
        with(Cause::MemoryLock, Side::Target, Step::Open, "ibv_reg_mr: errno 12; limited to 65536 bytes");
    say(&mut l, Role::Source, silent, at(3_000));
    say(&mut l, Role::Target, limited, at(3_001));
    let [CellNews::Failed(forward), CellNews::Failed(backward)] = l.verdict(None) else {
        panic!("not failed")
    };
    assert_eq!((forward.cause, forward.side, forward.step), (Cause::MemoryLock, Side::Target, Step::Open));
    assert_eq!(
        forward.evidence,
        "ibv_reg_mr: errno 12; limited to 65536 bytes; a/d/1 at step first-byte: no-first-byte: nothing from the peer for 3.0 s"
    );
    assert_eq!((backward.side, &backward.evidence), (Side::Source, &forward.evidence));
}

/// Pitfall 15: status 12 in the middle of a job, with the port that went down as its reason.
#[test]
fn a_path_that_was_lost_is_a_symptom_and_a_port_that_is_down_explains_it() {
    let mut l = lease(Metric::Latency);
    say_failed(&mut l, Role::Source, Cause::PathLost, at(600));
    assert!(!l.is_decided(at(600)), "the other side may know why");
    assert!(l.is_decided(at(1_100)));
    assert_eq!(
        causes(&l.verdict(None)),
        [Cause::PathLost; 2],
        "the network told it: nobody's silence is to blame"
    );
    let named = Failure { evidence: "state DOWN".to_owned(), ..failure(Cause::PortDown, Side::Target) };
    let [CellNews::Failed(told), _] = l.verdict(Some(named)) else { panic!("not failed") };
    assert_eq!((told.cause, told.side), (Cause::PortDown, Side::Target));
    let both = "state DOWN; a/d/1 at step measure: path-lost: ";
    assert!(told.evidence.starts_with(both), "{told}");
}

#[test]
fn the_targets_silent_peer_is_the_sources_silent_agent() {
    let mut l = lease(Metric::Latency);
    say_failed(&mut l, Role::Target, Cause::PeerSilent, at(3_000));
    assert!(!l.is_decided(at(3_000)));
    assert!(l.is_decided(at(3_500)), "half a second for the source to speak, not the whole lease");
    assert_eq!(causes(&l.verdict(None)), [Cause::AgentSilent, Cause::PeerSilent]);
}

#[test]
fn no_progress_and_a_silent_other_side_blames_the_silent_side() {
    for cause in [Cause::Stalled, Cause::NoFirstByte] {
        let mut l = lease(Metric::Latency);
        say_failed(&mut l, Role::Source, cause, at(5_900));
        assert!(l.is_decided(at(6_400)));
        assert_eq!(causes(&l.verdict(None)), [Cause::PeerSilent, Cause::AgentSilent], "{cause:?}");
    }
    let mut l = lease(Metric::Latency);
    say_failed(&mut l, Role::Target, Cause::Stalled, at(5_900));
    assert_eq!(causes(&l.verdict(None)), [Cause::AgentSilent, Cause::PeerSilent]);
}

#[test]
fn no_progress_seen_from_both_sides_blames_neither() {
    let mut l = lease(Metric::Latency);
    say_failed(&mut l, Role::Source, Cause::Stalled, at(5_900));
    say_failed(&mut l, Role::Target, Cause::Stalled, at(5_901));
    assert!(l.is_decided(at(5_901)));
    assert_eq!(causes(&l.verdict(None)), [Cause::Stalled; 2]);
}

#[test]
fn what_the_network_told_one_side_stands_while_the_other_is_still_waiting() {
    // A broken path: the source's retries are used up after half a second, the target waits until its lease ends.
    for cause in [Cause::RetryExceeded, Cause::NoRoute, Cause::ConnectRefused] {
        for role in [Role::Source, Role::Target] {
            let mut l = lease(Metric::Latency);
            say_failed(&mut l, role, cause, at(600));
            assert!(l.is_decided(at(1_100)));
            assert_eq!(causes(&l.verdict(None)), [cause; 2], "{role:?} said {cause:?}");
        }
    }
}

#[test]
fn a_passive_bandwidth_target_is_not_blamed_for_its_silence() {
    for cause in [Cause::RetryExceeded, Cause::Stalled] {
        let mut l = lease(Metric::Bandwidth);
        say_failed(&mut l, Role::Source, cause, at(600));
        match l.verdict(None) {
            [CellNews::Failed(f), CellNews::Nothing] => assert_eq!(f.cause, cause),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_port_that_the_inventory_names_explains_the_symptom() {
    let named = || Some(failure(Cause::PortDown, Side::Target));
    for symptom in [Cause::RetryExceeded, Cause::NoFirstByte, Cause::PeerSilent] {
        let mut l = lease(Metric::Latency);
        say_failed(&mut l, Role::Source, symptom, at(600));
        let news = l.verdict(named());
        assert_eq!(causes(&news), [Cause::PortDown; 2], "{symptom:?}");
        let [CellNews::Failed(forward), CellNews::Failed(backward)] = news else { unreachable!() };
        assert_eq!(
            [forward.side, backward.side],
            [Side::Target, Side::Source],
            "it is the same port in both cells"
        );
    }
}

#[test]
fn nobody_says_anything() {
    let l = lease(Metric::Latency);
    assert!(!l.is_decided(at(6_699)) && l.is_decided(JUDGE_AT));
    assert_eq!(causes(&l.verdict(None)), [Cause::AgentSilent, Cause::PeerSilent]);
}

#[test]
fn a_side_that_goes_ends_the_lease_at_once_and_is_named() {
    let mut target_gone = lease(Metric::Latency);
    target_gone.lost(Role::Target);
    assert!(target_gone.is_decided(at(1)));
    assert_eq!(causes(&target_gone.verdict(None)), [Cause::PeerGone, Cause::AgentGone]);

    let mut source_gone = lease(Metric::Latency);
    source_gone.lost(Role::Source);
    assert!(source_gone.is_decided(at(1)));
    assert_eq!(causes(&source_gone.verdict(None)), [Cause::AgentGone, Cause::PeerGone]);

    let mut symptom_first = lease(Metric::Latency);
    say_failed(&mut symptom_first, Role::Source, Cause::RetryExceeded, at(1));
    symptom_first.lost(Role::Target);
    assert_eq!(causes(&symptom_first.verdict(None)), [Cause::PeerGone, Cause::AgentGone]);
}

#[test]
fn a_side_that_goes_after_its_report_leaves_the_pair_to_the_other_side() {
    for (first, second) in [(Role::Source, Role::Target), (Role::Target, Role::Source)] {
        let mut l = lease(Metric::Latency);
        say(&mut l, first, latency(100), at(50));
        l.lost(first);
        assert!(!l.is_decided(at(51)), "the {second:?} is about to report");
        say(&mut l, second, latency(100), at(52));
        assert!(l.is_decided(at(52)));
        assert!(matches!(l.verdict(None), [CellNews::Measured(_), CellNews::Measured(_)]));
    }
}

#[test]
fn a_bandwidth_target_that_goes_after_the_end_costs_nothing() {
    let mut l = lease(Metric::Bandwidth);
    say(&mut l, Role::Source, bandwidth(), at(300));
    l.lost(Role::Target);
    assert!(matches!(l.verdict(None), [CellNews::Measured(_), CellNews::Nothing]));
    let mut before = lease(Metric::Bandwidth);
    before.lost(Role::Target);
    assert!(before.is_decided(at(1)));
    assert!(
        matches!(&before.verdict(None), [CellNews::Failed(f), CellNews::Nothing] if f.cause == Cause::PeerGone)
    );
}

#[test]
fn a_side_that_may_not_probe_excludes_the_pair_without_blame() {
    let mut l = lease(Metric::Latency);
    say(&mut l, Role::Target, Outcome::Excluded(Exclusion::Busy), at(1));
    assert!(l.is_decided(at(1)));
    assert_eq!(l.verdict(None), [CellNews::Excluded(Exclusion::Busy), CellNews::Excluded(Exclusion::Busy)]);
    let mut one_way = lease(Metric::Bandwidth);
    say(&mut one_way, Role::Source, Outcome::Excluded(Exclusion::Policy), at(1));
    assert_eq!(one_way.verdict(None), [CellNews::Excluded(Exclusion::Policy), CellNews::Nothing]);
}

#[test]
fn connections_have_their_roles_and_strangers_none() {
    let l = lease(Metric::Latency);
    assert_eq!(
        [SOURCE, TARGET, ConnectionId(33)].map(|c| l.role_of(c)),
        [Some(Role::Source), Some(Role::Target), None]
    );
}

/// A lease of an operator's run with agents that tell what the target saw.
fn telling(metric: Metric, manner: Manner) -> Lease {
    let plain = lease(metric);
    let job = Job { manner, origin: Origin::Run(1, 0), ..plain.job };
    let mut lease = Lease::new(job, Now::default(), JUDGE_AT, [SOURCE, TARGET], Vec::new());
    lease.target_tells = true;
    lease
}

#[test]
fn a_path_that_was_lost_waits_for_a_better_cause_as_any_symptom_does() {
    let lost = |cause| {
        Outcome::Failed(Failure { cause, step: Step::Measure, side: Side::Source, evidence: String::new() })
    };
    let mut l = lease(Metric::Bandwidth);
    l.result(Role::Source, result(Role::Source, Metric::Bandwidth, lost(Cause::PathLost)), at(100));
    assert!(!l.is_decided(at(100)), "the other side may know better");
    assert!(l.is_decided(at(600)));
    assert!(matches!(&l.verdict(None)[0], CellNews::Failed(failure) if failure.cause == Cause::PathLost));
    let port_down =
        Failure { cause: Cause::PortDown, step: Step::Admit, side: Side::Target, evidence: String::new() };
    assert!(
        matches!(&l.verdict(Some(port_down))[0], CellNews::Failed(failure) if failure.cause == Cause::PortDown)
    );
}

#[test]
fn the_target_of_a_read_need_not_speak() {
    let manner = Manner { operation: Operation::Read, ..Manner::default() };
    let mut l = telling(Metric::Latency, manner);
    l.result(Role::Source, result(Role::Source, Metric::Latency, latency(4_000)), at(100));
    assert!(!l.is_decided(at(599)) && l.is_decided(at(600)), "half a second for its counters");
    assert!(matches!(l.verdict(None)[0], CellNews::Measured(_)));
}

#[test]
fn a_stream_that_its_target_gave_up_is_not_blamed_on_silence() {
    let gave_up =
        Outcome::Aborted(None, CounterDelta { retransmits: None }, rdmascope_model::Congestion::Pauses);
    let mut l = telling(Metric::Bandwidth, Manner::default());
    l.result(Role::Target, result(Role::Target, Metric::Bandwidth, gave_up), at(100));
    assert!(l.is_decided(at(600)));
    assert!(!matches!(l.verdict(None)[0], CellNews::Failed(_)), "{:?}", l.verdict(None));
    assert!(l.told()[1].is_some());
}
