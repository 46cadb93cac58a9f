//! What sysfs and procfs tell of a network device beyond its link: its PCI function and driver, a bond's members, ARP and filter settings.

use crate::tree::Tree;
use crate::{parse, pci};
use rdmascope_model::{Bond, BondMember, Netdev, Reading};
use std::collections::BTreeMap;

/// Where the kernel lists network devices.
const CLASS: &str = "sys/class/net";

/// Most members of one bond that are looked at.
const MEMBERS_MAX: usize = 64;

/// Fills in the fields of every device that come from these files, on a live machine and in a capture alike.
pub(crate) fn complete(tree: &Tree, netdevs: &mut BTreeMap<String, Netdev>) {
    for (name, netdev) in netdevs {
        let base = format!("{CLASS}/{name}");
        netdev.pci_address = tree.owed_within(&base, pci::address_at(tree, &format!("{base}/device")));
        netdev.driver = tree.owed_within(&base, tree.target_name(&format!("{base}/device/driver")));
        netdev.dev_port = tree.owed_within(&base, tree.parsed(&format!("{base}/dev_port"), parse::number));
        netdev.bond = bond(tree, name);
        netdev.arp_ignore = sysctl(tree, name, "arp_ignore");
        netdev.arp_announce = sysctl(tree, name, "arp_announce");
        netdev.rp_filter = sysctl(tree, name, "rp_filter");
    }
}

/// A setting as the kernel applies it: the larger of the device's own and that of `all` (`IN_DEV_MAXCONF` in
/// `include/linux/inetdevice.h`, which `rp_filter`, `arp_ignore` and `arp_announce` go through).
fn sysctl(tree: &Tree, name: &str, setting: &str) -> Reading<u32> {
    let conf = "proc/sys/net/ipv4/conf";
    let of = |who: &str| tree.parsed(&format!("{conf}/{who}/{setting}"), parse::number::<u32>);
    match (of(name), of("all")) {
        (Reading::Value(own), Reading::Value(all)) => Reading::Value(own.max(all)),
        (Reading::Failed(why), _) | (_, Reading::Failed(why)) => Reading::Failed(why),
        // A device without IPv4 has none; where `all` is missing too, nothing of it can be seen.
        (Reading::Absent, Reading::Value(_)) => tree.owed_within(&format!("{conf}/all"), Reading::Absent),
        (_, Reading::Absent) => tree.owed(&format!("{conf}/all/{setting}"), Reading::Absent),
    }
}

/// `Documentation/networking/bonding.rst`: the files below `bonding` and `bonding_slave`.
fn bond(tree: &Tree, name: &str) -> Reading<Bond> {
    let base = format!("{CLASS}/{name}");
    let folder = format!("{base}/bonding");
    if !tree.is_there(&folder) {
        return tree.owed_within(&base, Reading::Absent);
    }
    let mode = tree.owed(&folder, tree.parsed(&format!("{folder}/mode"), first_word));
    let names = match tree.text(&format!("{folder}/slaves")) {
        Reading::Value(text) => text,
        // A bond without members.
        Reading::Absent => String::new(),
        Reading::Failed(why) => return Reading::Failed(why),
    };
    let lacp = mode.value().is_some_and(|mode| mode == "802.3ad");
    let active = tree.parsed(&format!("{folder}/ad_aggregator"), parse::number::<u32>);
    let member = |name: &str| {
        let files = format!("{CLASS}/{name}/bonding_slave");
        let aggregator =
            || tree.owed(&files, tree.parsed(&format!("{files}/ad_aggregator_id"), parse::number::<u32>));
        BondMember {
            name: name.to_owned(),
            mii_status: tree.owed(&files, tree.parsed(&format!("{files}/mii_status"), parse::plain)),
            link_failures: tree
                .owed(&files, tree.parsed(&format!("{files}/link_failure_count"), parse::number)),
            aggregated: if lacp { same(aggregator(), &active) } else { Reading::Absent },
        }
    };
    let members = names.split_whitespace().take(MEMBERS_MAX).map(member).collect();
    Reading::Value(Bond { mode, members })
}

/// `802.3ad 4`: the name, then its number.
fn first_word(text: &str) -> Result<String, String> {
    parse::plain(text.split_whitespace().next().unwrap_or_default())
}

/// Whether a member's aggregator is the bond's active one. The kernel shows the bond's only to root (CAP_NET_ADMIN).
fn same(own: Reading<u32>, active: &Reading<u32>) -> Reading<bool> {
    match (own, active) {
        (Reading::Value(own), Reading::Value(active)) => Reading::Value(own == *active),
        (Reading::Failed(why), _) => Reading::Failed(why),
        (_, Reading::Failed(why)) => Reading::Failed(why.clone()),
        (_, Reading::Absent) => {
            Reading::failed("bonding/ad_aggregator is empty: it takes CAP_NET_ADMIN; run as root")
        }
        (Reading::Absent, _) => Reading::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::{FakeHost, Folder};

    fn seen(folder: &Folder) -> BTreeMap<String, Netdev> {
        let tree = Tree::open(folder.path()).unwrap();
        crate::netdev::from_files(&tree).value().unwrap().clone()
    }

    fn bonded(mode: &str) -> FakeHost {
        let host = FakeHost::mlx5(2);
        let write = |file: &str, text: &str| host.folder().write(file, &format!("{text}\n"));
        let bond = "sys/devices/virtual/net/bond0";
        write(&format!("{bond}/bonding/mode"), mode);
        write(&format!("{bond}/bonding/slaves"), "eth0 eth1");
        write(&format!("{bond}/bonding/ad_aggregator"), "1");
        host.folder().link("sys/class/net/bond0", "../../devices/virtual/net/bond0");
        for (device, aggregator) in [("mlx5_0", "1"), ("mlx5_1", "2")] {
            for (file, text) in
                [("mii_status", "up"), ("link_failure_count", "3"), ("ad_aggregator_id", aggregator)]
            {
                write(&host.netdev_file(device, &format!("bonding_slave/{file}")), text);
            }
        }
        host
    }

    #[test]
    fn a_bond_shows_which_members_carry() {
        let host = bonded("802.3ad 4");
        let netdevs = seen(host.folder());
        let bond = netdevs["bond0"].bond.value().unwrap();
        assert_eq!(bond.mode, Reading::Value("802.3ad".to_owned()));
        let members: Vec<_> = bond.members.iter().map(|m| (&m.name[..], m.aggregated.value())).collect();
        assert_eq!(members, [("eth0", Some(&true)), ("eth1", Some(&false))]);
        assert_eq!(bond.members[0].link_failures, Reading::Value(3));
        assert_eq!(bond.members[0].mii_status, Reading::Value("up".to_owned()));
        assert_eq!(
            (&netdevs["eth1"].bond, &netdevs["bond0"].pci_address),
            (&Reading::Absent, &Reading::Absent)
        );
        // Without CAP_NET_ADMIN the kernel leaves the bond's own number out.
        host.folder().write("sys/devices/virtual/net/bond0/bonding/ad_aggregator", "\n");
        let netdevs = seen(host.folder());
        let member = &netdevs["bond0"].bond.value().unwrap().members[0];
        assert!(matches!(&member.aggregated, Reading::Failed(why) if why.contains("CAP_NET_ADMIN")));
    }

    #[test]
    fn other_modes_have_no_aggregator() {
        let netdevs = seen(bonded("active-backup 1").folder());
        let bond = netdevs["bond0"].bond.value().unwrap();
        assert_eq!(bond.mode, Reading::Value("active-backup".to_owned()));
        assert!(bond.members.iter().all(|m| m.aggregated == Reading::Absent));
    }

    #[test]
    fn the_larger_of_two_settings_counts() {
        let host = FakeHost::mlx5(1);
        host.folder().write("proc/sys/net/ipv4/conf/all/rp_filter", "1\n");
        host.folder().write("proc/sys/net/ipv4/conf/eth0/rp_filter", "0\n");
        assert_eq!(seen(host.folder())["eth0"].rp_filter, Reading::Value(1));
        host.folder().write("proc/sys/net/ipv4/conf/eth0/rp_filter", "2\n");
        assert_eq!(seen(host.folder())["eth0"].rp_filter, Reading::Value(2));
        host.folder().remove("proc/sys/net/ipv4/conf");
        let why = seen(host.folder())["eth0"].arp_ignore.clone();
        assert!(matches!(why, Reading::Failed(why) if why.contains("not part of this capture")));
    }

    #[test]
    fn a_netdev_knows_its_function_and_a_made_one_has_none() {
        let host = FakeHost::mlx5(1);
        let files = "sys/devices/virtual/net/eth0.100";
        host.folder().write(&format!("{files}/mtu"), "9000\n");
        host.folder().link("sys/class/net/eth0.100", "../../devices/virtual/net/eth0.100");
        let netdevs = seen(host.folder());
        assert_eq!(netdevs["eth0"].pci_address, Reading::Value("0000:3b:00.0".to_owned()));
        assert_eq!(netdevs["eth0"].driver, Reading::Value("mlx5_core".to_owned()));
        assert_eq!(netdevs["eth0"].dev_port, Reading::Value(0));
        assert_eq!(
            (&netdevs["eth0.100"].pci_address, &netdevs["eth0.100"].driver),
            (&Reading::Absent, &Reading::Absent)
        );
    }
}
