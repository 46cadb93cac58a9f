//! `rdmascope sweep`: measures every pair once and waits for the end.

use crate::arguments::SweepFlags;
use crate::client::Client;
use crate::failure::{Failure, code};
use crate::output::{Progress, plain, print};
use rdmascope_expose::api::{EndpointList, MetricChoice, SweepRequest, SweepState, SweepView};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often the coordinator is asked.
const BETWEEN: Duration = Duration::from_millis(200);
/// Where the line cannot change in place, one is printed this often.
const BETWEEN_LINES: Duration = Duration::from_secs(5);
/// How long to wait for the endpoints of `--min-endpoints`.
const ENDPOINTS_WITHIN: Duration = Duration::from_secs(60);

/// Runs it.
pub(crate) fn run(flags: &SweepFlags) -> Result<u8, Failure> {
    let client = Client::new(&flags.at);
    let mut progress = Progress::new();
    if let Some(wanted) = flags.min_endpoints {
        wait_for_endpoints(&client, wanted, &mut progress)?;
    }
    let request = SweepRequest { metric: flags.metric.into(), drained: flags.drained };
    let begun = Instant::now();
    let mut sweep: SweepView = client.post("/api/v1/sweeps", &request)?;
    let mut next_line = Instant::now();
    while sweep.state == SweepState::Running {
        if progress.is_live() || Instant::now() >= next_line {
            progress.show(&how_far(&sweep));
            next_line = Instant::now() + BETWEEN_LINES;
        }
        sleep(BETWEEN);
        sweep = client.get(&format!("/api/v1/sweeps/{}", sweep.id))?;
    }
    progress.clear();
    print(&summary(&sweep, begun.elapsed()))?;
    Ok(exit_code(&sweep))
}

fn wait_for_endpoints(client: &Client, wanted: usize, progress: &mut Progress) -> Result<(), Failure> {
    let deadline = Instant::now() + ENDPOINTS_WITHIN;
    loop {
        let list: EndpointList = client.get("/api/v1/endpoints")?;
        let usable = list.endpoints.iter().filter(|endpoint| endpoint.usable).count();
        if usable >= wanted {
            progress.clear();
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(too_few(&list, usable, wanted));
        }
        progress.show(&format!(
            "waiting for {wanted} endpoints that can be probed (60 s at most): {usable} so far"
        ));
        sleep(BETWEEN);
    }
}

fn too_few(list: &EndpointList, usable: usize, wanted: usize) -> Failure {
    let mut text = format!("only {usable} of {wanted} endpoints can be probed after 60 s");
    for endpoint in list.endpoints.iter().filter(|endpoint| !endpoint.usable) {
        let why = match (&endpoint.unusable, &endpoint.gone_since) {
            (Some(unusable), _) => format!("{} {} {}", unusable.text, unusable.detail, unusable.next_step),
            (None, Some(since)) => format!("gone since {since}"),
            (None, None) => "not connected".to_owned(),
        };
        text.push_str(&format!("\n  {}: {}", plain(&endpoint.name), plain(&why)));
    }
    Failure::new(code::FAILED, text).then("does an agent run on each node? see the agents' logs")
}

fn how_far(sweep: &SweepView) -> String {
    let left = sweep.seconds_left.map(|seconds| format!(", {} s left", seconds.ceil())).unwrap_or_default();
    format!("sweep: {} of {} probes done, {} failed{left}", sweep.done, sweep.total, sweep.failed)
}

fn measured(sweep: &SweepView) -> u64 {
    sweep.done.saturating_sub(sweep.failed).saturating_sub(sweep.excluded)
}

fn summary(sweep: &SweepView, took: Duration) -> String {
    let plural = if sweep.total == 1 { "probe" } else { "probes" };
    let mut text = format!(
        "{} pairs in {:.1} s, {} {plural}: {} measured, {} failed, {} excluded\n",
        sweep.plan.pairs,
        took.as_secs_f64(),
        sweep.total,
        measured(sweep),
        sweep.failed,
        sweep.excluded
    );
    if sweep.state == SweepState::Cancelled {
        text.push_str("the sweep was cancelled before its end\n");
    }
    if sweep.total == 0 {
        text.push_str("there was no pair to probe: at least two endpoints of one fabric are needed\n");
    } else if sweep.failed + sweep.excluded > 0 {
        let flag = match sweep.metric {
            MetricChoice::Bandwidth => " --metric bandwidth",
            MetricChoice::Ping => " --metric ping",
            MetricChoice::Latency | MetricChoice::All => "",
        };
        text.push_str(&format!("which and why: rdmascope matrix{flag}\n"));
    }
    text
}

/// A sweep that measured nothing must not look like one that found nothing wrong.
fn exit_code(sweep: &SweepView) -> u8 {
    let fine = sweep.state == SweepState::Done && sweep.failed == 0 && measured(sweep) > 0;
    if fine { 0 } else { code::FAILED }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_expose::api::{SweepKind, SweepPlan};

    fn sweep(total: u64, failed: u64, excluded: u64) -> SweepView {
        SweepView {
            id: 1,
            kind: SweepKind::Requested,
            metric: MetricChoice::Latency,
            drained: false,
            state: SweepState::Done,
            total,
            done: total,
            failed,
            excluded,
            started_at: String::new(),
            finished_at: None,
            seconds_left: None,
            plan: SweepPlan { pairs: 2 * total, rounds: 0, bytes: 0, seconds: 0.0 },
        }
    }

    #[test]
    fn only_a_sweep_that_measured_and_had_no_failure_is_a_success() {
        let codes = [(6, 0, 0), (6, 0, 2), (6, 1, 0), (6, 0, 6), (0, 0, 0)]
            .map(|(total, failed, excluded)| exit_code(&sweep(total, failed, excluded)));
        assert_eq!(codes, [0, 0, 1, 1, 1]);
    }

    #[test]
    fn the_summary_says_how_many_and_where_to_look_next() {
        let took = Duration::from_millis(1_640);
        assert_eq!(
            summary(&sweep(6, 0, 0), took),
            "12 pairs in 1.6 s, 6 probes: 6 measured, 0 failed, 0 excluded\n"
        );
        assert_eq!(
            summary(&sweep(6, 1, 2), took),
            "12 pairs in 1.6 s, 6 probes: 3 measured, 1 failed, 2 excluded\nwhich and why: rdmascope matrix\n"
        );
    }
}
