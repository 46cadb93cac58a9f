//! The coordinator's state: who is there, what is to be probed, what runs, and the matrix that comes of it.

mod ask;
mod away;
mod caps;
mod circle;
mod commands;
mod continuous;
mod dispatch;
mod drains;
mod drift;
mod forced;
mod found;
mod frames;
mod health;
mod history;
mod incidents;
mod keep;
mod lease;
mod maintenance;
mod members;
mod mesh;
mod order;
mod pass;
mod pings;
mod place;
mod plan;
mod rails;
mod rounds;
mod rows;
mod runs;
mod seats;
mod serve;
mod settings;
mod settle;
mod shown;
mod spreads;
mod sweep;
mod tallies;
mod touched;
mod trails;
mod turns;
mod work;

pub use ask::{IncastRequest, Measure, PairRequest};
pub use commands::CommandError;
pub use continuous::{ContinuousPlan, Covering};
pub use drift::{COMPARED, Drift};
pub use found::{Found, FoundPair, Miss, NotRun};
pub use health::{Acknowledgement, FindingKey, Health, MAINTENANCE_MAX, Maintenance};
pub use history::{as_finding, finding_key};
pub use members::{Endpoint, Member, Members};
pub use order::SweepOrder;
pub use place::{LeafSource, PlaceNames, Sources};
pub use plan::SweepPlan;
pub use rails::RailSource;
pub use rows::{EventRow, RowKind, Taken};
pub use runs::{ProbeRun, ProbeStep, RunKind};
pub use settings::{Service, Settings};
pub use shown::Shown;
pub use spreads::Spread;
pub use sweep::Sweep;
pub use tallies::{COUNTED_AT_ONCE_MAX, Counted, WorstPairs};
pub use touched::Touched;
pub use trails::PairTrail;

use away::Away;
use caps::Caps;
use dispatch::Machines;
use drains::Drains;
use forced::Forced;
use incidents::Incidents;
use lease::Lease;
use mesh::MeshGrants;
use pings::PingNews;
use place::Standing;
use rdmascope_link::{PauseFlags, ToAgent, ToCoordinator};
use rdmascope_localise::{EndpointIndex, Matrix};
use rdmascope_model::{Cause, LeaseId, Metric, Mono, Now};
use spreads::Spreads;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tallies::Tallies;
use trails::TrailKeeper;
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
    /// Write these events down together with up to where their agent has told them; then tell the connection that they are safe
    /// ([`Coordinator::kept`]).
    Keep(Vec<EventRow>, Option<(ConnectionId, Taken)>),
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
    /// With figures.
    Measured(Metric),
    /// So many batches of pings of which at least one each was answered.
    Pings(u64),
    /// It failed.
    Failed(Metric, Cause),
    /// It was not run.
    Excluded(Metric),
}

/// A coordinator.
#[derive(Clone, Debug)]
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
    trails: TrailKeeper,
    spreads: Spreads,
    away: Away,
    health: Health,
    drains: Drains,
    standing: Standing,
    incidents: Incidents,
    paused: PauseFlags,
    /// Leases given so far: the number of the last one.
    leases_given: u64,
    /// When the continuous sweep can go on, if time is all that it waits for.
    background_wakeup: Option<Mono>,
    /// Something happened that any waiting job may have waited for.
    changed: bool,
    /// Endpoints that have become free, or have room on their machine or their leaf's uplinks.
    freed: BTreeSet<EndpointIndex>,
    /// The continuous sweep was not looked at the last time.
    background_rests: bool,
    /// Up to when endpoints have rested has been looked at.
    rested_until: Mono,
    /// More is to be settled then.
    again_at: Option<Mono>,
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
            trails: TrailKeeper::default(),
            spreads: Spreads::default(),
            away: Away::default(),
            health: Health::default(),
            drains: Drains::default(),
            standing: Standing::default(),
            incidents: Incidents::default(),
            paused: PauseFlags::default(),
            leases_given: 0,
            background_wakeup: None,
            changed: false,
            freed: BTreeSet::new(),
            background_rests: true,
            rested_until: Mono(0),
            again_at: None,
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
        let look = self.next_look();
        // A book is of the places that are known: where these are looked at later, it waits for them.
        let mesh = self.mesh.next_deadline().map(|at| look.map_or(at, |look| at.max(look)));
        let waits = [
            leases,
            self.members.next_silent(),
            mesh,
            look,
            self.background_wakeup,
            self.again_at,
            self.work.pass_ends(),
            health,
            self.away.next_deadline(),
            self.work.next_retest,
        ];
        let look = self.incidents.next_look(self.matrix.revision(), self.matrix.len());
        let trails = self.trails.next_look(self.matrix.len());
        let safety = [self.caps.next_rested(), self.forced.next_expiry(), look, trails];
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

    /// The last ones, with their numbers, the newest first.
    pub fn probes(&self) -> impl Iterator<Item = (u64, &ProbeRun)> {
        self.work.runs.all()
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
