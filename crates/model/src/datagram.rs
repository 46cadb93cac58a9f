//! Datagrams between endpoints: where they go to, what moves them onto another path, and what one batch of pings found.

use crate::{EndpointName, Gid};

/// Where UD datagrams to an endpoint go. It changes whenever the endpoint's agent starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatagramAddress {
    /// GID that the queue pair answers at.
    pub gid: Gid,
    /// LID; 0 on Ethernet.
    pub lid: u16,
    /// Queue pair number, 24 bits.
    pub queue_pair: u32,
    /// The key that datagrams to it must carry.
    pub queue_key: u32,
    /// Largest payload of one datagram, bytes: the port's active MTU.
    pub mtu_bytes: u32,
}

/// One entry of the address book of a mesh grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Who it is.
    pub name: EndpointName,
    /// Where its datagrams go; `None` for an endpoint that takes none (TCP, iWARP, or an older agent).
    pub address: Option<DatagramAddress>,
    /// A number for its rail; 0: not known. Peers of one rail are pinged first.
    pub rail: u32,
}

/// One pass of pings over the peers of the book, each once, on nodes that carry no job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeshSweep {
    /// Another number begins another pass; never 0.
    pub number: u64,
    /// Pings per second of each endpoint; agents have a limit of their own.
    pub pings_per_second: u32,
    /// Pings to each peer, small and large together; likewise.
    pub pings_per_batch: u32,
    /// Peers on other rails, too.
    pub cross_rail: bool,
}

/// What a device lets decide which of several equal-cost paths packets take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelBy {
    /// Not known of this driver: paths cannot be chosen.
    #[default]
    Unknown,
    /// The flow label becomes the UDP source port.
    FlowLabel,
    /// The UDP source port follows from the source's queue pair.
    QueuePair,
    /// Nothing does (one path for all, or the subnet manager decides).
    Nothing,
}

impl LabelBy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Unknown, Self::FlowLabel, Self::QueuePair, Self::Nothing];

    /// The word used on the API and in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::FlowLabel => "flow-label",
            Self::QueuePair => "queue-pair",
            Self::Nothing => "nothing",
        }
    }
}

/// Which clock stamped the datagrams. The two are never mixed in one figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StampClock {
    /// The program, when it handled a completion: good to microseconds, worse on a busy host.
    #[default]
    Software,
    /// The device, when the datagram passed it.
    Hardware,
}

impl StampClock {
    /// The label used everywhere.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Software => "sw",
            Self::Hardware => "hw",
        }
    }
}

/// What became of the pings of one size in one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PingCounts {
    /// Payload of one ping, bytes; 0 when pings of this size were not sent.
    pub payload_bytes: u32,
    /// Pings sent.
    pub sent: u32,
    /// Pings whose answer came in time.
    pub answered: u32,
    /// Pings that did not reach the peer; `None` while it is not known in which direction they were lost.
    pub lost_forward: Option<u32>,
    /// Answers that did not come back; `None` as above.
    pub lost_backward: Option<u32>,
    /// Answers after the time-out: they count as neither answered nor lost.
    pub late: u32,
    /// Answers that came twice.
    pub duplicate: u32,
    /// Answers that overtook an earlier one.
    pub reordered: u32,
}

/// Delays of one kind in one batch, nanoseconds. A quantile that the count cannot support is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Samples behind the figures, at least 1.
    pub count: u32,
    /// Smallest.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile, from 300 samples on.
    pub p99_ns: Option<u64>,
    /// Largest.
    pub max_ns: u64,
}

/// The pings of one path label in one batch, both sizes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelResult {
    /// The flow label; 0 stands for the device's own choice.
    pub flow_label: u32,
    /// Pings sent with it.
    pub sent: u32,
    /// Of them answered.
    pub answered: u32,
    /// Median network round trip of the small ones, nanoseconds; `None` when none was answered.
    pub p50_ns: Option<u64>,
}

/// What one batch of pings from one endpoint to another found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingStats {
    /// Number of the batch, for matching it with what the peer heard; never 0.
    pub batch: u32,
    /// Which clock stamped it.
    pub clock: StampClock,
    /// Small pings (64 bytes).
    pub small: PingCounts,
    /// Pings of the full path MTU.
    pub large: PingCounts,
    /// Network round trip of small pings: without the time inside both hosts. `None` when none was answered.
    pub network: Option<Delays>,
    /// The same of large pings.
    pub network_large: Option<Delays>,
    /// Time inside the responder's host.
    pub responder: Option<Delays>,
    /// Time inside the prober's host.
    pub prober: Option<Delays>,
    /// Answered pings during which either host took far longer than usual: within the figures of hosts, not of the network.
    pub host_delayed: u32,
    /// Answered pings without usable stamps (zero, running backwards, other clock): within the counts, not within the delays.
    pub invalid_stamps: u32,
    /// Pings to, or answers from, a queue pair that the peer no longer has: not loss.
    pub stale: u32,
    /// The path labels, in the order of their first ping. Empty when there was one only.
    pub labels: Vec<LabelResult>,
}

impl PingStats {
    /// The same batch as the opposite direction tells it: answers are as long as their pings and marked like them, so they measure the way
    /// back as pings of the peer would.
    #[must_use]
    pub fn mirrored(&self) -> Self {
        let other_way = |counts: PingCounts| PingCounts {
            lost_forward: counts.lost_backward,
            lost_backward: counts.lost_forward,
            ..counts
        };
        Self {
            small: other_way(self.small),
            large: other_way(self.large),
            responder: self.prober,
            prober: self.responder,
            ..self.clone()
        }
    }
}

/// What a responder heard of one batch; tells the direction of loss where no answer came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The responder's endpoint.
    pub local: EndpointName,
    /// Who sent the pings.
    pub peer: EndpointName,
    /// Number of the batch.
    pub batch: u32,
    /// Small pings that came in.
    pub small: u32,
    /// Large pings that came in.
    pub large: u32,
}

/// What a batch of don't-fragment datagrams over the network device found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoStats {
    /// UDP payload, bytes.
    pub payload_bytes: u32,
    /// Datagrams sent.
    pub sent: u32,
    /// Of them that reached the peer; `None` when the peer did not tell.
    pub heard: Option<u32>,
    /// Of them that came back.
    pub answered: u32,
    /// Round trips in software, nanoseconds; `None` when nothing came back.
    pub round_trip: Option<Delays>,
}
