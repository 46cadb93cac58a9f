//! Sweeps as the API shows them: what they are going to be, how far they are, what they found; and what goes on by itself.

use rdmascope_control::coordinator::{Coordinator, Covering, Found, Sweep, SweepOrder};
use rdmascope_expose::api::{
    ContinuousView, CoveringView, MetricChoice, SweepKind, SweepList, SweepPair, SweepPlan, SweepRequest,
    SweepResult, SweepState, SweepView,
};
use rdmascope_localise::median;
use rdmascope_model::{Metric, Now};

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
        state: if sweep.finished_at.is_some() { SweepState::Done } else { SweepState::Running },
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
    let mut of: Vec<&Found> = found.iter().filter(|found| found.metric == metric).collect();
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
        cause: found.value.err().map(str::to_owned),
    };
    Some(SweepResult {
        metric: choice(&[metric]),
        measured: values.len() as u64,
        failed: (of.len() - values.len()) as u64,
        worst: of.iter().take(WORST_MAX).map(pair).collect(),
        median: median(&mut values),
    })
}
