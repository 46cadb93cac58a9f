//! The fabric as packets meet it: nodes, rails, leaves and spines, the path that a label takes, queues, noise and faults.
//!
//! [`Net::carry`] is asked for every packet, whoever sends it: the mesh, packet by packet or batch by batch, and the probes of leases. So
//! they cannot disagree about what is broken.

mod faults;
mod hosts;
mod jobs;
mod parameters;
mod table;
mod topology;

pub use faults::{Harm, Spot};
pub use parameters::{Hosts, Jobs, Load, Noise, Parameters, Stall, Wire};
pub use topology::{End, Layout, Topology, leaf_name, node_name};

pub(crate) use hosts::Held;

use crate::random::{Random, mix};
use faults::{Faults, Hit, Route};
use hosts::HostTimes;
use jobs::Phases;
use table::Table;

/// Payload of small packets, and headers, bytes.
const SMALL_BYTES: f32 = 64.0;
const LARGE_BYTES: f32 = 4_096.0;
const HEADER_BYTES: f32 = 80.0;
/// Seconds of a day.
const DAY_S: u64 = 86_400;
/// A queue that is always full would make packets wait for ever.
const BUSY_MAX: f32 = 0.95;

/// One way of one packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Number of the endpoint that sends it.
    pub from: usize,
    /// Number of the endpoint that it is for.
    pub to: usize,
    /// Flow label, which decides the path together with both ends; 0 is the devices' own choice.
    pub label: u32,
    /// Of the full path MTU; else 64 bytes.
    pub large: bool,
    /// When it leaves, nanoseconds of the virtual clock.
    pub at: u64,
}

/// A fabric.
#[derive(Clone, Debug)]
pub struct Net {
    topology: Topology,
    parameters: Parameters,
    seed: u64,
    jitter: Table,
    /// By endpoint: adapter, PCI and cable, nanoseconds.
    host_ns: Vec<f32>,
    /// By leaf, then spine: the cable, nanoseconds.
    cable_ns: Vec<f32>,
    /// By hour of the day: share of packets that meet a queue.
    busy: [f32; 24],
    phases: Phases,
    hosts: HostTimes,
    faults: Faults,
    /// By endpoint: since when no agent answers there.
    gone: Vec<u64>,
}

impl Net {
    /// A fabric in which nothing is broken; `seed` decides everything that is left to chance about it.
    #[must_use]
    pub fn new(layout: &Layout, parameters: &Parameters, seed: u64) -> Self {
        let topology = Topology::new(layout);
        let mut random = Random::new(seed ^ 0xfab_21c);
        let spread = Table::spread(parameters.wire.host_spread);
        let host_ns =
            (0..topology.len()).map(|_| parameters.wire.host_ns * spread.at(random.draw())).collect();
        let cables = layout.leaves * layout.spines;
        let cable_ns = (0..cables).map(|_| random.between(parameters.wire.cable_ns)).collect();
        let load = &parameters.load;
        let hour = |hour: usize| {
            let turn = hour as f32 / 24.0 * std::f32::consts::TAU;
            load.mean * (1.0 + load.swing * turn.sin())
        };
        Self {
            jitter: Table::spread(parameters.noise.jitter),
            host_ns,
            cable_ns,
            busy: std::array::from_fn(hour),
            phases: Phases::new(&parameters.jobs, layout.nodes, &mut random),
            hosts: HostTimes::new(&parameters.hosts, layout.nodes, random.draw()),
            faults: Faults::new(&topology),
            gone: vec![u64::MAX; topology.len()],
            topology,
            parameters: parameters.clone(),
            seed,
        }
    }

    /// Where endpoints stand.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// What it is like.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// What is broken.
    #[must_use]
    pub fn faults(&self) -> &[(Spot, Harm)] {
        self.faults.list()
    }

    /// Breaks a place.
    pub fn add_fault(&mut self, spot: Spot, harm: Harm) {
        self.faults.add(spot, harm, &self.topology);
    }

    /// Takes this share of its processor time from the agent of a node from then on.
    pub fn starve(&mut self, node: usize, since: u64, stolen: f32) {
        self.hosts.starve(node, since, stolen);
    }

    /// From this time on no agent answers at an endpoint; `None`: one does.
    pub(crate) fn set_gone(&mut self, end: usize, since: Option<u64>) {
        self.gone[end] = since.unwrap_or(u64::MAX);
    }

    /// The same fabric without jobs and other traffic, as a tool sees it that has the nodes for itself.
    #[must_use]
    pub(crate) fn drained(&self) -> Self {
        let mut drained = Self { busy: [0.0; 24], ..self.clone() };
        drained.phases.clear();
        drained
    }

    /// Adds a job whose nodes all send to the first one, for this share of each second.
    pub fn add_incast(&mut self, nodes: &[usize], duty: f32) {
        self.phases.add_steady(nodes, 1_000_000_000, duty);
    }

    /// Nodes that are in a job.
    #[must_use]
    pub fn busy_nodes(&self) -> Vec<usize> {
        self.phases.busy_nodes().collect()
    }

    /// The spine that a label takes; `None` below one leaf.
    #[must_use]
    pub fn spine(&self, from: usize, to: usize, label: u32) -> Option<usize> {
        if self.topology.ends[from].leaf == self.topology.ends[to].leaf {
            return None;
        }
        let ends = (from as u64) << 40 | (to as u64) << 20 | u64::from(label);
        let hash = mix(self.seed ^ ends) >> 32;
        Some(((hash * self.topology.layout.spines as u64) >> 32) as usize)
    }

    /// What one way takes when nothing is in the way, nanoseconds.
    #[must_use]
    pub fn bare_ns(&self, from: usize, to: usize, spine: Option<usize>, large: bool) -> f32 {
        let (a, b) = (&self.topology.ends[from], &self.topology.ends[to]);
        let wire = &self.parameters.wire;
        let bytes = HEADER_BYTES + if large { LARGE_BYTES } else { SMALL_BYTES };
        let serial = bytes * 8e9 / a.rate_bps.min(b.rate_bps) as f32;
        let ends = self.host_ns[from] + self.host_ns[to] + serial;
        let Some(spine) = spine else { return ends + wire.switch_ns };
        let spines = self.topology.layout.spines;
        let cables = self.cable_ns[a.leaf * spines + spine] + self.cable_ns[b.leaf * spines + spine];
        let within = ends + cables + 3.0 * wire.switch_ns;
        if a.pod == b.pod { within } else { within + 2.0 * wire.switch_ns + wire.core_ns }
    }

    /// Sends a packet: how long it is under way, nanoseconds, or `None` when it is lost.
    pub fn carry(&self, packet: &Packet, random: &mut Random) -> Option<u64> {
        let &Packet { from, to, label, large, at } = packet;
        let spine = self.spine(from, to, label);
        let hit = self.faults.on(Route { from, to, spine }, large, at, &self.topology);
        let draw = random.draw();
        let share = |bits: u64| bits as u32 as f32 * (1.0 / (1_u64 << 32) as f32);
        let noise = &self.parameters.noise;
        if share(draw) < noise.loss_per_million * 1e-6 + hit.loss {
            return None;
        }
        // The upper half decides what holds it up; its lowest bits decide, by the table, about ordinary jitter.
        let mut ns = self.bare_ns(from, to, spine, large) * self.jitter.at(draw >> 32);
        ns += hit.delay_ns;
        let chance = (draw >> 42) as f32 * (1.0 / (1_u64 << 22) as f32);
        let busy = self.busy_share(spine.is_some(), at);
        if chance < noise.tail_share {
            let wait = noise.tail_ns * (1.0 - random.unit() as f32).powf(-noise.tail_shape.recip());
            ns += wait.min(noise.tail_max_ns);
        } else if chance < noise.tail_share + busy {
            ns += random.wait(self.parameters.load.queue_ns);
        }
        let queue_ns = hit.queue_ns + self.phases.queue_ns(self.topology.ends[to].node, at);
        if queue_ns > 0.0 {
            ns += random.wait(queue_ns);
        }
        Some(ns as u64)
    }

    /// Share of packets that meet a queue at this time.
    fn busy_share(&self, leaves: bool, at: u64) -> f32 {
        let seconds = at / 1_000_000_000;
        let busy = self.busy[(seconds % DAY_S / 3_600) as usize];
        let over = if leaves { self.topology.layout.oversubscription } else { 1.0 };
        (busy * over).min(BUSY_MAX)
    }

    /// What is broken on the way that a label takes.
    pub(crate) fn hit(&self, packet: &Packet) -> Hit {
        let &Packet { from, to, label, large, at } = packet;
        let spine = self.spine(from, to, label);
        self.faults.on(Route { from, to, spine }, large, at, &self.topology)
    }

    /// A job fills the port of an endpoint at this time.
    pub(crate) fn fills(&self, end: usize, at: u64) -> bool {
        self.phases.queue_ns(self.topology.ends[end].node, at) > 0.0
    }

    /// How long a datagram waits on the host of an endpoint that it reached at this time; `None` where no agent is there.
    pub(crate) fn held(&self, end: usize, at: u64, random: &mut Random) -> Option<Held> {
        let node = self.topology.ends[end].node;
        (at < self.gone[end]).then(|| self.hosts.held(node, at, random))
    }

    /// When the agent of an endpoint runs, asked for at this time.
    pub(crate) fn runs_at(&self, end: usize, at: u64) -> u64 {
        self.hosts.runs_at(self.topology.ends[end].node, at)
    }

    /// How much later than the wire a stamp is, nanoseconds.
    pub(crate) fn stamp_lag(&self, random: &mut Random) -> u64 {
        if self.topology.layout.hardware_stamps { 0 } else { self.hosts.stamp_lag(random) }
    }
}

#[cfg(test)]
mod tests;
