//! A coordinator and its agents, driven by one queue of events in the order of their time.

use crate::audit::Audit;
use crate::disk::Disk;
use crate::fabric::{Fabric, Shared};
use crate::host::Host;
use crate::mesh_told::MeshTold;
use crate::pinged::Pinged;
use crate::random::{DIGEST_START, Random, digest};
use crate::rival::Rival;
use crate::running::{Meshes, Stir};
use crate::transport::SimTransport;
use crate::wires::{Parcel, Wires};
use rdmascope_control::agent::{self, Agent, Identity};
use rdmascope_control::coordinator::{ConnectionId, Coordinator, Settings};
use rdmascope_model::{EndpointInfo, EndpointName, Fabric as Kind, LeaseId, Mono, Now, Wall};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Wall time at which every simulation begins, milliseconds: any date will do.
const WALL_START: u64 = 1_790_000_000_000;
/// Rate of a port, bits per second.
const RATE: u64 = 100_000_000_000;
/// An agent reads its machine so long after something changed (a link event).
pub(crate) const NOTICED_AFTER: Duration = Duration::from_millis(50);

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// Agents, each with one endpoint `node-I/sim0/1`.
    pub nodes: usize,
    /// All agents run on one machine, as in the lab; otherwise each has its own.
    pub one_machine: bool,
    /// The coordinator's settings.
    pub settings: Settings,
}

/// What happens at one point in time.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// An agent tries to connect.
    Dial(usize),
    /// Something arrives at an agent.
    AtAgent(usize, ConnectionId, Parcel),
    /// Something arrives at the coordinator.
    AtCoordinator(ConnectionId, Parcel),
    /// An agent reads its machine.
    Look(usize),
    /// An agent's answer to who holds the device of a lease.
    Looked(usize, LeaseId),
    WakeAgent(usize),
    WakeCoordinator,
    /// The second coordinator wants to be woken.
    WakeRival,
    /// The coordinator's disk has written.
    Written,
    Fabric,
    /// Something in the mesh of pings.
    Mesh(Stir),
}

/// A place in the queue: when, and in which order at the same time.
pub(crate) type Key = (Mono, u64);

/// A whole cluster on a virtual clock.
pub struct Cluster {
    pub(crate) now: Mono,
    pub(crate) hosts: Vec<Host>,
    pub(crate) fabric: Shared,
    pub(crate) coordinator: Option<Coordinator>,
    pub(crate) settings: Settings,
    pub(crate) epoch: u64,
    /// Connections that the coordinator has open, and whose they are.
    pub(crate) connections: BTreeMap<ConnectionId, usize>,
    pub(crate) connections_made: u64,
    /// The coordinator's clock as its state knows it, and as its machine has it: milliseconds ahead.
    pub(crate) coordinator_clock_ms: [i64; 2],
    pub(crate) disk: Option<Disk>,
    pub(crate) old_disks: Vec<Disk>,
    pub(crate) rival: Option<Rival>,
    /// What happens is the second coordinator's affair.
    pub(crate) rivals_turn: bool,
    /// So many frames in a million break their connection instead of arriving.
    pub(crate) breaks: u32,
    pub(crate) audit: Audit,
    pub(crate) wires: Wires,
    pub(crate) queue: BTreeMap<Key, Happening>,
    pub(crate) meshes: Meshes,
    /// Endpoints that meshes opened so far.
    pub(crate) opened: u64,
    pub(crate) pinged: Pinged,
    /// It runs until then, as it looks now.
    pub(crate) horizon: Mono,
    pub(crate) sequence: u64,
    pub(crate) random: Random,
    pub(crate) coordinator_wakeup: Option<Key>,
    pub(crate) fabric_wakeup: Option<Key>,
    pub(crate) trace: u64,
    pub(crate) events: u64,
}

impl Cluster {
    /// A cluster in which everything was just switched on.
    #[must_use]
    pub fn new(shape: &Shape) -> Self {
        let mut cluster = Self::empty(shape.seed, shape.settings.clone());
        for i in 0..shape.nodes {
            let machine = if shape.one_machine { "boot-shared".to_owned() } else { format!("boot-{i}") };
            let name = EndpointName { node: format!("node-{i}"), device: "sim0".to_owned(), port: 1 };
            cluster.add_host(&format!("node-{i}"), machine, vec![healthy(name)]);
        }
        cluster
    }

    /// A coordinator without agents.
    pub(crate) fn empty(seed: u64, settings: Settings) -> Self {
        Self {
            now: Mono(1),
            hosts: Vec::new(),
            fabric: Fabric::new(seed),
            coordinator: Some(Coordinator::new(settings.clone(), 1)),
            settings,
            epoch: 1,
            connections: BTreeMap::new(),
            connections_made: 0,
            coordinator_clock_ms: [0; 2],
            disk: None,
            old_disks: Vec::new(),
            rival: None,
            rivals_turn: false,
            breaks: 0,
            audit: Audit::default(),
            wires: Wires::default(),
            queue: BTreeMap::new(),
            meshes: Meshes::default(),
            opened: 0,
            pinged: Pinged::default(),
            horizon: Mono(1),
            sequence: 0,
            random: Random::new(seed ^ 0x5eed),
            coordinator_wakeup: None,
            fabric_wakeup: None,
            trace: DIGEST_START,
            events: 0,
        }
    }

    pub(crate) fn add_host(&mut self, node: &str, machine: String, endpoints: Vec<EndpointInfo>) {
        for endpoint in &endpoints {
            self.fabric.borrow_mut().plug(&endpoint.name, endpoint.rate_bps.unwrap_or_default());
        }
        self.hosts.push(Host::new(node, machine, endpoints));
        self.start_agent(self.hosts.len() - 1);
    }

    /// Starts the agent of a node that has none.
    pub fn start_agent(&mut self, host: usize) {
        let transport = SimTransport::new(&self.fabric);
        let it = &mut self.hosts[host];
        it.runs += 1;
        it.events = [0; 2];
        let identity = Identity {
            node: it.node.clone(),
            instance: it.runs,
            machine: it.machine.clone(),
            version: "simulated".to_owned(),
            metrics: None,
        };
        it.process = Some((Agent::new(identity), transport));
        it.mesh = MeshTold::default();
        self.audit_start(host);
        self.look(host);
        let soon = self.random.below(20);
        self.after(Duration::from_millis(soon), Happening::Dial(host));
    }

    /// The virtual time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.now.0)
    }

    /// The coordinator's clocks.
    #[must_use]
    pub fn now(&self) -> Now {
        let wall =
            Wall((WALL_START + self.now.0 / 1_000_000).saturating_add_signed(self.coordinator_clock_ms[0]));
        Now { mono: self.now, wall }
    }

    /// The coordinator.
    ///
    /// # Panics
    /// While it is stopped.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test that asks a stopped coordinator is wrong")]
    pub fn coordinator(&self) -> &Coordinator {
        self.coordinator.as_ref().expect("the coordinator runs")
    }

    /// Gives the coordinator a command, as its API does; `None` while it is stopped.
    pub fn command<T>(&mut self, give: impl FnOnce(&mut Coordinator, Now) -> T) -> Option<T> {
        let now = self.now();
        let answer = self.coordinator.as_mut().map(|coordinator| give(coordinator, now));
        self.obey_coordinator();
        answer
    }

    /// The fabric.
    #[must_use]
    pub fn fabric(&self) -> Shared {
        Rc::clone(&self.fabric)
    }

    /// The agent of a node, while its process lives.
    #[must_use]
    pub fn agent(&self, host: usize) -> Option<&Agent> {
        self.hosts[host].process.as_ref().map(|(agent, _)| agent)
    }

    /// Names of all endpoints that were ever plugged in, in the order of their nodes.
    #[must_use]
    pub fn endpoint(&self, host: usize) -> EndpointName {
        EndpointName { node: self.hosts[host].node.clone(), device: "sim0".to_owned(), port: 1 }
    }

    /// A number that depends on every event so far.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.trace
    }

    /// Events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Runs until `there` says so; `false` when that takes longer than `limit` of virtual time.
    pub fn run_until(&mut self, limit: Duration, mut there: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now.after(limit);
        self.horizon = end;
        while !there(self) {
            match self.queue.pop_first() {
                Some(((at, _), happening)) if at <= end => {
                    self.now = at;
                    self.happen(happening);
                }
                later => {
                    later.into_iter().for_each(|(key, happening)| drop(self.queue.insert(key, happening)));
                    self.now = end;
                    return there(self);
                }
            }
        }
        true
    }

    /// Runs for so long.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    pub(crate) fn at(&mut self, at: Mono, happening: Happening) -> Key {
        self.sequence += 1;
        let key = (at.max(self.now), self.sequence);
        self.queue.insert(key, happening);
        key
    }

    pub(crate) fn after(&mut self, delay: Duration, happening: Happening) {
        self.at(self.now.after(delay), happening);
    }

    fn happen(&mut self, happening: Happening) {
        self.note(&happening);
        match happening {
            Happening::Dial(host) => self.dial(host),
            Happening::AtAgent(host, connection, parcel) => self.at_agent(host, connection, parcel),
            Happening::AtCoordinator(connection, parcel) => self.at_coordinator(connection, parcel),
            Happening::Look(host) => self.look(host),
            Happening::Looked(host, lease) => self.looked(host, lease),
            Happening::WakeAgent(host) => {
                self.hosts[host].wakeup = None;
                if !self.hosts[host].stopped {
                    self.tell_agent(host, agent::Event::Tick);
                    let wakeup = self.agent(host).and_then(Agent::next_wakeup);
                    assert!(wakeup.is_none_or(|at| at > self.now), "an agent asks to be woken again at once");
                }
            }
            Happening::WakeCoordinator => self.wake_coordinator(),
            Happening::WakeRival => self.as_rival(Self::wake_coordinator),
            Happening::Written => {
                self.written();
                self.as_rival(Self::written);
            }
            Happening::Fabric => {
                self.fabric_wakeup = None;
                self.hear_fabric();
            }
            Happening::Mesh(stir) => self.stir(stir),
        }
        self.set_fabric_wakeup();
    }

    fn note(&mut self, happening: &Happening) {
        self.events += 1;
        let (tag, who, bytes): (u8, u64, &[u8]) = match happening {
            Happening::Dial(host) => (1, *host as u64, &[]),
            Happening::AtAgent(_, connection, Parcel::Frame(bytes)) => (2, connection.0, bytes),
            Happening::AtAgent(_, connection, Parcel::End) => (3, connection.0, &[]),
            Happening::AtCoordinator(connection, Parcel::Frame(bytes)) => (4, connection.0, bytes),
            Happening::AtCoordinator(connection, Parcel::End) => (5, connection.0, &[]),
            Happening::Look(host) => (6, *host as u64, &[]),
            Happening::WakeAgent(host) => (7, *host as u64, &[]),
            Happening::WakeCoordinator => (8, 0, &[]),
            Happening::WakeRival => (14, 0, &[]),
            Happening::Written => (15, 0, &[]),
            Happening::Fabric => (9, 0, &[]),
            Happening::Looked(host, _) => (10, *host as u64, &[]),
            Happening::Mesh(Stir::Sent(due)) => (11, due.end as u64, &[]),
            Happening::Mesh(Stir::Says(host, ..)) => (12, *host as u64, &[]),
            Happening::Mesh(Stir::Packet) => (13, 0, &[]),
        };
        let head = [&[tag][..], &who.to_be_bytes(), &self.now.0.to_be_bytes()].concat();
        self.trace = digest(digest(self.trace, &head), bytes);
    }

    /// A packet of the mesh made something happen at an endpoint.
    pub(crate) fn note_packet(&mut self, end: usize) {
        self.events += 1;
        let head = [self.now.0.to_be_bytes(), (end as u64).to_be_bytes()].concat();
        self.trace = digest(self.trace, &head);
    }
}

pub(crate) fn healthy(name: EndpointName) -> EndpointInfo {
    EndpointInfo {
        active_mtu: Some(4_096),
        rate_bps: Some(RATE),
        ..EndpointInfo::bare(name, Kind::Simulated)
    }
}
