//! The frames as protobuf messages: dumb records whose numbers never change their meaning.
//!
//! Enumerations travel as numbers from 1, so that a missing field (0) is never mistaken for a value.

mod ping;
mod probe;

pub(crate) use ping::*;
pub(crate) use probe::*;

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AgentFrame {
    #[prost(oneof = "AgentKind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9")]
    pub(crate) kind: Option<AgentKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum AgentKind {
    #[prost(message, tag = "1")]
    Hello(Hello),
    #[prost(message, tag = "2")]
    Heartbeat(Heartbeat),
    #[prost(message, tag = "3")]
    Inventory(Inventory),
    #[prost(message, tag = "4")]
    Relay(Relay),
    #[prost(message, tag = "5")]
    Results(Results),
    #[prost(message, tag = "6")]
    Facts(Facts),
    #[prost(message, tag = "7")]
    Events(Events),
    #[prost(message, tag = "8")]
    Pings(Pings),
    #[prost(message, tag = "9")]
    Numbered(Numbered),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CoordinatorFrame {
    #[prost(oneof = "CoordinatorKind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10")]
    pub(crate) kind: Option<CoordinatorKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum CoordinatorKind {
    #[prost(message, tag = "1")]
    Welcome(Welcome),
    #[prost(string, tag = "2")]
    Refused(String),
    #[prost(message, tag = "3")]
    HeartbeatReply(HeartbeatReply),
    #[prost(message, tag = "4")]
    Book(Book),
    #[prost(message, tag = "5")]
    Grant(Grant),
    #[prost(message, tag = "6")]
    Lease(Lease),
    #[prost(message, tag = "7")]
    Relay(Relay),
    #[prost(uint64, tag = "8")]
    LeaseEnd(u64),
    #[prost(message, tag = "9")]
    Pause(PauseFlags),
    #[prost(uint64, tag = "10")]
    EventsSeen(u64),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Empty {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Heartbeat {
    #[prost(bool, tag = "1")]
    pub(crate) all: bool,
    #[prost(bool, tag = "2")]
    pub(crate) bandwidth: bool,
    #[prost(message, repeated, tag = "3")]
    pub(crate) drain_for: Vec<DrainFault>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DrainFault {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) subject: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DrainAnswer {
    #[prost(bool, tag = "1")]
    pub(crate) leave: bool,
    #[prost(string, tag = "2")]
    pub(crate) why: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeartbeatReply {
    #[prost(message, repeated, tag = "1")]
    pub(crate) pairs: Vec<PairsBrief>,
    #[prost(message, optional, tag = "2")]
    pub(crate) drain: Option<DrainAnswer>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PairsBrief {
    #[prost(string, tag = "1")]
    pub(crate) device: String,
    #[prost(uint32, tag = "2")]
    pub(crate) port: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) metric: u32,
    #[prost(bool, tag = "4")]
    pub(crate) outgoing: bool,
    #[prost(uint32, tag = "5")]
    pub(crate) fresh: u32,
    #[prost(uint32, tag = "6")]
    pub(crate) stale: u32,
    #[prost(uint32, tag = "7")]
    pub(crate) failed: u32,
    #[prost(uint64, optional, tag = "8")]
    pub(crate) worst: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Hello {
    #[prost(uint32, tag = "1")]
    pub(crate) protocol_min: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) protocol_max: u32,
    #[prost(string, tag = "3")]
    pub(crate) agent_version: String,
    #[prost(string, tag = "4")]
    pub(crate) node: String,
    #[prost(fixed64, tag = "5")]
    pub(crate) instance: u64,
    #[prost(string, tag = "6")]
    pub(crate) machine: String,
    /// Empty where there is none, and from an older agent.
    #[prost(string, tag = "7")]
    pub(crate) metrics: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct PauseFlags {
    #[prost(bool, tag = "1")]
    pub(crate) all: bool,
    #[prost(bool, tag = "2")]
    pub(crate) bandwidth: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Inventory {
    #[prost(message, repeated, tag = "1")]
    pub(crate) endpoints: Vec<Endpoint>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) findings: Vec<Finding>,
    #[prost(uint32, tag = "3")]
    pub(crate) findings_left_out: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Endpoint {
    #[prost(message, optional, tag = "1")]
    pub(crate) name: Option<Name>,
    #[prost(uint32, tag = "2")]
    pub(crate) fabric: u32,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub(crate) gid: Option<Vec<u8>>,
    #[prost(string, optional, tag = "4")]
    pub(crate) netdev: Option<String>,
    #[prost(uint32, optional, tag = "5")]
    pub(crate) netdev_mtu: Option<u32>,
    #[prost(uint32, optional, tag = "6")]
    pub(crate) active_mtu: Option<u32>,
    #[prost(uint64, optional, tag = "7")]
    pub(crate) rate_bps: Option<u64>,
    #[prost(uint32, optional, tag = "8")]
    pub(crate) unusable: Option<u32>,
    #[prost(string, tag = "9")]
    pub(crate) unusable_detail: String,
    #[prost(message, optional, tag = "10")]
    pub(crate) datagrams: Option<DatagramAddress>,
    #[prost(uint32, tag = "11")]
    pub(crate) connections_labelled_by: u32,
    #[prost(uint32, tag = "12")]
    pub(crate) datagrams_labelled_by: u32,
    #[prost(string, optional, tag = "13")]
    pub(crate) pci_address: Option<String>,
    #[prost(string, optional, tag = "14")]
    pub(crate) rail: Option<String>,
    #[prost(string, optional, tag = "15")]
    pub(crate) switch: Option<String>,
    #[prost(string, optional, tag = "16")]
    pub(crate) switch_port: Option<String>,
    /// Why the switch could not be looked for.
    #[prost(string, optional, tag = "17")]
    pub(crate) switch_unread: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Name {
    #[prost(string, tag = "1")]
    pub(crate) node: String,
    #[prost(string, tag = "2")]
    pub(crate) device: String,
    #[prost(uint32, tag = "3")]
    pub(crate) port: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Finding {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(uint32, tag = "2")]
    pub(crate) status: u32,
    #[prost(string, tag = "3")]
    pub(crate) subject: String,
    #[prost(string, tag = "4")]
    pub(crate) summary: String,
    #[prost(string, tag = "5")]
    pub(crate) next_step: String,
    #[prost(string, tag = "6")]
    pub(crate) cause: String,
    #[prost(string, repeated, tag = "7")]
    pub(crate) evidence: Vec<String>,
    #[prost(bool, tag = "8")]
    pub(crate) settling: bool,
    #[prost(uint64, tag = "9")]
    pub(crate) since_ms: u64,
    #[prost(bool, tag = "10")]
    pub(crate) latched: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Facts {
    #[prost(message, repeated, tag = "1")]
    pub(crate) facts: Vec<Fact>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Fact {
    #[prost(string, tag = "1")]
    pub(crate) subject: String,
    #[prost(string, tag = "2")]
    pub(crate) key: String,
    #[prost(string, tag = "3")]
    pub(crate) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Events {
    #[prost(message, repeated, tag = "1")]
    pub(crate) events: Vec<NodeEvent>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeEvent {
    #[prost(uint64, tag = "1")]
    pub(crate) number: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) at_ms: u64,
    #[prost(uint32, tag = "3")]
    pub(crate) kind: u32,
    #[prost(string, tag = "4")]
    pub(crate) subject: String,
    #[prost(string, tag = "5")]
    pub(crate) id: String,
    #[prost(string, tag = "6")]
    pub(crate) before: String,
    #[prost(string, tag = "7")]
    pub(crate) after: String,
    #[prost(string, tag = "8")]
    pub(crate) text: String,
    #[prost(message, optional, tag = "9")]
    pub(crate) basis: Option<Lines>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Lines {
    #[prost(string, repeated, tag = "1")]
    pub(crate) lines: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Relay {
    #[prost(uint64, tag = "1")]
    pub(crate) lease: u64,
    /// Set: an offer. Not set: ready.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(crate) offer: Option<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Welcome {
    #[prost(uint32, tag = "1")]
    pub(crate) protocol: u32,
    #[prost(uint64, tag = "2")]
    pub(crate) epoch: u64,
    #[prost(uint32, tag = "3")]
    pub(crate) heartbeat_ms: u32,
}
