//! Leases and how their probes ended.

use super::{EchoStats, Empty, Name, PingStats};
use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Results {
    #[prost(message, repeated, tag = "1")]
    pub(crate) results: Vec<ProbeResult>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProbeResult {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) lease: Option<u64>,
    #[prost(message, optional, tag = "2")]
    pub(crate) local: Option<Name>,
    #[prost(message, optional, tag = "3")]
    pub(crate) peer: Option<Name>,
    #[prost(uint32, tag = "4")]
    pub(crate) role: u32,
    #[prost(uint32, tag = "5")]
    pub(crate) metric: u32,
    #[prost(uint64, tag = "6")]
    pub(crate) measured_at_ms: u64,
    #[prost(uint64, optional, tag = "7")]
    pub(crate) retransmits: Option<u64>,
    #[prost(oneof = "OutcomeKind", tags = "8, 9, 10, 11, 12, 13, 14, 15")]
    pub(crate) outcome: Option<OutcomeKind>,
    #[prost(message, optional, tag = "16")]
    pub(crate) effects: Option<Effects>,
    #[prost(string, tag = "17")]
    pub(crate) evidence: String,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum OutcomeKind {
    #[prost(message, tag = "8")]
    Latency(Latency),
    #[prost(message, tag = "9")]
    Bandwidth(Bandwidth),
    #[prost(message, tag = "10")]
    Failed(Failure),
    #[prost(uint32, tag = "11")]
    Excluded(u32),
    #[prost(message, boxed, tag = "12")]
    Pings(Box<PingStats>),
    #[prost(message, tag = "13")]
    Echo(EchoStats),
    #[prost(message, tag = "14")]
    Served(Empty),
    #[prost(message, tag = "15")]
    Aborted(Aborted),
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Aborted {
    #[prost(message, optional, tag = "1")]
    pub(crate) seen: Option<Bandwidth>,
    #[prost(uint32, tag = "2")]
    pub(crate) why: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Effects {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) retransmits: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub(crate) congestion_notifications_sent: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub(crate) congestion_notifications_handled: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub(crate) congestion_marked: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub(crate) discards: Option<u64>,
    #[prost(message, optional, tag = "6")]
    pub(crate) pause_received: Option<PerPriority>,
    #[prost(message, optional, tag = "7")]
    pub(crate) pause_sent: Option<PerPriority>,
    #[prost(message, optional, tag = "8")]
    pub(crate) packets_sent: Option<PerPriority>,
    #[prost(message, optional, tag = "9")]
    pub(crate) packets_received: Option<PerPriority>,
    #[prost(uint64, optional, tag = "10")]
    pub(crate) processor_ns: Option<u64>,
    #[prost(message, optional, tag = "11")]
    pub(crate) pause_received_ns: Option<PerPriority>,
}

/// Eight numbers.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PerPriority {
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) counts: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Latency {
    #[prost(uint32, tag = "1")]
    pub(crate) count: u32,
    #[prost(uint64, tag = "2")]
    pub(crate) min_ns: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) p50_ns: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) p90_ns: u64,
    #[prost(uint64, optional, tag = "5")]
    pub(crate) p99_ns: Option<u64>,
    #[prost(uint64, optional, tag = "6")]
    pub(crate) p999_ns: Option<u64>,
    #[prost(uint64, tag = "7")]
    pub(crate) max_ns: u64,
    #[prost(uint32, tag = "8")]
    pub(crate) host_delayed: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Bandwidth {
    #[prost(uint64, tag = "1")]
    pub(crate) bytes: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) duration_ns: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) average_bps: u64,
    #[prost(uint64, optional, tag = "4")]
    pub(crate) worst_window_bps: Option<u64>,
    #[prost(uint32, tag = "5")]
    pub(crate) completions: u32,
    #[prost(uint32, optional, tag = "6")]
    pub(crate) variation_permille: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Failure {
    #[prost(uint32, tag = "1")]
    pub(crate) cause: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) step: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) side: u32,
    #[prost(string, tag = "4")]
    pub(crate) evidence: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Lease {
    #[prost(uint64, tag = "1")]
    pub(crate) epoch: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) lease: u64,
    #[prost(uint32, tag = "3")]
    pub(crate) role: u32,
    #[prost(message, optional, tag = "4")]
    pub(crate) local: Option<Name>,
    #[prost(message, optional, tag = "5")]
    pub(crate) peer: Option<Name>,
    #[prost(uint32, tag = "6")]
    pub(crate) urgency: u32,
    #[prost(uint32, tag = "7")]
    pub(crate) expires_in_ms: u32,
    #[prost(uint32, tag = "8")]
    pub(crate) setup_within_ms: u32,
    #[prost(oneof = "SpecKind", tags = "9, 10, 11, 12")]
    pub(crate) spec: Option<SpecKind>,
    #[prost(message, optional, tag = "13")]
    pub(crate) manner: Option<Manner>,
}

/// Not there: the ordinary manner.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Manner {
    #[prost(uint32, tag = "1")]
    pub(crate) operation: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) queue_pairs: u32,
    #[prost(bool, tag = "3")]
    pub(crate) both_ways: bool,
    #[prost(uint32, tag = "4")]
    pub(crate) traffic_class: u32,
    #[prost(uint32, tag = "5")]
    pub(crate) service_level: u32,
    #[prost(uint32, tag = "6")]
    pub(crate) flow_label: u32,
    #[prost(bool, tag = "7")]
    pub(crate) over_tcp: bool,
    /// Index of the GPU whose memory is used.
    #[prost(uint32, optional, tag = "8")]
    pub(crate) source_gpu: Option<u32>,
    #[prost(uint32, optional, tag = "9")]
    pub(crate) target_gpu: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub(crate) enum SpecKind {
    #[prost(message, tag = "9")]
    Latency(LatencySpec),
    #[prost(message, tag = "10")]
    Bandwidth(BandwidthSpec),
    #[prost(message, tag = "11")]
    Pings(PingSpec),
    #[prost(message, tag = "12")]
    Echo(EchoSpec),
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct PingSpec {
    #[prost(uint32, tag = "1")]
    pub(crate) count: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) labels: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) interval_us: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct EchoSpec {
    #[prost(uint32, tag = "1")]
    pub(crate) count: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) payload_bytes: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) interval_us: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct LatencySpec {
    #[prost(uint32, tag = "1")]
    pub(crate) samples: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) warmup: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) message_bytes: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct BandwidthSpec {
    #[prost(uint32, tag = "1")]
    pub(crate) message_bytes: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) depth: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) warmup_ms: u32,
    #[prost(uint32, tag = "4")]
    pub(crate) duration_ms: u32,
    #[prost(uint32, tag = "5")]
    pub(crate) completions_min: u32,
    #[prost(uint64, tag = "6")]
    pub(crate) bytes_max: u64,
}
