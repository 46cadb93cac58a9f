//! The stages over all pairs: one sweep of the coordinator each, with the messages that the limits are for.

use super::arguments::SelfcheckFlags;
use super::facts::{Facts, Pair};
use super::nodes::{at_least_two, known};
use super::watch::Watch;
use super::{interrupted, some};
use crate::client::Client;
use crate::failure::Failure;
use rdmascope_expose::api::{
    CancelRequest, MetricChoice, PairState, Severity, SweepPairList, SweepPlan, SweepRequest, SweepState,
    SweepView,
};
use rdmascope_localise::batch::{Limit, Limits, Looked};
use rdmascope_model::{BandwidthSpec, LatencySpec, Metric};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// What runs when a sweep is ended early is over by then.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// Measures every pair of the batch.
pub(crate) fn all(
    client: &Client,
    flags: &SelfcheckFlags,
    limits: &Limits,
    metric: Metric,
    facts: &mut Facts,
    watch: &mut Watch<'_>,
) -> Result<(Severity, String), Failure> {
    let nodes = known(client, facts, watch)?;
    at_least_two(&nodes)?;
    let request = SweepRequest { nodes: Some(nodes), ..request(flags, limits, metric) };
    let later = if metric == Metric::Latency { seconds(client, flags, limits, &request) } else { 0.0 };
    let (pairs, list) = run(client, &request, facts, watch, (metric.as_str(), later))?;
    facts.reasons.extend(list.reasons);
    let not_tested = tell_not_tested(metric, &pairs, facts);
    let bad = pairs.iter().filter(|pair| pair.look().looked == Looked::Failed).count();
    let text = format!("{} of {} pairs measured, {bad} failed", measured(&pairs), pairs.len());
    facts.pairs.extend(pairs);
    let status = match (bad, not_tested) {
        (0, false) => Severity::Ok,
        (0, true) => Severity::Unknown,
        _ => Severity::Fail,
    };
    if watch.is_interrupted() {
        let why = interrupted();
        facts.not_tested(&format!("the rest of the stage {metric}"), why.text(), why.next_step());
    }
    Ok((status, text))
}

fn measured(pairs: &[Pair]) -> usize {
    pairs.iter().filter(|pair| pair.state == PairState::Measured).count()
}

/// How long the stage behind this one takes, as far as the coordinator can tell.
fn seconds(client: &Client, flags: &SelfcheckFlags, limits: &Limits, this: &SweepRequest) -> f64 {
    let nodes = this.nodes.clone();
    let next = SweepRequest { nodes, dry_run: true, ..request(flags, limits, Metric::Bandwidth) };
    client.post("/api/v1/sweeps", &next).map_or(0.0, |plan: SweepPlan| plan.seconds)
}

/// What a sweep of a metric is asked for.
pub(crate) fn request(flags: &SelfcheckFlags, limits: &Limits, metric: Metric) -> SweepRequest {
    let (choice, bytes) = match metric {
        Metric::Bandwidth => {
            let usual = BandwidthSpec::USUAL.message_bytes;
            (MetricChoice::Bandwidth, limits.bytes(Limit::GoodputBytes, usual))
        }
        _ => (MetricChoice::Latency, limits.bytes(Limit::LatencyBytes, LatencySpec::USUAL.message_bytes)),
    };
    SweepRequest {
        metric: choice,
        drained: !flags.live,
        devices: flags.devices.clone(),
        class: flags.class,
        cross_rail: flags.cross_rail,
        seed: Some(flags.seed),
        message_bytes: Some(bytes),
        ..SweepRequest::default()
    }
}

/// Runs a sweep to its end, or ends it when somebody wants that. Answers what it has of every pair.
pub(crate) fn run(
    client: &Client,
    request: &SweepRequest,
    facts: &Facts,
    watch: &mut Watch<'_>,
    (name, later): (&str, f64),
) -> Result<(Vec<Pair>, SweepPairList), Failure> {
    let mut sweep: SweepView = client.post("/api/v1/sweeps", request)?;
    let mut ends_by = None;
    while sweep.state == SweepState::Running && ends_by.is_none_or(|at| Instant::now() < at) {
        if watch.is_interrupted() && ends_by.is_none() {
            // That it is over by now is no reason to complain.
            let _ =
                client.post::<SweepView>(&format!("/api/v1/sweeps/{}/cancel", sweep.id), &CancelRequest {});
            ends_by = Some(Instant::now() + ENDS_WITHIN);
        }
        watch.wait(&how_far(&sweep, name, later));
        sweep = client.get(&format!("/api/v1/sweeps/{}", sweep.id))?;
    }
    let list: SweepPairList = client.get(&format!("/api/v1/sweeps/{}/pairs", sweep.id))?;
    let places: Vec<Option<u32>> = list.endpoints.iter().map(|name| facts.place(name)).collect();
    let place = |at: u32| places.get(at as usize).copied().flatten();
    let pair = |row: &rdmascope_expose::api::SweepPairRow| {
        Some(Pair {
            source: place(row.source)?,
            target: place(row.target)?,
            metric: if row.metric == MetricChoice::Bandwidth { Metric::Bandwidth } else { Metric::Latency },
            state: row.state,
            value: row.value,
            p99_ns: row.p99_ns,
            retransmits: row.retransmits,
            ceiling_bps: row.ceiling_bits_per_second,
            reason: row.reason.clone(),
        })
    };
    Ok((list.pairs.iter().filter_map(pair).collect(), list))
}

fn how_far(sweep: &SweepView, name: &str, later: f64) -> String {
    let left = sweep.seconds_left.unwrap_or(sweep.plan.seconds).max(0.0);
    let after =
        if later > 0.0 { format!(", then about {:.0} s of goodput", later.ceil()) } else { String::new() };
    format!(
        "{name}: {} of {} probes, {} failed, about {:.0} s left{after}",
        sweep.done,
        sweep.total,
        sweep.failed,
        left.ceil()
    )
}

/// Says which pairs and endpoints have no figure for a reason that says nothing about them. True when there are some.
fn tell_not_tested(metric: Metric, pairs: &[Pair], facts: &mut Facts) -> bool {
    let without = |pair: &&Pair| pair.look().looked == Looked::NotTested;
    let reasons: BTreeSet<Option<&str>> = pairs.iter().filter(without).map(|p| p.reason.as_deref()).collect();
    for reason in &reasons {
        let of: Vec<&Pair> =
            pairs.iter().filter(without).filter(|p| p.reason.as_deref() == *reason).collect();
        let mut ends: Vec<String> =
            of.iter().map(|p| format!("{} -> {}", facts.name(p.source), facts.name(p.target))).collect();
        ends.sort();
        let words = reason.and_then(|id| facts.reasons.get(id)).cloned();
        let (text, next) = words.map_or_else(
            || ("nothing was told of them".to_owned(), "Run it again.".to_owned()),
            |words| (words.text, words.next_step),
        );
        let what = format!("{metric} of {} pairs ({})", of.len(), some(&ends, 3));
        facts.not_tested(&what, &text, &next);
    }
    let in_pairs: BTreeSet<u32> = pairs.iter().flat_map(|pair| [pair.source, pair.target]).collect();
    let mut alone = false;
    for place in 0..u32::try_from(facts.endpoints.len()).unwrap_or(u32::MAX) {
        let Some(endpoint) = facts.at(place).filter(|_| !in_pairs.contains(&place)) else { continue };
        // One that is gone, or of a node that is not there, was told of already.
        if endpoint.gone_since.is_none() && endpoint.usable {
            alone = true;
            let name = endpoint.name.clone();
            let next = "Name more nodes, or ask for pairs of two rails too (--cross-rail).";
            facts.not_tested(
                &format!("{metric} of {name}"),
                "it has no partner of its fabric and rail",
                next,
            );
        }
    }
    alone || !reasons.is_empty()
}
