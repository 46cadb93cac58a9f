//! Pings of large drained clusters in one pass.

use crate::world::*;
use rdmascope_control::coordinator::{Settings, SweepOrder};
use rdmascope_localise::Cell;
use rdmascope_model::Metric;
use std::time::Duration;

fn drained(cross_rail: bool) -> SweepOrder {
    SweepOrder { cross_rail, ..order(&[Metric::Ping]) }
}

fn world(nodes: usize, rails: usize) -> World {
    World::new(&Shape { nodes, rails, leaf: rail_optimised, pinged: true, settings: Settings::default() })
}

/// The figure: 2,048 endpoints, 6 s for one rail and 60 s for all pairs, at 1,000 pings a second at most.
#[test]
fn the_plan_of_2048_endpoints_is_6_s_for_one_rail_and_60_s_for_all() {
    let mut world = world(256, 8);
    let mut plan = |cross_rail| world.plan(&drained(cross_rail));
    let (same, all) = (plan(false), plan(true));
    assert_eq!((same.endpoints, same.pairs, same.rounds), (2_048, 2_048 * 255, 255));
    assert_eq!((all.pairs, all.rounds), (2_048 * 2_040, 2_040));
    assert!(same.time <= Duration::from_secs(6), "{:?}", same.time);
    assert!(all.time <= Duration::from_secs(60), "{:?}", all.time);
}

#[test]
fn a_pass_takes_what_its_plan_says_and_fills_every_cell_that_it_is_for() {
    for cross_rail in [false, true] {
        let mut world = world(24, 4);
        let plan = world.plan(&drained(cross_rail));
        let took = world.sweep(&drained(cross_rail), 3 * plan.time);
        assert!(took <= plan.time, "planned {:?}, took {took:?}", plan.time);
        assert!(took + Duration::from_secs(2) >= plan.time, "planned {:?}, took {took:?}", plan.time);
        let sweep = world.coordinator.sweep().unwrap();
        assert_eq!((sweep.done as u64, sweep.failed, sweep.excluded), (plan.pairs, 0, 0));
        let matrix = world.coordinator.matrix();
        let known = |source, target| matches!(matrix.cell(Metric::Ping, source, target), Cell::Known { .. });
        for (a, source) in matrix.endpoints() {
            for (b, target) in matrix.endpoints().filter(|(b, _)| b.node != a.node) {
                assert!(known(source, target) || !(cross_rail || a.device == b.device), "{a} to {b}");
            }
        }
    }
}
