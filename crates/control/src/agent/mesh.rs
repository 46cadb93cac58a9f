//! The mesh of pings as the agent's state sees it: what it is told, and what becomes of what it tells.

use super::{Action, Agent, Uplink};
use rdmascope_link::{
    NUMBERED_PER_FRAME_MAX, NumberedHeard, NumberedReport, PINGS_PER_FRAME_MAX, PINGS_SINCE, PingReport,
    ProbeResult, ToAgent, ToCoordinator,
};
use rdmascope_model::{
    DatagramAddress, EndpointInfo, EndpointName, Fabric, Failure, Heard, Metric, Mono, Now, Outcome,
    PINGS_OF_A_SIZE_MAX, PackedPings, PingFigures, PingStats, Role,
};
use rdmascope_probe::mesh::{MeshCommand, MeshEvent, MeshGrant, MeshHealth};
use std::collections::BTreeMap;
use std::time::Duration;

/// A batch waits for others for so long before it is sent.
const PINGS_AFTER: Duration = Duration::from_secs(2);
/// One that lost something, or that is of a pass, which somebody waits for, waits no longer than this: a fault is to be named within
/// seconds.
const SOON_AFTER: Duration = Duration::from_millis(250);

/// What the mesh was told, and what it told.
#[derive(Clone, Debug, Default)]
pub(super) struct Pinging {
    endpoints: Vec<EndpointInfo>,
    grant: Option<MeshGrant>,
    addresses: BTreeMap<EndpointName, DatagramAddress>,
    /// Batches that wait to be sent, at most a frame of each kind when they are told by numbers.
    reports: Vec<PingReport>,
    heard: Vec<Heard>,
    send_at: Option<Mono>,
    /// Batches that no coordinator was there for.
    dropped: u64,
    health: Option<MeshHealth>,
}

impl Pinging {
    /// When something is due without an event.
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        self.send_at.into_iter().chain(self.grant.map(|grant| grant.until)).min()
    }

    /// An endpoint as the coordinator is told of it: with the address that the mesh opened for it.
    pub(super) fn with_address(&self, info: &EndpointInfo) -> EndpointInfo {
        EndpointInfo { datagrams: self.addresses.get(&info.name).copied(), ..info.clone() }
    }
}

/// The mesh may try to open it. Whether it takes datagrams shows when it has; TCP and iWARP have none.
fn may_ping(info: &EndpointInfo) -> bool {
    let fabric = matches!(info.fabric, Fabric::Roce | Fabric::InfiniBand | Fabric::Simulated);
    fabric && info.unusable.is_none()
}

impl Agent {
    /// Batches of pings, own and heard, that were thrown away because no coordinator was there that understands them.
    #[must_use]
    pub fn pings_dropped(&self) -> u64 {
        self.pinging.dropped
    }

    /// What the mesh last told of itself.
    #[must_use]
    pub fn mesh_health(&self) -> Option<MeshHealth> {
        self.pinging.health
    }

    pub(super) fn tell_mesh(&mut self, command: MeshCommand) {
        self.outbox.push_back(Action::Mesh(command));
    }

    /// Tells the mesh of endpoints that came, went or changed. One that went takes its address with it.
    pub(super) fn mesh_endpoints(&mut self) {
        let endpoints: Vec<_> = self.endpoints.values().filter(|info| may_ping(info)).cloned().collect();
        if endpoints == self.pinging.endpoints {
            return;
        }
        self.pinging.addresses.retain(|name, _| endpoints.iter().any(|info| info.name == *name));
        self.pinging.endpoints.clone_from(&endpoints);
        self.tell_mesh(MeshCommand::Endpoints(endpoints));
    }

    /// Takes a grant of this epoch.
    pub(super) fn mesh_grant(&mut self, frame: &ToAgent, now: Now) {
        let ToAgent::Grant {
            epoch,
            generation,
            expires_in,
            pings_per_second,
            pings_per_batch,
            labels,
            cross_rail_every,
            sweep,
        } = *frame
        else {
            return;
        };
        if epoch == self.epoch {
            let until = now.mono.after(expires_in);
            let grant =
                MeshGrant { until, pings_per_second, pings_per_batch, labels, cross_rail_every, sweep };
            self.mesh.grant(generation, grant);
        }
    }

    /// Does what time and the events before ask for: tells the mesh what it may send now, and sends batches that have waited.
    pub(super) fn mesh_due(&mut self, now: Now) {
        let grant = if self.paused().all { None } else { self.mesh.for_pings(now.mono) };
        if grant != self.pinging.grant {
            self.pinging.grant = grant;
            self.tell_mesh(MeshCommand::Grant(grant));
        }
        if self.pinging.send_at.is_some_and(|at| now.mono >= at) {
            self.send_pings();
        }
    }

    pub(super) fn mesh_event(&mut self, event: MeshEvent, now: Now) {
        match event {
            MeshEvent::Opened(name, address) => {
                // What was opened for an endpoint that has gone since will be closed.
                if self.pinging.endpoints.iter().any(|info| info.name == name) {
                    let before = self.pinging.addresses.insert(name, address);
                    self.address_changed(before != Some(address), now);
                }
            }
            MeshEvent::Closed(name, _) => {
                let had = self.pinging.addresses.remove(&name).is_some();
                self.address_changed(had, now);
            }
            MeshEvent::Pings(local, peer, stats) => self.pinged(local, peer, *stats, now),
            MeshEvent::Heard(heard) => {
                if self.takes_pings() {
                    self.pinging.heard.push(heard);
                    self.wait_or_send(PINGS_AFTER, now);
                } else {
                    self.pinging.dropped += 1;
                }
            }
            MeshEvent::Unreachable(local, peer, failure) => self.unreachable(local, peer, failure, now),
            MeshEvent::Health(health) => self.pinging.health = Some(health),
        }
    }

    fn address_changed(&mut self, changed: bool, now: Now) {
        if changed && self.is_connected() {
            self.send_inventory(now);
        }
    }

    /// No ping could be sent at all, which is a failed probe of the pair like any other.
    fn unreachable(&mut self, local: EndpointName, peer: EndpointName, failure: Failure, now: Now) {
        if !self.takes_pings() {
            return;
        }
        let result = ProbeResult {
            lease: None,
            local,
            peer,
            role: Role::Source,
            metric: Some(Metric::Ping),
            measured_at: now.wall,
            outcome: Outcome::Failed(failure),
            effects: None,
            evidence: String::new(),
        };
        self.send(ToCoordinator::Results(vec![result]));
    }

    fn pinged(&mut self, local: EndpointName, peer: EndpointName, stats: PingStats, now: Now) {
        if self.takes_pings() {
            let lost = stats.small.sent + stats.large.sent > stats.small.answered + stats.large.answered;
            self.pinging.reports.push(PingReport { local, peer, measured_at: now.wall, stats });
            self.wait_or_send(if lost { SOON_AFTER } else { PINGS_AFTER }, now);
        } else {
            self.pinging.dropped += 1;
        }
    }

    fn wait_or_send(&mut self, at_most: Duration, now: Now) {
        let most = if self.mesh.has_numbers() { NUMBERED_PER_FRAME_MAX } else { PINGS_PER_FRAME_MAX };
        if self.pinging.reports.len().max(self.pinging.heard.len()) >= most {
            return self.send_pings();
        }
        let passes = self.pinging.grant.is_some_and(|grant| grant.sweep.is_some());
        let by = now.mono.after(if passes { SOON_AFTER } else { at_most });
        self.pinging.send_at = Some(self.pinging.send_at.map_or(by, |at| at.min(by)));
    }

    /// Sends what waits: by numbers whatever has some, by names the rest.
    fn send_pings(&mut self) {
        self.pinging.send_at = None;
        let (mut reports, mut heard) = (Vec::new(), Vec::new());
        let (mut named_reports, mut named_heard) = (Vec::new(), Vec::new());
        for report in std::mem::take(&mut self.pinging.reports) {
            match self.numbered_report(&report) {
                Some(numbered) => reports.push(numbered),
                None => named_reports.push(report),
            }
        }
        for one in std::mem::take(&mut self.pinging.heard) {
            match self.numbered_heard(&one) {
                Some(numbered) => heard.push(numbered),
                None => named_heard.push(one),
            }
        }
        if !reports.is_empty() || !heard.is_empty() {
            self.send(ToCoordinator::Numbered { reports, heard });
        }
        while !named_reports.is_empty() || !named_heard.is_empty() {
            let reports = named_reports.split_off(named_reports.len().saturating_sub(PINGS_PER_FRAME_MAX));
            let heard = named_heard.split_off(named_heard.len().saturating_sub(PINGS_PER_FRAME_MAX));
            self.send(ToCoordinator::Pings { reports, heard });
        }
    }

    fn numbered_report(&self, report: &PingReport) -> Option<NumberedReport> {
        let stats = &report.stats;
        let countable = stats.small.sent.max(stats.large.sent) <= PINGS_OF_A_SIZE_MAX;
        countable.then_some(NumberedReport {
            local: self.mesh.number_of(&report.local)?,
            peer: self.mesh.number_of(&report.peer)?,
            measured_at: report.measured_at,
            batch: stats.batch,
            figures: PackedPings::pack(&PingFigures::from(stats)),
        })
    }

    fn numbered_heard(&self, heard: &Heard) -> Option<NumberedHeard> {
        Some(NumberedHeard {
            local: self.mesh.number_of(&heard.local)?,
            peer: self.mesh.number_of(&heard.peer)?,
            batch: heard.batch,
            small: u8::try_from(heard.small).ok()?,
            large: u8::try_from(heard.large).ok()?,
        })
    }

    /// Batches that wait are old news when the coordinator is back: the same pairs are pinged again within the coverage time.
    pub(super) fn drop_pings(&mut self) {
        let waiting = self.pinging.reports.len() + self.pinging.heard.len();
        self.pinging.dropped += waiting as u64;
        self.pinging.reports.clear();
        self.pinging.heard.clear();
        self.pinging.send_at = None;
    }

    /// The coordinator is there and knows what pings are.
    fn takes_pings(&self) -> bool {
        matches!(self.uplink, Uplink::Up { protocol, .. } if protocol >= PINGS_SINCE)
    }
}
