//! `/metrics` of the coordinator: the cluster and its matrix in short, bounded by code at any size.

use rdmascope_model::{Metric, Status};

use super::agent::paused;
use super::build::build_info;
use super::catalogue::{
    AGENTS_WITHOUT_METRICS, CLUSTER_FINDINGS, COVERAGE_SECONDS, DRIFT_PARTS, ENDPOINTS, EPOCH, GRANTS,
    INSECURE, LEASES, MATRIX_AGE, MATRIX_COVERAGE, MATRIX_MEDIAN_BANDWIDTH, MATRIX_MEDIAN_LATENCY,
    MATRIX_MEDIAN_PING, MATRIX_STALE_AFTER, NODES, NODES_MAINTENANCE, NODES_PAUSED, PAIRS_BY_STATE,
    PROBE_BANDWIDTH_RATIO, PROBE_LATENCY, QUEUE_ENTRIES, QUEUE_LIMIT, SWEEP_DURATION, SWEEP_PROBES,
    SWEEP_RUNNING,
};
use super::incidents::{IncidentInput, incidents};
use super::spread::{GroupInput, NodeFailures, WorstPairInput, failures, groups, worst};
use super::text::{SpreadInput, Text};
use crate::api::{CellState, PauseLevel};

const NS_PER_SECOND: f64 = 1e9;
const BITS_PER_BYTE: f64 = 8.0;

/// What the coordinator tells about the cluster.
#[derive(Clone, Debug)]
pub struct CoordinatorInput<'a> {
    /// Version of the program.
    pub version: &'a str,
    /// Its epoch.
    pub epoch: u64,
    /// Open to the network without credentials.
    pub insecure: bool,
    /// What is paused on the whole cluster.
    pub paused: PauseLevel,
    /// Nodes whose agent is connected.
    pub nodes_connected: u64,
    /// Nodes whose agent is not.
    pub nodes_lost: u64,
    /// Nodes on which only bandwidth is paused, by a pause of their own.
    pub nodes_paused_bandwidth: u64,
    /// Nodes on which everything is paused, by a pause of their own.
    pub nodes_paused_all: u64,
    /// Nodes that are in maintenance.
    pub nodes_maintenance: u64,
    /// Agents whose own metrics nobody can read.
    pub without_metrics: u64,
    /// Parts that differ from most of their kind, by setting.
    pub drifting: &'a [(&'a str, u64)],
    /// Findings of all nodes and between them.
    pub findings: FindingCounts,
    /// Incidents that are not over, the worst first.
    pub incidents: &'a [IncidentInput],
    /// Endpoints that can be probed.
    pub endpoints_usable: u64,
    /// Endpoints that are reported and cannot be probed.
    pub endpoints_unusable: u64,
    /// Endpoints that are no longer reported.
    pub endpoints_gone: u64,
    /// Mesh grants in force.
    pub grants: u64,
    /// Pair leases in force.
    pub leases: u64,
    /// The coordinator's bounded queues.
    pub queues: &'a [QueueInput<'a>],
    /// One entry per metric.
    pub metrics: &'a [MetricInput],
    /// In which time every pair is looked at once, seconds.
    pub coverage_seconds: Option<f64>,
    /// Pairs by rail and distance.
    pub groups: &'a [GroupInput<'a>],
    /// The worst pairs of each rail.
    pub worst: &'a [WorstPairInput<'a>],
    /// Nodes that have failed pairs.
    pub failures: &'a [NodeFailures<'a>],
    /// Latencies since the start, by method, rail and scope.
    pub latencies: &'a [SpreadInput<'a>],
    /// Shares of the line rate since the start, likewise.
    pub ratios: &'a [SpreadInput<'a>],
}

/// What becomes of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingState {
    /// Somebody should look.
    Open,
    /// Somebody knows of it.
    Acknowledged,
    /// Somebody works on its node.
    Maintenance,
}

impl FindingState {
    const ALL: [Self; 3] = [Self::Open, Self::Acknowledged, Self::Maintenance];

    fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Acknowledged => "acknowledged",
            Self::Maintenance => "maintenance",
        }
    }
}

/// How many findings there are of each status above ok, by what becomes of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct FindingCounts([[u64; FindingState::ALL.len()]; Self::STATUSES.len()]);

impl FindingCounts {
    const STATUSES: [Status; 3] = [Status::Fail, Status::Unknown, Status::Warn];

    /// One more; one that is ok does not count.
    pub fn add(&mut self, status: Status, state: FindingState) {
        for (known, row) in Self::STATUSES.iter().zip(&mut self.0) {
            for (becomes, count) in FindingState::ALL.iter().zip(row) {
                *count += u64::from(*known == status && *becomes == state);
            }
        }
    }
}

/// One bounded queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueInput<'a> {
    /// Its name.
    pub name: &'a str,
    /// Entries in it.
    pub entries: u64,
    /// Entries that it can hold.
    pub limit: u64,
}

/// The matrix of one metric, in short.
#[derive(Clone, Debug)]
pub struct MetricInput {
    /// Which.
    pub metric: Metric,
    /// Ordered pairs by state, in the order of [`CellState::ALL`].
    pub pairs: [u64; CellState::ALL.len()],
    /// Age of the oldest figure, seconds.
    pub age_seconds: Option<f64>,
    /// Age from which a cell is stale, seconds.
    pub stale_after_seconds: f64,
    /// Median of the fresh cells, ns or bits per second.
    pub median: Option<u64>,
    /// The running sweep, else the last one.
    pub sweep: Option<SweepInput>,
}

impl MetricInput {
    /// Share of pairs of which something is known now, of all that are not excluded.
    fn coverage(&self) -> Option<f64> {
        let count = |wanted: &[CellState]| -> u64 {
            CellState::ALL.iter().zip(self.pairs).filter(|(s, _)| wanted.contains(s)).map(|(_, n)| n).sum()
        };
        let known = count(&[CellState::Fresh, CellState::Failed]);
        let all = known + count(&[CellState::Stale, CellState::Never]);
        (all > 0).then(|| known as f64 / all as f64)
    }
}

/// Progress of a sweep.
#[derive(Clone, Copy, Debug)]
pub struct SweepInput {
    /// It runs now.
    pub running: bool,
    /// How long it has taken so far, or took, seconds.
    pub seconds: f64,
    /// Probes planned.
    pub total: u64,
    /// Probes that have their answer.
    pub done: u64,
    /// Of these, failed.
    pub failed: u64,
    /// Of these, excluded.
    pub excluded: u64,
}

/// The text of the coordinator's own families.
#[must_use]
pub fn coordinator(input: &CoordinatorInput<'_>) -> String {
    let mut text = Text::default();
    build_info(&mut text, input.version, "coordinator");
    paused(&mut text, input.paused);
    cluster(&mut text, input);
    incidents(&mut text, input.incidents);
    sweeps(&mut text, input.metrics);
    matrix(&mut text, input.metrics);
    input.coverage_seconds.iter().for_each(|seconds| text.single(&COVERAGE_SECONDS, seconds));
    groups(&mut text, input.groups);
    worst(&mut text, input.worst);
    failures(&mut text, input.failures);
    text.histogram(&PROBE_LATENCY, input.latencies);
    text.histogram(&PROBE_BANDWIDTH_RATIO, input.ratios);
    text.done()
}

fn cluster(text: &mut Text, input: &CoordinatorInput<'_>) {
    text.family(&NODES, |out| {
        out.add(&["connected"], input.nodes_connected);
        out.add(&["lost"], input.nodes_lost);
    });
    text.family(&NODES_PAUSED, |out| {
        out.add(&["bandwidth"], input.nodes_paused_bandwidth);
        out.add(&["all"], input.nodes_paused_all);
    });
    text.single(&NODES_MAINTENANCE, input.nodes_maintenance);
    text.single(&AGENTS_WITHOUT_METRICS, input.without_metrics);
    text.family(&DRIFT_PARTS, |out| input.drifting.iter().for_each(|(key, parts)| out.add(&[key], parts)));
    text.family(&CLUSTER_FINDINGS, |out| {
        for (status, row) in FindingCounts::STATUSES.iter().zip(input.findings.0) {
            for (state, count) in FindingState::ALL.iter().zip(row) {
                out.add(&[status.as_str(), state.as_str()], count);
            }
        }
    });
    text.family(&ENDPOINTS, |out| {
        out.add(&["usable"], input.endpoints_usable);
        out.add(&["unusable"], input.endpoints_unusable);
        out.add(&["gone"], input.endpoints_gone);
    });
    text.single(&INSECURE, u8::from(input.insecure));
    text.single(&EPOCH, input.epoch);
    text.single(&GRANTS, input.grants);
    text.single(&LEASES, input.leases);
    text.family(&QUEUE_ENTRIES, |out| input.queues.iter().for_each(|q| out.add(&[q.name], q.entries)));
    text.family(&QUEUE_LIMIT, |out| input.queues.iter().for_each(|q| out.add(&[q.name], q.limit)));
}

fn sweeps(text: &mut Text, metrics: &[MetricInput]) {
    text.family(&SWEEP_RUNNING, |out| {
        // Pings need no sweep.
        for row in metrics.iter().filter(|row| row.metric != Metric::Ping) {
            out.add(&[row.metric.as_str()], u8::from(row.sweep.is_some_and(|sweep| sweep.running)));
        }
    });
    text.family(&SWEEP_DURATION, |out| {
        for (metric, sweep) in metrics.iter().filter_map(|row| Some((row.metric.as_str(), row.sweep?))) {
            out.add(&[metric], sweep.seconds);
        }
    });
    text.family(&SWEEP_PROBES, |out| {
        for (metric, sweep) in metrics.iter().filter_map(|row| Some((row.metric.as_str(), row.sweep?))) {
            let measured = sweep.done.saturating_sub(sweep.failed + sweep.excluded);
            let waiting = sweep.total.saturating_sub(sweep.done);
            let states = [
                ("measured", measured),
                ("failed", sweep.failed),
                ("excluded", sweep.excluded),
                ("waiting", waiting),
            ];
            states.into_iter().for_each(|(state, count)| out.add(&[metric, state], count));
        }
    });
}

fn matrix(text: &mut Text, metrics: &[MetricInput]) {
    text.family(&PAIRS_BY_STATE, |out| {
        for row in metrics {
            for (state, count) in CellState::ALL.iter().zip(row.pairs) {
                out.add(&[row.metric.as_str(), state.as_str()], count);
            }
        }
    });
    text.family(&MATRIX_AGE, |out| {
        for (row, age) in metrics.iter().filter_map(|row| Some((row, row.age_seconds?))) {
            out.add(&[row.metric.as_str()], age);
        }
    });
    text.family(&MATRIX_COVERAGE, |out| {
        for (row, share) in metrics.iter().filter_map(|row| Some((row, row.coverage()?))) {
            out.add(&[row.metric.as_str()], share);
        }
    });
    text.family(&MATRIX_STALE_AFTER, |out| {
        metrics.iter().for_each(|row| out.add(&[row.metric.as_str()], row.stale_after_seconds));
    });
    for (metric, family, unit) in [
        (Metric::Latency, &MATRIX_MEDIAN_LATENCY, NS_PER_SECOND),
        (Metric::Bandwidth, &MATRIX_MEDIAN_BANDWIDTH, BITS_PER_BYTE),
        (Metric::Ping, &MATRIX_MEDIAN_PING, NS_PER_SECOND),
    ] {
        if let Some(median) = metrics.iter().find(|row| row.metric == metric).and_then(|row| row.median) {
            text.single(family, median as f64 / unit);
        }
    }
}
