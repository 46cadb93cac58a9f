//! Continuous sweeps: they stay within the rate, cover everything in the stated time, and keep cells fresh.

use crate::common::*;
use rdmascope_control::coordinator::Settings;
use rdmascope_localise::CellState;
use rdmascope_model::{Metric, ProbeSpec};
use rdmascope_sim::Cluster;
use std::collections::BTreeMap;
use std::time::Duration;

/// Between two probes of one endpoint lies at least the time in which the rate allows the first one's pings.
#[track_caller]
fn the_rate_holds(c: &Cluster, pings_per_second: u64) {
    let fabric = c.fabric();
    let fabric = fabric.borrow();
    let mut free_at = BTreeMap::new();
    for e in fabric.history() {
        let ProbeSpec::Latency(spec) = e.spec else { panic!("bandwidth in the background") };
        let pings = u64::from(spec.samples) + u64::from(spec.warmup);
        for end in [&e.source, &e.target] {
            let free = free_at
                .insert(end.clone(), e.began.after(Duration::from_millis(pings * 1_000 / pings_per_second)));
            // The first message leaves a few milliseconds after the lease was given, and not always the same few.
            let early = free.map_or(Duration::ZERO, |free| free.since(e.began));
            assert!(early < Duration::from_millis(10), "{end} was probed {early:?} too early");
        }
    }
}

#[track_caller]
fn covers(nodes: usize, rounds: u32) {
    let mut c = cluster(nodes, Settings::default());
    let coverage = c.coordinator().coverage().unwrap();
    // The address book settles within a second.
    c.run_for(coverage + seconds(2));
    for (a, b) in pairs(nodes) {
        assert_eq!(state(&c, Metric::Latency, a, b), CellState::Fresh, "{a} to {b} after {coverage:?}");
    }
    for _ in 1..rounds {
        c.run_for(coverage);
        for (a, b) in pairs(nodes) {
            is_right(&c, Metric::Latency, a, b);
        }
    }
    the_rate_holds(&c, 10);
    let fabric = c.fabric();
    let probes = fabric.borrow().history().len();
    let pairs = nodes * (nodes - 1) / 2;
    assert!(
        probes >= pairs * (rounds as usize - 1),
        "{probes} probes of {pairs} pairs in {rounds} coverage times"
    );
    assert_eq!(c.coordinator().background_sweep().map_or(0, |s| s.failed + s.excluded), 0);
}

#[test]
fn four_endpoints_are_covered_in_the_stated_time_at_ten_pings_a_second() {
    covers(4, 6);
}

#[test]
fn five_endpoints_are_covered_too() {
    covers(5, 6);
}

#[test]
fn thirty_two_endpoints_are_covered_in_the_stated_time_at_ten_pings_a_second() {
    covers(32, 3);
}

#[test]
fn a_hundred_endpoints_are_covered_in_the_stated_time_at_ten_pings_a_second() {
    covers(100, 2);
}

#[test]
fn endpoints_that_come_in_the_middle_do_not_raise_the_rate_of_the_others() {
    let mut c = cluster(12, Settings::default());
    (2..12).for_each(|host| c.kill_agent(host));
    c.run_for(seconds(30));
    (2..12).for_each(|host| c.start_agent(host));
    c.run_for(seconds(600));
    the_rate_holds(&c, 10);
}

#[test]
fn a_dead_agent_does_not_keep_the_others_cells_from_being_fresh() {
    let mut c = cluster(6, Settings::default());
    c.run_for(seconds(150));
    c.stop_agent(3);
    c.run_for(seconds(1_500));
    the_rest_is_right(&c, 6, &[Metric::Latency], &[3]);
    the_rate_holds(&c, 10);
}

#[test]
fn a_rate_of_zero_measures_nothing_by_itself() {
    let mut c = cluster(4, quiet());
    c.run_for(seconds(600));
    assert!(c.fabric().borrow().history().is_empty());
    assert_eq!(c.coordinator().coverage(), None);
}

#[test]
fn what_an_operator_measured_is_not_replaced_at_once_by_a_shorter_probe() {
    let mut c = cluster(4, Settings::default());
    sweep(&mut c, &[Metric::Latency], seconds(60));
    let times = |c: &Cluster| pairs(4).map(|(a, b)| measured(c, Metric::Latency, a, b).0).collect::<Vec<_>>();
    let before = times(&c);
    // One turn of the continuous sweep among four endpoints is 40 s; each endpoint rests for that long.
    c.run_for(seconds(35));
    assert_eq!(times(&c), before);
    c.run_for(seconds(180));
    assert!(times(&c).iter().zip(&before).all(|(now, then)| now > then), "the continuous sweep goes on");
}
