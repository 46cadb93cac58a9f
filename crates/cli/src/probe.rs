//! `rdmascope probe`: one pair now, step by step, then the figures or the cause.

use crate::arguments::Metrics;
use crate::client::Client;
use crate::failure::{Failure, code};
use crate::figures;
use crate::output::{Progress, plain, print_json, show};
use crate::probe_arguments::ProbeFlags;
use crate::reasons::line;
use crate::{report, similar};
use rdmascope_expose::api::{
    CellView, IncastRequest, MeasurementState, MeasurementView, ProbeKind, ProbeReport, ProbeRequest,
    ProbeState, ProbeStep, ProbeView, ServiceList, Severity,
};
use rdmascope_model::Exclusion;
use serde::Serialize;
use std::thread::sleep;
use std::time::Duration;

/// How often the coordinator is asked.
const BETWEEN: Duration = Duration::from_millis(100);

/// Between two questions about a run of many measurements, whose answers are long.
const BETWEEN_LONG: Duration = Duration::from_millis(500);

/// Runs it.
pub(crate) fn run(flags: &ProbeFlags) -> Result<u8, Failure> {
    let client = Client::new(&flags.at)?;
    let mut seen: Vec<ProbeView> = Vec::new();
    if let Some(target) = &flags.incast {
        let request = IncastRequest {
            sources: flags.from.clone(),
            target: target.clone(),
            drained: flags.drained,
            class: flags.class,
            device: flags.device.clone(),
        };
        let names: Vec<&str> = flags.from.iter().chain([target]).map(String::as_str).collect();
        seen.push(one(&client, begun(&client, "/api/v1/incasts", &request, &names)?, flags)?);
    } else {
        let source = flags.source.clone().unwrap_or_default();
        for target in targets(&client, flags, &source)? {
            let request = ProbeRequest {
                source: source.clone(),
                target,
                metric: flags.metric.into(),
                drained: flags.drained,
                force: flags.force,
                full: flags.full,
                paths: flags.paths,
                gpu: flags.gpu,
                class: flags.class,
                device: flags.device.clone(),
                service: flags.service.clone(),
            };
            let names = [request.source.as_str(), request.target.as_str()];
            seen.push(one(&client, begun(&client, "/api/v1/probes", &request, &names)?, flags)?);
        }
    }
    let fine = seen.iter().all(is_fine);
    if flags.json {
        print_json(&match <[ProbeView; 1]>::try_from(seen) {
            Ok([one]) => ProbeReport::One(Box::new(one)),
            Err(several) => ProbeReport::Several(several),
        })?;
    }
    Ok(if fine { 0 } else { code::FAILED })
}

/// The run that a request begins; where a name is not known, with what was probably meant.
fn begun(
    client: &Client,
    path: &str,
    request: &impl Serialize,
    names: &[&str],
) -> Result<ProbeView, Failure> {
    client.post(path, request).map_err(|failure| similar::named(client, failure, names))
}

/// The one target that was named, or the peers of the service.
fn targets(client: &Client, flags: &ProbeFlags, source: &str) -> Result<Vec<String>, Failure> {
    let (Some(name), None) = (&flags.service, &flags.target) else {
        return Ok(flags.target.iter().cloned().collect());
    };
    let list: ServiceList = client.get("/api/v1/services")?;
    let Some(service) = list.services.iter().find(|service| service.name == *name) else {
        let known: Vec<_> = list.services.iter().map(|service| plain(&service.name)).collect();
        let failure = Failure::new(code::FAILED, format!("no service '{}'", plain(name)));
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(failure
            .then(format!("known are: {known}; services stand under coordinator.services in the config")));
    };
    let node = source.split('/').next().unwrap_or(source);
    Ok(service.peers.iter().filter(|peer| *peer != node).cloned().collect())
}

/// Waits for the end of one run, and shows it.
fn one(client: &Client, mut probe: ProbeView, flags: &ProbeFlags) -> Result<ProbeView, Failure> {
    let long = probe.kind != ProbeKind::Probe;
    let steps = !long && !flags.json;
    if steps {
        show(&format!("{} -> {}\n", plain(&probe.source), plain(&probe.target)))?;
    }
    let mut progress = Progress::new();
    let mut shown = 0;
    loop {
        for step in probe.steps.iter().skip(shown).filter(|_| steps) {
            progress.clear();
            show(&step_line(step))?;
        }
        shown = probe.steps.len();
        if probe.state.is_over() {
            break;
        }
        if probe.state == ProbeState::Waiting {
            progress.show("waiting until all endpoints are free");
        } else if long && progress.is_live() {
            progress.show(&how_far(&probe));
        }
        sleep(if long { BETWEEN_LONG } else { BETWEEN });
        probe = client.get(&format!("/api/v1/probes/{}", probe.id))?;
    }
    progress.clear();
    if !flags.json {
        show(&match probe.kind {
            ProbeKind::Probe if is_usual(&probe) => format!("\n{}", result(&probe, flags.metric)),
            ProbeKind::Probe => format!("\n{}", report::measurements(&probe)),
            ProbeKind::Full => report::full(&probe),
            ProbeKind::Incast => report::incast(&probe),
        })?;
    }
    Ok(probe)
}

/// Measured in the manner of the matrix, which has the figures then.
fn is_usual(probe: &ProbeView) -> bool {
    probe.measurements.iter().all(|m| m.manner.dscp == 0 && m.manner.service_level == 0)
}

fn how_far(probe: &ProbeView) -> String {
    let waiting =
        |m: &&MeasurementView| !matches!(m.state, MeasurementState::Waiting | MeasurementState::Running);
    let done = probe.measurements.iter().filter(waiting).count();
    let now = probe.measurements.iter().find(|m| m.state == MeasurementState::Running);
    let now = now.map(|m| format!(": {}", plain(&m.label))).unwrap_or_default();
    format!("{done} of {} measurements done{now}", probe.measurements.len())
}

fn is_fine(probe: &ProbeView) -> bool {
    probe.state == ProbeState::Done && probe.verdicts.iter().all(|verdict| verdict.status != Severity::Fail)
}

fn step_line(step: &ProbeStep) -> String {
    format!(
        "{:>7.3} s  {:<11}  {:<10}  {}\n",
        step.at_ms as f64 / 1e3,
        plain(&step.side),
        plain(&step.step),
        plain(&step.text)
    )
}

fn result(probe: &ProbeView, metric: Metrics) -> String {
    let Some(pair) = &probe.pair else { return String::new() };
    let latency = || cell("latency", &pair.latency, figures::latency(&pair.latency));
    let bandwidth = || cell("bandwidth", &pair.bandwidth, figures::bandwidth(&pair.bandwidth));
    match metric {
        Metrics::Latency => latency(),
        Metrics::Bandwidth => bandwidth(),
        Metrics::Ping => cell("ping", &pair.ping, figures::ping(&pair.ping)),
        Metrics::All => latency() + &bandwidth(),
    }
}

fn cell<F>(name: &str, cell: &CellView<F>, figures: Option<String>) -> String {
    if let Some(failure) = &cell.failure {
        let mut text = format!("{name:<11}failed: {}\n", plain(&failure.cause));
        let at = format!("at step {}, by the {}", failure.step, failure.side);
        let seen = if failure.evidence.is_empty() { at } else { format!("{} ({at})", failure.evidence) };
        line(&mut text, "cause", &failure.text);
        line(&mut text, "seen", &seen);
        line(&mut text, "next step", &failure.next_step);
        return text;
    }
    if let Some(why) = &cell.excluded {
        let mut text = format!("{name:<11}not probed: {}\n", plain(why));
        if let Some(known) = Exclusion::from_word(why) {
            line(&mut text, "cause", known.text());
            line(&mut text, "next step", known.next_step());
        }
        return text;
    }
    figures.map_or_else(|| format!("{name:<11}{}\n", cell.state.as_str()), |figures| figures + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_expose::api::{CellState, FailureView, LatencyFigures};

    #[test]
    fn a_failed_pair_names_cause_evidence_and_next_step() {
        let failure = FailureView {
            cause: "port-down".to_owned(),
            text: "The port is not ACTIVE.".to_owned(),
            step: "admit".to_owned(),
            side: "target".to_owned(),
            evidence: "state DOWN".to_owned(),
            next_step: "See the cable.".to_owned(),
        };
        let failed: CellView<LatencyFigures> =
            CellView { state: CellState::Failed, failure: Some(failure), ..CellView::never() };
        assert_eq!(
            cell("latency", &failed, figures::latency(&failed)),
            "latency    failed: port-down\n  \
               cause:     The port is not ACTIVE.\n  \
               seen:      state DOWN (at step admit, by the target)\n  \
               next step: See the cable.\n"
        );
    }

    #[test]
    fn a_pair_that_is_not_probed_says_why() {
        let busy: CellView<LatencyFigures> =
            CellView { state: CellState::Excluded, excluded: Some("busy".to_owned()), ..CellView::never() };
        let text = cell("bandwidth", &busy, None);
        assert!(text.starts_with("bandwidth  not probed: busy\n") && text.contains("--drained"), "{text}");
    }
}
