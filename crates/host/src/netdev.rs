//! Network devices of a captured machine: the files of `/sys/class/net`, and a file for what only netlink tells (addresses).

use crate::tree::Tree;
use crate::{interface, parse, stacked};
use rdmascope_model::{Address, Netdev, Reading};
use std::collections::BTreeMap;

/// Where the kernel lists network devices.
pub(crate) const CLASS: &str = "sys/class/net";

/// `IFF_UP` (`include/uapi/linux/if.h`).
const IFF_UP: u32 = 1;

/// All network devices below the root, with everything that files tell of them.
pub(crate) fn from_files(tree: &Tree) -> Reading<BTreeMap<String, Netdev>> {
    let mut netdevs = links_from_files(tree);
    let Reading::Value(all) = &mut netdevs else { return netdevs };
    for (name, netdev) in all.iter_mut() {
        let base = format!("{CLASS}/{name}");
        (netdev.kind, netdev.parent) = stacked::kind_and_parent(tree, name);
        netdev.hardware = tree.parsed(&format!("{base}/type"), parse::number);
        netdev.phys_port_name = tree.parsed(&format!("{base}/phys_port_name"), parse::plain);
    }
    interface::complete(tree, all);
    netdevs
}

/// The same, as far as rtnetlink tells again and again. Addresses are in `rdmascope/netdev/NAME/addresses`, one on each line.
pub(crate) fn links_from_files(tree: &Tree) -> Reading<BTreeMap<String, Netdev>> {
    match tree.list(CLASS) {
        Reading::Value(names) => {
            // `bonding_masters` is a file in this folder, not a device.
            let names = names.into_iter().filter(|name| name != "bonding_masters");
            let link = |name: String| {
                let link = link(tree, &name);
                (name, link)
            };
            Reading::Value(names.map(link).collect())
        }
        Reading::Absent => Reading::Failed(format!("{CLASS} is not part of this capture")),
        Reading::Failed(why) => Reading::Failed(why),
    }
}

fn link(tree: &Tree, name: &str) -> Netdev {
    let base = format!("{CLASS}/{name}");
    // One walk down the long path for nine files.
    let (folder, above) = match tree.folder(&base) {
        Reading::Value(folder) => (Some(folder), String::new()),
        Reading::Absent | Reading::Failed(_) => (None, format!("{base}/")),
    };
    let there = folder.as_ref().unwrap_or(tree);
    let file = |name: &str| format!("{above}{name}");
    let admin_up = there.parsed(&file("flags"), |text| parse::hex_u32(text).map(|f| f & IFF_UP != 0));
    let carrier = there.parsed(&file("carrier"), |text| parse::number::<u8>(text).map(|c| c == 1));
    Netdev {
        index: there.parsed(&file("ifindex"), parse::number),
        mtu: there.parsed(&file("mtu"), parse::number),
        oper_state: there.parsed(&file("operstate"), parse::plain),
        // The kernel answers EINVAL for the carrier of a device that is switched off: it uses none.
        carrier: match (&admin_up, carrier) {
            (Reading::Value(false), Reading::Failed(_)) => Reading::Value(false),
            (_, carrier) => carrier,
        },
        admin_up,
        carrier_changes: there.parsed(&file("carrier_changes"), parse::number),
        carrier_down_count: there.parsed(&file("carrier_down_count"), parse::number),
        tx_bytes: there.parsed(&file("statistics/tx_bytes"), parse::number),
        rx_bytes: there.parsed(&file("statistics/rx_bytes"), parse::number),
        addresses: addresses(tree, name),
        master: stacked::master(tree, name),
        ..Netdev::unread(crate::rdma::NOT_YET)
    }
}

fn addresses(tree: &Tree, name: &str) -> Reading<Vec<Address>> {
    let path = format!("rdmascope/netdev/{name}/addresses");
    let read = |text: &str| {
        text.lines()
            .map(|line| line.trim().parse().map_err(|_| "a line of it is not an IP address".to_owned()))
            .collect()
    };
    match tree.parsed(&path, read) {
        Reading::Absent => Reading::Failed(format!("{path} is not part of this capture, or empty")),
        reading => reading,
    }
}
