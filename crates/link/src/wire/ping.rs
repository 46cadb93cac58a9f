//! The mesh: its address book, its grants, and what its pings found.

use super::Name;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DatagramAddress {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) gid: Vec<u8>,
    #[prost(uint32, tag = "2")]
    pub(crate) lid: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) queue_pair: u32,
    #[prost(uint32, tag = "4")]
    pub(crate) queue_key: u32,
    #[prost(uint32, tag = "5")]
    pub(crate) mtu_bytes: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Pings {
    #[prost(message, repeated, tag = "1")]
    pub(crate) reports: Vec<PingReport>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) heard: Vec<Heard>,
}

/// Records of fixed size, see `numbered.rs`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Numbered {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) reports: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) heard: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PingReport {
    #[prost(message, optional, tag = "1")]
    pub(crate) local: Option<Name>,
    #[prost(message, optional, tag = "2")]
    pub(crate) peer: Option<Name>,
    #[prost(uint64, tag = "3")]
    pub(crate) measured_at_ms: u64,
    #[prost(message, optional, tag = "4")]
    pub(crate) stats: Option<PingStats>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Heard {
    #[prost(message, optional, tag = "1")]
    pub(crate) local: Option<Name>,
    #[prost(message, optional, tag = "2")]
    pub(crate) peer: Option<Name>,
    #[prost(uint32, tag = "3")]
    pub(crate) batch: u32,
    #[prost(uint32, tag = "4")]
    pub(crate) small: u32,
    #[prost(uint32, tag = "5")]
    pub(crate) large: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PingStats {
    #[prost(uint32, tag = "1")]
    pub(crate) batch: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) clock: u32,
    #[prost(message, optional, tag = "3")]
    pub(crate) small: Option<PingCounts>,
    #[prost(message, optional, tag = "4")]
    pub(crate) large: Option<PingCounts>,
    #[prost(message, optional, tag = "5")]
    pub(crate) network: Option<Delays>,
    #[prost(message, optional, tag = "6")]
    pub(crate) network_large: Option<Delays>,
    #[prost(message, optional, tag = "7")]
    pub(crate) responder: Option<Delays>,
    #[prost(message, optional, tag = "8")]
    pub(crate) prober: Option<Delays>,
    #[prost(uint32, tag = "9")]
    pub(crate) host_delayed: u32,
    #[prost(uint32, tag = "10")]
    pub(crate) invalid_stamps: u32,
    #[prost(uint32, tag = "11")]
    pub(crate) stale: u32,
    #[prost(message, repeated, tag = "12")]
    pub(crate) labels: Vec<LabelResult>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct PingCounts {
    #[prost(uint32, tag = "1")]
    pub(crate) payload_bytes: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) sent: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) answered: u32,
    #[prost(uint32, optional, tag = "4")]
    pub(crate) lost_forward: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    pub(crate) lost_backward: Option<u32>,
    #[prost(uint32, tag = "6")]
    pub(crate) late: u32,
    #[prost(uint32, tag = "7")]
    pub(crate) duplicate: u32,
    #[prost(uint32, tag = "8")]
    pub(crate) reordered: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Delays {
    #[prost(uint32, tag = "1")]
    pub(crate) count: u32,
    #[prost(uint64, tag = "2")]
    pub(crate) min_ns: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) p50_ns: u64,
    #[prost(uint64, optional, tag = "4")]
    pub(crate) p99_ns: Option<u64>,
    #[prost(uint64, tag = "5")]
    pub(crate) max_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct LabelResult {
    #[prost(uint32, tag = "1")]
    pub(crate) flow_label: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) sent: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) answered: u32,
    #[prost(uint64, optional, tag = "4")]
    pub(crate) p50_ns: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct EchoStats {
    #[prost(uint32, tag = "1")]
    pub(crate) payload_bytes: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) sent: u32,
    #[prost(uint32, optional, tag = "3")]
    pub(crate) heard: Option<u32>,
    #[prost(uint32, tag = "4")]
    pub(crate) answered: u32,
    #[prost(message, optional, tag = "5")]
    pub(crate) round_trip: Option<Delays>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Book {
    #[prost(uint64, tag = "1")]
    pub(crate) generation: u64,
    #[prost(uint32, tag = "2")]
    pub(crate) total: u32,
    #[prost(message, repeated, tag = "3")]
    pub(crate) peers: Vec<Name>,
    #[prost(uint64, tag = "4")]
    pub(crate) base: u64,
    /// One for each peer, in the same order; from an older coordinator there are none.
    #[prost(message, repeated, tag = "5")]
    pub(crate) addresses: Vec<PeerAddress>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) removed: Vec<Name>,
    /// One for each peer, in the same order; where no rail is known there are none.
    #[prost(uint32, repeated, tag = "7")]
    pub(crate) rails: Vec<u32>,
    /// Likewise; from an older coordinator there are none.
    #[prost(uint32, repeated, tag = "8")]
    pub(crate) numbers: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PeerAddress {
    #[prost(message, optional, tag = "1")]
    pub(crate) address: Option<DatagramAddress>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Grant {
    #[prost(uint64, tag = "1")]
    pub(crate) epoch: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) generation: u64,
    #[prost(uint32, tag = "3")]
    pub(crate) expires_in_ms: u32,
    #[prost(uint32, tag = "4")]
    pub(crate) pings_per_second: u32,
    #[prost(uint32, tag = "5")]
    pub(crate) pings_per_batch: u32,
    #[prost(uint32, tag = "6")]
    pub(crate) labels: u32,
    /// 0 from an older coordinator, which tells of no rails either: then all peers are alike.
    #[prost(uint32, tag = "7")]
    pub(crate) cross_rail_every: u32,
    #[prost(message, optional, tag = "8")]
    pub(crate) sweep: Option<MeshSweep>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct MeshSweep {
    #[prost(uint64, tag = "1")]
    pub(crate) number: u64,
    #[prost(uint32, tag = "2")]
    pub(crate) pings_per_second: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) pings_per_batch: u32,
    #[prost(bool, tag = "4")]
    pub(crate) cross_rail: bool,
}
