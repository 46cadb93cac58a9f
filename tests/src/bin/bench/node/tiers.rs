//! Each tier of reading alone, a run of the checks, and what all of it comes to in an average second.

use super::super::cpu::milliseconds;
use super::super::row::{Asked, Row};
use rdmascope_checks::{Look, Past, Policy};
use rdmascope_fixtures::FakeHost;
use rdmascope_host::{Host, MtuOf, PortMtu, Tier};
use rdmascope_model::{KernelLog, Mono, Reading, Snapshot};
use std::sync::Arc;
use tokio::runtime::Runtime;

/// How often the agent reads each tier and judges, per second. Counters that move are judged when they are read.
const PER_SECOND: [(Tier, f64); 4] =
    [(Tier::State, 1.0), (Tier::Counters, 0.1), (Tier::Statistics, 1.0 / 30.0), (Tier::Slow, 1.0 / 60.0)];
const JUDGED_PER_SECOND: f64 = 0.1 + 1.0 / 60.0;

struct Bench {
    host: Host,
    runtime: Runtime,
    snapshot: Snapshot,
    mtu_of: Arc<MtuOf>,
}

/// Of one sweep.
#[derive(Clone, Copy)]
struct Cost {
    milliseconds: f64,
    reads: f64,
}

pub(super) fn rows(machine: &FakeHost) -> Vec<Row> {
    let mut bench = Bench::new(machine);
    let costs = Tier::ALL.map(|tier| {
        eprintln!("bench: the tier {}", tier.as_str());
        (tier, bench.cost(tier))
    });
    let (checks, findings) = checks(&bench.snapshot);
    let of = |wanted: Tier| {
        costs.iter().find(|(tier, _)| *tier == wanted).map_or(f64::NAN, |(_, c)| c.milliseconds)
    };
    let reads =
        |wanted: Tier| costs.iter().find(|(tier, _)| *tier == wanted).map_or(f64::NAN, |(_, c)| c.reads);
    let second =
        PER_SECOND.iter().map(|(tier, often)| of(*tier) * often).sum::<f64>() + checks * JUDGED_PER_SECOND;
    let second_reads = PER_SECOND.iter().map(|(tier, often)| reads(*tier) * often).sum::<f64>();
    let sweep = of(Tier::State) + of(Tier::Counters);
    let sweep_reads = reads(Tier::State) + reads(Tier::Counters);
    let row = |what, seen, asked, reads| Row {
        what,
        seen,
        unit: "ms",
        asked,
        against: Some(("kernel reads", reads)),
    };
    let mut rows = vec![
        row("8 ports, an average second, all tiers and checks", second, Asked::AtMost(3.0), second_reads),
        row("8 ports, one sweep of state and counters", sweep, Asked::AtMost(3.0), sweep_reads),
    ];
    let name = |tier| match tier {
        Tier::State => "tier state, each 1 s",
        Tier::Counters => "tier counters, each 10 s",
        Tier::Statistics => "tier statistics, each 30 s",
        Tier::Event => "tier event, after an event",
        Tier::Slow => "tier slow, each 60 s",
    };
    rows.extend(
        costs.iter().map(|(tier, cost)| row(name(*tier), cost.milliseconds, Asked::Nothing, cost.reads)),
    );
    rows.push(Row {
        what: "a run of all checks",
        seen: checks,
        unit: "ms",
        asked: Asked::Nothing,
        against: Some(("findings", findings)),
    });
    rows
}

impl Bench {
    fn new(machine: &FakeHost) -> Self {
        let host = Host::new(machine.root().to_owned()).unwrap_or_else(|error| panic!("{error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
        let snapshot = runtime.block_on(host.snapshot(unasked));
        Self { host, runtime, snapshot, mtu_of: Arc::new(unasked) }
    }

    fn cost(&mut self, tier: Tier) -> Cost {
        let before = self.host.reads();
        self.sweep(tier);
        let reads = (self.host.reads() - before) as f64;
        let times = match tier {
            Tier::State => 200,
            Tier::Counters | Tier::Statistics => 40,
            Tier::Event | Tier::Slow => 10,
        };
        Cost { milliseconds: milliseconds(times, || self.sweep(tier)), reads }
    }

    fn sweep(&mut self, tier: Tier) {
        let fresh = self.runtime.block_on(self.host.refresh(&self.snapshot, tier, &self.mtu_of));
        fresh.apply(&mut self.snapshot);
    }
}

/// A capture holds the MTU in files.
fn unasked(_: &str, _: u8) -> PortMtu {
    PortMtu::failed("not asked")
}

/// Milliseconds of one run, and the number of findings; with some minutes of the past, so that rates are judged.
fn checks(snapshot: &Snapshot) -> (f64, f64) {
    eprintln!("bench: the checks");
    let (policy, log) = (Policy::default(), Reading::Value(KernelLog::default()));
    let mut past = Past::new();
    for ten_seconds in 1..100 {
        past.observe(snapshot, Mono(ten_seconds * 10_000_000_000));
    }
    let look = Look { now: snapshot, past: &past, log: &log, policy: &policy };
    let findings = rdmascope_checks::run(&look).len() as f64;
    (milliseconds(40, || drop(rdmascope_checks::run(&look))), findings)
}
