//! Reads the machine below a root path and through netlink sockets.
//!
//! [`Host`] reads; nothing here judges. Every value is a [`rdmascope_model::Reading`]: one odd file, port or device costs its own
//! readings and no other. Nothing on the machine is changed: files are opened for reading only, and netlink is asked, never told.

mod acs;
mod anonymise;
mod archive;
mod capabilities;
mod capture;
mod clock;
mod container;
mod cost;
mod counters;
mod crew;
mod decoders;
mod devlink;
mod ecn;
mod endpoints;
mod function;
mod identity;
mod idle;
mod interface;
mod jobs;
mod kmsg;
mod lldp;
mod netdev;
mod nic;
mod nl;
mod nodes;
mod parse;
mod pci;
mod processes;
mod rdma;
mod rdma_netlink;
mod recorder;
mod refresh;
mod resting;
mod routing;
mod rtnl;
mod serial;
pub mod service_manager;
mod sight;
mod snapshot;
mod source;
mod stacked;
mod system;
mod text;
mod told;
mod traffic;
mod tree;
mod verbs;

pub use archive::ArchiveError;
pub use capabilities::{keep_what_a_coordinator_needs, keep_what_an_agent_needs};
pub use capture::capture;
pub use clock::Clock;
pub use cost::ProcessCost;
pub use counters::PortCounters;
pub use decoders::DECODERS;
pub use endpoints::endpoints;
pub use identity::{boot_id, host_name};
pub use idle::{IdleGate, IdleState};
pub use kmsg::{KernelLogReader, LogBatch, LogEvent, LogFollower, rule_files};
pub use nic::netdev_files;
pub use nodes::device_nodes_text;
pub use processes::{QueuePairs, queue_pairs_text};
pub use rdma::PortMtu;
pub use rdma_netlink::{RdmaEvent, RdmaEvents};
pub use refresh::{Fresh, Tier};
pub use rtnl::{LinkEvent, LinkEvents};
pub use sight::{Sight, sight};
pub use snapshot::{Host, HostError, MtuOf};
pub use told::told_files;
pub use traffic::Traffic;
pub use verbs::ask_verbs;

/// Folder of the character devices through which verbs are spoken (`uverbs0`, ...).
pub const DEVICE_NODES: &str = "/dev/infiniband";
