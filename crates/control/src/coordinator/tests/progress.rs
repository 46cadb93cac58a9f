//! Whatever comes in whatever order: the coordinator asks to be woken later, never now, and loses track of nothing.

use super::*;
use rdmascope_model::{Exclusion, Side};
use std::collections::{BTreeMap, BTreeSet};

/// SplitMix64 (Steele, Lea, Flood 2014): enough to try many orders, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

const NODES: u64 = 6;

struct Chaos {
    bench: Bench,
    random: Random,
    connections: u64,
    open: BTreeMap<u64, u64>,
    leases: Vec<(ConnectionId, ProbePlan)>,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let settings = Settings { pause: Duration::from_millis(seed % 3 * 500), ..Settings::default() };
        let (bench, random) = (Bench::new(settings), Random(seed));
        Self { bench, random, connections: 0, open: BTreeMap::new(), leases: Vec::new() }
    }

    /// What every shell does after every event, and what must hold then.
    fn settle(&mut self) {
        for action in self.bench.take() {
            match action {
                Action::Send(to, ToAgent::Lease { plan, .. }) => self.leases.push((to, plan)),
                Action::Send(_, ToAgent::LeaseEnd { lease }) => self.leases.retain(|(_, p)| p.lease != lease),
                Action::Close(connection, _) => {
                    self.open.remove(&connection.0);
                    self.bench.handle(Event::Closed(connection));
                }
                Action::Send(..)
                | Action::Probed(_)
                | Action::Refused(_)
                | Action::Keep(..)
                | Action::KeepNotes => {}
            }
        }
        let (c, now) = (&self.bench.c, self.bench.now.mono);
        if let Some(wakeup) = c.next_wakeup() {
            assert!(wakeup > now, "asks to be woken at {wakeup:?}, and it is {now:?}");
        }
        let mut busy = BTreeSet::new();
        let mut load: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
        for lease in c.leases.values() {
            assert!(
                busy.insert(lease.job.source) && busy.insert(lease.job.target),
                "an endpoint has two leases"
            );
            for machine in &lease.machines {
                let (latency, bandwidth) = load.entry(machine).or_default();
                match lease.job.spec.metric().unwrap() {
                    Metric::Latency => *latency += 1,
                    Metric::Bandwidth => *bandwidth += 1,
                    Metric::Ping => panic!("pings need no lease here"),
                }
            }
        }
        for (machine, &(latency, bandwidth)) in &load {
            let fits = if latency > 0 { (latency, bandwidth) == (1, 0) } else { bandwidth <= 2 };
            assert!(fits, "{machine} carries {latency} latency and {bandwidth} bandwidth probes");
        }
        let marked = c.members().endpoints().filter(|(_, e)| !e.leases.is_empty()).count();
        assert_eq!(marked, busy.len(), "an endpoint is marked busy by a lease that is over");
    }

    fn connect(&mut self, node: u64) {
        self.connections += 1;
        self.open.insert(self.connections, node);
        let machine = format!("m{}", self.random.below(3));
        self.bench.hello(self.connections, &format!("n{node}"), &machine);
        self.settle();
        self.inventory(self.connections, node);
    }

    fn inventory(&mut self, connection: u64, node: u64) {
        let mut endpoints = Vec::new();
        for device in ["d0", "d1"] {
            let unusable = (self.random.below(6) == 0).then_some(Cause::PortDown);
            if self.random.below(4) > 0 {
                endpoints.push(EndpointInfo { unusable, ..endpoint(&format!("n{node}/{device}/1")) });
            }
        }
        self.bench.inventory(connection, endpoints);
    }

    fn pick(&mut self) -> Option<(u64, u64)> {
        let count = self.open.len() as u64;
        let nth = if count == 0 { 0 } else { self.random.below(count) };
        self.open.iter().nth(usize::try_from(nth).unwrap()).map(|(&c, &n)| (c, n))
    }

    fn report(&mut self) {
        if self.leases.is_empty() {
            return;
        }
        let at = usize::try_from(self.random.below(self.leases.len() as u64)).unwrap();
        let (connection, plan) = self.leases[at].clone();
        let outcome = match self.random.below(6) {
            0 => Outcome::Excluded(Exclusion::Busy),
            1 | 2 => {
                let causes: Vec<_> = Cause::all().collect();
                let cause = causes[usize::try_from(self.random.below(causes.len() as u64)).unwrap()];
                let (step, side) = (Step::Measure, Side::Source);
                Outcome::Failed(Failure { cause, step, side, evidence: String::new() })
            }
            _ => completed(plan.spec.metric().unwrap()),
        };
        self.bench.report(connection, &plan, outcome);
    }

    fn command(&mut self) {
        let now = self.bench.now;
        let metrics = [Metric::Latency, Metric::Bandwidth];
        let c = &mut self.bench.c;
        // Refusals are part of the game.
        let _: Result<(), CommandError> = match self.random.below(6) {
            0 => c.start_sweep(&metrics, true, now).map(drop),
            1 | 2 => c.start_probe("n0/d0", "n1/d0", &metrics, false, now).map(drop),
            3 => c.set_pause(None, |flags| flags.all = !flags.all, now),
            4 => c.set_pause(Some(&["n2".to_owned()]), |flags| flags.bandwidth = !flags.bandwidth, now),
            _ => c.set_pause(None, |flags| flags.all = false, now),
        };
    }

    fn step(&mut self) {
        match self.random.below(12) {
            0 => {
                let node = self.random.below(NODES);
                self.connect(node);
            }
            1 => {
                if let Some((connection, _)) = self.pick().filter(|_| self.random.below(3) == 0) {
                    self.open.remove(&connection);
                    self.leases.retain(|(c, _)| c.0 != connection);
                    self.bench.handle(Event::Closed(ConnectionId(connection)));
                }
            }
            2 => {
                if let Some((connection, node)) = self.pick() {
                    self.inventory(connection, node);
                }
            }
            3 => self.command(),
            4 => {
                if let Some((connection, _)) = self.pick() {
                    let bandwidth = self.random.below(5) == 0;
                    self.bench
                        .frame(connection, ToCoordinator::heartbeat(PauseFlags { all: false, bandwidth }));
                }
            }
            5 => {
                let ms = self.random.below(3_000);
                self.bench.pass(Duration::from_millis(ms));
                self.bench.handle(Event::Tick);
            }
            6 | 7 => {
                if let Some(wakeup) = self.bench.c.next_wakeup() {
                    let ahead = wakeup.since(self.bench.now.mono);
                    self.bench.pass(ahead);
                }
                self.bench.handle(Event::Tick);
            }
            _ => self.report(),
        }
        self.settle();
    }

    /// Everything is well again: whatever was begun must come to an end.
    fn recover(&mut self) {
        let now = self.bench.now;
        self.bench.c.set_pause(None, |flags| *flags = PauseFlags::default(), now).unwrap();
        self.settle();
        for node in 0..NODES {
            self.connect(node);
            self.settle();
        }
        for _ in 0..5_000 {
            let sweep_over = self.bench.c.sweep().is_none_or(|sweep| sweep.finished_at.is_some());
            if sweep_over && self.bench.c.leases_running() == 0 {
                return;
            }
            let running = std::mem::take(&mut self.leases);
            for lease in running {
                self.bench.complete(&[lease]);
                self.settle();
            }
            self.bench.pass(Duration::from_millis(10));
            for (connection, _) in self.open.clone() {
                self.bench.frame(connection, ToCoordinator::heartbeat(PauseFlags::default()));
            }
            self.settle();
        }
        panic!("never comes to rest: {:?}", self.bench.c.sweep());
    }
}

#[test]
fn no_order_of_events_makes_a_shell_spin_or_leaves_work_behind() {
    for seed in 0..60 {
        let mut chaos = Chaos::new(seed);
        for _ in 0..400 {
            chaos.step();
        }
        chaos.recover();
    }
}
