//! The mesh of a whole cluster by windows: each endpoint's turns are those of the real engine, each batch is drawn at once.

use crate::net::Net;
use crate::random::Random;
use crate::window::{Batch, Drawn};
use rdmascope_model::{EndpointName, Mono, Peer};
use rdmascope_probe::mesh::{MeshGrant, flow_label, pair_seed};

/// One endpoint's pings.
#[derive(Clone, Debug, Default)]
struct Prober {
    /// It takes part.
    open: bool,
    /// Its own place in the book.
    place: usize,
    /// Peers that had their turn.
    turn: u64,
    /// The batch begun last.
    number: u32,
    /// Whom the batch under way is for.
    peer: Option<usize>,
    times: Vec<u64>,
    first_label: usize,
    /// Moments that questions take.
    taken: Vec<u64>,
    /// Counts plans: what was planned under an older one is not done.
    plan: u64,
}

/// What the mesh of one node knows.
#[derive(Clone, Debug, Default)]
struct Node {
    grant: Option<MeshGrant>,
    /// The endpoints of the book, in its order; `None` for one without an address.
    book: Vec<Option<usize>>,
    began: Mono,
    nonce: u64,
}

/// The meshes of all nodes.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    probers: Vec<Prober>,
    nodes: Vec<Node>,
}

/// A batch that was planned: its endpoint, its plan and when its last ping leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) end: usize,
    pub(crate) plan: u64,
    pub(crate) at: u64,
}

impl Windows {
    pub(crate) fn new(net: &Net) -> Self {
        let topology = net.topology();
        Self {
            probers: vec![Prober::default(); topology.len()],
            nodes: vec![Node::default(); topology.layout.nodes],
        }
    }

    /// An endpoint takes part from now on.
    pub(crate) fn open(&mut self, end: usize, nonce: u64, now: Mono, net: &Net) {
        let node = &mut self.nodes[net.topology().ends[end].node];
        (node.began, node.nonce) = (now, nonce);
        let Prober { plan, place, .. } = self.probers[end];
        let number = (nonce >> 32) as u32;
        self.probers[end] = Prober { open: true, place, number, plan: plan + 1, ..Prober::default() };
    }

    /// An endpoint takes part no more: what is under way is not told.
    pub(crate) fn close(&mut self, end: usize) {
        let prober = &mut self.probers[end];
        (prober.open, prober.peer, prober.plan) = (false, None, prober.plan + 1);
    }

    /// A node's process is gone with all that it knew.
    pub(crate) fn forget(&mut self, node: usize) {
        self.nodes[node] = Node::default();
    }

    pub(crate) fn set_book(&mut self, node: usize, book: &[Peer], net: &Net) {
        let topology = net.topology();
        let find = |peer: &Peer| peer.address.and_then(|_| topology.find(&peer.name));
        self.nodes[node].book = book.iter().map(find).collect();
        for end in topology.of_node(node) {
            let name = topology.name(end);
            self.probers[end].place = book.iter().position(|peer| peer.name == name).unwrap_or(0);
        }
    }

    pub(crate) fn set_grant(&mut self, node: usize, grant: Option<MeshGrant>) {
        self.nodes[node].grant = grant;
    }

    /// Plans the next batch of an endpoint that has none under way.
    pub(crate) fn plan(&mut self, end: usize, now: u64, net: &Net) -> Option<Due> {
        let node = net.topology().ends[end].node;
        let Node { grant, book, nonce, .. } = &self.nodes[node];
        let grant = grant.filter(|grant| grant.until > Mono(now) && grant.pings_per_second > 0)?;
        let prober = &mut self.probers[end];
        if !prober.open || prober.peer.is_some() {
            return None;
        }
        let peers = book.len() as u64;
        let at = |turn: u64| book[((prober.place as u64 + 1 + turn) % peers) as usize];
        let pinged = |turn: &u64| at(*turn).is_some_and(|peer| net.topology().is_pinged(end, peer));
        let turn = (prober.turn..prober.turn + peers).find(pinged)?;
        prober.peer = at(turn);
        prober.turn = turn + 1;
        prober.number = prober.number.wrapping_add(1).max(1);
        let round = prober.turn.checked_div(peers).unwrap_or(0) as usize;
        prober.first_label = round * grant.pings_per_batch.div_ceil(3) as usize;
        let interval = 1_000_000_000 / u64::from(grant.pings_per_second);
        let phase = nonce % interval;
        let mut beat = phase + (now.saturating_sub(phase) / interval + 1) * interval;
        prober.times.clear();
        while prober.times.len() < grant.pings_per_batch as usize {
            // A host that is kept from running leaves a moment out; a question has its own.
            let runs = net.runs_at(end, beat);
            let asks = prober.taken.iter().position(|&asked| asked <= runs);
            match asks {
                Some(asks) => drop(prober.taken.swap_remove(asks)),
                None => prober.times.push(runs),
            }
            beat = phase + ((runs - phase) / interval + 1) * interval;
        }
        prober.plan += 1;
        prober.times.last().map(|&at| Due { end, plan: prober.plan, at })
    }

    /// The batch under way is sent: what came of it, and its peer. `None` when the plan is an old one or the grant is over.
    pub(crate) fn sent(&mut self, due: Due, net: &Net, random: &mut Random) -> Option<(usize, Drawn)> {
        let node = net.topology().ends[due.end].node;
        let Node { grant, began, .. } = self.nodes[node];
        let prober = &mut self.probers[due.end];
        if prober.plan != due.plan {
            return None;
        }
        let peer = prober.peer.take()?;
        let grant = grant.filter(|grant| grant.until > Mono(due.at))?;
        let names = [due.end, peer].map(|end| net.topology().name(end));
        let labels = labels(&names, grant.labels, Mono(due.at).since(began));
        let batch = Batch {
            from: due.end,
            to: peer,
            number: prober.number,
            times: &prober.times,
            labels: &labels,
            first_label: prober.first_label,
        };
        let drawn = batch.draw(net, random);
        prober.taken.extend(&drawn.questions);
        Some((peer, drawn))
    }
}

fn labels(names: &[EndpointName; 2], labels: u32, age: std::time::Duration) -> Vec<u32> {
    let [source, target] = names;
    let seed = pair_seed(source, target);
    match labels {
        0 | 1 => vec![0],
        labels => (0..labels).map(|at| flow_label(seed, u16::try_from(at).unwrap_or(0), age)).collect(),
    }
}
