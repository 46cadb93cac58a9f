//! The coordinator among agents that the tests play: what it says to whom, and what it comes to know.

mod drains;
mod history;
mod kept;
mod members;
mod mesh;
mod passes;
mod pings;
mod places;
mod plans;
mod progress;
mod results;
mod runs;
mod safety;
mod sweeps;
mod touched;
mod trails;

use super::*;
use rdmascope_link::{
    FindingBrief, Hello, PROTOCOL_MAX, PROTOCOL_MIN, PairsBrief, ProbeResult, RelayPayload,
};
use rdmascope_localise::Cell;
use rdmascope_model::{
    BandwidthStats, CounterDelta, EndpointInfo, EndpointName, Fabric, Failure, LatencyStats, Outcome,
    ProbePlan, Role, Side, Step, Urgency, Wall,
};
use std::time::Duration;

/// Without continuous sweeps, so that only what a test asks for happens.
fn quiet() -> Settings {
    Settings { pings_per_second: 0, ..Settings::default() }
}

fn endpoint(name: &str) -> EndpointInfo {
    EndpointInfo::bare(name.parse().unwrap(), Fabric::Simulated)
}

fn hello(node: &str, machine: &str) -> Hello {
    Hello {
        protocol_min: PROTOCOL_MIN,
        protocol_max: PROTOCOL_MAX,
        agent_version: "1.2.3".to_owned(),
        node: node.to_owned(),
        instance: 1,
        machine: machine.to_owned(),
        metrics: None,
    }
}

fn latency(p50_ns: u64) -> Outcome {
    let stats = LatencyStats {
        count: 1_000,
        min_ns: p50_ns,
        p50_ns,
        p90_ns: p50_ns,
        p99_ns: Some(p50_ns),
        p999_ns: None,
        max_ns: p50_ns,
        host_delayed: 0,
    };
    Outcome::Latency(stats, CounterDelta { retransmits: None })
}

fn bandwidth() -> Outcome {
    let stats = BandwidthStats {
        bytes: 1 << 30,
        duration_ns: 1 << 27,
        average_bps: 64_000_000_000,
        worst_window_bps: None,
        variation_permille: None,
        completions: 100,
    };
    Outcome::Bandwidth(stats, CounterDelta { retransmits: None })
}

fn completed(metric: Metric) -> Outcome {
    match metric {
        Metric::Latency => latency(2_000),
        Metric::Bandwidth => bandwidth(),
        Metric::Ping => panic!("the mesh pings without leases"),
    }
}

/// A coordinator, and what it did.
struct Bench {
    c: Coordinator,
    now: Now,
    /// What it said and closed.
    actions: Vec<Action>,
    /// How its probes ended.
    probed: Vec<Probed>,
}

impl Bench {
    fn new(settings: Settings) -> Self {
        let now = Now { mono: Mono(1_000_000_000), wall: Wall(1_700_000_000_000) };
        Self { c: Coordinator::new(settings, 7), now, actions: Vec::new(), probed: Vec::new() }
    }

    fn pass(&mut self, time: Duration) {
        self.now.mono = self.now.mono.after(time);
        self.now.wall.0 += u64::try_from(time.as_millis()).unwrap();
    }

    fn drain(&mut self) {
        while let Some(action) = self.c.poll_action() {
            match action {
                Action::Probed(probed) => self.probed.push(probed),
                other => self.actions.push(other),
            }
        }
    }

    fn handle(&mut self, event: Event) {
        self.c.handle(event, self.now);
        self.drain();
    }

    fn frame(&mut self, connection: u64, frame: ToCoordinator) {
        self.handle(Event::Frame(ConnectionId(connection), frame));
    }

    fn hello(&mut self, connection: u64, node: &str, machine: &str) {
        self.frame(connection, ToCoordinator::Hello(hello(node, machine)));
    }

    fn inventory(&mut self, connection: u64, endpoints: Vec<EndpointInfo>) {
        self.frame(connection, ToCoordinator::inventory(endpoints, Vec::new()));
    }

    /// Nodes `n0`, `n1`, .. with one endpoint `nI/d/1` each, on connections 0, 1, ..
    fn nodes(settings: Settings, count: u64, machine: impl Fn(u64) -> String) -> Self {
        let mut bench = Self::new(settings);
        for i in 0..count {
            bench.hello(i, &format!("n{i}"), &machine(i));
            bench.inventory(i, vec![endpoint(&format!("n{i}/d/1"))]);
        }
        bench.take();
        bench
    }

    /// Each on its own machine.
    fn apart(settings: Settings, count: u64) -> Self {
        Self::nodes(settings, count, |i| format!("m{i}"))
    }

    /// What was done since the last call.
    fn take(&mut self) -> Vec<Action> {
        self.drain();
        std::mem::take(&mut self.actions)
    }

    /// Leases since the last call: both sides' plans, the source first.
    fn take_leases(&mut self) -> Vec<(ConnectionId, ProbePlan)> {
        let plans = self.take().into_iter().filter_map(|action| match action {
            Action::Send(to, ToAgent::Lease { plan, .. }) => Some((to, plan)),
            _ => None,
        });
        plans.collect()
    }

    fn report(&mut self, connection: ConnectionId, plan: &ProbePlan, outcome: Outcome) {
        let result = ProbeResult {
            lease: Some(plan.lease),
            local: plan.local.clone(),
            peer: plan.peer.clone(),
            role: plan.role,
            metric: plan.cell(),
            measured_at: self.now.wall,
            outcome,
            effects: None,
            evidence: String::new(),
        };
        self.frame(connection.0, ToCoordinator::Results(vec![result]));
    }

    /// Both sides report that it went well.
    fn complete(&mut self, leases: &[(ConnectionId, ProbePlan)]) {
        for (connection, plan) in leases {
            let metric = plan.spec.metric().unwrap();
            let sends = metric == Metric::Latency || plan.role == Role::Source;
            self.report(*connection, plan, if sends { completed(metric) } else { Outcome::Served });
        }
    }

    fn sweep(&mut self, metrics: &[Metric]) -> Result<u64, CommandError> {
        let id = self.c.start_sweep(metrics, true, self.now);
        self.drain();
        id
    }

    fn cell(&self, metric: Metric, source: &str, target: &str) -> Cell {
        let index = |name: &str| self.c.find_endpoint(name).unwrap();
        self.c.matrix().cell(metric, index(source), index(target))
    }

    #[track_caller]
    fn cause(&self, metric: Metric, source: &str, target: &str) -> Cause {
        match self.cell(metric, source, target) {
            Cell::Failed { failure, .. } => failure.cause,
            other => panic!("{source} to {target} is {other:?}"),
        }
    }
}

/// The pairs of leases, source first, in the order in which they were given.
fn pairs(leases: &[(ConnectionId, ProbePlan)]) -> Vec<(String, String)> {
    let sources = leases.iter().filter(|(_, plan)| plan.role == Role::Source);
    sources.map(|(_, plan)| (plan.local.node.clone(), plan.peer.node.clone())).collect()
}

fn refusals(actions: &[Action], connection: u64) -> Vec<String> {
    let refused = actions.iter().filter_map(|action| match action {
        Action::Send(to, ToAgent::Refused { message }) if to.0 == connection => Some(message.clone()),
        _ => None,
    });
    refused.collect()
}

fn closes(actions: &[Action]) -> Vec<u64> {
    let closed = actions.iter().filter_map(|action| match action {
        Action::Close(connection, _) => Some(connection.0),
        Action::Send(..) | Action::Probed(_) | Action::Refused(_) | Action::Keep(..) | Action::KeepNotes => {
            None
        }
    });
    closed.collect()
}
