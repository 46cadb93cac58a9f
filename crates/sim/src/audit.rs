//! What must never happen, watched from outside of the states: every frame that reaches an agent, and everything that it then does.

use crate::cluster::Cluster;
use rdmascope_control::agent::Agent;
use rdmascope_link::{EVENTS_SINCE, PINGS_SINCE, ToAgent};
use rdmascope_model::{LeaseId, Manner, Mono, ProbeSpec};
use rdmascope_probe::mesh::MeshGrant;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// An agent ends a lease by itself so much after it is over, in case its transport did not (`control`, `sessions.rs`).
const BACKSTOP: Duration = Duration::from_millis(300);

/// What one agent was told since its process began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    epoch: u64,
    protocol: u32,
    /// Leases of the newest epoch and of the newest connection, and until when they are good.
    leases: BTreeMap<LeaseId, Mono>,
    granted_until: Mono,
}

/// One event of an agent: node, run of the agent, and the agent's number.
pub type EventKey = (String, u64, u64);

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audit {
    told: BTreeMap<usize, Told>,
    wrong: Vec<String>,
    /// Events that agents were told to forget.
    safe: BTreeSet<EventKey>,
}

impl Cluster {
    /// What happened though it must not, in words.
    #[must_use]
    pub fn wrong(&self) -> &[String] {
        &self.audit.wrong
    }

    /// Events of which an agent was told that they are in the history.
    pub fn safe_events(&self) -> impl Iterator<Item = &EventKey> {
        self.audit.safe.iter()
    }

    pub(crate) fn audit_start(&mut self, host: usize) {
        self.audit.told.insert(host, Told::default());
    }

    /// A frame reaches an agent.
    pub(crate) fn audit_frame(&mut self, host: usize, frame: &ToAgent) {
        let (now, elapsed) = (self.now, self.elapsed());
        let told = self.audit.told.entry(host).or_default();
        let mut wrong = None;
        match frame {
            ToAgent::Welcome { epoch, protocol, .. } if *epoch >= told.epoch => {
                if *epoch > told.epoch {
                    told.granted_until = Mono(0);
                }
                (told.epoch, told.protocol) = (*epoch, *protocol);
                told.leases.clear();
            }
            ToAgent::Lease { epoch, plan, .. } if *epoch == told.epoch => {
                told.leases.retain(|_, until| *until > now);
                told.leases.insert(plan.lease, now.after(plan.expires_in + BACKSTOP));
                let new = plan.manner != Manner::default()
                    || matches!(plan.spec, ProbeSpec::Pings(_) | ProbeSpec::Echo(_));
                if new && told.protocol < PINGS_SINCE {
                    wrong = Some(format!(
                        "is asked for {plan:?}, which protocol {} does not know",
                        told.protocol
                    ));
                }
            }
            ToAgent::LeaseEnd { lease } => drop(told.leases.remove(lease)),
            ToAgent::Grant { epoch, expires_in, .. } if *epoch == told.epoch => {
                told.granted_until = told.granted_until.max(now.after(*expires_in));
            }
            ToAgent::EventsSeen { number } => {
                if told.protocol < EVENTS_SINCE {
                    wrong = Some(format!("hears of events, which protocol {} does not know", told.protocol));
                }
                let it = &self.hosts[host];
                let (node, run) = (it.node.clone(), it.runs);
                let from = it.events[1];
                let keys = (from + 1..=*number).map(|number| (node.clone(), run, number));
                self.audit.safe.extend(keys);
                self.hosts[host].events[1] = from.max(*number);
            }
            _ => {}
        }
        self.complain(elapsed, host, wrong);
    }

    /// An agent has obeyed a frame: by the newest epoch that it has seen, and no other.
    pub(crate) fn audit_epoch(&mut self, host: usize) {
        let elapsed = self.elapsed();
        let told = self.audit.told.get(&host).map_or(0, |told| told.epoch);
        let wrong = self.agent(host).map(Agent::epoch).filter(|epoch| *epoch != told);
        let wrong = wrong.map(|epoch| format!("obeys epoch {epoch}, and has seen {told}"));
        self.complain(elapsed, host, wrong);
    }

    /// An agent has its transport do something for a lease.
    pub(crate) fn audit_probe(&mut self, host: usize, lease: LeaseId, what: &str) {
        let (now, elapsed) = (self.now, self.elapsed());
        let good = self.audit.told.get(&host).and_then(|told| told.leases.get(&lease));
        let wrong = match good {
            None => Some(format!("{what} {lease} without a lease of its newest epoch and connection")),
            Some(until) if now > *until => Some(format!("{what} {lease} after its lease was over")),
            Some(_) => None,
        };
        self.complain(elapsed, host, wrong);
    }

    /// An agent tells its mesh what it may send.
    pub(crate) fn audit_grant(&mut self, host: usize, grant: Option<MeshGrant>) {
        let elapsed = self.elapsed();
        let told = self.audit.told.get(&host).map_or(Mono(0), |told| told.granted_until);
        let more = grant.filter(|grant| grant.until > told);
        let wrong = more.map(|grant| format!("may ping until {:?}, and was granted {told:?}", grant.until));
        self.complain(elapsed, host, wrong);
    }

    fn complain(&mut self, at: Duration, host: usize, wrong: Option<String>) {
        let node = &self.hosts[host].node;
        self.audit.wrong.extend(wrong.map(|wrong| format!("at {at:?}: {node} {wrong}")));
    }
}
