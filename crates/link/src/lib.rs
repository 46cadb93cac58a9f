//! What agent and coordinator say to each other: frames, their bytes, and which versions understand each other.
//!
//! One WebSocket message is one frame. Frames are protobuf messages (numbered fields, so that a newer peer may add some);
//! the types that the rest of the program sees are plain enums of the model's words, and nothing in them is unchecked.

mod drain;
mod fit;
mod from_wire;
mod numbered;
mod pairs;
mod to_wire;
mod version;
mod wire;

pub use drain::{DRAIN_FAULTS_MAX, DrainAnswer, DrainFault};
pub use numbered::{NumberedHeard, NumberedReport};
pub use pairs::PairsBrief;
pub use version::{PROTOCOL_MAX, PROTOCOL_MIN, VersionMismatch, negotiate};

use rdmascope_model::{
    Effects, EndpointInfo, EndpointName, Heard, LeaseId, MeshSweep, Metric, Outcome, Peer, PingStats,
    ProbePlan, Role, Status, Wall,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Largest frame that either side accepts, bytes.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;
/// Endpoints of one agent: 16 devices with 4 ports, or 64 virtual functions.
pub const ENDPOINTS_PER_AGENT_MAX: usize = 64;
/// Findings that travel with an inventory, the worst first, as far as the frame has room.
pub const FINDINGS_MAX: usize = 64;
/// Lines of evidence of a finding, and bytes of each: what a person reads at a glance.
pub const EVIDENCE_MAX: usize = 8;
/// See [`EVIDENCE_MAX`].
pub const EVIDENCE_BYTES_MAX: usize = 120;
/// Facts of one node: 47 ports with 21 each. A list that is too long for a frame is cut.
pub const FACTS_MAX: usize = 1_000;
/// Events in one frame at most, and as far as the frame has room.
pub const EVENTS_PER_FRAME_MAX: usize = 50;
/// Lines of what a finding rests on: a check has ten numbers at most. More, or longer ones, are left out as a whole.
pub const BASIS_MAX: usize = 12;
/// Oldest protocol version with [`ToCoordinator::Facts`], [`ToCoordinator::Events`] and [`ToAgent::EventsSeen`].
pub const EVENTS_SINCE: u32 = 2;
/// Oldest protocol version with mesh pings, [`ToCoordinator::Pings`], and probes in another than the ordinary manner.
pub const PINGS_SINCE: u32 = 3;
/// Batches of pings, or of heard pings, in one frame; 60 × at most 800 bytes stay below a frame.
pub const PINGS_PER_FRAME_MAX: usize = 60;
/// The same told by numbers; 256 × 84 bytes are a third of a frame.
pub const NUMBERED_PER_FRAME_MAX: usize = 256;
/// Path labels in one result.
pub const LABELS_MAX: usize = 256;
/// Results in one frame; 100 × about 200 bytes stay well below a frame.
pub const RESULTS_PER_FRAME_MAX: usize = 100;
/// Peers in one address-book frame; 200 × at most 260 bytes stay below a frame.
pub const PEERS_PER_FRAME_MAX: usize = 200;
/// Largest offer that a transport may make, bytes.
pub const OFFER_BYTES_MAX: usize = 256;

/// From an agent to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToCoordinator {
    /// The first frame of a connection.
    Hello(Hello),
    /// Every heartbeat interval, whenever a pause flag changes, and when somebody on the node asks for leave to drain it.
    Heartbeat {
        /// What the node's own pause file says.
        pause: PauseFlags,
        /// The hard local faults for which leave is asked to drain the sender's node, at most [`DRAIN_FAULTS_MAX`]; mostly none. An older
        /// coordinator does not see them, and gives no leave.
        drain_for: Vec<DrainFault>,
    },
    /// What the agent has; replaces the inventory before.
    Inventory {
        /// Its endpoints.
        endpoints: Vec<EndpointInfo>,
        /// What its checks found, the worst first; findings that are fine are left out.
        findings: Vec<FindingBrief>,
        /// Findings for which the frame had no room.
        findings_left_out: u32,
    },
    /// For the other side of a lease.
    Relay {
        /// Which lease.
        lease: LeaseId,
        /// What to pass on.
        payload: RelayPayload,
    },
    /// How probes ended: new ones, or the last known ones after a coordinator's restart.
    Results(Vec<ProbeResult>),
    /// What the node's settings and versions are, for comparing nodes; replaces the facts before. Since version 2.
    Facts(Vec<Fact>),
    /// What mesh pings found, and what was heard of those of others. Since version 3.
    Pings {
        /// Batches of our own pings.
        reports: Vec<PingReport>,
        /// Batches of others.
        heard: Vec<Heard>,
    },
    /// The same by the numbers of the address book, to a coordinator that gave some: a version that knows this frame.
    Numbered {
        /// Batches of our own pings.
        reports: Vec<NumberedReport>,
        /// Batches of others.
        heard: Vec<NumberedHeard>,
    },
    /// What happened on the node, oldest first. Sent again after a reconnect until [`ToAgent::EventsSeen`]. Since version 2.
    Events(Vec<NodeEvent>),
}

/// From the coordinator to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToAgent {
    /// Answer to a good hello.
    Welcome {
        /// The protocol version that both sides use from here on.
        protocol: u32,
        /// The coordinator's epoch: grants and leases of an older one are void.
        epoch: u64,
        /// How often to send a heartbeat.
        heartbeat: Duration,
    },
    /// Answer to a bad hello; the connection is closed after it.
    Refused {
        /// Why, for the agent's log.
        message: String,
    },
    /// Answer to a heartbeat.
    HeartbeatReply {
        /// How the pairs of the agent's endpoints do, in place of what was told before; empty when nothing was counted since, and from
        /// an older coordinator.
        pairs: Vec<PairsBrief>,
        /// Whether the node may be drained, where that was asked; `None` from an older coordinator, which means that it may not.
        drain: Option<DrainAnswer>,
    },
    /// A part of the address book that mesh grants speak of.
    Book {
        /// Generation of the book.
        generation: u64,
        /// The generation that this part changes; 0 for a book from scratch. An agent of version 2 gets whole books only.
        base: u64,
        /// Peers in the whole book.
        total: u32,
        /// This part's peers, new or with another address than before.
        peers: Arc<[Peer]>,
        /// Their numbers, one for each and in the same order, by which pings may be told on this connection; none from an older
        /// coordinator.
        numbers: Arc<[u32]>,
        /// Peers of the base that are not in the book any more.
        removed: Vec<EndpointName>,
    },
    /// Permission to ping the peers of the book.
    Grant {
        /// The coordinator's epoch.
        epoch: u64,
        /// The book that it is for.
        generation: u64,
        /// It ends so long after it came in.
        expires_in: Duration,
        /// Pings per second of each endpoint.
        pings_per_second: u32,
        /// Pings to one peer before the next peer's turn, small and large together; 0 when no UD pings are wanted. Since version 3.
        pings_per_batch: u32,
        /// Path labels that each pair's pings rotate through. Since version 3.
        labels: u32,
        /// Each so manieth turn is a peer's on another rail than the endpoint's; 1: all peers are alike; 0: nobody's there. An agent
        /// that does not know it takes all peers for alike.
        cross_rail_every: u32,
        /// One pass over all peers at a rate of its own; an agent that does not know it goes on as before.
        sweep: Option<MeshSweep>,
    },
    /// Permission, and order, for one probe of one pair.
    Lease {
        /// The coordinator's epoch.
        epoch: u64,
        /// What to do.
        plan: ProbePlan,
        /// Both sides must be connected so long after it came in.
        setup_within: Duration,
    },
    /// From the other side of a lease.
    Relay {
        /// Which lease.
        lease: LeaseId,
        /// What the other side said.
        payload: RelayPayload,
    },
    /// The lease is over: close what belongs to it.
    LeaseEnd {
        /// Which lease.
        lease: LeaseId,
    },
    /// The operator's pause flags for this agent.
    Pause(PauseFlags),
    /// Events up to this number are kept for good and need not be sent again. Since version 2.
    EventsSeen {
        /// Number of the last one.
        number: u64,
    },
}

/// Who is calling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Oldest protocol version that the agent speaks.
    pub protocol_min: u32,
    /// Newest one.
    pub protocol_max: u32,
    /// The agent's program version.
    pub agent_version: String,
    /// Its node name.
    pub node: String,
    /// Differs between two runs of the agent.
    pub instance: u64,
    /// The machine's boot id: agents that share it share processors.
    pub machine: String,
    /// Where its own `/metrics` can be had by others; `None` where it has none, or only for its own machine.
    pub metrics: Option<SocketAddr>,
}

/// What is paused. Both flags are false in normal work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseFlags {
    /// No probe at all.
    pub all: bool,
    /// No bandwidth probe.
    pub bandwidth: bool,
}

impl PauseFlags {
    /// Paused by the one or by the other.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { all: self.all || other.all, bandwidth: self.bandwidth || other.bandwidth }
    }
}

/// What one side of a lease tells the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayPayload {
    /// Where to connect, opaque to all but the transport.
    Offer(Vec<u8>),
    /// Connected: messages are received from here on.
    Ready,
}

/// How one side's probe ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeResult {
    /// The lease that it belongs to; `None` for a result from before, sent again to a restarted coordinator.
    pub lease: Option<LeaseId>,
    /// The reporter's endpoint.
    pub local: EndpointName,
    /// The other endpoint.
    pub peer: EndpointName,
    /// Which end the reporter was.
    pub role: Role,
    /// The matrix that it belongs to; `None` for what only a report shows.
    pub metric: Option<Metric>,
    /// When, on the reporter's clock.
    pub measured_at: Wall,
    /// How it ended.
    pub outcome: Outcome,
    /// What the probe moved at the reporter's end; `None` when it was not looked at.
    pub effects: Option<Box<Effects>>,
    /// Who or what is in the way of a probe that was not run, in words; empty where the outcome says it all. Since version 3.
    pub evidence: String,
}

/// What one batch of mesh pings found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingReport {
    /// The prober's endpoint.
    pub local: EndpointName,
    /// The responder's endpoint.
    pub peer: EndpointName,
    /// When the batch ended, on the reporter's clock.
    pub measured_at: Wall,
    /// What was found.
    pub stats: PingStats,
}

/// A finding of an agent's checks, as far as the coordinator shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindingBrief {
    /// Id of the check.
    pub id: String,
    /// How bad.
    pub status: Status,
    /// What it is about.
    pub subject: String,
    /// What was seen.
    pub summary: String,
    /// Probable cause; empty from an agent of version 1.
    pub cause: String,
    /// What to do.
    pub next_step: String,
    /// Readings behind it, `name = value`; at most [`EVIDENCE_MAX`].
    pub evidence: Vec<String>,
    /// Worse than its status says, if it stays: a link that has just gone down, a machine that has just booted.
    pub settling: bool,
    /// Since when, on the node's clock; 0 (1970) from an agent of version 1.
    pub since: Wall,
    /// It is over, and kept in sight until it is acknowledged or its window has passed.
    pub latched: bool,
}

/// One setting or version of a node that drift is judged by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fact {
    /// What it is about, such as `mlx5_0/1`, `mlx5_0` or `machine`.
    pub subject: String,
    /// What is told of it, such as `netdev_mtu`, `pfc` or `firmware`.
    pub key: String,
    /// The value, as people write it.
    pub value: String,
}

/// Something that happened on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// Counts up from 1 within one run of the agent; a gap is an event that was dropped.
    pub number: u64,
    /// When, on the node's clock.
    pub at: Wall,
    /// What kind.
    pub kind: EventKind,
    /// What it is about, such as `mlx5_0/1`.
    pub subject: String,
    /// Id of the finding or the kernel-log rule; what has changed for the other kinds, such as `state` or `netdev_mtu`.
    pub id: String,
    /// What was before; empty where nothing was.
    pub before: String,
    /// What is now; empty where nothing is.
    pub after: String,
    /// The same as a sentence for a person, or the kernel's line.
    pub text: String,
    /// What a raised finding rests on, to judge it again under other numbers (lines of `rdmascope_checks::replay::Basis`); `None` for
    /// other events, from an older agent, and where it could not be told.
    pub basis: Option<Vec<String>>,
}

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// A device, a port or a link changed its state, came or went; told at once, whatever the checks make of it.
    StateChange,
    /// A finding is there, or is worse than it was.
    FindingRaised,
    /// A finding is over.
    FindingCleared,
    /// The kernel wrote a line that a rule knows.
    KernelLog,
    /// A setting is not what it was.
    SettingChange,
}

impl EventKind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::StateChange, Self::FindingRaised, Self::FindingCleared, Self::KernelLog, Self::SettingChange];

    /// The word used everywhere.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StateChange => "state-change",
            Self::FindingRaised => "finding-raised",
            Self::FindingCleared => "finding-cleared",
            Self::KernelLog => "kernel-log",
            Self::SettingChange => "setting-change",
        }
    }
}

/// The bytes are not a frame that this version can use.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Longer than [`FRAME_BYTES_MAX`].
    #[error("frame of {0} bytes; at most {FRAME_BYTES_MAX} are accepted")]
    TooLong(usize),
    /// Not protobuf, or a field of the wrong type.
    #[error("frame cannot be decoded")]
    Undecodable(#[source] prost::DecodeError),
    /// No known kind: it comes from a newer version.
    #[error("frame of a kind that this version does not know")]
    UnknownKind,
    /// A field is missing or has a value that makes no sense.
    #[error("frame field {field} is {what}")]
    BadField {
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        what: String,
    },
}
