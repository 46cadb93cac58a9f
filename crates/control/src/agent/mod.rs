//! An agent's state: what it may do, what it is doing, and what it says to the coordinator.
//!
//! The coordinator decides; the agent obeys only the newest epoch and refuses what its own limits, its pause flags or a
//! busy port forbid. Without a coordinator every grant and lease runs out by itself.

mod admit;
mod drain;
mod gate;
mod grant;
mod identity;
mod journal;
mod memory;
mod mesh;
mod report;
mod sessions;
mod watch;

pub use drain::{HardFault, Part, faults_now};
pub use identity::Identity;
pub use watch::Watch;

use gate::Gates;
use grant::Mesh;
use journal::Journal;
use memory::Memory;
use mesh::Pinging;
use rdmascope_link::{
    DrainAnswer, DrainFault, Fact, FindingBrief, NodeEvent, PairsBrief, PauseFlags, ToAgent, ToCoordinator,
};
use rdmascope_model::{EndpointInfo, EndpointName, LeaseId, Mono, Now, ProbePlan};
use rdmascope_probe::TransportEvent;
use rdmascope_probe::mesh::{MeshCommand, MeshEvent};
use sessions::Sessions;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// A coordinator that takes longer to answer a hello does not serve this connection.
const WELCOME_WITHIN: Duration = Duration::from_secs(10);
/// So many heartbeats without an answer, and the connection counts as dead.
const HEARTBEATS_UNANSWERED_MAX: u32 = 3;

/// What can happen to an agent.
#[derive(Clone, Debug)]
pub enum Event {
    /// The connection to the coordinator is open.
    Connected,
    /// It is gone.
    Disconnected,
    /// The coordinator said something.
    Frame(ToAgent),
    /// The machine was read again.
    Inventory {
        /// All endpoints, usable or not.
        endpoints: Vec<EndpointInfo>,
        /// What the checks found, apart from what is fine, the worst first.
        findings: Vec<FindingBrief>,
    },
    /// Settings and versions were read again.
    Facts(Vec<Fact>),
    /// This happened on the node; the numbers are given here.
    Happened(Vec<NodeEvent>),
    /// Whether the ports are idle, or why not; all others count as busy.
    Idle(BTreeMap<EndpointName, Result<(), String>>),
    /// The answer to [`Action::Look`]: nobody holds the device, or who does, or why that cannot be told.
    Looked(LeaseId, Result<(), String>),
    /// The local pause file appeared or went.
    LocalPause(PauseFlags),
    /// A probe's transport told something.
    Transport(LeaseId, TransportEvent),
    /// The mesh of pings told something.
    Mesh(MeshEvent),
    /// Somebody on the node asks for leave to drain it for these faults; answered by [`Action::Drain`], unless the coordinator is silent.
    AskDrain(Vec<DrainFault>),
    /// The time of [`Agent::next_wakeup`] has come.
    Tick,
}

/// What the shell must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this frame.
    Send(ToCoordinator),
    /// Close the connection; the reason is for the log.
    Disconnect(String),
    /// Tell the transport to prepare this probe on this endpoint.
    Prepare(Box<ProbePlan>, Box<EndpointInfo>),
    /// Tell the transport to connect to the peer's offer.
    Connect(LeaseId, Vec<u8>),
    /// Look now whether a job or a pod holds the endpoint's device, and answer with [`Event::Looked`] within two seconds, come what may.
    Look(LeaseId, EndpointName),
    /// Tell the transport to start.
    Start(LeaseId),
    /// Tell the transport to end it and free everything.
    Close(LeaseId),
    /// Tell this to the mesh of pings.
    Mesh(MeshCommand),
    /// Tell this to whoever asked for leave to drain the node.
    Drain(DrainAnswer),
}

/// The connection as the agent sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Uplink {
    Down,
    /// Hello was sent; an answer must come in time.
    Greeting {
        until: Mono,
    },
    Up {
        protocol: u32,
        heartbeat: Duration,
        next_heartbeat: Mono,
        unanswered: u32,
    },
}

/// An agent.
#[derive(Clone, Debug)]
pub struct Agent {
    identity: Identity,
    uplink: Uplink,
    /// The newest epoch that was ever obeyed.
    epoch: u64,
    endpoints: BTreeMap<EndpointName, EndpointInfo>,
    findings: Vec<FindingBrief>,
    /// The machine was looked at.
    looked: bool,
    inventory_sent: Mono,
    /// Words of findings have changed since the last inventory.
    words_unsent: bool,
    facts: Vec<Fact>,
    journal: Journal,
    gates: Gates,
    local_pause: PauseFlags,
    operator_pause: PauseFlags,
    mesh: Mesh,
    pinging: Pinging,
    sessions: Sessions,
    memory: Memory,
    pairs: Arc<[PairsBrief]>,
    outbox: VecDeque<Action>,
}

impl Agent {
    /// An agent that knows nothing yet.
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        Self {
            identity,
            uplink: Uplink::Down,
            epoch: 0,
            endpoints: BTreeMap::new(),
            findings: Vec::new(),
            looked: false,
            inventory_sent: Mono(0),
            words_unsent: false,
            facts: Vec::new(),
            journal: Journal::default(),
            gates: Gates::default(),
            local_pause: PauseFlags::default(),
            operator_pause: PauseFlags::default(),
            mesh: Mesh::default(),
            pinging: Pinging::default(),
            sessions: Sessions::default(),
            memory: Memory::default(),
            pairs: Arc::default(),
            outbox: VecDeque::new(),
        }
    }

    /// How the pairs of its endpoints do, as the coordinator told last; nothing while there is none.
    #[must_use]
    pub fn pairs(&self) -> Arc<[PairsBrief]> {
        Arc::clone(&self.pairs)
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.outbox.pop_front()
    }

    /// When a [`Event::Tick`] is due; `None` when nothing waits for time.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Mono> {
        let heartbeat = match self.uplink {
            Uplink::Up { next_heartbeat, .. } => Some(next_heartbeat),
            Uplink::Greeting { until } => Some(until),
            Uplink::Down => None,
        };
        [heartbeat, self.sessions.next_deadline(), self.pinging.next_deadline()].into_iter().flatten().min()
    }

    /// The coordinator accepted this agent and answers.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        matches!(self.uplink, Uplink::Up { .. })
    }

    /// What is paused, by the operator or by the local file.
    #[must_use]
    pub fn paused(&self) -> PauseFlags {
        self.local_pause.or(self.operator_pause)
    }

    /// Probes that are set up, running or not yet closed.
    #[must_use]
    pub fn probes(&self) -> usize {
        self.sessions.len()
    }

    /// The newest epoch that it ever obeyed; 0 before the first.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Events that wait until the coordinator has them for good.
    #[must_use]
    pub fn events_waiting(&self) -> usize {
        self.journal.waiting()
    }

    /// Events that were thrown away because the coordinator was away for too long.
    #[must_use]
    pub fn events_dropped(&self) -> u64 {
        self.journal.dropped()
    }

    /// Takes one event.
    pub fn handle(&mut self, event: Event, now: Now) {
        match event {
            Event::Connected => self.greet(now),
            Event::Disconnected => {
                self.uplink = Uplink::Down;
                self.pairs = Arc::default();
            }
            Event::Mesh(event) => self.mesh_event(event, now),
            Event::AskDrain(faults) => self.ask_drain(faults),
            Event::Frame(frame) => self.frame(frame, now),
            Event::Inventory { endpoints, findings } => self.inventory(endpoints, findings, now),
            Event::Facts(facts) => self.facts(facts),
            Event::Happened(events) => {
                self.journal.add(events);
                self.send_events();
            }
            Event::Idle(ports) => self.gates.told(ports),
            Event::Looked(lease, free) => {
                self.sessions.looked(lease, free, |name| self.gates.idle(name), now, &mut self.outbox);
            }
            Event::LocalPause(flags) => {
                self.local_pause = flags;
                self.pause_changed(now);
            }
            Event::Transport(lease, event) => self.sessions.transport(lease, event, now, &mut self.outbox),
            Event::Tick => self.tick(now),
        }
        self.sessions.take_results(|result| {
            self.memory.keep(&result, now);
            if matches!(self.uplink, Uplink::Up { .. }) {
                self.outbox.push_back(Action::Send(ToCoordinator::Results(vec![result])));
            }
        });
        if !self.is_connected() {
            self.drop_pings();
        }
        self.mesh_due(now);
    }

    fn greet(&mut self, now: Now) {
        self.uplink = Uplink::Greeting { until: now.mono.after(WELCOME_WITHIN) };
        self.send(ToCoordinator::Hello(self.identity.hello()));
    }

    fn send(&mut self, frame: ToCoordinator) {
        self.outbox.push_back(Action::Send(frame));
    }

    fn frame(&mut self, frame: ToAgent, now: Now) {
        match frame {
            ToAgent::Welcome { protocol, epoch, heartbeat } => {
                self.welcome(protocol, epoch, heartbeat, now);
            }
            ToAgent::Refused { message } => {
                self.outbox
                    .push_back(Action::Disconnect(format!("the coordinator refused this agent: {message}")));
            }
            ToAgent::HeartbeatReply { pairs, drain } => {
                self.outbox.extend(drain.map(Action::Drain));
                if let Uplink::Up { unanswered, .. } = &mut self.uplink {
                    *unanswered = 0;
                }
                if !pairs.is_empty() {
                    self.pairs = pairs.into();
                }
            }
            ToAgent::Book { generation, base, total, peers, numbers, removed } => {
                let whole = self.mesh.book(generation, base, total, (&peers, &numbers), &removed);
                whole.into_iter().for_each(|book| self.tell_mesh(MeshCommand::Book(book)));
            }
            ToAgent::Grant { .. } => self.mesh_grant(&frame, now),
            ToAgent::Lease { epoch, plan, setup_within } => {
                if epoch == self.epoch {
                    self.lease(plan, setup_within, now);
                }
            }
            ToAgent::Relay { lease, payload } => {
                self.sessions.relayed(lease, payload, now, &mut self.outbox);
            }
            ToAgent::LeaseEnd { lease } => self.sessions.end(lease, &mut self.outbox),
            ToAgent::EventsSeen { number } => self.journal.seen(number),
            ToAgent::Pause(flags) => {
                self.operator_pause = flags;
                self.pause_changed(now);
            }
        }
    }

    fn welcome(&mut self, protocol: u32, epoch: u64, heartbeat: Duration, now: Now) {
        if epoch < self.epoch {
            let why = format!(
                "the coordinator's epoch {epoch} is older than {}: a second coordinator runs",
                self.epoch
            );
            self.hang_up(why);
            return;
        }
        // Leases do not outlive the connection that they came on: the coordinator has given them up.
        self.sessions.end_all(&mut self.outbox);
        self.mesh.connected();
        let restarted = epoch > self.epoch;
        if restarted {
            self.mesh.forget_grant();
            self.epoch = epoch;
        }
        let next_heartbeat = now.mono.after(heartbeat);
        self.uplink = Uplink::Up { protocol, heartbeat, next_heartbeat, unanswered: 0 };
        self.send(ToCoordinator::heartbeat(self.local_pause));
        self.journal.rewind();
        self.send_events();
        self.send_inventory(now);
        self.send_facts();
        if restarted {
            for results in self.memory.all(now) {
                self.send(ToCoordinator::Results(results));
            }
        }
    }

    fn pause_changed(&mut self, now: Now) {
        if self.is_connected() {
            self.send(ToCoordinator::heartbeat(self.local_pause));
        }
        let paused = self.paused();
        self.sessions.stop_paused(paused, now, &mut self.outbox);
    }

    fn tick(&mut self, now: Now) {
        self.sessions.expire(now, &mut self.outbox);
        match self.uplink {
            Uplink::Greeting { until } if now.mono >= until => {
                let seconds = WELCOME_WITHIN.as_secs();
                self.hang_up(format!("the coordinator did not answer the hello within {seconds} s"));
            }
            Uplink::Up { protocol, heartbeat, next_heartbeat, unanswered } if now.mono >= next_heartbeat => {
                if unanswered >= HEARTBEATS_UNANSWERED_MAX {
                    return self.hang_up(format!("no answer to {unanswered} heartbeats"));
                }
                let next_heartbeat = now.mono.after(heartbeat);
                self.uplink = Uplink::Up { protocol, heartbeat, next_heartbeat, unanswered: unanswered + 1 };
                self.send(ToCoordinator::heartbeat(self.local_pause));
            }
            Uplink::Down | Uplink::Greeting { .. } | Uplink::Up { .. } => {}
        }
    }

    fn hang_up(&mut self, why: String) {
        self.uplink = Uplink::Down;
        self.outbox.push_back(Action::Disconnect(why));
    }
}

#[cfg(test)]
mod tests;
