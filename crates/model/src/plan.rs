//! What one probe of one pair is asked to do, as the coordinator sends it and both sides obey it.

use crate::{EndpointName, Metric, Side};
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

/// RC RDMA-write ping-pong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySpec {
    /// Round trips that count.
    pub samples: u32,
    /// Round trips before them that do not.
    pub warmup: u32,
    /// Bytes of one write, at least 1.
    pub message_bytes: u32,
}

/// RC RDMA-write stream from source to target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandwidthSpec {
    /// Bytes of one write.
    pub message_bytes: u32,
    /// Writes outstanding on each queue pair.
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

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeSpec {
    /// Latency.
    Latency(LatencySpec),
    /// Bandwidth.
    Bandwidth(BandwidthSpec),
}

impl ProbeSpec {
    /// The matrix that the result goes to.
    #[must_use]
    pub fn metric(&self) -> Metric {
        match self {
            Self::Latency(_) => Metric::Latency,
            Self::Bandwidth(_) => Metric::Bandwidth,
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
    /// On whose behalf.
    pub urgency: Urgency,
    /// Everything must be over, and closed, so long after the lease came in.
    pub expires_in: Duration,
}
