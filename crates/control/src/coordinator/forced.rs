//! Forced probes: an operator names one pair and has it probed although a job may be there. They expire, and the history has both
//! their beginning and their end.

use super::ask::PairRequest;
use super::commands::CommandError;
use super::work::{Job, Origin};
use super::{Coordinator, RowKind};
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{Metric, Mono, Now, Urgency};
use std::collections::BTreeMap;
use std::time::Duration;

/// A forced probe that could not begin in this time never does: the operator's look at the job is out of date by then. A minute is
/// ten leases of its endpoints.
const FORCED_FOR: Duration = Duration::from_secs(60);

/// Oldest protocol version with forced probes.
const FORCED_SINCE: u32 = rdmascope_link::PINGS_SINCE;

/// The forced probes that are not over.
#[derive(Clone, Debug, Default)]
pub(super) struct Forced {
    running: BTreeMap<u64, Order>,
}

#[derive(Clone, Debug)]
struct Order {
    source: EndpointIndex,
    target: EndpointIndex,
    until: Mono,
    /// It has not run out yet.
    valid: bool,
}

impl Forced {
    /// When the next one runs out.
    pub(super) fn next_expiry(&self) -> Option<Mono> {
        self.running.values().filter(|order| order.valid).map(|order| order.until).min()
    }
}

impl Coordinator {
    /// Begins one pair's probe although a job may be there. Limits, pauses and the guard against congestion hold all the same.
    ///
    /// # Errors
    /// As for a probe that is not forced; or an agent is too old to know of such probes.
    pub fn start_forced_probe(
        &mut self,
        source: &str,
        target: &str,
        metrics: &[Metric],
        now: Now,
    ) -> Result<u64, CommandError> {
        let request = PairRequest::ordinary(source, target, metrics);
        self.start_pair(&PairRequest { forced: true, ..request }, now)
    }

    /// Both agents know what a forced probe is.
    pub(super) fn know_forced_probes(&self, ends: [EndpointIndex; 2]) -> Result<(), CommandError> {
        for index in ends {
            let node = &self.matrix.name(index).node;
            if let Some(agent) = self.members.agent(node).filter(|agent| agent.protocol < FORCED_SINCE) {
                let text = format!(
                    "the agent of {node} (version {}) knows no forced probes: update it",
                    agent.version
                );
                return Err(CommandError::Conflict(text));
            }
        }
        Ok(())
    }

    /// A forced probe was accepted; said before its first lease goes out.
    pub(super) fn forced_begins(
        &mut self,
        id: u64,
        [source, target]: [EndpointIndex; 2],
        what: &str,
        now: Now,
    ) {
        let until = now.mono.after(FORCED_FOR);
        self.forced.running.insert(id, Order { source, target, until, valid: true });
        let end = format!("it must begin within {} s", FORCED_FOR.as_secs());
        self.note_forced(source, target, &format!("of {what} was ordered; {end}"), now);
    }

    /// A job of a forced probe that has run out: it must not begin any more.
    pub(super) fn is_out_of_date(&self, job: &Job) -> bool {
        let Origin::Run(id, _) = job.origin else { return false };
        job.urgency == Urgency::Forced && self.forced.running.get(&id).is_none_or(|order| !order.valid)
    }

    /// Lets forced probes run out; true when one did, so that it is taken from the queue.
    pub(super) fn expire_forced(&mut self, now: Now) -> bool {
        let mut changed = false;
        for order in self.forced.running.values_mut().filter(|order| order.valid && order.until <= now.mono) {
            order.valid = false;
            changed = true;
        }
        changed
    }

    /// Writes down which forced probes are over.
    pub(super) fn end_forced(&mut self, now: Now) {
        let over = |id: u64| self.probe(id).is_none_or(|run| run.left == 0);
        let ids: Vec<u64> = self.forced.running.keys().copied().filter(|id| over(*id)).collect();
        for id in ids {
            let Some(Order { source, target, valid, .. }) = self.forced.running.remove(&id) else { continue };
            let how = if valid { "is over" } else { "ran out: what had not begun by then was not run" };
            self.note_forced(source, target, how, now);
        }
    }

    /// Both nodes' histories have it.
    fn note_forced(&mut self, source: EndpointIndex, target: EndpointIndex, what: &str, now: Now) {
        let [from, to] = [source, target].map(|index| self.matrix.name(index).clone());
        let text = format!("the forced probe {from} -> {to} {what}");
        for end in [&from, &to] {
            let subject = format!("{}/{}", end.device, end.port);
            self.note(&end.node, RowKind::ForcedProbe, &subject, "", text.clone(), now);
        }
    }
}
