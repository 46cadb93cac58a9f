//! From the measurements and verdicts of an operator's run to what the API shows.

use crate::api::json;
use crate::hub::Hub;
use crate::query::Query;
use crate::views;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use rdmascope_control::coordinator::{Coordinator, ProbeRun, RunKind};
use rdmascope_expose::api::{
    EndView, EndpointView, FailureView, IncastSourceView, IncastView, MannerView, MeasurementState,
    MeasurementView, MetricChoice, PriorityCount, ProbeKind, ProbeList, ProbeState, ProbeStep, ProbeView,
    ServiceList, ServiceView, SkippedView, VerdictView,
};
use rdmascope_localise::Cell;
use rdmascope_localise::pair::{Incast, Measurement, Progress, Verdict, ceiling_bps, expected_mtu};
use rdmascope_model::{Carrier, EndpointInfo, Fabric, Manner, Metric, Now, Outcome};
use serde::Deserialize;
use std::sync::Arc;

/// Which probes.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    source: Option<String>,
    target: Option<String>,
    limit: Option<usize>,
}

/// `GET /api/v1/probes`.
pub(crate) async fn probes(State(hub): State<Arc<Hub>>, Query(wanted): Query<Wanted>) -> Response {
    let limit = wanted.limit.map_or(usize::MAX, |limit| limit.max(1));
    let probes = hub.read(|state, now| {
        let is = |name: &Option<String>, index| {
            name.as_ref().is_none_or(|name| *name == state.matrix().name(index).to_string())
        };
        let fits =
            |(_, run): &(u64, &ProbeRun)| is(&wanted.source, run.source) && is(&wanted.target, run.target);
        let found = state.probes().filter(fits).take(limit);
        found.map(|(id, run)| probe(state, id, run, now)).collect()
    });
    json(StatusCode::OK, &ProbeList { probes })
}

/// An operator's run as the API shows it.
#[must_use]
pub fn probe(state: &Coordinator, id: u64, run: &ProbeRun, now: Now) -> ProbeView {
    let over = run.left == 0;
    let (failure, excluded) =
        if run.kind == RunKind::Probe && over { ending(state, run) } else { (None, None) };
    let progress = match (over, &failure, &excluded, run.steps.is_empty()) {
        (true, Some(_), _, _) => ProbeState::Failed,
        (true, None, Some(_), _) => ProbeState::Excluded,
        (true, None, None, _) => ProbeState::Done,
        (false, _, _, true) => ProbeState::Waiting,
        (false, _, _, false) => ProbeState::Running,
    };
    let metric = match run.metrics[..] {
        [Metric::Latency] => MetricChoice::Latency,
        [Metric::Bandwidth] => MetricChoice::Bandwidth,
        [Metric::Ping] => MetricChoice::Ping,
        _ => MetricChoice::All,
    };
    let steps = run.steps.iter().map(|step| ProbeStep {
        at_ms: step.at_ms,
        side: step.side.as_str().to_owned(),
        step: step.step.as_str().to_owned(),
        text: step.text.clone(),
    });
    let infos = run.ends.as_ref().map(|[a, b]| [&a.info, &b.info]);
    ProbeView {
        id,
        source: state.matrix().name(run.source).to_string(),
        target: state.matrix().name(run.target).to_string(),
        metric,
        state: progress,
        steps: steps.collect(),
        pair: over.then(|| views::pair(state, run.source, run.target, now)),
        failure,
        excluded,
        kind: match run.kind {
            RunKind::Probe => ProbeKind::Probe,
            RunKind::Full => ProbeKind::Full,
            RunKind::Incast => ProbeKind::Incast,
        },
        ends: infos
            .iter()
            .flatten()
            .zip([run.source, run.target])
            .map(|(info, index)| views::placed(state, index, EndpointView::new(info, None)))
            .collect(),
        measurements: run.measurements.iter().map(|m| measurement(m, infos)).collect(),
        skipped: run
            .skipped
            .iter()
            .map(|s| SkippedView { part: s.part.as_str().to_owned(), reason: s.reason.clone() })
            .collect(),
        verdicts: run.verdicts().into_iter().map(verdict).collect(),
        incast: run.incast().map(incast),
    }
}

/// A ratio with the digits that mean something.
fn rounded(ratio: f64) -> f64 {
    (ratio * 1e4).round() / 1e4
}

/// How an ordinary probe ended: its first failure, or else its first reason not to run.
fn ending(state: &Coordinator, run: &ProbeRun) -> (Option<FailureView>, Option<String>) {
    let failed = run.measurements.iter().find_map(|m| match &m.progress {
        Progress::Failed(failure) => Some(FailureView::new(failure)),
        _ => None,
    });
    let excluded = run.measurements.iter().find_map(|m| match &m.progress {
        Progress::Excluded(why) => Some(why.as_str().to_owned()),
        _ => None,
    });
    // Nothing was learned by this probe: what the matrix says of the pair stands.
    let nothing = run.measurements.iter().any(|m| m.progress == Progress::Nothing);
    let cell = run.metrics.iter().map(|&metric| state.matrix().cell(metric, run.source, run.target));
    let known = cell.filter(|_| nothing && failed.is_none()).find_map(|cell| match cell {
        Cell::Failed { failure, .. } => Some(FailureView::new(&failure)),
        _ => None,
    });
    (failed.or(known), excluded)
}

fn measurement(m: &Measurement, ends: Option<[&EndpointInfo; 2]>) -> MeasurementView {
    let aborted = m.told.iter().flatten().find_map(|told| match told.outcome {
        Outcome::Aborted(_, _, why) => Some(why.to_string()),
        _ => None,
    });
    let (state, failure, excluded) = match &m.progress {
        Progress::Waiting => (MeasurementState::Waiting, None, None),
        Progress::Running => (MeasurementState::Running, None, None),
        Progress::Done if aborted.is_some() => (MeasurementState::Aborted, None, None),
        Progress::Done => (MeasurementState::Done, None, None),
        Progress::Failed(failure) => (MeasurementState::Failed, Some(FailureView::new(failure)), None),
        Progress::Excluded(why) => (MeasurementState::Excluded, None, Some(why.as_str().to_owned())),
        Progress::Nothing => (MeasurementState::Nothing, None, None),
    };
    let end = |at: usize| {
        let told = m.told[at].as_ref()?;
        Some(EndView::new(&told.outcome, told.effects.as_deref()))
    };
    let ceiling = ends.and_then(|ends| ceiling_bps(ends, expected_mtu(ends)));
    let ratio = m.average_bps(0).zip(ceiling).map(|(bps, ceiling)| bps as f64 / ceiling.max(1) as f64);
    let tcp = m.manner.carrier == Carrier::Tcp;
    // Figures over TCP must never pass for RDMA.
    let over_tcp = tcp || ends.is_some_and(|[source, _]| source.fabric == Fabric::Tcp);
    let shown = Manner { carrier: if over_tcp { Carrier::Tcp } else { Carrier::Native }, ..m.manner };
    let label = Measurement { manner: shown, told: [None, None], ..m.clone() }.label();
    MeasurementView {
        part: m.part.as_str().to_owned(),
        label,
        source: m.source.to_string(),
        target: m.target.to_string(),
        state,
        manner: MannerView::new(&m.spec, &shown),
        at_source: end(0),
        at_target: end(1),
        // The ceiling is that of the endpoints' own fabric.
        ratio_to_ceiling: ratio.filter(|_| !tcp).map(rounded),
        failure,
        excluded,
        aborted,
    }
}

fn verdict(verdict: Verdict) -> VerdictView {
    VerdictView {
        id: verdict.id.to_owned(),
        status: verdict.status.into(),
        subject: verdict.subject,
        text: verdict.text,
        evidence: verdict.evidence,
        next_step: verdict.next_step,
        cause: verdict.cause.map(|cause| cause.id().to_owned()),
    }
}

fn incast(found: Incast) -> IncastView {
    let source = |source: rdmascope_localise::pair::IncastSource| IncastSourceView {
        name: source.name.to_string(),
        average_bits_per_second: source.average_bps,
        retransmits: source.retransmits,
    };
    let count = |(priority, count): (usize, u64)| PriorityCount {
        priority: u8::try_from(priority).unwrap_or(u8::MAX),
        count,
    };
    IncastView {
        sources: found.sources.into_iter().map(source).collect(),
        sum_bits_per_second: found.sum_bps,
        ratio_to_line_rate: found.of_line_rate.map(rounded),
        ratio_to_ceiling: found.of_ceiling.map(rounded),
        fairness: found.fairness.map(rounded),
        retransmits: found.retransmits,
        pauses: found.pauses.map(|pauses| pauses.into_iter().map(count).collect()),
        congestion_notifications: found.notifications,
    }
}

pub(crate) fn services(state: &Coordinator) -> ServiceList {
    let service = |(name, service): (&String, &rdmascope_control::coordinator::Service)| ServiceView {
        name: name.clone(),
        device: service.device.clone(),
        class: service.class,
        peers: service.peers.clone(),
    };
    ServiceList { services: state.services().iter().map(service).collect() }
}
