//! What a suspect is made of: its effect, and the figures that speak for it.

use super::count::Count;
use super::observe::{Observation, Scene, number};
use super::search::covers;
use super::symptom::{Blame, Candidate, SHARE_MAX, Symptom, Usual};
use crate::hypotheses::rank;
use crate::{Component, Confidence, Effect, EndpointIndex, Share, Support};
use rdmascope_model::Wall;
use std::collections::{BTreeMap, BTreeSet};

/// From this share on nothing gets through.
const DEAD: f64 = 0.9;
/// Nats from which on one of several paths is named.
pub(crate) const ONE_PATH: f64 = 3.0;
/// With fewer endpoints, or peers, nothing is compared with enough others (matrix.md 4.3: 63 % of slow nodes are found among 8).
const ENDPOINTS_MIN: usize = 12;
const PEERS_MIN: u32 = 3;
/// So many peers that agree are beyond doubt.
const PEERS_MANY: u32 = 8;
/// Ends that must suffer before a part is blamed that all of them share: fewer may be faults of their own.
const BROAD: usize = 3;
/// Nodes of each of two leaves that must suffer before what lies between the leaves is blamed.
const NODES_OF_LEAF: usize = 2;
/// Nodes that must see a host take long.
const NODES_OF_HOST: usize = 2;
/// A moment: a batch of the mesh takes up to 6 s.
const RECENT_MS: u64 = 8_000;
/// Pairs that are tried as one that is fine.
const FINE_TRIED: usize = 256;

/// What the cells through a blame add up to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Through {
    /// Of the symptom.
    pub(crate) count: Count,
    pub(crate) one_path: f64,
    pub(crate) support: Support,
    /// Of the symptom, of what was measured alone.
    pub(crate) alone: Count,
    /// Age of the newest cell that suffers, milliseconds.
    pub(crate) newest_bad_ms: Option<u64>,
    /// Of each end: it was looked at, it suffers.
    peers: Vec<(bool, bool)>,
    /// Of the symptom, through each node of a leaf.
    of_node: BTreeMap<u32, Count>,
    /// Pairs that suffered a moment ago.
    recent: BTreeSet<(usize, usize)>,
    worst: f64,
}

/// All of them, and those that were measured since the time asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Both {
    pub(crate) all: Through,
    pub(crate) again: Through,
    /// When it began, as far as the cells tell.
    pub(crate) begun: Wall,
}

/// Steps in which the beginning of a fault is looked for, and how many of them.
const STEP_MS: u64 = 500;
const STEPS: usize = 4_096;

/// Adds up what was measured through a blame, and what of it at or after `since`.
pub(crate) fn through(scene: &Scene<'_>, candidate: &Candidate, usual: &Usual, since: Wall) -> Both {
    let blame = &candidate.blame;
    let mut found = Both::default();
    let mut steps = vec![Count::default(); STEPS];
    let oldest = u64::try_from(scene.now.since(since).as_millis()).unwrap_or(u64::MAX);
    for part in [&mut found.all, &mut found.again] {
        part.peers = vec![(false, false); scene.layout.len];
    }
    scene.through(blame.component, |a, b, seen| {
        let count = of(scene, blame, (a, b), seen);
        let step = usize::try_from(seen.age_ms / STEP_MS).unwrap_or(STEPS).min(STEPS - 1);
        steps[step].add(count);
        found.all.add(scene, blame, (a, b), seen, count);
        if seen.age_ms <= oldest {
            found.again.add(scene, blame, (a, b), seen, count);
        }
    });
    found.all.end();
    found.again.end();
    found.begun = begun(scene, blame, &steps, usual);
    found
}

/// Since when a fault explains the counts best.
fn begun(scene: &Scene<'_>, blame: &Blame, steps: &[Count], usual: &Usual) -> Wall {
    let (mut sum, mut best) = (Count::default(), (0.0, 0));
    for (step, count) in (0_u64..).zip(steps) {
        sum.add(*count);
        if count.bad > 0 {
            let nats = blame.symptom.nats(sum, sum.share().min(SHARE_MAX), usual);
            if nats > best.0 {
                best = (nats, step);
            }
        }
    }
    Wall(scene.now.0.saturating_sub((best.1 + 1) * STEP_MS))
}

impl Through {
    fn add(
        &mut self,
        scene: &Scene<'_>,
        blame: &Blame,
        (a, b): (usize, usize),
        seen: &Observation,
        count: Count,
    ) {
        self.count.add(count);
        if count.trials == 0 {
            return;
        }
        let bad = count.bad > 0;
        if seen.alone {
            self.alone.add(count);
        }
        if let (Symptom::Slow, Component::Leaf(leaf) | Component::Uplinks(leaf)) =
            (blame.symptom, blame.component)
        {
            let own = |end: &usize| scene.layout.leaf[*end] == leaf.0;
            for node in [a, b].into_iter().filter(own).map(|end| scene.layout.node[end]) {
                self.of_node.entry(node).or_default().add(count);
            }
        }
        self.support.pairs += 1;
        self.support.bad_pairs += u32::from(bad);
        for end in [a, b].into_iter().filter(|&end| !is_own(scene, blame.component, end)) {
            if let Some(peer) = self.peers.get_mut(end) {
                *peer = (true, peer.1 | bad);
            }
        }
        if bad {
            self.newest_bad_ms = Some(self.newest_bad_ms.map_or(seen.age_ms, |age| age.min(seen.age_ms)));
            if seen.age_ms <= RECENT_MS {
                self.recent.insert((a.min(b), a.max(b)));
            }
            self.one_path += seen.one_path;
            if count.share() > self.worst {
                self.worst = count.share();
                self.support.worst = Some((number(a), number(b)));
            }
        }
    }

    /// How many pairs suffered a moment ago.
    pub(crate) fn recent(&self) -> usize {
        self.recent.len()
    }

    /// Enough different pairs suffer: of a wide part at least so many of its own ends and of others, as far as there are so many.
    pub(crate) fn is_broad(&self, scene: &Scene<'_>, component: Component) -> bool {
        let layout = scene.layout;
        let own = layout.ends(component);
        let inside = |end: usize| own.as_ref().is_none_or(|own| own.binary_search(&(end as u32)).is_ok());
        let bad = || (0..self.peers.len()).filter(|&end| self.peers[end].1);
        let most = layout.count.saturating_sub(1).min(BROAD);
        match component {
            Component::Pair(..) => true,
            Component::Endpoint(_) | Component::Node(_) => bad().count() >= most,
            Component::Leaf(_) | Component::Uplinks(_) => {
                let size = own.as_ref().map_or(0, Vec::len);
                bad().filter(|&end| inside(end)).count() >= size.min(BROAD) && self.suffers_without_any()
            }
            // What one node does to its peers of another leaf is that node's doing.
            Component::LeafPair(a, b) => {
                let nodes = |leaf: u32, ends: &mut dyn Iterator<Item = usize>| {
                    let ends = ends.filter(|&end| layout.leaf[end] == leaf);
                    ends.map(|end| layout.node[end]).collect::<BTreeSet<_>>().len()
                };
                [a.0, b.0].into_iter().all(|leaf| {
                    nodes(leaf, &mut bad()) >= nodes(leaf, &mut (0..layout.len)).min(NODES_OF_LEAF)
                })
            }
            Component::Spines | Component::Cluster => bad().count() >= layout.count.min(2 * BROAD),
        }
    }

    /// A host that takes long does so whoever asks it: what only one other node sees, or another host that takes long, is not its doing.
    pub(crate) fn is_seen_by_nodes(&self, scene: &Scene<'_>, slow_hosts: &BTreeSet<u32>) -> bool {
        let layout = scene.layout;
        let nodes = |ends: &mut dyn Iterator<Item = usize>| {
            let of = ends.map(|end| layout.node[end]).filter(|node| !slow_hosts.contains(node));
            of.collect::<BTreeSet<_>>().len()
        };
        let bad = nodes(&mut (0..self.peers.len()).filter(|&end| self.peers[end].1));
        bad >= nodes(&mut (0..self.peers.len()).filter(|&end| self.peers[end].0)).min(NODES_OF_HOST)
    }

    /// A leaf is slow for all its nodes: what is left without any one of them must suffer half as much at least. Else a job's queue in
    /// front of one node would make a slow leaf.
    fn suffers_without_any(&self) -> bool {
        self.of_node.len() < 2
            || self.of_node.values().all(|own| {
                let mut left = self.count;
                left.trials = left.trials.saturating_sub(own.trials);
                left.bad = left.bad.saturating_sub(own.bad);
                2.0 * left.share() >= self.count.share()
            })
    }

    fn end(&mut self) {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.support.peers = number(self.peers.iter().filter(|(seen, _)| *seen).count());
        self.support.bad_peers = number(self.peers.iter().filter(|(_, bad)| *bad).count());
    }
}

/// An end that is the component itself, or a part of it, and so no peer.
fn is_own(scene: &Scene<'_>, component: Component, end: usize) -> bool {
    match component {
        Component::Endpoint(e) => end == e.0 as usize,
        Component::Node(node) => scene.layout.node[end] == node.0,
        Component::Pair(a, _) => end == a.0 as usize,
        _ => false,
    }
}

/// What one cell says of a blame.
pub(crate) fn of(scene: &Scene<'_>, blame: &Blame, (a, b): (usize, usize), seen: &Observation) -> Count {
    let layout = scene.layout;
    if blame.symptom == Symptom::Host {
        let Component::Node(node) = blame.component else { return Count::default() };
        let own = |at: usize| layout.node[at] == node.0;
        return if own(a) {
            seen.hosts[0]
        } else if own(b) {
            seen.hosts[1]
        } else {
            Count::default()
        };
    }
    let (there, back) = (covers(layout, blame, a, b), covers(layout, blame, b, a));
    let seen = &if rank(blame.component) == 0 { seen.of_pair() } else { *seen };
    let mut count = Count::default();
    if there {
        count.add(blame.symptom.count(&seen.forward));
    }
    if back {
        count.add(blame.symptom.count(&seen.backward));
    }
    if there || back {
        count.add(blame.symptom.count(&seen.either));
    }
    count
}

/// A pair that has nothing to do with it and is fine.
pub(crate) fn fine(scene: &Scene<'_>, blame: &Blame) -> Option<(EndpointIndex, EndpointIndex)> {
    let layout = scene.layout;
    let crosses = |a: usize, b: usize| {
        layout.crossing(blame.component, a, b).any() || layout.crossing(blame.component, b, a).any()
    };
    let start = layout.ends(blame.component).and_then(|ends| ends.first().copied()).unwrap_or(0) as usize;
    let mut tried = 0;
    for by in 1..layout.len {
        let a = (start + by) % layout.len;
        for further in 1..layout.len.min(16) {
            let b = (a + further) % layout.len;
            if !layout.is_pair(a, b) || crosses(a, b) {
                continue;
            }
            let (mut seen_any, mut bad) = (false, false);
            scene.between(a, b, |seen| {
                seen_any = true;
                bad |= seen.is_bad();
            });
            if seen_any && !bad {
                return Some((number(a), number(b)));
            }
            tried += 1;
            if tried >= FINE_TRIED {
                return None;
            }
        }
    }
    None
}

/// The effect in the words of a suspect.
pub(crate) fn effect(candidate: &Candidate, again: Count) -> Effect {
    // What was measured since it was doubted has nothing from before the fault in it.
    let share = if again.trials > 0 { again.share() } else { candidate.share };
    match candidate.blame.symptom {
        Symptom::Loss if share >= DEAD => Effect::Dead,
        Symptom::Loss => Effect::Lossy,
        Symptom::LargeLoss => Effect::LargeLost,
        Symptom::Slow => Effect::Slow,
        Symptom::Narrow => Effect::Narrow,
        Symptom::Host => Effect::HostSlow,
    }
}

pub(crate) fn share(one_path: f64) -> Share {
    if one_path > ONE_PATH { Share::SomePaths } else { Share::All }
}

/// How sure the matrix alone can be.
pub(crate) fn confidence(
    scene: &Scene<'_>,
    component: Component,
    support: &Support,
    told_apart: bool,
) -> Confidence {
    let few_peers = rank(component) > 0 && support.peers < PEERS_MIN;
    if scene.layout.count < ENDPOINTS_MIN || few_peers || !told_apart {
        Confidence::Low
    } else if support.bad_peers >= PEERS_MANY && support.bad_peers * 2 >= support.peers {
        Confidence::High
    } else {
        Confidence::Medium
    }
}

/// The figures in words.
pub(crate) fn figures(candidate: &Candidate, support: &Support, count: Count) -> Vec<String> {
    let percent = |share: f64| {
        let percent = share * 100.0;
        if percent >= 10.0 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
    };
    let average = percent(count.share());
    let (bad, of) = (support.bad_peers, support.peers);
    let what = match candidate.blame.symptom {
        Symptom::Loss => {
            format!("lose packets, {average} on average ({} of {} packets)", count.bad, count.trials)
        }
        Symptom::LargeLoss => {
            format!(
                "lose packets of the full path MTU, {average} on average ({} of {})",
                count.bad, count.trials
            )
        }
        Symptom::Slow => "are slower than others of their tier".to_owned(),
        Symptom::Narrow => "have slower streams than others of their tier".to_owned(),
        Symptom::Host => "see the time pass inside the host, not in the network".to_owned(),
    };
    let pairs = format!("{} of {} pairs through it", support.bad_pairs, support.pairs);
    if rank(candidate.blame.component) == 0 {
        vec![format!("its packets: {what}")]
    } else {
        vec![format!("{bad} of {of} peers {what}"), pairs]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlaceIndex;
    use crate::judge::search::Search;
    use crate::judge::sums::Sums;
    use crate::judge::world::{Fault, World};

    #[test]
    fn what_one_node_does_to_its_peers_of_another_leaf_is_not_between_the_leaves() {
        let between = Component::LeafPair(PlaceIndex(0), PlaceIndex(1));
        for (pairs, broad) in [([(3, 9), (3, 12), (3, 14)], false), ([(3, 9), (4, 12), (5, 14)], true)] {
            let mut world = World::new(1, 32, 1, 8);
            world.noise_loss = 0.0;
            world.warm_up();
            let pair = |(a, b)| Component::Pair(EndpointIndex(a), EndpointIndex(b));
            world.faults = pairs.map(|ends| Fault::lossy(pair(ends), 0.5)).to_vec();
            pairs.into_iter().for_each(|(a, b)| world.ping(a as usize, b as usize, 222));
            world.scene(|scene| {
                let search = Search::new(scene, Sums::new(&scene), Vec::new(), None);
                let best = search.of(between).unwrap();
                let all = through(&scene, &best, &search.usual, Wall(0)).all;
                assert_eq!((all.support.bad_pairs, all.is_broad(&scene, between)), (3, broad), "{pairs:?}");
            });
        }
    }
}
