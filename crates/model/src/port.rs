//! A machine's RDMA devices and ports as they were read at one instant.

use crate::{Devlink, GidEntry, Reading};
use std::collections::BTreeMap;

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
    /// What kind of function it is: not every one is meant to carry traffic.
    pub function: Reading<Function>,
    /// Card type as the driver prints it (`hca_type`), such as `MT4129`.
    pub card: Reading<String>,
    /// GUID of the whole card: functions that share it are one piece of hardware.
    pub system_guid: Reading<String>,
    /// What devlink tells of the function underneath; `Absent` where the driver has none.
    pub devlink: Reading<Devlink>,
    /// Serial number of the card.
    pub serial: Reading<String>,
    /// Its nodes in `/dev/infiniband`, that are there or should be.
    pub nodes: Vec<DeviceNode>,
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
    /// LID of the subnet manager; 0 on RoCE, and where none has come by.
    pub sm_lid: Reading<u16>,
    /// The used entries of the P_Key table (those that are not 0), in their order.
    pub pkeys: Reading<Vec<u16>>,
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

/// What an RDMA device is, seen from PCI and devlink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Function {
    /// A physical function: the card itself.
    Physical,
    /// A virtual function (SR-IOV).
    Virtual {
        /// PCI address of its physical function; absent inside a virtual machine.
        of: Reading<String>,
    },
    /// Stands on a DPU or host for the port of another function (switchdev mode); its own state says nothing about a cable.
    Representor,
    /// A function of a BlueField or a switch-managing card that serves management alone.
    Management,
    /// No hardware: Soft-RoCE, Soft-iWARP.
    Software,
}

/// One character device of an RDMA device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceNode {
    /// Such as `uverbs0`, `umad0`, `issm0`.
    pub name: String,
    /// Port that it belongs to; `None` for `uverbs`.
    pub port: Option<u8>,
    /// File mode of `/dev/infiniband/NAME` (permission bits only); `Absent` where there is no such file.
    pub mode: Reading<u32>,
    /// Whether it can be opened by this process: an empty value, or the reason. Only `uverbs` nodes are tried.
    pub open: Reading<()>,
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

impl Device {
    /// A device of which nothing could be read, for one reason; with one port, so that what is asked of ports finds the reason too.
    #[must_use]
    pub fn unread(name: &str, why: &str) -> Self {
        Self {
            name: name.to_owned(),
            node_guid: Reading::failed(why),
            firmware: Reading::failed(why),
            node_type: Reading::failed(why),
            board: Reading::failed(why),
            driver: Reading::failed(why),
            pci_address: Reading::failed(why),
            numa_node: Reading::failed(why),
            uverbs: Reading::failed(why),
            function: Reading::failed(why),
            card: Reading::failed(why),
            system_guid: Reading::failed(why),
            devlink: Reading::failed(why),
            serial: Reading::failed(why),
            nodes: Vec::new(),
            ports: vec![Port::unread(1, why)],
        }
    }
}

impl Port {
    /// A port of which nothing could be read, for one reason.
    #[must_use]
    pub fn unread(number: u8, why: &str) -> Self {
        Self {
            number,
            state: Reading::failed(why),
            phys_state: Reading::failed(why),
            link_layer: Reading::failed(why),
            rate_bps: Reading::failed(why),
            lid: Reading::failed(why),
            sm_lid: Reading::failed(why),
            pkeys: Reading::failed(why),
            gids: Reading::failed(why),
            gids_unread: Vec::new(),
            active_mtu: Reading::failed(why),
            max_mtu: Reading::failed(why),
            netdev: Reading::failed(why),
            counters: BTreeMap::from([("hw_counters/".to_owned(), Reading::failed(why))]),
        }
    }
}
