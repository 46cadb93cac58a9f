//! Agents and nodes that fail: the matrix names them, every other cell stays right, and nobody waits for long.

use crate::common::*;
use rdmascope_link::PauseFlags;
use rdmascope_localise::Cell;
use rdmascope_model::{Cause, Exclusion, Metric};
use std::time::Duration;

const LATENCY: &[Metric] = &[Metric::Latency];

/// The cells of a node whose agent fails are named for it, each from its own end; those that were measured before are right.
#[track_caller]
fn names_the_agent(c: &rdmascope_sim::Cluster, nodes: usize, bad: usize, from_it: &[Cause], to_it: &[Cause]) {
    let mut named = 0;
    for other in (0..nodes).filter(|&other| other != bad) {
        for (source, target, causes) in [(bad, other, from_it), (other, bad, to_it)] {
            match cell(c, Metric::Latency, source, target) {
                Cell::Failed { failure, .. } => {
                    named += 1;
                    assert!(causes.contains(&failure.cause), "{source} to {target} says {failure}");
                }
                Cell::Known { .. } => is_right(c, Metric::Latency, source, target),
                other => panic!("{source} to {target} is {other:?}"),
            }
        }
    }
    assert!(named > 0, "the fault came too late to be seen");
}

#[test]
fn an_agent_killed_in_mid_sweep_is_named_at_once_and_holds_nobody_up() {
    let mut c = cluster(32, quiet());
    start_sweep(&mut c, &BOTH);
    c.run_for(Duration::from_millis(30));
    let began = c.elapsed();
    c.kill_agent(5);
    assert!(c.run_until(seconds(60), sweep_is_over));
    let took = c.elapsed() - began;
    let healthy = sweep_time_of(32);
    assert!(took < healthy + seconds(1), "{took:?}, a healthy sweep takes {healthy:?}");
    names_the_agent(&c, 32, 5, &[Cause::AgentGone], &[Cause::PeerGone]);
    the_rest_is_right(&c, 32, &BOTH, &[5]);
    nothing_is_left(&mut c, 32);
}

fn sweep_time_of(nodes: usize) -> Duration {
    let mut c = cluster(nodes, quiet());
    sweep(&mut c, &BOTH, seconds(60))
}

#[test]
fn a_stopped_agent_costs_each_partner_one_deadline_and_the_others_nothing() {
    let mut c = cluster(32, quiet());
    start_sweep(&mut c, LATENCY);
    c.run_for(Duration::from_millis(30));
    c.stop_agent(5);
    let stopped_at = c.elapsed();
    assert!(c.run_until(seconds(60), sweep_is_over));
    // 15 s until it counts as dead, and the lease that was given last.
    assert!(c.elapsed() - stopped_at < seconds(22), "{:?}", c.elapsed() - stopped_at);
    names_the_agent(
        &c,
        32,
        5,
        &[Cause::AgentSilent, Cause::AgentGone],
        &[Cause::PeerSilent, Cause::PeerGone],
    );
    the_rest_is_right(&c, 32, LATENCY, &[5]);
    // Partner after partner waits one deadline for it until it counts as dead; nobody else waits for anything.
    let waited: Vec<usize> = (0..32)
        .filter(|&other| other != 5)
        .filter(|&other| matches!(cell(&c, Metric::Latency, other, 5), Cell::Failed { failure, .. } if failure.cause == Cause::PeerSilent))
        .collect();
    assert!((1..=5).contains(&waited.len()), "15 s are at most five deadlines: {waited:?}");
    let slow: Vec<_> = waited.iter().chain([&5]).map(|&host| c.endpoint(host)).collect();
    let fabric = c.fabric();
    let fabric = fabric.borrow();
    let others = fabric.history().iter().filter(|e| !slow.contains(&e.source) && !slow.contains(&e.target));
    let last = others.map(|e| e.ends).max().unwrap();
    let held_up = Duration::from_nanos(last.0).saturating_sub(stopped_at);
    assert!(held_up < seconds(1), "healthy pairs were held up for {held_up:?}: one lease, not a barrier");
}

#[test]
fn a_stopped_agent_that_goes_on_comes_back_and_holds_nothing() {
    let mut c = cluster(6, quiet());
    for pause in [1, 4, 40] {
        start_sweep(&mut c, LATENCY);
        c.run_for(Duration::from_millis(7));
        c.stop_agent(2);
        c.run_for(seconds(pause));
        c.resume_agent(2);
        assert!(c.run_until(seconds(60), sweep_is_over), "stopped for {pause} s");
        assert!(everybody_is_here(&mut c, 6, seconds(10)), "stopped for {pause} s");
        nothing_is_left(&mut c, 6);
        sweep(&mut c, LATENCY, seconds(10));
        the_rest_is_right(&c, 6, LATENCY, &[]);
    }
}

#[test]
fn a_stopped_target_of_a_stream_is_not_blamed_while_its_adapter_answers() {
    let mut c = cluster(2, quiet());
    start_sweep(&mut c, &[Metric::Bandwidth]);
    c.run_until(seconds(1), |c| !c.fabric().borrow().history().is_empty());
    let target = usize::from(c.fabric().borrow().history()[0].target == c.endpoint(1));
    c.stop_agent(target);
    c.run_for(seconds(1));
    is_right(&c, Metric::Bandwidth, 1 - target, target);
}

#[test]
fn a_killed_agent_that_is_started_again_is_probed_again() {
    let mut c = cluster(6, quiet());
    start_sweep(&mut c, LATENCY);
    c.run_for(Duration::from_millis(7));
    c.kill_agent(2);
    assert!(c.run_until(seconds(10), sweep_is_over));
    c.start_agent(2);
    assert!(everybody_is_here(&mut c, 6, seconds(5)));
    sweep(&mut c, LATENCY, seconds(10));
    the_rest_is_right(&c, 6, LATENCY, &[]);
}

#[test]
fn an_agent_that_is_cut_off_from_the_coordinator_is_named_and_comes_back() {
    let mut c = cluster(6, quiet());
    c.partition(2);
    sweep(&mut c, LATENCY, seconds(60));
    names_the_agent(&c, 6, 2, &[Cause::AgentSilent, Cause::AgentGone], &[Cause::PeerSilent, Cause::PeerGone]);
    the_rest_is_right(&c, 6, LATENCY, &[2]);
    c.run_for(seconds(60));
    assert!(!c.agent(2).unwrap().is_connected(), "it left a coordinator that does not answer");
    c.heal(2);
    assert!(everybody_is_here(&mut c, 6, seconds(10)));
    sweep(&mut c, LATENCY, seconds(10));
    the_rest_is_right(&c, 6, LATENCY, &[]);
    nothing_is_left(&mut c, 6);
}

#[test]
fn a_short_cut_costs_no_connection() {
    let mut c = cluster(4, quiet());
    c.partition(2);
    c.run_for(seconds(9));
    c.heal(2);
    c.run_for(seconds(1));
    assert_eq!(c.coordinator().members().connected(), 4);
    sweep(&mut c, &BOTH, seconds(10));
    the_rest_is_right(&c, 4, &BOTH, &[]);
}

#[test]
fn a_pause_ends_what_runs_within_one_lease_and_a_resume_goes_on() {
    let mut c = cluster(8, rdmascope_control::coordinator::Settings::default());
    start_sweep(&mut c, &BOTH);
    c.run_for(Duration::from_millis(300));
    c.command(|coordinator, now| coordinator.set_pause(None, |flags| flags.all = true, now))
        .unwrap()
        .unwrap();
    let paused_at = c.now().mono;
    c.run_for(seconds(200));
    let late = c
        .fabric()
        .borrow()
        .history()
        .iter()
        .filter(|e| e.began.since(paused_at) > Duration::from_millis(5))
        .count();
    assert_eq!(late, 0, "probes began after the pause");
    let held = (0..8).map(|host| c.agent(host).unwrap().probes()).sum::<usize>();
    assert_eq!((held, c.coordinator().leases_running(), c.fabric().borrow().held()), (0, 0, 0));
    assert!(!sweep_is_over(&c));
    c.command(|coordinator, now| coordinator.set_pause(None, |flags| flags.all = false, now))
        .unwrap()
        .unwrap();
    assert!(c.run_until(seconds(30), sweep_is_over));
    let before = c.fabric().borrow().history().len();
    c.run_for(seconds(60));
    assert!(c.fabric().borrow().history().len() > before, "continuous sweeps go on too");
}

#[test]
fn a_node_that_pauses_itself_is_excluded_and_its_running_probe_ends() {
    let mut c = cluster(4, quiet());
    start_sweep(&mut c, &[Metric::Bandwidth]);
    c.run_for(Duration::from_millis(100));
    c.pause_locally(1, PauseFlags { all: false, bandwidth: true });
    assert!(c.run_until(seconds(10), sweep_is_over));
    let excluded = pairs(4).filter(|&(a, b)| {
        matches!(cell(&c, Metric::Bandwidth, a, b), Cell::Excluded { why: Exclusion::Policy, .. })
    });
    let excluded: Vec<_> = excluded.collect();
    assert_eq!(excluded.len(), 6, "{excluded:?}");
    assert!(excluded.iter().all(|&(a, b)| a == 1 || b == 1), "{excluded:?}");
    the_rest_is_right(&c, 4, &[Metric::Bandwidth], &[1]);
    sweep(&mut c, LATENCY, seconds(10));
    the_rest_is_right(&c, 4, LATENCY, &[]);
}
