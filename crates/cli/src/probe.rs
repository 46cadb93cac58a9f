//! `rdmascope probe`: one pair now, step by step, then the figures or the cause.

use crate::arguments::{Metrics, ProbeFlags};
use crate::client::Client;
use crate::failure::{Failure, code};
use crate::figures;
use crate::output::{Progress, plain, print};
use crate::reasons::line;
use rdmascope_expose::api::{CellView, ProbeRequest, ProbeState, ProbeStep, ProbeView};
use rdmascope_model::Exclusion;
use std::thread::sleep;
use std::time::Duration;

/// How often the coordinator is asked.
const BETWEEN: Duration = Duration::from_millis(100);

/// Runs it.
pub(crate) fn run(flags: &ProbeFlags) -> Result<u8, Failure> {
    let client = Client::new(&flags.at);
    let request = ProbeRequest {
        source: flags.source.clone(),
        target: flags.target.clone(),
        metric: flags.metric.into(),
        drained: flags.drained,
    };
    let mut probe: ProbeView = client.post("/api/v1/probes", &request)?;
    print(&format!("{} -> {}\n", plain(&probe.source), plain(&probe.target)))?;
    let mut progress = Progress::new();
    let mut shown = 0;
    loop {
        for step in probe.steps.iter().skip(shown) {
            progress.clear();
            print(&step_line(step))?;
        }
        shown = probe.steps.len();
        if probe.state.is_over() {
            break;
        }
        if probe.state == ProbeState::Waiting {
            progress.show("waiting until both endpoints are free");
        }
        sleep(BETWEEN);
        probe = client.get(&format!("/api/v1/probes/{}", probe.id))?;
    }
    progress.clear();
    print(&format!("\n{}", result(&probe, flags.metric)))?;
    Ok(if probe.state == ProbeState::Done { 0 } else { code::FAILED })
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
    let mut text = String::new();
    if metric != Metrics::Bandwidth {
        text.push_str(&cell("latency", &pair.latency, figures::latency(&pair.latency)));
    }
    if metric != Metrics::Latency {
        text.push_str(&cell("bandwidth", &pair.bandwidth, figures::bandwidth(&pair.bandwidth)));
    }
    text
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
