//! Sweeps as the API shows them: what they are going to be, how far they are, what they found; and what goes on by itself.

use rdmascope_control::coordinator::{
    Coordinator, Covering, Found, FoundPair, Miss, NotRun, Sweep, SweepOrder,
};
use rdmascope_expose::api::{
    CauseText, ContinuousView, CoveringView, MetricChoice, PairState, SweepKind, SweepList, SweepPair,
    SweepPairList, SweepPairRow, SweepPlan, SweepRequest, SweepResult, SweepState, SweepView,
};
use rdmascope_localise::pair::{ceiling_bps, expected_mtu};
use rdmascope_localise::{EndpointIndex, median};
use rdmascope_model::{Metric, Now};
use std::collections::BTreeMap;

/// Pairs that are named in the result of a sweep in another class.
const WORST_MAX: usize = 20;

/// A request in the state's words.
pub(crate) fn order(request: &SweepRequest) -> SweepOrder {
    SweepOrder {
        metrics: request.metric.metrics().to_vec(),
        drained: request.drained,
        nodes: request.nodes.clone(),
        devices: request.devices.clone(),
        class: request.class,
        cross_rail: request.cross_rail,
        quick: request.quick,
        passes: request.passes.unwrap_or(1),
        seed: request.seed,
        message_bytes: request.message_bytes,
    }
}

pub(crate) fn sweeps(state: &Coordinator, now: Now) -> SweepList {
    let requested = state.sweep().map(|s| sweep(state, s, now, true));
    let background = state.background_sweep().map(|s| sweep(state, s, now, false));
    let plan = state.continuous_plan();
    SweepList {
        sweeps: requested.into_iter().chain(background).collect(),
        continuous: ContinuousView {
            pings: plan.pings.map(covering),
            connections: plan.connections.map(covering),
        },
    }
}

fn covering(covering: Covering) -> CoveringView {
    CoveringView {
        pairs: covering.pairs,
        seconds: covering.within.as_secs_f64(),
        cross_rail_pairs: covering.cross_rail_pairs,
        cross_rail_seconds: covering.cross_rail_within.map(|within| within.as_secs_f64()),
        per_second: covering.per_second,
        per_turn: covering.per_turn,
        bytes_per_second: covering.bytes_per_second,
    }
}

pub(crate) fn plan(plan: &rdmascope_control::coordinator::SweepPlan) -> SweepPlan {
    SweepPlan {
        pairs: plan.pairs,
        rounds: plan.rounds,
        bytes: plan.bytes,
        seconds: plan.time.as_secs_f64(),
        probes: plan.probes,
        endpoints: plan.endpoints as u64,
        in_maintenance: plan.in_maintenance as u64,
        rails: plan.rails as u64,
        without_rail: plan.without_rail as u64,
        leaves: plan.leaves as u64,
        without_leaf: plan.without_leaf as u64,
        passes: plan.passes,
        seed: plan.seed,
    }
}

pub(crate) fn sweep(state: &Coordinator, sweep: &Sweep, now: Now, requested: bool) -> SweepView {
    let took = sweep.finished_at.unwrap_or(now.wall).since(sweep.started_at).as_secs_f64();
    let (total, done) = (sweep.total as f64, sweep.done as f64);
    let estimate = (sweep.done > 0).then(|| took * total / done);
    SweepView {
        id: sweep.id,
        kind: if requested { SweepKind::Requested } else { SweepKind::Continuous },
        metric: choice(&sweep.metrics),
        drained: sweep.drained,
        state: sweep_state(sweep),
        total: sweep.total as u64,
        done: sweep.done as u64,
        failed: sweep.failed as u64,
        excluded: sweep.excluded as u64,
        started_at: sweep.started_at.to_string(),
        finished_at: sweep.finished_at.map(|at| at.to_string()),
        seconds_left: estimate.filter(|_| sweep.finished_at.is_none()).map(|e| (e - took).max(0.0)),
        plan: plan(&sweep.plan),
        bytes_sent: sweep.bytes_sent,
        out_of_bytes: sweep.out_of_bytes,
        given_up: sweep.given_up.iter().map(|index| state.matrix().name(*index).to_string()).collect(),
        results: Metric::ALL.iter().filter_map(|metric| result(state, &sweep.found, *metric)).collect(),
    }
}

fn sweep_state(sweep: &Sweep) -> SweepState {
    match (sweep.finished_at, sweep.cancelled) {
        (None, _) => SweepState::Running,
        (Some(_), true) => SweepState::Cancelled,
        (Some(_), false) => SweepState::Done,
    }
}

fn choice(metrics: &[Metric]) -> MetricChoice {
    match metrics {
        [Metric::Latency] => MetricChoice::Latency,
        [Metric::Bandwidth] => MetricChoice::Bandwidth,
        [Metric::Ping] => MetricChoice::Ping,
        _ => MetricChoice::All,
    }
}

/// What was found of a metric; `None` where it was not measured.
fn result(state: &Coordinator, found: &[Found], metric: Metric) -> Option<SweepResult> {
    let told = |found: &&Found| found.metric == metric && (cause(found).is_some() || found.value.is_ok());
    let mut of: Vec<&Found> = found.iter().filter(told).collect();
    if of.is_empty() {
        return None;
    }
    let mut values: Vec<u64> = of.iter().filter_map(|found| found.value.ok()).collect();
    // What failed comes first; then much latency is bad, and little bandwidth.
    of.sort_by_key(|found| match found.value {
        Err(_) => (0, 0),
        Ok(value) if metric == Metric::Bandwidth => (1, value),
        Ok(value) => (1, u64::MAX - value),
    });
    let name = |index| state.matrix().name(index).to_string();
    let pair = |found: &&Found| SweepPair {
        source: name(found.source),
        target: name(found.target),
        value: found.value.ok(),
        cause: cause(found).map(str::to_owned),
    };
    Some(SweepResult {
        metric: choice(&[metric]),
        measured: values.len() as u64,
        failed: (of.len() - values.len()) as u64,
        worst: of.iter().take(WORST_MAX).map(pair).collect(),
        median: median(&mut values),
    })
}

/// The id of the cause, where a probe failed.
fn cause(found: &Found) -> Option<&'static str> {
    match found.value {
        Err(Miss::Failed(cause)) => Some(cause.id()),
        Err(Miss::Excluded(_) | Miss::Aborted) | Ok(_) => None,
    }
}

/// Every pair of a sweep that keeps what it finds.
pub(crate) fn pairs(state: &Coordinator, sweep: &Sweep) -> SweepPairList {
    let mut indices: Vec<EndpointIndex> = Vec::new();
    let all = sweep.pairs();
    indices.extend(all.iter().flat_map(|pair| [pair.source, pair.target]));
    indices.sort_unstable();
    indices.dedup();
    let place =
        |index| indices.binary_search(&index).ok().and_then(|at| u32::try_from(at).ok()).unwrap_or(u32::MAX);
    let mut reasons = BTreeMap::new();
    let mut row = |pair: &FoundPair| {
        let (state_word, words) = came_of(pair);
        if let Some((id, text, next)) = words {
            let words = || CauseText { text: text.to_owned(), next_step: next.to_owned() };
            reasons.entry(id.to_owned()).or_insert_with(words);
        }
        let found = pair.found.ok();
        SweepPairRow {
            source: place(pair.source),
            target: place(pair.target),
            metric: choice(&[pair.metric]),
            state: state_word,
            value: found.and_then(|found| found.value.ok()),
            p99_ns: found.and_then(|found| found.p99_ns),
            retransmits: found.and_then(|found| found.retransmits),
            reason: words.map(|(id, ..)| id.to_owned()),
            ceiling_bits_per_second: ceiling(state, pair),
        }
    };
    let pairs = all.iter().map(&mut row).collect();
    SweepPairList {
        id: sweep.id,
        state: sweep_state(sweep),
        seed: sweep.plan.seed,
        endpoints: indices.iter().map(|index| state.matrix().name(*index).to_string()).collect(),
        pairs,
        reasons,
    }
}

/// Id, text and next step of a reason.
type Words = (&'static str, &'static str, &'static str);

/// What came of a pair, and why where it has no figure.
fn came_of(pair: &FoundPair) -> (PairState, Option<Words>) {
    match pair.found.map(|found| found.value) {
        Ok(Ok(_)) => (PairState::Measured, None),
        Ok(Err(Miss::Failed(cause))) => {
            (PairState::Failed, Some((cause.id(), cause.text(), cause.next_step())))
        }
        Ok(Err(Miss::Excluded(why))) => {
            (PairState::Excluded, Some((why.as_str(), why.text(), why.next_step())))
        }
        Ok(Err(Miss::Aborted)) => (PairState::Excluded, Some(ABORTED)),
        Err(why) => (PairState::NotRun, Some(not_run(why))),
    }
}

fn ceiling(state: &Coordinator, pair: &FoundPair) -> Option<u64> {
    if pair.metric != Metric::Bandwidth {
        return None;
    }
    let info = |index| state.members().endpoint(index).map(|endpoint| &endpoint.info);
    let ends = [info(pair.source)?, info(pair.target)?];
    ceiling_bps(ends, expected_mtu(ends))
}

const ABORTED: Words = (
    "aborted",
    "The stream was given up so as not to hurt a job.",
    "Say that the nodes carry no job (drained), or try when it is over.",
);

fn not_run(why: NotRun) -> Words {
    match why {
        NotRun::NotYet => ("not-yet", "Its turn has not come yet.", "Wait for the end of the sweep."),
        NotRun::Cancelled => ("cancelled", "The sweep was ended early.", "Run it again."),
        NotRun::GivenUp => (
            "given-up",
            "An end of the pair failed with everybody and was tried again in vain.",
            "See why its other pairs failed.",
        ),
        NotRun::OutOfBytes => (
            "out-of-bytes",
            "The bytes that one sweep may send were used up.",
            "Name fewer nodes, or raise coordinator.sweep.gigabytes_max.",
        ),
        NotRun::Nothing => (
            "nothing",
            "Nobody told how it went: an end left, or is in maintenance.",
            "See whether the agents of both ends are connected.",
        ),
    }
}
