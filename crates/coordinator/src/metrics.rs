//! `/metrics` and `/metrics/pairs`: what the state holds, in the text that Prometheus reads. Reading never measures.

use crate::hub::{FRAMES_QUEUED_MAX, Hub};
use crate::views::{self, CLOCK, VERSION};
use crate::{findings, incidents};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use rdmascope_control::coordinator::{Coordinator, Shown as Cells, Sweep};
use rdmascope_expose::api::{CellState as Shown, PauseLevel, Problem};
use rdmascope_expose::metrics::{
    self, CONTENT_TYPE, CoordinatorInput, MetricInput, PairBandwidth, PairLatency, PairPing, PairRow,
    QueueInput, SweepInput,
};
use rdmascope_localise::{Cell, EndpointIndex, Measured};
use rdmascope_model::{EndpointName, Metric, Now};
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
    let mut pairs = [0; Shown::ALL.len()];
    let mut oldest = None;
    let cells = state.shown(now.wall);
    for ((_, source), (_, target), cell) in all_cells(state, &cells, metric) {
        let measured = state.matrix().cell(metric, source, target) != Cell::Never;
        if !measured && !is_for(state, metric, source, target) {
            continue;
        }
        let shown = views::shown(cell.state(now.wall, cells.fresh_for(source, target)));
        Shown::ALL.iter().zip(&mut pairs).filter(|(s, _)| **s == shown).for_each(|(_, count)| *count += 1);
        if let Cell::Known { at, .. } = cell {
            let age = now.wall.since(at).as_secs_f64();
            oldest = Some(oldest.map_or(age, |known: f64| known.max(age)));
        }
    }
    let of_metric = |sweep: &&Sweep| sweep.metrics.contains(&metric);
    let requested = state.sweep().filter(of_metric);
    let running = requested.filter(|s| s.finished_at.is_none());
    let sweep = running.or_else(|| state.background_sweep().filter(of_metric)).or(requested);
    MetricInput {
        metric,
        pairs,
        age_seconds: oldest,
        stale_after_seconds: state.fresh_for().as_secs_f64(),
        median: views::Fresh::of(state, &cells, metric, now).median,
        sweep: sweep.map(|s| SweepInput {
            running: s.finished_at.is_none(),
            total: s.total as u64,
            done: s.done as u64,
            failed: s.failed as u64,
            excluded: s.excluded as u64,
        }),
    }
}

/// Pings are for the pairs that they cover, and for these nobody probes latency by itself: a pair that is never measured in one way
/// because the other has it is no gap. Nor is a pair whose ends are never paired.
pub(crate) fn is_for(
    state: &Coordinator,
    metric: Metric,
    source: EndpointIndex,
    target: EndpointIndex,
) -> bool {
    let (members, paired) = (state.members(), !state.never_meet(source, target));
    match metric {
        Metric::Latency => paired && !members.pings_cover(source, target),
        Metric::Bandwidth => paired,
        Metric::Ping => paired && members.pings_cover(source, target),
    }
}

/// Every ordered pair's cell of a metric, in the order of names.
fn all_cells<'a>(
    state: &'a Coordinator,
    cells: &'a Cells<'_>,
    metric: Metric,
) -> impl Iterator<Item = ((&'a EndpointName, EndpointIndex), (&'a EndpointName, EndpointIndex), Cell)> {
    let matrix = state.matrix();
    matrix.endpoints().flat_map(move |source| {
        let targets = matrix.endpoints().filter(move |target| target.1 != source.1);
        targets.map(move |target| (source, target, cells.cell(metric, source.1, target.1)))
    })
}

/// `GET /metrics/pairs`: a series for each pair while there are few.
pub(crate) async fn pairs(State(hub): State<Arc<Hub>>) -> Response {
    let body = hub.read(|state, now| {
        let endpoints = state.matrix().len() as u64;
        let total = endpoints * endpoints.saturating_sub(1);
        let cells = state.shown(now.wall);
        let rows = all_cells(state, &cells, Metric::Latency)
            .map(|(source, target, latency)| row(state, &cells, source, target, &latency, now));
        let rows: Vec<_> = rows.collect();
        metrics::pairs(total, hub.pairs_max.into(), rows.iter().cloned()).collect::<String>()
    });
    text(body)
}

fn row<'a>(
    state: &'a Coordinator,
    cells: &Cells<'_>,
    source: (&'a EndpointName, EndpointIndex),
    target: (&'a EndpointName, EndpointIndex),
    latency: &Cell,
    now: Now,
) -> PairRow<'a> {
    let bandwidth = cells.cell(Metric::Bandwidth, source.1, target.1);
    let fresh_for = cells.fresh_for(source.1, target.1);
    let state_of = |cell: &Cell| views::shown(cell.state(now.wall, fresh_for));
    let (p50_ns, p99_ns) = match latency {
        Cell::Known { measured: Measured::Latency(stats, _), .. } => (Some(stats.p50_ns), stats.p99_ns),
        _ => (None, None),
    };
    let average_bps = match &bandwidth {
        Cell::Known { measured: Measured::Bandwidth(stats, _), .. } => Some(stats.average_bps),
        _ => None,
    };
    let ping = cells.cell(Metric::Ping, source.1, target.1);
    let known = state.matrix().cell(Metric::Ping, source.1, target.1) != Cell::Never;
    let pinged = known || is_for(state, Metric::Ping, source.1, target.1);
    let pings = match &ping {
        Cell::Known { measured: Measured::Ping(figures), .. } => Some(figures),
        _ => None,
    };
    PairRow {
        source: source.0,
        target: target.0,
        rail: views::rail_of(state, source.1, target.1),
        latency: PairLatency {
            state: state_of(latency),
            p50_ns,
            p99_ns,
            method: views::method(state, Metric::Latency, source.1),
            clock: CLOCK,
        },
        bandwidth: PairBandwidth {
            state: state_of(&bandwidth),
            average_bps,
            method: views::method(state, Metric::Bandwidth, source.1),
            clock: CLOCK,
        },
        ping: pinged.then(|| PairPing {
            state: state_of(&ping),
            p50_ns: pings.and_then(|figures| figures.network).map(|network| network.p50_ns),
            clock: pings.map_or(CLOCK, |figures| figures.clock.as_str()),
        }),
    }
}
