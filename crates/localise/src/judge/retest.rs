//! Which pairs are measured again, alone, before anybody is blamed: those that show it, each end with a partner that is known to be good,
//! and those that tell two explanations apart.

use super::observe::Scene;
use super::search::{Search, covers};
use super::symptom::{Blame, Candidate, Symptom};
use super::wider;
use crate::hypotheses::rank;
use crate::{Component, EndpointIndex};
use rdmascope_model::Metric;
use std::collections::BTreeSet;
use std::time::Duration;

/// Pairs of one kind of reason for one suspect.
const OF_A_KIND: usize = 4;
/// Pairs of one suspect in one round, of one that is itself a pair, and of a wider one.
const OF_ONE: [usize; 2] = [7, 16];
/// What is slow is measured again within this: between two looks, less what a probe takes.
const SPREAD: Duration = Duration::from_millis(1_400);
const GOLDEN_SECTION: f64 = 0.618_033_988_749_895;
/// Places in that between two rounds.
const SPREAD_BY: u32 = 17;
/// Endpoints that are tried as partners.
const PARTNERS_TRIED: usize = 64;

/// One pair to be measured again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Retest {
    /// Source.
    pub source: EndpointIndex,
    /// Target.
    pub target: EndpointIndex,
    /// What.
    pub metric: Metric,
    /// So much later than it is asked for.
    pub after: Duration,
}

/// Chooses pairs for one suspect. `others` are explanations that are as good; `round` lets each round choose other partners.
pub(crate) fn choose(
    search: &Search<'_>,
    best: &Candidate,
    others: &[Candidate],
    bad: &[(u32, u32)],
    round: u32,
) -> Vec<Retest> {
    let scene = &search.scene;
    let layout = scene.layout;
    let most = OF_ONE[usize::from(rank(best.blame.component) > 0)];
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    let mut add = |pair: (usize, usize)| {
        let new = pairs.len() < most && !pairs.contains(&pair) && layout.is_pair(pair.0, pair.1);
        if new && would_tell(scene, &best.blame, pair) {
            pairs.push(pair);
        }
    };
    telling(scene, &best.blame, bad).into_iter().for_each(&mut add);
    for other in others {
        apart(search, &best.blame, &other.blame, round).into_iter().for_each(&mut add);
    }
    wider::beside(search, &best.blame, round).into_iter().for_each(&mut add);
    beside(search, &best.blame, round).into_iter().for_each(&mut add);
    let index = |at: usize| EndpointIndex(u32::try_from(at).unwrap_or(u32::MAX));
    let retest = |(at, (a, b)): (u32, (usize, usize))| Retest {
        source: index(a),
        target: index(b),
        metric: metric(scene, &best.blame, a, b),
        after: after(best.blame.symptom, round * SPREAD_BY + at),
    };
    (0..).zip(pairs).map(retest).collect()
}

/// Where a host stands still for longer than its buffers last, what is lost of pings that follow each other closely says nothing of the
/// network: those of the mesh, which come one by one, have to do.
fn would_tell(scene: &Scene<'_>, blame: &Blame, (a, b): (usize, usize)) -> bool {
    let of_loss = matches!(blame.symptom, Symptom::Loss | Symptom::LargeLoss);
    !(of_loss && scene.host_stood_still(a, b))
}

/// A job sends in phases, some of them as long as a probe, and what waits in its queues then is no fault. So figures of delay are
/// measured again at times that are spread evenly over longer than a phase and have no rhythm of their own: the golden section.
fn after(symptom: Symptom, at: u32) -> Duration {
    let share = (f64::from(at) * GOLDEN_SECTION).fract();
    if symptom == Symptom::Slow { SPREAD.mul_f64(share) } else { Duration::ZERO }
}

fn metric(scene: &Scene<'_>, blame: &Blame, a: usize, b: usize) -> Metric {
    let index = |at: usize| EndpointIndex(u32::try_from(at).unwrap_or(u32::MAX));
    let pinged = scene.matrix.written_at(Metric::Ping, index(a), index(b)).is_some();
    match blame.symptom {
        Symptom::Narrow => Metric::Bandwidth,
        _ if pinged => Metric::Ping,
        _ => Metric::Latency,
    }
}

/// Pairs that show it, with as many different ends as possible.
fn telling(scene: &Scene<'_>, blame: &Blame, bad: &[(u32, u32)]) -> Vec<(usize, usize)> {
    let layout = scene.layout;
    let mut through: Vec<(u64, (usize, usize))> = Vec::new();
    for &(a, b) in bad {
        let (a, b) = (a as usize, b as usize);
        if covers(layout, blame, a, b) || covers(layout, blame, b, a) {
            let mut age = u64::MAX;
            scene.between(a, b, |seen| age = if seen.is_bad() { age.min(seen.age_ms) } else { age });
            through.push((age, (a, b)));
        }
    }
    through.sort_unstable();
    let mut ends: BTreeSet<usize> = BTreeSet::new();
    let mut chosen = Vec::new();
    for (_, (a, b)) in &through {
        let new = |at: usize| {
            layout.ends(blame.component).is_some_and(|own| own.binary_search(&(at as u32)).is_ok())
                || !ends.contains(&at)
        };
        if chosen.len() < OF_A_KIND && new(*a) && new(*b) {
            chosen.push((*a, *b));
            ends.extend([*a, *b]);
        }
    }
    if chosen.is_empty() {
        through.into_iter().take(OF_A_KIND).map(|(_, pair)| pair).collect()
    } else {
        chosen
    }
}

/// Pairs that go through one of two explanations and not through the other.
fn apart(search: &Search<'_>, one: &Blame, other: &Blame, round: u32) -> Vec<(usize, usize)> {
    let layout = search.scene.layout;
    let mut chosen = Vec::new();
    each_pair(search, [one, other], round, |a, b| {
        if covers(layout, one, a, b) != covers(layout, other, a, b) && search.scene.is_known(a, b) {
            chosen.push((a, b));
        }
        chosen.len() < OF_A_KIND
    });
    chosen
}

/// Whether every pair that is measured goes through both or through neither.
pub(crate) fn inseparable(search: &Search<'_>, one: &Blame, other: &Blame) -> bool {
    let layout = search.scene.layout;
    let mut same = true;
    each_pair(search, [one, other], 0, |a, b| {
        let differ = covers(layout, one, a, b) != covers(layout, other, a, b);
        same &= !(differ && search.scene.is_known(a, b));
        same
    });
    same
}

/// All ordered pairs with an end in one of two components, until told to stop.
pub(crate) fn each_pair(
    search: &Search<'_>,
    blames: [&Blame; 2],
    round: u32,
    mut each: impl FnMut(usize, usize) -> bool,
) {
    let layout = search.scene.layout;
    let ends = blames.map(|blame| layout.ends(blame.component));
    let own: Vec<usize> = match ends {
        [Some(one), Some(other)] => {
            let all: BTreeSet<u32> = one.into_iter().chain(other).collect();
            all.into_iter().map(|at| at as usize).collect()
        }
        _ => (0..layout.len).collect(),
    };
    let offset = round as usize * 7;
    for at in 0..layout.len {
        let partner = (at * 31 + offset) % layout.len;
        // A stride that shares a factor with the length would leave some out.
        let partner = if layout.len.is_multiple_of(31) { (at + offset) % layout.len } else { partner };
        for &end in &own {
            if layout.is_pair(end, partner) && !(each(end, partner) && each(partner, end)) {
                return;
            }
        }
    }
}

/// The ends of a suspect with partners that are known to be good; and neighbours of a narrow suspect, which a wider one would spoil, too.
fn beside(search: &Search<'_>, blame: &Blame, round: u32) -> Vec<(usize, usize)> {
    let layout = search.scene.layout;
    let ends: Vec<u32> = match blame.component {
        Component::Pair(a, b) => vec![a.0, b.0],
        Component::Endpoint(e) => vec![e.0],
        other => layout.ends(other).unwrap_or_default().into_iter().take(2).collect(),
    };
    let mut chosen = Vec::new();
    if let Component::Pair(a, b) = blame.component {
        // What lies between their leaves would spoil other pairs of these, too.
        let neighbour = |at: u32| {
            let below = layout.of_leaf.get(&layout.leaf[at as usize]).into_iter().flatten();
            below.copied().find(|&other| other != at)
        };
        chosen.extend(neighbour(a.0).zip(neighbour(b.0)).map(|(a, b)| (a as usize, b as usize)));
    }
    for end in ends {
        let end = end as usize;
        if let Some(partner) = partner(search, blame, end, round) {
            chosen.extend([(end, partner), (partner, end)]);
        }
        let beside_it = [layout.of_node.get(&layout.node[end]), layout.of_leaf.get(&layout.leaf[end])];
        for neighbours in beside_it.into_iter().flatten().filter(|_| rank(blame.component) <= 1) {
            let neighbour =
                neighbours.iter().map(|&at| at as usize).find(|&at| at != end && layout.judged[at]);
            let pair = neighbour.and_then(|at| Some((at, partner(search, blame, at, round)?)));
            chosen.extend(pair);
        }
    }
    chosen
}

/// An endpoint that nobody doubts, on another leaf where there is one, and whose pair with `end` is measured at all.
fn partner(search: &Search<'_>, blame: &Blame, end: usize, round: u32) -> Option<usize> {
    let layout = search.scene.layout;
    let doubted = |at: usize| {
        search.explained.iter().any(|other| {
            rank(other.component) <= 2
                && layout.ends(other.component).is_some_and(|ends| ends.contains(&(at as u32)))
        })
    };
    let fits = |&at: &usize| {
        let bad_pair = matches!(blame.component, Component::Pair(..))
            && (covers(layout, blame, end, at) || covers(layout, blame, at, end));
        layout.is_pair(end, at) && !bad_pair && !doubted(at) && search.scene.is_known(end, at)
    };
    let start = end + 1 + round as usize * 13;
    let tried = || (0..layout.len.min(PARTNERS_TRIED)).map(|by| (start + by) % layout.len);
    let far = |at: &usize| layout.leaf[*at] != layout.leaf[end];
    tried().filter(fits).find(far).or_else(|| tried().find(fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_phase_of_a_job_holds_all_figures_of_delay_and_loss_does_not_wait() {
        for first in 0..100 {
            let times: Vec<u128> =
                (first..first + 8).map(|at| after(Symptom::Slow, at).as_millis()).collect();
            for begin in 0..1_000 {
                let within = |time: &&u128| (**time + 1_000 - begin) % 1_000 < 450;
                assert!(times.iter().filter(within).count() < 8, "{times:?}");
            }
        }
        assert_eq!(after(Symptom::Loss, 3), Duration::ZERO);
    }
}
