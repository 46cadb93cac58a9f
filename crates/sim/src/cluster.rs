//! A coordinator and its agents, driven by one queue of events in the order of their time.

use crate::fabric::{Fabric, Shared};
use crate::random::{DIGEST_START, Random, digest};
use crate::transport::SimTransport;
use crate::wires::{Parcel, Towards, Wires};
use rdmascope_control::agent::{self, Agent, Identity};
use rdmascope_control::coordinator::{self, ConnectionId, Coordinator, Settings};
use rdmascope_link::{ToAgent, ToCoordinator};
use rdmascope_model::{EndpointInfo, EndpointName, Fabric as Kind, Mono, Now, Wall};
use rdmascope_transport::Transport;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// Wall time at which every simulation begins, milliseconds: any date will do.
const WALL_START: u64 = 1_790_000_000_000;
/// Rate of a port, bits per second.
const RATE: u64 = 100_000_000_000;
/// An agent dials again after so long, and up to so much more, milliseconds.
const REDIAL_MS: (u64, u64) = (200, 2_800);
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
    WakeAgent(usize),
    WakeCoordinator,
    Fabric,
}

type Key = (Mono, u64);

/// One node.
pub(crate) struct Host {
    pub(crate) node: String,
    pub(crate) machine: String,
    pub(crate) runs: u64,
    /// Absent while its process is dead.
    pub(crate) process: Option<(Agent, SimTransport)>,
    pub(crate) endpoints: Vec<EndpointInfo>,
    pub(crate) connection: Option<ConnectionId>,
    /// Its process does not run, and what arrives waits in its sockets.
    pub(crate) stopped: bool,
    pub(crate) waiting: VecDeque<Happening>,
    /// Nothing gets through between it and the coordinator.
    pub(crate) partitioned: bool,
    pub(crate) held_up: VecDeque<Happening>,
    /// Milliseconds by which its clock is ahead.
    pub(crate) clock_ms: i64,
    wakeup: Option<Key>,
}

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
    connections_made: u64,
    wires: Wires,
    queue: BTreeMap<Key, Happening>,
    sequence: u64,
    random: Random,
    coordinator_wakeup: Option<Key>,
    fabric_wakeup: Option<Key>,
    trace: u64,
    events: u64,
}

impl Cluster {
    /// A cluster in which everything was just switched on.
    #[must_use]
    pub fn new(shape: &Shape) -> Self {
        let fabric = Fabric::new(shape.seed);
        let mut cluster = Self {
            now: Mono(1),
            hosts: Vec::new(),
            fabric,
            coordinator: Some(Coordinator::new(shape.settings.clone(), 1)),
            settings: shape.settings.clone(),
            epoch: 1,
            connections: BTreeMap::new(),
            connections_made: 0,
            wires: Wires::default(),
            queue: BTreeMap::new(),
            sequence: 0,
            random: Random::new(shape.seed ^ 0x5eed),
            coordinator_wakeup: None,
            fabric_wakeup: None,
            trace: DIGEST_START,
            events: 0,
        };
        for i in 0..shape.nodes {
            let machine = if shape.one_machine { "boot-shared".to_owned() } else { format!("boot-{i}") };
            cluster.add_host(&format!("node-{i}"), machine);
        }
        cluster
    }

    fn add_host(&mut self, node: &str, machine: String) {
        let name = EndpointName { node: node.to_owned(), device: "sim0".to_owned(), port: 1 };
        self.fabric.borrow_mut().plug(&name, RATE);
        self.hosts.push(Host {
            node: node.to_owned(),
            machine,
            runs: 0,
            process: None,
            endpoints: vec![healthy(name)],
            connection: None,
            stopped: false,
            waiting: VecDeque::new(),
            partitioned: false,
            held_up: VecDeque::new(),
            clock_ms: 0,
            wakeup: None,
        });
        self.start_agent(self.hosts.len() - 1);
    }

    /// Starts the agent of a node that has none.
    pub fn start_agent(&mut self, host: usize) {
        let transport = SimTransport::new(&self.fabric);
        let it = &mut self.hosts[host];
        it.runs += 1;
        let identity = Identity {
            node: it.node.clone(),
            instance: it.runs,
            machine: it.machine.clone(),
            version: "simulated".to_owned(),
        };
        it.process = Some((Agent::new(identity), transport));
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
        Now { mono: self.now, wall: Wall(WALL_START + self.now.0 / 1_000_000) }
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
            Happening::WakeAgent(host) => {
                self.hosts[host].wakeup = None;
                if !self.hosts[host].stopped {
                    self.tell_agent(host, agent::Event::Tick);
                    let wakeup = self.agent(host).and_then(Agent::next_wakeup);
                    assert!(wakeup.is_none_or(|at| at > self.now), "an agent asks to be woken again at once");
                }
            }
            Happening::WakeCoordinator => {
                self.coordinator_wakeup = None;
                self.tell_coordinator(coordinator::Event::Tick);
            }
            Happening::Fabric => {
                self.fabric_wakeup = None;
                self.hear_fabric();
            }
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
            Happening::Fabric => (9, 0, &[]),
        };
        let head = [&[tag][..], &who.to_be_bytes(), &self.now.0.to_be_bytes()].concat();
        self.trace = digest(digest(self.trace, &head), bytes);
    }

    pub(crate) fn host_now(&self, host: usize) -> Now {
        let now = self.now();
        Now { wall: Wall(now.wall.0.saturating_add_signed(self.hosts[host].clock_ms)), ..now }
    }

    fn dial(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        if it.process.is_none() || it.connection.is_some() {
            return;
        }
        if it.stopped || it.partitioned || self.coordinator.is_none() {
            return self.redial(host);
        }
        self.connections_made += 1;
        let connection = ConnectionId(self.connections_made);
        it.connection = Some(connection);
        self.connections.insert(connection, host);
        self.tell_agent(host, agent::Event::Connected);
    }

    fn redial(&mut self, host: usize) {
        let delay = REDIAL_MS.0 + self.random.below(REDIAL_MS.1);
        self.after(Duration::from_millis(delay), Happening::Dial(host));
    }

    fn look(&mut self, host: usize) {
        let endpoints = self.hosts[host].endpoints.clone();
        let idle = endpoints.iter().map(|endpoint| endpoint.name.clone()).collect();
        self.tell_agent(host, agent::Event::Inventory { endpoints, findings: Vec::new() });
        self.tell_agent(host, agent::Event::Idle(idle));
    }

    fn at_agent(&mut self, host: usize, connection: ConnectionId, parcel: Parcel) {
        let it = &mut self.hosts[host];
        if it.partitioned {
            it.held_up.push_back(Happening::AtAgent(host, connection, parcel));
        } else if it.stopped {
            it.waiting.push_back(Happening::AtAgent(host, connection, parcel));
        } else if it.connection == Some(connection) {
            match parcel {
                Parcel::Frame(bytes) => self.frame_to_agent(host, &bytes),
                Parcel::End => self.hang_up(host),
            }
        }
    }

    #[expect(
        clippy::expect_used,
        reason = "a frame that its own program cannot read is a fault of that program"
    )]
    fn frame_to_agent(&mut self, host: usize, bytes: &[u8]) {
        let frame =
            ToAgent::decode(bytes).expect("an agent can read what a coordinator of its version writes");
        self.tell_agent(host, agent::Event::Frame(frame));
    }

    /// The agent's connection is over.
    pub(crate) fn hang_up(&mut self, host: usize) {
        if self.hosts[host].connection.take().is_some() {
            self.tell_agent(host, agent::Event::Disconnected);
            self.redial(host);
        }
    }

    #[expect(
        clippy::expect_used,
        reason = "a frame that its own program cannot read is a fault of that program"
    )]
    fn at_coordinator(&mut self, connection: ConnectionId, parcel: Parcel) {
        let Some(&host) = self.connections.get(&connection) else { return };
        if self.hosts[host].partitioned {
            self.hosts[host].held_up.push_back(Happening::AtCoordinator(connection, parcel));
            return;
        }
        let event = match parcel {
            Parcel::Frame(bytes) => {
                let frame = ToCoordinator::decode(&bytes).expect("a coordinator can read what agents write");
                coordinator::Event::Frame(connection, frame)
            }
            Parcel::End => {
                self.connections.remove(&connection);
                self.wires.forget(connection);
                coordinator::Event::Closed(connection)
            }
        };
        self.tell_coordinator(event);
    }

    pub(crate) fn send(&mut self, connection: ConnectionId, towards: Towards, host: usize, parcel: Parcel) {
        let at = self.wires.arrival(connection, towards, &mut self.random, self.now);
        let happening = match towards {
            Towards::Agent => Happening::AtAgent(host, connection, parcel),
            Towards::Coordinator => Happening::AtCoordinator(connection, parcel),
        };
        self.at(at, happening);
    }

    pub(crate) fn tell_agent(&mut self, host: usize, event: agent::Event) {
        let now = self.host_now(host);
        if let Some((agent, _)) = &mut self.hosts[host].process {
            agent.handle(event, now);
        }
        self.obey_agent(host);
    }

    /// Does what an agent says, and remembers when it wants to be woken.
    fn obey_agent(&mut self, host: usize) {
        let now = self.now;
        while let Some((agent, transport)) = &mut self.hosts[host].process
            && let Some(action) = agent.poll_action()
        {
            match action {
                agent::Action::Send(frame) => {
                    if let Some(connection) = self.hosts[host].connection {
                        self.send(connection, Towards::Coordinator, host, Parcel::Frame(frame.encode()));
                    }
                }
                agent::Action::Disconnect(_) => {
                    if let Some(connection) = self.hosts[host].connection {
                        self.send(connection, Towards::Coordinator, host, Parcel::End);
                    }
                    self.hang_up(host);
                }
                agent::Action::Prepare(plan, endpoint) => transport.prepare(&plan, &endpoint, now),
                agent::Action::Connect(lease, offer) => transport.connect(lease, &offer, now),
                agent::Action::Start(lease) => transport.start(lease, now),
                agent::Action::Close(lease) => transport.close(lease, now),
            }
        }
        let wanted = self.agent(host).and_then(Agent::next_wakeup);
        let before = self.hosts[host].wakeup;
        if before.map(|key| key.0) != wanted {
            before.and_then(|key| self.queue.remove(&key));
            self.hosts[host].wakeup = wanted.map(|at| self.at(at, Happening::WakeAgent(host)));
        }
        self.set_fabric_wakeup();
    }

    pub(crate) fn tell_coordinator(&mut self, event: coordinator::Event) {
        let now = self.now();
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.handle(event, now);
        }
        self.obey_coordinator();
    }

    /// Does what the coordinator says, and remembers when it wants to be woken.
    pub(crate) fn obey_coordinator(&mut self) {
        while let Some(action) = self.coordinator.as_mut().and_then(Coordinator::poll_action) {
            match action {
                coordinator::Action::Send(connection, frame) => {
                    if let Some(&host) = self.connections.get(&connection) {
                        self.send(connection, Towards::Agent, host, Parcel::Frame(frame.encode()));
                    }
                }
                coordinator::Action::Close(connection, _) => {
                    if let Some(host) = self.connections.remove(&connection) {
                        self.send(connection, Towards::Agent, host, Parcel::End);
                        self.wires.forget(connection);
                        let (now, closed) = (self.now(), coordinator::Event::Closed(connection));
                        self.coordinator.iter_mut().for_each(|c| c.handle(closed.clone(), now));
                    }
                }
                coordinator::Action::Probed(_) => {}
            }
        }
        let wanted = self.coordinator.as_ref().and_then(Coordinator::next_wakeup);
        assert!(
            wanted.is_none_or(|at| at > self.now),
            "the coordinator asks to be woken at once, again and again"
        );
        if self.coordinator_wakeup.map(|key| key.0) != wanted {
            self.coordinator_wakeup.and_then(|key| self.queue.remove(&key));
            self.coordinator_wakeup = wanted.map(|at| self.at(at, Happening::WakeCoordinator));
        }
    }

    /// Agents hear what became of their probes.
    fn hear_fabric(&mut self) {
        let owners = self.fabric.borrow_mut().advance(self.now);
        let due: Vec<usize> = (0..self.hosts.len())
            .filter(|&host| {
                let owner = self.hosts[host].process.as_ref().map(|(_, transport)| transport.owner());
                owner.is_some_and(|owner| owners.contains(&owner)) && !self.hosts[host].stopped
            })
            .collect();
        due.into_iter().for_each(|host| self.hear_transport(host));
    }

    pub(crate) fn hear_transport(&mut self, host: usize) {
        while let Some((_, transport)) = &mut self.hosts[host].process
            && let Some((lease, event)) = transport.poll(self.now)
        {
            self.tell_agent(host, agent::Event::Transport(lease, event));
        }
    }

    pub(crate) fn set_fabric_wakeup(&mut self) {
        let due = self.fabric.borrow().next_due();
        if self.fabric_wakeup.map(|key| key.0) != due {
            self.fabric_wakeup.and_then(|key| self.queue.remove(&key));
            self.fabric_wakeup = due.map(|at| self.at(at, Happening::Fabric));
        }
    }
}

pub(crate) fn healthy(name: EndpointName) -> EndpointInfo {
    EndpointInfo {
        name,
        fabric: Kind::Simulated,
        gid: None,
        netdev: None,
        netdev_mtu: None,
        active_mtu: Some(4_096),
        rate_bps: Some(RATE),
        unusable: None,
        unusable_detail: String::new(),
    }
}
