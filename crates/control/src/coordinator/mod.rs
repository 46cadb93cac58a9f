//! The coordinator's state: who is there, what is to be probed, what runs, and the matrix that comes of it.

mod dispatch;
mod lease;
mod members;
mod mesh;
mod rounds;
mod settings;
mod work;

pub use members::{Endpoint, Member, Members};
pub use settings::Settings;
pub use work::{ProbeRun, ProbeStep, Sweep};

use dispatch::Machines;
use lease::Lease;
use mesh::MeshGrants;
use rdmascope_link::{Hello, PauseFlags, ProbeResult, RelayPayload, ToAgent, ToCoordinator, negotiate};
use rdmascope_localise::{EndpointIndex, Matrix, Measured};
use rdmascope_model::{Cause, EndpointName, Failure, LeaseId, Metric, Mono, Now, Outcome, Step, Urgency};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;
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
}

/// How one direction of a pair came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probed {
    /// Median half round trip, nanoseconds.
    Latency(u64),
    /// Average goodput and, where both are known, the slower port's rate, bits per second.
    Bandwidth(u64, Option<u64>),
    /// It failed.
    Failed(Metric, Cause),
    /// It was not run.
    Excluded(Metric),
}

/// Why an operator's command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// No such endpoint; the text names what exists.
    UnknownEndpoint(String),
    /// No such node; the text names what exists.
    UnknownNode(String),
    /// Not now; the text says why.
    Conflict(String),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::UnknownEndpoint(text) | Self::UnknownNode(text) | Self::Conflict(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for CommandError {}

/// How often something happened since the start, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Leases given.
    pub leases: u64,
    /// Agents that were refused.
    pub refused: u64,
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
    mesh: MeshGrants,
    paused: PauseFlags,
    totals: Totals,
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
            mesh: MeshGrants::default(),
            paused: PauseFlags::default(),
            totals: Totals::default(),
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
        let waits = [leases, self.members.next_silent(), self.mesh.next_deadline(), self.background_wakeup];
        waits.into_iter().flatten().min()
    }

    /// Takes one event.
    pub fn handle(&mut self, event: Event, now: Now) {
        match event {
            Event::Frame(connection, frame) => self.frame(connection, frame, now),
            Event::Closed(connection) => self.closed(connection),
            Event::Tick => {}
        }
        self.run(now);
    }

    /// Begins a sweep over all endpoints that are there.
    ///
    /// # Errors
    /// A sweep runs already, everything is paused, or there are fewer than two endpoints.
    pub fn start_sweep(&mut self, metrics: &[Metric], drained: bool, now: Now) -> Result<u64, CommandError> {
        if self.work.operator_sweep_runs() {
            return Err(CommandError::Conflict("a sweep is running; wait for it to end".to_owned()));
        }
        if self.paused.all {
            return Err(CommandError::Conflict(
                "probing is paused; `rdmascope resume` ends the pause".to_owned(),
            ));
        }
        let here = self.members.endpoints().filter(|(_, e)| e.gone_since.is_none());
        let endpoints: Vec<_> = here.map(|(index, _)| index).collect();
        if endpoints.len() < 2 {
            let text = format!("a sweep needs at least two endpoints; there are {}", endpoints.len());
            return Err(CommandError::Conflict(text));
        }
        let urgency = if drained { Urgency::Drained } else { Urgency::Operator };
        let id = self.work.start_sweep(&endpoints, metrics, urgency, now);
        self.changed = true;
        self.run(now);
        Ok(id)
    }

    /// Begins one pair's probe.
    ///
    /// # Errors
    /// An endpoint is unknown, both are the same, everything is paused, or too many probes wait.
    pub fn start_probe(
        &mut self,
        source: &str,
        target: &str,
        metrics: &[Metric],
        drained: bool,
        now: Now,
    ) -> Result<u64, CommandError> {
        let (source, target) = (self.find_endpoint(source)?, self.find_endpoint(target)?);
        if source == target {
            return Err(CommandError::Conflict("source and target are the same endpoint".to_owned()));
        }
        if self.paused.all {
            return Err(CommandError::Conflict(
                "probing is paused; `rdmascope resume` ends the pause".to_owned(),
            ));
        }
        let urgency = if drained { Urgency::Drained } else { Urgency::Operator };
        let id = self.work.start_probe(source, target, metrics, urgency, now);
        let id =
            id.ok_or_else(|| CommandError::Conflict("too many probes are waiting; try again".to_owned()))?;
        self.changed = true;
        self.run(now);
        Ok(id)
    }

    /// Pauses or resumes; `nodes` = `None` means the whole cluster.
    ///
    /// # Errors
    /// A node is unknown; nothing was changed.
    pub fn set_pause(
        &mut self,
        nodes: Option<&[String]>,
        change: impl Fn(&mut PauseFlags),
        now: Now,
    ) -> Result<(), CommandError> {
        if let Some(unknown) = nodes.unwrap_or_default().iter().find(|n| self.members.agent(n).is_none()) {
            let known: Vec<_> = self.members.agents().map(|(name, _)| name).take(20).collect();
            let text = format!("no node '{unknown}'; there are: {}", known.join(", "));
            return Err(CommandError::UnknownNode(text));
        }
        match nodes {
            None => change(&mut self.paused),
            Some(nodes) => nodes.iter().for_each(|node| {
                self.members.agent_mut(node).into_iter().for_each(|m| change(&mut m.operator_pause));
            }),
        }
        let told: Vec<_> = self.members.nodes_connected().map(|(node, c)| (node.to_owned(), c)).collect();
        for (node, connection) in told {
            let flags = self.pause_of(&node);
            self.outbox.push_back(Action::Send(connection, ToAgent::Pause(flags)));
        }
        self.matrix.touch();
        self.changed = true;
        self.run(now);
        Ok(())
    }

    /// The endpoint of a full or short name (`NODE/DEVICE/PORT`, `NODE/DEVICE`, `NODE`).
    ///
    /// # Errors
    /// None or several have it; the text names what exists.
    pub fn find_endpoint(&self, name: &str) -> Result<EndpointIndex, CommandError> {
        let short = |full: &EndpointName| {
            full.to_string() == name || format!("{}/{}", full.node, full.device) == name || full.node == name
        };
        let found: Vec<_> = self.matrix.endpoints().filter(|(full, _)| short(full)).collect();
        let list = |names: Vec<&EndpointName>| {
            let shown: Vec<_> = names.iter().take(20).map(ToString::to_string).collect();
            let more =
                if names.len() > 20 { format!(" and {} more", names.len() - 20) } else { String::new() };
            format!("{}{more}", shown.join(", "))
        };
        match found[..] {
            [(_, index)] => Ok(index),
            [] => {
                let all = list(self.matrix.endpoints().map(|(name, _)| name).collect());
                let all = if all.is_empty() { "none yet".to_owned() } else { all };
                Err(CommandError::UnknownEndpoint(format!("no endpoint '{name}'; there are: {all}")))
            }
            _ => {
                let several = list(found.iter().map(|(name, _)| *name).collect());
                Err(CommandError::UnknownEndpoint(format!("'{name}' may be any of: {several}")))
            }
        }
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

    /// An operator's single probe.
    #[must_use]
    pub fn probe(&self, id: u64) -> Option<&ProbeRun> {
        self.work.probe(id)
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

    /// Counts since the start.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Leases that run now.
    #[must_use]
    pub fn leases_running(&self) -> usize {
        self.leases.len()
    }

    /// Mesh grants sent since the start.
    #[must_use]
    pub fn grants_sent(&self) -> u64 {
        self.mesh.sent()
    }

    /// In this time continuous sweeps cover all pairs; `None` when they are off.
    #[must_use]
    pub fn coverage(&self) -> Option<Duration> {
        self.settings.coverage(self.members.ready().len())
    }

    /// Figures older than this are stale.
    #[must_use]
    pub fn fresh_for(&self) -> Duration {
        let coverage = self.coverage().unwrap_or_default();
        settings::FRESH_FOR_MIN.max(coverage * 3)
    }

    fn pause_of(&self, node: &str) -> PauseFlags {
        let own = self.members.agent(node).map(|m| m.operator_pause).unwrap_or_default();
        PauseFlags { all: self.paused.all || own.all, bandwidth: self.paused.bandwidth || own.bandwidth }
    }

    fn frame(&mut self, connection: ConnectionId, frame: ToCoordinator, now: Now) {
        if let ToCoordinator::Hello(hello) = frame {
            self.changed = true;
            self.hello(connection, hello, now);
            return;
        }
        let Some(node) = self.members.node(connection).map(str::to_owned) else {
            let why = "the first frame must be a hello".to_owned();
            self.refuse(connection, why);
            return;
        };
        self.members.heard(&node, now);
        match frame {
            ToCoordinator::Hello(_) => {}
            ToCoordinator::Heartbeat(flags) => {
                if let Some(member) = self.members.agent_mut(&node) {
                    self.changed |= member.paused != flags;
                    member.paused = flags;
                }
                self.outbox.push_back(Action::Send(connection, ToAgent::HeartbeatReply));
            }
            ToCoordinator::Inventory { endpoints, findings } => {
                self.changed = true;
                let taken = self.members.inventory(&node, endpoints, findings, &mut self.matrix, now);
                if let Err(why) = taken {
                    self.refuse(connection, why);
                    self.closed(connection);
                }
            }
            ToCoordinator::Relay { lease, payload } => self.relay(connection, lease, payload, now),
            ToCoordinator::Results(results) => {
                for result in results {
                    self.result(connection, &node, result, now);
                }
            }
        }
    }

    fn refuse(&mut self, connection: ConnectionId, why: String) {
        self.totals.refused += 1;
        self.outbox.push_back(Action::Send(connection, ToAgent::Refused { message: why.clone() }));
        self.outbox.push_back(Action::Close(connection, why));
    }

    fn hello(&mut self, connection: ConnectionId, hello: Hello, now: Now) {
        if self.members.node(connection).is_some() {
            self.refuse(connection, "a second hello on the same connection".to_owned());
            return self.closed(connection);
        }
        let protocol = match negotiate(hello.protocol_min, hello.protocol_max) {
            Ok(protocol) => protocol,
            Err(mismatch) => return self.refuse(connection, mismatch.to_string()),
        };
        let node = hello.node.clone();
        if let Some(old) = self.members.join(hello, connection, now) {
            self.lose_leases(old);
            self.outbox.push_back(Action::Close(old, format!("{node} connected again")));
        }
        let welcome = ToAgent::Welcome { protocol, epoch: self.epoch, heartbeat: settings::HEARTBEAT };
        self.outbox.push_back(Action::Send(connection, welcome));
        let flags = self.pause_of(&node);
        self.outbox.push_back(Action::Send(connection, ToAgent::Pause(flags)));
        self.matrix.touch();
    }

    fn closed(&mut self, connection: ConnectionId) {
        if self.members.leave(connection).is_some() {
            self.changed = true;
            self.lose_leases(connection);
            self.matrix.touch();
        }
    }

    fn lose_leases(&mut self, connection: ConnectionId) {
        for lease in self.leases.values_mut() {
            if let Some(role) = lease.role_of(connection) {
                lease.lost(role);
            }
        }
    }

    fn relay(&mut self, from: ConnectionId, id: LeaseId, payload: RelayPayload, now: Now) {
        // What belongs to no lease comes from one that is over.
        let Some(lease) = self.leases.get(&id) else { return };
        let Some(role) = lease.role_of(from) else { return };
        let to = lease.connections[1 - lease::place(role)];
        let (step, text) = match &payload {
            RelayPayload::Offer(_) => (Step::Init, "queue pair made, address sent to the peer"),
            RelayPayload::Ready => (Step::Rts, "connected to the peer"),
        };
        self.work.step(lease.job.origin, role.side(), step, text.to_owned(), now.mono);
        self.outbox.push_back(Action::Send(to, ToAgent::Relay { lease: id, payload }));
    }

    fn result(&mut self, connection: ConnectionId, node: &str, mut result: ProbeResult, now: Now) {
        if result.local.node != node {
            return; // An agent cannot speak for another.
        }
        let Some(id) = result.lease else {
            result.measured_at = result.measured_at.min(now.wall);
            return self.remembered(&result);
        };
        let Some(lease) = self.leases.get_mut(&id) else { return };
        let Some(role) = lease.role_of(connection) else { return };
        // It was measured under this lease. A time outside of it comes from a clock that is wrong, and one that lies
        // before the lease would let an older failure stand as the newer news.
        if !(lease.began.wall..=now.wall).contains(&result.measured_at) {
            result.measured_at = now.wall;
        }
        let text = told(&result.outcome);
        self.work.step(lease.job.origin, role.side(), Step::Measure, text, now.mono);
        lease.result(role, result, now.mono);
    }

    /// A result from before this coordinator began. A failure is kept too: it was the last thing known of the pair.
    fn remembered(&mut self, result: &ProbeResult) {
        let known = self.matrix.find(&result.local).is_some();
        if !known || self.matrix.len() >= settings::ENDPOINTS_MAX {
            return;
        }
        let source = self.matrix.intern(&result.local);
        let target = self.matrix.intern(&result.peer);
        self.write(source, target, result);
    }

    fn write(&mut self, source: EndpointIndex, target: EndpointIndex, result: &ProbeResult) {
        let at = result.measured_at;
        match &result.outcome {
            Outcome::Latency(stats, delta) => {
                self.matrix.record(source, target, at, &Measured::Latency(*stats, *delta));
            }
            Outcome::Bandwidth(stats, delta) => {
                self.matrix.record(source, target, at, &Measured::Bandwidth(*stats, *delta));
            }
            Outcome::Failed(failure) => {
                self.matrix.fail(result.metric, source, target, at, failure.clone());
            }
            Outcome::Excluded(why) => {
                self.matrix.exclude(result.metric, source, target, at, *why);
            }
        }
    }
}

/// An outcome in words, for the steps of a single probe.
fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Latency(stats, _) => format!("{} round trips measured", stats.count),
        Outcome::Bandwidth(stats, _) => format!("{} writes completed", stats.completions),
        Outcome::Failed(Failure { cause, evidence, .. }) => format!("failed: {} ({evidence})", cause.text()),
        Outcome::Excluded(why) => format!("not run: {}", why.as_str()),
    }
}

#[cfg(test)]
mod tests;
