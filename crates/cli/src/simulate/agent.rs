//! One simulated agent: the real state and the real connection of an agent, over endpoints that are made up.

use super::made_up::{self, SILENT};
use super::orders::{Mode, Orders};
use rdmascope_agent::uplink::{Happened, Queues};
use rdmascope_control::agent::{Action, Agent, Event, Identity};
use rdmascope_host::Clock;
use rdmascope_link::{
    NUMBERED_PER_FRAME_MAX, NumberedHeard, NumberedReport, RESULTS_PER_FRAME_MAX, ToAgent, ToCoordinator,
};
use rdmascope_model::{EndpointInfo, EndpointName, Metric, Mono, PackedPings};
use rdmascope_probe::mesh::{MeshCommand, MeshEvent, MeshGrant};
use rdmascope_sim::{Shared, SimTransport};
use rdmascope_transport::Transport as _;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// How often an agent does what its orders say, and how often while probes run.
const TURN: Duration = Duration::from_millis(100);
const BUSY_TURN: Duration = Duration::from_millis(5);
/// An agent holds batches back for so long.
const PINGS_AFTER: Duration = Duration::from_secs(5);
/// Packets in a million that a silent endpoint loses: half of them on each way, so that this is all of them.
const ALL_LOST: u32 = 2_000_000;
/// Frames of pings or of results that may wait when the next one is made.
const WAITING_MAX: usize = 2;

/// What all simulated agents share.
#[derive(Clone)]
pub(super) struct Shape {
    /// Endpoints in all, on nodes with so many rails.
    pub(super) endpoints: usize,
    pub(super) rails: usize,
    /// The last so many endpoints answer no ping and send none.
    pub(super) silent: usize,
}

impl Shape {
    pub(super) fn nodes(&self) -> usize {
        self.endpoints.div_ceil(self.rails)
    }

    /// Rails of a node: the last one may have fewer.
    fn rails_of(&self, node: usize) -> usize {
        self.rails.min(self.endpoints - node * self.rails)
    }

    /// The labels by which metrics name those who answer no ping.
    pub(super) fn silent_targets(&self) -> impl Iterator<Item = String> {
        let silent = self.endpoints - self.silent..self.endpoints;
        silent.map(|at| {
            let name = made_up::name(at / self.rails, at % self.rails);
            format!("target_node=\"{}\",target_device=\"{}\"", name.node, name.device)
        })
    }

    fn is_silent(&self, node: usize, rail: usize) -> bool {
        node * self.rails + rail >= self.endpoints - self.silent
    }
}

/// One agent.
pub(super) struct SimulatedAgent {
    node: usize,
    shape: Shape,
    orders: Arc<Orders>,
    clock: Clock,
    state: Agent,
    transport: SimTransport,
    queues: Option<Queues>,
    infos: Vec<EndpointInfo>,
    opened: bool,
    /// The coordinator's numbers: of the own endpoints by rail, and of who does not answer.
    own: Vec<Option<u32>>,
    peers: Vec<u32>,
    silent: BTreeSet<u32>,
    grant: Option<MeshGrant>,
    batches: (u32, Vec<PackedPings>),
    /// Batches begun so far; what was due and not yet told.
    step: u64,
    due: f64,
    told_at: Mono,
    /// Results that were told of those that are remembered.
    remembered: usize,
    tells: (bool, bool),
}

impl SimulatedAgent {
    pub(super) fn new(node: usize, shape: &Shape, orders: &Arc<Orders>, fabric: &Shared) -> Self {
        let clock = Clock::new();
        let identity = Identity {
            node: made_up::node_name(node),
            instance: 1,
            machine: format!("simulated-{node}"),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            metrics: None,
        };
        let names: Vec<_> = (0..shape.rails_of(node)).map(|rail| made_up::name(node, rail)).collect();
        for (rail, name) in names.iter().enumerate() {
            fabric.borrow_mut().plug(name, made_up::RATE_BPS);
            // What is measured again because it was silent must find the same.
            if shape.is_silent(node, rail) {
                fabric.borrow_mut().set_loss(name, ALL_LOST);
            }
        }
        let infos: Vec<_> = names.into_iter().map(made_up::endpoint).collect();
        let mut state = Agent::new(identity);
        let idle = infos.iter().map(|info| (info.name.clone(), Ok(()))).collect::<BTreeMap<_, _>>();
        state.handle(Event::Inventory { endpoints: infos.clone(), findings: Vec::new() }, clock.now());
        state.handle(Event::Idle(idle), clock.now());
        Self {
            node,
            shape: shape.clone(),
            orders: Arc::clone(orders),
            clock,
            state,
            transport: SimTransport::new(fabric),
            queues: None,
            own: vec![None; infos.len()],
            infos,
            opened: false,
            peers: Vec::new(),
            silent: BTreeSet::new(),
            grant: None,
            batches: (0, Vec::new()),
            step: 0,
            due: 0.0,
            told_at: Mono(0),
            remembered: 0,
            tells: (false, false),
        }
    }

    /// Lives until it is told to stop.
    pub(super) async fn run(mut self, mut happened: mpsc::Receiver<Happened>) {
        let mut last = self.clock.now().mono;
        while self.orders.mode() != Mode::Stop {
            let turn = if self.state.probes() > 0 || self.is_pouring() { BUSY_TURN } else { TURN };
            tokio::select! {
                Some(event) = happened.recv() => self.uplink(event),
                () = sleep(turn) => {}
            }
            let now = self.clock.now();
            while let Some((lease, event)) = self.transport.poll(now.mono) {
                self.feed(Event::Transport(lease, event));
            }
            if self.state.next_wakeup().is_some_and(|at| at <= now.mono) {
                self.feed(Event::Tick);
            }
            let passed = now.mono.since(last);
            last = now.mono;
            self.obey(passed);
        }
    }

    fn is_pouring(&self) -> bool {
        matches!(self.orders.mode(), Mode::Flood | Mode::Fill)
    }

    fn uplink(&mut self, happened: Happened) {
        match happened {
            Happened::Connected(queues) => {
                self.queues = Some(queues);
                self.peers.clear();
                self.own.fill(None);
                self.feed(Event::Connected);
            }
            Happened::Lost => {
                self.queues = None;
                self.feed(Event::Disconnected);
            }
            Happened::Frame(frame) => {
                if let ToAgent::Book { peers, numbers, .. } = &*frame {
                    let named = peers.iter().map(|peer| &peer.name).zip(numbers.iter().copied());
                    named.for_each(|(name, number)| self.number(name, number));
                }
                self.feed(Event::Frame(*frame));
            }
        }
    }

    /// Who has which number.
    fn number(&mut self, name: &EndpointName, number: u32) {
        let rail = name.device.strip_prefix("mlx5_").and_then(|rail| rail.parse::<usize>().ok());
        let node = name.node.strip_prefix("node-").and_then(|node| node.parse::<usize>().ok());
        let (Some(node), Some(rail)) = (node, rail) else { return };
        if self.shape.is_silent(node, rail) {
            self.silent.insert(number);
        }
        if node == self.node {
            self.own.iter_mut().skip(rail).take(1).for_each(|own| *own = Some(number));
        } else if let Err(at) = self.peers.binary_search(&number) {
            self.peers.insert(at, number);
        }
    }

    fn feed(&mut self, event: Event) {
        self.state.handle(event, self.clock.now());
        while let Some(action) = self.state.poll_action() {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        let now = self.clock.now();
        match action {
            Action::Send(frame) => {
                let Some(queues) = &self.queues else { return };
                if queues.control.try_send(frame.encode()).is_err() {
                    self.orders.count_dropped();
                }
            }
            Action::Disconnect(_) => self.queues = None,
            Action::Prepare(plan, info) => self.transport.prepare(&plan, &info, now.mono),
            Action::Connect(lease, offer) => self.transport.connect(lease, &offer, now.mono),
            Action::Start(lease) => self.transport.start(lease, now.mono),
            Action::Close(lease) => self.transport.close(lease, now.mono),
            Action::Look(lease, _) => self.state.handle(Event::Looked(lease, Ok(())), now),
            Action::Mesh(MeshCommand::Endpoints(_)) => {
                if !std::mem::replace(&mut self.opened, true) {
                    for (rail, info) in self.infos.iter().enumerate() {
                        let opened = MeshEvent::Opened(info.name.clone(), made_up::address(self.node, rail));
                        self.state.handle(Event::Mesh(opened), now);
                    }
                }
            }
            Action::Mesh(MeshCommand::Grant(grant)) => self.grant = grant,
            // No scheduler runs on a simulated node.
            Action::Mesh(MeshCommand::Book(_)) | Action::Drain(_) => {}
        }
    }

    /// Does what is wanted of all agents now.
    fn obey(&mut self, passed: Duration) {
        match self.orders.mode() {
            Mode::Rest | Mode::Stop => {}
            Mode::Fill => self.remember(),
            Mode::Paced => self.ping_paced(passed),
            Mode::Flood => while self.has_room() && self.ping(NUMBERED_PER_FRAME_MAX) {},
        }
        let told = (self.remembered >= self.to_remember(), self.rounds() >= 1);
        if told != self.tells {
            self.orders.agent_done(told.0 && !self.tells.0, told.1 && !self.tells.1);
            self.tells = told;
        }
    }

    fn has_room(&self) -> bool {
        let waiting = |queues: &Queues| queues.bulk.max_capacity() - queues.bulk.capacity();
        self.queues.as_ref().is_some_and(|queues| waiting(queues) < WAITING_MAX)
    }

    /// Puts a frame behind the others; false when nothing takes it.
    fn tell(&self, frame: &ToCoordinator) -> bool {
        let queue = self.queues.as_ref().map(|queues| &queues.bulk);
        queue.is_some_and(|bulk| bulk.try_send(frame.encode()).is_ok())
    }

    /// The rate of the grant: batches become due, and are told together.
    fn ping_paced(&mut self, passed: Duration) {
        let Some(grant) = self.grant else { return };
        let pings = f64::from(grant.pings_per_second) * self.own.len() as f64;
        self.due += passed.as_secs_f64() * pings / f64::from(grant.pings_per_batch.max(1));
        let now = self.clock.now().mono;
        let due = self.due as usize;
        if due >= NUMBERED_PER_FRAME_MAX || (due > 0 && now.since(self.told_at) >= PINGS_AFTER) {
            self.told_at = now;
            let told = due.min(NUMBERED_PER_FRAME_MAX);
            if self.ping(told) {
                self.due -= told as f64;
            }
        }
    }

    /// How often every endpoint has pinged every other.
    fn rounds(&self) -> u64 {
        let pairs = (self.own.len() * self.peers.len()) as u64;
        self.step.checked_div(pairs).unwrap_or(0)
    }

    /// Tells of the next batches, and of as many of others that came here.
    fn ping(&mut self, count: usize) -> bool {
        let pings = self.grant.map_or(9, |grant| grant.pings_per_batch.max(3));
        if self.batches.0 != pings {
            self.batches = (pings, made_up::batches(pings));
        }
        let (own, peers) = (self.own.len() as u64, self.peers.len() as u64);
        if peers == 0 || self.own.iter().any(Option::is_none) {
            return false;
        }
        let measured_at = self.clock.now().wall;
        let (mut reports, mut heard) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for step in (self.step..).take(count) {
            let (at, rail) = (step / own, (step % own) as usize);
            let (Some(local), round) = (self.own[rail], (at / peers) as u32 + 1) else { continue };
            // As in the mesh: each begins behind itself.
            let peer = self.peers[((at + u64::from(local)) % peers) as usize];
            if self.silent.contains(&local) {
                continue;
            }
            let dead = self.silent.contains(&peer);
            let variant = if dead { SILENT } else { made_up::variant(local, peer, round) };
            let figures = self.batches.1[variant];
            reports.push(NumberedReport { local, peer, measured_at, batch: round, figures });
            if !dead {
                let [small, large] = [pings - pings / 3, pings / 3].map(|count| count as u8);
                heard.push(NumberedHeard { local, peer, batch: round, small, large });
            }
        }
        self.step += count as u64;
        self.orders.count_pings(reports.len());
        self.tell(&ToCoordinator::Numbered { reports, heard })
    }

    /// What an agent would remember of all pairs that it measured: latency to everybody, bandwidth within the rail.
    fn to_remember(&self) -> usize {
        let others = self.shape.nodes() - 1;
        self.own.len() * (self.shape.endpoints - self.own.len() + others)
    }

    fn remember(&mut self) {
        let (own, nodes) = (self.own.len(), self.shape.nodes());
        let elsewhere: Vec<_> = (0..nodes).filter(|node| *node != self.node).collect();
        let peers: Vec<_> = elsewhere
            .iter()
            .flat_map(|&node| (0..self.shape.rails_of(node)).map(move |rail| (node, rail)))
            .collect();
        while self.has_room() && self.remembered < self.to_remember() {
            let at = self.clock.now().wall;
            let all = (self.remembered..self.to_remember()).take(RESULTS_PER_FRAME_MAX);
            let result = |number: usize| {
                let (rail, number) = (number % own, number / own);
                let local = made_up::name(self.node, rail);
                match peers.get(number) {
                    Some(&(node, peer)) => {
                        Some(made_up::result(local, made_up::name(node, peer), Metric::Latency, at))
                    }
                    None => {
                        let node = *elsewhere.get(number - peers.len())?;
                        let there = rail < self.shape.rails_of(node);
                        let peer = made_up::name(node, rail);
                        there.then(|| made_up::result(local, peer, Metric::Bandwidth, at))
                    }
                }
            };
            let count = all.len();
            let results: Vec<_> = all.filter_map(result).collect();
            self.orders.count_results(results.len());
            if !self.tell(&ToCoordinator::Results(results)) {
                return;
            }
            self.remembered += count;
        }
    }
}
