//! A coordinator that is killed and started again: what was known comes back as what it was.

use crate::common::*;
use rdmascope_control::coordinator::Settings;
use rdmascope_localise::{Cell, CellState};
use rdmascope_model::{Cause, Metric};
use std::time::Duration;

#[test]
fn cells_return_with_their_time_and_are_as_old_as_they_are() {
    let mut c = cluster(8, quiet());
    sweep(&mut c, &BOTH, seconds(60));
    let known: Vec<Cell> = BOTH
        .iter()
        .flat_map(|&m| pairs(8).map(move |p| (m, p)))
        .map(|(m, (a, b))| cell(&c, m, a, b))
        .collect();
    c.run_for(seconds(30));
    c.kill_coordinator();
    c.run_for(seconds(7));
    c.start_coordinator();
    assert!(everybody_is_here(&mut c, 8, seconds(10)), "agents come back within 10 s");
    c.run_for(seconds(1));
    let again: Vec<Cell> = BOTH
        .iter()
        .flat_map(|&m| pairs(8).map(move |p| (m, p)))
        .map(|(m, (a, b))| cell(&c, m, a, b))
        .collect();
    assert_eq!(again, known);
    assert_eq!(state(&c, Metric::Latency, 0, 1), CellState::Fresh, "half a minute old, as it was before");
    c.run_for(seconds(30));
    for metric in BOTH {
        for (a, b) in pairs(8) {
            assert_eq!(
                state(&c, metric, a, b),
                CellState::Stale,
                "{metric} {a} to {b}: it was sent anew, not measured"
            );
        }
    }
}

#[test]
fn nothing_is_fresh_that_was_not_measured_within_its_limit() {
    let mut c = cluster(5, Settings::default());
    for _ in 0..6 {
        c.run_for(seconds(170));
        c.kill_coordinator();
        c.run_for(seconds(400));
        c.start_coordinator();
        assert!(everybody_is_here(&mut c, 5, seconds(10)));
        c.run_for(seconds(2));
        let (fresh_for, now) = (c.coordinator().fresh_for(), c.now().mono);
        for (a, b) in pairs(5) {
            let ends = [c.endpoint(a), c.endpoint(b)];
            let last = c
                .fabric()
                .borrow()
                .history()
                .iter()
                .filter(|e| ends.contains(&e.source) && ends.contains(&e.target))
                .map(|e| e.ends)
                .max();
            let measured = last.is_some_and(|last| now.since(last) <= fresh_for);
            let fresh = state(&c, Metric::Latency, a, b) == CellState::Fresh;
            assert_eq!(fresh, measured, "{a} to {b} was last measured at {last:?}, it is {now:?}");
        }
    }
}

#[test]
fn a_restart_in_mid_sweep_leaves_nothing_behind() {
    for ms in [2, 10, 25, 300] {
        let mut c = cluster(8, quiet());
        start_sweep(&mut c, &BOTH);
        c.run_for(Duration::from_millis(ms));
        c.kill_coordinator();
        c.run_for(Duration::from_millis(500));
        c.start_coordinator();
        assert!(everybody_is_here(&mut c, 8, seconds(10)));
        sweep(&mut c, &BOTH, seconds(60));
        the_rest_is_right(&c, 8, &BOTH, &[]);
        nothing_is_left(&mut c, 8);
    }
}

#[test]
fn without_a_coordinator_agents_let_go_of_everything() {
    let mut c = cluster(8, Settings::default());
    c.run_for(seconds(20));
    start_sweep(&mut c, &BOTH);
    c.run_for(Duration::from_millis(300));
    c.kill_coordinator();
    c.run_for(seconds(8));
    let held = (0..8).map(|host| c.agent(host).unwrap().probes()).sum::<usize>();
    assert_eq!((held, c.fabric().borrow().held()), (0, 0));
    let before = c.fabric().borrow().history().len();
    c.run_for(seconds(600));
    assert_eq!(c.fabric().borrow().history().len(), before, "nobody probes on its own account");
}

#[test]
fn what_failed_is_still_failed_after_a_restart() {
    let mut c = cluster(4, quiet());
    c.block_path(0, 1, true);
    sweep(&mut c, &[Metric::Latency], seconds(60));
    let at = cell(&c, Metric::Latency, 0, 1).at();
    c.kill_coordinator();
    c.run_for(seconds(1));
    c.start_coordinator();
    assert!(everybody_is_here(&mut c, 4, seconds(10)));
    c.run_for(seconds(1));
    let (one, other) = (cell(&c, Metric::Latency, 0, 1), cell(&c, Metric::Latency, 1, 0));
    let failed = [&one, &other]
        .into_iter()
        .filter(|cell| matches!(cell, Cell::Failed { failure, .. } if failure.cause == Cause::RetryExceeded));
    assert!(failed.count() > 0, "{one:?} {other:?}");
    assert!(one.at() <= at, "not newer than the failure itself");
}

#[test]
fn a_clock_that_is_wrong_does_not_date_a_cell() {
    for ahead_ms in [-3_600_000, 3_600_000] {
        let mut c = cluster(3, quiet());
        c.set_clock(1, ahead_ms);
        let before = c.now().wall;
        sweep(&mut c, &[Metric::Latency], seconds(10));
        for (a, b) in pairs(3) {
            let at = measured(&c, Metric::Latency, a, b).0;
            assert!((before..=c.now().wall).contains(&at), "{a} to {b} at {at}, the sweep began at {before}");
        }
    }
}
