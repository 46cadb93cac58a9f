//! What one probe of one pair is asked to do, as the coordinator sends it and both sides obey it.

use crate::{Carrier, EndpointName, Manner, Metric, Operation, Side};
use std::fmt;
use std::time::Duration;

/// Number of a pair lease, unique within a coordinator's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lease {}", self.0)
    }
}

/// Which end of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends first, and reports the pair's result.
    Source,
    /// Answers.
    Target,
}

impl Role {
    /// Who an agent in this role is as a witness.
    #[must_use]
    pub fn side(self) -> Side {
        match self {
            Self::Source => Side::Source,
            Self::Target => Side::Target,
        }
    }
}

/// Ping-pong of RDMA writes or sends, or RDMA reads one after the other, on a reliable connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySpec {
    /// Round trips that count.
    pub samples: u32,
    /// Round trips before them that do not.
    pub warmup: u32,
    /// Bytes of one message, at least 1.
    pub message_bytes: u32,
}

/// Stream of RDMA writes, reads or sends of the source on reliable connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandwidthSpec {
    /// Bytes of one message.
    pub message_bytes: u32,
    /// Messages outstanding on each queue pair.
    pub depth: u32,
    /// Time before the measured window.
    pub warmup: Duration,
    /// Measured window.
    pub duration: Duration,
    /// The window goes on until so many writes have completed, for at most four times `duration`.
    pub completions_min: u32,
    /// Stop after so many bytes in all, warm-up included.
    pub bytes_max: u64,
}

/// UD pings of one pair, small and of the full path MTU, as the mesh sends them but at once and with all path labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingSpec {
    /// Pings of each size with each label.
    pub count: u32,
    /// Path labels, from the source's first one on; 1 where labels are not wanted.
    pub labels: u32,
    /// Between two pings.
    pub interval: Duration,
}

/// Don't-fragment UDP datagrams over the network device underneath, sent back by the peer's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoSpec {
    /// Datagrams.
    pub count: u32,
    /// UDP payload of each, bytes: 8,972 fill an MTU of 9000 (20 bytes of IPv4 and 8 of UDP header).
    pub payload_bytes: u32,
    /// Between two datagrams.
    pub interval: Duration,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeSpec {
    /// Latency.
    Latency(LatencySpec),
    /// Bandwidth.
    Bandwidth(BandwidthSpec),
    /// Datagrams: loss in each direction, path MTU, delay of network and hosts.
    Pings(PingSpec),
    /// Don't-fragment datagrams over the network device.
    Echo(EchoSpec),
}

/// What a probe does to the machines that it runs on; decides what may run beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    /// Keeps a processor busy and must not be disturbed.
    Spins,
    /// Fills the port.
    Streams,
    /// Hardly anything.
    Light,
}

impl ProbePlan {
    /// This side only answers, and its device may do so without it: the source tells how it went.
    #[must_use]
    pub fn only_answers(&self) -> bool {
        let native = self.manner.carrier == Carrier::Native;
        let passive = match self.spec {
            ProbeSpec::Latency(_) => native && self.manner.operation == Operation::Read,
            ProbeSpec::Bandwidth(_) => !self.manner.both_ways,
            ProbeSpec::Pings(_) | ProbeSpec::Echo(_) => false,
        };
        self.role == Role::Target && passive
    }

    /// The matrix that its result goes to; `None` for what only a report shows.
    #[must_use]
    pub fn cell(&self) -> Option<Metric> {
        if self.manner == Manner::default() { self.spec.cell() } else { None }
    }
}

impl ProbeSpec {
    /// The matrix that the result goes to, when it is measured in the ordinary manner; `None` for what only a report shows.
    #[must_use]
    pub fn cell(&self) -> Option<Metric> {
        match self {
            Self::Latency(_) => Some(Metric::Latency),
            Self::Bandwidth(_) => Some(Metric::Bandwidth),
            Self::Pings(_) | Self::Echo(_) => None,
        }
    }

    /// What it does to the machines.
    #[must_use]
    pub fn load(&self) -> Load {
        match self {
            Self::Latency(_) => Load::Spins,
            Self::Bandwidth(_) => Load::Streams,
            Self::Pings(_) | Self::Echo(_) => Load::Light,
        }
    }

    /// The word for it in steps, reports and labels.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Latency(_) => "latency",
            Self::Bandwidth(_) => "bandwidth",
            Self::Pings(_) => "ping",
            Self::Echo(_) => "echo",
        }
    }

    /// Bytes of the buffer that each side registers.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        match self {
            // One message comes in, another goes out.
            Self::Latency(spec) => 2 * u64::from(spec.message_bytes),
            // Every outstanding write may land on the same bytes: nobody reads them.
            Self::Bandwidth(spec) => u64::from(spec.message_bytes),
            // The mesh and the network device have buffers of their own.
            Self::Pings(_) | Self::Echo(_) => 0,
        }
    }
}

/// On whose behalf a probe runs; decides which limits apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// By itself, under a mesh grant and its rate.
    Background,
    /// A person or a program asked, on a cluster that may be working.
    Operator,
    /// As `Operator`, and the nodes are known to carry no job: the idle gate of bandwidth does not apply.
    Drained,
    /// An operator named this one pair and said that it is to be probed although a job may be there. It lifts the idle gate, and nothing
    /// else.
    Forced,
}

impl Urgency {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Background, Self::Operator, Self::Drained, Self::Forced];
}

/// All that one side needs to know of one probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbePlan {
    /// Its lease.
    pub lease: LeaseId,
    /// Which end this side is.
    pub role: Role,
    /// This side's endpoint.
    pub local: EndpointName,
    /// The other side's endpoint.
    pub peer: EndpointName,
    /// What to measure.
    pub spec: ProbeSpec,
    /// By which means.
    pub manner: Manner,
    /// On whose behalf.
    pub urgency: Urgency,
    /// Everything must be over, and closed, so long after the lease came in.
    pub expires_in: Duration,
}
