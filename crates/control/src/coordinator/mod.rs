//! The coordinator's state: who is there, what is to be probed, what runs, and the matrix that comes of it.

mod ask;
mod away;
mod caps;
mod commands;
mod dispatch;
mod drift;
mod forced;
mod frames;
mod health;
mod history;
mod incidents;
mod keep;
mod lease;
mod members;
mod mesh;
mod pings;
mod place;
mod rounds;
mod runs;
mod settings;
mod settle;
mod tallies;
mod work;

pub use ask::{IncastRequest, Measure, PairRequest};
pub use commands::CommandError;
pub use drift::Drift;
pub use health::{Acknowledgement, EventRow, FindingKey, Health, MAINTENANCE_MAX, Maintenance, RowKind};
pub use history::{as_finding, finding_key};
pub use members::{Endpoint, Member, Members};
pub use runs::{ProbeRun, ProbeStep, RunKind};
pub use settings::{Service, Settings};
pub use tallies::{COUNTED_AT_ONCE_MAX, Counted};
pub use work::Sweep;

use away::Away;
use caps::Caps;
use dispatch::Machines;
use forced::Forced;
use incidents::Incidents;
use lease::Lease;
use mesh::MeshGrants;
use pings::PingNews;
use rdmascope_link::{PauseFlags, ToAgent, ToCoordinator};
use rdmascope_localise::{Matrix, Places};
use rdmascope_model::{Cause, LeaseId, Metric, Mono, Now};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tallies::Tallies;
use work::Work;

/// One agent's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What can happen to a coordinator.
#[derive(Clone, Debug)]
pub enum Event {
    /// An agent's connection said something.
    Frame(ConnectionId, ToCoordinator),
    /// A connection ended.
    Closed(ConnectionId),
    /// The time of [`Coordinator::next_wakeup`] has come.
    Tick,
}

/// What the shell must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this frame.
    Send(ConnectionId, ToAgent),
    /// Close the connection once everything before is sent; the reason is for the log.
    Close(ConnectionId, String),
    /// A probe ended: nothing to do but to count it.
    Probed(Probed),
    /// An agent was refused: nothing to do but to count it.
    Refused(Refusal),
    /// Write these events down; then, where one is given, tell the connection that they are safe up to this number of the agent
    /// ([`Coordinator::kept`]).
    Keep(Vec<EventRow>, Option<(ConnectionId, u64)>),
    /// Write the acknowledgements and maintenances down.
    KeepNotes,
}

/// Why an agent was refused; a wrong token is the shell's affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No common protocol version.
    Version,
    /// Frames out of order, or that speak of what is not its own.
    Conduct,
}

/// How one direction of a pair came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probed {
    /// Median half round trip, nanoseconds.
    Latency(u64),
    /// Average goodput and, where both are known, the slower port's rate, bits per second.
    Bandwidth(u64, Option<u64>),
    /// So many batches of pings of which at least one each was answered.
    Pings(u64),
    /// It failed.
    Failed(Metric, Cause),
    /// It was not run.
    Excluded(Metric),
}

/// A coordinator.
#[derive(Debug)]
pub struct Coordinator {
    settings: Settings,
    epoch: u64,
    members: Members,
    matrix: Matrix,
    work: Work,
    leases: BTreeMap<LeaseId, Lease>,
    machines: Machines,
    caps: Caps,
    forced: Forced,
    mesh: MeshGrants,
    ping_news: PingNews,
    /// Batches of the frame at hand that were answered.
    pings_answered: u64,
    tallies: Tallies,
    away: Away,
    health: Health,
    /// Of this membership and so many endpoints.
    places: ((u64, usize), Places),
    incidents: Incidents,
    paused: PauseFlags,
    /// Leases given so far: the number of the last one.
    leases_given: u64,
    /// When the continuous sweep can go on, if time is all that it waits for.
    background_wakeup: Option<Mono>,
    /// Something happened that a waiting job may have waited for.
    changed: bool,
    outbox: VecDeque<Action>,
}

impl Coordinator {
    /// A coordinator that knows nothing yet. `epoch` must exceed that of every coordinator before it.
    #[must_use]
    pub fn new(settings: Settings, epoch: u64) -> Self {
        Self {
            settings,
            epoch,
            members: Members::default(),
            matrix: Matrix::default(),
            work: Work::default(),
            leases: BTreeMap::new(),
            machines: Machines::default(),
            caps: Caps::default(),
            forced: Forced::default(),
            mesh: MeshGrants::default(),
            ping_news: PingNews::default(),
            pings_answered: 0,
            tallies: Tallies::default(),
            away: Away::default(),
            health: Health::default(),
            places: ((0, 0), Places::default()),
            incidents: Incidents::default(),
            paused: PauseFlags::default(),
            leases_given: 0,
            background_wakeup: None,
            changed: false,
            outbox: VecDeque::new(),
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.outbox.pop_front()
    }

    /// When a [`Event::Tick`] is due; `None` when nothing waits for time.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Mono> {
        let leases = self.leases.values().map(|lease| lease.judge_at).min();
        let health = self.health.next_comparison();
        let waits = [
            leases,
            self.members.next_silent(),
            self.mesh.next_deadline(),
            self.background_wakeup,
            health,
            self.away.next_deadline(),
        ];
        let safety = [self.caps.next_rested(), self.forced.next_expiry()];
        waits.into_iter().chain(safety).flatten().min()
    }

    /// Takes one event.
    pub fn handle(&mut self, event: Event, now: Now) {
        match event {
            Event::Frame(connection, frame) => self.frame(connection, frame, now),
            Event::Closed(connection) => self.closed(connection, now),
            Event::Tick => {}
        }
        self.run(now);
    }

    /// The matrix.
    #[must_use]
    pub fn matrix(&self) -> &Matrix {
        &self.matrix
    }

    /// Agents and endpoints.
    #[must_use]
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The operator's sweep that runs or was the last to run.
    #[must_use]
    pub fn sweep(&self) -> Option<&Sweep> {
        self.work.sweep()
    }

    /// The continuous sweep, while one runs.
    #[must_use]
    pub fn background_sweep(&self) -> Option<&Sweep> {
        self.work.background()
    }

    /// An operator's probe, report or incast.
    #[must_use]
    pub fn probe(&self, id: u64) -> Option<&ProbeRun> {
        self.work.runs.get(id)
    }

    /// Services by their names.
    #[must_use]
    pub fn services(&self) -> &BTreeMap<String, Service> {
        &self.settings.services
    }

    /// This run's epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What is paused for the whole cluster.
    #[must_use]
    pub fn paused(&self) -> PauseFlags {
        self.paused
    }

    /// Leases that run now.
    #[must_use]
    pub fn leases_running(&self) -> usize {
        self.leases.len()
    }

    /// In this time pings and continuous sweeps cover all pairs; `None` when they are off.
    #[must_use]
    pub fn coverage(&self) -> Option<Duration> {
        let pace = self.pace();
        let ready = self.members.ready().len();
        let swept = if self.members.needs_connections() { pace.coverage(ready) } else { None };
        swept.max(pace.ping_coverage(self.members.pinged()))
    }

    /// The settings that pings and continuous sweeps go by now.
    fn pace(&self) -> Cow<'_, Settings> {
        let both = self.members.pinged() >= 2 && self.members.needs_connections();
        if both { Cow::Owned(self.settings.halved()) } else { Cow::Borrowed(&self.settings) }
    }

    /// Figures older than this are stale. Pings of a small cluster cover it sooner than they were asked to; an operator's sweep, which
    /// nobody repeats where pings cover the pairs, must not be stale sooner for it.
    #[must_use]
    pub fn fresh_for(&self) -> Duration {
        let coverage =
            self.coverage().map_or(Duration::ZERO, |coverage| coverage.max(self.settings.coverage));
        settings::FRESH_FOR_MIN.max(coverage * 3)
    }

    /// What is paused on a node, by whichever way: for the whole cluster, for the node, or by the node's own file.
    #[must_use]
    pub fn pause_of(&self, node: &str) -> PauseFlags {
        let local = self.members.agent(node).map(|m| m.local_pause).unwrap_or_default();
        local.or(self.ordered_pause(node))
    }

    /// What an operator paused on a node; its own file is its own affair.
    fn ordered_pause(&self, node: &str) -> PauseFlags {
        let own = self.members.agent(node).map(|m| m.operator_pause).unwrap_or_default();
        own.or(self.paused)
    }
}

#[cfg(test)]
mod tests;
