//! What the matrix blames, and how sure it is: the words of a verdict over all pairs.

use crate::{EndpointIndex, PlaceIndex};
use rdmascope_model::Status;

/// A part of the cluster that can be to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// A host: its processors, memory or PCI, which all its endpoints share.
    Node(PlaceIndex),
    /// An endpoint: its adapter, cable, or the port of the switch at the other end of it. From outside they look the same; what a node
    /// itself tells (errors of the cable, of the PCI link) says which of them it is.
    Endpoint(EndpointIndex),
    /// A leaf as a whole, or what it does towards the endpoints below it: also pairs that stay below it suffer.
    Leaf(PlaceIndex),
    /// What a leaf does towards the spines: only pairs that leave it suffer.
    Uplinks(PlaceIndex),
    /// What lies between two leaves, the smaller one first.
    LeafPair(PlaceIndex, PlaceIndex),
    /// The spines, or one of them: pairs between all leaves suffer.
    Spines,
    /// One ordered pair of endpoints and nobody else.
    Pair(EndpointIndex, EndpointIndex),
    /// All of the cluster: compared with itself it looks fine, and it is below an absolute limit.
    Cluster,
}

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Nothing gets through.
    Dead,
    /// Packets are lost.
    Lossy,
    /// Packets of the full path MTU are lost, small ones arrive.
    LargeLost,
    /// Packets take longer.
    Slow,
    /// Streams are slower.
    Narrow,
    /// The host takes long, the network does not.
    HostSlow,
    /// A setting of its own is wrong (a finding of the node): what the matrix shows follows from it.
    Setting,
}

/// Which way suffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// Both, or it cannot be told.
    Both,
    /// What it sends.
    Out,
    /// What it receives.
    In,
}

/// How many of the paths suffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Share {
    /// All.
    All,
    /// Some of the equal-cost paths.
    SomePaths,
}

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// Few pairs, few samples, or a cluster that is too small to compare.
    Low,
    /// The matrix says so and it was measured again.
    Medium,
    /// Many peers agree, or the node itself tells the reason.
    High,
}

/// What was seen that speaks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Support {
    /// Pairs through it that suffer.
    pub bad_pairs: u32,
    /// Pairs through it that were looked at.
    pub pairs: u32,
    /// Peers that suffer with it.
    pub bad_peers: u32,
    /// Peers that were looked at.
    pub peers: u32,
    /// A pair that does not go through it and is fine.
    pub fine: Option<(EndpointIndex, EndpointIndex)>,
    /// The pair that suffers most.
    pub worst: Option<(EndpointIndex, EndpointIndex)>,
    /// In numbers, such as `61 of 64 peers lose packets, 12 % on average`.
    pub figures: Vec<String>,
}

/// What a node tells of itself that explains what the matrix shows: it wins over inference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The finding's id.
    pub id: String,
    /// The node that told it.
    pub node: String,
    /// Its subject, such as `mlx5_0/1`.
    pub subject: String,
    /// How bad.
    pub status: Status,
    /// What was seen, in one sentence.
    pub summary: String,
    /// What to do.
    pub next_step: String,
    /// Since when, milliseconds since 1970 on the node's clock; 0 when it is not known.
    pub since_ms: u64,
}

/// What is blamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// Those that explain what is seen equally well: usually one. Sorted.
    pub components: Vec<Component>,
    /// What is wrong.
    pub effect: Effect,
    /// Which way.
    pub way: Way,
    /// On how many of its paths.
    pub share: Share,
    /// `Fail`, or `Warn` for what slows a job a little.
    pub status: Status,
    /// How sure.
    pub confidence: Confidence,
    /// What speaks for it.
    pub support: Support,
    /// What the node itself tells, the most telling first.
    pub reasons: Vec<Reason>,
}
