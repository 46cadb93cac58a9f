//! Mesh grants: every connected agent may ping every endpoint of the address book, at a bounded rate, for a minute.

use super::Action;
use super::members::Members;
use super::settings::{BOOK_SETTLES, GRANT_FOR, GRANT_RENEWAL};
use rdmascope_link::{PEERS_PER_FRAME_MAX, ToAgent};
use rdmascope_localise::Matrix;
use rdmascope_model::{Mono, Peer};
use std::collections::VecDeque;

/// When the next grants go out.
#[derive(Debug, Default)]
pub(super) struct MeshGrants {
    /// The membership that the last book was made from.
    generation: u64,
    changed_at: Option<Mono>,
    renew_at: Option<Mono>,
    book: Vec<Peer>,
}

impl MeshGrants {
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        self.changed_at.map(|at| at.after(BOOK_SETTLES)).or(self.renew_at)
    }

    /// The latest membership is in every agent's hands.
    pub(super) fn settled(&self, members: &Members) -> bool {
        self.generation == members.generation && self.changed_at.is_none()
    }

    /// Sends a new book when the membership has settled, and renews grants in time. At a rate of 0 (off, or paused)
    /// nothing is granted, and what was granted runs out.
    pub(super) fn run(
        &mut self,
        members: &Members,
        matrix: &Matrix,
        pings_per_second: u32,
        epoch: u64,
        now: Mono,
        outbox: &mut VecDeque<Action>,
    ) {
        if pings_per_second == 0 {
            *self = Self::default();
            return;
        }
        if members.generation != self.generation {
            self.generation = members.generation;
            self.changed_at.get_or_insert(now); // Not moved by further changes: there may always be one more.
        }
        let new_book = self.changed_at.is_some_and(|at| now >= at.after(BOOK_SETTLES));
        if new_book {
            self.changed_at = None;
            self.book = members
                .ready()
                .iter()
                .map(|&index| Peer { name: matrix.name(index).clone(), address: None })
                .collect();
        }
        if !new_book && self.renew_at.is_some_and(|at| now < at) {
            return;
        }
        if self.changed_at.is_some() {
            return; // Renewed together with the new book, a second from here at the latest.
        }
        self.renew_at = Some(now.after(GRANT_RENEWAL));
        for (_, connection) in members.nodes_connected() {
            if new_book {
                self.send_book(connection, outbox);
            }
            let grant = ToAgent::Grant {
                epoch,
                generation: self.generation,
                expires_in: GRANT_FOR,
                pings_per_second,
                pings_per_batch: 0,
                labels: 1,
            };
            outbox.push_back(Action::Send(connection, grant));
        }
    }

    fn send_book(&self, connection: super::ConnectionId, outbox: &mut VecDeque<Action>) {
        let total = u32::try_from(self.book.len()).unwrap_or(u32::MAX);
        let generation = self.generation;
        for part in self.book.chunks(PEERS_PER_FRAME_MAX) {
            let frame =
                ToAgent::Book { generation, base: 0, total, peers: part.to_vec(), removed: Vec::new() };
            outbox.push_back(Action::Send(connection, frame));
        }
    }
}
