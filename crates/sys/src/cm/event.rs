//! What the connection manager tells: requests to connect, answers, failures.

use std::fmt;

use super::wire::EVENT_WORDS;
use super::{ConnectionId, PRIVATE_DATA_MAX};

/// What happened (`enum rdma_cm_event_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "Display gives the words for each")]
pub enum ConnectionEventKind {
    AddressResolved,
    AddressError,
    RouteResolved,
    RouteError,
    ConnectRequest,
    ConnectResponse,
    ConnectError,
    Unreachable,
    Rejected,
    Established,
    Disconnected,
    DeviceRemoval,
    AddressChange,
    Other(u32),
}

impl ConnectionEventKind {
    fn from_code(code: u32) -> Self {
        match code {
            0 => Self::AddressResolved,
            1 => Self::AddressError,
            2 => Self::RouteResolved,
            3 => Self::RouteError,
            4 => Self::ConnectRequest,
            5 => Self::ConnectResponse,
            6 => Self::ConnectError,
            7 => Self::Unreachable,
            8 => Self::Rejected,
            9 => Self::Established,
            10 => Self::Disconnected,
            11 => Self::DeviceRemoval,
            14 => Self::AddressChange,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for ConnectionEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AddressResolved => "RDMA_CM_EVENT_ADDR_RESOLVED",
            Self::AddressError => "RDMA_CM_EVENT_ADDR_ERROR",
            Self::RouteResolved => "RDMA_CM_EVENT_ROUTE_RESOLVED",
            Self::RouteError => "RDMA_CM_EVENT_ROUTE_ERROR",
            Self::ConnectRequest => "RDMA_CM_EVENT_CONNECT_REQUEST",
            Self::ConnectResponse => "RDMA_CM_EVENT_CONNECT_RESPONSE",
            Self::ConnectError => "RDMA_CM_EVENT_CONNECT_ERROR",
            Self::Unreachable => "RDMA_CM_EVENT_UNREACHABLE",
            Self::Rejected => "RDMA_CM_EVENT_REJECTED",
            Self::Established => "RDMA_CM_EVENT_ESTABLISHED",
            Self::Disconnected => "RDMA_CM_EVENT_DISCONNECTED",
            Self::DeviceRemoval => "RDMA_CM_EVENT_DEVICE_REMOVAL",
            Self::AddressChange => "RDMA_CM_EVENT_ADDR_CHANGE",
            Self::Other(code) => return write!(f, "rdma_cm event {code}"),
        })
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionEvent {
    /// The end that it is about; of a request to connect, the new end made for it.
    pub id: ConnectionId,
    /// What happened.
    pub kind: ConnectionEventKind,
    /// 0; for failures an errno with a minus before it, and for a rejection over InfiniBand a positive reason (InfiniBand
    /// Architecture Specification, volume 1, 12.6.7.2).
    pub status: i32,
    /// What the peer sent with a request, an answer or a rejection.
    pub private_data: Vec<u8>,
}

/// Where fields stand in `struct rdma_ucm_event_resp`.
const ID: usize = 8 / 4;
const KIND: usize = 12 / 4;
const STATUS: usize = 16 / 4;
const PRIVATE_DATA: usize = 28;
const PRIVATE_DATA_LENGTH: usize = 284;

impl ConnectionEvent {
    pub(crate) fn from_words(words: &[u32; EVENT_WORDS]) -> Self {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let length = usize::from(bytes[PRIVATE_DATA_LENGTH]).min(PRIVATE_DATA_MAX);
        Self {
            id: ConnectionId(words[ID]),
            kind: ConnectionEventKind::from_code(words[KIND]),
            status: words[STATUS].cast_signed(),
            private_data: bytes[PRIVATE_DATA..PRIVATE_DATA + length].to_vec(),
        }
    }
}
