//! Whom a responder answers, and what it heard of each: at most 64 bytes for a peer, whatever the book names.

use super::engine::LeasedPings;
use super::packet::{Header, Kind, Sizes};
use crate::limits::{MESH_PINGS_PER_SECOND_MAX, PING_INTERVAL_MIN};
use rdmascope_model::{DatagramAddress, EndpointName, Gid, Heard, LeaseId, Marks, Mono, Peer};
use std::sync::Arc;
use std::time::Duration;

/// After so much silence a batch is over, and what was heard of it is told.
const SILENCE: Duration = Duration::from_secs(2);
/// Answers that a peer of the book may have at once beyond its rate: what a switch held up for a second.
const BURST: Duration = Duration::from_secs(1);
/// Between two answers to a peer of the book, in the long run: twice the rate that any grant allows, since datagrams may
/// come twice and clocks differ.
const ANSWER_EVERY: Duration = Duration::from_nanos(500_000_000 / MESH_PINGS_PER_SECOND_MAX as u64);

/// Who sent a datagram, as the receive completion and the header before the payload tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// GID; `None` for InfiniBand within a subnet, whose datagrams carry none.
    pub gid: Option<Gid>,
    /// LID; 0 on Ethernet.
    pub lid: u16,
    /// Queue pair.
    pub queue_pair: u32,
}

impl Source {
    /// Is it the port at this address, whatever its queue pair?
    pub(super) fn is_port(&self, address: &DatagramAddress) -> bool {
        match self.gid {
            Some(gid) => gid == address.gid,
            None => self.lid != 0 && self.lid == address.lid,
        }
    }
}

/// What was heard of one batch; small and large.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    batch: u32,
    heard: [u16; 2],
    acked: [u16; 2],
}

fn sizes([small, large]: [u16; 2]) -> Sizes {
    Sizes { small: small.into(), large: large.into() }
}

fn count(counts: &mut [u16; 2], large: bool) {
    let one = &mut counts[usize::from(large)];
    *one = one.saturating_add(1);
}

/// What a responder keeps of one prober.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// The prober's run.
    nonce: u64,
    /// Which of the 64 pings up to `highest` were heard.
    window: u64,
    /// The last ping; 0 when nothing was heard, or all is told.
    last: Mono,
    /// When the bucket of answers is full again.
    full_at: Mono,
    current: Tally,
    /// The batch before: its last pings may be under way, and its prober may ask.
    previous: Tally,
    highest: u32,
    /// Index in the book.
    at: u32,
}

const _: () = assert!(size_of::<Record>() <= 64);

impl Record {
    fn new(at: u32) -> Self {
        Self {
            nonce: 0,
            window: 0,
            last: Mono(0),
            full_at: Mono(0),
            current: Tally::default(),
            previous: Tally::default(),
            highest: 0,
            at,
        }
    }

    fn is_told(&self) -> bool {
        self.last == Mono(0)
    }

    /// May it have one more answer? (A leaky bucket as ATM's generic cell rate algorithm, ITU-T I.371.)
    fn admit(&mut self, every: Duration, now: Mono) -> bool {
        if self.full_at > now.after(BURST) {
            return false;
        }
        self.full_at = self.full_at.max(now).after(every);
        true
    }

    /// Counts a ping, and its answer when there `may` be one; the counters that the answer carries. A batch that is not known
    /// begins a new tally; a question after one has no answer.
    fn hear(&mut self, header: &Header, may: bool, now: Mono) -> Option<Counters> {
        let is_ping = header.kind == Kind::Ping;
        let same_run = self.nonce == header.nonce;
        let (tally, new) = if same_run && self.current.batch == header.batch {
            let new = is_ping && self.is_new(header.sequence);
            (&mut self.current, new)
        } else if same_run && self.previous.batch == header.batch {
            (&mut self.previous, is_ping)
        } else if is_ping {
            let previous = if same_run { self.current } else { Tally::default() };
            let current = Tally { batch: header.batch, ..Tally::default() };
            let (window, highest) = (1, header.sequence);
            *self = Self { nonce: header.nonce, window, highest, current, previous, ..*self };
            (&mut self.current, true)
        } else {
            return None;
        };
        if new {
            count(&mut tally.heard, header.large);
            if may {
                count(&mut tally.acked, header.large);
            }
        }
        let (heard, acked) = (sizes(tally.heard), sizes(tally.acked));
        let counters = Counters { heard, acked, marks: Marks::default() };
        if is_ping {
            self.last = now;
        }
        may.then_some(counters)
    }

    /// Was this ping not heard before? What lies more than 64 pings back is taken for a duplicate.
    fn is_new(&mut self, sequence: u32) -> bool {
        if sequence > self.highest {
            self.window = self.window.checked_shl(sequence - self.highest).unwrap_or(0) | 1;
            self.highest = sequence;
            return true;
        }
        let bit = 1_u64.checked_shl(self.highest - sequence).unwrap_or(0);
        let new = bit != 0 && self.window & bit == 0;
        self.window |= bit;
        new
    }

    fn report(&self, local: &EndpointName, peer: &EndpointName) -> Option<Heard> {
        let heard = sizes(self.current.heard);
        (!self.is_told()).then(|| Heard {
            local: local.clone(),
            peer: peer.clone(),
            batch: self.current.batch,
            small: heard.small,
            large: heard.large,
        })
    }
}

/// The prober of a running lease: answered whether the book names it or not.
#[derive(Clone, Debug)]
struct Guest {
    pings: LeasedPings,
    record: Record,
}

impl Guest {
    /// When no more pings are expected.
    fn silent_at(&self) -> Option<Mono> {
        let heard = sizes(self.record.current.heard);
        let all = heard.small.saturating_add(heard.large) >= self.pings.count();
        let silence = SILENCE.max(self.pings.spec.interval.saturating_mul(2));
        let last = self.record.last;
        (!self.record.is_told()).then(|| if all { last } else { last.after(silence) })
    }
}

/// What to answer a ping with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) heard: Sizes,
    pub(super) acked: Sizes,
    pub(super) marks: Marks,
}

/// All peers of one endpoint.
#[derive(Clone, Debug)]
pub(super) struct Peers {
    pub(super) book: Arc<[Peer]>,
    /// In the order of [`key`].
    records: Vec<Record>,
    /// Records whose batch is not told yet.
    active: Vec<u32>,
    guests: Vec<Guest>,
}

fn key(book: &[Peer], at: u32) -> (u16, Gid) {
    let peer = book.get(usize::try_from(at).unwrap_or(usize::MAX));
    peer.and_then(|peer| peer.address).map_or((0, Gid([0; 16])), |address| (address.lid, address.gid))
}

impl Peers {
    pub(super) fn new() -> Self {
        Self { book: Arc::new([]), records: Vec::new(), active: Vec::new(), guests: Vec::new() }
    }

    /// Takes a new book over; what was heard of peers whose ports are in it still counts.
    pub(super) fn set_book(&mut self, book: Arc<[Peer]>) {
        let with_address = (0_u32..).zip(book.iter()).filter(|(_, peer)| peer.address.is_some());
        let mut records: Vec<Record> = with_address.map(|(at, _)| Record::new(at)).collect();
        records.sort_unstable_by_key(|record| key(&book, record.at));
        for old in &self.records {
            let port = key(&self.book, old.at);
            if let Ok(found) = records.binary_search_by_key(&port, |record| key(&book, record.at)) {
                let at = records[found].at;
                records[found] = Record { at, ..*old };
            }
        }
        let places = (0_u32..).zip(&records);
        self.active = places.filter(|(_, record)| !record.is_told()).map(|(place, _)| place).collect();
        self.records = records;
        self.book = book;
    }

    pub(super) fn add_guest(&mut self, pings: LeasedPings) {
        self.guests.push(Guest { pings, record: Record::new(0) });
    }

    /// The lease is over; what was heard of it and not told yet.
    pub(super) fn remove_guest(&mut self, lease: LeaseId, local: &EndpointName) -> Option<Heard> {
        let at = self.guests.iter().position(|guest| guest.pings.lease == lease)?;
        let guest = self.guests.swap_remove(at);
        guest.record.report(local, &guest.pings.peer)
    }

    /// Somebody's ping, which can be answered when there is `room`: what to answer, or `None` for nothing. `replaced` is told
    /// what was heard of the batch before.
    pub(super) fn hear(
        &mut self,
        source: &Source,
        header: &Header,
        (local, room): (&EndpointName, bool),
        now: Mono,
        replaced: impl FnOnce(Heard),
    ) -> Option<Counters> {
        let guest = self
            .guests
            .iter_mut()
            .find(|g| g.pings.batch == header.batch && source.is_port(&g.pings.address));
        if let Some(guest) = guest {
            let may = room && guest.record.admit(PING_INTERVAL_MIN, now);
            let counters = guest.record.hear(header, may, now)?;
            return Some(Counters { marks: guest.pings.marks, ..counters });
        }
        let place = self.find(source)?;
        let record = self.records.get_mut(place)?;
        let may = room && record.admit(ANSWER_EVERY, now);
        let before = *record;
        let counters = record.hear(header, may, now);
        if (record.nonce, record.current.batch) != (before.nonce, before.current.batch) {
            let peer = self.book.get(usize::try_from(before.at).ok()?);
            if let Some(heard) = peer.and_then(|peer| before.report(local, &peer.name)) {
                replaced(heard);
            }
        }
        if before.is_told() && !record.is_told() {
            self.active.push(u32::try_from(place).unwrap_or(u32::MAX));
        }
        counters
    }

    fn find(&self, source: &Source) -> Option<usize> {
        let address = |record: &Record| key(&self.book, record.at);
        match source.gid {
            // On Ethernet there are no LIDs, so the book is in the order of GIDs.
            Some(gid) if source.lid == 0 => self.records.binary_search_by_key(&(0, gid), address).ok(),
            Some(gid) => self.records.iter().position(|record| address(record).1 == gid),
            None if source.lid == 0 => None,
            None => {
                let place = self.records.partition_point(|record| address(record).0 < source.lid);
                let record = self.records.get(place)?;
                (address(record).0 == source.lid).then_some(place)
            }
        }
    }

    /// Tells what was heard of batches that have been silent for long enough.
    pub(super) fn tick(&mut self, local: &EndpointName, now: Mono, mut tell: impl FnMut(Heard)) {
        for guest in &mut self.guests {
            if guest.silent_at().is_some_and(|at| now >= at) {
                guest.record.report(local, &guest.pings.peer).into_iter().for_each(&mut tell);
                guest.record.last = Mono(0);
            }
        }
        let mut at = 0;
        while let Some(&place) = self.active.get(at) {
            let record = self.records.get_mut(usize::try_from(place).unwrap_or(usize::MAX));
            let Some(record) = record else {
                self.active.swap_remove(at);
                continue;
            };
            if now.since(record.last) < SILENCE {
                at += 1;
                continue;
            }
            let peer = self.book.get(usize::try_from(record.at).unwrap_or(usize::MAX));
            if let Some(heard) = peer.and_then(|peer| record.report(local, &peer.name)) {
                tell(heard);
            }
            record.last = Mono(0);
            self.active.swap_remove(at);
        }
    }

    /// When [`Peers::tick`] has something to tell.
    pub(super) fn due(&self) -> Option<Mono> {
        let record = |place: &u32| self.records.get(usize::try_from(*place).unwrap_or(usize::MAX));
        let records = self.active.iter().filter_map(record).map(|record| record.last.after(SILENCE));
        records.chain(self.guests.iter().filter_map(Guest::silent_at)).min()
    }
}
