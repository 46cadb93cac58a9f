//! Files of the kernel and of other programs, whose contents are any bytes: a machine in memory that always has the same ones.

use crate::archive::{Archive, Entry};
use crate::nodes::Nodes;
use crate::rdma::{self, Means, PortMtu};
use crate::snapshot::Host;
use crate::tree::Tree;
use crate::{
    container, devlink, jobs, lldp, netdev, nic, pci, processes, rdma_netlink, routing, serial, system, text,
};
use rdmascope_model::Reading;

/// Ends a file: no text in UTF-8 has this byte.
const END: u8 = 0xff;

/// Symbolic links that hold the machine together.
const LINKS: [(&str, &str); 5] = [
    ("sys/class/infiniband/mlx5_0/device", "../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"),
    ("sys/class/net/eth0/device", "../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"),
    ("sys/bus/pci/devices/0000:3a:00.0", "../../../devices/pci0000:3a/0000:3a:00.0"),
    ("sys/bus/pci/devices/0000:3b:00.0", "../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"),
    ("sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/driver", "../../../../bus/pci/drivers/mlx5_core"),
];

/// A machine whose files at `paths` have these contents, one after the other, each up to [`END`]; those that are left over are not there.
fn machine(paths: &[&str], bytes: &[u8]) -> Tree {
    let mut archive = Archive::default();
    for (path, target) in LINKS {
        archive.put(path, Entry::Link(target.to_owned()));
    }
    for (path, content) in paths.iter().zip(bytes.split(|byte| *byte == END)) {
        archive.put(path, Entry::File(content.to_vec()));
    }
    Tree::in_memory(archive)
}

/// Attributes of an RDMA device, of its network device and of its PCI function.
const SYSFS: [&str; 56] = [
    "sys/class/infiniband/mlx5_0/node_guid",
    "sys/class/infiniband/mlx5_0/sys_image_guid",
    "sys/class/infiniband/mlx5_0/node_type",
    "sys/class/infiniband/mlx5_0/board_id",
    "sys/class/infiniband/mlx5_0/fw_ver",
    "sys/class/infiniband/mlx5_0/hca_type",
    "sys/class/infiniband/mlx5_0/ports/1/state",
    "sys/class/infiniband/mlx5_0/ports/1/phys_state",
    "sys/class/infiniband/mlx5_0/ports/1/link_layer",
    "sys/class/infiniband/mlx5_0/ports/1/rate",
    "sys/class/infiniband/mlx5_0/ports/1/lid",
    "sys/class/infiniband/mlx5_0/ports/1/sm_lid",
    "sys/class/infiniband/mlx5_0/ports/1/pkeys/0",
    "sys/class/infiniband/mlx5_0/ports/1/gids/0",
    "sys/class/infiniband/mlx5_0/ports/1/gids/3",
    "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0",
    "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/3",
    "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0",
    "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/3",
    "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data",
    "sys/class/infiniband/mlx5_0/ports/1/counters/link_downed",
    "sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence",
    "sys/class/infiniband/mlx5_0/ports/1/hw_counters/lifespan",
    "sys/class/infiniband_verbs/abi_version",
    "sys/class/infiniband_verbs/uverbs0/ibdev",
    "sys/class/infiniband_verbs/uverbs0/dev",
    "sys/class/infiniband_mad/umad0/ibdev",
    "sys/class/infiniband_mad/umad0/port",
    "sys/class/net/eth0/mtu",
    "sys/class/net/eth0/flags",
    "sys/class/net/eth0/type",
    "sys/class/net/eth0/carrier",
    "sys/class/net/eth0/carrier_changes",
    "sys/class/net/eth0/operstate",
    "sys/class/net/eth0/ifindex",
    "sys/class/net/eth0/iflink",
    "sys/class/net/eth0/dev_port",
    "sys/class/net/eth0/phys_port_name",
    "sys/class/net/eth0/uevent",
    "sys/class/net/eth0/bonding/mode",
    "sys/class/net/eth0/bonding/slaves",
    "sys/class/net/eth0/bonding/ad_aggregator",
    "sys/class/net/eth0/ecn/roce_np/cnp_dscp",
    "sys/class/net/eth0/ecn/roce_np/enable/3",
    "sys/class/net/eth0/statistics/rx_bytes",
    "proc/sys/net/ipv4/conf/all/arp_ignore",
    "proc/sys/net/ipv4/conf/eth0/arp_ignore",
    "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/vendor",
    "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/class",
    "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/current_link_speed",
    "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/current_link_width",
    "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/aer_dev_fatal",
    "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/numa_node",
    "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/config",
    "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/vpd",
    "sys/devices/pci0000:3a/0000:3a:00.0/class",
];

pub(super) fn sysfs(bytes: &[u8]) {
    let tree = machine(&SYSFS, bytes);
    let nodes = Nodes::read(&tree);
    let ask = |_: &str, _: u8| PortMtu::failed("not asked");
    let means = Means { mtu_of: &ask, nodes: &nodes, resting: None, rdma_netlink: None };
    let device = rdma::device(&tree, "mlx5_0", &means);
    drop(serial::serial(&tree, &serial::Serials::default(), &device));
    drop((netdev::from_files(&tree), pci::functions(&tree)));
    drop(nic::details(&Host::of(tree), "eth0"));
}

/// What tells of processes, of who was given devices, and of the machine as a whole.
const PROCESSES: [&str; 25] = [
    "rdmascope/rdma/queue_pairs",
    "proc/4711/status",
    "proc/4711/cgroup",
    "proc/4711/limits",
    "proc/4711/environ",
    "proc/4711/comm",
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "proc/self/limits",
    "proc/cmdline",
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/stat",
    "proc/1/cgroup",
    "proc/sys/kernel/osrelease",
    "etc/passwd",
    "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
    "sys/class/infiniband_verbs/uverbs0/ibdev",
    "sys/fs/cgroup/system.slice/memory.max",
    "sys/fs/cgroup/system.slice/slurmstepd.scope/job_77/memory.max",
    "sys/fs/cgroup/kubepods.slice/pod01234567-89ab-cdef-0123-456789abcdef/memory.max",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/latency",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/disable",
    "sys/kernel/iommu_groups/0/type",
    "sys/module/mlx5_core/initstate",
];

pub(super) fn processes(bytes: &[u8]) {
    let tree = machine(&PROCESSES, bytes);
    let table = processes::captured_queue_pairs(&tree);
    drop(processes::workloads(&tree, &table, &["python*".to_owned()]));
    drop(jobs::judge(&jobs::signs(&tree, "mlx5_0")));
    drop((system::system(&tree), container::inside(&tree)));
}

/// What a capture has of netlink's and ioctls' answers, as texts that people may have changed.
const TOLD: [&str; 18] = [
    "rdmascope/netdev/eth0/dcb",
    "rdmascope/netdev/eth0/ethtool",
    "rdmascope/netdev/eth0/module",
    "rdmascope/netdev/eth0/statistics",
    "rdmascope/netdev/eth0/lldp",
    "rdmascope/netdev/eth0/link",
    "rdmascope/netdev/eth0/addresses",
    "rdmascope/devlink/0000:3b:00.0/health",
    "rdmascope/devlink/0000:3b:00.0/info",
    "rdmascope/devlink/0000:3b:00.0/params",
    "rdmascope/device_nodes",
    "rdmascope/rdma/system",
    "rdmascope/routes",
    "rdmascope/rules",
    "rdmascope/neighbours",
    "rdmascope/libibverbs",
    "sys/class/net/eth0/flags",
    "sys/class/net/eth0/mtu",
];

/// What is written of what was read says the same when it is read.
pub(super) fn told(bytes: &[u8]) {
    let tree = machine(&TOLD, bytes);
    drop((rdma_netlink::shared(&tree), Nodes::read(&tree)));
    let address = "0000:3b:00.0";
    drop((devlink::devlink(&tree, address), devlink::enable_roce(&tree, address)));
    let first = written(tree);
    let mut again = Archive::default();
    for (path, target) in LINKS {
        again.put(path, Entry::Link(target.to_owned()));
    }
    again.put("sys/class/net/eth0/flags", Entry::File(Vec::new()));
    for (path, text) in &first {
        again.put(path, Entry::File(text.clone().into_bytes()));
    }
    assert_eq!(written(Tree::in_memory(again)), first, "what was written is read as something else");
}

/// The texts of what these files say, as a capture would have them.
fn written(tree: Tree) -> Vec<(String, String)> {
    let mut netdevs = netdev::from_files(&tree).value().cloned().unwrap_or_default();
    lldp::add(&tree, &mut netdevs);
    let neighbours = netdevs.iter().filter_map(|(name, netdev)| lldp::to_file(name, &netdev.lldp));
    let mut files: Vec<_> = neighbours.chain(routing::to_files(&routing::from_files(&tree))).collect();
    let host = Host::of(tree);
    let (details, module) = (nic::details(&host, "eth0"), nic::module(&host, "eth0"));
    let texts = [
        ("dcb", text::file(&details.dcb, text::dcb::write)),
        ("ethtool", text::file(&Reading::Value(details.ethtool), text::ethtool::write)),
        ("module", text::file(&module, text::module::write)),
        ("statistics", text::file(&details.statistics, text::statistics::write)),
    ];
    let of_netdev =
        |(name, text): (&str, Option<String>)| Some((format!("rdmascope/netdev/eth0/{name}"), text?));
    files.extend(texts.into_iter().filter_map(of_netdev));
    files
}
