//! PCI functions and the links between them, as sysfs shows them.

use crate::Reading;
use std::collections::BTreeMap;

/// One PCI function (`/sys/bus/pci/devices/ADDRESS`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciFunction {
    /// Vendor id.
    pub vendor: Reading<u16>,
    /// Device id.
    pub device: Reading<u16>,
    /// Class code, 24 bits: 0x0200xx Ethernet, 0x0207xx InfiniBand, 0x0302xx 3D controller, 0x0604xx bridge.
    pub class: Reading<u32>,
    /// The bridge above; absent below a root bus.
    pub parent: Option<String>,
    /// Driver that is bound; `Absent` where none is.
    pub driver: Reading<String>,
    /// It is a virtual function: of this physical one. `Absent` on physical functions.
    pub physical_function: Reading<String>,
    /// Link towards the bridge above.
    pub link: PciLink,
    /// Errors since boot by kind and name (`aer_dev_correctable`, `aer_dev_nonfatal`, `aer_dev_fatal`), such as `correctable/BadTLP`;
    /// zeros are left out. `Absent` without AER.
    pub errors: Reading<BTreeMap<String, u64>>,
    /// ACS control register (PCI Express 7.7.11.3); `Absent` without the capability, failed without CAP_SYS_ADMIN.
    pub acs_control: Reading<u16>,
    /// NUMA node; `Absent` where the machine does not say.
    pub numa_node: Reading<u32>,
    /// Names of RDMA devices of this function.
    pub rdma_devices: Vec<String>,
    /// Names of network devices of this function.
    pub netdevs: Vec<String>,
    /// devlink's `enable_roce` as it is now; `Absent` where it is not offered.
    pub enable_roce: Reading<bool>,
}

/// A PCI Express link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciLink {
    /// In use, megatransfers per second (16 GT/s = 16000).
    pub speed_mts: Reading<u32>,
    /// Most that this end can do.
    pub speed_max_mts: Reading<u32>,
    /// Lanes in use.
    pub width: Reading<u8>,
    /// Most that this end has.
    pub width_max: Reading<u8>,
}

/// Health and versions by devlink (`Documentation/networking/devlink`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Devlink {
    /// Health reporters in their order.
    pub reporters: Vec<HealthReporter>,
    /// Versions that run, by name, such as `fw.version`.
    pub running: BTreeMap<String, String>,
    /// Versions that will run after a reset, by name.
    pub stored: BTreeMap<String, String>,
    /// Serial number of the board, else of the device, where the driver tells one; captures do not keep it.
    pub serial: Option<String>,
}

/// One health reporter of devlink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthReporter {
    /// Such as `fw_fatal`, `tx`.
    pub name: String,
    /// Its port; `None` for one of the whole device.
    pub port: Option<u32>,
    /// It is in the state `error` now.
    pub in_error: bool,
    /// Errors since the driver was loaded.
    pub errors: u64,
    /// Recoveries since the driver was loaded.
    pub recoveries: u64,
}
