//! Whole sweeps of healthy clusters of every size, in one thread, on the virtual clock.

use crate::common::*;
use rdmascope_control::coordinator::Settings;
use rdmascope_localise::CellState;
use rdmascope_model::Metric;
use rdmascope_sim::{Cluster, Exchange, Shape};
use std::collections::BTreeSet;

#[test]
fn thirty_two_agents_fill_every_cell_with_the_fabrics_figures() {
    let mut c = cluster(32, quiet());
    sweep(&mut c, &BOTH, seconds(60));
    let done = c.coordinator().sweep().unwrap().clone();
    assert_eq!((done.total, done.done, done.failed, done.excluded), (496 + 992, 496 + 992, 0, 0));
    the_rest_is_right(&c, 32, &BOTH, &[]);
    nothing_is_left(&mut c, 32);
}

#[test]
fn every_pair_is_measured_once_and_no_endpoint_twice_at_a_time() {
    let mut c = cluster(9, quiet());
    sweep(&mut c, &BOTH, seconds(60));
    let fabric = c.fabric();
    let fabric = fabric.borrow();
    let distinct: BTreeSet<_> =
        fabric.history().iter().map(|e| (e.spec.metric(), e.source.clone(), e.target.clone())).collect();
    assert_eq!((fabric.history().len(), distinct.len()), (36 + 72, 36 + 72));
    for e in fabric.history() {
        let at_once: Vec<_> = overlapping(fabric.history(), e).collect();
        let touched = at_once.iter().flat_map(|o| [&o.source, &o.target]).collect::<BTreeSet<_>>();
        assert_eq!(touched.len(), 2 * at_once.len(), "an endpoint is in two pairs at once");
    }
}

/// Measurements that were running when `of` began, itself included.
fn overlapping<'a>(history: &'a [Exchange], of: &'a Exchange) -> impl Iterator<Item = &'a Exchange> {
    history.iter().filter(|e| e.began <= of.began && of.began < e.ends)
}

#[test]
fn agents_of_one_machine_measure_latency_alone_and_bandwidth_two_at_a_time() {
    let mut c = of(&Shape { seed: 2, nodes: 6, one_machine: true, settings: quiet() });
    sweep(&mut c, &BOTH, seconds(60));
    the_rest_is_right(&c, 6, &BOTH, &[]);
    let fabric = c.fabric();
    let fabric = fabric.borrow();
    let mut most = 0;
    for e in fabric.history() {
        let at_once: Vec<_> = overlapping(fabric.history(), e).collect();
        if at_once.iter().any(|o| o.spec.load() == rdmascope_model::Load::Spins) {
            assert_eq!(at_once.len(), 1, "something ran beside a latency probe");
        }
        most = most.max(at_once.len());
    }
    assert_eq!(most, 2, "bandwidth uses the room that there is, and no more");
}

#[test]
fn odd_counts_are_covered_like_even_ones() {
    for nodes in [2, 3, 5, 7, 8, 13] {
        let mut c = cluster(nodes, quiet());
        sweep(&mut c, &BOTH, seconds(60));
        the_rest_is_right(&c, nodes, &BOTH, &[]);
    }
}

#[test]
fn one_endpoint_and_none_are_waited_with_patience() {
    for nodes in [0, 1] {
        let mut c = cluster(nodes, Settings::default());
        let refused = c.command(|coordinator, now| coordinator.start_sweep(&BOTH, true, now)).unwrap();
        assert!(refused.unwrap_err().to_string().contains("at least two endpoints"));
        let before = c.events();
        c.run_for(seconds(600));
        assert_eq!(c.coordinator().members().connected(), nodes, "nobody is lost meanwhile");
        assert!(c.fabric().borrow().history().is_empty());
        let per_second = (c.events() - before) / 600;
        assert!(per_second <= 2, "{per_second} events a second of a cluster that has nothing to do");
    }
}

#[test]
fn agents_that_come_later_are_swept_next_time() {
    let mut c = cluster(4, quiet());
    c.kill_agent(3);
    c.run_for(seconds(1));
    sweep(&mut c, &[Metric::Latency], seconds(60));
    c.start_agent(3);
    assert!(everybody_is_here(&mut c, 4, seconds(5)));
    sweep(&mut c, &[Metric::Latency], seconds(60));
    the_rest_is_right(&c, 4, &[Metric::Latency], &[]);
}

#[test]
fn figures_grow_stale_and_no_sooner_than_they_should() {
    let mut c = cluster(3, quiet());
    sweep(&mut c, &[Metric::Latency], seconds(60));
    c.run_for(seconds(58));
    assert_eq!(state(&c, Metric::Latency, 0, 1), CellState::Fresh);
    c.run_for(seconds(3));
    assert_eq!(state(&c, Metric::Latency, 0, 1), CellState::Stale);
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let run = |seed| {
        let mut c =
            Cluster::new(&Shape { seed, nodes: 7, one_machine: false, settings: Settings::default() });
        c.run_for(seconds(10));
        c.stop_agent(2);
        sweep(&mut c, &BOTH, seconds(120));
        c.resume_agent(2);
        c.kill_coordinator();
        c.run_for(seconds(4));
        c.start_coordinator();
        c.run_for(seconds(200));
        (c.trace(), c.events())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}
