//! Mesh grants: every connected agent may ping every endpoint of the address book, at a bounded rate, for a minute.
//!
//! The book has a generation. An agent gets the whole book on each new connection and changes of it from then on; one that
//! knows no pings (before version 3) needs names only, and hears nothing of addresses that change.
//!
//! What a rolling restart of 512 agents with 8 endpoints costs: an entry takes about 70 bytes, so that one agent that goes and
//! comes back sends each other agent two changes of together 0.8 KB (8 names removed, 8 entries added) and takes a whole book
//! of 290 KB for itself. All 512, one after another: 210 MB of changes and 150 MB of books from the coordinator, 0.7 MB at each
//! agent. Whole books for every change would be 150 GB. Restarts within one second share a change.

use super::members::Members;
use super::settings::{BOOK_SETTLES, GRANT_FOR, GRANT_RENEWAL};
use super::{Action, ConnectionId};
use rdmascope_link::{PEERS_PER_FRAME_MAX, PINGS_SINCE, ToAgent};
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{DatagramAddress, EndpointName, Mono, Peer};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What a grant says besides its book.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) epoch: u64,
    /// 0: nothing is granted, and what was granted runs out.
    pub(super) pings_per_second: u32,
    pub(super) pings_per_batch: u32,
    pub(super) labels: u32,
}

/// The address book and who has it, and when the next grants go out.
#[derive(Debug, Default)]
pub(super) struct MeshGrants {
    /// The membership that the book was made from.
    seen: u64,
    changed_at: Option<Mono>,
    renew_at: Option<Mono>,
    /// Counts books; never starts anew, since agents ignore an older one.
    generation: u64,
    /// The generation in which its names last changed: that of agents without pings.
    named: u64,
    book: BTreeMap<EndpointName, (EndpointIndex, Option<DatagramAddress>)>,
    /// The generation that each connection was sent.
    sent: BTreeMap<ConnectionId, u64>,
}

/// What a new book has that its base has not, and the reverse.
struct Change {
    base: u64,
    parts: Vec<Part>,
}

/// What one frame tells of a book. Thousands of connections are told the same, and hold it together.
#[derive(Clone, Debug)]
struct Part {
    peers: Arc<[Peer]>,
    numbers: Arc<[u32]>,
    removed: Vec<EndpointName>,
}

impl Part {
    /// These peers, frame by frame. Without `addresses` they have none, and no numbers.
    fn all(
        book: &[(&EndpointName, &(EndpointIndex, Option<DatagramAddress>))],
        addresses: bool,
    ) -> Vec<Self> {
        let part = |part: &[(&EndpointName, &(EndpointIndex, Option<DatagramAddress>))]| {
            let peer = |&(name, &(_, address)): &(&EndpointName, &(_, Option<_>))| Peer {
                name: name.clone(),
                address: address.filter(|_| addresses),
            };
            let numbers = part.iter().filter(|_| addresses).map(|(_, (number, _))| number.0);
            Self { peers: part.iter().map(peer).collect(), numbers: numbers.collect(), removed: Vec::new() }
        };
        book.chunks(PEERS_PER_FRAME_MAX).map(part).collect()
    }
}

impl MeshGrants {
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        self.changed_at.map(|at| at.after(BOOK_SETTLES)).or(self.renew_at)
    }

    /// The latest membership is in every agent's hands.
    pub(super) fn settled(&self, members: &Members) -> bool {
        self.seen == members.generation && self.changed_at.is_none()
    }

    /// Sends the book's changes when the membership has settled, and renews grants in time.
    pub(super) fn run(&mut self, members: &Members, terms: Terms, now: Mono, outbox: &mut VecDeque<Action>) {
        if terms.pings_per_second == 0 {
            *self = Self { generation: self.generation, named: self.named, ..Self::default() };
            return;
        }
        if members.generation != self.seen {
            self.seen = members.generation;
            self.changed_at.get_or_insert(now); // Not moved by further changes: there may always be one more.
        }
        let settled = self.changed_at.is_some_and(|at| now >= at.after(BOOK_SETTLES));
        if !settled && self.renew_at.is_some_and(|at| now < at) {
            return;
        }
        if self.changed_at.is_some() && !settled {
            return; // Renewed together with the new book, a second from here at the latest.
        }
        let change = if settled { self.renew_book(members) } else { None };
        self.changed_at = None;
        self.renew_at = Some(now.after(GRANT_RENEWAL));
        self.sent.retain(|&connection, _| members.node(connection).is_some());
        // With addresses and without, made when the first connection needs them.
        let mut whole = [None, None];
        for (node, connection) in members.nodes_connected() {
            let pings = members.agent(node).is_some_and(|member| member.protocol >= PINGS_SINCE);
            let generation = if pings { self.generation } else { self.named };
            let had = self.sent.insert(connection, generation);
            if had != Some(generation) {
                let (base, parts) = match &change {
                    Some(change) if pings && had == Some(change.base) => (change.base, &change.parts),
                    _ => (0, &*whole[usize::from(pings)].get_or_insert_with(|| self.whole_book(pings))),
                };
                self.send_book(connection, (generation, base), parts, outbox);
            }
            let grant = ToAgent::Grant {
                epoch: terms.epoch,
                generation,
                expires_in: GRANT_FOR,
                pings_per_second: terms.pings_per_second,
                pings_per_batch: terms.pings_per_batch,
                labels: terms.labels,
            };
            outbox.push_back(Action::Send(connection, grant));
        }
    }

    /// Makes the book of who is there now; `None` when it is the one before.
    fn renew_book(&mut self, members: &Members) -> Option<Change> {
        let ready = members.ready().iter().filter_map(|&index| Some((index, members.endpoint(index)?)));
        let book: BTreeMap<_, _> =
            ready.map(|(index, e)| (e.info.name.clone(), (index, e.info.datagrams))).collect();
        let new: Vec<_> = book.iter().filter(|(name, entry)| self.book.get(name) != Some(entry)).collect();
        let removed: Vec<_> = self.book.keys().filter(|name| !book.contains_key(name)).cloned().collect();
        if new.is_empty() && removed.is_empty() {
            return None;
        }
        let base = self.generation;
        self.generation += 1;
        if !removed.is_empty() || new.iter().any(|(name, _)| !self.book.contains_key(*name)) {
            self.named = self.generation;
        }
        let gone = removed.chunks(PEERS_PER_FRAME_MAX).map(|removed| Part {
            peers: Arc::default(),
            numbers: Arc::default(),
            removed: removed.to_vec(),
        });
        let parts = gone.chain(Part::all(&new, true)).collect();
        self.book = book;
        Some(Change { base, parts })
    }

    fn whole_book(&self, addresses: bool) -> Vec<Part> {
        Part::all(&self.book.iter().collect::<Vec<_>>(), addresses)
    }

    fn send_book(
        &self,
        connection: ConnectionId,
        (generation, base): (u64, u64),
        parts: &[Part],
        outbox: &mut VecDeque<Action>,
    ) {
        let total = u32::try_from(self.book.len()).unwrap_or(u32::MAX);
        for Part { peers, numbers, removed } in parts.iter().cloned() {
            let frame = ToAgent::Book { generation, base, total, peers, numbers, removed };
            outbox.push_back(Action::Send(connection, frame));
        }
    }
}
