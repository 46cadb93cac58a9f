//! The real mesh engines over a made-up wire on a virtual clock: what is injected must be what they report.

use crate::random::Random;
use rdmascope_model::{DatagramAddress, EndpointName, Gid, Heard, Mono, Peer, PingStats};
use rdmascope_probe::mesh::{Datagram, Engine, Header, Kind, MeshGrant, Output, Source, Stamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// One way through the fabric when nothing is wrong, nanoseconds.
pub const WIRE_NS: u64 = 2_000;
/// How much later a datagram arrives that others overtake, nanoseconds: more than the 40 ms from one moment of pings to the next.
const OVERTAKEN_NS: u64 = 65_000_000;

/// One direction between two endpoints. Shares are in a million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Datagrams that are lost, of any size.
    pub lost: u32,
    /// Large datagrams that are lost besides.
    pub large_lost: u32,
    /// Added to the way, nanoseconds.
    pub delay_ns: u64,
    /// Varies the delay evenly by up to this much either way, nanoseconds.
    pub jitter_ns: u64,
    /// Datagrams that later ones overtake.
    pub overtaken: u32,
    /// Datagrams that arrive twice.
    pub doubled: u32,
}

/// What a path really did to the pings of the mesh and their first answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Small and large pings and answers that set out.
    pub carried: [u32; 2],
    /// Of them lost.
    pub lost: [u32; 2],
    /// Of them overtaken.
    pub overtaken: u32,
    /// Of them doubled.
    pub doubled: u32,
}

/// A batch that was told.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Number of the endpoint that sent the pings.
    pub from: usize,
    /// Number of the one that was to answer.
    pub to: usize,
    /// What was found.
    pub stats: PingStats,
}

/// One endpoint and its host.
#[derive(Debug)]
struct Node {
    engine: Engine,
    address: DatagramAddress,
    /// How long its process waits for a processor before it can look at what came in, nanoseconds.
    delay_ns: u64,
    /// Until then it is busy with what came before.
    busy_until: u64,
    /// When its engine has something to do.
    due: Option<u64>,
}

#[derive(Debug)]
struct Arrival {
    from: usize,
    to: usize,
    queue_pair: u32,
    datagram: Datagram,
    /// Arrived on the wire then; the process has looked at it only now.
    on_wire: u64,
}

/// Endpoints, their engines, and what lies between them.
#[derive(Debug)]
pub struct MeshFabric {
    now: u64,
    random: Random,
    nodes: Vec<Node>,
    paths: BTreeMap<(usize, usize), Path>,
    done: BTreeMap<(usize, usize), Done>,
    serial: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    arrivals: BTreeMap<u64, Arrival>,
    reports: Vec<Report>,
    heard: Vec<Heard>,
    grant: Option<MeshGrant>,
}

/// The name of an endpoint.
#[must_use]
pub fn mesh_name(node: usize) -> EndpointName {
    EndpointName { node: format!("node-{node}"), device: "sim_0".to_owned(), port: 1 }
}

impl MeshFabric {
    /// So many endpoints that know each other and have no grant. The same seed gives the same run.
    #[must_use]
    pub fn new(seed: u64, nodes: usize) -> Self {
        let mut random = Random::new(seed);
        let now = 1_000_000_000;
        let nodes = (0..nodes)
            .map(|node| {
                let last = u8::try_from(node + 1).unwrap_or(u8::MAX);
                let address = DatagramAddress {
                    gid: Gid::from(std::net::IpAddr::V4(Ipv4Addr::new(10, 8, 0, last))),
                    lid: 0,
                    queue_pair: 0x100 + u32::from(last),
                    queue_key: 0x1000 + u32::from(last),
                    mtu_bytes: 4096,
                };
                let engine = Engine::new(mesh_name(node), address, random.draw(), Mono(now));
                Node { engine, address, delay_ns: 0, busy_until: 0, due: None }
            })
            .collect();
        let mut fabric = Self {
            now,
            random,
            nodes,
            paths: BTreeMap::new(),
            done: BTreeMap::new(),
            serial: 0,
            queue: BinaryHeap::new(),
            arrivals: BTreeMap::new(),
            reports: Vec::new(),
            heard: Vec::new(),
            grant: None,
        };
        fabric.hand_out_book();
        fabric
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Mono {
        Mono(self.now)
    }

    /// Changes one direction.
    pub fn set_path(&mut self, from: usize, to: usize, path: Path) {
        self.paths.insert((from, to), path);
    }

    /// From now on the process of an endpoint waits so long for a processor whenever something comes in. Its thread knows how
    /// long it waited, as Linux tells it.
    pub fn set_host_delay(&mut self, node: usize, delay_ns: u64) {
        self.nodes[node].delay_ns = delay_ns;
    }

    /// Gives every endpoint this grant.
    pub fn set_grant(&mut self, grant: Option<MeshGrant>) {
        self.grant = grant;
        let now = Mono(self.now);
        self.nodes.iter_mut().for_each(|node| node.engine.set_grant(grant, now));
    }

    /// Tells every endpoint where all are now.
    pub fn hand_out_book(&mut self) {
        let peer =
            |(at, node): (usize, &Node)| Peer { name: mesh_name(at), address: Some(node.address), rail: 0 };
        let book: Arc<[Peer]> = self.nodes.iter().enumerate().map(peer).collect();
        let now = Mono(self.now);
        self.nodes.iter_mut().for_each(|node| node.engine.set_book(Arc::clone(&book), now));
    }

    /// An agent starts anew: another queue pair, and no memory. The others learn of it by [`MeshFabric::hand_out_book`].
    pub fn restart(&mut self, node: usize) {
        let nonce = self.random.draw();
        let grant = self.grant;
        let it = &mut self.nodes[node];
        it.address.queue_pair += 0x100;
        it.engine = Engine::new(mesh_name(node), it.address, nonce, Mono(self.now));
        it.engine.set_grant(grant, Mono(self.now));
    }

    /// What was told until now.
    #[must_use]
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// What responders heard.
    #[must_use]
    pub fn heard(&self) -> &[Heard] {
        &self.heard
    }

    /// What a direction really did to pings and first answers.
    #[must_use]
    pub fn done(&self, from: usize, to: usize) -> Done {
        self.done.get(&(from, to)).copied().unwrap_or_default()
    }

    /// Datagrams that an endpoint threw away.
    #[must_use]
    pub fn refused(&self, node: usize) -> u64 {
        self.nodes[node].engine.refused()
    }

    /// Lets time go on.
    pub fn run_until(&mut self, until: Mono) {
        (0..self.nodes.len()).for_each(|node| self.settle(node));
        loop {
            let nodes = self.nodes.iter().enumerate().filter_map(|(at, node)| Some((node.due?, at)));
            let due = nodes.min();
            let arrival = self.queue.peek().map(|Reverse((at, _))| *at);
            let next = [due.map(|(due, _)| due), arrival].into_iter().flatten().min();
            let next = next.unwrap_or(u64::MAX).max(self.now);
            if next > until.0 {
                self.now = until.0;
                return;
            }
            self.now = next;
            if arrival.is_some_and(|arrival| arrival <= next) {
                let Some(Reverse((_, serial))) = self.queue.pop() else { continue };
                let Some(arrival) = self.arrivals.remove(&serial) else { continue };
                let to = arrival.to;
                self.arrive(serial, arrival);
                self.settle(to);
            } else if let Some((_, node)) = due {
                self.settle(node);
            }
        }
    }

    /// Lets an engine do what is due now, and takes what it wants.
    fn settle(&mut self, node: usize) {
        let now = Mono(self.now);
        self.nodes[node].engine.tick(now);
        self.collect(node);
        self.nodes[node].due = self.nodes[node].engine.due(now).map(|due| due.0);
    }

    /// Takes what an engine wants.
    fn collect(&mut self, from: usize) {
        let now = Mono(self.now);
        while let Some(output) = self.nodes[from].engine.pop() {
            match output {
                Output::Resolve { batch, .. } => self.nodes[from].engine.resolved(batch, Ok(()), now),
                Output::Send(datagram) => {
                    self.nodes[from].engine.sent(datagram.id, Stamp::software(now));
                    self.nodes[from].engine.completed(datagram.id);
                    self.carry(from, datagram);
                }
                Output::Pings(peer, stats) => {
                    if let Some(to) = (0..self.nodes.len()).find(|&node| mesh_name(node) == peer) {
                        self.reports.push(Report { from, to, stats: *stats });
                    }
                }
                Output::Heard(heard) => self.heard.push(heard),
                Output::Unreachable(..) | Output::Leased(..) => {}
            }
        }
    }

    fn carry(&mut self, from: usize, datagram: Datagram) {
        let gid = datagram.to.address.gid;
        let Some(to) = self.nodes.iter().position(|node| node.address.gid == gid) else { return };
        let path = self.paths.get(&(from, to)).copied().unwrap_or_default();
        let header = Header::decode(&datagram.header);
        let large = datagram.payload_bytes > 64;
        let lost = self.random.chance(path.lost) || large && self.random.chance(path.large_lost);
        let (overtaken, doubled) = (self.random.chance(path.overtaken), self.random.chance(path.doubled));
        let last = self.grant.map_or(u32::MAX, |grant| grant.pings_per_batch);
        // The answer to a question carries the number after the last ping's.
        if header.is_some_and(|h| matches!(h.kind, Kind::Ping | Kind::FirstAck) && h.sequence < last) {
            let done = self.done.entry((from, to)).or_default();
            done.carried[usize::from(large)] += 1;
            done.lost[usize::from(large)] += u32::from(lost);
            done.overtaken += u32::from(overtaken && !lost);
            done.doubled += u32::from(doubled && !lost);
        }
        if lost {
            return;
        }
        for _ in 0..=u32::from(doubled) {
            let jitter = self.random.below(2 * path.jitter_ns + 1);
            let delay = (path.delay_ns + jitter).saturating_sub(path.jitter_ns);
            let extra = if overtaken { OVERTAKEN_NS } else { 0 };
            let at = self.now + WIRE_NS + delay + extra;
            let queue_pair = self.nodes[from].address.queue_pair;
            self.expect(at, Arrival { from, to, queue_pair, datagram, on_wire: at });
        }
    }

    fn expect(&mut self, at: u64, arrival: Arrival) {
        self.serial += 1;
        self.queue.push(Reverse((at, self.serial)));
        self.arrivals.insert(self.serial, arrival);
    }

    /// A datagram is there: its process looks at it now, or when it gets a processor.
    fn arrive(&mut self, serial: u64, arrival: Arrival) {
        let node = &mut self.nodes[arrival.to];
        if self.now < arrival.on_wire + node.delay_ns || self.now < node.busy_until {
            let at = (arrival.on_wire + node.delay_ns).max(node.busy_until);
            self.queue.push(Reverse((at, serial)));
            self.arrivals.insert(serial, arrival);
            return;
        }
        node.busy_until = self.now;
        if arrival.datagram.to.address.queue_pair != node.address.queue_pair {
            return;
        }
        let gid = Some(self.nodes[arrival.from].address.gid);
        let source = Source { gid, lid: 0, queue_pair: arrival.queue_pair };
        let stamp = Stamp::software(Mono(arrival.on_wire));
        let (header, bytes) = (arrival.datagram.header, arrival.datagram.payload_bytes);
        self.nodes[arrival.to].engine.received(Some(source), &header, bytes, stamp, Mono(self.now));
    }
}
