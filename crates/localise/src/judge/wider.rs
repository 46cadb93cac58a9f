//! Whether a suspect is all of what is wrong: what has just begun shows in a few pairs only, and a part of the culprit explains those
//! as well. So nobody is blamed before what else goes through the wider ones around it was measured, too, and is fine.

use super::count::Count;
use super::observe::Scene;
use super::search::{Search, covers};
use super::support::of;
use super::symptom::{Blame, Candidate, SHARE_MAX, Symptom};
use crate::{Component, EndpointIndex, PlaceIndex, Way};
use rdmascope_model::Wall;
use std::collections::BTreeSet;

/// Nats by which what lies beside must be less likely, were it a part of the same fault (1 : 20): a chance in twenty for each of a few
/// wider ones, after a search that preferred the narrow one already.
const CLEAN: f64 = 3.0;
/// Nats from which on what lies beside suffers, too (1 : 1,000), and how much less it must do so to be another fault's.
const SUFFERS: f64 = 7.0;
const FAR_BETTER: f64 = 5.0;
/// Pairs beside a suspect that are measured again for each wider one.
const BESIDE: usize = 2;

/// The components that hold all of one, the next ones first.
fn around(scene: &Scene<'_>, blame: &Blame) -> Vec<Component> {
    let component = blame.component;
    let layout = scene.layout;
    let several = layout.of_leaf.len() > 1;
    let leaves = |ends: &[u32]| {
        let leaves: BTreeSet<u32> = ends.iter().filter_map(|&at| layout.leaf_of(at)).collect();
        leaves.into_iter().map(PlaceIndex).collect::<Vec<_>>()
    };
    let mut around = Vec::new();
    let mut add_leaf = |leaf: PlaceIndex| {
        if several {
            around.push(Component::Uplinks(leaf));
        }
        around.push(Component::Leaf(leaf));
    };
    match component {
        Component::Endpoint(EndpointIndex(at)) => {
            leaves(&[at]).into_iter().for_each(&mut add_leaf);
            let node = layout.node[at as usize];
            if layout.of_node.get(&node).is_some_and(|ends| ends.len() > 1) {
                around.push(Component::Node(PlaceIndex(node)));
            }
        }
        Component::Node(_) => {
            let ends = layout.ends(component).unwrap_or_default();
            leaves(&ends).into_iter().for_each(&mut add_leaf);
        }
        Component::LeafPair(a, b) => {
            around.extend([Component::Uplinks(a), Component::Uplinks(b), Component::Spines]);
        }
        Component::Uplinks(leaf) => around.extend([Component::Leaf(leaf), Component::Spines]),
        Component::Leaf(_) if several => around.push(Component::Spines),
        // What slows everything slows nobody: there is nothing that it could be compared with.
        Component::Spines if blame.symptom != Symptom::Slow => around.push(Component::Cluster),
        Component::Leaf(_) | Component::Spines | Component::Pair(..) | Component::Cluster => {}
    }
    around
}

/// The wider one as it is blamed for the same: one end of a pair of leaves sends what the other one receives.
fn widened(blame: &Blame, wide: Component) -> Blame {
    let way = match (blame.component, wide) {
        (_, Component::Spines | Component::Cluster) => Way::Both,
        (Component::LeafPair(_, b), Component::Uplinks(leaf)) if leaf == b => match blame.way {
            Way::Both => Way::Both,
            Way::Out => Way::In,
            Way::In => Way::Out,
        },
        _ => blame.way,
    };
    Blame { component: wide, way, ..*blame }
}

/// Pairs that go through a wider one and not through the suspect, with as many different ends as possible; each round others.
pub(crate) fn beside(search: &Search<'_>, blame: &Blame, round: u32) -> Vec<(usize, usize)> {
    let scene = &search.scene;
    let mut used: BTreeSet<usize> = BTreeSet::new();
    let mut chosen = Vec::new();
    if blame.symptom == Symptom::Host {
        return chosen;
    }
    for wide in around(scene, blame) {
        let wide = widened(blame, wide);
        let mut found = Vec::new();
        super::retest::each_pair(search, [&wide, blame], round, |a, b| {
            let new = !used.contains(&a) && !used.contains(&b);
            if new && is_beside(scene, blame, &wide, a, b) && scene.is_known(a, b) {
                used.extend([a, b]);
                found.push((a, b));
            }
            found.len() < BESIDE
        });
        chosen.extend(found);
    }
    chosen
}

/// Round trips of a pair go through the wider one and in no way through the suspect.
fn is_beside(scene: &Scene<'_>, blame: &Blame, wide: &Blame, a: usize, b: usize) -> bool {
    let layout = scene.layout;
    let of_suspect =
        layout.crossing(blame.component, a, b).any() || layout.crossing(blame.component, b, a).any();
    !of_suspect && (covers(layout, wide, a, b) || covers(layout, wide, b, a))
}

/// What goes through the wider ones around a suspect, and not through itself, is fine since the doubt began. `share` is what the suspect
/// suffers from.
pub(crate) fn is_all(search: &Search<'_>, best: &Candidate, share: f64, since: Wall) -> bool {
    let scene = &search.scene;
    // Nothing but a host is wider than a host that takes long.
    best.blame.symptom == Symptom::Host
        || around(scene, &best.blame).into_iter().all(|wide| {
            let wide = widened(&best.blame, wide);
            let (mut left, mut any) = (Count::default(), false);
            scene.through(wide.component, |a, b, seen| {
                if is_beside(scene, &best.blame, &wide, a, b) && !search.is_explained(&best.blame, a, b) {
                    any = true;
                    if scene.now.0.saturating_sub(seen.age_ms) >= since.0 {
                        left.add(of(scene, &wide, (a, b), seen));
                    }
                }
            });
            // Where nothing lies beside it they are the same.
            !any || is_clean(search, best, left, share)
        })
}

fn is_clean(search: &Search<'_>, best: &Candidate, left: Count, share: f64) -> bool {
    let symptom = best.blame.symptom;
    let usual = symptom.usual(&search.usual);
    let share = share.clamp(usual, SHARE_MAX);
    let own = left.share().clamp(usual, SHARE_MAX);
    let nats = |share: f64| symptom.nats(left, share, &search.usual);
    let one_by_one = if symptom == Symptom::Slow { 1.0 } else { search.clustering(&best.blame) };
    // A suspect is the part that looks worst, so that the rest of the same fault suffers less: it must be as it always is, or be far better.
    let as_usual = own * 2.0 < share && nats(own) < SUFFERS * one_by_one;
    (as_usual || own * FAR_BETTER < share) && nats(own) - nats(share) > CLEAN * one_by_one
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::sums::Sums;
    use crate::judge::world::{Fault, World};

    fn search<T>(world: &World, ask: impl FnOnce(&mut Search<'_>) -> T) -> T {
        world.scene(|scene| ask(&mut Search::new(scene, Sums::new(&scene), Vec::new(), None)))
    }

    fn endpoint(at: u32) -> Component {
        Component::Endpoint(EndpointIndex(at))
    }

    /// A cluster in which everything was fine until now, and the time.
    fn world() -> (World, Wall) {
        let mut world = World::new(1, 32, 1, 8);
        world.noise_loss = 0.0;
        world.warm_up();
        let since = Wall(world.now_ms + 1);
        world.now_ms += 2_000;
        (world, since)
    }

    #[test]
    fn a_part_is_blamed_only_when_what_lies_beside_it_was_measured_and_is_fine() {
        let is_fine_beside = |world: &World, since| {
            search(world, |search| {
                let best = search.of(endpoint(9)).unwrap();
                is_all(search, &best, 1.0, since)
            })
        };
        for (at, is_fine) in [(endpoint(9), true), (Component::Leaf(PlaceIndex(1)), false)] {
            let (mut world, since) = world();
            world.faults = vec![Fault::lossy(at, 1.0)];
            // It has just begun, and only one endpoint had its turn.
            [0, 1, 16, 17, 24].into_iter().for_each(|peer| world.ping(9, peer, 36));
            assert!(!is_fine_beside(&world, since), "{at:?}: nothing beside it was measured since");
            let pairs = search(&world, |search| {
                let best = search.of(endpoint(9)).unwrap();
                beside(search, &best.blame, 0)
            });
            assert!(pairs.iter().all(|&(a, b)| a != 9 && b != 9), "{pairs:?}");
            assert!(pairs.iter().any(|&(a, b)| (8..16).contains(&a) || (8..16).contains(&b)), "{pairs:?}");
            pairs.into_iter().for_each(|(a, b)| world.ping(a, b, 222));
            assert_eq!(is_fine_beside(&world, since), is_fine, "{at:?}");
        }
    }

    #[test]
    fn uplinks_are_blamed_only_when_the_pairs_below_their_leaf_are_fine() {
        let blame =
            Blame { component: Component::Uplinks(PlaceIndex(2)), symptom: Symptom::Loss, way: Way::Both };
        let (world, _) = world();
        let pairs = search(&world, |search| beside(search, &blame, 0));
        let below = |&(a, b): &(usize, usize)| a / 8 == 2 && b / 8 == 2;
        assert!(pairs.iter().any(below), "{pairs:?}");
    }

    #[test]
    fn pairs_that_break_in_the_same_moment_have_their_end_in_common() {
        let (mut world, _) = world();
        world.faults = vec![Fault::lossy(endpoint(5), 1.0)];
        [20, 28].into_iter().for_each(|peer| world.ping(5, peer, 36));
        world.faults.clear();
        // It is back, and was measured again.
        (8..20).for_each(|peer| world.ping(5, peer, 222));
        let next = |refuted: Vec<Component>| {
            search(&world, |search| {
                search.refuted = refuted;
                search.next().unwrap().best.blame.component
            })
        };
        assert_eq!(next(Vec::new()), endpoint(5));
        assert!(matches!(next(vec![endpoint(5)]), Component::Pair(..)), "two pairs after all");
    }

    #[test]
    fn an_end_that_is_slow_to_others_too_has_no_slow_pair() {
        let pair = Component::Pair(EndpointIndex(5), EndpointIndex(20));
        let blame = Blame { component: pair, symptom: Symptom::Slow, way: Way::Both };
        for (at, alone) in [(pair, true), (endpoint(5), false)] {
            let (mut world, _) = world();
            world.faults = vec![Fault::slow(at, 1.6)];
            [20, 9, 17, 26].into_iter().for_each(|peer| world.ping(5, peer, 36));
            assert_eq!(search(&world, |search| search.is_alone(&blame, &[])), alone, "{at:?}");
        }
    }
}
