//! "Never hurt the job" on a whole cluster: jobs that hold a device, caps per leaf, forced probes, and a coordinator that goes.

use crate::common::*;
use rdmascope_control::coordinator::{RowKind, Settings};
use rdmascope_link::PauseFlags;
use rdmascope_localise::Cell;
use rdmascope_model::{Exclusion, Load, Metric};
use rdmascope_sim::{Cluster, Exchange};
use std::time::Duration;

const HOLDER: &str = "job 4711 of user alice holds sim0 (python3, queue pairs: 16)";

fn probe(c: &mut Cluster, source: usize, target: usize, force: bool) -> u64 {
    let names = [source, target].map(|host| c.endpoint(host).to_string());
    let begun = c.command(|coordinator, now| {
        let metrics = &[Metric::Bandwidth];
        if force {
            coordinator.start_forced_probe(&names[0], &names[1], metrics, now)
        } else {
            coordinator.start_probe(&names[0], &names[1], metrics, false, now)
        }
    });
    let id = begun.unwrap().unwrap();
    assert!(c.run_until(seconds(30), |c| c.coordinator().probe(id).is_some_and(|run| run.left == 0)));
    id
}

fn steps(c: &Cluster, id: u64) -> Vec<String> {
    c.coordinator().probe(id).unwrap().steps.iter().map(|step| step.text.clone()).collect()
}

/// Streams that really ran.
fn streams(c: &Cluster) -> Vec<Exchange> {
    let fabric = c.fabric();
    let fabric = fabric.borrow();
    fabric.history().iter().filter(|e| e.spec.load() == Load::Streams).cloned().collect()
}

#[test]
fn a_job_that_holds_the_device_at_either_end_is_named_and_no_byte_is_sent() {
    for holder in [0, 1] {
        let mut c = cluster(3, quiet());
        c.hold(holder, Some(HOLDER));
        let id = probe(&mut c, 0, 1, false);
        let told = steps(&c, id);
        assert!(told.contains(&format!("not run: busy: {HOLDER}")), "{told:?}");
        assert!(matches!(cell(&c, Metric::Bandwidth, 0, 1), Cell::Excluded { why: Exclusion::Busy, .. }));
        assert_eq!(streams(&c).len(), 0);
        // It is over: the same pair, and meanwhile another one.
        c.hold(holder, None);
        c.run_for(seconds(3));
        probe(&mut c, 0, 1, false);
        is_right(&c, Metric::Bandwidth, 0, 1);
        nothing_is_left(&mut c, 3);
    }
}

#[test]
fn a_sweep_beside_jobs_measures_the_idle_pairs_alone_and_stays_within_its_share() {
    let mut c = cluster(4, quiet());
    c.hold(2, Some(HOLDER));
    let begun = c.command(|coordinator, now| coordinator.start_sweep(&[Metric::Bandwidth], false, now));
    begun.unwrap().unwrap();
    assert!(c.run_until(seconds(120), sweep_is_over));
    let sweep = c.coordinator().sweep().unwrap();
    assert_eq!(
        (sweep.total, sweep.failed, sweep.excluded),
        (12, 0, 6),
        "no agent refused what it was asked for"
    );
    the_rest_is_right(&c, 4, &[Metric::Bandwidth], &[2]);
    let all = streams(&c);
    assert_eq!(all.len(), 6);
    let long = Duration::from_millis(250);
    for e in &all {
        assert!(e.ends.since(e.began) <= long, "{:?}", e.ends.since(e.began));
        let next = all.iter().filter(|o| o.source == e.source && o.began > e.began).map(|o| o.began).min();
        assert!(next.is_none_or(|next| next.since(e.began) >= 10 * long), "a port sends a tenth of the time");
    }
}

#[test]
fn a_forced_probe_runs_beside_the_job_and_is_in_the_history_and_a_pause_stops_it() {
    let mut c = cluster(2, quiet());
    c.hold(0, Some(HOLDER));
    probe(&mut c, 0, 1, true);
    is_right(&c, Metric::Bandwidth, 0, 1);
    let history = |c: &Cluster| {
        let rows = c.coordinator().health().events().filter(|row| row.kind == RowKind::ForcedProbe);
        rows.count()
    };
    assert_eq!(history(&c), 4, "beginning and end, on both nodes");
    c.run_for(seconds(5));
    c.pause_locally(1, PauseFlags { all: false, bandwidth: true });
    c.run_for(seconds(1));
    let before = streams(&c).len();
    probe(&mut c, 0, 1, true);
    assert_eq!((streams(&c).len(), history(&c)), (before, 8));
}

#[test]
fn a_running_stream_stops_within_a_tick_of_the_pause_file() {
    let mut c = cluster(2, quiet());
    let begun = c.command(|coordinator, now| coordinator.start_sweep(&[Metric::Bandwidth], true, now));
    begun.unwrap().unwrap();
    assert!(c.run_until(seconds(5), |c| streams(c).len() == 1), "one runs");
    let held = c.fabric().borrow().held();
    assert!(held > 0);
    c.pause_locally(0, PauseFlags { all: false, bandwidth: true });
    assert_eq!(c.agent(0).unwrap().probes(), 0, "at once, without the coordinator's word");
    assert!(c.fabric().borrow().held() < held);
}

#[test]
fn streams_across_leaves_are_capped_in_the_whole_cluster() {
    let leaf = |host: usize| if host < 6 { "a" } else { "b" };
    let leaves = (0..12).map(|host| (format!("node-{host}"), leaf(host).to_owned())).collect();
    let mut c = cluster(12, Settings { streams_per_leaf: 2, leaves, ..quiet() });
    sweep(&mut c, &[Metric::Bandwidth], seconds(120));
    the_rest_is_right(&c, 12, &[Metric::Bandwidth], &[]);
    let all = streams(&c);
    let host = |name: &rdmascope_model::EndpointName| name.node["node-".len()..].parse::<usize>().unwrap();
    let crosses = |e: &&Exchange| leaf(host(&e.source)) != leaf(host(&e.target));
    let at_once =
        |e: &Exchange| all.iter().filter(crosses).filter(|o| o.began <= e.began && e.began < o.ends).count();
    assert_eq!(all.iter().filter(crosses).map(at_once).max(), Some(2));
    assert!(all.iter().any(|e| all.iter().filter(|o| o.began <= e.began && e.began < o.ends).count() > 2));
}

#[test]
fn a_stream_whose_coordinator_is_gone_ends_by_itself_and_the_next_epoch_voids_what_is_left() {
    let mut c = cluster(2, quiet());
    let begun = c.command(|coordinator, now| coordinator.start_sweep(&[Metric::Bandwidth], true, now));
    begun.unwrap().unwrap();
    assert!(c.run_until(seconds(5), |c| streams(c).len() == 1));
    c.kill_coordinator();
    // A lease lives six seconds, and its backstop a little longer.
    c.run_for(seconds(7));
    assert_eq!((c.agent(0).unwrap().probes(), c.agent(1).unwrap().probes()), (0, 0));
    assert_eq!(c.fabric().borrow().held(), 0);
    assert_eq!(streams(&c).len(), 1, "nothing began meanwhile");
    c.start_coordinator();
    assert!(everybody_is_here(&mut c, 2, seconds(10)));
    sweep(&mut c, &[Metric::Bandwidth], seconds(30));
    the_rest_is_right(&c, 2, &[Metric::Bandwidth], &[]);
}
