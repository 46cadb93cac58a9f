//! Reads the machine below a root path and through netlink sockets.
//!
//! [`Host`] reads; nothing here judges. Every value is a [`rdmascope_model::Reading`]: one odd file, port or device costs its own
//! readings and no other. Nothing on the machine is changed: files are opened for reading only, and netlink is asked, never told.

mod clock;
mod counters;
mod endpoints;
mod identity;
mod idle;
mod netdev;
mod parse;
mod rdma;
mod refresh;
mod rtnl;
mod snapshot;
mod traffic;
mod tree;
mod verbs;

pub use clock::Clock;
pub use endpoints::endpoints;
pub use identity::{boot_id, host_name};
pub use idle::{IdleGate, IdleState};
pub use rdma::PortMtu;
pub use refresh::{Fresh, Tier};
pub use rtnl::{LinkEvent, LinkEvents};
pub use snapshot::{Host, HostError, MtuOf};
pub use traffic::Traffic;
pub use verbs::ask_verbs;

/// Folder of the character devices through which verbs are spoken (`uverbs0`, ...).
pub const DEVICE_NODES: &str = "/dev/infiniband";
