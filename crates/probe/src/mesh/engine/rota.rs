//! Whose turn it is: peers of the own rail, a sample of the others, or everybody once in a pass at a rate of its own.

use super::{BATCH_PINGS_MAX, Batch, Engine, Stage};
use crate::limits::{MESH_PINGS_PER_SECOND_MAX, MESH_SWEEP_BATCH_MAX, MESH_SWEEP_PINGS_PER_SECOND_MAX};
use crate::mesh::words::MeshGrant;

/// Batches of the mesh that are being sent, drained or prepared at the same time.
pub(super) const BATCHES_MAX: usize = 6;
/// Of them that wait for their addresses: one that does not resolve keeps a helper busy for a second.
const RESOLVING_MAX: usize = 2;
/// Batches of a pass that are under way at the same time: each that is not answered is waited for a second, and must hold nobody up.
const PASS_BATCHES_MAX: usize = 64;

/// How far an engine is in the book.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rota {
    /// Its own rail; 0: not known.
    pub(super) rail: u32,
    /// Batches that were begun, passes left out.
    begun: u64,
    /// Turns of peers of its own rail, and of all where rails make no difference.
    turn: u64,
    /// Turns of peers on other rails.
    cross_turn: u64,
    /// How often it has gone through the book with the peer whose turn it is.
    pub(super) round: u64,
    /// The pass, and how far that is; 0: none.
    pass: u64,
    pass_turn: u64,
}

impl Rota {
    /// A grant came: true when a pass begins or ends with it.
    pub(super) fn pass(&mut self, grant: Option<MeshGrant>) -> bool {
        let number = grant.and_then(|grant| grant.sweep).map_or(0, |sweep| sweep.number);
        let other = number != self.pass;
        if other {
            (self.pass, self.pass_turn) = (number, 0);
        }
        other
    }
}

/// Whose turn it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rail {
    Any,
    Own,
    Other,
}

impl Engine {
    /// Between two pings of the mesh, nanoseconds.
    pub(super) fn interval(&self) -> u64 {
        let pass = self.grant.and_then(|grant| grant.sweep).filter(|_| self.is_passing());
        let rate = match pass {
            Some(sweep) => sweep.pings_per_second.clamp(1, MESH_SWEEP_PINGS_PER_SECOND_MAX),
            None => {
                let asked = self.grant.map_or(1, |grant| grant.pings_per_second);
                asked.clamp(1, MESH_PINGS_PER_SECOND_MAX)
            }
        };
        1_000_000_000 / u64::from(rate)
    }

    pub(super) fn pings_per_batch(&self) -> u32 {
        match self.grant.and_then(|grant| grant.sweep).filter(|_| self.has_more_to_pass()) {
            Some(sweep) => sweep.pings_per_batch.clamp(1, MESH_SWEEP_BATCH_MAX),
            None => self.grant.map_or(1, |grant| grant.pings_per_batch).clamp(1, BATCH_PINGS_MAX),
        }
    }

    /// There are peers that the pass has not come to.
    pub(super) fn has_more_to_pass(&self) -> bool {
        self.rota.pass != 0 && self.rota.pass_turn < self.peers.book.len() as u64
    }

    /// There are, or the last of its pings are still to be sent.
    pub(super) fn is_passing(&self) -> bool {
        let unsent = |batch: &Batch| batch.plan.of_pass && batch.stage != Stage::Draining;
        self.has_more_to_pass() || self.rota.pass != 0 && self.mesh_batches().any(unsent)
    }

    /// Is there room to begin with one more peer?
    pub(super) fn may_prepare(&self) -> bool {
        let early = |batch: &&Batch| matches!(batch.stage, Stage::Resolving | Stage::Ready);
        let most = if self.has_more_to_pass() { PASS_BATCHES_MAX } else { BATCHES_MAX };
        self.mesh_batches().count() < most
            && self.mesh_batches().filter(early).count() < RESOLVING_MAX
            && self.pingable > 0
    }

    /// The next in the book that can be pinged, from the one behind this endpoint on. One batch of a peer at a time: else the
    /// peer could not tell any more what it heard of the one before.
    pub(super) fn next_peer(&mut self) -> Option<usize> {
        let grant = self.grant?;
        if let Some(sweep) = grant.sweep.filter(|_| self.has_more_to_pass()) {
            let whose = if sweep.cross_rail { Rail::Any } else { Rail::Own };
            // Whoever has a batch already is measured by that one.
            let found = self.find(self.rota.pass_turn, self.peers.book.len() as u64, whose);
            self.rota.pass_turn = found.map_or(u64::MAX, |(_, turn)| turn);
            self.rota.round = self.rota.pass;
            return found.map(|(at, _)| at);
        }
        let other = grant.cross_rail_every > 1
            && self.rota.begun % u64::from(grant.cross_rail_every) == u64::from(grant.cross_rail_every) - 1;
        let order = match grant.cross_rail_every {
            1 => [Rail::Any; 2],
            0 => [Rail::Own; 2],
            _ if other => [Rail::Other, Rail::Own],
            _ => [Rail::Own, Rail::Other],
        };
        let peers = self.peers.book.len() as u64;
        let found = order.into_iter().find_map(|whose| {
            let from = if whose == Rail::Other { self.rota.cross_turn } else { self.rota.turn };
            self.find(from, from + peers, whose).map(|(at, turn)| (at, turn, whose))
        });
        let (at, turn, whose) = found?;
        self.rota.begun += 1;
        self.rota.round = turn.saturating_sub(1) / peers.max(1);
        *(if whose == Rail::Other { &mut self.rota.cross_turn } else { &mut self.rota.turn }) = turn;
        Some(at)
    }

    /// The first of those turns whose peer can be pinged and has no batch; where it is in the book, and the turn behind it.
    fn find(&self, from: u64, to: u64, whose: Rail) -> Option<(usize, u64)> {
        let peers = self.peers.book.len() as u64;
        (from..to).find_map(|turn| {
            let at = usize::try_from((self.place as u64 + 1 + turn) % peers).ok()?;
            let busy = |batch: &Batch| batch.peer == self.peers.book[at].name;
            let meant = match whose {
                Rail::Any => true,
                Rail::Own => self.shares_rail(at),
                Rail::Other => !self.shares_rail(at),
            };
            (meant && self.can_ping(at) && !self.mesh_batches().any(busy)).then_some((at, turn + 1))
        })
    }

    /// The peer is on the same rail, as far as is known.
    fn shares_rail(&self, at: usize) -> bool {
        let rail = self.peers.book.get(at).map_or(0, |peer| peer.rail);
        rail == 0 || self.rota.rail == 0 || rail == self.rota.rail
    }

    /// Datagrams cross no kind of fabric and no family of addresses; endpoints of one node are not paired.
    pub(super) fn can_ping(&self, at: usize) -> bool {
        let Some(peer) = self.peers.book.get(at) else { return false };
        let own = &self.address;
        peer.name.node != self.local.node
            && peer.address.is_some_and(|other| {
                (own.lid == 0) == (other.lid == 0)
                    && (own.lid != 0 || own.gid.ip().is_ipv4() == other.gid.ip().is_ipv4())
            })
    }
}
