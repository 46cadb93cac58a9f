//! The pings of one endpoint: sends its own within the grant, answers those of others, and makes figures of the answers.
//!
//! It is fed with what the device did and what time it is, and says what to send; it has no clock and does no I/O. After
//! every call, take its outputs with [`Engine::pop`] until there is none.

mod rota;
mod rounds;

use super::batch::{Batch, Stage};
use super::flights::{Flight, Flights};
use super::packet::{HEADER_BYTES, Header, Kind};
use super::peers::{Peers, Source};
use super::plan::Plan;
use super::stamp::{Stamp, Stamps};
use super::words::MeshGrant;
use crate::limits::{LABELS_MAX, PING_INTERVAL_MIN};
use rdmascope_model::{
    DatagramAddress, EndpointName, Failure, Gid, Heard, LeaseId, Marks, Mono, Peer, PingStats, StampClock,
};
use rota::Rota;
use rounds::Lease;
pub use rounds::LeasedPings;
use std::collections::VecDeque;
use std::sync::Arc;

/// Pings of one batch of the mesh, whatever the grant says: more take memory and tell no more.
pub const BATCH_PINGS_MAX: u32 = 1_024;
/// Payload of large pings: a UD datagram carries at most the path MTU, which verbs limit to these.
const LARGE_BYTES: (u32, u32) = (256, 4096);

/// Where a datagram goes, and by which path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Port and queue pair. Its `mtu_bytes` are not used.
    pub address: DatagramAddress,
    /// Its marks; a flow label of 0 is the device's own choice.
    pub marks: Marks,
}

/// One datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Names it in [`Engine::sent`], [`Engine::completed`] and [`Engine::failed`]. Its lowest byte is the number of a send
    /// buffer that is free until `completed` or `failed`: there are [`Engine::SENDS_MAX`] of them.
    pub id: u64,
    /// To whom.
    pub to: Destination,
    /// How it begins.
    pub header: [u8; HEADER_BYTES],
    /// Its payload's length; what follows the header is not looked at.
    pub payload_bytes: u32,
}

/// What an engine wants done, or tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send this now.
    Send(Datagram),
    /// Make these addresses ready; then call [`Engine::resolved`].
    Resolve {
        /// The batch that waits for them.
        batch: u32,
        /// One for each path label.
        to: Vec<Destination>,
    },
    /// A batch of the mesh is over.
    Pings(EndpointName, Box<PingStats>),
    /// A batch of the mesh could not be sent.
    Unreachable(EndpointName, Failure),
    /// A lease's pings are over.
    Leased(LeaseId, Result<Box<PingStats>, Failure>),
    /// Somebody's batch was heard.
    Heard(Heard),
}

/// The mesh of one endpoint.
#[derive(Clone, Debug)]
pub struct Engine {
    local: EndpointName,
    address: DatagramAddress,
    nonce: u64,
    began: Mono,
    /// Whose stamps its next batches go by.
    clock: StampClock,
    grant: Option<MeshGrant>,
    /// Before this no ping of the mesh leaves.
    next_ping: Mono,
    peers: Peers,
    batches: Vec<Batch>,
    leases: Vec<Lease>,
    flights: Flights,
    /// Up to when the rate is used up.
    paid: Mono,
    /// Before this no further batch is prepared.
    next_batch: Mono,
    place: usize,
    /// How many in the book it can ping.
    pingable: usize,
    /// The batch begun last.
    number: u32,
    rota: Rota,
    refused: u64,
    outputs: VecDeque<Output>,
}

impl Engine {
    /// Sends that are under way at the same time.
    pub const SENDS_MAX: usize = Flights::MAX;

    /// An endpoint that takes datagrams at `address`. `nonce` differs at each start; engines that have it in common send
    /// their pings at the same moments, so that their thread wakes up once for all.
    #[must_use]
    pub fn new(local: EndpointName, address: DatagramAddress, nonce: u64, now: Mono) -> Self {
        Self {
            local,
            address,
            nonce,
            began: now,
            clock: StampClock::Software,
            grant: None,
            next_ping: now,
            paid: now,
            next_batch: now,
            place: 0,
            pingable: 0,
            peers: Peers::new(),
            batches: Vec::new(),
            leases: Vec::new(),
            flights: Flights::new(),
            // Numbers of an earlier run are not met again soon.
            number: (nonce >> 32) as u32,
            rota: Rota::default(),
            refused: 0,
            outputs: VecDeque::with_capacity(2 * Flights::MAX),
        }
    }

    /// Where it takes datagrams.
    #[must_use]
    pub fn address(&self) -> DatagramAddress {
        self.address
    }

    /// Who it is.
    #[must_use]
    pub fn local(&self) -> &EndpointName {
        &self.local
    }

    /// The device stamps as well, and can be believed: batches from here on go by its stamps, where their peer has such as well.
    pub fn trust_device(&mut self) {
        self.clock = StampClock::Hardware;
    }

    /// Is there an acknowledgement that waits for the device to say when it left, so that its completion should be looked for?
    #[must_use]
    pub fn awaits_device(&self) -> bool {
        self.clock == StampClock::Hardware && self.flights.awaits_device()
    }

    /// Datagrams that it threw away.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Takes the next output.
    pub fn pop(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Replaces the address book. Batches to a peer whose address changed end.
    pub fn set_book(&mut self, book: Arc<[Peer]>, now: Mono) {
        for batch in &mut self.batches {
            let there = book.iter().find(|peer| peer.name == batch.peer);
            if batch.plan.lease.is_none() && there.and_then(|peer| peer.address) != Some(batch.address) {
                batch.outdated();
            }
        }
        self.peers.set_book(book);
        let own = self.peers.book.iter().position(|peer| peer.name == self.local);
        self.place = own.unwrap_or(0);
        self.rota.rail = own.map_or(0, |at| self.peers.book[at].rail);
        self.pingable = (0..self.peers.book.len()).filter(|&at| self.can_ping(at)).count();
        self.tick(now);
    }

    /// Replaces the grant. Without one no batch goes on; answers to what was sent are still taken.
    pub fn set_grant(&mut self, grant: Option<MeshGrant>, now: Mono) {
        self.grant = grant;
        self.next_batch = if self.rota.pass(grant) { self.next_batch.min(now) } else { self.next_batch };
        self.tick(now);
    }

    /// The number that a lease's pings will carry: the target must know it beforehand.
    pub fn reserve_batch(&mut self) -> u32 {
        self.number = self.number.wrapping_add(1).max(1);
        self.number
    }

    /// Answers the pings of a lease, marked as they are, until [`Engine::end_lease`]. What was heard of them is told when they
    /// are all there, or no more come.
    pub fn serve_lease(&mut self, pings: LeasedPings) {
        self.peers.add_guest(pings);
    }

    /// Sends the pings of a lease; its end comes as [`Output::Leased`], at the latest when its time is over.
    pub fn start_lease(&mut self, pings: LeasedPings, now: Mono) {
        let labels = pings.spec.labels.clamp(1, LABELS_MAX);
        let (count, lease) = (pings.count(), Some((pings.lease, pings.marks)));
        let plan = self.plan(&pings.peer, &pings.address, (count, labels), lease, now);
        self.leases.push(Lease::new(&pings, now));
        self.begin(Batch::new(pings.batch, pings.peer, pings.address, plan));
    }

    /// Ends a lease, on either side; nothing more is told of its pings but what the target heard.
    pub fn end_lease(&mut self, lease: LeaseId) {
        if let Some(heard) = self.peers.remove_guest(lease, &self.local) {
            self.outputs.push_back(Output::Heard(heard));
        }
        let of_lease = |batch: &Batch| batch.plan.lease == Some(lease);
        let Some(batch) = self.batches.iter().find(|batch| of_lease(batch)).map(|batch| batch.number) else {
            return;
        };
        self.leases.retain(|lease| lease.batch != batch);
        self.batches.retain(|batch| !of_lease(batch));
    }

    /// The addresses of a batch are there, or why they are not.
    pub fn resolved(&mut self, number: u32, made: Result<(), Failure>, now: Mono) {
        let Some(at) = self.batches.iter().position(|b| b.number == number && b.stage == Stage::Resolving)
        else {
            return;
        };
        match made {
            Ok(()) => self.batches[at].stage = Stage::Ready,
            Err(failure) => {
                let batch = self.batches.swap_remove(at);
                self.leases.retain(|lease| lease.batch != number);
                self.outputs.push_back(match batch.plan.lease {
                    Some(lease) => Output::Leased(lease, Err(failure)),
                    None => Output::Unreachable(batch.peer, failure),
                });
                self.skip_turn(now);
            }
        }
        self.tick(now);
    }

    /// A datagram left the host at this time: comes at most once for each clock, the program's when it was posted and the device's
    /// with its completion, right before [`Engine::completed`].
    pub fn sent(&mut self, id: u64, stamp: Stamp) {
        match self.flights.get(id) {
            Some(Flight::Ping { batch, sequence }) => {
                let batch = self.batches.iter_mut().find(|b| b.number == batch);
                batch.into_iter().for_each(|batch| batch.sent(sequence, stamp));
            }
            Some(Flight::FirstAck { to, mut header, received }) if received.clock == stamp.clock => {
                header.kind = Kind::SecondAck;
                header.vague = stamp.vague || received.vague;
                header.delay = stamp.since(received).map(|delay| (delay, stamp.clock));
                self.send(Flight::Other, to, &header, HEADER_BYTES as u32);
            }
            Some(Flight::FirstAck { .. } | Flight::Other) | None => {}
        }
    }

    /// A send is complete: its buffer is free.
    pub fn completed(&mut self, id: u64) {
        self.flights.take(id);
    }

    /// A datagram could not be sent: its buffer is free, and a ping does not count.
    pub fn failed(&mut self, id: u64) {
        if let Some(Flight::Ping { batch, sequence }) = self.flights.take(id) {
            let batch = self.batches.iter_mut().find(|b| b.number == batch);
            batch.into_iter().for_each(|batch| batch.unsent(sequence));
        }
    }

    /// A datagram came in at `stamps` and is looked at `now`. `payload` may be cut to the first 64 of its `payload_bytes`;
    /// `source` is `None` where the header before it names nobody.
    pub fn received(
        &mut self,
        source: Option<Source>,
        payload: &[u8],
        payload_bytes: u32,
        stamps: impl Into<Stamps>,
        now: Mono,
    ) {
        let stamps = stamps.into();
        let known = source.zip(Header::decode(payload)).is_some_and(|(source, header)| match header.kind {
            Kind::Ping | Kind::Question => self.answer(&source, &header, payload_bytes, stamps, now),
            Kind::FirstAck => self.take_answer(&source, &header, true, stamps, now),
            Kind::SecondAck => self.take_answer(&source, &header, false, stamps, now),
        });
        self.refused += u64::from(!known);
    }

    /// False when it is not answered.
    fn answer(
        &mut self,
        source: &Source,
        header: &Header,
        payload_bytes: u32,
        stamps: Stamps,
        now: Mono,
    ) -> bool {
        // Keys with the top bit are for the kernel's own (InfiniBand specification, 10.2.5).
        if header.queue_key >> 31 != 0 {
            return false;
        }
        let outputs = &mut self.outputs;
        let replaced = |heard| outputs.push_back(Output::Heard(heard));
        let place = (&self.local, self.flights.has_room());
        let Some(counters) = self.peers.hear(source, header, place, now, replaced) else {
            return false;
        };
        let address = DatagramAddress {
            gid: source.gid.unwrap_or(Gid([0; 16])),
            lid: source.lid,
            queue_pair: source.queue_pair,
            queue_key: header.queue_key,
            mtu_bytes: 0,
        };
        let answer = Header {
            kind: Kind::FirstAck,
            heard: counters.heard,
            acked: counters.acked,
            delay: None,
            ..*header
        };
        let to = Destination { address, marks: counters.marks };
        let flight = match header.kind {
            Kind::Ping => {
                let asked = header.delay.map_or(StampClock::Software, |(_, clock)| clock);
                Flight::FirstAck { to, header: answer, received: stamps.by_or_software(asked) }
            }
            _ => Flight::Other,
        };
        let longest = self.address.mtu_bytes.clamp(LARGE_BYTES.0, LARGE_BYTES.1);
        self.send(flight, to, &answer, payload_bytes.clamp(HEADER_BYTES as u32, longest));
        true
    }

    /// False when it answers nothing that is known.
    fn take_answer(
        &mut self,
        source: &Source,
        header: &Header,
        first: bool,
        stamps: Stamps,
        now: Mono,
    ) -> bool {
        let from = |batch: &&mut Batch| source.is_port(&batch.address);
        let Some(batch) = self.batches.iter_mut().filter(from).find(|batch| batch.number == header.batch)
        else {
            // It is of a batch that is over, or of a run that is: of the same peer it is told with the batch at hand.
            let other = self.batches.iter_mut().find(from);
            let known = other.is_some();
            other.into_iter().for_each(|batch| batch.stale_answers += u32::from(first));
            return known;
        };
        if header.nonce == self.nonce && source.queue_pair == batch.address.queue_pair {
            batch.answered(header, first, stamps, now);
        } else {
            batch.stale_answers += u32::from(first);
        }
        true
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Mono) {
        self.peers.tick(&self.local, now, |heard| self.outputs.push_back(Output::Heard(heard)));
        for batch in &mut self.batches {
            batch.tick(now);
        }
        self.ask(now);
        self.ping_leases(now);
        if self.granted(now) {
            self.prepare_batches(now);
            self.ping_mesh(now);
        } else {
            let mesh = |batch: &&mut Batch| batch.plan.lease.is_none();
            self.batches.iter_mut().filter(mesh).for_each(Batch::stop);
        }
        self.finish(now);
    }
}

#[cfg(test)]
mod tests;
