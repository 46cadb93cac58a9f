//! `GET /api/v1/diagnosis`: what is wrong now, or whether it is the network of a job's nodes; from what is known, without a probe.

use crate::api::{json, problem};
use crate::findings::findings;
use crate::hub::Hub;
use crate::incidents::{goes_on, going_on};
use crate::query::Query;
use crate::views;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use rdmascope_control::coordinator::{Coordinator, Shown as Cells};
use rdmascope_expose::api::{
    DiagnosisView, FailedPair, LossyPair, NodeFinding, PairsView, Problem, WorstPairView,
};
use rdmascope_localise::job::{JobPairs, Known, PairFigures, Seen, Sight, answer};
use rdmascope_localise::{CellState, EndpointIndex, Incident};
use rdmascope_model::{Metric, Now, Status};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rows of the matrix that are looked at before others get their turn: some milliseconds at thousands of endpoints.
const ROWS_AT_ONCE: usize = 16;
/// Findings in one answer.
const FINDINGS_MAX: usize = 50;

/// Which nodes.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    nodes: Option<String>,
}

/// `GET /api/v1/diagnosis`.
pub(crate) async fn diagnosis(State(hub): State<Arc<Hub>>, Query(wanted): Query<Wanted>) -> Response {
    let names = wanted.nodes.unwrap_or_default();
    let nodes: BTreeSet<String> =
        names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let started = hub.read(|state, _| {
        let unknown: Vec<&String> =
            nodes.iter().filter(|node| state.members().agent(node).is_none()).collect();
        if unknown.is_empty() { Ok(job(state, &nodes)) } else { Err(unknown_nodes(state, &unknown)) }
    });
    let mut job = match started {
        Ok(job) => job,
        Err(wrong) => return problem(&wrong),
    };
    for pass in [JobPairs::sample, JobPairs::count] {
        let mut row = 0;
        while row < job.rows() {
            hub.read(|state, now| {
                let cells = state.shown(now.wall);
                let metric_of = |source, target| network_metric(&cells, source, target);
                let sight = Sight {
                    matrix: state.matrix(),
                    places: state.places(),
                    metric_of: &metric_of,
                    now: now.wall,
                    fresh_for: state.fresh_for(),
                };
                (row..job.rows()).take(ROWS_AT_ONCE).for_each(|row| pass(&mut job, &sight, row));
            });
            row += ROWS_AT_ONCE;
            tokio::task::yield_now().await;
        }
    }
    let view = hub.read(|state, now| view(state, now, nodes, &job));
    json(StatusCode::OK, &view)
}

fn unknown_nodes(state: &Coordinator, unknown: &[&String]) -> Problem {
    let named: Vec<&str> = unknown.iter().take(20).map(|node| node.as_str()).collect();
    Problem::not_found(format!("no node {}: no agent of that name was ever there", named.join(", ")))
        .with_known(state.members().agents().map(|(name, _)| name))
}

/// The pairs to look at: among the nodes, or between one node and all others.
fn job(state: &Coordinator, nodes: &BTreeSet<String>) -> JobPairs {
    let there = state.members().endpoints().filter(|(_, endpoint)| endpoint.gone_since.is_none());
    let meant = |node: &String| nodes.is_empty() || nodes.contains(node);
    let (own, others): (Vec<_>, Vec<_>) = there.partition(|(_, endpoint)| meant(&endpoint.info.name.node));
    let numbers = |of: Vec<(EndpointIndex, _)>| of.into_iter().map(|(index, _)| index).collect();
    let alone = nodes.len() == 1;
    JobPairs::new(numbers(own), if alone { numbers(others) } else { Vec::new() })
}

/// How a pair's way through the network is measured continuously; `None` for what is no pair.
fn network_metric(cells: &Cells<'_>, source: EndpointIndex, target: EndpointIndex) -> Option<Metric> {
    [Metric::Ping, Metric::Latency].into_iter().find(|metric| cells.is_expected(*metric, source, target))
}

fn view(state: &Coordinator, now: Now, nodes: BTreeSet<String>, job: &JobPairs) -> DiagnosisView {
    let meant = |node: &str| nodes.is_empty() || nodes.contains(node);
    let touches = |incident: &Incident| {
        let touched = state.touched(incident);
        touched.everywhere || touched.nodes.iter().any(|node| meant(node))
    };
    let incidents = going_on(state, |incident, _| touches(incident));
    let mut findings = findings(state, |node, _| meant(node) && (nodes.is_empty() || !node.is_empty()));
    let counted: BTreeSet<u64> =
        incidents.iter().filter(|i| i.counts() || i.state == "suspected").map(|i| i.id).collect();
    let known = Known {
        incidents: state.incidents().iter().filter(|i| goes_on(i) && counted.contains(&i.id)).collect(),
        failing: findings.iter().filter(|found| fails(found)).map(in_words).collect(),
        away: members(state, &nodes, |connected, _| !connected),
        mute: if nodes.is_empty() {
            Vec::new()
        } else {
            members(state, &nodes, |connected, usable| connected && !usable)
        },
        nodes: nodes.len(),
    };
    let name = |index| state.matrix().name(index).to_string();
    let (kind, text, next_step) =
        answer(&known, &Seen { figures: job.figures(), name: &name, now: now.wall });
    let pairs = job.figures().iter().filter(|(_, figures)| figures.pairs > 0);
    let pairs = pairs.map(|(metric, figures)| pairs_view(*metric, figures, &name, now)).collect();
    let all = findings.len();
    findings.truncate(FINDINGS_MAX);
    DiagnosisView {
        nodes: nodes.into_iter().collect(),
        answer: kind.as_str().to_owned(),
        text,
        next_step,
        incidents,
        findings_left_out: (all - findings.len()) as u64,
        findings,
        pairs,
    }
}

/// It is broken, it has settled, and nobody knows of it or works there.
fn fails(found: &NodeFinding) -> bool {
    let is_known = found.acknowledged.is_some() || found.maintenance;
    found.status == Status::Fail.as_str() && !found.settling && !found.latched && !is_known
}

fn in_words(found: &NodeFinding) -> (String, String) {
    let node = if found.node.is_empty() { "cluster" } else { &found.node };
    (format!("{node} {}: {} [{}]", found.subject, found.summary, found.id), found.next_step.clone())
}

/// Nodes by whether their agent is connected and an endpoint of theirs can be probed; those in maintenance are left out.
fn members(
    state: &Coordinator,
    nodes: &BTreeSet<String>,
    wanted: impl Fn(bool, bool) -> bool,
) -> Vec<String> {
    let usable: BTreeSet<&str> = state
        .members()
        .endpoints()
        .filter(|(_, endpoint)| views::usable(state, endpoint))
        .map(|(_, endpoint)| endpoint.info.name.node.as_str())
        .collect();
    let meant = |node: &str| nodes.is_empty() || nodes.contains(node);
    let agents = state.members().agents().filter(|(node, _)| meant(node));
    let found = agents.filter(|(node, member)| {
        let connected = member.connection.is_some();
        state.health().maintenance_of(node).is_none() && wanted(connected, usable.contains(node))
    });
    found.map(|(node, _)| node.to_owned()).collect()
}

fn pairs_view(
    metric: Metric,
    figures: &PairFigures,
    name: &dyn Fn(EndpointIndex) -> String,
    now: Now,
) -> PairsView {
    let worst = figures.worst.map(|worst| WorstPairView {
        source: name(worst.source),
        target: name(worst.target),
        value: worst.value,
        median: worst.median,
        slower: worst.slower,
        distance: worst.tier.distance.as_str().to_owned(),
        compared: worst.compared,
    });
    let lossiest = figures.lossiest.map(|(source, target, loss_ratio)| LossyPair {
        source: name(source),
        target: name(target),
        loss_ratio,
    });
    let failures = figures.failures.iter().map(|(source, target, cause)| FailedPair {
        source: name(*source),
        target: name(*target),
        cause: cause.id().to_owned(),
        text: cause.text().to_owned(),
    });
    PairsView {
        metric: metric.as_str().to_owned(),
        pairs: figures.pairs,
        fresh: figures.count(CellState::Fresh),
        stale: figures.count(CellState::Stale),
        never: figures.count(CellState::Never),
        failed: figures.count(CellState::Failed),
        excluded: figures.count(CellState::Excluded),
        oldest_seconds: figures.oldest.map(|at| now.wall.since(at).as_secs_f64()),
        lossy: figures.lossy,
        loss_ratio: figures.loss_ratio(),
        lossiest,
        slow: figures.slow,
        worst,
        failures: failures.collect(),
    }
}
