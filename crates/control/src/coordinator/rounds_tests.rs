//! Every shape of cluster: each wanted pair once, no endpoint twice in a round, a leaf with one other leaf at a time.

use super::*;
use rdmascope_localise::EndpointIndex;
use rdmascope_model::Fabric;
use std::collections::{BTreeMap, BTreeSet};

const FULL: Wanted = Wanted { cross_rail: CrossRail::All, unless_pinged: false, quick: None };
const SAME_RAIL: Wanted = Wanted { cross_rail: CrossRail::Never, ..FULL };

/// One endpoint: its node, leaf and rail.
fn seat(index: usize, node: u32, leaf: Option<u32>, rail: Option<u32>) -> Seat {
    Seat {
        index: EndpointIndex(u32::try_from(index).unwrap()),
        node: PlaceIndex(node),
        leaf: leaf.map(PlaceIndex),
        rail: rail.map(PlaceIndex),
        fabric: Fabric::Roce,
        pinged: false,
    }
}

/// Nodes with one adapter for each rail. `leaf` tells where a node's adapter hangs.
fn cluster(nodes: u32, rails: u32, leaf: impl Fn(u32, u32) -> Option<u32>) -> Vec<Seat> {
    let all = (0..nodes).flat_map(|node| (0..rails).map(move |rail| (node, rail)));
    all.enumerate().map(|(index, (node, rail))| seat(index, node, leaf(node, rail), Some(rail))).collect()
}

/// Who is with whom in each round, in the order of the rounds.
fn rounds(seats: &[Seat], wanted: Wanted, seed: u64) -> BTreeMap<Round, BTreeSet<(u32, u32)>> {
    let rounds = Rounds::new(seats, wanted, seed);
    let mut found: BTreeMap<Round, BTreeMap<u32, u32>> = BTreeMap::new();
    for own in 0..count(seats) {
        let mut from = Round::START;
        while let Some((round, partner)) = rounds.next(own, from) {
            assert!(round >= from, "it goes back");
            assert_eq!(found.entry(round).or_default().insert(own, partner), None);
            from = round.next();
        }
    }
    let pairs = |(round, with): (Round, BTreeMap<u32, u32>)| {
        for (a, b) in &with {
            assert_eq!(with.get(b), Some(a), "{a} thinks that it is with {b} in {round:?}");
        }
        (round, with.into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect())
    };
    found.into_iter().map(pairs).collect()
}

/// Checks all that the rounds of some endpoints must be, and answers how many there are.
#[track_caller]
fn holds(seats: &[Seat], wanted: Wanted, seed: u64) -> usize {
    let rounds = rounds(seats, wanted, seed);
    let mut met = BTreeSet::new();
    for (round, pairs) in &rounds {
        let mut with: BTreeMap<Option<PlaceIndex>, BTreeSet<Option<PlaceIndex>>> = BTreeMap::new();
        for &(a, b) in pairs {
            assert!(met.insert((a, b)), "{a} and {b} meet twice, again in {round:?}");
            let [a, b] = [a, b].map(|at| seats[at as usize].leaf);
            with.entry(a).or_default().insert(b);
            with.entry(b).or_default().insert(a);
        }
        let one = with.values().all(|others| others.len() == 1);
        assert!(one, "a leaf is with several in {round:?}: {with:?}");
    }
    let all = (0..count(seats)).flat_map(|a| (a + 1..count(seats)).map(move |b| (a, b)));
    let wants = |&(a, b): &(u32, u32)| wanted.wants(&seats[a as usize], &seats[b as usize]);
    let expected: BTreeSet<_> = all.filter(wants).collect();
    assert_eq!(met.len(), expected.len(), "pairs of {} endpoints", seats.len());
    assert_eq!(met, expected);
    rounds.len()
}

#[test]
fn any_number_of_endpoints_without_topology_meets_in_as_few_rounds_as_there_can_be() {
    for nodes in 0..=17 {
        for seed in [0, 1] {
            let all = cluster(nodes, 1, |_, _| None);
            let rounds = holds(&all, FULL, seed);
            assert_eq!(rounds, circle_rounds(nodes) as usize, "{nodes} nodes");
            assert_eq!(Rounds::new(&all, FULL, seed).count(), rounds as u64);
        }
    }
}

#[test]
fn leaves_of_one_size_take_no_round_more_than_a_flat_circle() {
    for (leaves, size) in [(2, 2), (8, 8), (4, 16), (16, 4), (6, 10)] {
        let all = cluster(leaves * size, 1, |node, _| Some(node / size));
        for seed in [0, 7] {
            let rounds = holds(&all, FULL, seed);
            assert_eq!(rounds as u32, leaves * size - 1, "{leaves} leaves of {size}");
            assert_eq!(Rounds::new(&all, FULL, seed).count(), rounds as u64);
        }
    }
}

#[test]
fn uneven_leaves_odd_counts_and_nodes_that_nobody_placed_are_covered() {
    for sizes in [&[1, 1, 1][..], &[5], &[3, 4], &[1, 7, 2], &[5, 5, 5], &[9, 1, 1, 1, 4], &[2, 11]] {
        let mut all = Vec::new();
        for (leaf, &size) in (0_u32..).zip(sizes) {
            for _ in 0..size {
                let node = count(&all);
                let placed = (leaf > 0).then_some(leaf);
                all.push(seat(all.len(), node, placed, None));
            }
        }
        for seed in 0..3 {
            holds(&all, FULL, seed);
        }
    }
}

#[test]
fn eight_nodes_of_four_rails_need_seven_rounds_by_rail_and_28_across() {
    let flat = cluster(8, 4, |_, _| None);
    assert_eq!((holds(&flat, SAME_RAIL, 0), holds(&flat, FULL, 0)), (7, 28));
    let optimised = cluster(8, 4, |_, rail| Some(rail));
    assert_eq!((holds(&optimised, SAME_RAIL, 0), holds(&optimised, FULL, 0)), (7, 28));
}

#[test]
fn rails_on_leaves_of_their_own_and_rails_that_share_a_leaf_are_covered() {
    for (nodes, rails, per_leaf) in [(8, 4, 4), (12, 2, 3), (9, 3, 4), (10, 5, 4), (16, 8, 8)] {
        // Rail-optimised: each adapter of a group of nodes on another leaf.
        let optimised = cluster(nodes, rails, |node, rail| Some(node / per_leaf * rails + rail));
        // Top of rack: all adapters of some nodes on one leaf.
        let racks = cluster(nodes, rails, |node, _| Some(node / per_leaf));
        for seed in [0, 3] {
            for all in [&optimised, &racks] {
                holds(all, SAME_RAIL, seed);
                holds(all, FULL, seed);
            }
        }
    }
}

#[test]
fn dead_adapters_several_adapters_on_one_rail_and_rails_that_nobody_knows_are_covered() {
    let mut all = cluster(7, 4, |node, rail| Some(node / 3 * 4 + rail));
    let dead = [(2, 1), (3, 0), (3, 1), (6, 3)].map(|(n, r)| (PlaceIndex(n), Some(PlaceIndex(r))));
    all.retain(|seat| !dead.contains(&(seat.node, seat.rail)));
    for seed in [0, 9] {
        holds(&all, SAME_RAIL, seed);
        holds(&all, FULL, seed);
    }
    // A storage server, of which no rail is known, is probed with everybody.
    all.push(seat(90, 50, Some(2), None));
    all.push(seat(91, 50, None, None));
    let met: usize =
        rounds(&all, SAME_RAIL, 0).values().flatten().filter(|(_, b)| *b as usize >= all.len() - 2).count();
    assert_eq!(met, 2 * (all.len() - 2));
    // Two ports on each rail.
    let twice = cluster(5, 4, |_, _| None);
    let twice: Vec<_> =
        twice.into_iter().map(|s| Seat { rail: s.rail.map(|rail| PlaceIndex(rail.0 / 2)), ..s }).collect();
    for seed in [0, 5] {
        for list in [&all, &twice] {
            holds(list, SAME_RAIL, seed);
            holds(list, FULL, seed);
        }
    }
}

#[test]
fn any_shape_at_all_is_covered_once() {
    let mut state = 1_u64;
    // Numerical Recipes' generator: any numbers will do.
    let mut below = |bound: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % bound
    };
    for seed in 0..150 {
        let (nodes, rails, leaves) = (1 + below(14), 1 + below(4), 1 + below(6));
        let mut all = Vec::new();
        for node in 0..nodes {
            for rail in 0..rails {
                // An adapter may be dead, on no rail or on no leaf that anybody knows.
                if below(8) > 0 {
                    let leaf = (below(6) > 0).then(|| below(leaves));
                    let rail = (below(9) > 0).then_some(rail);
                    all.push(seat(all.len(), node, leaf, rail));
                }
            }
        }
        holds(&all, FULL, seed);
        holds(&all, SAME_RAIL, seed);
    }
}

#[test]
fn fabrics_are_not_mixed_and_pings_spare_what_they_cover() {
    let mut all = cluster(6, 2, |node, _| Some(node / 2));
    all[3].fabric = Fabric::InfiniBand;
    all[8].fabric = Fabric::InfiniBand;
    all.iter_mut().filter(|seat| seat.node.0 < 4).for_each(|seat| seat.pinged = true);
    let rest = Wanted { unless_pinged: true, ..SAME_RAIL };
    for seed in [0, 2] {
        holds(&all, FULL, seed);
        holds(&all, rest, seed);
    }
}

#[test]
fn a_sample_of_the_pairs_across_rails_is_a_part_of_them_and_all_parts_are_all() {
    let all = cluster(6, 4, |node, _| Some(node / 3));
    let pairs = |cross_rail| -> BTreeSet<(u32, u32)> {
        let wanted = Wanted { cross_rail, ..FULL };
        holds(&all, wanted, 0);
        rounds(&all, wanted, 0).into_values().flatten().collect()
    };
    let same = pairs(CrossRail::Never);
    let mut sampled = BTreeSet::new();
    for part in 0..5 {
        let some: BTreeSet<_> = &pairs(CrossRail::Part(part, 5)) - &same;
        assert!((20..=55).contains(&some.len()), "a fifth of 180 is 36: {}", some.len());
        assert!(some.is_disjoint(&sampled));
        sampled.extend(some);
    }
    assert_eq!(sampled, &pairs(CrossRail::All) - &same);
}

#[test]
fn a_quick_sweep_is_a_few_random_matchings() {
    for (nodes, rails) in [(8, 4), (9, 2), (7, 1)] {
        let all = cluster(nodes, rails, |node, rail| Some(node / 4 * rails + rail));
        for most in [1, 3] {
            let quick = Wanted { quick: Some(most), ..SAME_RAIL };
            let found = rounds(&all, quick, 5);
            assert_eq!(found.len(), most as usize);
            for pairs in found.values() {
                assert_eq!(pairs.len() as u32, nodes / 2 * rails, "everybody has a partner but for byes");
                let same = |&(a, b): &(u32, u32)| all[a as usize].rail == all[b as usize].rail;
                assert!(pairs.iter().all(same));
            }
            assert_eq!(Rounds::new(&all, quick, 5).count(), u64::from(most));
            assert_ne!(found, rounds(&all, quick, 6), "another seed, other pairs");
        }
        let across = rounds(&all, Wanted { quick: Some(2), ..FULL }, 5);
        let cross = |&&(a, b): &&(u32, u32)| all[a as usize].rail != all[b as usize].rail;
        assert!(rails == 1 || across.values().flatten().filter(cross).count() > 0);
    }
}

#[test]
fn another_seed_puts_other_pairs_together_at_the_same_time() {
    let all = cluster(16, 2, |node, rail| Some(node / 4 * 2 + rail));
    let beside = |seed| -> BTreeSet<((u32, u32), (u32, u32))> {
        let rounds = rounds(&all, SAME_RAIL, seed);
        let both = |pairs: &BTreeSet<(u32, u32)>| -> Vec<_> {
            pairs.iter().flat_map(|&a| pairs.iter().filter(move |&&b| a < b).map(move |&b| (a, b))).collect()
        };
        rounds.values().flat_map(both).collect()
    };
    let (one, other) = (beside(1), beside(2));
    let shared = one.intersection(&other).count();
    assert!(shared * 2 < one.len(), "{shared} of {} have the same company", one.len());
}

#[test]
fn partners_of_4096_endpoints_come_from_the_formula_one_by_one() {
    let all = cluster(512, 8, |node, rail| Some(node / 32 * 8 + rail));
    let rounds = Rounds::new(&all, SAME_RAIL, 3);
    // A round in the middle: everybody is in it, each with one of another leaf.
    let round = Round { leaves: 9, shift: 7, ..Round::START };
    let pairs: Vec<_> =
        (0..4_096).filter_map(|own| rounds.next(own, round).filter(|(at, _)| *at == round)).collect();
    assert_eq!(pairs.len(), 4_096);
    assert_eq!(rounds.count(), 511);
    // The circle over all 128 leaves has turns for those of one rail, too, which have met before.
    assert_eq!(Rounds::new(&all, FULL, 3).count(), 511 + 127 * 32);
}
