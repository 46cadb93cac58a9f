//! The kernel, its settings, and what a machine's processes may do.

use crate::{Reading, Wall};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The machine apart from its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// Kernel release, such as `6.1.0-44-amd64`.
    pub kernel: Reading<String>,
    /// When it booted.
    pub booted_at: Reading<Wall>,
    /// It is a virtual machine (CPU flag `hypervisor`).
    pub virtual_machine: Reading<bool>,
    /// We run in a container: not in the host's mount namespace.
    pub container: Reading<bool>,
    /// Kernel modules that matter here and are loaded, with the version that they give (empty: none).
    pub modules: Reading<BTreeMap<String, String>>,
    /// RDMA devices are shared by all network namespaces (`rdma system`: true `shared`, false `exclusive`).
    pub rdma_shared: Reading<bool>,
    /// The IOMMU translates (neither off nor `iommu=pt`).
    pub iommu_translates: Reading<bool>,
    /// Deepest idle state that processors may enter: its exit latency in microseconds.
    pub idle_exit_us: Reading<u32>,
    /// Frequency governor of processor 0.
    pub governor: Reading<String>,
    /// The verbs library can be loaded.
    pub libibverbs: Reading<()>,
    /// Memory that this process may lock, bytes; `u64::MAX` without a limit.
    pub memlock_bytes: Reading<u64>,
    /// Most memory that this control group may use, bytes; `u64::MAX` without a limit.
    pub memory_max_bytes: Reading<u64>,
    /// Memory that is available, bytes (`MemAvailable`).
    pub memory_available_bytes: Reading<u64>,
    /// NVIDIA's peer memory module is registered with the RDMA core.
    pub peer_memory: Reading<bool>,
}

/// A process that uses RDMA, or should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Process id in our namespace.
    pub pid: u32,
    /// Its name (`comm`).
    pub name: String,
    /// Queue pairs that it holds, by RDMA device; failed where the kernel does not show their owners.
    pub queue_pairs: Reading<BTreeMap<String, u32>>,
    /// Memory that it may lock, bytes; `u64::MAX` without a limit.
    pub memlock_bytes: Reading<u64>,
    /// It may lock memory beyond its limit: it has CAP_IPC_LOCK.
    pub ipc_lock: Reading<bool>,
    /// RDMA character devices in its own `/dev/infiniband`; `Absent` where the folder is not there.
    pub nodes: Reading<Vec<String>>,
    /// Environment variables that choose devices, GIDs and traffic classes (NCCL_IB_*, UCX_*, and others that the reader lists).
    pub environment: Reading<BTreeMap<String, String>>,
    /// Its network namespace is ours.
    pub own_network: Reading<bool>,
}

/// Where packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Routes of the unicast tables.
    pub routes: Reading<Vec<Route>>,
    /// Number of policy rules beyond the kernel's own three (local, main, default).
    pub own_rules: Reading<u32>,
    /// Neighbours that did not answer, or whose address is being asked for.
    pub unresolved: Reading<Vec<Neighbour>>,
}

/// One route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destination network; `None` for the default route.
    pub to: Option<crate::Address>,
    /// Network device.
    pub netdev: String,
    /// Routing table: 254 main.
    pub table: u32,
    /// Through a gateway.
    pub gateway: Option<IpAddr>,
}

/// A neighbour that cannot be reached at the link layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub ip: IpAddr,
    /// Network device.
    pub netdev: String,
    /// Kernel's word: `FAILED` or `INCOMPLETE`.
    pub state: String,
}

impl System {
    /// Nothing of it could be read, for one reason.
    #[must_use]
    pub fn unread(why: &str) -> Self {
        Self {
            kernel: Reading::failed(why),
            booted_at: Reading::failed(why),
            virtual_machine: Reading::failed(why),
            container: Reading::failed(why),
            modules: Reading::failed(why),
            rdma_shared: Reading::failed(why),
            iommu_translates: Reading::failed(why),
            idle_exit_us: Reading::failed(why),
            governor: Reading::failed(why),
            libibverbs: Reading::failed(why),
            memlock_bytes: Reading::failed(why),
            memory_max_bytes: Reading::failed(why),
            memory_available_bytes: Reading::failed(why),
            peer_memory: Reading::failed(why),
        }
    }
}

impl Routing {
    /// Nothing of it could be read, for one reason.
    #[must_use]
    pub fn unread(why: &str) -> Self {
        Self {
            routes: Reading::failed(why),
            own_rules: Reading::failed(why),
            unresolved: Reading::failed(why),
        }
    }
}
