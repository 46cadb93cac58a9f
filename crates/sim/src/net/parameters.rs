//! The numbers that a simulated fabric is made of, as they stand in the parameter file: a verifier may replace every one of them.

use serde::Deserialize;

/// All of them. Times are of one way of one packet where nothing else is said.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// What a healthy way takes.
    pub wire: Wire,
    /// What varies from packet to packet.
    pub noise: Noise,
    /// What everybody's traffic adds, by the hour of the day.
    pub load: Load,
    /// Jobs, whose phases fill the ports of their own nodes.
    pub jobs: Jobs,
    /// What hosts take, and when they are kept from running.
    pub hosts: Hosts,
}

/// What a healthy way takes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    /// Adapter, PCI and the cable to the leaf at one end, nanoseconds.
    pub host_ns: f32,
    /// How much endpoints differ in that, as a share (standard deviation).
    pub host_spread: f32,
    /// One switch, nanoseconds.
    pub switch_ns: f32,
    /// Shortest and longest cable between a leaf and a spine, nanoseconds.
    pub cable_ns: [f32; 2],
    /// The cables between two pods, nanoseconds.
    pub core_ns: f32,
}

/// What varies from packet to packet.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// Packets lost in a million with nothing wrong.
    pub loss_per_million: f32,
    /// Every packet's own share of its way, as a standard deviation.
    pub jitter: f32,
    /// Share of packets that are held up by something rare.
    pub tail_share: f32,
    /// Such a packet waits at least so long, nanoseconds; longer waits fall off as a Pareto distribution of [`Self::tail_shape`].
    pub tail_ns: f32,
    /// The smaller, the heavier the tail.
    pub tail_shape: f32,
    /// No wait of this kind is longer, nanoseconds.
    pub tail_max_ns: f32,
}

/// What everybody's traffic adds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Share of packets that meet a queue, on average over the day; of packets that leave their leaf, times the oversubscription.
    pub mean: f32,
    /// It goes up and down by this share of itself in a day.
    pub swing: f32,
    /// Mean wait in a queue, nanoseconds.
    pub queue_ns: f32,
}

/// Jobs: in each phase of communication one node of the job is sent to by all the others.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    /// Share of the nodes that are in a job.
    pub share: f32,
    /// Nodes of one job.
    pub nodes: usize,
    /// Shortest and longest time from one phase to the next, milliseconds.
    pub period_ms: [f32; 2],
    /// Smallest and largest share of that time in which the job communicates.
    pub duty: [f32; 2],
    /// Mean wait of packets to the node that all others send to, nanoseconds.
    pub queue_ns: f32,
}

/// What hosts take.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hosts {
    /// From a datagram's arrival to its handling by the agent, nanoseconds.
    pub usual_ns: f32,
    /// How much that varies, as a share.
    pub spread: f32,
    /// Share of datagrams that wait for something else on the host.
    pub tail_share: f32,
    /// Mean of that wait, nanoseconds.
    pub tail_ns: f32,
    /// How much later the program's own stamp is than the wire, nanoseconds: half of them less, the mean of an exponential tail.
    pub stamp_ns: f32,
    /// A program that waited longer than this for a processor knows it, and its stamps are vague, nanoseconds.
    pub vague_ns: u64,
    /// Clocks of nodes differ by up to so much, milliseconds.
    pub clock_ms: i64,
    /// How healthy hosts are kept from running.
    pub stalls: Vec<Stall>,
    /// What starved ones suffer besides what a quota takes from them.
    pub starved: Vec<Stall>,
}

/// In each slot of time a host stops with some chance, once.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// Length of a slot, milliseconds.
    pub slot_ms: u64,
    /// Share of slots in which it stops.
    pub share: f32,
    /// Shortest and longest stop, milliseconds, not above the slot; evenly spread over their logarithms.
    pub ms: [f32; 2],
}
