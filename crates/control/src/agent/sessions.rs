//! The leases that this agent holds: each drives one session, with two deadlines of its own.

use super::Action;
use rdmascope_link::{PauseFlags, ProbeResult, RelayPayload, ToCoordinator};
use rdmascope_model::{
    Cause, EndpointInfo, EndpointName, Exclusion, Failure, LeaseId, Load, Mono, Now, Outcome, ProbePlan,
    Step, Urgency,
};
use rdmascope_probe::{Input, Output, Session, TransportEvent};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A transport ends a probe by itself when the lease runs out; the session does so a little later, in case it did not.
const BACKSTOP: Duration = Duration::from_millis(300);

/// Why a lease was not taken.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    Failed(Cause, String),
    /// With what is in the way, where there is more to say than the reason itself does.
    Excluded(Exclusion, String),
    /// The port is not idle: whose traffic that may be is looked for before it is told.
    Busy(String),
}

#[derive(Clone, Debug)]
struct Held {
    session: Session,
    /// It must not start before somebody has looked who holds the device.
    gated: bool,
    /// What waits for that look, while one is under way.
    waiting: Option<Vec<Output>>,
    setup_until: Mono,
    until: Mono,
}

/// All leases that are not closed yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions {
    held: BTreeMap<LeaseId, Held>,
    /// Leases that are refused as soon as it is known who is in the way, with what is known already.
    refused: BTreeMap<LeaseId, (ProbePlan, String)>,
    results: VecDeque<ProbeResult>,
}

impl Sessions {
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Leases on one endpoint.
    pub(super) fn on_endpoint(&self, name: &EndpointName) -> usize {
        self.held.values().filter(|held| held.session.plan().local == *name).count()
    }

    pub(super) fn next_deadline(&self) -> Option<Mono> {
        self.held.values().map(Held::deadline).min()
    }

    /// Hands the results that came up to `take`.
    pub(super) fn take_results(&mut self, mut take: impl FnMut(ProbeResult)) {
        self.results.drain(..).for_each(&mut take);
    }

    /// Begins a lease.
    pub(super) fn open(
        &mut self,
        plan: ProbePlan,
        endpoint: EndpointInfo,
        setup_within: Duration,
        now: Now,
        outbox: &mut VecDeque<Action>,
    ) {
        if self.held.contains_key(&plan.lease) {
            return; // Said twice; it runs already.
        }
        let held = Held {
            setup_until: now.mono.after(setup_within.min(plan.expires_in)),
            until: now.mono.after(plan.expires_in + BACKSTOP),
            gated: plan.urgency == Urgency::Operator && plan.spec.load() == Load::Streams,
            waiting: None,
            session: Session::new(plan.clone()),
        };
        self.held.insert(plan.lease, held);
        outbox.push_back(Action::Prepare(Box::new(plan), Box::new(endpoint)));
    }

    /// Answers a lease that is not taken.
    pub(super) fn refuse(
        &mut self,
        plan: &ProbePlan,
        refusal: Refusal,
        now: Now,
        outbox: &mut VecDeque<Action>,
    ) {
        let told = match refusal {
            Refusal::Excluded(why, evidence) => excluded(plan, why, evidence, now),
            Refusal::Failed(cause, evidence) => {
                let side = plan.role.side();
                result(plan, Outcome::Failed(Failure { cause, step: Step::Admit, side, evidence }), now)
            }
            Refusal::Busy(why) => {
                self.refused.insert(plan.lease, (plan.clone(), why));
                outbox.push_back(Action::Look(plan.lease, plan.local.clone()));
                return;
            }
        };
        self.results.push_back(told);
    }

    /// Somebody has looked who holds the device of a lease: what waited for that goes on, or the lease ends before its first byte.
    /// `idle` says whether its port still is.
    pub(super) fn looked(
        &mut self,
        lease: LeaseId,
        free: Result<(), String>,
        idle: impl Fn(&EndpointName) -> Result<(), String>,
        now: Now,
        outbox: &mut VecDeque<Action>,
    ) {
        if let Some((plan, traffic)) = self.refused.remove(&lease) {
            let evidence =
                free.err().map_or_else(|| traffic.clone(), |holder| format!("{holder}; {traffic}"));
            self.results.push_back(excluded(&plan, Exclusion::Busy, evidence, now));
            return;
        }
        let Some(held) = self.held.get_mut(&lease) else { return };
        let Some(waiting) = held.waiting.take() else { return };
        match free.and_then(|()| idle(&held.session.plan().local)) {
            Ok(()) => waiting.into_iter().for_each(|output| self.put(lease, output, now, outbox)),
            Err(why) => {
                if !held.session.reported() {
                    self.results.push_back(excluded(held.session.plan(), Exclusion::Busy, why, now));
                }
                self.end(lease, outbox);
            }
        }
    }

    /// The transport told something about a lease.
    pub(super) fn transport(
        &mut self,
        lease: LeaseId,
        event: TransportEvent,
        now: Now,
        outbox: &mut VecDeque<Action>,
    ) {
        self.feed(lease, Input::Transport(event), now, outbox);
    }

    /// The other side of a lease said something.
    pub(super) fn relayed(
        &mut self,
        lease: LeaseId,
        payload: RelayPayload,
        now: Now,
        outbox: &mut VecDeque<Action>,
    ) {
        let input = match payload {
            RelayPayload::Offer(offer) => Input::PeerOffer(offer),
            RelayPayload::Ready => Input::PeerReady,
        };
        self.feed(lease, input, now, outbox);
    }

    /// The coordinator ended a lease.
    pub(super) fn end(&mut self, lease: LeaseId, outbox: &mut VecDeque<Action>) {
        self.refused.remove(&lease);
        if self.held.remove(&lease).is_some() {
            outbox.push_back(Action::Close(lease));
        }
    }

    /// A newer coordinator knows nothing of these leases.
    pub(super) fn end_all(&mut self, outbox: &mut VecDeque<Action>) {
        self.refused.clear();
        for lease in std::mem::take(&mut self.held).into_keys() {
            outbox.push_back(Action::Close(lease));
        }
    }

    /// A pause stops what runs already.
    pub(super) fn stop_paused(&mut self, paused: PauseFlags, now: Now, outbox: &mut VecDeque<Action>) {
        let outcome = |plan: &ProbePlan| {
            let stop = paused.all || (paused.bandwidth && plan.spec.load() == Load::Streams);
            stop.then_some(Outcome::Excluded(Exclusion::Policy))
        };
        self.stop(outcome, now, outbox);
    }

    /// What runs on an endpoint that is gone or broken is stopped at once: an open device blocks its own removal.
    /// `trouble` says what is wrong with an endpoint.
    pub(super) fn stop_broken(
        &mut self,
        trouble: impl Fn(&EndpointName) -> Option<(Cause, String)>,
        now: Now,
        outbox: &mut VecDeque<Action>,
    ) {
        let outcome = |plan: &ProbePlan| {
            let (cause, evidence) = trouble(&plan.local)?;
            Some(Outcome::Failed(Failure { cause, step: Step::Measure, side: plan.role.side(), evidence }))
        };
        self.stop(outcome, now, outbox);
    }

    /// Ends the leases for which `outcome` has one, and reports it where nothing was reported yet.
    fn stop(
        &mut self,
        outcome: impl Fn(&ProbePlan) -> Option<Outcome>,
        now: Now,
        outbox: &mut VecDeque<Action>,
    ) {
        let results = &mut self.results;
        self.held.retain(|&lease, held| {
            let plan = held.session.plan();
            let Some(outcome) = outcome(plan) else { return true };
            if !held.session.reported() {
                results.push_back(result(plan, outcome, now));
            }
            outbox.push_back(Action::Close(lease));
            false
        });
    }

    /// Ends what has run out.
    pub(super) fn expire(&mut self, now: Now, outbox: &mut VecDeque<Action>) {
        let due: Vec<_> = self
            .held
            .iter()
            .filter(|(_, held)| held.deadline() <= now.mono)
            .map(|(&lease, held)| (lease, held.until <= now.mono))
            .collect();
        for (lease, over) in due {
            self.feed(lease, Input::Expired { lease: over }, now, outbox);
            if over {
                self.end(lease, outbox);
            } else if let Some(held) = self.held.get_mut(&lease) {
                held.setup_until = held.until; // Set-up is over, one way or the other.
            }
        }
    }

    fn feed(&mut self, lease: LeaseId, input: Input, now: Now, outbox: &mut VecDeque<Action>) {
        // What belongs to no lease comes from one that was closed: it is over.
        let Some(held) = self.held.get_mut(&lease) else { return };
        for output in held.session.handle(input) {
            let Some(held) = self.held.get_mut(&lease) else { return };
            if output == Output::Start && std::mem::take(&mut held.gated) {
                outbox.push_back(Action::Look(lease, held.session.plan().local.clone()));
                held.waiting = Some(vec![output]);
            } else if let Some(waiting) =
                held.waiting.as_mut().filter(|_| !matches!(output, Output::Report(_)))
            {
                // The peer must not hear that this side is ready before it is.
                waiting.push(output);
            } else {
                self.put(lease, output, now, outbox);
            }
        }
    }

    fn put(&mut self, lease: LeaseId, output: Output, now: Now, outbox: &mut VecDeque<Action>) {
        let relay = |payload| Action::Send(ToCoordinator::Relay { lease, payload });
        match output {
            Output::SendOffer(offer) => outbox.push_back(relay(RelayPayload::Offer(offer))),
            Output::SendReady => outbox.push_back(relay(RelayPayload::Ready)),
            Output::Connect(offer) => outbox.push_back(Action::Connect(lease, offer)),
            Output::Start => outbox.push_back(Action::Start(lease)),
            Output::Report(outcome) => {
                let Some(held) = self.held.get_mut(&lease) else { return };
                held.waiting = None;
                let effects = held.session.take_effects();
                self.results.push_back(ProbeResult { effects, ..result(held.session.plan(), outcome, now) });
            }
        }
    }
}

impl Held {
    /// The next time at which something must be decided.
    fn deadline(&self) -> Mono {
        if self.session.started() || self.session.reported() { self.until } else { self.setup_until }
    }
}

fn excluded(plan: &ProbePlan, why: Exclusion, evidence: String, now: Now) -> ProbeResult {
    ProbeResult { evidence, ..result(plan, Outcome::Excluded(why), now) }
}

fn result(plan: &ProbePlan, outcome: Outcome, now: Now) -> ProbeResult {
    ProbeResult {
        lease: Some(plan.lease),
        local: plan.local.clone(),
        peer: plan.peer.clone(),
        role: plan.role,
        metric: plan.cell(),
        measured_at: now.wall,
        outcome,
        effects: None,
        evidence: String::new(),
    }
}
