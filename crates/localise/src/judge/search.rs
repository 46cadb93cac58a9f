//! The search for those who are to blame: the best explanation takes away what it explains, until nothing is left that is worth one.
//!
//! A wide component explains something of whatever happens inside it. So a wide one is only taken when no few narrow ones together
//! explain more.

mod alone;
mod narrow;

use super::count::{Channel, Tally};
use super::layout::Layout;
use super::observe::{Observation, Scene};
use super::sums::{Counted, Sums};
use super::support::ONE_PATH;
use super::symptom::{Blame, Candidate, Symptom, Usual, explain, is_of_figures, since_when};
use crate::hypotheses::{self, Evidence, rank};
use crate::{Component, PlaceIndex, Way};
use std::collections::BTreeSet;
use std::rc::Rc;

/// From here on somebody is doubted, and measured again: before that decides, a doubt may well be wrong.
const DOUBT: f64 = -6.0;
/// Figures of one pair are two cells, which can never pay for themselves before they are measured again: both must be bad.
const PAIR_NATS: f64 = 8.0;
/// Likelihoods that differ by less (1 : 100) do not tell two explanations apart.
const ALIKE: f64 = 4.6;
/// Packets of one label in a batch that is measured again, small and large (three in one of the mesh): what shares one fate on one path.
const CLUSTER: f64 = 8.0;
/// Cells that are looked at for that.
const CLUSTER_PAIRS: usize = 2_048;
/// Explanations of one look: who doubts more than this many at once has a wrong yardstick.
const FOUND_MAX: usize = 64;
/// What is usual is not believed to be better, or worse, than this.
const LOSS_USUAL: (f64, f64) = (1e-4, 5e-4);
const FIGURES_USUAL: (f64, f64) = (0.01, 0.25);

/// An explanation, and others that explain the same as well.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) best: Candidate,
    pub(crate) alike: Vec<Candidate>,
}

/// One search.
#[derive(Clone)]
pub(crate) struct Search<'a> {
    pub(crate) scene: Scene<'a>,
    sums: Sums,
    pub(crate) usual: Usual,
    pub(crate) explained: Vec<Blame>,
    /// Faults that were measured again and are so: to name them again costs nothing.
    known: Vec<Blame>,
    /// Parts that were doubted in vain.
    pub(crate) refuted: Vec<Component>,
    /// Pairs that show something, the most telling first.
    pairs: Vec<Candidate>,
    /// Cells that show something, whatever explains them.
    bad_pairs: Rc<[(u32, u32)]>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(scene: Scene<'a>, sums: Sums, known: Vec<Blame>, before: Option<Usual>) -> Self {
        let layout = scene.layout;
        let share = |channels: &[Channel]| sums.usual_share(layout, channels);
        let usual = Usual {
            loss: share(&[Channel::Small, Channel::Large]).clamp(LOSS_USUAL.0, LOSS_USUAL.1),
            slow: before
                .map_or(f64::MAX, |before| before.slow)
                .min(share(&[Channel::Slow]))
                .clamp(FIGURES_USUAL.0, FIGURES_USUAL.1),
            narrow: share(&[Channel::Narrow]).clamp(FIGURES_USUAL.0, FIGURES_USUAL.1),
            host: sums.usual_host().clamp(FIGURES_USUAL.0, FIGURES_USUAL.1),
        };
        let bad_pairs = Rc::from(sums.bad.as_slice());
        let mut search = Self {
            scene,
            sums,
            usual,
            explained: Vec::new(),
            known,
            refuted: Vec::new(),
            pairs: Vec::new(),
            bad_pairs,
        };
        search.pairs = search.doubtful_pairs();
        // What goes through a wide fault is no fault of a pair, be it there or not at this moment.
        let known = search.known.clone();
        // Which way suffers may look different from moment to moment.
        let known: Vec<Blame> = known.into_iter().map(|blame| Blame { way: Way::Both, ..blame }).collect();
        let wide = |blame: &&Blame| rank(blame.component) > 0;
        search
            .pairs
            .retain(|pair| !known.iter().filter(wide).any(|blame| is_covered(layout, blame, &pair.blame)));
        search
    }

    /// Pairs of which something went wrong, both orders once.
    fn doubtful_pairs(&self) -> Vec<Candidate> {
        let mut ends: Vec<(u32, u32)> = self.sums.bad.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
        ends.sort_unstable();
        ends.dedup();
        let mut pairs: Vec<Candidate> = ends.into_iter().filter_map(|(a, b)| self.pair(a, b)).collect();
        pairs.retain(is_doubtful);
        pairs.sort_by(|a, b| b.gain.total_cmp(&a.gain));
        pairs
    }

    pub(crate) fn pair(&self, a: u32, b: u32) -> Option<Candidate> {
        let component = Component::Pair(crate::EndpointIndex(a), crate::EndpointIndex(b));
        let evidence = hypotheses::pair_evidence(&self.scene, a as usize, b as usize);
        let pairs = self.scene.layout.count * self.scene.layout.count;
        explain(component, &evidence, &self.usual, pairs).map(|found| self.at_its_cost(found))
    }

    /// A fault that is known need not be paid for again.
    fn at_its_cost(&self, mut found: Candidate) -> Candidate {
        if self.known.iter().any(|known| known.component == found.blame.component) {
            found.gain = found.nats;
        }
        found
    }

    /// How many components there are that may break, pairs left out: each endpoint, and less than as many of all others.
    fn parts(&self) -> usize {
        2 * self.scene.layout.count
    }

    /// What is known of a component now.
    pub(crate) fn of(&self, component: Component) -> Option<Candidate> {
        if let Component::Pair(a, b) = component {
            return self.pair(a.0, b.0);
        }
        let layout = self.scene.layout;
        let kind = hypotheses::ALL.iter().find(|kind| (kind.candidates)(layout).contains(&component))?;
        let found =
            explain(component, &(kind.evidence)(layout, &self.sums, component), &self.usual, self.parts());
        found.map(|found| self.at_its_cost(found))
    }

    /// Everything that explains something, below a rank and touching `within`.
    fn candidates(&self, below: u8, within: Option<Component>) -> Vec<Candidate> {
        let layout = self.scene.layout;
        let touches = |component| within.is_none_or(|wide| touches(layout, wide, component));
        let mut all = Vec::new();
        for kind in hypotheses::ALL {
            let looked_at = (kind.candidates)(layout).into_iter().filter(|&c| rank(c) < below && touches(c));
            all.extend(looked_at.filter_map(|component| {
                let found = explain(
                    component,
                    &(kind.evidence)(layout, &self.sums, component),
                    &self.usual,
                    self.parts(),
                );
                found.map(|found| self.at_its_cost(found))
            }));
        }
        all.extend(self.pairs.iter().filter(|pair| touches(pair.blame.component)).copied());
        all
    }

    fn best(&self, below: u8, within: Option<Component>) -> Option<Candidate> {
        self.candidates(below, within).into_iter().reduce(better)
    }

    /// Hosts that take long: how long anything else takes that goes through them says nothing.
    pub(crate) fn hosts(&mut self) -> Vec<Candidate> {
        let mut found = Vec::new();
        for &node in self.scene.layout.of_node.keys() {
            let component = Component::Node(PlaceIndex(node));
            let blame = Blame { component, symptom: Symptom::Host, way: Way::Both };
            let candidate = since_when(blame, &self.sums.hosts[node as usize], &self.usual, self.parts());
            found.extend(candidate.filter(|candidate| candidate.gain > DOUBT));
        }
        found.iter().for_each(|candidate| self.explain(candidate.blame));
        found
    }

    /// Nodes whose hosts take long, but for the one that is blamed.
    pub(crate) fn other_slow_hosts(&self, blame: &Blame) -> BTreeSet<u32> {
        let others = self.explained.iter().filter(|other| other.symptom == Symptom::Host && *other != blame);
        others
            .filter_map(|other| if let Component::Node(node) = other.component { Some(node.0) } else { None })
            .collect()
    }

    /// The next explanation; what it explains is gone.
    pub(crate) fn next(&mut self) -> Option<Found> {
        if self.explained.len() >= FOUND_MAX {
            return None;
        }
        let best = self.best(u8::MAX, None).filter(is_doubtful)?;
        let best = self.narrower(best);
        let best = self.common_end(&best).unwrap_or(best);
        Some(self.take(best))
    }

    /// Takes an explanation, with those that are as good.
    pub(crate) fn take(&mut self, best: Candidate) -> Found {
        let layout = self.scene.layout;
        let component = best.blame.component;
        let related = |other: &Candidate| {
            let theirs = other.blame.component;
            theirs != component && (touches(layout, component, theirs) || touches(layout, theirs, component))
        };
        let clustered = self.clustering(&best.blame);
        let mut alike = self.candidates(u8::MAX, None);
        alike.retain(|other| {
            // What explains far more is wider, and was found to be several.
            let near = (other.nats - best.nats).abs() < ALIKE * clustered;
            other.blame.symptom == best.blame.symptom && near && related(other)
        });
        self.explain(best.blame);
        // What has not lost its own evidence by that is another fault. That of pairs is not in the sums.
        alike.retain(|other| match other.blame.component {
            Component::Pair(..) => is_covered(layout, &best.blame, &other.blame),
            wider => self.of(wider).is_none_or(|left| left.nats < other.nats / 2.0),
        });
        Found { best, alike }
    }

    /// How many packets share one fate: a path of several that is broken takes all packets of a label or none, so that counts differ by
    /// more than chance allows for single packets. 1 where they are lost one by one.
    pub(crate) fn clustering(&self, blame: &Blame) -> f64 {
        let layout = self.scene.layout;
        let mut one_path = 0.0;
        for &(a, b) in self.bad_pairs.iter().take(CLUSTER_PAIRS) {
            let (a, b) = (a as usize, b as usize);
            if covered(layout, &[*blame], a, b).either {
                self.scene.between(a, b, |seen| one_path += seen.one_path);
            }
        }
        if one_path > ONE_PATH { CLUSTER } else { 1.0 }
    }

    /// Something narrower than this blame explains what goes wrong between two, or something else that is known. What is just as wide may
    /// be another part of the same wider fault.
    pub(crate) fn is_explained(&self, blame: &Blame, a: usize, b: usize) -> bool {
        let own = rank(blame.component);
        let narrower = self.explained.iter().filter(|other| rank(other.component) < own);
        let known = self
            .known
            .iter()
            .filter(|other| other.component != blame.component && rank(other.component) <= own);
        narrower.chain(known).any(|other| covered(self.scene.layout, &[*other], a, b).either)
    }

    fn evidence(&self, component: Component) -> Evidence {
        let layout = self.scene.layout;
        if let Component::Pair(a, b) = component {
            return hypotheses::pair_evidence(&self.scene, a.0 as usize, b.0 as usize);
        }
        let kind = hypotheses::ALL.iter().find(|kind| (kind.candidates)(layout).contains(&component));
        kind.map(|kind| (kind.evidence)(layout, &self.sums, component)).unwrap_or_default()
    }

    /// Takes out of the sums what a blame explains.
    pub(crate) fn explain(&mut self, blame: Blame) {
        let layout = self.scene.layout;
        let scene = self.scene;
        let (explained, sums) = (&self.explained, &mut self.sums);
        let is_host = |blame: &Blame| blame.symptom == Symptom::Host;
        let parts: Vec<Blame> = explained.iter().filter(|blame| !is_host(blame)).copied().collect();
        scene.through(blame.component, |a, b, seen: &Observation| {
            let now = covered(layout, &[blame], a, b);
            // A host that takes long makes figures slow; what it may have lost was not counted.
            let packets = (seen.packets(), false);
            for (seen, of_hosts) in [packets, (seen.figures(), !seen.far)] {
                if of_hosts || !is_host(&blame) {
                    let before = covered(layout, if of_hosts { explained } else { &parts }, a, b);
                    let counted = Counted {
                        forward: now.forward && !before.forward,
                        backward: now.backward && !before.backward,
                        either: now.either && !before.either,
                    };
                    sums.count(layout, (a, b), &seen, counted, Tally::take);
                }
            }
        });
        self.explained.push(blame);
        let concerned = |pair: &Blame| !is_host(&blame) || is_of_figures(pair.symptom);
        self.pairs.retain(|pair| !(concerned(&pair.blame) && is_covered(layout, &blame, &pair.blame)));
    }
}

fn better(one: Candidate, other: Candidate) -> Candidate {
    // Where both are as good the narrow one stays, which comes first.
    if other.gain > one.gain + 1e-6 { other } else { one }
}

/// Whether a candidate is worth being measured again.
pub(crate) fn is_doubtful(candidate: &Candidate) -> bool {
    if is_of_figures(candidate.blame.symptom) && rank(candidate.blame.component) == 0 {
        candidate.nats > PAIR_NATS
    } else {
        candidate.gain > DOUBT
    }
}

/// Whether what `from` sends to `to` goes through what is blamed, in a way that suffers.
pub(crate) fn covers(layout: &Layout, blame: &Blame, from: usize, to: usize) -> bool {
    let crossing = layout.crossing(blame.component, from, to);
    match blame.way {
        Way::Both => crossing.any(),
        Way::Out => crossing.out,
        Way::In => crossing.into,
    }
}

/// Whether what a pair suffers from is a part of what another blame explains.
fn is_covered(layout: &Layout, blame: &Blame, pair: &Blame) -> bool {
    let Component::Pair(a, b) = pair.component else { return false };
    let now = covered(layout, &[*blame], a.0 as usize, b.0 as usize);
    match pair.way {
        Way::Both => now.either,
        Way::Out => now.forward,
        Way::In => now.backward,
    }
}

fn covered(layout: &Layout, blames: &[Blame], a: usize, b: usize) -> Counted {
    let forward = blames.iter().any(|blame| covers(layout, blame, a, b));
    let backward = blames.iter().any(|blame| covers(layout, blame, b, a));
    Counted { forward, backward, either: forward || backward }
}

/// Whether one component has ends in another.
pub(crate) fn touches(layout: &Layout, wide: Component, narrow: Component) -> bool {
    let within = |at: usize| match wide {
        Component::Node(node) => layout.node[at] == node.0,
        Component::Endpoint(e) => at == e.0 as usize,
        Component::Leaf(leaf) | Component::Uplinks(leaf) => layout.leaf[at] == leaf.0,
        Component::LeafPair(a, b) => layout.leaf[at] == a.0 || layout.leaf[at] == b.0,
        Component::Pair(a, b) => at == a.0 as usize || at == b.0 as usize,
        Component::Spines | Component::Cluster => true,
    };
    let of_leaf =
        |leaf: PlaceIndex| layout.of_leaf.get(&leaf.0).into_iter().flatten().any(|&at| within(at as usize));
    match narrow {
        Component::Node(node) => {
            layout.of_node.get(&node.0).into_iter().flatten().any(|&at| within(at as usize))
        }
        Component::Endpoint(e) => within(e.0 as usize),
        Component::Leaf(leaf) | Component::Uplinks(leaf) => of_leaf(leaf),
        Component::LeafPair(a, b) => of_leaf(a) || of_leaf(b),
        Component::Pair(a, b) => within(a.0 as usize) || within(b.0 as usize),
        Component::Spines | Component::Cluster => true,
    }
}
