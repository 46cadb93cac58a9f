//! Reads the machine below a root path and through netlink sockets.
//!
//! [`Host`] reads; nothing here judges. Every value is a [`rdmascope_model::Reading`]: one odd file, port or device costs its own
//! readings and no other. Nothing on the machine is changed: files are opened for reading only, and netlink is asked, never told.

mod anonymise;
mod archive;
mod capture;
mod clock;
mod counters;
mod ecn;
mod endpoints;
mod identity;
mod idle;
mod netdev;
mod nic;
mod nl;
mod parse;
mod rdma;
mod recorder;
mod rtnl;
mod sight;
mod snapshot;
mod text;
mod traffic;
mod tree;
mod verbs;

pub use archive::ArchiveError;
pub use capture::capture;
pub use clock::Clock;
pub use endpoints::endpoints;
pub use identity::{boot_id, host_name};
pub use idle::{IdleGate, IdleState};
pub use nic::netdev_files;
pub use rdma::PortMtu;
pub use rtnl::{LinkEvent, LinkEvents};
pub use sight::{Sight, sight};
pub use snapshot::{Host, HostError};
pub use traffic::Traffic;
pub use verbs::ask_verbs;

/// Folder of the character devices through which verbs are spoken (`uverbs0`, ...).
pub const DEVICE_NODES: &str = "/dev/infiniband";
