//! `/metrics` and `/metrics/pairs`: what the state holds, in the text that Prometheus reads. Reading never measures.

use crate::hub::{FRAMES_QUEUED_MAX, Hub};
use crate::views::{self, CLOCK, VERSION};
use crate::{discovery, findings, incidents};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use rdmascope_control::coordinator::{Coordinator, Counted, Shown as Cells, Spread, Sweep};
use rdmascope_expose::api::{CellState as Shown, PauseLevel, Problem};
use rdmascope_expose::metrics::{
    self, CONTENT_TYPE, CoordinatorInput, GroupInput, MetricInput, NodeFailures, PairBandwidth, PairLatency,
    PairPing, PairRow, QueueInput, SpreadInput, SweepInput, WorstOf, WorstPairInput, WorstRow,
};
use rdmascope_localise::{Brief, CellState, EndpointIndex, Group, Worst};
use rdmascope_model::{Metric, Now};
use std::collections::{BTreeMap, BTreeSet};
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
    for (file, until) in hub.tls.get().map(|tls| tls.expires()).unwrap_or_default() {
        hub.own.daemon.certificate(&file, until);
    }
    let families = hub.read(|state, now| families(state, now, hub.insecure(), queue));
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
    let counted = Metric::ALL.map(|metric| (metric, state.counted(metric, now)));
    let per_metric: Vec<_> =
        counted.iter().map(|(metric, counted)| summary(state, *metric, counted, now)).collect();
    let [latencies, ratios] = [false, true].map(|ratio| spreads(state, ratio));
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
        without_metrics: discovery::left_out(state),
        drifting: &findings::drifting(state),
        findings: findings::counts(state),
        incidents: &incidents::inputs(state),
        endpoints_usable: endpoints(&|e| views::usable(state, e)),
        endpoints_unusable: endpoints(&|e| !views::usable(state, e) && e.gone_since.is_none()),
        endpoints_gone: endpoints(&|e| e.gone_since.is_some()),
        grants: if granted { connected } else { 0 },
        leases: state.leases_running() as u64,
        queues: &[queue],
        metrics: &per_metric,
        coverage_seconds: state.coverage().map(|covers| covers.as_secs_f64()),
        groups: &groups(state, &counted),
        worst: &worst_pairs(state, now),
        failures: &failures(state, &counted),
        latencies: &latencies,
        ratios: &ratios,
    })
}

fn spreads(state: &Coordinator, of_bandwidth: bool) -> Vec<SpreadInput<'_>> {
    let rows = state.spreads().iter().filter(|row| (row.metric == Metric::Bandwidth) == of_bandwidth);
    rows.map(|row| SpreadInput {
        labels: [views::method_over(row.tcp, row.metric), &row.rail, row.scope],
        bounds: Spread::bounds(row.metric),
        counts: &row.counts,
        sum: row.sum,
    })
    .collect()
}

fn groups<'a>(state: &'a Coordinator, counted: &[(Metric, Arc<Counted>)]) -> Vec<GroupInput<'a>> {
    let of_metric = |(metric, counted): &(Metric, Arc<Counted>)| {
        let metric = *metric;
        let input = |(number, pairs): (usize, &[u64; CellState::ALL.len()])| {
            let group = Group::of_number(number);
            let (rail, scope) = (group.rail.name(state.places()), group.scope());
            GroupInput { metric, rail, scope, pairs: as_shown(pairs) }
        };
        counted.tally.groups.iter().enumerate().map(input).collect::<Vec<_>>()
    };
    counted.iter().flat_map(of_metric).collect()
}

fn worst_pairs(state: &Coordinator, now: Now) -> Vec<WorstPairInput<'_>> {
    let (matrix, cells) = (state.matrix(), state.shown(now.wall));
    let mut inputs = Vec::new();
    for held in state.worst_pairs() {
        for &((source, target), _) in &held.pairs {
            let cell = cells.brief(held.metric, source, target);
            let is_fresh = cell.state(cells.light(source, target).fresh_since) == CellState::Fresh;
            let Brief::Known { headline: Some(figure), .. } = cell else { continue };
            if is_fresh {
                let (source, target) = (matrix.name(source), matrix.name(target));
                let (metric, rail) = (held.metric, held.rail.as_str());
                let method = matrix.find(source).map_or("unknown", |at| views::method(state, metric, at));
                inputs.push(WorstPairInput { metric, source, target, rail, method, figure });
            }
        }
    }
    inputs
}

fn failures<'a>(state: &'a Coordinator, counted: &[(Metric, Arc<Counted>)]) -> Vec<NodeFailures<'a>> {
    let mut failed: BTreeMap<(Metric, &str), u64> = BTreeMap::new();
    for (metric, counted) in counted {
        for ((name, _), ways) in state.matrix().endpoints().zip(&counted.tally.ends) {
            let of_node = failed.entry((*metric, &name.node)).or_default();
            *of_node += ways.iter().map(|way| u64::from(way.pairs[CellState::Failed as usize])).sum::<u64>();
        }
    }
    failed.into_iter().map(|((metric, node), pairs)| NodeFailures { metric, node, pairs }).collect()
}

/// Counts by state, in the order in which states are shown.
fn as_shown(pairs: &[u64; CellState::ALL.len()]) -> [u64; Shown::ALL.len()] {
    Shown::ALL.map(|shown| {
        let state = CellState::ALL.into_iter().find(|state| views::shown(*state) == shown);
        state.map_or(0, |state| pairs[state as usize])
    })
}

fn summary(state: &Coordinator, metric: Metric, counted: &Counted, now: Now) -> MetricInput {
    let of_metric = |sweep: &&Sweep| sweep.metrics.contains(&metric);
    let requested = state.sweep().filter(of_metric);
    let running = requested.filter(|s| s.finished_at.is_none());
    let sweep = running.or_else(|| state.background_sweep().filter(of_metric)).or(requested);
    MetricInput {
        metric,
        pairs: as_shown(&counted.tally.pairs),
        age_seconds: counted.tally.oldest.map(|at| now.wall.since(at).as_secs_f64()),
        stale_after_seconds: state.fresh_for().as_secs_f64(),
        median: counted.tally.median(),
        sweep: sweep.map(|s| SweepInput {
            running: s.finished_at.is_none(),
            seconds: s.finished_at.unwrap_or(now.wall).since(s.started_at).as_secs_f64(),
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
    use rdmascope_control::coordinator::{ConnectionId, Event, Settings};
    use rdmascope_link::{Hello, PROTOCOL_MAX, PROTOCOL_MIN, ProbeResult, ToCoordinator};
    use rdmascope_localise::Matrix;
    use rdmascope_model::{
        Cause, CounterDelta, EndpointInfo, EndpointName, Fabric, Failure, LatencyStats, Mono, Outcome,
        Reading, Role, Side, Step, SwitchPort, Wall,
    };

    const NOW: Now = Now { mono: Mono(1), wall: Wall(2_000) };

    fn latency(p50_ns: u64) -> Outcome {
        let (min_ns, p90_ns, max_ns) = (p50_ns, p50_ns, p50_ns);
        let (p99_ns, p999_ns) = (None, None);
        let stats =
            LatencyStats { count: 9, min_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns, host_delayed: 0 };
        Outcome::Latency(stats, CounterDelta { retransmits: None })
    }

    /// So many nodes of eight ports, each on its rail and 32 nodes on a leaf; the first eight endpoints reach nobody, the next eight everybody.
    fn filled(nodes: usize) -> Coordinator {
        let mut state = Coordinator::new(Settings::default(), 1);
        let name = |node: usize, rail: usize| format!("n{node}/d{rail}/1").parse::<EndpointName>().unwrap();
        for node in 0..nodes {
            let connection = ConnectionId(node as u64 + 1);
            let hello = Hello {
                protocol_min: PROTOCOL_MIN,
                protocol_max: PROTOCOL_MAX,
                agent_version: "1".to_owned(),
                node: format!("n{node}"),
                instance: 1,
                machine: format!("n{node}"),
                metrics: None,
            };
            state.handle(Event::Frame(connection, ToCoordinator::Hello(hello)), NOW);
            let endpoint = |rail: usize| EndpointInfo {
                rail: Some(format!("rail-{rail}")),
                switch_port: Reading::Value(SwitchPort {
                    switch: format!("leaf-{}-{rail}", node / 32),
                    port: None,
                }),
                ..EndpointInfo::bare(name(node, rail), Fabric::Simulated)
            };
            let inventory = ToCoordinator::inventory((0..8).map(endpoint).collect(), Vec::new());
            state.handle(Event::Frame(connection, inventory), NOW);
        }
        let result = |outcome: Outcome, source: usize, target: usize| ProbeResult {
            lease: None,
            local: name(source / 8, source % 8),
            peer: name(target / 8, target % 8),
            role: Role::Source,
            metric: Some(Metric::Latency),
            measured_at: Wall(1_500),
            outcome,
            effects: None,
            evidence: String::new(),
        };
        let failure = Failure {
            cause: Cause::PortDown,
            step: Step::Admit,
            side: Side::Source,
            evidence: String::new(),
        };
        for source in 0..16.min(nodes * 8) {
            let connection = ConnectionId(source as u64 / 8 + 1);
            let outcome = |target: usize| match source {
                0..8 => Outcome::Failed(failure.clone()),
                _ => latency(1_000 + target as u64),
            };
            let others = (0..nodes * 8).filter(|target| *target != source);
            let results: Vec<_> = others.map(|target| result(outcome(target), source, target)).collect();
            for part in results.chunks(100) {
                state.handle(Event::Frame(connection, ToCoordinator::Results(part.to_vec())), NOW);
            }
        }
        let later = Now { mono: NOW.mono.after(std::time::Duration::from_secs(1)), ..NOW };
        state.handle(Event::Tick, later);
        // The first of the metrics once, in portions of a quarter of a million pairs.
        for _ in 0..70 {
            state.count_on(later);
        }
        state
    }

    fn series(state: &Coordinator) -> (usize, String) {
        let queue = QueueInput { name: "agent_frames", entries: 0, limit: 1 };
        let text = families(state, NOW, false, queue);
        (text.lines().filter(|line| !line.starts_with('#')).count(), text)
    }

    #[test]
    fn the_number_of_series_is_bounded_by_code_and_hardly_grows_with_the_cluster() {
        let ((few, small), (many, large)) = (series(&filled(8)), series(&filled(512)));
        eprintln!("series of /metrics: {few} with 64 endpoints, {many} with 4,096");
        assert!(few <= 1_500 && many <= 2_000, "{few} and {many}");
        for text in [&small, &large] {
            let of = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
            assert!((1..=50).contains(&of("rdmascope_node_failed_pairs{")), "{text}");
            assert!((20..=9 * 20).contains(&of("rdmascope_worst_pair_latency_seconds{")), "{text}");
            assert!(
                text.contains(
                    r#"rdmascope_rail_pairs{metric="latency",rail="rail-0",scope="leaf",state="fresh"}"#
                ),
                "{text}"
            );
            assert!(text.contains(r#"rail="cross",scope="node""#), "{text}");
        }
    }

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
