//! `/metrics` and `/metrics/pairs`: what the state holds, in the text that Prometheus reads. Reading never measures.

use crate::hub::{FRAMES_QUEUED_MAX, Hub};
use crate::views::{self, CLOCK, VERSION};
use crate::{findings, incidents};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use rdmascope_control::coordinator::{Coordinator, Counted, Shown as Cells, Sweep};
use rdmascope_expose::api::{CellState as Shown, PauseLevel, Problem};
use rdmascope_expose::metrics::{
    self, CONTENT_TYPE, CoordinatorInput, MetricInput, PairBandwidth, PairLatency, PairPing, PairRow,
    QueueInput, SweepInput, WorstOf, WorstRow,
};
use rdmascope_localise::{Brief, CellState, EndpointIndex, Worst};
use rdmascope_model::{Metric, Now};
use std::collections::BTreeSet;
use std::sync::Arc;

fn text(body: String) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response()
}

/// `GET /metrics`: grows with the number of nodes, not of pairs.
pub(crate) async fn all(State(hub): State<Arc<Hub>>) -> Response {
    let queue = QueueInput {
        name: "agent_frames",
        entries: hub.fullest_queue() as u64,
        limit: FRAMES_QUEUED_MAX as u64,
    };
    let families = hub.read(|state, now| families(state, now, hub.insecure, queue));
    match metrics::encode(&hub.registry) {
        Ok(own) => text(families + &own),
        Err(error) => crate::api::problem(&Problem::internal(error.to_string())),
    }
}

fn families(state: &Coordinator, now: Now, insecure: bool, queue: QueueInput<'_>) -> String {
    let members = state.members();
    let connected = members.connected() as u64;
    let paused_nodes = |level| {
        members.agents().filter(|(_, m)| views::level(m.local_pause.or(m.operator_pause)) == level).count()
            as u64
    };
    let endpoints = |which: &dyn Fn(&rdmascope_control::coordinator::Endpoint) -> bool| {
        members.endpoints().filter(|(_, e)| which(e)).count() as u64
    };
    let in_maintenance = |node: &str| state.health().maintenance_of(node).is_some();
    let per_metric = Metric::ALL.map(|metric| summary(state, metric, now));
    let granted = state.coverage().is_some() && !state.paused().all;
    metrics::coordinator(&CoordinatorInput {
        version: VERSION,
        epoch: state.epoch(),
        insecure,
        paused: views::level(state.paused()),
        nodes_connected: connected,
        nodes_lost: members.agents().count() as u64 - connected,
        nodes_paused_bandwidth: paused_nodes(PauseLevel::Bandwidth),
        nodes_paused_all: paused_nodes(PauseLevel::All),
        nodes_maintenance: members.agents().filter(|(node, _)| in_maintenance(node)).count() as u64,
        findings: findings::counts(state),
        incidents: &incidents::inputs(state),
        endpoints_usable: endpoints(&|e| views::usable(state, e)),
        endpoints_unusable: endpoints(&|e| !views::usable(state, e) && e.gone_since.is_none()),
        endpoints_gone: endpoints(&|e| e.gone_since.is_some()),
        grants: if granted { connected } else { 0 },
        leases: state.leases_running() as u64,
        queues: &[queue],
        metrics: &per_metric,
    })
}

fn summary(state: &Coordinator, metric: Metric, now: Now) -> MetricInput {
    let counted = state.counted(metric, now);
    let count = |shown: Shown| {
        let state = CellState::ALL.into_iter().find(|state| views::shown(*state) == shown);
        state.map_or(0, |state| counted.tally.count(state))
    };
    let of_metric = |sweep: &&Sweep| sweep.metrics.contains(&metric);
    let requested = state.sweep().filter(of_metric);
    let running = requested.filter(|s| s.finished_at.is_none());
    let sweep = running.or_else(|| state.background_sweep().filter(of_metric)).or(requested);
    MetricInput {
        metric,
        pairs: Shown::ALL.map(count),
        age_seconds: counted.tally.oldest.map(|at| now.wall.since(at).as_secs_f64()),
        stale_after_seconds: state.fresh_for().as_secs_f64(),
        median: counted.tally.median(),
        sweep: sweep.map(|s| SweepInput {
            running: s.finished_at.is_none(),
            total: s.total as u64,
            done: s.done as u64,
            failed: s.failed as u64,
            excluded: s.excluded as u64,
        }),
    }
}

/// `GET /metrics/pairs`: a series for each pair while there are few.
pub(crate) async fn pairs(State(hub): State<Arc<Hub>>) -> Response {
    text(hub.read(|state, now| pairs_text(state, now, hub.pairs_max.into())))
}

fn pairs_text(state: &Coordinator, now: Now, pairs_max: u64) -> String {
    let (matrix, cells) = (state.matrix(), state.shown(now.wall));
    let endpoints = matrix.len() as u64;
    let total = endpoints * endpoints.saturating_sub(1);
    if total <= pairs_max {
        let all = matrix.endpoints().flat_map(|(_, source)| {
            let others = matrix.endpoints().map(|(_, target)| target);
            others.filter(move |target| *target != source).map(move |target| (source, target))
        });
        let rows: Vec<_> = all.map(|(source, target)| row(state, &cells, source, target)).collect();
        return metrics::pairs(total, pairs_max, rows.iter().copied()).collect();
    }
    let counted = Metric::ALL.map(|metric| (metric, state.counted(metric, now)));
    // Once each, in the order of their numbers.
    let not_ok: BTreeSet<_> = counted
        .iter()
        .flat_map(|(_, counted)| counted.tally.failed.iter().chain(&counted.tally.stale))
        .collect();
    let rows: Vec<_> =
        not_ok.into_iter().map(|&(source, target)| row(state, &cells, source, target)).collect();
    let mut out: String = metrics::pairs(total, pairs_max, rows.iter().copied()).collect();
    for (place, of) in [WorstOf::Nodes, WorstOf::Leaves].into_iter().enumerate() {
        let worst: Vec<_> =
            counted.iter().flat_map(|(metric, counted)| worst(state, *metric, counted, place)).collect();
        if worst.len() as u64 <= pairs_max * Metric::ALL.len() as u64 {
            out += &metrics::worst_pairs(of, &worst);
        }
    }
    out
}

/// The worst figures between nodes (0) or leaves (1).
fn worst<'a>(
    state: &Coordinator,
    metric: Metric,
    counted: &'a Counted,
    place: usize,
) -> impl Iterator<Item = WorstRow<'a>> {
    let names = if place == 0 { &counted.nodes } else { &counted.leaves };
    let method = views::method_of_all(state, metric);
    let figures = counted.tally.worst.get(place).into_iter().flat_map(Worst::figures);
    figures.filter_map(move |(source, target, figure)| {
        Some(WorstRow { source: names.get(source)?, target: names.get(target)?, metric, method, figure })
    })
}

fn row<'a>(
    state: &'a Coordinator,
    cells: &Cells<'_>,
    source: EndpointIndex,
    target: EndpointIndex,
) -> PairRow<'a> {
    let matrix = state.matrix();
    let cell = |metric| cells.brief(metric, source, target);
    let [latency, bandwidth, ping] = [Metric::Latency, Metric::Bandwidth, Metric::Ping].map(cell);
    let fresh_since = cells.light(source, target).fresh_since;
    let state_of = |cell: Brief| views::shown(cell.state(fresh_since));
    let figures = |cell: Brief| match cell {
        Brief::Known { headline, p99_ns, .. } => (headline, p99_ns),
        _ => (None, None),
    };
    // What nobody measures in this way is not told of.
    let is_for = |metric| {
        matrix.written_at(metric, source, target).is_some() || cells.is_expected(metric, source, target)
    };
    PairRow {
        source: matrix.name(source),
        target: matrix.name(target),
        rail: views::rail_of(state, source, target),
        latency: is_for(Metric::Latency).then(|| PairLatency {
            state: state_of(latency),
            p50_ns: figures(latency).0,
            p99_ns: figures(latency).1,
            method: views::method(state, Metric::Latency, source),
            clock: CLOCK,
        }),
        bandwidth: PairBandwidth {
            state: state_of(bandwidth),
            average_bps: figures(bandwidth).0,
            method: views::method(state, Metric::Bandwidth, source),
            clock: CLOCK,
        },
        ping: is_for(Metric::Ping).then(|| PairPing {
            state: state_of(ping),
            p50_ns: figures(ping).0,
            clock: matrix.ping_clock(source, target).as_str(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_control::coordinator::Settings;
    use rdmascope_localise::Matrix;
    use rdmascope_model::{Cause, EndpointName, Failure, Mono, Side, Step, Wall};

    const NOW: Now = Now { mono: Mono(1), wall: Wall(2_000) };

    /// Ten endpoints of which one reached nobody.
    fn state() -> Coordinator {
        let mut matrix = Matrix::default();
        let names = (0..10).map(|at| format!("n{at}/d/1").parse::<EndpointName>().unwrap());
        let names: Vec<_> = names.collect();
        let all: Vec<_> = names.iter().map(|name| matrix.intern(name)).collect();
        let evidence = "state DOWN".to_owned();
        let failure = Failure { cause: Cause::PortDown, step: Step::Admit, side: Side::Source, evidence };
        for &target in &all[1..] {
            matrix.fail(Metric::Latency, all[0], target, Wall(1_000), &failure);
        }
        let mut part = Vec::new();
        matrix.keep(Metric::Latency, all[0], 10, &mut part);
        let mut state = Coordinator::new(Settings::default(), 1);
        let numbers = state.restore_names(&names);
        assert_eq!(state.restore(&part, &numbers, NOW), Ok(9));
        state
    }

    #[test]
    fn pairs_that_failed_are_there_on_both_sides_of_the_limit() {
        let state = state();
        for (pairs_max, series, left_out) in [(90, 90, 0), (89, 9, 81)] {
            let text = pairs_text(&state, NOW, pairs_max);
            let of = |words: &str| {
                let line = |line: &&str| line.starts_with("rdmascope_pair_state{") && line.contains(words);
                text.lines().filter(line).count()
            };
            assert_eq!(of(r#"metric="latency",state="failed""#), 9, "limit {pairs_max}: {text}");
            assert_eq!(of(r#"metric="latency""#), series, "limit {pairs_max}");
            assert!(text.contains(&format!("rdmascope_pairs_left_out {left_out}\n")), "limit {pairs_max}");
        }
    }
}
