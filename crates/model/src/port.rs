//! A machine's RDMA devices and ports as they were read at one instant.

use crate::{GidEntry, Reading, Wall};
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
}

/// One RDMA device (`/sys/class/infiniband/NAME`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Kernel name, such as `mlx5_0`; it may change over a reboot.
    pub name: String,
    /// 64-bit node GUID as the kernel prints it.
    pub node_guid: Reading<String>,
    /// Firmware version, where the driver gives one.
    pub firmware: Reading<String>,
    /// What the kernel calls it: `CA` (InfiniBand or RoCE) or `RNIC` (iWARP).
    pub node_type: Reading<String>,
    /// Board id (PSID on NVIDIA adapters).
    pub board: Reading<String>,
    /// Kernel driver behind it.
    pub driver: Reading<String>,
    /// PCI address, such as `0000:3b:00.0`; absent on software devices.
    pub pci_address: Reading<String>,
    /// NUMA node of the PCI slot; absent where the kernel says -1.
    pub numa_node: Reading<u32>,
    /// Its character device under `/dev/infiniband`, such as `uverbs0`.
    pub uverbs: Reading<String>,
    /// Every port, also those that are down.
    pub ports: Vec<Port>,
}

/// One port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Port number, from 1.
    pub number: u8,
    /// Logical state.
    pub state: Reading<PortState>,
    /// Physical state.
    pub phys_state: Reading<PhysState>,
    /// Ethernet or InfiniBand.
    pub link_layer: Reading<LinkLayer>,
    /// Signalling rate in bits per second.
    pub rate_bps: Reading<u64>,
    /// Local identifier given by the subnet manager; 0 on RoCE.
    pub lid: Reading<u16>,
    /// The used slots of the GID table.
    pub gids: Reading<Vec<GidEntry>>,
    /// Slots of the GID table that could not be read, in words: with one of them, a missing GID is not known to be missing.
    pub gids_unread: Vec<String>,
    /// RDMA MTU in use, bytes (at most 4096), from a verbs port query: sysfs does not have it.
    pub active_mtu: Reading<u32>,
    /// Largest RDMA MTU that the port can do, bytes.
    pub max_mtu: Reading<u32>,
    /// The network device that carries it (RoCE, iWARP).
    pub netdev: Reading<String>,
    /// `counters/` and `hw_counters/`, by file name, as the kernel counts them. A folder that cannot be listed is one failed
    /// reading under its own name with a slash, such as `hw_counters/`; one that is not there leaves no trace.
    pub counters: BTreeMap<String, Reading<u64>>,
}

/// Logical port state (`include/uapi/rdma/ib_user_verbs.h`, `enum ib_port_state`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortState {
    /// No link.
    Down,
    /// Link is up, waiting for the subnet manager.
    Init,
    /// Configured, not yet carrying data.
    Armed,
    /// Carries data.
    Active,
    /// Link error, deferred.
    ActiveDefer,
    /// A word that this program does not know.
    Other(String),
}

impl PortState {
    /// The kernel's word for it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Down => "DOWN",
            Self::Init => "INIT",
            Self::Armed => "ARMED",
            Self::Active => "ACTIVE",
            Self::ActiveDefer => "ACTIVE_DEFER",
            Self::Other(word) => word,
        }
    }
}

/// Physical port state (`drivers/infiniband/core/sysfs.c`, `phys_state_to_str`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhysState {
    /// Not looking for a link.
    Sleep,
    /// Looking for a link.
    Polling,
    /// Switched off.
    Disabled,
    /// Training.
    PortConfigurationTraining,
    /// Link is up.
    LinkUp,
    /// Link was lost and is being won back.
    LinkErrorRecovery,
    /// Physical test.
    PhyTest,
    /// A word that this program does not know.
    Other(String),
}

impl PhysState {
    /// The kernel's word for it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Sleep => "Sleep",
            Self::Polling => "Polling",
            Self::Disabled => "Disabled",
            Self::PortConfigurationTraining => "PortConfigurationTraining",
            Self::LinkUp => "LinkUp",
            Self::LinkErrorRecovery => "LinkErrorRecovery",
            Self::PhyTest => "Phy Test",
            Self::Other(word) => word,
        }
    }
}

/// What the port speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// RoCE or iWARP.
    Ethernet,
    /// InfiniBand.
    InfiniBand,
    /// A word that this program does not know.
    Other(String),
}

impl LinkLayer {
    /// The kernel's word for it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Ethernet => "Ethernet",
            Self::InfiniBand => "InfiniBand",
            Self::Other(word) => word,
        }
    }
}

/// A network device, as rtnetlink shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Netdev {
    /// Kernel index.
    pub index: Reading<u32>,
    /// MTU in bytes.
    pub mtu: Reading<u32>,
    /// Operational state word of RFC 2863, such as `up` or `lowerlayerdown`.
    pub oper_state: Reading<String>,
    /// Administratively up (IFF_UP).
    pub admin_up: Reading<bool>,
    /// Carrier present while up (IFF_LOWER_UP).
    pub carrier: Reading<bool>,
    /// How often the carrier changed since the device was made.
    pub carrier_changes: Reading<u32>,
    /// Bytes sent since the device was made.
    pub tx_bytes: Reading<u64>,
    /// Bytes received since the device was made.
    pub rx_bytes: Reading<u64>,
    /// Its IP addresses, the primary one of each family first, as the kernel lists them.
    pub addresses: Reading<Vec<std::net::IpAddr>>,
}
