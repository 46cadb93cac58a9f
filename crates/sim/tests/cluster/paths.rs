//! Ports, devices and paths that fail or are slow: the matrix says which, and every other cell stays right.

use crate::common::*;
use rdmascope_localise::Cell;
use rdmascope_model::{Cause, Metric};
use std::time::Duration;

const LATENCY: &[Metric] = &[Metric::Latency];

/// Every cell of the node that is not right has this cause, in both directions; there are some.
#[track_caller]
fn names_only(c: &rdmascope_sim::Cluster, nodes: usize, metric: Metric, bad: usize, cause: Cause) {
    let mut named = 0;
    for (a, b) in pairs(nodes).filter(|&(a, b)| a == bad || b == bad) {
        match cell(c, metric, a, b) {
            Cell::Failed { failure, .. } => {
                named += 1;
                assert_eq!(failure.cause, cause, "{metric} {a} to {b} says {failure}");
            }
            Cell::Known { .. } => {}
            other => panic!("{metric} {a} to {b} is {other:?}"),
        }
    }
    assert!(named > 0, "the fault came too late to be seen");
}

#[test]
fn a_port_that_goes_down_in_mid_sweep_is_named_in_every_cell_that_it_spoils() {
    // At different points of a sweep: between probes, within one, before the agent has noticed.
    for (ms, metric) in
        [(3, Metric::Latency), (8, Metric::Latency), (12, Metric::Latency), (300, Metric::Bandwidth)]
    {
        let mut c = cluster(8, quiet());
        start_sweep(&mut c, &[metric]);
        c.run_for(Duration::from_millis(ms));
        c.port_down(3);
        assert!(c.run_until(seconds(30), sweep_is_over), "{metric} at {ms} ms");
        names_only(&c, 8, metric, 3, Cause::PortDown);
        the_rest_is_right(&c, 8, &[metric], &[3]);
        nothing_is_left(&mut c, 8);
        c.port_up(3);
        c.run_for(seconds(1));
        sweep(&mut c, &[metric], seconds(30));
        the_rest_is_right(&c, 8, &[metric], &[]);
    }
}

#[test]
fn a_port_that_is_down_from_the_beginning_costs_no_time() {
    let healthy = sweep(&mut cluster(8, quiet()), LATENCY, seconds(30));
    let mut c = cluster(8, quiet());
    c.port_down(3);
    c.run_for(seconds(1));
    let took = sweep(&mut c, LATENCY, seconds(30));
    // Seven ends have as many rounds as eight, and how long a round takes is its slowest pair's chance: a lease that had to run into its
    // time would cost seconds.
    assert!(took <= healthy + healthy / 7, "{took:?}, and {healthy:?} with all ports up");
    assert_eq!([cause(&c, Metric::Latency, 3, 0), cause(&c, Metric::Latency, 0, 3)], [Cause::PortDown; 2]);
    let text = failure(&c, Metric::Latency, 0, 3).evidence;
    assert!(text.contains("node-3/sim0/1") && text.contains("DOWN"), "{text}");
}

#[test]
fn a_device_that_is_removed_and_brought_back() {
    let mut c = cluster(8, quiet());
    start_sweep(&mut c, LATENCY);
    c.run_for(Duration::from_millis(8));
    c.remove_device(3);
    assert!(c.run_until(seconds(30), sweep_is_over));
    names_only(&c, 8, Metric::Latency, 3, Cause::DeviceGone);
    the_rest_is_right(&c, 8, LATENCY, &[3]);
    nothing_is_left(&mut c, 8);
    sweep(&mut c, LATENCY, seconds(30));
    assert_eq!(c.coordinator().sweep().unwrap().endpoints, 7, "what is not there is not swept");
    c.add_device(3);
    assert!(everybody_is_here(&mut c, 8, seconds(2)));
    sweep(&mut c, LATENCY, seconds(30));
    the_rest_is_right(&c, 8, LATENCY, &[]);
}

#[test]
fn a_broken_path_blames_neither_node() {
    let mut c = cluster(6, quiet());
    c.block_path(1, 4, true);
    sweep(&mut c, &BOTH, seconds(60));
    for metric in BOTH {
        for (a, b) in pairs(6) {
            if (a, b) == (1, 4) || (a, b) == (4, 1) {
                assert_eq!(cause(&c, metric, a, b), Cause::RetryExceeded, "{metric}");
            } else {
                is_right(&c, metric, a, b);
            }
        }
    }
    c.block_path(1, 4, false);
    sweep(&mut c, &BOTH, seconds(60));
    the_rest_is_right(&c, 6, &BOTH, &[]);
}

#[test]
fn a_path_that_breaks_during_a_probe_blames_neither_node() {
    for metric in BOTH {
        let mut c = cluster(2, quiet());
        start_sweep(&mut c, &[metric]);
        c.run_until(seconds(1), |c| !c.fabric().borrow().history().is_empty());
        let first = c.fabric().borrow().history()[0].clone();
        let (source, target) = if first.source == c.endpoint(0) { (0, 1) } else { (1, 0) };
        c.block_path(0, 1, true);
        c.run_for(seconds(2));
        assert_eq!(cause(&c, metric, source, target), Cause::PathLost, "{metric}");
    }
}

#[test]
fn a_slow_endpoint_is_slow_in_its_cells_and_in_no_other() {
    let mut c = cluster(8, quiet());
    let slow = c.endpoint(3);
    c.fabric().borrow_mut().set_delay(&slow, 1_000_000);
    sweep(&mut c, LATENCY, seconds(60));
    for (a, b) in pairs(8) {
        is_right(&c, Metric::Latency, a, b);
        let p50 = measured(&c, Metric::Latency, a, b).1.headline().unwrap();
        assert_eq!(p50 > 1_000_000, a == 3 || b == 3, "{a} to {b}: {p50} ns");
    }
}

#[test]
fn a_lossy_endpoint_is_fresh_and_shows_what_was_sent_again() {
    let mut c = cluster(8, quiet());
    let lossy = c.endpoint(3);
    c.fabric().borrow_mut().set_loss(&lossy, 10_000);
    sweep(&mut c, &BOTH, seconds(60));
    for metric in BOTH {
        for (a, b) in pairs(8) {
            let again = retransmits(&measured(&c, metric, a, b).1);
            assert_eq!(again > 0, a == 3 || b == 3, "{metric} {a} to {b}: {again}");
        }
    }
    the_rest_is_right(&c, 8, &BOTH, &[3]);
    let through = measured(&c, Metric::Bandwidth, 3, 0).1.headline().unwrap();
    let elsewhere = measured(&c, Metric::Bandwidth, 1, 0).1.headline().unwrap();
    assert!(through * 2 < elsewhere, "loss costs goodput: {through} against {elsewhere}");
    is_right(&c, Metric::Latency, 3, 0);
}
