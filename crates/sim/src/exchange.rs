//! Probes on the fabric, from their preparation to their end, and the events that their owners will hear.

use crate::fabric::{Fabric, OwnerId};
use crate::figures::{Figures, later};
use rdmascope_model::{
    Cause, Effects, EndpointName, Failure, LeaseId, Load, Manner, Memory, Mono, Operation, Outcome,
    ProbePlan, ProbeSpec, Role, Step,
};
use rdmascope_probe::TransportEvent;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Making a queue pair and registering memory.
pub(crate) const PREPARE: Duration = Duration::from_micros(120);
/// Moving a queue pair to RTS.
pub(crate) const CONNECT: Duration = Duration::from_micros(80);
/// Until a sender that hears nothing gives up: seven retries of 67 ms each.
const RETRIES: Duration = Duration::from_millis(470);
/// A failure is told so long before the lease is over, as the real transports do.
const EXPIRY_MARGIN: Duration = Duration::from_millis(50);
/// How an offer begins.
const MAGIC: &[u8; 4] = b"SIM1";

/// One measurement that began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Source endpoint.
    pub source: EndpointName,
    /// Target endpoint.
    pub target: EndpointName,
    /// What was measured, and how much of it.
    pub spec: ProbeSpec,
    /// By which means.
    pub manner: Manner,
    /// When the first message left.
    pub began: Mono,
    /// When the last one would arrive, were it left alone.
    pub ends: Mono,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ProbeId(u64);

#[derive(Clone, Debug)]
struct Probe {
    owner: OwnerId,
    plan: ProbePlan,
    deadline: Mono,
    peer: Option<ProbeId>,
    started: bool,
    /// Both sides are at it.
    running: bool,
    /// Its end was told.
    over: bool,
    /// What it moved at its end, told right before the end.
    effects: Option<Box<Effects>>,
    /// Its next event among those that are due.
    pending: Option<(Mono, u64)>,
}

impl Probe {
    /// The side that only answers: nobody misses its word when it has none.
    fn is_passive(&self) -> bool {
        let answers = self.plan.spec.load() != Load::Spins || self.plan.manner.operation == Operation::Read;
        self.plan.role == Role::Target && answers
    }

    fn failed(&self, cause: Cause, step: Step, evidence: &str) -> TransportEvent {
        let side = self.plan.role.side();
        TransportEvent::Finished(Outcome::Failed(Failure {
            cause,
            step,
            side,
            evidence: evidence.to_owned(),
        }))
    }
}

/// All probes that are not closed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchanges {
    probes: BTreeMap<ProbeId, Probe>,
    by_lease: BTreeMap<(OwnerId, LeaseId), ProbeId>,
    due: BTreeMap<(Mono, u64), (ProbeId, TransportEvent)>,
    told: BTreeMap<OwnerId, VecDeque<(ProbeId, LeaseId, TransportEvent)>>,
    pub(crate) history: Vec<Exchange>,
    sequence: u64,
}

impl Exchanges {
    pub(crate) fn len(&self) -> usize {
        self.probes.len()
    }

    pub(crate) fn next_due(&self) -> Option<Mono> {
        self.due.first_key_value().map(|(&(at, _), _)| at)
    }

    pub(crate) fn advance(&mut self, now: Mono) -> Vec<OwnerId> {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let (id, event) = entry.remove();
            let Some(probe) = self.probes.get_mut(&id) else { continue };
            probe.pending = None;
            probe.over |= matches!(event, TransportEvent::Finished(_));
            let lease = probe.plan.lease;
            let told = self.told.entry(probe.owner).or_default();
            if probe.over
                && let Some(effects) = probe.effects.take()
            {
                told.push_back((id, lease, TransportEvent::Effects(effects)));
            }
            told.push_back((id, lease, event));
        }
        self.told.keys().copied().collect()
    }

    pub(crate) fn poll(&mut self, owner: OwnerId) -> Option<(LeaseId, TransportEvent)> {
        let waiting = self.told.get_mut(&owner)?;
        while let Some((id, lease, event)) = waiting.pop_front() {
            if self.probes.contains_key(&id) {
                return Some((lease, event));
            }
        }
        self.told.remove(&owner);
        None
    }

    /// What a probe's owner will hear next, in place of what it would have heard.
    fn tell(&mut self, id: ProbeId, at: Mono, event: TransportEvent) {
        let Some(probe) = self.probes.get_mut(&id) else { return };
        if probe.over {
            return;
        }
        self.sequence += 1;
        let before = probe.pending.replace((at, self.sequence));
        before.and_then(|key| self.due.remove(&key));
        self.due.insert((at, self.sequence), (id, event));
    }

    /// A probe will fail with what its owner can know.
    fn tell_failure(&mut self, id: ProbeId, at: Mono, cause: Cause, step: Step, evidence: &str) {
        let event = self.probes.get(&id).map(|probe| probe.failed(cause, step, evidence));
        event.into_iter().for_each(|event| self.tell(id, at, event));
    }

    fn id(&self, owner: OwnerId, lease: LeaseId) -> Option<ProbeId> {
        self.by_lease.get(&(owner, lease)).copied()
    }

    /// The other side, if it is there and each is connected to the other.
    fn partner(&self, id: ProbeId) -> Option<ProbeId> {
        let peer = self.probes.get(&id)?.peer?;
        (self.probes.get(&peer)?.peer == Some(id)).then_some(peer)
    }

    /// Streams that are to come into a port, or do.
    fn sources_of(&self, target: &EndpointName) -> usize {
        let sends = |p: &&Probe| {
            p.plan.role == Role::Source
                && p.plan.peer == *target
                && p.plan.spec.load() == Load::Streams
                && !p.over
        };
        self.probes.values().filter(sends).count()
    }

    fn remove(&mut self, id: ProbeId) {
        let Some(probe) = self.probes.remove(&id) else { return };
        self.by_lease.remove(&(probe.owner, probe.plan.lease));
        probe.pending.and_then(|key| self.due.remove(&key));
    }
}

impl Fabric {
    pub(crate) fn prepare(&mut self, owner: OwnerId, plan: &ProbePlan, now: Mono) {
        let x = &mut self.exchanges;
        if x.by_lease.contains_key(&(owner, plan.lease)) {
            return;
        }
        x.sequence += 1;
        let id = ProbeId(x.sequence);
        let lasts = plan.expires_in.saturating_sub(EXPIRY_MARGIN);
        let probe = Probe {
            owner,
            plan: plan.clone(),
            deadline: now.after(lasts),
            peer: None,
            started: false,
            running: false,
            over: false,
            effects: None,
            pending: None,
        };
        let own =
            if plan.role == Role::Source { plan.manner.source_memory } else { plan.manner.target_memory };
        let event = match own {
            _ if !self.ports.contains_key(&plan.local) => {
                probe.failed(Cause::DeviceGone, Step::Open, "no such device")
            }
            Memory::Host => TransportEvent::Prepared { offer: offer(id) },
            Memory::Gpu(_) => probe.failed(Cause::NotAvailable, Step::Open, "a simulated machine has no GPU"),
        };
        x.by_lease.insert((owner, plan.lease), id);
        x.probes.insert(id, probe);
        x.tell(id, now.after(self.set_up[0]), event);
    }

    pub(crate) fn connect(&mut self, owner: OwnerId, lease: LeaseId, offer: &[u8], now: Mono) {
        let x = &mut self.exchanges;
        let Some(id) = x.id(owner, lease) else { return };
        let at = now.after(self.set_up[1]);
        match peer_of(offer) {
            Some(peer) => {
                if let Some(probe) = x.probes.get_mut(&id) {
                    probe.peer = Some(peer);
                }
                x.tell(id, at, TransportEvent::Connected);
            }
            None => x.tell_failure(id, at, Cause::BadPeerData, Step::Rtr, "not an offer of this transport"),
        }
    }

    pub(crate) fn start(&mut self, owner: OwnerId, lease: LeaseId, now: Mono) {
        let x = &mut self.exchanges;
        let Some(id) = x.id(owner, lease) else { return };
        let Some(probe) = x.probes.get_mut(&id) else { return };
        probe.started = true;
        if !probe.is_passive() {
            let deadline = probe.deadline;
            x.tell_failure(id, deadline, Cause::NoFirstByte, Step::FirstByte, "no message arrived");
        }
        let source = if self.is_source(id) { Some(id) } else { self.exchanges.partner(id) };
        source.into_iter().for_each(|source| self.begin(source, now));
    }

    pub(crate) fn close(&mut self, owner: OwnerId, lease: LeaseId, now: Mono) {
        if let Some(id) = self.exchanges.id(owner, lease) {
            self.exchanges.remove(id);
            self.broken(now);
        }
    }

    /// A process is gone with all that it held.
    pub(crate) fn vanish(&mut self, owner: OwnerId) {
        let x = &mut self.exchanges;
        let own: Vec<_> = x.probes.iter().filter(|(_, p)| p.owner == owner).map(|(&id, _)| id).collect();
        own.into_iter().for_each(|id| x.remove(id));
        x.told.remove(&owner);
        self.stopped.remove(&owner);
    }

    pub(crate) fn streams_into(&self, target: &EndpointName) -> u64 {
        self.exchanges.sources_of(target) as u64
    }

    /// A stream runs from the one port to the other.
    pub(crate) fn streams_between(&self, source: &EndpointName, target: &EndpointName) -> bool {
        let runs = |p: &Probe| {
            p.running
                && !p.over
                && p.plan.spec.load() == Load::Streams
                && p.plan.local == *source
                && p.plan.peer == *target
        };
        self.exchanges.probes.values().any(runs)
    }

    fn is_source(&self, id: ProbeId) -> bool {
        self.exchanges.probes.get(&id).is_some_and(|probe| probe.plan.role == Role::Source)
    }

    /// The source sends its first message.
    fn begin(&mut self, source: ProbeId, now: Mono) {
        let x = &self.exchanges;
        let Some(probe) = x.probes.get(&source).filter(|p| p.started && !p.running && !p.over) else {
            return;
        };
        let plan = probe.plan.clone();
        let deadline = probe.deadline;
        let open = self.path_is_open(&plan.local, &plan.peer) && self.net_carries(&plan, now.0);
        let Some(target) = x.partner(source).filter(|_| open) else {
            let peer_is_there = probe.peer.is_some_and(|peer| x.probes.contains_key(&peer));
            if !peer_is_there || !open {
                self.give_up(source, Step::FirstByte, now);
            }
            return;
        };
        let answers = x.probes.get(&target).is_some_and(|p| p.started && !self.stopped.contains(&p.owner));
        if !answers {
            return;
        }
        let Some(Figures { takes_ns, source: found, target: found_there }) = self.measure(&plan, now) else {
            return;
        };
        let there = found_there.as_ref().unwrap_or(&Outcome::Served);
        let mut effects = self.effects(&plan, &found, there);
        self.add_congestion(&plan, (now.0, takes_ns), &mut effects);
        let [own, peers] = effects;
        let ends = later(now, takes_ns);
        let x = &mut self.exchanges;
        for (id, effects) in [(source, own), (target, peers)] {
            x.probes.entry(id).and_modify(|p| (p.running, p.effects) = (true, Some(Box::new(effects))));
        }
        let (spec, manner) = (plan.spec, plan.manner);
        x.history.push(Exchange { source: plan.local, target: plan.peer, spec, manner, began: now, ends });
        if ends > deadline {
            for id in [source, target] {
                self.stall(id);
            }
            return;
        }
        x.tell(source, ends, TransportEvent::Finished(found));
        found_there.into_iter().for_each(|found| x.tell(target, ends, TransportEvent::Finished(found)));
    }

    /// Nothing that it sends is acknowledged.
    fn give_up(&mut self, id: ProbeId, step: Step, now: Mono) {
        let x = &mut self.exchanges;
        let Some(probe) = x.probes.get_mut(&id) else { return };
        (probe.running, probe.effects) = (false, None);
        let at = now.after(RETRIES).min(probe.deadline);
        let cause = if step == Step::Measure { Cause::PathLost } else { Cause::RetryExceeded };
        x.tell_failure(id, at, cause, step, "transport retry counter exceeded");
    }

    /// It waits for a message that does not come.
    fn stall(&mut self, id: ProbeId) {
        let x = &mut self.exchanges;
        let Some(probe) = x.probes.get_mut(&id) else { return };
        (probe.running, probe.effects) = (false, None);
        if probe.is_passive() {
            return;
        }
        let deadline = probe.deadline;
        x.tell_failure(id, deadline, Cause::Stalled, Step::Measure, "the peer's messages stopped");
    }

    /// Something changed for the worse: ends what can no longer go on.
    pub(crate) fn broken(&mut self, now: Mono) {
        let running: BTreeSet<_> =
            self.exchanges.probes.iter().filter(|(_, p)| p.running && !p.over).map(|(&id, _)| id).collect();
        for id in running {
            let Some(probe) = self.exchanges.probes.get(&id) else { continue };
            let partner = self.exchanges.partner(id).and_then(|peer| self.exchanges.probes.get(&peer));
            let open = self.path_is_open(&probe.plan.local, &probe.plan.peer);
            let source = probe.plan.role == Role::Source;
            // The adapter answers a stream by itself; a ping-pong needs both processes.
            let needs_both = probe.plan.spec.load() == Load::Spins;
            let asleep =
                |p: &Probe| self.stopped.contains(&p.owner) && (needs_both || p.plan.role == Role::Source);
            match partner {
                Some(peer) if open && !asleep(probe) && !asleep(peer) => {}
                Some(peer) if open && (asleep(probe) || asleep(peer)) => self.stall(id),
                _ if source => self.give_up(id, Step::Measure, now),
                _ => self.stall(id),
            }
        }
    }
}

fn offer(id: ProbeId) -> Vec<u8> {
    let mut offer = MAGIC.to_vec();
    offer.extend(id.0.to_be_bytes());
    offer
}

fn peer_of(offer: &[u8]) -> Option<ProbeId> {
    let number = offer.strip_prefix(MAGIC)?;
    Some(ProbeId(u64::from_be_bytes(number.try_into().ok()?)))
}
