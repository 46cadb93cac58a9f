//! How long sweeps take, and that their plans say so.

use crate::world::*;
use rdmascope_control::coordinator::SweepOrder;
use rdmascope_model::{EndpointName, Metric};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const LATENCY: &[Metric] = &[Metric::Latency];
const BANDWIDTH: &[Metric] = &[Metric::Bandwidth];
const BOTH: &[Metric] = &[Metric::Latency, Metric::Bandwidth];

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn world(nodes: usize, rails: usize, leaf: Leaf) -> World {
    World::new(&Shape { nodes, rails, leaf, pinged: false, settings: quiet() })
}

/// Every pair of a metric ran as often as it should.
#[track_caller]
fn ran(world: &World, metric: Metric, pairs: usize) {
    let of: Vec<_> = world.ran.iter().filter(|ran| ran.metric == metric).collect();
    let distinct: BTreeSet<_> = of.iter().map(|ran| (&ran.source, &ran.target)).collect();
    assert_eq!((of.len(), distinct.len()), (pairs, pairs), "{metric}");
}

/// The figure: 10 s for the latency of all 448 pairs, 60 s with the bandwidth of each direction.
#[test]
fn eight_nodes_of_four_rails_are_measured_in_seconds_whatever_the_fabric_is_like() {
    let all = |metrics| SweepOrder { cross_rail: true, ..order(metrics) };
    for leaf in [nowhere as Leaf, racks, rail_optimised] {
        let mut world = world(8, 4, leaf);
        let took = world.sweep(&all(LATENCY), seconds(60));
        assert!(took <= seconds(10), "latency of all pairs took {took:?}");
        ran(&world, Metric::Latency, 448);
        let mut world = self::world(8, 4, leaf);
        let took = world.sweep(&all(BOTH), seconds(600));
        assert!(took <= seconds(60), "with bandwidth it took {took:?}");
        ran(&world, Metric::Bandwidth, 896);
    }
}

#[test]
fn a_plan_is_what_then_happens() {
    let shapes: [(usize, usize, Leaf); 5] =
        [(16, 1, nowhere), (7, 1, racks), (16, 1, racks), (8, 4, rail_optimised), (12, 2, racks)];
    for (nodes, rails, leaf) in shapes {
        for (metrics, cross_rail) in [(LATENCY, false), (LATENCY, true), (BANDWIDTH, false)] {
            let mut world = world(nodes, rails, leaf);
            let asked = SweepOrder { cross_rail, ..order(metrics) };
            // The first one teaches it how long probes take here.
            world.sweep(&asked, seconds(3_600));
            let plan = world.plan(&asked);
            let took = world.sweep(&asked, seconds(3_600));
            let sweep = world.coordinator.sweep().unwrap();
            let what = format!("{nodes} nodes of {rails} rails, {metrics:?}, across rails: {cross_rail}");
            assert_eq!((sweep.done as u64, sweep.failed, sweep.excluded), (plan.probes, 0, 0), "{what}");
            assert_eq!(sweep.bytes_sent, plan.bytes, "{what}");
            let ratio = took.as_secs_f64() / plan.time.as_secs_f64();
            assert!((0.9..=1.5).contains(&ratio), "{what}: planned {:?}, took {took:?}", plan.time);
        }
    }
}

#[test]
fn an_endpoint_that_hangs_costs_its_own_leases_and_nobody_else_a_round() {
    let mut healthy = world(16, 2, racks);
    let usual = healthy.sweep(&order(LATENCY), seconds(60));
    let mut world = world(16, 2, racks);
    let dead: EndpointName = "n5/d1/1".parse().unwrap();
    world.dead = Some(dead.clone());
    let began = world.now;
    world.sweep(&order(LATENCY), seconds(120));
    let last = world.ran.iter().map(|ran| ran.began).max().unwrap().since(began);
    // Three leases of 6 s are the longest that anybody of its machine waits; everybody else goes on.
    assert!(last <= 3 * seconds(7) + usual, "the last of the others began after {last:?}, usually {usual:?}");
    let mut latest: BTreeMap<&str, Duration> = BTreeMap::new();
    for ran in &world.ran {
        latest.insert(&ran.source.node, ran.began.since(began));
    }
    let sweep = world.coordinator.sweep().unwrap();
    let given_up: Vec<_> =
        sweep.given_up.iter().map(|index| world.coordinator.matrix().name(*index)).collect();
    assert_eq!(given_up, [&dead]);
    assert_eq!((sweep.done, sweep.failed, sweep.excluded), (240, 6, 9));
    ran(&world, Metric::Latency, 225);
}

#[test]
fn streams_across_a_leaf_stay_within_its_budget_and_the_plan_knows() {
    let mut world = world(16, 2, racks);
    let asked = order(BANDWIDTH);
    world.sweep(&asked, seconds(3_600));
    let plan = world.plan(&asked);
    let leaf = |name: &EndpointName| name.node[1..].parse::<usize>().unwrap() / 4;
    let mut most: BTreeMap<usize, usize> = BTreeMap::new();
    for ran in &world.ran {
        let beside = world.ran.iter().filter(|other| {
            other.began <= ran.began && ran.began.since(other.began) < Duration::from_millis(219)
        });
        for own in [leaf(&ran.source), leaf(&ran.target)] {
            let crosses = |(a, b): (usize, usize)| a != b && (a == own || b == own);
            let count = beside.clone().filter(|o| crosses((leaf(&o.source), leaf(&o.target)))).count();
            let most = most.entry(own).or_default();
            *most = count.max(*most);
        }
    }
    assert!(most.values().all(|most| (1..=4).contains(most)), "{most:?}");
    // 4 nodes of 2 rails reach 12 others there and back: 192 crossings, four at a time.
    assert!(plan.time >= 48 * Duration::from_millis(220), "{:?}", plan.time);
}
