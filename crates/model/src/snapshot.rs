//! A whole machine as it was read at one instant.

use crate::{Device, Netdev, PciFunction, Reading, Routing, System, Wall, Workload};
use std::collections::BTreeMap;

/// All that was read of a machine at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// When the reading began.
    pub taken_at: Wall,
    /// The list of RDMA devices; `Absent` where the kernel has no RDMA subsystem.
    pub devices: Reading<Vec<Device>>,
    /// Network devices by name, as rtnetlink lists them.
    pub netdevs: Reading<BTreeMap<String, Netdev>>,
    /// Routes, policy rules and neighbours.
    pub routing: Routing,
    /// PCI functions that matter here, by address: network and InfiniBand controllers, GPUs, and every bridge above them.
    pub pci: Reading<BTreeMap<String, PciFunction>>,
    /// The kernel and what it runs on.
    pub system: System,
    /// Processes that use RDMA, or should: those that hold queue pairs, and those whose names the configuration gives.
    pub workloads: Reading<Vec<Workload>>,
}

impl Snapshot {
    /// A machine of which nothing could be read, for one reason.
    #[must_use]
    pub fn unread(why: &str) -> Self {
        Self {
            taken_at: Wall(0),
            devices: Reading::failed(why),
            netdevs: Reading::failed(why),
            routing: Routing::unread(why),
            pci: Reading::failed(why),
            system: System::unread(why),
            workloads: Reading::failed(why),
        }
    }
}
