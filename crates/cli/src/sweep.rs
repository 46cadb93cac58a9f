//! `rdmascope sweep`: measures pairs and waits for the end, or says what that would cost.

use crate::arguments::SweepFlags;
use crate::client::Client;
use crate::failure::{Failure, code};
use crate::figures::Unit;
use crate::output::{Progress, plain, print_json, show};
use crate::similar;
use rdmascope_config::node_names;
use rdmascope_expose::api::{
    ContinuousView, EndpointList, MetricChoice, SweepList, SweepPlan, SweepPlanReport, SweepRequest,
    SweepResult, SweepState, SweepView,
};
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
    let client = Client::new(&flags.at)?;
    let mut progress = Progress::new();
    if let Some(wanted) = flags.min_endpoints {
        wait_for_endpoints(&client, wanted, &mut progress)?;
    }
    let request = request(flags)?;
    let names = request.nodes.clone().unwrap_or_default();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if flags.plan {
        let plan: SweepPlan = client
            .post("/api/v1/sweeps", &SweepRequest { dry_run: true, ..request })
            .map_err(|failure| similar::named(&client, failure, &names))?;
        let list: SweepList = client.get("/api/v1/sweeps")?;
        if flags.json {
            print_json(&SweepPlanReport { plan, continuous: list.continuous })?;
        } else {
            show(&(plan_words(&plan) + &continuous_words(&list.continuous)))?;
        }
        return Ok(0);
    }
    let begun = Instant::now();
    let mut sweep: SweepView = client
        .post("/api/v1/sweeps", &request)
        .map_err(|failure| similar::named(&client, failure, &names))?;
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
    if flags.json {
        print_json(&sweep)?;
    } else {
        show(&(summary(&sweep, begun.elapsed()) + &result_words(&sweep.results)))?;
    }
    Ok(exit_code(&sweep))
}

fn request(flags: &SweepFlags) -> Result<SweepRequest, Failure> {
    let nodes = flags.nodes.as_deref().map(node_names).transpose();
    let nodes = nodes.map_err(|wrong| Failure::new(code::USAGE, format!("--nodes: {wrong}")))?;
    Ok(SweepRequest {
        metric: flags.metric.into(),
        drained: flags.drained,
        nodes,
        devices: flags.devices.clone(),
        class: flags.class,
        cross_rail: flags.cross_rail,
        quick: flags.quick,
        passes: flags.passes,
        seed: flags.seed,
        message_bytes: None,
        dry_run: false,
    })
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
    if !sweep.given_up.is_empty() {
        let names: Vec<_> = sweep.given_up.iter().map(|name| plain(name)).collect();
        text.push_str(&format!(
            "given up, for they failed with every partner: {}; the rest of their pairs was not run\n",
            names.join(", ")
        ));
    }
    if sweep.out_of_bytes {
        text.push_str("the bytes that one sweep may send are used up (coordinator.sweep.gigabytes_max): the rest was not run\n");
    }
    if sweep.total == 0 {
        text.push_str(
            "there was no pair to probe: at least two endpoints of one fabric and rail are needed\n",
        );
    } else if sweep.failed + sweep.excluded > 0 && sweep.results.is_empty() {
        let flag = match sweep.metric {
            MetricChoice::Bandwidth => " --metric bandwidth",
            MetricChoice::Ping => " --metric ping",
            MetricChoice::Latency | MetricChoice::All => "",
        };
        text.push_str(&format!("which and why: rdmascope matrix{flag}\n"));
    }
    text
}

/// What a sweep in another class found.
fn result_words(results: &[SweepResult]) -> String {
    let mut text = String::new();
    for result in results {
        let show = |value: u64| match result.metric {
            MetricChoice::Bandwidth => Unit::of_rates(value).show(value),
            _ => Unit::Microseconds.show(value),
        };
        let median =
            result.median.map_or("nothing measured".to_owned(), |value| format!("median {}", show(value)));
        text.push_str(&format!(
            "\n{}: {median}, {} pairs failed; the worst:\n",
            result.metric.as_str(),
            result.failed
        ));
        for pair in &result.worst {
            let what = match (pair.value, &pair.cause) {
                (Some(value), _) => show(value),
                (None, cause) => format!("failed: {}", plain(cause.as_deref().unwrap_or("unknown"))),
            };
            text.push_str(&format!("  {} -> {}  {what}\n", plain(&pair.source), plain(&pair.target)));
        }
    }
    text
}

/// A plan in words.
fn plan_words(plan: &SweepPlan) -> String {
    let passes = if plan.passes > 1 { format!(", {} times each", plan.passes) } else { String::new() };
    let mut text = format!(
        "{} pairs of {} endpoints{passes}: {} probes in {} rounds\nabout {}, {}; seed {}\n",
        plan.pairs,
        plan.endpoints,
        plan.probes,
        plan.rounds,
        time(plan.seconds),
        bytes(plan.bytes),
        plan.seed
    );
    text.push_str(&match (plan.rails, plan.without_rail) {
        (0, _) => "no rail is known: everybody is probed with everybody\n".to_owned(),
        (rails, 0) => format!("rails: {rails}\n"),
        (rails, without) => {
            format!("rails: {rails}; of {without} endpoints no rail is known, and they are probed with all\n")
        }
    });
    text.push_str(&match (plan.leaves, plan.without_leaf) {
        (0, _) => "no leaf is known: rounds do not go by leaves, and no leaf can be named\n".to_owned(),
        (leaves, 0) => format!("leaves: {leaves}\n"),
        (leaves, without) => format!("leaves: {leaves}; of {without} endpoints no leaf is known\n"),
    });
    if plan.in_maintenance > 0 {
        text.push_str(&format!(
            "{} endpoints are left out: their nodes are in maintenance (--nodes probes them all the same)\n",
            plan.in_maintenance
        ));
    }
    text
}

fn continuous_words(plan: &ContinuousView) -> String {
    let mut text = String::new();
    for (what, covering) in [("pings", &plan.pings), ("latency probes", &plan.connections)] {
        let Some(c) = covering else { continue };
        let cross = match (c.cross_rail_pairs, c.cross_rail_seconds) {
            (0, _) | (_, None) => String::new(),
            (pairs, Some(seconds)) => format!(", {pairs} of two rails within {}", time(seconds)),
        };
        text.push_str(&format!(
            "by themselves: {what} cover {} pairs within {}{cross}; at most {} a second and endpoint, {}/s\n",
            c.pairs,
            time(c.seconds),
            c.per_second,
            bytes(c.bytes_per_second)
        ));
    }
    if text.is_empty() {
        text.push_str("nothing is probed by itself\n");
    }
    text
}

fn time(seconds: f64) -> String {
    if seconds < 120.0 { format!("{seconds:.1} s") } else { format!("{:.1} min", seconds / 60.0) }
}

fn bytes(bytes: u64) -> String {
    let units = [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "KB")];
    let unit = units.into_iter().find(|(size, _)| bytes >= *size);
    unit.map_or(format!("{bytes} bytes"), |(size, unit)| format!("{:.1} {unit}", bytes as f64 / size as f64))
}

/// A sweep that measured nothing must not look like one that found nothing wrong.
fn exit_code(sweep: &SweepView) -> u8 {
    let fine = sweep.state == SweepState::Done && sweep.failed == 0 && measured(sweep) > 0;
    if fine { 0 } else { code::FAILED }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_expose::api::{CoveringView, SweepPair};

    fn sweep(total: u64, failed: u64, excluded: u64) -> SweepView {
        SweepView {
            total,
            done: total,
            failed,
            excluded,
            plan: SweepPlan { pairs: 2 * total, ..SweepPlan::default() },
            ..SweepView::default()
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

    #[test]
    fn who_was_given_up_and_what_another_class_found_is_said() {
        let result = SweepResult {
            metric: MetricChoice::Bandwidth,
            measured: 1,
            failed: 1,
            median: Some(98_000_000_000),
            worst: vec![
                SweepPair {
                    source: "a/d/1".into(),
                    target: "b/d/1".into(),
                    cause: Some("path-lost".into()),
                    value: None,
                },
                SweepPair {
                    source: "b/d/1".into(),
                    target: "a/d/1".into(),
                    value: Some(98_000_000_000),
                    cause: None,
                },
            ],
        };
        let over = SweepView {
            given_up: vec!["n7/d/1".into()],
            out_of_bytes: true,
            results: vec![result],
            ..sweep(6, 3, 2)
        };
        let text = summary(&over, Duration::from_secs(2)) + &result_words(&over.results);
        assert!(text.contains("given up, for they failed with every partner: n7/d/1;"), "{text}");
        assert!(text.contains("gigabytes_max") && !text.contains("rdmascope matrix"), "{text}");
        assert!(
            text.ends_with(
                "bandwidth: median 98.0 Gbit/s, 1 pairs failed; the worst:\n  \
             a/d/1 -> b/d/1  failed: path-lost\n  b/d/1 -> a/d/1  98.0 Gbit/s\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_plan_says_time_and_bytes_and_what_is_not_known() {
        let plan = SweepPlan {
            pairs: 896,
            probes: 448,
            rounds: 28,
            endpoints: 32,
            bytes: 2_480_000_000_000,
            seconds: 431.0,
            rails: 4,
            without_leaf: 32,
            in_maintenance: 4,
            passes: 1,
            seed: 3,
            ..SweepPlan::default()
        };
        assert_eq!(
            plan_words(&plan),
            "896 pairs of 32 endpoints: 448 probes in 28 rounds\nabout 7.2 min, 2.5 TB; seed 3\nrails: 4\n\
             no leaf is known: rounds do not go by leaves, and no leaf can be named\n\
             4 endpoints are left out: their nodes are in maintenance (--nodes probes them all the same)\n"
        );
        let pings = CoveringView {
            pairs: 224,
            seconds: 24.0,
            cross_rail_pairs: 672,
            cross_rail_seconds: Some(300.0),
            per_second: 10,
            per_turn: 60,
            bytes_per_second: 30_900,
        };
        let continuous = ContinuousView { pings: Some(pings), connections: None };
        assert_eq!(
            continuous_words(&continuous),
            "by themselves: pings cover 224 pairs within 24.0 s, 672 of two rails within 5.0 min; at most 10 a second and \
             endpoint, 30.9 KB/s\n"
        );
        assert_eq!(continuous_words(&ContinuousView::default()), "nothing is probed by itself\n");
    }
}
