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
use super::settings::{BOOK_SETTLES, GRANT_FOR, GRANT_RENEWAL};
use super::{Action, ConnectionId};
use rdmascope_link::{PEERS_PER_FRAME_MAX, PINGS_SINCE, ToAgent};
use rdmascope_model::{DatagramAddress, EndpointName, MeshSweep, Mono, Peer};
use std::collections::{BTreeMap, VecDeque};

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
    changed_at: Option<Mono>,
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

/// Address and number of the rail.
type Entry = (Option<DatagramAddress>, u32);

/// What a new book has that its base has not, and the reverse.
struct Change {
    base: u64,
    peers: Vec<Peer>,
    removed: Vec<EndpointName>,
}

impl MeshGrants {
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        self.changed_at.map(|at| at.after(BOOK_SETTLES)).or(self.renew_at)
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
            self.changed_at.get_or_insert(now); // Not moved by further changes: there may always be one more.
        }
        let settled =
            self.changed_at.is_some_and(|at| now >= at.after(BOOK_SETTLES)) && standing.knows(members);
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
        for (node, connection) in members.nodes_connected() {
            let pings = members.agent(node).is_some_and(|member| member.protocol >= PINGS_SINCE);
            let generation = if pings { self.generation } else { self.named };
            self.send_book(connection, pings, generation, change.as_ref(), outbox);
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
        for &index in members.ready() {
            let Some(endpoint) = members.endpoint(index) else { continue };
            let rail = standing.rail(index).map_or(0, |name| match self.rails.get(name) {
                Some(number) => *number,
                None => {
                    let number = u32::try_from(self.rails.len() + 1).unwrap_or(0);
                    self.rails.insert(name.to_owned(), number);
                    number
                }
            });
            book.insert(endpoint.info.name.clone(), (endpoint.info.datagrams, rail));
        }
        let new = book.iter().filter(|(name, entry)| self.book.get(name) != Some(entry));
        let peers: Vec<_> =
            new.map(|(name, &(address, rail))| Peer { name: name.clone(), address, rail }).collect();
        let removed: Vec<_> = self.book.keys().filter(|name| !book.contains_key(name)).cloned().collect();
        if peers.is_empty() && removed.is_empty() {
            return None;
        }
        let base = self.generation;
        self.generation += 1;
        if !removed.is_empty() || peers.iter().any(|peer| !self.book.contains_key(&peer.name)) {
            self.named = self.generation;
        }
        self.book = book;
        Some(Change { base, peers, removed })
    }

    /// Sends what a connection does not have yet.
    fn send_book(
        &mut self,
        connection: ConnectionId,
        pings: bool,
        generation: u64,
        change: Option<&Change>,
        outbox: &mut VecDeque<Action>,
    ) {
        let had = self.sent.insert(connection, generation);
        if had == Some(generation) {
            return;
        }
        let total = u32::try_from(self.book.len()).unwrap_or(u32::MAX);
        let mut send = |base, peers: &[Peer], removed: &[EndpointName]| {
            let (peers, removed) = (peers.to_vec(), removed.to_vec());
            let frame = ToAgent::Book { generation, base, total, peers, removed };
            outbox.push_back(Action::Send(connection, frame));
        };
        match change {
            Some(change) if pings && had == Some(change.base) => {
                change.removed.chunks(PEERS_PER_FRAME_MAX).for_each(|part| send(change.base, &[], part));
                change.peers.chunks(PEERS_PER_FRAME_MAX).for_each(|part| send(change.base, part, &[]));
            }
            _ => {
                let peer = |(name, &(address, rail)): (&EndpointName, &Entry)| Peer {
                    name: name.clone(),
                    address: address.filter(|_| pings),
                    rail: if pings { rail } else { 0 },
                };
                let whole: Vec<_> = self.book.iter().map(peer).collect();
                whole.chunks(PEERS_PER_FRAME_MAX).for_each(|part| send(0, part, &[]));
            }
        }
    }
}
