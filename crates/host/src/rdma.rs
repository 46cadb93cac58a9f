//! Reads RDMA devices and their ports from sysfs (`drivers/infiniband/core/sysfs.c`); one odd file costs one reading.

use crate::nodes::Nodes;
use crate::rdma_netlink::Asked;
use crate::resting::Resting;
use crate::tree::{Tree, is_refused};
use crate::{function, parse, pci};
use rdmascope_model::{Device, Gid, GidEntry, Port, Reading};
use std::collections::BTreeMap;
use std::time::Instant;

/// For what no reader has been written for.
pub(crate) const NOT_YET: &str = "this is not read yet";

/// Where the kernel lists RDMA devices.
pub(crate) const CLASS: &str = "sys/class/infiniband";

/// Most files of one counter folder that are read. hfi1 has the most: some 250, 160 of them `RcvHdrOvrN`.
const COUNTERS_MAX: usize = 256;

/// Files of counter folders that are no counters: `lifespan` is how long the driver caches the others, in milliseconds; `clear_diag`
/// resets counters when it is written.
const NO_COUNTERS: [&str; 2] = ["lifespan", "clear_diag"];

/// After so many refusals, and no answer, the rest of a folder is taken for refused too: each costs a line in the kernel log.
const REFUSALS_MAX: usize = 2;

/// A P_Key table is filled from its beginning, and holes are small: after so many empty slots nothing is expected. Each slot
/// costs a firmware command.
const EMPTY_PKEYS_MAX: usize = 16;

/// Most slots of a P_Key table that are read.
const PKEYS_MAX: usize = 128;

/// What the reading of a device needs besides its files.
pub(crate) struct Means<'a> {
    /// Asks a port's MTU.
    pub(crate) mtu_of: &'a dyn Fn(&str, u8) -> PortMtu,
    /// Character devices of all devices.
    pub(crate) nodes: &'a Nodes,
    /// Counters that are left alone for a while; `None` in a capture.
    pub(crate) resting: Option<&'a Resting>,
    /// RDMA netlink, where it is there.
    pub(crate) rdma_netlink: Option<&'a Asked>,
}

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

/// Everything about one device. It may block in the kernel for as long as the driver's firmware does not answer.
pub(crate) fn device(tree: &Tree, name: &str, means: &Means<'_>) -> Device {
    let base = format!("{CLASS}/{name}");
    let ports: Vec<Port> =
        port_numbers(tree, &base).into_iter().map(|number| port(tree, name, number, means)).collect();
    let netdev = ports.first().and_then(|port| port.netdev.value());
    let function = function::function(tree, &base, netdev.map(String::as_str));
    Device {
        name: name.to_owned(),
        node_guid: tree.parsed(&format!("{base}/node_guid"), parse::guid),
        firmware: tree.parsed(&format!("{base}/fw_ver"), parse::plain),
        node_type: tree
            .parsed(&format!("{base}/node_type"), |text| parse::numbered_word(text).and_then(parse::plain)),
        board: tree.parsed(&format!("{base}/board_id"), parse::plain),
        driver: tree.target_name(&format!("{base}/device/driver")),
        pci_address: function::pci_address(tree, &base, &function),
        numa_node: pci::numa_node(tree, &format!("{base}/device")),
        uverbs: means.nodes.verbs_of(name),
        function,
        card: tree.parsed(&format!("{base}/hca_type"), parse::plain),
        system_guid: tree.parsed(&format!("{base}/sys_image_guid"), parse::guid),
        devlink: Reading::failed(NOT_YET),
        serial: Reading::failed(NOT_YET),
        nodes: means.nodes.of(tree, name),
        ports,
    }
}

/// Every port number. A folder that cannot be listed leaves port 1, which every device has: its readings then say what is wrong.
fn port_numbers(tree: &Tree, base: &str) -> Vec<u8> {
    match tree.list(&format!("{base}/ports")) {
        Reading::Value(names) => names.iter().filter_map(|name| name.parse().ok()).collect(),
        Reading::Absent | Reading::Failed(_) => vec![1],
    }
}

fn port(tree: &Tree, device: &str, number: u8, means: &Means<'_>) -> Port {
    let base = format!("{CLASS}/{device}/ports/{number}");
    let (gids, gids_unread) = gid_table(tree, &base);
    let mtu = (means.mtu_of)(device, number);
    let link_layer = format!("{base}/link_layer");
    Port {
        number,
        state: tree.parsed(&format!("{base}/state"), parse::port_state),
        phys_state: tree.parsed(&format!("{base}/phys_state"), parse::phys_state),
        // Every kernel since 2.6.37 has it: without it nobody may take the port for InfiniBand.
        link_layer: tree.owed(&link_layer, tree.parsed(&link_layer, parse::link_layer)),
        rate_bps: tree.parsed(&format!("{base}/rate"), parse::rate),
        sm_lid: tree.parsed(&format!("{base}/sm_lid"), parse::hex_u16),
        pkeys: pkeys(tree, &base),
        lid: tree.parsed(&format!("{base}/lid"), parse::hex_u16),
        active_mtu: mtu.active,
        max_mtu: mtu.max,
        netdev: match netdev_of(tree, device, number, &gids) {
            Reading::Value(name) => Reading::Value(name),
            // Asked last: it is one more question to the firmware.
            missing => match means.rdma_netlink.map(|asked| asked.netdev(device, number)) {
                Some(Reading::Value(name)) => Reading::Value(name),
                _ => missing,
            },
        },
        gids,
        gids_unread,
        counters: counters(tree, device, number, means.resting, means.rdma_netlink),
    }
}

/// `counters/` and `hw_counters/` of a port; the latter by RDMA netlink where it is there.
pub(crate) fn counters(
    tree: &Tree,
    device: &str,
    port: u8,
    resting: Option<&Resting>,
    rdma_netlink: Option<&Asked>,
) -> BTreeMap<String, Reading<u64>> {
    let base = format!("{CLASS}/{device}/ports/{port}");
    let mut counters = BTreeMap::new();
    add_counters(tree, &base, "counters", resting, &mut counters);
    tree.count(u64::from(rdma_netlink.is_some()));
    if let Some(Reading::Value(found)) = rdma_netlink.map(|asked| asked.statistics(device, port)) {
        counters.extend(found.into_iter().map(|(name, value)| (name, Reading::Value(value))));
    }
    // The rest: files that netlink did not tell of, and all where it tells nothing.
    add_counters(tree, &base, "hw_counters", resting, &mut counters);
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

/// The used slots of the P_Key table. One that cannot be read makes the table unknown: the missing one may be it.
fn pkeys(tree: &Tree, base: &str) -> Reading<Vec<u16>> {
    let slots = match tree.list(&format!("{base}/pkeys")) {
        Reading::Value(slots) => slots,
        Reading::Absent => return Reading::Absent,
        Reading::Failed(why) => return Reading::Failed(why),
    };
    let slots: Vec<&String> = slots.iter().filter(|slot| slot.parse::<u16>().is_ok()).collect();
    if slots.is_empty() {
        return Reading::Failed(format!("{base}/pkeys has no slots: every port has at least one"));
    }
    let (mut used, mut empty) = (Vec::new(), 0);
    for slot in slots.into_iter().take(PKEYS_MAX) {
        let path = format!("{base}/pkeys/{slot}");
        match tree.owed(&path, tree.parsed(&path, parse::hex_u16)) {
            Reading::Value(0) | Reading::Absent => empty += 1,
            Reading::Value(key) => {
                used.push(key);
                empty = 0;
            }
            Reading::Failed(why) => return Reading::Failed(why),
        }
        if empty == EMPTY_PKEYS_MAX {
            break;
        }
    }
    Reading::Value(used)
}

fn add_counters(
    tree: &Tree,
    base: &str,
    folder: &str,
    resting: Option<&Resting>,
    counters: &mut BTreeMap<String, Reading<u64>>,
) {
    // One walk down the long path for some sixty files.
    let listed = match tree.folder(&format!("{base}/{folder}")) {
        Reading::Value(there) => there.list(".").map(|names| (there, names)),
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why),
    };
    let (there, names) = match listed {
        Reading::Value(listed) => listed,
        // Drivers without such counters have no such folder (irdma, bnxt_re, rxe).
        Reading::Absent => return,
        Reading::Failed(why) => {
            counters.insert(format!("{folder}/"), Reading::Failed(why));
            return;
        }
    };
    if names.len() > COUNTERS_MAX {
        let why =
            format!("{base}/{folder} has {} files: those after {COUNTERS_MAX} are not read", names.len());
        counters.insert(format!("{folder}/"), Reading::Failed(why));
    }
    let now = Instant::now();
    let (mut refused, mut answered) = (0, false);
    let mut refusal = String::new();
    let wanted = |name: &String| !NO_COUNTERS.contains(&&name[..]) && !counters.contains_key(name);
    let wanted: Vec<String> = names.into_iter().filter(wanted).take(COUNTERS_MAX).collect();
    for name in wanted {
        let path = format!("{base}/{folder}/{name}");
        let read = || parse::known(there.parsed(&name, parse::counter));
        let value = match resting {
            Some(resting) if refused >= REFUSALS_MAX && !answered => {
                resting.rest(&path, now, &refusal);
                Reading::Failed(refusal.clone())
            }
            Some(resting) => resting.read(&path, now, read),
            None => read(),
        };
        match &value {
            Reading::Failed(why) if is_refused(why) => {
                refused += 1;
                refusal.clone_from(why);
            }
            _ => answered = true,
        }
        counters.entry(name).or_insert(value);
    }
}

#[cfg(test)]
#[path = "rdma_tests.rs"]
mod tests;
