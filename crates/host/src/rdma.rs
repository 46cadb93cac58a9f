//! Reads RDMA devices and their ports from sysfs (`drivers/infiniband/core/sysfs.c`); one odd file costs one reading.

use crate::parse;
use crate::tree::Tree;
use rdmascope_model::{Device, Gid, GidEntry, Port, Reading};
use std::collections::BTreeMap;

/// For what no reader has been written for.
pub(crate) const NOT_YET: &str = "this is not read yet";

/// Where the kernel lists RDMA devices.
pub(crate) const CLASS: &str = "sys/class/infiniband";

/// Where the kernel lists the character devices that verbs are spoken through.
const VERBS_CLASS: &str = "sys/class/infiniband_verbs";

/// The RDMA MTU of a port, which sysfs does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMtu {
    /// In use, bytes.
    pub active: Reading<u32>,
    /// The most that the port can do, bytes.
    pub max: Reading<u32>,
}

impl PortMtu {
    /// Both could not be read, for one reason.
    #[must_use]
    pub fn failed(why: &str) -> Self {
        Self { active: Reading::Failed(why.to_owned()), max: Reading::Failed(why.to_owned()) }
    }
}

/// Names of the RDMA devices; `Absent` where the kernel has no RDMA subsystem.
pub(crate) fn device_names(tree: &Tree) -> Reading<Vec<String>> {
    match tree.list(CLASS) {
        Reading::Absent if tree.list("sys/class") == Reading::Absent => Reading::Failed(
            "sys/class is not there: sysfs is not mounted, or not part of this capture".to_owned(),
        ),
        names => names,
    }
}

/// Which character device belongs to which RDMA device, and what could not be read of that.
pub(crate) fn uverbs_nodes(tree: &Tree) -> Reading<(BTreeMap<String, String>, Vec<String>)> {
    tree.list(VERBS_CLASS).map(|names| {
        let (mut nodes, mut unread) = (BTreeMap::new(), Vec::new());
        // The class folder also holds the file `abi_version`.
        for name in names.into_iter().filter(|name| name.starts_with("uverbs")) {
            match tree.parsed(&format!("{VERBS_CLASS}/{name}/ibdev"), parse::plain) {
                Reading::Value(device) => {
                    nodes.insert(device, name);
                }
                Reading::Absent => unread.push(format!("{VERBS_CLASS}/{name}/ibdev is empty or not there")),
                Reading::Failed(why) => unread.push(why),
            }
        }
        (nodes, unread)
    })
}

/// Everything about one device. It may block in the kernel for as long as the driver's firmware does not answer.
pub(crate) fn device(tree: &Tree, name: &str, mtu_of: &dyn Fn(&str, u8) -> PortMtu) -> Device {
    let base = format!("{CLASS}/{name}");
    let numa = tree.parsed(&format!("{base}/device/numa_node"), parse::number::<i64>);
    Device {
        name: name.to_owned(),
        node_guid: tree.parsed(&format!("{base}/node_guid"), parse::guid),
        firmware: tree.parsed(&format!("{base}/fw_ver"), parse::plain),
        node_type: tree
            .parsed(&format!("{base}/node_type"), |text| parse::numbered_word(text).and_then(parse::plain)),
        board: tree.parsed(&format!("{base}/board_id"), parse::plain),
        driver: driver(tree, &base),
        pci_address: pci_address(tree, &base),
        numa_node: match numa {
            // -1: the firmware of the machine does not say.
            Reading::Value(node) => u32::try_from(node).map_or(Reading::Absent, Reading::Value),
            Reading::Absent => Reading::Absent,
            Reading::Failed(why) => Reading::Failed(why),
        },
        uverbs: uverbs_of(tree, name),
        function: Reading::failed(NOT_YET),
        card: tree.parsed(&format!("{base}/hca_type"), parse::plain),
        system_guid: tree.parsed(&format!("{base}/sys_image_guid"), parse::guid),
        devlink: Reading::failed(NOT_YET),
        nodes: Vec::new(),
        ports: port_numbers(tree, &base).into_iter().map(|n| port(tree, name, n, mtu_of)).collect(),
    }
}

fn driver(tree: &Tree, base: &str) -> Reading<String> {
    match tree.resolved(&format!("{base}/device/driver")) {
        Reading::Value(path) => match path.file_name().and_then(|name| name.to_str()) {
            Some(name) => Reading::Value(name.to_owned()),
            None => Reading::Failed(format!("{base}/device/driver leads to a name that is not text")),
        },
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why),
    }
}

/// The nearest PCI function above the device: drivers of Intel and Broadcom adapters put an auxiliary device in between.
fn pci_address(tree: &Tree, base: &str) -> Reading<String> {
    match tree.resolved(&format!("{base}/device")) {
        Reading::Value(path) => path
            .components()
            .rev()
            .filter_map(|part| part.as_os_str().to_str())
            .find(|part| parse::is_pci_address(part))
            .map_or(Reading::Absent, |address| Reading::Value(address.to_owned())),
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why),
    }
}

fn uverbs_of(tree: &Tree, device: &str) -> Reading<String> {
    match uverbs_nodes(tree) {
        Reading::Value((nodes, unread)) => match (nodes.get(device), unread.first()) {
            (Some(node), _) => Reading::Value(node.clone()),
            (None, Some(why)) => Reading::Failed(why.clone()),
            (None, None) => Reading::Absent,
        },
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why),
    }
}

/// Every port number. A folder that cannot be listed leaves port 1, which every device has: its readings then say what is wrong.
fn port_numbers(tree: &Tree, base: &str) -> Vec<u8> {
    match tree.list(&format!("{base}/ports")) {
        Reading::Value(names) => names.iter().filter_map(|name| name.parse().ok()).collect(),
        Reading::Absent | Reading::Failed(_) => vec![1],
    }
}

fn port(tree: &Tree, device: &str, number: u8, mtu_of: &dyn Fn(&str, u8) -> PortMtu) -> Port {
    let base = format!("{CLASS}/{device}/ports/{number}");
    let (gids, gids_unread) = gid_table(tree, &base);
    let mtu = mtu_of(device, number);
    Port {
        number,
        state: tree.parsed(&format!("{base}/state"), parse::port_state),
        phys_state: tree.parsed(&format!("{base}/phys_state"), parse::phys_state),
        link_layer: tree.parsed(&format!("{base}/link_layer"), parse::link_layer),
        rate_bps: tree.parsed(&format!("{base}/rate"), parse::rate),
        sm_lid: Reading::failed(NOT_YET),
        pkeys: Reading::failed(NOT_YET),
        lid: tree.parsed(&format!("{base}/lid"), parse::hex_u16),
        active_mtu: mtu.active,
        max_mtu: mtu.max,
        netdev: netdev_of(tree, device, number, &gids),
        gids,
        gids_unread,
        counters: counters(tree, device, number),
    }
}

/// `counters/` and `hw_counters/` of a port.
pub(crate) fn counters(tree: &Tree, device: &str, port: u8) -> BTreeMap<String, Reading<u64>> {
    let base = format!("{CLASS}/{device}/ports/{port}");
    let mut counters = BTreeMap::new();
    add_counters(tree, &base, "counters", &mut counters);
    add_counters(tree, &base, "hw_counters", &mut counters);
    counters
}

/// The used slots. Types and netdevs are asked only for those: the kernel answers EINVAL for an empty slot.
fn gid_table(tree: &Tree, base: &str) -> (Reading<Vec<GidEntry>>, Vec<String>) {
    let folder = match tree.folder(&format!("{base}/gids")) {
        Reading::Value(folder) => folder,
        Reading::Absent => return (Reading::Absent, Vec::new()),
        Reading::Failed(why) => return (Reading::Failed(why), Vec::new()),
    };
    let slots = match folder.list(".") {
        Reading::Value(slots) => slots,
        Reading::Absent => return (Reading::Absent, Vec::new()),
        Reading::Failed(why) => return (Reading::Failed(why), Vec::new()),
    };
    let (mut entries, mut unread) = (Vec::new(), Vec::new());
    for slot in slots {
        let Ok(index) = slot.parse::<u32>() else { continue };
        match folder.parsed(&slot, |text| text.parse::<Gid>().map_err(|e| e.to_string())) {
            Reading::Value(gid) if is_unused(&gid) => {}
            Reading::Value(gid) => entries.push(GidEntry {
                index,
                gid,
                kind: tree.parsed(&format!("{base}/gid_attrs/types/{slot}"), parse::gid_type),
                netdev: tree.parsed(&format!("{base}/gid_attrs/ndevs/{slot}"), parse::plain),
            }),
            Reading::Absent => unread.push(format!("{base}/gids/{slot} is empty")),
            Reading::Failed(why) => unread.push(why),
        }
    }
    (Reading::Value(entries), unread)
}

/// An empty slot is all zeros; mlx4 and qib fill theirs with a subnet prefix and no interface id (seen in published trees).
fn is_unused(gid: &Gid) -> bool {
    gid.0[8..] == [0; 8] && (gid.is_zero() || gid.is_link_local())
}

/// The port's network device, by three ways that the kernel gives, the surest first: the lowest used slot of the GID table; the
/// file `parent`, which software drivers have; the Ethernet devices of the same hardware function.
fn netdev_of(tree: &Tree, device: &str, port: u8, gids: &Reading<Vec<GidEntry>>) -> Reading<String> {
    let base = format!("{CLASS}/{device}");
    let from_gids =
        gids.value().into_iter().flatten().map(|entry| &entry.netdev).find(|n| n.value().is_some());
    if let Some(found) = from_gids {
        return found.clone();
    }
    match tree.parsed(&format!("{base}/parent"), parse::plain) {
        Reading::Absent => {}
        found => return found,
    }
    let names = match tree.list(&format!("{base}/device/net")) {
        Reading::Value(names) => names,
        Reading::Absent => return Reading::Absent,
        Reading::Failed(why) => return Reading::Failed(why),
    };
    for name in names {
        let net = format!("{base}/device/net/{name}");
        // ARPHRD_ETHER; an InfiniBand port's IPoIB device (32) does not carry RDMA.
        if tree.parsed(&format!("{net}/type"), parse::number::<u32>) == Reading::Value(1)
            && tree.parsed(&format!("{net}/dev_port"), parse::number::<u32>)
                == Reading::Value(u32::from(port.saturating_sub(1)))
        {
            return Reading::Value(name);
        }
    }
    Reading::Absent
}

fn add_counters(tree: &Tree, base: &str, folder: &str, counters: &mut BTreeMap<String, Reading<u64>>) {
    // One walk down the long path for some sixty files.
    let there = match tree.folder(&format!("{base}/{folder}")) {
        Reading::Value(there) => there,
        // Drivers without such counters have no such folder (irdma, bnxt_re, rxe).
        Reading::Absent => return,
        Reading::Failed(why) => {
            counters.insert(format!("{folder}/"), Reading::Failed(why));
            return;
        }
    };
    match there.list(".") {
        Reading::Value(names) => {
            for name in names {
                // `lifespan` is how long the driver caches the others, in milliseconds: a setting, and writable.
                if name == "lifespan" {
                    continue;
                }
                let value = there.parsed(&name, parse::counter);
                counters.entry(name).or_insert(value);
            }
        }
        Reading::Absent => {}
        Reading::Failed(why) => {
            counters.insert(format!("{folder}/"), Reading::Failed(why));
        }
    }
}
