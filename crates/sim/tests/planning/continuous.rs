//! Background probes of nodes with rails: each pair in the time that is stated for it, at the rate that is allowed.

use crate::world::*;
use rdmascope_control::coordinator::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[test]
fn pairs_of_one_rail_and_of_two_are_covered_each_in_their_time() {
    // A coverage time into which not all pairs fit: 45 round trips for 14 peers.
    let settings = Settings { coverage: Duration::from_millis(4_500), ..Settings::default() };
    let mut world = World::new(&Shape { nodes: 8, rails: 2, leaf: racks, pinged: false, settings });
    let plan = world.coordinator.continuous_plan().connections.unwrap();
    assert_eq!((plan.pairs, plan.cross_rail_pairs), (16 * 7, 16 * 7));
    let (within, across) = (plan.within, plan.cross_rail_within.unwrap());
    assert!(across > 2 * within, "{within:?}, {across:?}");
    let began = world.now;
    world.run_for(3 * across);
    let mut last: BTreeMap<(String, String), Duration> = BTreeMap::new();
    let mut waits: BTreeMap<bool, Duration> = BTreeMap::new();
    let since: Vec<_> = world.ran.iter().filter(|ran| ran.began > began).collect();
    for ran in &since {
        let at = ran.began.since(began);
        let cross = ran.source.device != ran.target.device;
        let before = last.insert((ran.source.to_string(), ran.target.to_string()), at);
        if let Some(before) = before {
            let longest = waits.entry(cross).or_default();
            *longest = (at - before).max(*longest);
        }
    }
    assert_eq!(last.len(), 56 + 56, "every pair");
    // From one sweep to the next a pair may come first once and last the other time.
    assert!(waits[&false] <= 2 * within, "{:?} between two of a pair, stated is {within:?}", waits[&false]);
    assert!(waits[&true] <= across + 2 * within, "{:?}, stated is {across:?}", waits[&true]);
    let mut of: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    for ran in &since {
        for end in [&ran.source, &ran.target] {
            of.entry(end.to_string()).or_default().push(ran.began.since(began));
        }
    }
    let rest = Duration::from_millis(u64::from(plan.per_turn) * 100);
    for (end, times) in of {
        let early = times.windows(2).find(|pair| pair[1] - pair[0] + Duration::from_millis(20) < rest);
        assert_eq!(early, None, "{end} is probed too soon");
    }
    let devices: BTreeSet<_> = since.iter().map(|ran| ran.source.device.clone()).collect();
    assert_eq!(devices.len(), 2);
}
