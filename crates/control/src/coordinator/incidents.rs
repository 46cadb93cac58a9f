//! The incidents of the cluster: when the judge looks, what it has measured again, and what is written into the history of what it finds.

use super::pass::PINGS_PER_SECOND;
use super::settings::{LOOK_EVERY, RETESTS_AT_ONCE, RETESTS_WAITING_MAX};
use super::sweep::Sweep;
use super::work::{Job, Origin};
use super::{Coordinator, RowKind};
use rdmascope_link::{Fact, FindingBrief};
use rdmascope_localise as localise;
use rdmascope_localise::pair::{ceiling_bps, expected_mtu};
use rdmascope_localise::{
    Change, Component, EndpointIndex, Incident, IncidentState, Input, Judge, Names, PlaceIndex, Reason,
    Retest, Told,
};
use rdmascope_model::{
    Cause, EndpointInfo, Load, Manner, Metric, Mono, Now, PingSpec, ProbeSpec, Status, Urgency, Wall,
};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// What of a difference between nodes can be the reason of what the matrix shows; versions differ for weeks without any harm.
const DRIFT_EXPLAINS: [&str; 7] = ["netdev_mtu", "rdma_mtu", "pfc", "dscp", "trust", "gid_index", "rate"];
/// What changes how long an endpoint takes: after such a change it is compared with itself anew.
const MADE_OF: [&str; 3] = ["firmware", "driver", "rate"];
/// While somebody is suspected or to blame, time alone changes the verdict, too.
const LOOK_ANYWAY: Duration = Duration::from_secs(10);
/// Batches of pings that were under way while an agent was away end within this after it is back: a batch takes 6 s, its last answer
/// and what is asked for then 2 s, and 2 s may pass until it is told.
const RESTART_SHOWS_FOR: Duration = Duration::from_secs(10);
/// At so many pings a second, the rate of a pass, an endpoint's receive buffers (32, with two answers to each ping) last for so long.
const BUFFERS_LAST: (u32, Duration) = (PINGS_PER_SECOND, Duration::from_millis(20));
/// A driver that is loaded again takes its device away for less than this.
const GONE_FOR: Duration = Duration::from_secs(30);

/// All that are held in memory, and the judge.
#[derive(Clone, Debug, Default)]
pub(super) struct Incidents {
    judge: Judge,
    known: localise::Incidents,
    looked_at: Option<Mono>,
    /// The matrix as it was then; it grows with findings, too.
    seen: u64,
    /// Runs of agents, by node, as they were at the last look.
    runs: BTreeMap<String, Run>,
}

/// One agent's run.
#[derive(Clone, Copy, Debug)]
struct Run {
    instance: u64,
    there: bool,
    /// What was measured before says nothing of its endpoints.
    counted_from: Wall,
}

impl Incidents {
    /// Somebody is suspected or to blame.
    fn busy(&self) -> bool {
        self.known.all().iter().any(|incident| incident.state != IncidentState::Closed)
    }

    /// When to look again; `revision` is the matrix's.
    pub(super) fn next_look(&self, revision: u64, endpoints: usize) -> Option<Mono> {
        let Some(looked_at) = self.looked_at else { return (endpoints > 0).then_some(Mono(0)) };
        let every = look_every(endpoints);
        let waits =
            if revision != self.seen { Some(every) } else { self.busy().then_some(every.max(LOOK_ANYWAY)) };
        waits.map(|wait| looked_at.after(wait))
    }
}

/// A look takes 80 ms of a processor at 1,024 endpoints and 1 s at 4,096; it grows with their square. So looks cost 2 % of one at most:
/// every 2 s up to 724 endpoints, 4 s at 1,024, a minute at 4,096.
fn look_every(endpoints: usize) -> Duration {
    let share = u32::try_from(endpoints.saturating_mul(endpoints) >> 19).unwrap_or(u32::MAX);
    LOOK_EVERY * share.max(1)
}

impl Coordinator {
    /// Incidents, suspected and closed ones too, in the order of their numbers.
    #[must_use]
    pub fn incidents(&self) -> &[Incident] {
        self.incidents.known.all()
    }

    /// Brings back incidents that an earlier coordinator kept.
    pub fn restore_incidents(&mut self, kept: Vec<Incident>) {
        self.incidents.known.restore(kept);
    }

    /// Looks at the matrix when it is time to; true when there is something to be measured again.
    pub(super) fn look_for_incidents(&mut self, now: Now) -> bool {
        let next = self.incidents.next_look(self.matrix.revision(), self.matrix.len());
        if next.is_none_or(|at| at > now.mono) {
            return false;
        }
        self.incidents.looked_at = Some(now.mono);
        self.incidents.known.renumber(&self.standing.places);
        let counted_from = self.counted_from(now);
        let (silenced, told) = (self.silenced(), self.told(now.wall));
        let input = Input {
            matrix: &self.matrix,
            places: &self.standing.places,
            silenced: &silenced,
            counted_from: &counted_from,
            ceilings: &self.ceilings(),
            made_of: &self.made_of(),
            told: &told,
            now: now.wall,
            fresh_for: self.fresh_for(),
            buffers_last: self.buffers_last(now),
        };
        let look = self.incidents.judge.look(&input);
        let names = Names { matrix: &self.matrix, places: &self.standing.places };
        let changes = self.incidents.known.look(&look.judged, &names, now.wall);
        for (id, change) in changes {
            self.note_incident(id, change, now);
        }
        self.incidents.seen = self.matrix.revision();
        self.ask_again(&look.retests, now)
    }

    fn note_incident(&mut self, id: u64, change: Change, now: Now) {
        let Some(incident) = self.incidents.known.all().iter().find(|incident| incident.id == id) else {
            return;
        };
        let (kind, text) = match change {
            Change::Opened => (RowKind::IncidentOpened, format!("incident {id}: {}", incident.title)),
            Change::Closed => (RowKind::IncidentClosed, format!("incident {id} is over: {}", incident.title)),
        };
        let node = match incident.suspect.components.first() {
            Some(Component::Endpoint(endpoint) | Component::Pair(endpoint, _)) => {
                self.matrix.name(*endpoint).node.clone()
            }
            Some(Component::Node(node)) => {
                self.standing.places.nodes.get(node.0 as usize).cloned().unwrap_or_default()
            }
            _ => String::new(),
        };
        let subject = incident.subjects.join(", ");
        self.note(&node, kind, &subject, &id.to_string(), text, now);
        if change == Change::Closed {
            self.forget_acknowledgement(id);
        }
        self.matrix.touch();
    }

    /// Endpoints on which somebody works, or that are paused: they are not judged.
    fn silenced(&self) -> Vec<bool> {
        let quiet: BTreeMap<&str, bool> = (self.members.agents())
            .map(|(node, _)| (node, self.health.maintenance_of(node).is_some() || self.pause_of(node).all))
            .collect();
        self.by_endpoint(|info| quiet.get(info.name.node.as_str()).copied().unwrap_or(false))
    }

    /// One value for each endpoint of the matrix, the default for those that no agent has told of.
    fn by_endpoint<T: Clone + Default>(&self, value: impl Fn(&EndpointInfo) -> T) -> Vec<T> {
        let mut all = vec![T::default(); self.matrix.len()];
        for (index, endpoint) in self.members.endpoints() {
            if let Some(slot) = all.get_mut(index.0 as usize) {
                *slot = value(&endpoint.info);
            }
        }
        all
    }

    /// From when on what was measured to or from each endpoint counts: nobody answers while an agent starts anew.
    fn counted_from(&mut self, now: Now) -> Vec<Wall> {
        let back = Wall(now.wall.0 + u64::try_from(RESTART_SHOWS_FOR.as_millis()).unwrap_or(0));
        for (node, member) in self.members.agents() {
            let there = member.connection.is_some();
            let known = self.incidents.runs.get(node).copied();
            let anew = known.is_some_and(|run| there && (!run.there || run.instance != member.instance));
            let before = known.map_or(Wall(0), |run| run.counted_from);
            let run =
                Run { instance: member.instance, there, counted_from: if anew { back } else { before } };
            self.incidents.runs.insert(node.to_owned(), run);
        }
        let runs = &self.incidents.runs;
        self.by_endpoint(|info| runs.get(&info.name.node).map_or(Wall(0), |run| run.counted_from))
    }

    /// What each endpoint's round trips depend on, as far as its node tells.
    fn made_of(&self) -> Vec<u64> {
        self.by_endpoint(|info| {
            let own = |fact: &&Fact| {
                MADE_OF.contains(&fact.key.as_str())
                    && fact.subject.split('/').next() == Some(info.name.device.as_str())
            };
            let mut hasher = DefaultHasher::new();
            for fact in self.health.facts(&info.name.node).iter().filter(own) {
                (&fact.subject, &fact.key, &fact.value).hash(&mut hasher);
            }
            hasher.finish()
        })
    }

    fn ceilings(&self) -> Vec<Option<u64>> {
        self.by_endpoint(|info| {
            let ends = [info, info];
            ceiling_bps(ends, expected_mtu(ends))
        })
    }

    /// How long the receive buffers of an endpoint last for pings while its host stands still.
    pub(super) fn buffers_last(&self, now: Now) -> Duration {
        let passed = |sweep: &Sweep| {
            let recent = sweep.finished_at.is_none_or(|at| now.wall.since(at) < self.fresh_for());
            sweep.metrics.contains(&Metric::Ping) && recent
        };
        let rate = self.rate().per_second.max(1);
        if self.work.sweep().is_some_and(passed) {
            BUFFERS_LAST.1
        } else {
            BUFFERS_LAST.1 * BUFFERS_LAST.0 / rate
        }
    }

    fn is_there(&self, node: &str) -> bool {
        self.members.agent(node).is_some_and(|member| member.connection.is_some())
    }

    /// What nodes whose agents are there tell of themselves. What is over, or of a node on which somebody works, is not told.
    fn told(&self, now: Wall) -> Vec<Told> {
        let nodes: BTreeMap<&str, PlaceIndex> = (0..)
            .map(PlaceIndex)
            .zip(&self.standing.places.nodes)
            .map(|(at, name)| (name.as_str(), at))
            .collect();
        let mut endpoints: BTreeMap<&str, Vec<(EndpointIndex, &EndpointInfo)>> = BTreeMap::new();
        let mut told = Vec::new();
        let speaks = |node: &str| self.health.maintenance_of(node).is_none();
        for (index, endpoint) in self.members.endpoints() {
            let node = &endpoint.info.name.node;
            match endpoint.gone_since {
                None => endpoints.entry(node).or_default().push((index, &endpoint.info)),
                Some(since) if now.since(since) >= GONE_FOR && speaks(node) && self.is_there(node) => {
                    told.push(gone(index, &endpoint.info, since));
                }
                Some(_) => {}
            }
        }
        let there =
            self.members.agents().filter(|(node, member)| member.connection.is_some() && speaks(node));
        for (node, member) in there {
            let Some(&place) = nodes.get(node) else { continue };
            let own = endpoints.get(node).map_or(&[][..], Vec::as_slice);
            for &(index, info) in own {
                told.extend(unusable(index, info));
            }
            let findings = member.findings.iter().filter(|finding| !finding.latched);
            let drift = self.health.drift().iter().filter(|drift| drift.node == node);
            let drift =
                drift.filter(|drift| DRIFT_EXPLAINS.contains(&drift.key.as_str())).map(super::as_finding);
            told.extend(findings.cloned().chain(drift).map(|finding| Told {
                component: component(&finding.subject, place, own),
                reason: reason(node, finding),
            }));
        }
        told
    }

    /// Puts pairs into the queue of what is measured again; true when there are new ones. Nothing is, while nothing is to run by itself.
    fn ask_again(&mut self, retests: &[Retest], now: Now) -> bool {
        let mut new = false;
        if self.settings.pings_per_second == 0 || self.paused.all {
            return new;
        }
        for retest in retests {
            if self.work.retests_waiting() >= RETESTS_WAITING_MAX {
                break;
            }
            let (spec, urgency) = match retest.metric {
                Metric::Ping => (ProbeSpec::Pings(PingSpec::RETEST), Urgency::Operator),
                // Where pings do not go, its turn comes sooner, within the rate of what runs by itself.
                Metric::Latency => {
                    let spec = self.probe_turns().spec;
                    (ProbeSpec::Latency(spec), Urgency::Background)
                }
                Metric::Bandwidth => (ProbeSpec::usual(Metric::Bandwidth), Urgency::Operator),
            };
            let job = Job {
                source: retest.source,
                target: retest.target,
                spec,
                manner: Manner::default(),
                urgency,
                origin: Origin::Retest,
            };
            if self.work.retest(job, now.mono.after(retest.after)) {
                new = true;
                self.keep_for_incident(retest.source, retest.target, now.wall);
            }
        }
        new
    }

    /// Whether what an endpoint is busy with leaves no room for a job. Pings that are measured again are so few that some run beside each
    /// other.
    pub(super) fn is_busy(&self, leases: &[rdmascope_model::LeaseId], job: &Job) -> bool {
        let light = |job: &Job| job.origin == Origin::Retest && job.spec.load() == Load::Light;
        if !light(job) {
            return !leases.is_empty();
        }
        let beside = |id| self.leases.get(id).is_some_and(|lease| light(&lease.job));
        leases.len() >= RETESTS_AT_ONCE || !leases.iter().all(beside)
    }
}

/// An endpoint that says why it cannot be used.
fn unusable(index: EndpointIndex, info: &EndpointInfo) -> Option<Told> {
    let cause = info.unusable?;
    let summary = format!("{} ({})", cause.text().trim_end_matches('.'), info.unusable_detail);
    Some(of_endpoint(index, info, cause, summary, Wall(0)))
}

/// An endpoint that was there and is not any more, although its agent is.
fn gone(index: EndpointIndex, info: &EndpointInfo, since: Wall) -> Told {
    let cause = Cause::DeviceGone;
    of_endpoint(index, info, cause, cause.text().trim_end_matches('.').to_owned(), since)
}

fn of_endpoint(
    index: EndpointIndex,
    info: &EndpointInfo,
    cause: Cause,
    summary: String,
    since: Wall,
) -> Told {
    let reason = Reason {
        id: cause.id().to_owned(),
        node: info.name.node.clone(),
        subject: format!("{}/{}", info.name.device, info.name.port),
        status: Status::Fail,
        summary,
        next_step: cause.next_step().to_owned(),
        since_ms: since.0,
    };
    Told { component: Component::Endpoint(index), reason }
}

/// What a finding's subject is: an endpoint of the node where it names one, else the node.
fn component(subject: &str, node: PlaceIndex, own: &[(EndpointIndex, &EndpointInfo)]) -> Component {
    let named = |info: &EndpointInfo| {
        let port = format!("{}/{}", info.name.device, info.name.port);
        let netdev = subject.strip_prefix("netdev ").is_some_and(|name| info.netdev.as_deref() == Some(name));
        subject == port || subject == info.name.device || netdev
    };
    let mut matching = own.iter().filter(|(_, info)| named(info));
    match (matching.next(), matching.next()) {
        (Some((index, _)), None) => Component::Endpoint(*index),
        _ => Component::Node(node),
    }
}

fn reason(node: &str, finding: FindingBrief) -> Reason {
    Reason {
        id: finding.id,
        node: node.to_owned(),
        subject: finding.subject,
        status: finding.status,
        summary: finding.summary,
        next_step: finding.next_step,
        since_ms: finding.since.0,
    }
}
