//! What is named in place of the explanation that explains most: the parts of a wide one that explain it together, and the end that
//! several pairs have in common.

use super::{ALIKE, Search, is_doubtful};
use crate::Component;
use crate::hypotheses::{WAYS, rank};
use crate::judge::count::Count;
use crate::judge::symptom::{Candidate, SHARE_MAX, Symptom};
use std::collections::BTreeSet;

/// Narrow components that are tried in place of a wide one: more faults at once, all within one part, are less likely than that part.
const INSTEAD_MAX: usize = 3;
/// What they leave of the wide one must be a part of it worth the name, and suffer much less: by so many nats.
const LEFT_MIN: f64 = 0.1;
const LEFT_CLEAN: f64 = 3.0;
/// Parts that cover all of the wide one fit a little better by chance; so much better they must fit.
const CLEARLY: f64 = 1.15;

impl Search<'_> {
    /// Several pairs of one end that lose packets in the same moment have that end in common, though it was well in between and so explains
    /// less than they do one by one: an end that comes and goes is likelier than two broken pairs that meet by chance.
    pub(super) fn common_end(&self, pair: &Candidate) -> Option<Candidate> {
        let Component::Pair(a, b) = pair.blame.component else { return None };
        let lossy = |other: &Candidate| matches!(other.blame.symptom, Symptom::Loss | Symptom::LargeLoss);
        let meets = |other: &&Candidate, end| match other.blame.component {
            Component::Pair(x, y) => (x, y) != (a, b) && (x == end || y == end),
            _ => false,
        };
        let others = |end| {
            let sure = self.pairs.iter().filter(|other| other.gain > 0.0 && lossy(other));
            sure.filter(|other| meets(other, end)).count()
        };
        let end = [a, b].into_iter().max_by_key(|&end| others(end)).filter(|&end| others(end) > 0)?;
        let end = self.of(Component::Endpoint(end)).filter(is_doubtful)?;
        (lossy(pair) && lossy(&end) && !self.refuted.contains(&end.blame.component)).then_some(end)
    }

    /// Those that explain more than this one where they are taken together: the first of them; else this one. What they leave of it must
    /// be fine, or it is needed all the same: parts that happen to suffer more than others always explain a little more.
    pub(super) fn narrower(&self, wide: Candidate) -> Candidate {
        let own = rank(wide.blame.component);
        // The narrowest first: a part that is nearly as wide would explain nearly as much, and be as wrong.
        if let Some(part) = self.part_of(&wide) {
            return part;
        }
        let levels: BTreeSet<u8> = [2, 3, own].into_iter().filter(|&below| below <= own && own > 0).collect();
        levels.into_iter().find_map(|below| self.instead(&wide, below)).unwrap_or(wide)
    }

    /// What a leaf does towards the spines, and what lies between leaves, is told from more than that by pairs below one leaf: as long as
    /// these do not suffer as well, they are not blamed.
    fn part_of(&self, wide: &Candidate) -> Option<Candidate> {
        let part = match wide.blame.component {
            Component::Leaf(leaf) => Component::Uplinks(leaf),
            Component::Cluster => Component::Spines,
            _ => return None,
        };
        let way = WAYS.iter().position(|way| *way == wide.blame.way)?;
        let way_of_part = if part == Component::Spines { 0 } else { way };
        let (all, of_part) = (self.evidence(wide.blame.component), self.evidence(part));
        let mut left = Count::default();
        for window in 0..=wide.window {
            left.add(wide.blame.symptom.count(&all.ways[way][window]));
            left.take(wide.blame.symptom.count(&of_part.ways[way_of_part][window]));
        }
        let nats = wide.blame.symptom.nats(left, wide.share.min(SHARE_MAX), &self.usual);
        // What slows everything slows nobody: there is nothing that it could be compared with.
        let all_slow = wide.blame.component == Component::Cluster && wide.blame.symptom == Symptom::Slow;
        let suffers = nats > LEFT_CLEAN * self.clustering(&wide.blame) && !all_slow;
        self.of(part).filter(|part| !suffers && part.blame.symptom == wide.blame.symptom && is_doubtful(part))
    }

    /// The first of those below a rank that explain more than a wide one where they are taken together.
    fn instead(&self, wide: &Candidate, below: u8) -> Option<Candidate> {
        let clustered = self.clustering(&wide.blame);
        let needed = if clustered > 1.0 { CLEARLY * wide.gain } else { wide.gain };
        let mut trial = self.clone();
        let (mut total, mut first) = (0.0, None);
        for _ in 0..INSTEAD_MAX {
            let next = trial.best(below, Some(wide.blame.component));
            let Some(next) = next.filter(|next| next.gain > 0.0) else { break };
            total += next.gain;
            let first = *first.get_or_insert(next);
            trial.explain(next.blame);
            if total > needed && trial.is_fine(wide, total, clustered) {
                return Some(self.narrower(first));
            }
        }
        None
    }

    /// What is left of a blame's evidence does not suffer as the blame says; where next to nothing is left, what was taken must explain
    /// clearly more.
    fn is_fine(&self, blamed: &Candidate, total: f64, clustered: f64) -> bool {
        let windows = self.evidence(blamed.blame.component);
        let Some(way) = WAYS.iter().position(|way| *way == blamed.blame.way) else { return false };
        let mut left = Count::default();
        for tally in &windows.ways[way][..=blamed.window] {
            left.add(blamed.blame.symptom.count(tally));
        }
        if f64::from(left.trials) < LEFT_MIN * f64::from(blamed.count.trials) {
            return total > CLEARLY * blamed.gain + ALIKE;
        }
        let nats = |share: f64| blamed.blame.symptom.nats(left, share, &self.usual);
        let usual = blamed.blame.symptom.usual(&self.usual);
        let own = left.share().clamp(usual, SHARE_MAX);
        own * 2.0 < blamed.share && nats(own) - nats(blamed.share.min(SHARE_MAX)) > LEFT_CLEAN * clustered
    }
}
