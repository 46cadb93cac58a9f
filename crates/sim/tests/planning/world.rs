//! A coordinator and agents of several adapters each, the real ones; what they stand on takes time and is otherwise perfect.
//!
//! What is modelled, for the figures to mean something: every message between agent and coordinator takes 50 to 400 µs; making a queue
//! pair and registering memory 2 ms; bringing it to RTS 1 ms; a round trip 6 µs; a stream its warm-up and window. All messages of one
//! connection arrive in order. Pings of a pass follow each other at the granted rate, and each batch is told 1 ms after its last ping.

use rdmascope_control::agent::{self, Agent, Identity};
use rdmascope_control::coordinator::{self, ConnectionId, Coordinator, Settings, SweepOrder, SweepPlan};
use rdmascope_link::{ToAgent, ToCoordinator};
use rdmascope_model::{
    BandwidthStats, CounterDelta, DatagramAddress, EndpointInfo, EndpointName, Fabric, LatencyStats, LeaseId,
    Metric, Mono, Now, Outcome, Peer, PingCounts, PingStats, ProbePlan, ProbeSpec, Reading, Role, StampClock,
    SwitchPort, Wall,
};
use rdmascope_probe::TransportEvent;
use rdmascope_probe::mesh::{MeshCommand, MeshEvent, MeshGrant};
use rdmascope_sim::Random;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const RATE: u64 = 400_000_000_000;
const MESSAGE_MICROS: (u64, u64) = (50, 400);
const MAKE: Duration = Duration::from_millis(2);
const CONNECT: Duration = Duration::from_millis(1);
const ROUND_TRIP: Duration = Duration::from_micros(6);
const LOOK: Duration = Duration::from_millis(3);
const TOLD_AFTER: Duration = Duration::from_millis(1);

/// A probe that ran.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) source: EndpointName,
    pub(crate) target: EndpointName,
    pub(crate) metric: Metric,
    pub(crate) began: Mono,
}

#[derive(Clone, Debug)]
enum Happening {
    AtAgent(usize, Vec<u8>),
    AtCoordinator(usize, Vec<u8>),
    WakeAgent(usize),
    WakeCoordinator,
    Transport(usize, LeaseId, TransportEvent),
    Looked(usize, LeaseId),
    /// The next peer of a pass has had its pings: host, which of its endpoints, and the number of the pass.
    Passed(usize, EndpointName, u64),
}

type Key = (Mono, u64);

struct Host {
    agent: Agent,
    endpoints: Vec<EndpointInfo>,
    opened: Vec<EndpointName>,
    book: Arc<[Peer]>,
    pass: u64,
    batches: u32,
    /// Peers of the pass that are still to come, the next one last.
    left: BTreeMap<EndpointName, Vec<EndpointName>>,
    wakeup: Option<Key>,
    /// Arrival of the last message, each way.
    last: [Mono; 2],
}

#[derive(Default)]
struct Running {
    plans: BTreeMap<usize, ProbePlan>,
    started: usize,
}

/// The leaf by the numbers of a node and of its adapter; `None`: nobody tells.
pub(crate) type Leaf = fn(usize, usize) -> Option<String>;

/// What a world is made of.
pub(crate) struct Shape {
    pub(crate) nodes: usize,
    pub(crate) rails: usize,
    /// The leaf that an adapter of a node hangs on.
    pub(crate) leaf: Leaf,
    /// They take datagrams.
    pub(crate) pinged: bool,
    pub(crate) settings: Settings,
}

pub(crate) struct World {
    pub(crate) now: Mono,
    pub(crate) coordinator: Coordinator,
    pub(crate) ran: Vec<Ran>,
    /// Probes with this endpoint never end by themselves.
    pub(crate) dead: Option<EndpointName>,
    hosts: Vec<Host>,
    queue: BTreeMap<Key, Happening>,
    sequence: u64,
    random: Random,
    running: BTreeMap<LeaseId, Running>,
    wakeup: Option<Key>,
}

/// All adapters of a node on one leaf with those of three others.
pub(crate) fn racks(node: usize, _: usize) -> Option<String> {
    Some(format!("rack{}", node / 4))
}

/// Each adapter of a node on another leaf, with those of 31 others.
pub(crate) fn rail_optimised(node: usize, rail: usize) -> Option<String> {
    Some(format!("pod{}-leaf{rail}", node / 32))
}

/// Nobody tells.
pub(crate) fn nowhere(_: usize, _: usize) -> Option<String> {
    None
}

/// Without anything that goes on by itself.
pub(crate) fn quiet() -> Settings {
    Settings { pings_per_second: 0, ..Settings::default() }
}

pub(crate) fn order(metrics: &[Metric]) -> SweepOrder {
    SweepOrder { metrics: metrics.to_vec(), drained: true, ..SweepOrder::default() }
}

impl World {
    pub(crate) fn new(shape: &Shape) -> Self {
        let mut world = Self {
            now: Mono(1),
            coordinator: Coordinator::new(shape.settings.clone(), 1),
            ran: Vec::new(),
            dead: None,
            hosts: Vec::new(),
            queue: BTreeMap::new(),
            sequence: 0,
            random: Random::new(7),
            running: BTreeMap::new(),
            wakeup: None,
        };
        for node in 0..shape.nodes {
            let endpoints = (0..shape.rails).map(|rail| endpoint(shape, node, rail)).collect();
            let name = format!("n{node}");
            let identity = Identity {
                machine: format!("boot-{node}"),
                node: name,
                instance: 1,
                version: "simulated".to_owned(),
                metrics: None,
            };
            world.hosts.push(Host {
                agent: Agent::new(identity),
                endpoints,
                opened: Vec::new(),
                book: Arc::new([]),
                pass: 0,
                batches: 0,
                left: BTreeMap::new(),
                wakeup: None,
                last: [Mono(0); 2],
            });
            let endpoints = world.hosts[node].endpoints.clone();
            world.tell(node, agent::Event::Inventory { endpoints: endpoints.clone(), findings: Vec::new() });
            let idle = endpoints.iter().map(|info| (info.name.clone(), Ok(()))).collect();
            world.tell(node, agent::Event::Idle(idle));
            world.tell(node, agent::Event::Connected);
        }
        let all = shape.nodes * shape.rails;
        let there = |world: &Self| {
            let told = world.coordinator.members().endpoints();
            told.filter(|(_, e)| !shape.pinged || e.info.datagrams.is_some()).count() == all
        };
        assert!(world.run_until(Duration::from_secs(5), there), "not everybody came");
        // The address book settles.
        world.run_for(Duration::from_secs(2));
        world
    }

    pub(crate) fn wall(&self) -> Now {
        Now { mono: self.now, wall: Wall(1_790_000_000_000 + self.now.0 / 1_000_000) }
    }

    /// What a sweep would be.
    pub(crate) fn plan(&mut self, order: &SweepOrder) -> SweepPlan {
        let now = self.wall();
        self.coordinator.plan_sweep(order, now).unwrap()
    }

    /// Runs a sweep to its end, and answers how long it took.
    pub(crate) fn sweep(&mut self, order: &SweepOrder, within: Duration) -> Duration {
        let began = self.now;
        self.coordinator.start_sweep_of(order, self.wall()).unwrap();
        self.obey_coordinator();
        let over = |world: &Self| world.coordinator.sweep().is_some_and(|sweep| sweep.finished_at.is_some());
        let ended = self.run_until(within, over);
        let far = self.coordinator.sweep().map(|sweep| (sweep.done, sweep.total));
        assert!(ended, "not over after {within:?}: {far:?}");
        self.now.since(began)
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    pub(crate) fn run_until(&mut self, limit: Duration, mut there: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now.after(limit);
        while !there(self) {
            let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) else {
                self.now = end;
                return there(self);
            };
            let ((at, _), happening) = entry.remove_entry();
            self.now = at;
            self.happen(happening);
        }
        true
    }

    fn at(&mut self, at: Mono, happening: Happening) -> Key {
        self.sequence += 1;
        let key = (at.max(self.now), self.sequence);
        self.queue.insert(key, happening);
        key
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::AtAgent(host, bytes) => {
                let frame = ToAgent::decode(&bytes).unwrap();
                self.tell(host, agent::Event::Frame(frame));
            }
            Happening::AtCoordinator(host, bytes) => {
                let frame = ToCoordinator::decode(&bytes).unwrap();
                let from = ConnectionId(host as u64);
                self.coordinator.handle(coordinator::Event::Frame(from, frame), self.wall());
                self.obey_coordinator();
            }
            Happening::WakeAgent(host) => {
                self.hosts[host].wakeup = None;
                self.tell(host, agent::Event::Tick);
            }
            Happening::WakeCoordinator => {
                self.wakeup = None;
                self.coordinator.handle(coordinator::Event::Tick, self.wall());
                self.obey_coordinator();
            }
            Happening::Transport(host, lease, event) => {
                if self.running.get(&lease).is_some_and(|running| running.plans.contains_key(&host)) {
                    self.tell(host, agent::Event::Transport(lease, event));
                }
            }
            Happening::Looked(host, lease) => self.tell(host, agent::Event::Looked(lease, Ok(()))),
            Happening::Passed(host, local, pass) => self.passed(host, &local, pass),
        }
    }

    fn message(&mut self, host: usize, way: usize) -> Mono {
        let (least, most) = MESSAGE_MICROS;
        let delay = Duration::from_micros(least + self.random.below(most - least));
        let last = &mut self.hosts[host].last[way];
        *last = self.now.after(delay).max(*last);
        *last
    }

    fn tell(&mut self, host: usize, event: agent::Event) {
        let now = self.wall();
        self.hosts[host].agent.handle(event, now);
        while let Some(action) = self.hosts[host].agent.poll_action() {
            self.obey(host, action);
        }
        let wanted = self.hosts[host].agent.next_wakeup();
        let before = self.hosts[host].wakeup;
        if before.map(|key| key.0) != wanted {
            before.and_then(|key| self.queue.remove(&key));
            self.hosts[host].wakeup = wanted.map(|at| self.at(at, Happening::WakeAgent(host)));
        }
    }

    fn obey(&mut self, host: usize, action: agent::Action) {
        let after = |time| self.now.after(time);
        match action {
            agent::Action::Send(frame) => {
                let at = self.message(host, 0);
                self.at(at, Happening::AtCoordinator(host, frame.encode()));
            }
            agent::Action::Disconnect(why) => panic!("n{host} hangs up: {why}"),
            agent::Action::Prepare(plan, _) => {
                let (lease, at) = (plan.lease, after(MAKE));
                self.running.entry(lease).or_default().plans.insert(host, *plan);
                let event = TransportEvent::Prepared { offer: vec![1] };
                self.at(at, Happening::Transport(host, lease, event));
            }
            agent::Action::Connect(lease, _) => {
                let at = after(CONNECT);
                self.at(at, Happening::Transport(host, lease, TransportEvent::Connected));
            }
            agent::Action::Look(lease, _) => {
                let at = after(LOOK);
                self.at(at, Happening::Looked(host, lease));
            }
            agent::Action::Start(lease) => self.start(lease),
            agent::Action::Close(lease) => {
                if let Some(running) = self.running.get_mut(&lease) {
                    running.plans.remove(&host);
                }
                self.running.retain(|_, running| !running.plans.is_empty());
            }
            agent::Action::Mesh(command) => self.mesh(host, command),
            agent::Action::Drain(_) => panic!("n{host} asked for no leave"),
        }
    }

    /// One side of a probe is there; when both are, it runs.
    fn start(&mut self, lease: LeaseId) {
        let Some(running) = self.running.get_mut(&lease) else { return };
        running.started += 1;
        let plans = running.plans.clone();
        let source = plans.values().find(|plan| plan.role == Role::Source);
        let (Some(source), 2) = (source, running.started) else { return };
        let dead = self.dead.as_ref();
        if dead.is_some_and(|dead| *dead == source.local || *dead == source.peer) {
            return;
        }
        self.ran.push(Ran {
            source: source.local.clone(),
            target: source.peer.clone(),
            metric: source.spec.metric().unwrap(),
            began: self.now,
        });
        let (takes, found, there) = outcome(source);
        for (host, plan) in plans {
            let outcome = if plan.role == Role::Source { found.clone() } else { there.clone() };
            let at = self.now.after(takes);
            self.at(at, Happening::Transport(host, lease, TransportEvent::Finished(outcome)));
        }
    }

    fn mesh(&mut self, host: usize, command: MeshCommand) {
        match command {
            MeshCommand::Endpoints(endpoints) => {
                for info in endpoints {
                    let address = info.gid.filter(|_| !self.hosts[host].opened.contains(&info.name));
                    let Some(gid) = address else { continue };
                    self.hosts[host].opened.push(info.name.clone());
                    let address =
                        DatagramAddress { gid, lid: 0, queue_pair: 9, queue_key: 9, mtu_bytes: 4_096 };
                    self.tell(host, agent::Event::Mesh(MeshEvent::Opened(info.name, address)));
                }
            }
            MeshCommand::Book(book) => self.hosts[host].book = book,
            MeshCommand::Grant(grant) => self.granted(host, grant),
        }
    }

    /// A pass begins for every endpoint of a host, behind its own place in the book.
    fn granted(&mut self, host: usize, grant: Option<MeshGrant>) {
        let sweep = grant.and_then(|grant| grant.sweep);
        let number = sweep.map_or(0, |sweep| sweep.number);
        let it = &mut self.hosts[host];
        if std::mem::replace(&mut it.pass, number) == number {
            return;
        }
        let Some(sweep) = sweep else { return };
        it.batches = sweep.pings_per_batch;
        let turn = Duration::from_micros(
            u64::from(sweep.pings_per_batch) * 1_000_000 / u64::from(sweep.pings_per_second),
        );
        let book = Arc::clone(&it.book);
        for own in (0..book.len()).filter(|own| it.opened.contains(&book[*own].name)) {
            let turns = (1..book.len()).map(|turn| &book[(own + turn) % book.len()]);
            let meant = |peer: &&Peer| {
                let same = peer.rail == book[own].rail || peer.rail == 0 || book[own].rail == 0;
                peer.name.node != book[own].name.node && (same || sweep.cross_rail)
            };
            let mut left: Vec<_> = turns.filter(meant).map(|peer| peer.name.clone()).collect();
            left.reverse();
            it.left.insert(book[own].name.clone(), left);
        }
        for local in self.hosts[host].opened.clone() {
            let at = self.now.after(turn);
            self.at(at, Happening::Passed(host, local, number));
        }
    }

    fn passed(&mut self, host: usize, local: &EndpointName, pass: u64) {
        let it = &mut self.hosts[host];
        let Some(peer) = it.left.get_mut(local).and_then(Vec::pop).filter(|_| it.pass == pass) else {
            return;
        };
        let turn = Duration::from_micros(u64::from(it.batches) * 2_000);
        let stats = pings(it.batches);
        let at = self.now.after(turn);
        self.at(at, Happening::Passed(host, local.clone(), pass));
        let event = MeshEvent::Pings(local.clone(), peer, Box::new(stats));
        // Answered at once: told with the last one's answer.
        self.now = self.now.after(TOLD_AFTER);
        self.tell(host, agent::Event::Mesh(event));
        self.now = Mono(self.now.0 - u64::try_from(TOLD_AFTER.as_nanos()).unwrap());
    }

    fn obey_coordinator(&mut self) {
        while let Some(action) = self.coordinator.poll_action() {
            match action {
                coordinator::Action::Send(ConnectionId(host), frame) => {
                    let host = usize::try_from(host).unwrap();
                    let at = self.message(host, 1);
                    self.at(at, Happening::AtAgent(host, frame.encode()));
                }
                coordinator::Action::Close(connection, why) => panic!("{connection:?} is closed: {why}"),
                _ => {}
            }
        }
        let wanted = self.coordinator.next_wakeup();
        assert!(wanted.is_none_or(|at| at > self.now), "asks to be woken at once");
        if self.wakeup.map(|key| key.0) != wanted {
            self.wakeup.and_then(|key| self.queue.remove(&key));
            self.wakeup = wanted.map(|at| self.at(at, Happening::WakeCoordinator));
        }
    }
}

fn endpoint(shape: &Shape, node: usize, rail: usize) -> EndpointInfo {
    let name = EndpointName { node: format!("n{node}"), device: format!("d{rail}"), port: 1 };
    let gid = format!("::ffff:10.{rail}.{}.{}", node / 200, node % 200 + 1).parse().unwrap();
    EndpointInfo {
        gid: Some(gid).filter(|_| shape.pinged),
        rate_bps: Some(RATE),
        pci_address: Some(format!("0000:{rail:02x}:00.0")),
        switch_port: match (shape.leaf)(node, rail) {
            Some(switch) => Reading::Value(SwitchPort { switch, port: Some(format!("swp{node}")) }),
            None => Reading::Absent,
        },
        ..EndpointInfo::bare(name, Fabric::Simulated)
    }
}

/// How long a probe takes, and what both sides find.
fn outcome(plan: &ProbePlan) -> (Duration, Outcome, Outcome) {
    let delta = CounterDelta { retransmits: Some(0) };
    match plan.spec {
        ProbeSpec::Latency(spec) => {
            let half = u64::try_from(ROUND_TRIP.as_nanos() / 2).unwrap();
            let stats = LatencyStats {
                count: spec.samples,
                min_ns: half,
                p50_ns: half,
                p90_ns: half,
                p99_ns: None,
                p999_ns: None,
                max_ns: half,
                host_delayed: 0,
            };
            let found = Outcome::Latency(stats, delta);
            (ROUND_TRIP * (spec.samples + spec.warmup), found.clone(), found)
        }
        ProbeSpec::Bandwidth(spec) => {
            let millis = u64::try_from(spec.duration.as_millis()).unwrap();
            let stats = BandwidthStats {
                bytes: RATE / 8_000 * millis,
                duration_ns: millis * 1_000_000,
                average_bps: RATE,
                worst_window_bps: None,
                variation_permille: None,
                completions: 1_000,
            };
            (spec.warmup + spec.duration, Outcome::Bandwidth(stats, delta), Outcome::Served)
        }
        ProbeSpec::Pings(spec) => {
            let found = Outcome::Pings(Box::new(pings(2 * spec.count)));
            (spec.interval * (2 * spec.count * spec.labels), found, Outcome::Served)
        }
        ProbeSpec::Echo(_) => panic!("no sweep sends echoes"),
    }
}

fn pings(count: u32) -> PingStats {
    let small = PingCounts {
        payload_bytes: 64,
        sent: count / 3 * 2,
        answered: count / 3 * 2,
        lost_forward: Some(0),
        lost_backward: Some(0),
        ..PingCounts::default()
    };
    PingStats {
        batch: 1,
        clock: StampClock::Software,
        small,
        large: PingCounts { payload_bytes: 4_096, sent: count / 3, answered: count / 3, ..small },
        network: None,
        network_large: None,
        responder: None,
        prober: None,
        host_delayed: 0,
        invalid_stamps: 0,
        stale: 0,
        labels: Vec::new(),
    }
}
