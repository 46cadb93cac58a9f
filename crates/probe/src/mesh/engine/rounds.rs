//! Whose turn it is: which peer is pinged next and when, and what becomes of batches that are over.

use super::{
    Batch, Datagram, Destination, Engine, Flight, LABELS_MAX, LARGE_BYTES, Output, PING_INTERVAL_MIN, Plan,
    Stage,
};
use crate::limits::LEASE_PINGS_MAX;
use crate::mesh::batch::TIMEOUT;
use crate::mesh::labels::{flow_label, pair_seed};
use crate::mesh::packet::{HEADER_BYTES, Header, Kind, Sizes};
use crate::mesh::stats::stats;
use rdmascope_model::{
    Cause, DatagramAddress, EndpointName, Failure, LeaseId, Marks, Mono, PingSpec, Side, Step,
};
use std::time::Duration;

/// The longest time between two moments at which pings of the mesh leave together, nanoseconds, and how many do at most: far fewer than the
/// peer has receive buffers.
const MOMENT_NS: u64 = 40_000_000;
const PINGS_AT_ONCE_MAX: u64 = 4;
/// A lease's pings that are behind their time are sent at once, but not those of a longer stop.
const CATCH_UP: Duration = Duration::from_millis(10);

/// When a lease's next ping leaves, and when it must have ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) id: LeaseId,
    pub(super) batch: u32,
    interval: Duration,
    pub(super) next: Mono,
    pub(super) until: Mono,
}

/// The pings of a lease, as both sides know them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedPings {
    /// The lease.
    pub lease: LeaseId,
    /// The other side.
    pub peer: EndpointName,
    /// Where that is.
    pub address: DatagramAddress,
    /// The number that [`Engine::reserve_batch`] gave at the source, which the target was told.
    pub batch: u32,
    /// What to send.
    pub spec: PingSpec,
    /// How it is marked; the flow label counts where the specification asks for one label only.
    pub marks: Marks,
    /// All must be told by then; of the source only.
    pub until: Mono,
}

impl LeasedPings {
    /// How many pings there are, both sizes and all labels.
    #[must_use]
    pub fn count(&self) -> u32 {
        let labels = self.spec.labels.clamp(1, LABELS_MAX);
        self.spec.count.saturating_mul(2 * labels).min(LEASE_PINGS_MAX)
    }
}

impl Lease {
    pub(super) fn new(pings: &LeasedPings, now: Mono) -> Self {
        let interval = pings.spec.interval.max(PING_INTERVAL_MIN);
        Self { id: pings.lease, batch: pings.batch, interval, next: now, until: pings.until }
    }

    /// From here on it only waits for answers, so that they are in time or lost when the lease ends.
    fn sends_until(&self) -> Mono {
        Mono(self.until.0.saturating_sub(u64::try_from(TIMEOUT.as_nanos()).unwrap_or(0)))
    }
}

impl Engine {
    /// May it ping now? Asked before every ping.
    pub(super) fn granted(&self, now: Mono) -> bool {
        self.grant.is_some_and(|grant| now < grant.until && grant.pings_per_second > 0)
    }

    /// Pings of the mesh that leave at one moment: one at rates of up to 25 a second, up to four at higher ones. Waking up is what pings
    /// cost most, and a thread that has just done one does the next at half of the price.
    fn pings_at_once(&self) -> u64 {
        // A pass is short, and its batches follow each other closely.
        if self.is_passing() {
            return 1;
        }
        (MOMENT_NS / self.interval()).clamp(1, PINGS_AT_ONCE_MAX)
    }

    /// Pings of the mesh leave: the next ones may at the next moment of the common beat. A moment that was missed is left
    /// out, never made up for; and whatever grants of other rates do to the beat, the pings of any time are at most those of two
    /// moments more than the rate allows in it.
    fn pinged(&mut self, pings: u64, now: Mono) {
        let interval = self.interval();
        self.paid = Mono(self.paid.max(now).0.saturating_add(interval * pings));
        let beat = interval * self.pings_at_once();
        let phase = self.nonce % beat;
        let beats = now.0.saturating_sub(phase) / beat + 1;
        self.next_ping = Mono((phase + beats * beat).max(self.paid.0.saturating_sub(beat)));
    }

    pub(super) fn plan(
        &self,
        peer: &EndpointName,
        address: &DatagramAddress,
        (pings, labels): (u32, u32),
        lease: Option<(LeaseId, Marks)>,
        now: Mono,
    ) -> Plan {
        let (lease, marks) = lease.unzip();
        let marks = marks.unwrap_or_default();
        let seed = pair_seed(&self.local, peer);
        let age = now.since(self.began);
        let labels = match labels.min(LABELS_MAX) {
            0 | 1 => vec![marks.flow_label],
            labels => (0..labels).map(|i| flow_label(seed, u16::try_from(i).unwrap_or(0), age)).collect(),
        };
        let round = if lease.is_none() { self.rota.round } else { 0 };
        let first_label = round.wrapping_mul(u64::from(pings.div_ceil(3)));
        let mtu = self.address.mtu_bytes.min(address.mtu_bytes);
        Plan {
            pings,
            labels,
            marks,
            first_label: u32::try_from(first_label & 0xffff_ffff).unwrap_or(0),
            lease,
            of_pass: false,
            large_bytes: mtu.clamp(LARGE_BYTES.0, LARGE_BYTES.1),
            clock: self.clock,
        }
    }

    /// Takes a batch in, and asks for its addresses.
    pub(super) fn begin(&mut self, batch: Batch) {
        let labels = 0..u16::try_from(batch.plan.labels.len()).unwrap_or(u16::MAX);
        let to = |label| Destination { address: batch.address, marks: batch.plan.marks(label) };
        self.outputs.push_back(Output::Resolve { batch: batch.number, to: labels.map(to).collect() });
        self.batches.push(batch);
    }

    pub(super) fn mesh_batches(&self) -> impl Iterator<Item = &Batch> + Clone {
        self.batches.iter().filter(|batch| batch.plan.lease.is_none())
    }

    pub(super) fn prepare_batches(&mut self, now: Mono) {
        while self.may_prepare() && now >= self.next_batch {
            let (pings, passing) = (self.pings_per_batch(), self.has_more_to_pass());
            let Some(at) = self.next_peer() else {
                if passing {
                    return; // That was the last one; what is usual goes on from here.
                }
                // All have one that is not over yet.
                self.next_batch = now.after(Duration::from_nanos(self.interval()));
                return;
            };
            let peer = &self.peers.book[at];
            let (Some(address), name) = (peer.address, peer.name.clone()) else { return };
            let labels = self.grant.map_or(1, |grant| grant.labels);
            let plan = Plan { of_pass: passing, ..self.plan(&name, &address, (pings, labels), None, now) };
            let number = self.reserve_batch();
            self.begin(Batch::new(number, name, address, plan));
        }
    }

    pub(super) fn ping_mesh(&mut self, now: Mono) {
        if now < self.next_ping {
            return;
        }
        let sent = (0..self.pings_at_once()).take_while(|_| self.ping_one(now)).count();
        if sent > 0 {
            self.pinged(sent as u64, now);
        }
    }

    /// The next ping of the batch that is being sent, or of the next one; false when there is none.
    fn ping_one(&mut self, now: Mono) -> bool {
        let mesh = |batch: &Batch, stage| batch.plan.lease.is_none() && batch.stage == stage;
        let sending = self.batches.iter().position(|batch| mesh(batch, Stage::Sending));
        let ready = || {
            let ready = self.batches.iter().enumerate().filter(|(_, batch)| mesh(batch, Stage::Ready));
            ready
                .min_by_key(|(_, batch)| batch.number.wrapping_sub(self.number.wrapping_add(1)))
                .map(|(at, _)| at)
        };
        let Some(at) = sending.or_else(ready) else { return false };
        self.batches[at].stage = Stage::Sending;
        self.ping(at, now);
        true
    }

    /// Sends the next ping of a batch, if there is a buffer for it.
    fn ping(&mut self, at: usize, now: Mono) -> bool {
        if !self.flights.has_room_for_pings() {
            return false;
        }
        let batch = &mut self.batches[at];
        let (sequence, large, label) = batch.issue(now);
        let number = batch.number;
        let bytes = if large { batch.plan.large_bytes } else { HEADER_BYTES as u32 };
        let flight = Flight::Ping { batch: number, sequence };
        if !self.send_to_peer(at, flight, Kind::Ping, (sequence, large, label), bytes) {
            self.batches[at].unsent(sequence);
        }
        true
    }

    fn send_to_peer(
        &mut self,
        at: usize,
        flight: Flight,
        kind: Kind,
        (sequence, large, label): (u32, bool, u16),
        payload_bytes: u32,
    ) -> bool {
        let batch = &self.batches[at];
        let header = Header {
            kind,
            large,
            batch: batch.number,
            sequence,
            nonce: self.nonce,
            queue_key: self.address.queue_key,
            label,
            heard: Sizes::default(),
            acked: Sizes::default(),
            delay: (kind == Kind::Ping).then_some((0, batch.clock)),
            vague: false,
        };
        let to = Destination { address: batch.address, marks: batch.plan.marks(label) };
        self.send(flight, to, &header, payload_bytes)
    }

    pub(super) fn ping_leases(&mut self, now: Mono) {
        for at in 0..self.leases.len() {
            let lease = self.leases[at];
            let batch = self.batches.iter().position(|batch| batch.number == lease.batch);
            let Some(batch) = batch else { continue };
            if now >= lease.sends_until() {
                self.batches[batch].stop();
            }
            if self.batches[batch].stage == Stage::Ready {
                self.batches[batch].stage = Stage::Sending;
                self.leases[at].next = now;
            }
            self.leases[at].next =
                Mono(self.leases[at].next.0.max(now.0.saturating_sub(CATCH_UP.as_nanos() as u64)));
            while self.leases[at].next <= now && self.batches[batch].stage == Stage::Sending {
                if !self.ping(batch, now) {
                    self.leases[at].next = now;
                }
                self.leases[at].next = self.leases[at].next.after(lease.interval);
            }
        }
    }

    /// Asks peers how much they heard, where that is open. A question of the mesh takes the place of a ping.
    pub(super) fn ask(&mut self, now: Mono) {
        for at in 0..self.batches.len() {
            let lease = self.batches[at].plan.lease.is_some();
            let may = lease || self.granted(now) && now >= self.next_ping;
            if !may || !self.flights.has_room_for_pings() || !self.batches[at].ask(now) {
                continue;
            }
            let sequence = self.batches[at].issued();
            let bytes = HEADER_BYTES as u32;
            self.send_to_peer(at, Flight::Other, Kind::Question, (sequence, false, 0), bytes);
            if !lease {
                self.pinged(1, now);
            }
        }
    }

    /// Tells of batches that are over.
    pub(super) fn finish(&mut self, now: Mono) {
        let mut at = 0;
        while let Some(batch) = self.batches.get(at) {
            let lease = self.leases.iter().find(|lease| lease.batch == batch.number).copied();
            if !batch.over(now) && lease.is_none_or(|lease| now < lease.until) {
                at += 1;
                continue;
            }
            let batch = self.batches.swap_remove(at);
            let figures = stats(&batch);
            let nothing = figures.small.sent + figures.large.sent + figures.stale == 0;
            self.leases.retain(|lease| lease.batch != batch.number);
            match lease {
                Some(lease) if nothing => {
                    let evidence = "no ping could be sent in the lease's time".to_owned();
                    let (cause, step) = (Cause::NoResources, Step::FirstByte);
                    let failure = Failure { cause, step, side: Side::Source, evidence };
                    self.outputs.push_back(Output::Leased(lease.id, Err(failure)));
                }
                Some(lease) => self.outputs.push_back(Output::Leased(lease.id, Ok(Box::new(figures)))),
                None if nothing => {}
                None => self.outputs.push_back(Output::Pings(batch.peer, Box::new(figures))),
            }
        }
    }

    /// A peer that could not be reached takes as long as its pings would have: failures that come at once are no reason to
    /// ask for addresses without end.
    pub(super) fn skip_turn(&mut self, now: Mono) {
        let turn = Duration::from_nanos(self.interval().saturating_mul(u64::from(self.pings_per_batch())));
        self.next_batch = self.next_batch.max(now).after(turn.min(Duration::from_secs(1)));
    }

    pub(super) fn send(
        &mut self,
        flight: Flight,
        to: Destination,
        header: &Header,
        payload_bytes: u32,
    ) -> bool {
        let Some(id) = self.flights.add(flight) else { return false };
        self.outputs.push_back(Output::Send(Datagram { id, to, header: header.encode(), payload_bytes }));
        true
    }

    /// When [`Engine::tick`] has something to do next; `None` while only what comes in can change that.
    #[must_use]
    pub fn due(&self, now: Mono) -> Option<Mono> {
        let granted = self.granted(now);
        let sends = |batch: &Batch| matches!(batch.stage, Stage::Sending | Stage::Ready);
        let ping = (granted && self.mesh_batches().any(sends)).then_some(self.next_ping);
        let begin = (granted && self.may_prepare()).then_some(self.next_batch);
        let begun = self.mesh_batches().any(|batch| batch.stage != Stage::Draining);
        let expiry = self.grant.filter(|_| granted && begun).map(|grant| grant.until);
        let lease = |lease: &Lease| {
            let sending = self.batches.iter().any(|batch| batch.number == lease.batch && sends(batch));
            if sending { lease.next.min(lease.sends_until()) } else { lease.until }
        };
        let batch = |batch: &Batch| {
            let ask_from = match batch.plan.lease {
                Some(_) => Some(Mono(0)),
                None => granted.then_some(self.next_ping),
            };
            batch.due(ask_from)
        };
        let leases = self.leases.iter().map(lease).min();
        let batches = self.batches.iter().filter_map(batch).min();
        [ping, begin, expiry, leases, batches, self.peers.due()].into_iter().flatten().min()
    }
}
