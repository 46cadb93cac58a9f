//! One lease while it runs: what both sides said, and what that makes of the pair's cells.

use super::ConnectionId;
use super::work::Job;
use rdmascope_link::ProbeResult;
use rdmascope_localise::pair::Told;
use rdmascope_model::{
    Cause, CounterDelta, Exclusion, Failure, Load, Mono, Now, Operation, Outcome, ProbeSpec, Role, Side, Step,
};
use std::time::Duration;

/// After a symptom (no acknowledgement, no progress) the other side has so long to name a cause; after the source's result
/// the target has so long to tell what it saw.
const OTHER_SIDE_WITHIN: Duration = Duration::from_millis(500);

/// A lease that both agents hold.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub(super) job: Job,
    pub(super) began: Now,
    /// When the coordinator judges by what it has.
    pub(super) judge_at: Mono,
    /// Connections of source and target at its beginning.
    pub(super) connections: [ConnectionId; 2],
    /// The machines that it occupies; a node that restarts may come back with another boot id.
    pub(super) machines: Vec<String>,
    /// The leaves whose uplinks it crosses.
    pub(super) uplinks: Vec<String>,
    /// The most that it may send, bytes.
    pub(super) bytes_at_most: u64,
    /// The target of a stream or of datagrams tells how it ended, too: its agent is new enough, and a report wants it.
    pub(super) target_tells: bool,
    ready: [bool; 2],
    results: [Option<ProbeResult>; 2],
    gone: [bool; 2],
}

/// What a lease leaves in a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CellNews {
    Measured(Box<ProbeResult>),
    Failed(Failure),
    Excluded(Exclusion),
    /// This lease says nothing about the cell.
    Nothing,
}

/// Place of a role in the arrays of two.
pub(super) fn place(role: Role) -> usize {
    match role {
        Role::Source => 0,
        Role::Target => 1,
    }
}

impl Lease {
    pub(super) fn new(
        job: Job,
        began: Now,
        judge_at: Mono,
        connections: [ConnectionId; 2],
        machines: Vec<String>,
    ) -> Self {
        Self {
            job,
            began,
            judge_at,
            connections,
            machines,
            uplinks: Vec::new(),
            bytes_at_most: 0,
            target_tells: false,
            ready: [false; 2],
            results: [None, None],
            gone: [false; 2],
        }
    }

    /// One side is connected; answers whether both are now.
    pub(super) fn ready(&mut self, role: Role) -> bool {
        self.ready[place(role)] = true;
        self.ready == [true; 2]
    }

    /// What both sides told.
    pub(super) fn told(&self) -> [Option<Told>; 2] {
        let told =
            |result: &ProbeResult| Told { outcome: result.outcome.clone(), effects: result.effects.clone() };
        [0, 1].map(|at| self.results[at].as_ref().map(told))
    }

    /// The role of the agent behind a connection in this lease.
    pub(super) fn role_of(&self, connection: ConnectionId) -> Option<Role> {
        match self.connections {
            [source, _] if source == connection => Some(Role::Source),
            [_, target] if target == connection => Some(Role::Target),
            _ => None,
        }
    }

    /// One side told how it ended.
    pub(super) fn result(&mut self, role: Role, result: ProbeResult, now: Mono) {
        if let Outcome::Failed(failure) = &result.outcome
            && rank(failure.cause) > 0
        {
            self.judge_at = self.judge_at.min(now.after(OTHER_SIDE_WITHIN));
        }
        let over = match result.outcome {
            // What the target of such a probe sends is measured for itself, and may take longer.
            Outcome::Bandwidth(..) => role == Role::Source && !self.job.manner.both_ways,
            Outcome::Pings(_) | Outcome::Echo(_) => role == Role::Source,
            Outcome::Aborted(..) => true,
            // The device of the target answers reads; its agent may have nothing to say.
            Outcome::Latency(..) if self.job.manner.operation == Operation::Read => role == Role::Source,
            Outcome::Latency(..) | Outcome::Served | Outcome::Failed(_) | Outcome::Excluded(_) => false,
        };
        if over {
            self.judge_at = self.judge_at.min(now.after(OTHER_SIDE_WITHIN));
        }
        self.results[place(role)] = Some(result);
    }

    /// The agent of one side is gone.
    pub(super) fn lost(&mut self, role: Role) {
        self.gone[place(role)] = true;
    }

    /// Everything that will ever be said has been said, or enough to judge by.
    pub(super) fn is_decided(&self, now: Mono) -> bool {
        let decides = |result: &ProbeResult| match &result.outcome {
            Outcome::Failed(failure) => rank(failure.cause) == 0,
            Outcome::Excluded(_) => true,
            Outcome::Bandwidth(..) | Outcome::Pings(_) | Outcome::Echo(_) | Outcome::Aborted(..) => {
                result.role == Role::Source && !self.target_tells
            }
            Outcome::Latency(..) | Outcome::Served => false,
        };
        let answered = |at: usize| self.results[at].is_some() || self.gone[at];
        // Who reported before it went owes nothing: the other side may still complete the pair.
        let gone_unheard = |at: usize| self.gone[at] && self.results[at].is_none();
        now >= self.judge_at
            || gone_unheard(0)
            || gone_unheard(1)
            || self.results.iter().flatten().any(decides)
            || (answered(0) && answered(1))
    }

    /// What the cells source→target and target→source get. `named` is a cause that the endpoints' inventories name by
    /// now, such as a port that went down: it explains a symptom better than the symptom does.
    pub(super) fn verdict(&self, named: Option<Failure>) -> [CellNews; 2] {
        let both_ways = self.job.spec.fills_both();
        if let Some(why) = self.excluded() {
            let other = if both_ways { CellNews::Excluded(why) } else { CellNews::Nothing };
            return [CellNews::Excluded(why), other];
        }
        if let Some(failure) = self.failure(named) {
            let other = if both_ways { CellNews::Failed(mirrored(&failure)) } else { CellNews::Nothing };
            return [CellNews::Failed(failure), other];
        }
        let gave_up = |result: &ProbeResult| {
            matches!(result.outcome, Outcome::Aborted(..)) && result.role == Role::Target
        };
        if let (None, Some(result)) = (&self.results[0], self.results[1].as_ref().filter(|r| gave_up(r))) {
            return [CellNews::Measured(Box::new(result.clone())), CellNews::Nothing];
        }
        let news = |at: usize| {
            let result = self.results[at].clone();
            result.map_or(CellNews::Nothing, |result| CellNews::Measured(Box::new(result)))
        };
        let back = match &self.job.spec {
            ProbeSpec::Pings(_) => mirrored_news(&news(0)),
            spec if spec.fills_both() => news(1),
            _ => CellNews::Nothing,
        };
        [news(0), back]
    }

    fn excluded(&self) -> Option<Exclusion> {
        self.results.iter().flatten().find_map(|result| match result.outcome {
            Outcome::Excluded(why) => Some(why),
            _ => None,
        })
    }

    /// The most telling failure, as seen from the source; `None` when the probe completed.
    fn failure(&self, named: Option<Failure>) -> Option<Failure> {
        let mut candidates: Vec<Failure> = Vec::new();
        for result in self.results.iter().flatten() {
            if let Outcome::Failed(failure) = &result.outcome {
                candidates.push(from_source(failure.clone(), result.role));
            }
        }
        candidates.extend(self.silence());
        let failed = !candidates.is_empty();
        candidates.extend(named.filter(|_| failed));
        let told = candidates.into_iter().min_by_key(|failure| rank(failure.cause))?;
        Some(self.with_what_else_was_said(told))
    }

    /// Adds what the ends reported beside the failure that is told: what both saw says more than what one saw. Ends are named
    /// and not called source and target, since the opposite direction's cell tells the same words.
    fn with_what_else_was_said(&self, told: Failure) -> Failure {
        let mut words: Vec<String> =
            Vec::from_iter((!told.evidence.is_empty()).then(|| told.evidence.clone()));
        for result in self.results.iter().flatten() {
            let Outcome::Failed(failure) = &result.outcome else { continue };
            if from_source(failure.clone(), result.role) == told {
                continue;
            }
            let evidence = if failure.evidence.is_empty() { failure.cause.text() } else { &failure.evidence };
            let (step, cause) = (failure.step.as_str(), failure.cause.id());
            words.push(format!("{} at step {step}: {cause}: {evidence}", result.local));
        }
        Failure { evidence: words.join("; "), ..told }
    }

    /// The failure that lies in what was not said.
    fn silence(&self) -> Option<Failure> {
        let coordinator = |cause, step, evidence: &str| {
            Some(Failure { cause, step, side: Side::Coordinator, evidence: evidence.to_owned() })
        };
        let said = |at: usize| self.results[at].is_some();
        // Who gave up has told why, and the other side may have nothing to add.
        let gave_up = |result: &ProbeResult| matches!(result.outcome, Outcome::Aborted(..));
        if self.results.iter().flatten().any(gave_up) {
            return None;
        }
        // The target of a bandwidth probe only receives: it has nothing to say, even when nothing arrives.
        let both_send = self.job.spec.load() == Load::Spins && self.job.manner.operation != Operation::Read;
        let sends = both_send || self.job.manner.both_ways;
        let target_owes = sends || !said(0);
        // Such a symptom is the network's or a device's; it comes after the peer did its part of the set-up, and often
        // long before the peer's own patience ends: that the peer has not spoken yet proves nothing.
        let told_by_the_network = self.results.iter().flatten().any(
            |result| matches!(&result.outcome, Outcome::Failed(failure) if rank(failure.cause) == SYMPTOM_OF_THE_NETWORK),
        );
        match (self.gone, said(0), said(1)) {
            ([true, _], false, _) => coordinator(Cause::AgentGone, Step::Measure, "its connection ended"),
            ([_, true], _, false) if target_owes => {
                coordinator(Cause::PeerGone, Step::Measure, "its connection ended")
            }
            _ if told_by_the_network => None,
            (_, false, _) => coordinator(Cause::AgentSilent, Step::Measure, "no result within the lease"),
            (_, true, false) if target_owes => {
                coordinator(Cause::PeerSilent, Step::Measure, "no result within the lease")
            }
            _ => None,
        }
    }
}

/// A target's word about its peer is about the source.
fn from_source(failure: Failure, role: Role) -> Failure {
    match role {
        Role::Source => failure,
        Role::Target => Failure { cause: other_end(failure.cause), ..failure },
    }
}

/// The same failure as the opposite direction's cell tells it.
fn mirrored(failure: &Failure) -> Failure {
    let side = match failure.side {
        Side::Source => Side::Target,
        Side::Target => Side::Source,
        Side::Coordinator => Side::Coordinator,
    };
    Failure { cause: other_end(failure.cause), side, ..failure.clone() }
}

/// The news of a pair as the opposite direction's cell tells them.
pub(super) fn mirrored_news(news: &CellNews) -> CellNews {
    match news {
        CellNews::Failed(failure) => CellNews::Failed(mirrored(failure)),
        CellNews::Measured(result) if let Outcome::Pings(stats) = &result.outcome => {
            let outcome = Outcome::Pings(Box::new(stats.mirrored()));
            CellNews::Measured(Box::new(ProbeResult { outcome, ..(**result).clone() }))
        }
        other => other.clone(),
    }
}

fn other_end(cause: Cause) -> Cause {
    match cause {
        Cause::PeerGone => Cause::AgentGone,
        Cause::AgentGone => Cause::PeerGone,
        Cause::PeerSilent => Cause::AgentSilent,
        Cause::AgentSilent => Cause::PeerSilent,
        other => other,
    }
}

/// The rank of what the network or a device told.
const SYMPTOM_OF_THE_NETWORK: u8 = 2;

/// How much a cause explains: 0 names the culprit, 1 says who did not answer, 2 is what the network or a device told, 3 is
/// that nothing came, which anything may have caused.
pub(super) fn rank(cause: Cause) -> u8 {
    match cause {
        Cause::PeerSilent | Cause::AgentSilent | Cause::PeerGone | Cause::AgentGone => 1,
        Cause::RetryExceeded
        | Cause::PathLost
        | Cause::ConnectionRejected
        | Cause::ReceiverNotReady
        | Cause::RemoteAccess
        | Cause::RemoteFault
        | Cause::NoRoute
        | Cause::ConnectRefused => SYMPTOM_OF_THE_NETWORK,
        Cause::NoFirstByte | Cause::Stalled => 3,
        _ => 0,
    }
}

/// The counters that came with a result.
pub(super) fn counters(outcome: &Outcome) -> Option<CounterDelta> {
    match outcome {
        Outcome::Latency(_, delta) | Outcome::Bandwidth(_, delta) | Outcome::Aborted(_, delta, _) => {
            Some(*delta)
        }
        Outcome::Pings(_)
        | Outcome::Echo(_)
        | Outcome::Served
        | Outcome::Failed(_)
        | Outcome::Excluded(_) => None,
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
