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

impl LatencySpec {
    /// What an operator's sweep or probe measures, and a report too, so that the figures compare.
    pub const USUAL: Self = Self { samples: 1_000, warmup: 100, message_bytes: 8 };
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

impl BandwidthSpec {
    /// Likewise. 200 ms show a port's steady rate; 100 completions make its average and worst window mean something on slow ones.
    pub const USUAL: Self = Self {
        message_bytes: 65_536,
        depth: 8,
        warmup: Duration::from_millis(20),
        duration: Duration::from_millis(200),
        completions_min: 100,
        // A fifth of a second at 400 Gbit/s.
        bytes_max: 10_000_000_000,
    };
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

impl PingSpec {
    /// Likewise. A loss of a few per cent shows, and a slow host drains its 32 receive buffers in between: what comes faster is lost there,
    /// not on the path.
    pub const USUAL: Self = Self { count: 100, labels: 1, interval: Duration::from_millis(2) };
    /// What a suspect is measured by again: the paths that the mesh takes, and nearly as many pings as the usual ones.
    pub const RETEST: Self = Self { count: 7, labels: 16, interval: Duration::from_millis(2) };
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
        self.spec.cell(&self.manner, self.urgency)
    }
}

impl ProbeSpec {
    /// What an operator's probe of a metric does.
    #[must_use]
    pub fn usual(metric: Metric) -> Self {
        match metric {
            Metric::Latency => Self::Latency(LatencySpec::USUAL),
            Metric::Bandwidth => Self::Bandwidth(BandwidthSpec::USUAL),
            Metric::Ping => Self::Pings(PingSpec::USUAL),
        }
    }

    /// What it measures; `None` for what no matrix has.
    #[must_use]
    pub fn metric(&self) -> Option<Metric> {
        match self {
            Self::Latency(_) => Some(Metric::Latency),
            Self::Bandwidth(_) => Some(Metric::Bandwidth),
            Self::Pings(_) => Some(Metric::Ping),
            Self::Echo(_) => None,
        }
    }

    /// The matrix that the result goes to; `None` for what only a report shows. The matrix compares like with like: what was measured in
    /// another manner, or with other messages than usual, stays out of it.
    #[must_use]
    pub fn cell(&self, manner: &Manner, urgency: Urgency) -> Option<Metric> {
        let metric = self.metric()?;
        let usual = match (self, Self::usual(metric)) {
            // How many bytes it may send depends on the port.
            (Self::Bandwidth(own), Self::Bandwidth(usual)) => {
                BandwidthSpec { bytes_max: usual.bytes_max, ..*own } == usual
            }
            // Fewer samples, as the rate allows.
            (Self::Latency(own), Self::Latency(usual)) if urgency == Urgency::Background => {
                own.message_bytes == usual.message_bytes
            }
            (Self::Pings(own), _) if *own == PingSpec::RETEST => true,
            (own, usual) => *own == usual,
        };
        (usual && *manner == Manner::default()).then_some(metric)
    }

    /// One probe fills the cells of both directions.
    #[must_use]
    pub fn fills_both(&self) -> bool {
        matches!(self, Self::Latency(_) | Self::Pings(_))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;

    #[test]
    fn the_matrix_takes_what_was_measured_as_usual_and_nothing_else() {
        let usual = Manner::default();
        for metric in Metric::ALL {
            let spec = ProbeSpec::usual(metric);
            assert_eq!(spec.cell(&usual, Urgency::Operator), Some(metric));
            let read = Manner { operation: Operation::Read, ..usual };
            assert_eq!(spec.cell(&read, Urgency::Operator), None, "{metric:?}");
        }
        let stream = |spec| ProbeSpec::Bandwidth(spec).cell(&usual, Urgency::Operator);
        assert_eq!(stream(BandwidthSpec { message_bytes: 1 << 20, ..BandwidthSpec::USUAL }), None);
        let capped = BandwidthSpec { bytes_max: 1_000_000, ..BandwidthSpec::USUAL };
        assert_eq!(stream(capped), Some(Metric::Bandwidth), "a slow port's share");
        let few = ProbeSpec::Latency(LatencySpec { samples: 30, warmup: 0, ..LatencySpec::USUAL });
        assert_eq!(few.cell(&usual, Urgency::Background), Some(Metric::Latency), "as the rate allows");
        assert_eq!(few.cell(&usual, Urgency::Operator), None);
        let many = PingSpec { labels: 16, ..PingSpec::USUAL };
        assert_eq!(ProbeSpec::Pings(many).cell(&usual, Urgency::Operator), None);
    }
}
