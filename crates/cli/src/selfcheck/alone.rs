//! The last stage: what is suspect, measured again with nothing beside it, and each suspect end with a partner that is known to be good.

use super::arguments::SelfcheckFlags;
use super::facts::Facts;
use super::judged;
use super::suspects::{blamed, trials};
use super::sweeps::{request, run};
use super::watch::Watch;
use crate::client::Client;
use crate::failure::Failure;
use rdmascope_expose::api::{Severity, SweepRequest};
use rdmascope_localise::batch::{Judged, Limits, Part};
use rdmascope_model::Metric;
use std::collections::{BTreeMap, BTreeSet};

/// Pairs that are measured again.
const PAIRS_MAX: usize = 16;
/// Suspect ends that are measured with a good partner, beyond those pairs.
const ENDS_MAX: usize = 8;

/// Measures the worst pairs and the suspect ends again.
pub(crate) fn all(
    client: &Client,
    flags: &SelfcheckFlags,
    limits: &Limits,
    facts: &mut Facts,
    watch: &mut Watch<'_>,
) -> Result<(Severity, String), Failure> {
    let (judged, _) = judged::pairs(facts, limits);
    let todo = todo(facts, &judged);
    if todo.is_empty() {
        return Ok((Severity::Ok, "no pair is suspect".to_owned()));
    }
    let all = todo.len();
    for (at, ((a, b), metrics)) in todo.into_iter().enumerate() {
        for metric in metrics {
            if watch.is_interrupted() {
                return Err(super::interrupted());
            }
            let ends = [a, b].map(|place| facts.at(place).map(|end| (end.node.clone(), end.device.clone())));
            let [Some((from, device)), Some((to, other))] = ends else { continue };
            let devices: BTreeSet<String> = [device, other].into();
            let order = SweepRequest {
                nodes: Some(vec![from, to]),
                devices: devices.into_iter().collect(),
                ..request(flags, limits, metric)
            };
            let words = format!("alone: {} of {all}", at + 1);
            let (pairs, list) = run(client, &order, facts, watch, (&words, 0.0))?;
            facts.reasons.extend(list.reasons);
            let own = pairs
                .into_iter()
                .filter(|p| (p.source, p.target) == (a, b) || (p.target, p.source) == (a, b));
            facts.alone.extend(own);
        }
    }
    let again = judged::alone(facts, limits);
    let bad = again.iter().filter(|one| matches!(one, Judged::Bad(_))).count();
    let status = if bad > 0 { Severity::Fail } else { Severity::Ok };
    Ok((status, format!("{bad} of {} bad again", again.len())))
}

/// Which pairs, with the metrics that are in question. What a node itself says is wrong needs no second look.
fn todo(facts: &Facts, judged: &[Judged]) -> Vec<((u32, u32), BTreeSet<Metric>)> {
    let (_, blamed) = blamed(facts, judged);
    let is_told = |place: u32| facts.told.contains_key(&place);
    let mut worst: BTreeMap<(u32, u32), (f64, BTreeSet<Metric>)> = BTreeMap::new();
    let mut metrics_of: BTreeMap<u32, BTreeSet<Metric>> = BTreeMap::new();
    for (pair, judged) in facts.pairs.iter().zip(judged) {
        let Judged::Bad(misses) = judged else { continue };
        if is_told(pair.source) || is_told(pair.target) {
            continue;
        }
        let by = |miss: &rdmascope_localise::batch::Miss| miss.limit.excess(miss.asked, miss.seen);
        // What failed is worse than anything that was slow.
        let excess = misses.iter().map(by).fold(if misses.is_empty() { f64::MAX } else { 1.0 }, f64::max);
        let ends = (pair.source.min(pair.target), pair.source.max(pair.target));
        let known = worst.entry(ends).or_insert((0.0, BTreeSet::new()));
        known.0 = known.0.max(excess);
        known.1.insert(pair.metric);
        for end in [pair.source, pair.target] {
            metrics_of.entry(end).or_default().insert(pair.metric);
        }
    }
    let mut order: Vec<_> = worst.into_iter().collect();
    order.sort_by(|(a, (x, _)), (b, (y, _))| y.total_cmp(x).then(a.cmp(b)));
    let mut todo: Vec<_> =
        order.into_iter().take(PAIRS_MAX).map(|(ends, (_, metrics))| (ends, metrics)).collect();
    // How bad each end is, to find partners that are not.
    let mut bad: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    let trials = trials(facts, judged);
    for trial in &trials {
        for end in [trial.source, trial.target] {
            let (bad, tested) = bad.entry(end).or_default();
            *bad += usize::from(trial.bad);
            *tested += 1;
        }
    }
    let ends = blamed.iter().filter(|one| !one.told).filter_map(|one| match one.parts.first() {
        Some(&(Part::Endpoint(own) | Part::Sender(own) | Part::Receiver(own))) => Some(own),
        _ => None,
    });
    for own in ends.take(ENDS_MAX) {
        let partners = trials.iter().filter(|trial| trial.source == own).map(|trial| trial.target);
        let share = |end: &u32| {
            bad.get(end).map_or((1, 1), |(bad, tested)| (1_000 * bad / tested.max(&1), *end as usize))
        };
        let Some(partner) = partners.filter(|end| !is_told(*end)).min_by_key(share) else { continue };
        let pair = (own.min(partner), own.max(partner));
        if !todo.iter().any(|(known, _)| *known == pair) {
            todo.push((pair, metrics_of.get(&own).cloned().unwrap_or_default()));
        }
    }
    todo
}
