//! The stage of incasts: several ends send to one at the same time, which is what flow control exists for.

use super::arguments::SelfcheckFlags;
use super::facts::Facts;
use super::watch::Watch;
use super::{interrupted, worse};
use crate::client::Client;
use crate::failure::{Failure, code};
use crate::output::plain;
use rdmascope_expose::api::{
    BatchIncastView, EndpointView, IncastRequest, IncastView, MeasurementState, ProbeView, Severity,
};
use rdmascope_localise::batch::{Limit, Limits};
use rdmascope_model::Cause;
use std::collections::BTreeMap;

/// Sources of one incast: what the coordinator takes.
const SOURCES_MAX: usize = 8;
/// Sources behind other leaves that are tried, the most first: how many streams may cross uplinks is the coordinator's to say.
const ACROSS: [usize; 4] = [4, 2, 1, 0];

/// Runs all of them, one after the other.
pub(crate) fn all(
    client: &Client,
    flags: &SelfcheckFlags,
    limits: &Limits,
    facts: &mut Facts,
    watch: &mut Watch<'_>,
) -> Result<(Severity, String), Failure> {
    let targets = targets(flags, facts);
    if targets.is_empty() {
        let text = "an incast needs three nodes with usable ports of one rail";
        return Err(
            Failure::new(code::CHECK_UNKNOWN, text).then("Name more nodes, or leave it out: --incasts 0.")
        );
    }
    let mut status = Severity::Ok;
    for (at, target) in targets.iter().enumerate() {
        if watch.is_interrupted() {
            let why = interrupted();
            let what = format!("{} of {} incasts", targets.len() - at, targets.len());
            facts.not_tested(&what, why.text(), why.next_step());
            return Ok((worse(status, Severity::Unknown), format!("{at} of {} ran", targets.len())));
        }
        let words =
            format!("incast: {} of {}, about {} s left", at + 1, targets.len(), 2 * (targets.len() - at));
        let view = match one(client, flags, facts, target, watch, &words) {
            Ok(view) => view,
            Err(failure) => {
                facts.not_tested(
                    &format!("the incast to {}", target.name),
                    failure.text(),
                    failure.next_step(),
                );
                status = worse(status, Severity::Unknown);
                continue;
            }
        };
        let judged = judged(flags, limits, &view, facts);
        status = worse(status, judged.status);
        facts.incasts.push(judged);
    }
    Ok((status, format!("{} incasts", facts.incasts.len())))
}

/// Who is to receive: ports that can be probed and have two sources, one of each leaf first, by chance among them.
fn targets(flags: &SelfcheckFlags, facts: &Facts) -> Vec<EndpointView> {
    let mut by_leaf: BTreeMap<Option<&str>, Vec<&EndpointView>> = BTreeMap::new();
    for (place, endpoint) in (0..).zip(&facts.endpoints) {
        if is_usable(facts, place) && sources(flags, facts, endpoint, SOURCES_MAX).len() >= 2 {
            by_leaf.entry(endpoint.place.leaf.as_deref()).or_default().push(endpoint);
        }
    }
    for of_leaf in by_leaf.values_mut() {
        of_leaf.sort_by_key(|endpoint| drawn(flags.seed, &[&endpoint.name]));
    }
    let longest = by_leaf.values().map(Vec::len).max().unwrap_or(0);
    let in_turn = (0..longest).flat_map(|at| by_leaf.values().filter_map(move |of_leaf| of_leaf.get(at)));
    in_turn.take(usize::from(flags.incasts)).map(|endpoint| (*endpoint).clone()).collect()
}

fn is_usable(facts: &Facts, place: u32) -> bool {
    facts.at(place).is_some_and(|endpoint| endpoint.usable && endpoint.gone_since.is_none())
}

/// Who may send to a target, by chance; so many of them behind other leaves at most.
fn sources(flags: &SelfcheckFlags, facts: &Facts, target: &EndpointView, across: usize) -> Vec<String> {
    let rail = |a: &EndpointView, b: &EndpointView| match (&a.place.rail, &b.place.rail) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    let fits = |(place, endpoint): &(u32, &EndpointView)| {
        let same = flags.cross_rail || rail(endpoint, target);
        endpoint.node != target.node && endpoint.fabric == target.fabric && same && is_usable(facts, *place)
    };
    let mut all: Vec<&EndpointView> = (0..).zip(&facts.endpoints).filter(fits).map(|(_, e)| e).collect();
    all.sort_by_key(|endpoint| drawn(flags.seed, &[&target.name, &endpoint.name]));
    let mut behind_others = 0;
    all.retain(|endpoint| {
        let crosses = target.place.leaf.is_some() && endpoint.place.leaf != target.place.leaf;
        behind_others += usize::from(crosses);
        !crosses || behind_others <= across
    });
    all.into_iter().take(SOURCES_MAX).map(|endpoint| endpoint.name.clone()).collect()
}

/// A number that a seed and names decide: FNV-1a, which is the same everywhere and always.
fn drawn(seed: u64, names: &[&str]) -> u64 {
    let bytes = names.iter().flat_map(|name| name.bytes().chain([0]));
    let start = 0xcbf2_9ce4_8422_2325;
    let mixed = seed.to_le_bytes().into_iter().chain(bytes);
    mixed.fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn one(
    client: &Client,
    flags: &SelfcheckFlags,
    facts: &Facts,
    target: &EndpointView,
    watch: &mut Watch<'_>,
    words: &str,
) -> Result<ProbeView, Failure> {
    let mut refused = None;
    for across in ACROSS {
        let sources = sources(flags, facts, target, across);
        if sources.len() < 2 {
            continue;
        }
        let request = IncastRequest {
            sources,
            target: target.name.clone(),
            drained: !flags.live,
            class: flags.class,
            device: None,
        };
        match client.post::<ProbeView>("/api/v1/incasts", &request) {
            Ok(mut view) => {
                while !view.state.is_over() && !watch.is_interrupted() {
                    watch.wait(words);
                    view = client.get(&format!("/api/v1/probes/{}", view.id))?;
                }
                return Ok(view);
            }
            Err(failure) => refused = Some(failure),
        }
    }
    Err(refused.unwrap_or_else(|| Failure::new(code::CHECK_UNKNOWN, "it has fewer than two sources")))
}

fn judged(flags: &SelfcheckFlags, limits: &Limits, view: &ProbeView, facts: &mut Facts) -> BatchIncastView {
    let (mut status, mut text) = (Severity::Ok, Vec::new());
    for m in &view.measurements {
        let unreached = [Cause::AgentGone, Cause::PeerGone, Cause::AgentSilent, Cause::PeerSilent];
        let why = match (&m.failure, &m.excluded) {
            (Some(f), _) if unreached.iter().any(|cause| cause.id() == f.cause) => {
                (Severity::Unknown, plain(&f.text), plain(&f.next_step))
            }
            (Some(f), _) => (Severity::Fail, plain(&f.text), plain(&f.next_step)),
            (None, Some(why)) => {
                (Severity::Unknown, format!("not run: {why}"), "See what holds it back.".to_owned())
            }
            (None, None) if m.state == MeasurementState::Done => continue,
            (None, None) => (Severity::Unknown, "nothing was learned".to_owned(), "Run it again.".to_owned()),
        };
        status = worse(status, why.0);
        text.push(format!("{} -> {}: {}", m.source, m.target, why.1));
        if why.0 == Severity::Unknown {
            facts.not_tested(&format!("{} -> {} in an incast", m.source, m.target), &why.1, &why.2);
        }
    }
    if let Some(found) = &view.incast {
        let (worst, lines) = held(flags, limits, found, &view.target, facts);
        status = worse(status, worst);
        text.extend(lines);
    }
    let sources = view.measurements.iter().map(|m| m.source.clone()).collect();
    BatchIncastView { target: view.target.clone(), sources, status, text }
}

/// Holds what an incast found against the limits.
fn held(
    flags: &SelfcheckFlags,
    limits: &Limits,
    found: &IncastView,
    target: &str,
    facts: &mut Facts,
) -> (Severity, Vec<String>) {
    let (mut status, mut text) = (Severity::Ok, Vec::new());
    let share = found.ratio_to_ceiling.map(|ratio| 100.0 * ratio);
    let again = found.retransmits.map(|count| count as f64);
    facts.incast_figures.push((share, found.retransmits));
    for (limit, seen) in [(Limit::Incast, share), (Limit::IncastRetransmits, again)] {
        let Some(asked) = limits.get(limit) else { continue };
        match seen {
            Some(seen) if limit.holds(asked, seen) => {}
            Some(seen) => {
                status = worse(status, Severity::Fail);
                text.push(format!("{}: {seen:.1} {}; {asked} asked", limit.text(), limit.unit()));
            }
            None => {
                status = worse(status, Severity::Unknown);
                let next = format!("If nobody can count it there, leave it out: --limit {limit}=any.");
                facts.not_tested(
                    &format!("{limit} of the incast to {target}"),
                    "nobody counts it, or no rate is known",
                    &next,
                );
            }
        }
    }
    let meant = flags.priority.unwrap_or(flags.class.filter(|class| *class < 64).unwrap_or(0) >> 3);
    for pause in found.pauses.iter().flatten().filter(|pause| pause.count > 0 && pause.priority != meant) {
        status = worse(status, Severity::Fail);
        text.push(format!(
            "{} pause frames on priority {}, though only priority {meant} is meant to have any",
            pause.count, pause.priority
        ));
    }
    (status, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_the_same_for_the_same_seed_and_names() {
        assert_eq!(drawn(1, &["a", "b"]), drawn(1, &["a", "b"]));
        assert_ne!(drawn(1, &["a", "b"]), drawn(2, &["a", "b"]));
        assert_ne!(drawn(1, &["ab", ""]), drawn(1, &["a", "b"]), "names do not run together");
    }
}
