//! What the tests of the simulated cluster share: how to get one going, and what a right cell is.

use rdmascope_control::coordinator::{Coordinator, Settings};
use rdmascope_localise::{Cell, CellState, Measured};
use rdmascope_model::{Cause, CounterDelta, Failure, Metric, Wall};
use rdmascope_sim::{Cluster, Shape};
use std::time::Duration;

pub(crate) const BOTH: [Metric; 2] = [Metric::Latency, Metric::Bandwidth];

/// No continuous sweeps: only what the test asks for is measured.
pub(crate) fn quiet() -> Settings {
    Settings { pings_per_second: 0, ..Settings::default() }
}

pub(crate) fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// A cluster whose agents are all connected and known.
pub(crate) fn cluster(nodes: usize, settings: Settings) -> Cluster {
    of(&Shape { seed: 1, nodes, one_machine: false, settings })
}

pub(crate) fn of(shape: &Shape) -> Cluster {
    let mut c = Cluster::new(shape);
    assert!(everybody_is_here(&mut c, shape.nodes, seconds(5)), "not all agents came");
    c
}

/// Waits until so many agents have told of their endpoints.
pub(crate) fn everybody_is_here(c: &mut Cluster, nodes: usize, within: Duration) -> bool {
    c.run_until(within, |c| {
        let members = c.coordinator().members();
        let present = members.endpoints().filter(|(_, e)| e.gone_since.is_none()).count();
        members.connected() == nodes && present == nodes
    })
}

pub(crate) fn start_sweep(c: &mut Cluster, metrics: &[Metric]) {
    c.command(|coordinator, now| coordinator.start_sweep(metrics, true, now)).unwrap().unwrap();
}

pub(crate) fn sweep_is_over(c: &Cluster) -> bool {
    c.coordinator().sweep().is_some_and(|sweep| sweep.finished_at.is_some())
}

/// Sweeps, and tells how long it took.
pub(crate) fn sweep(c: &mut Cluster, metrics: &[Metric], within: Duration) -> Duration {
    let began = c.elapsed();
    start_sweep(c, metrics);
    assert!(c.run_until(within, sweep_is_over), "the sweep is not over after {within:?}: {:?}", progress(c));
    c.elapsed() - began
}

fn progress(c: &Cluster) -> Option<(usize, usize)> {
    c.coordinator().sweep().map(|sweep| (sweep.done, sweep.total))
}

pub(crate) fn cell_in(
    coordinator: &Coordinator,
    c: &Cluster,
    metric: Metric,
    source: usize,
    target: usize,
) -> Cell {
    let index = |host| coordinator.matrix().find(&c.endpoint(host)).unwrap();
    coordinator.matrix().cell(metric, index(source), index(target))
}

pub(crate) fn cell(c: &Cluster, metric: Metric, source: usize, target: usize) -> Cell {
    cell_in(c.coordinator(), c, metric, source, target)
}

pub(crate) fn state(c: &Cluster, metric: Metric, source: usize, target: usize) -> CellState {
    cell(c, metric, source, target).state(c.now().wall, c.coordinator().fresh_for())
}

#[track_caller]
pub(crate) fn failure(c: &Cluster, metric: Metric, source: usize, target: usize) -> Failure {
    match cell(c, metric, source, target) {
        Cell::Failed { failure, .. } => failure,
        other => panic!("{metric} {source} to {target} is {other:?}"),
    }
}

#[track_caller]
pub(crate) fn cause(c: &Cluster, metric: Metric, source: usize, target: usize) -> Cause {
    failure(c, metric, source, target).cause
}

#[track_caller]
pub(crate) fn measured(c: &Cluster, metric: Metric, source: usize, target: usize) -> (Wall, Measured) {
    match cell(c, metric, source, target) {
        Cell::Known { at, measured } => (at, measured),
        other => panic!("{metric} {source} to {target} is {other:?}"),
    }
}

pub(crate) fn retransmits(measured: &Measured) -> u64 {
    let (Measured::Latency(_, CounterDelta { retransmits })
    | Measured::Bandwidth(_, CounterDelta { retransmits })) = measured
    else {
        panic!("pings count no retransmits");
    };
    retransmits.expect("the simulated driver counts them")
}

/// The cell is fresh, and its figure is the fabric's within the simulated noise.
#[track_caller]
pub(crate) fn is_right(c: &Cluster, metric: Metric, source: usize, target: usize) {
    let (_, measured) = measured(c, metric, source, target);
    assert_eq!(state(c, metric, source, target), CellState::Fresh, "{metric} {source} to {target}");
    let (from, to) = (c.endpoint(source), c.endpoint(target));
    let fabric = c.fabric();
    let fabric = fabric.borrow();
    let (expected, seen) = match metric {
        Metric::Latency => (fabric.half_round_trip_ns(&from, &to).unwrap(), measured.headline()),
        Metric::Bandwidth => (fabric.goodput_bps(&from, &to).unwrap(), measured.headline()),
        Metric::Ping => panic!("the simulated fabric carries no pings"),
    };
    let seen = seen.unwrap();
    let off = seen.abs_diff(expected) * 100 / expected;
    assert!(off <= 2, "{metric} {source} to {target}: {seen} is {off} % off {expected}");
}

pub(crate) fn pairs(nodes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..nodes).flat_map(move |a| (0..nodes).map(move |b| (a, b))).filter(|(a, b)| a != b)
}

/// Every cell is right but those of these nodes.
#[track_caller]
pub(crate) fn the_rest_is_right(c: &Cluster, nodes: usize, metrics: &[Metric], but: &[usize]) {
    for &metric in metrics {
        for (a, b) in pairs(nodes).filter(|(a, b)| !but.contains(a) && !but.contains(b)) {
            is_right(c, metric, a, b);
        }
    }
}

/// Nothing is held by anybody any more.
#[track_caller]
pub(crate) fn nothing_is_left(c: &mut Cluster, nodes: usize) {
    let free = c.run_until(seconds(10), |c| {
        let agents = (0..nodes).filter_map(|host| c.agent(host)).all(|agent| agent.probes() == 0);
        agents && c.coordinator().leases_running() == 0 && c.fabric().borrow().held() == 0
    });
    assert!(free, "{} probes are held on the fabric", c.fabric().borrow().held());
}
