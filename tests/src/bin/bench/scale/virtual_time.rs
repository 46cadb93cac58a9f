//! Sweeps in virtual time: the real coordinator and the real states of its agents, over a simulated fabric. What the fabric takes is told in
//! rows of its own, since the figures are only as good as that.

use super::{Print, row};
use crate::row::Asked;
use rdmascope_control::coordinator::{Settings, SweepOrder, SweepPlan};
use rdmascope_model::Metric;
use rdmascope_probe::limits::MESH_SWEEP_PINGS_PER_SECOND_MAX;
use rdmascope_sim::suite::Suite;
use rdmascope_sim::{Cluster, Layout, Net, Pinging, node_name};
use std::time::{Duration, Instant};

/// Memory registration and a queue pair of its own; a good adapter takes a tenth of that.
const PREPARE: Duration = Duration::from_millis(2);
/// To RTR and RTS.
const CONNECT: Duration = Duration::from_millis(1);
/// Slowest way of a message between agent and coordinator in the simulation, and the fastest, microseconds.
const MESSAGE_MICROS: [f64; 2] = [60.0, 400.0];
/// Nodes whose adapters share leaves.
const NODES_OF_A_POD: usize = 32;

pub(super) fn rows(print: Print<'_>) {
    print(vec![
        row("in virtual time: making a queue pair with its memory", millis(PREPARE), "ms", Asked::Nothing),
        row("in virtual time: connecting it", millis(CONNECT), "ms", Asked::Nothing),
        row(
            "in virtual time: a message to or from the coordinator, at least",
            MESSAGE_MICROS[0],
            "us",
            Asked::Nothing,
        ),
        row(
            "in virtual time: a message to or from the coordinator, at most",
            MESSAGE_MICROS[1],
            "us",
            Asked::Nothing,
        ),
    ]);
    eight_nodes(print);
    large(print);
    planning(print);
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn eight_nodes(print: Print<'_>) {
    let latency = SweepOrder { cross_rail: true, ..order(&[Metric::Latency]) };
    let both = SweepOrder { metrics: vec![Metric::Latency, Metric::Bandwidth], ..latency.clone() };
    let mut cluster = cluster(8, 4, Pinging::ByWindow);
    let (latency, pairs) = swept(&mut cluster, &latency, Duration::from_secs(120));
    let (both, _) = swept(&mut cluster, &both, Duration::from_secs(600));
    let at_most = Asked::AtMost;
    print(vec![
        row("8 nodes of 4 rails: latency of all pairs, in virtual time", latency, "s", at_most(10.0)),
        row("of them unordered pairs", pairs, "", Asked::Between(448.0, 448.0)),
        row("8 nodes of 4 rails: with bandwidth, in virtual time", both, "s", at_most(60.0)),
    ]);
}

/// 2,048 endpoints that carry no job: what the plans state; and what a pass really takes against its plan, with so many endpoints that each
/// ping can be followed.
fn large(print: Print<'_>) {
    let mut cluster = cluster(256, 8, Pinging::ByWindow);
    let (same, all) = (order(&[Metric::Ping]), SweepOrder { cross_rail: true, ..order(&[Metric::Ping]) });
    let [same_plan, all_plan] = [&same, &all].map(|order| planned(&mut cluster, order));
    let began = Instant::now();
    let mut followed = self::cluster(16, 8, Pinging::ByPacket);
    let plan = planned(&mut followed, &same);
    let (took, pairs) = swept(&mut followed, &same, 4 * plan.time.max(Duration::from_secs(5)));
    let at_most = Asked::AtMost;
    print(vec![
        row(
            "2048: pings per second and endpoint in a pass, at most",
            f64::from(MESH_SWEEP_PINGS_PER_SECOND_MAX),
            "",
            at_most(1_000.0),
        ),
        row("2048: latency of one rail, stated by the plan", same_plan.time.as_secs_f64(), "s", at_most(6.0)),
        row(
            "2048: latency of all pairs, stated by the plan",
            all_plan.time.as_secs_f64(),
            "s",
            at_most(60.0),
        ),
        row("128: latency of one rail, stated by the plan", plan.time.as_secs_f64(), "s", Asked::Nothing),
        row("128: latency of one rail, in virtual time", took, "s", at_most(1.2 * plan.time.as_secs_f64())),
        row("of them pairs", pairs, "", Asked::Between(128.0 * 15.0, 128.0 * 15.0)),
        row("that simulation itself", began.elapsed().as_secs_f64(), "s", Asked::Nothing),
    ]);
}

/// Who meets whom follows from a formula, so a round by itself has no plan: told is the plan of a whole sweep, by its rounds.
fn planning(print: Print<'_>) {
    let mut cluster = cluster(512, 8, Pinging::ByWindow);
    let order = SweepOrder { cross_rail: true, ..order(&[Metric::Latency]) };
    planned(&mut cluster, &order); // Places are worked out once, which is no part of it.
    let began = Instant::now();
    let plan = planned(&mut cluster, &order);
    let whole = millis(began.elapsed());
    let began = Instant::now();
    start(&mut cluster, &order);
    let handed_out = millis(began.elapsed());
    let leases = cluster.coordinator().leases_running() as f64;
    print(vec![
        row(
            "4096: planning a round, of a sweep over all pairs",
            whole / plan.rounds as f64,
            "ms",
            Asked::AtMost(1.0),
        ),
        row("4096: planning the whole sweep", whole, "ms", Asked::Nothing),
        row("4096: its rounds", plan.rounds as f64, "", Asked::Nothing),
        row("4096: beginning it, until its first leases are handed out", handed_out, "ms", Asked::Nothing),
        row("4096: those leases", leases, "", Asked::Nothing),
    ]);
}

fn order(metrics: &[Metric]) -> SweepOrder {
    SweepOrder { metrics: metrics.to_vec(), drained: true, ..SweepOrder::default() }
}

/// A cluster that has just been switched on, and settled.
fn cluster(nodes: usize, rails: usize, pinging: Pinging) -> Cluster {
    let layout = Layout {
        nodes,
        rails,
        leaves: nodes.div_ceil(NODES_OF_A_POD).max(2),
        spines: 8,
        pods: 1,
        lonely: false,
        rates_gbps: vec![400],
        oversubscription: 1.0,
        hardware_stamps: false,
    };
    let suite = Suite::parse(include_str!("../../../../faults.yaml"));
    let parameters = suite.unwrap_or_else(|error| panic!("faults.yaml: {error}")).fabric;
    let names = (0..nodes).flat_map(|node| (0..rails).map(move |rail| (node, rail)));
    let rails = names.map(|(node, rail)| (format!("{}/sim{rail}", node_name(node)), rail.to_string()));
    let settings = Settings { rails: rails.collect(), ..Settings::default() };
    let mut cluster = Cluster::over(Net::new(&layout, &parameters, 1), 1, settings, pinging);
    cluster.fabric().borrow_mut().set_up_takes(PREPARE, CONNECT);
    cluster.run_for(Duration::from_secs(5));
    cluster
}

fn planned(cluster: &mut Cluster, order: &SweepOrder) -> SweepPlan {
    match cluster.command(|coordinator, now| coordinator.plan_sweep(order, now)) {
        Some(Ok(plan)) => plan,
        other => panic!("no plan: {other:?}"),
    }
}

fn start(cluster: &mut Cluster, order: &SweepOrder) {
    match cluster.command(|coordinator, now| coordinator.start_sweep_of(order, now)) {
        Some(Ok(_)) => {}
        other => panic!("no sweep: {other:?}"),
    }
}

/// Seconds that a sweep took, and probes that it did.
fn swept(cluster: &mut Cluster, order: &SweepOrder, limit: Duration) -> (f64, f64) {
    start(cluster, order);
    let began = cluster.elapsed();
    let over =
        |cluster: &Cluster| cluster.coordinator().sweep().is_some_and(|sweep| sweep.finished_at.is_some());
    assert!(cluster.run_until(limit, over), "the sweep is not over after {limit:?}");
    let took = (cluster.elapsed() - began).as_secs_f64();
    let sweep = cluster.coordinator().sweep().unwrap_or_else(|| panic!("a sweep that is over is kept"));
    assert_eq!((sweep.failed, sweep.excluded), (0, 0), "nothing is broken");
    (took, sweep.done as f64)
}
