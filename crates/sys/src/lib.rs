//! The only unsafe code of the workspace: a safe wrapper over exactly those verbs that the probes need.
//!
//! libibverbs is loaded at run time ([`Verbs::open`]), so one binary starts on hosts with and without RDMA.
//! `rdma-sys` gives the types of `<infiniband/verbs.h>`; none of its functions that name an exported symbol
//! is used, because one such call would make the loader ask for libibverbs again.
//!
//! Rules that keep it sound:
//! - Every handle holds its parents ([`Context`] ← [`ProtectionDomain`] ← [`QueuePair`] ...), so a parent is
//!   released after its last child, whatever order the caller drops them in.
//! - Memory that a device may write is only seen as atomic bytes ([`MemoryRegion::bytes`]), and is freed only
//!   after the device gave it back.
//! - What providers would take for granted (a queue pair's kind, that handles belong to one device) is
//!   checked here.
//!
//! Reading order: `dl` (the library), `device`, `context`, `port`, `gid`, `pd_mr`, `cq`, `stamped`, `qp`, `post`, `ah`,
//! `event`, `cm`, `gpu`. Apart from them stand `ethtool` (the statistics of a network device), `socket`, `ticks` and `memory`.
#![expect(unsafe_code, reason = "this crate exists to hold the unsafe code; each block says why it is sound")]

mod ah;
mod cm;
mod context;
mod cq;
mod decoders;
mod device;
mod dl;
mod error;
mod ethtool;
mod event;
mod gid;
mod gpu;
mod memory;
mod pd_mr;
mod port;
mod post;
mod qp;
mod socket;
mod stamped;
mod status;
mod ticks;

pub use ah::{AddressHandle, AddressVector, GlobalRoute};
pub use cm::{
    CmCommand, ConnectionAddresses, ConnectionEvent, ConnectionEventKind, ConnectionId, ConnectionManager,
    ConnectionParameters, PRIVATE_DATA_MAX,
};
pub use context::{Context, DeviceAttributes};
pub use cq::{Completion, CompletionChannel, CompletionQueue};
pub use decoders::DECODERS;
pub use device::Device;
pub use dl::{DEFAULT_LIBRARY, Verbs};
pub use error::{LoadError, QueuePairState, Verb, VerbError, failed_releases};
pub use ethtool::{StatisticNames, StatisticsSocket};
pub use event::{AsyncEvent, EventKind};
pub use gid::{GidEntry, GidKind};
pub use gpu::{Cuda, DEFAULT_CUDA_LIBRARY, GpuError, GpuMemory};
pub use memory::give_back_memory;
pub use pd_mr::{Access, MemoryRegion, ProtectionDomain};
pub use port::{LinkLayer, Mtu, PhysicalState, PortAttributes, PortState};
pub use post::{RemoteBuffer, SendRequest};
pub use qp::{
    InitAttributes, QueuePair, QueuePairKind, QueuePairOptions, ReadyToReceiveAttributes,
    ReadyToSendAttributes,
};
pub use socket::bind_to_device;
pub use stamped::{StampUnit, StampedCompletion, StampedQueue};
pub use status::CompletionStatus;
pub use ticks::{TickScale, ticks};
