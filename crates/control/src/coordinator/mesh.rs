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
use super::place::Standing;
use super::settings::{BOOK_QUIET, BOOK_SETTLES, BOOK_SETTLES_MAX, GRANT_FOR, GRANT_RENEWAL};
use super::{Action, ConnectionId};
use rdmascope_link::{PEERS_PER_FRAME_MAX, PINGS_SINCE, ToAgent};
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{DatagramAddress, EndpointName, MeshSweep, Mono, Peer};
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
    /// See [`ToAgent::Grant`].
    pub(super) cross_rail_every: u32,
    pub(super) sweep: Option<MeshSweep>,
}

/// The address book and who has it, and when the next grants go out.
#[derive(Clone, Debug, Default)]
pub(super) struct MeshGrants {
    /// The membership that the book was made from.
    seen: u64,
    /// When the first and the last change came that nobody was told of.
    changed_at: Option<(Mono, Mono)>,
    renew_at: Option<Mono>,
    /// Counts books; never starts anew, since agents ignore an older one.
    generation: u64,
    /// The generation in which its names last changed: that of agents without pings.
    named: u64,
    book: BTreeMap<EndpointName, Entry>,
    /// Numbers of rails, from 1, by their names; none is ever given to another, or every book would change with one rail.
    rails: BTreeMap<String, u32>,
    /// The pass that agents were told of.
    sweep: Option<MeshSweep>,
    /// The generation that each connection was sent.
    sent: BTreeMap<ConnectionId, u64>,
}

/// What the book has of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// By which its pings may be told.
    number: EndpointIndex,
    address: Option<DatagramAddress>,
    /// Number of its rail.
    rail: u32,
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
    /// These peers, frame by frame. Without `addresses` they have none, and neither numbers nor rails.
    fn all(book: &[(&EndpointName, &Entry)], addresses: bool) -> Vec<Self> {
        let part = |part: &[(&EndpointName, &Entry)]| {
            let peer = |&(name, entry): &(&EndpointName, &Entry)| Peer {
                name: name.clone(),
                address: entry.address.filter(|_| addresses),
                rail: if addresses { entry.rail } else { 0 },
            };
            let numbers = part.iter().filter(|_| addresses).map(|(_, entry)| entry.number.0);
            Self { peers: part.iter().map(peer).collect(), numbers: numbers.collect(), removed: Vec::new() }
        };
        book.chunks(PEERS_PER_FRAME_MAX).map(part).collect()
    }
}

impl MeshGrants {
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        self.settles_at().or(self.renew_at)
    }

    /// When changes are told. While more of them come they wait, but not for ever: there may always be one more.
    fn settles_at(&self) -> Option<Mono> {
        let (first, last) = self.changed_at?;
        Some(first.after(BOOK_SETTLES).max(last.after(BOOK_QUIET)).min(first.after(BOOK_SETTLES_MAX)))
    }

    /// The latest membership is in every agent's hands.
    pub(super) fn settled(&self, members: &Members) -> bool {
        self.seen == members.generation && self.changed_at.is_none()
    }

    /// Sends the book's changes when the membership has settled, renews grants in time, and tells of a pass at once.
    pub(super) fn run(
        &mut self,
        members: &Members,
        standing: &Standing,
        terms: Terms,
        now: Mono,
        outbox: &mut VecDeque<Action>,
    ) {
        if terms.pings_per_second == 0 {
            let rails = std::mem::take(&mut self.rails);
            *self = Self { generation: self.generation, named: self.named, rails, ..Self::default() };
            return;
        }
        if members.generation != self.seen {
            self.seen = members.generation;
            self.changed_at = Some((self.changed_at.map_or(now, |(first, _)| first), now));
        }
        let settled = self.settles_at().is_some_and(|at| now >= at) && standing.knows(members);
        let pass = terms.sweep != self.sweep;
        if !settled && !pass && self.renew_at.is_some_and(|at| now < at) {
            return;
        }
        if self.changed_at.is_some() && !settled && !pass {
            return; // Renewed together with the new book, a second from here at the latest.
        }
        let change = if settled { self.renew_book(members, standing) } else { None };
        if settled {
            self.changed_at = None;
        }
        self.sweep = terms.sweep;
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
            // Whoever is in maintenance is in nobody's book, and nobody would answer it.
            let silenced = members.is_silenced(node);
            let grant = ToAgent::Grant {
                epoch: terms.epoch,
                generation,
                expires_in: GRANT_FOR,
                pings_per_second: if silenced { 0 } else { terms.pings_per_second },
                pings_per_batch: terms.pings_per_batch,
                labels: terms.labels,
                cross_rail_every: terms.cross_rail_every,
                sweep: terms.sweep.filter(|_| !silenced),
            };
            outbox.push_back(Action::Send(connection, grant));
        }
    }

    /// Makes the book of who is there now; `None` when it is the one before.
    fn renew_book(&mut self, members: &Members, standing: &Standing) -> Option<Change> {
        let mut book = BTreeMap::new();
        for &number in members.ready() {
            let Some(endpoint) = members.endpoint(number) else { continue };
            let rail = standing.rail(number).map_or(0, |name| match self.rails.get(name) {
                Some(rail) => *rail,
                None => {
                    let rail = u32::try_from(self.rails.len() + 1).unwrap_or(0);
                    self.rails.insert(name.to_owned(), rail);
                    rail
                }
            });
            let entry = Entry { number, address: endpoint.info.datagrams, rail };
            book.insert(endpoint.info.name.clone(), entry);
        }
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

    /// All of it, and never nothing: an agent that was not told of an empty book knows no base for what changes it.
    fn whole_book(&self, addresses: bool) -> Vec<Part> {
        let parts = Part::all(&self.book.iter().collect::<Vec<_>>(), addresses);
        let nobody = Part { peers: Arc::default(), numbers: Arc::default(), removed: Vec::new() };
        if parts.is_empty() { vec![nobody] } else { parts }
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
