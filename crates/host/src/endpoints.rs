//! From readings to endpoints: which ports can be probed, at which address, and where they hang; pure.

use rdmascope_checks::manifest::Manifest;
use rdmascope_checks::{is_iwarp, usable_gid};
use rdmascope_model::{
    Cause, Device, EndpointInfo, EndpointName, Fabric, Gid, GidEntry, LabelBy, LinkLayer, Netdev, Port,
    PortState, Reading, Snapshot, SwitchPort,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Every port of the machine as an endpoint of `node`, usable or not; `only` names the devices that count, empty means all. The
/// manifest says which rail a port is of.
#[must_use]
pub fn endpoints(snapshot: &Snapshot, node: &str, only: &[String], manifest: &Manifest) -> Vec<EndpointInfo> {
    let devices = snapshot.devices.value().into_iter().flatten();
    devices
        .filter(|device| only.is_empty() || only.contains(&device.name))
        .flat_map(|device| device.ports.iter().map(move |port| (device, port)))
        .map(|(device, port)| EndpointInfo {
            rail: manifest.of(device, Some(port)).rail,
            ..endpoint(&snapshot.netdevs, node, device, port)
        })
        .collect()
}

fn endpoint(
    netdevs: &Reading<BTreeMap<String, Netdev>>,
    node: &str,
    device: &Device,
    port: &Port,
) -> EndpointInfo {
    let fabric = fabric_of(device, port);
    let (chosen, netdev) = match fabric {
        Fabric::InfiniBand => (infiniband_gid(port).map(|entry| entry.gid), None),
        Fabric::Iwarp => (iwarp_address(netdevs, port), None),
        _ => match usable_gid(netdevs, port) {
            Ok(entry) => (Ok(entry.gid), entry.netdev.value()),
            Err(none) => (Err(none.words().to_owned()), None),
        },
    };
    let netdev = netdev.or(port.netdev.value());
    let netdev_mtu = netdev
        .zip(netdevs.value())
        .and_then(|(name, netdevs)| netdevs.get(name))
        .and_then(|found| found.mtu.value());
    let (unusable, unusable_detail) = match (down(port), &chosen) {
        (Some(detail), _) => (Some(Cause::PortDown), detail),
        (None, Err(detail)) => (Some(Cause::NoUsableGid), detail.clone()),
        (None, Ok(_)) => (None, String::new()),
    };
    let (connections, datagrams) = labels(fabric, &device.driver);
    EndpointInfo {
        name: EndpointName { node: node.to_owned(), device: device.name.clone(), port: port.number },
        fabric,
        gid: chosen.ok(),
        netdev: netdev.cloned(),
        netdev_mtu: netdev_mtu.copied(),
        active_mtu: port.active_mtu.value().copied(),
        rate_bps: port.rate_bps.value().copied(),
        // The mesh tells where they go, once it is open.
        datagrams: None,
        pci_address: device.pci_address.value().cloned(),
        rail: None,
        switch_port: switch_port(netdevs, port),
        connections_labelled_by: connections,
        datagrams_labelled_by: datagrams,
        unusable,
        unusable_detail,
    }
}

/// What moves connections and datagrams onto another equal-cost path, by the driver: which number becomes the UDP source port of their
/// packets. Read in these sources (below `drivers/infiniband` of Linux 6.1 and later where nothing else is named):
///
/// | driver | connections | datagrams |
/// | --- | --- | --- |
/// | mlx5 | `hw/mlx5/qp.c`: `mlx5_set_path_udp_sport` | rdma-core `providers/mlx5/verbs.c`: `mlx5_ah_set_udp_sport` |
/// | hns | `hw/hns/hns_roce_hw_v2.c`: `rdma_get_udp_sport` | `hw/hns/hns_roce_ah.c` and rdma-core `providers/hns`: `get_ah_udp_sport` |
/// | irdma (over ice) | `hw/irdma/verbs.c`: `irdma_modify_qp_roce` | not found |
/// | erdma | `hw/erdma/erdma_verbs.c`: `rdma_get_udp_sport` (RoCE) | not found |
/// | mana | `hw/mana/qp.c`: `mana_ib_gd_modify_qp` | not found |
/// | ionic | `hw/ionic/ionic_controlpath.c`: `rdma_get_udp_sport` | there: always `IONIC_ROCE_UDP_SPORT` |
/// | rxe | `sw/rxe/rxe_verbs.c`: `rdma_get_udp_sport` (5.18 and later) | `sw/rxe/rxe_qp.c`: a hash of the queue pair's number |
///
/// `bnxt_re`, `efa` and `mlx4` have none of these calls: not known. rxe is the only software driver for RoCE, and has no device below it.
fn labels(fabric: Fabric, driver: &Reading<String>) -> (LabelBy, LabelBy) {
    use LabelBy::{FlowLabel, Nothing, QueuePair, Unknown};
    match (fabric, driver) {
        // Forwarding goes by the destination's LID (InfiniBand Architecture Specification, volume 1, 14.2.5.5).
        (Fabric::InfiniBand, _) => (Nothing, Nothing),
        (Fabric::Roce, Reading::Value(driver)) => match driver.as_str() {
            "mlx5_core" | "hns3" => (FlowLabel, FlowLabel),
            "ionic" => (FlowLabel, Nothing),
            "ice" | "irdma" | "erdma" | "mana" => (FlowLabel, Unknown),
            _ => (Unknown, Unknown),
        },
        (Fabric::Roce, Reading::Absent) => (FlowLabel, QueuePair),
        _ => (Unknown, Unknown),
    }
}

/// What the switch at the other end of the cable says of itself. A bond has as many cables as members.
fn switch_port(netdevs: &Reading<BTreeMap<String, Netdev>>, port: &Port) -> Reading<SwitchPort> {
    let (Reading::Value(name), Reading::Value(netdevs)) = (&port.netdev, netdevs) else {
        return Reading::Absent;
    };
    let bond = netdevs.get(name).and_then(|netdev| netdev.bond.value());
    let cables: Vec<&String> = bond.map_or(vec![name], |bond| bond.members.iter().map(|m| &m.name).collect());
    let (mut switches, mut ports, mut failed) = (BTreeSet::new(), Vec::new(), None);
    for netdev in cables.into_iter().filter_map(|name| netdevs.get(name)) {
        match &netdev.lldp {
            Reading::Value(told) => {
                switches.extend(told.system.value().cloned());
                ports.extend(told.port.value().cloned());
            }
            Reading::Failed(why) => failed = Some(why.clone()),
            Reading::Absent => {}
        }
    }
    match (switches.is_empty(), failed) {
        (true, Some(why)) => Reading::Failed(why),
        (true, None) => Reading::Absent,
        (false, _) => Reading::Value(SwitchPort {
            switch: Vec::from_iter(switches).join("+"),
            port: (!ports.is_empty()).then(|| ports.join("+")),
        }),
    }
}

/// By the device's kind, then by the link layer; where that cannot be read, a port with a LID from a subnet manager is InfiniBand.
fn fabric_of(device: &Device, port: &Port) -> Fabric {
    match &port.link_layer {
        _ if is_iwarp(device) => Fabric::Iwarp,
        Reading::Value(LinkLayer::InfiniBand) => Fabric::InfiniBand,
        Reading::Value(LinkLayer::Ethernet) => Fabric::Roce,
        _ if port.lid.value().is_some_and(|lid| *lid != 0) => Fabric::InfiniBand,
        _ => Fabric::Roce,
    }
}

/// Why the port is known not to carry data. A state that cannot be read is no reason: the probe itself will find out.
fn down(port: &Port) -> Option<String> {
    match &port.state {
        Reading::Value(PortState::Active) | Reading::Absent | Reading::Failed(_) => None,
        Reading::Value(state) => {
            let physical = match &port.phys_state {
                Reading::Value(state) => state.as_str(),
                _ => "not known",
            };
            Some(format!("state {}, physical state {physical}", state.as_str()))
        }
    }
}

/// The subnet manager's GID is always in slot 0 (InfiniBand Architecture Specification, volume 1, 4.1.1).
fn infiniband_gid(port: &Port) -> Result<&GidEntry, String> {
    match &port.gids {
        Reading::Value(gids) => gids.iter().find(|entry| entry.index == 0).ok_or_else(|| {
            port.gids_unread.first().cloned().unwrap_or_else(|| "slot 0 of the GID table is empty".to_owned())
        }),
        Reading::Absent => Err("the port has no GID table".to_owned()),
        Reading::Failed(why) => Err(format!("the GID table could not be read: {why}")),
    }
}

/// iWARP runs over TCP, from the network device's own address; the only GID of a port is made from its MAC and leads nowhere. IPv4
/// before IPv6, the primary address before the others, and none that reaches one link or this machine only.
fn iwarp_address(netdevs: &Reading<BTreeMap<String, Netdev>>, port: &Port) -> Result<Gid, String> {
    let unread = |what: &str, why: Option<&str>| format!("{what}: {}", why.unwrap_or_default());
    let Reading::Value(name) = &port.netdev else {
        return Err(unread("the port's network device is not known", port.netdev.why_missing()));
    };
    let Reading::Value(netdevs) = netdevs else {
        return Err(unread("the network devices' addresses could not be read", netdevs.why_missing()));
    };
    let Some(netdev) = netdevs.get(name) else {
        return Err(format!("the network device {name} is not in this network namespace"));
    };
    let Reading::Value(addresses) = &netdev.addresses else {
        let what = format!("the addresses of {name} could not be read");
        return Err(unread(&what, netdev.addresses.why_missing()));
    };
    let usable = addresses.iter().map(|address| address.ip).filter(|ip| match ip {
        IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_loopback(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local() && !v6.is_loopback(),
    });
    usable.min_by_key(IpAddr::is_ipv6).map(Gid::from).ok_or_else(|| {
        let list: Vec<String> = addresses.iter().map(|address| address.ip.to_string()).collect();
        match list.is_empty() {
            true => format!("{name} has no IP address"),
            false => format!("{name} has no IP address that other hosts reach: it has {}", list.join(", ")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::snapshot::{gid, infiniband, netdev, roce};

    fn one(snapshot: &Snapshot) -> EndpointInfo {
        endpoints(snapshot, "node7", &[], &Manifest::default()).remove(0)
    }

    fn port(snapshot: &mut Snapshot) -> &mut Port {
        let Reading::Value(devices) = &mut snapshot.devices else { panic!("no devices") };
        &mut devices[0].ports[0]
    }

    fn addresses(snapshot: &mut Snapshot, name: &str, list: &[&str]) {
        let Reading::Value(netdevs) = &mut snapshot.netdevs else { panic!("no netdevs") };
        let found = netdevs.entry(name.to_owned()).or_insert_with(|| netdev(9, &[]));
        found.addresses = Reading::Value(list.iter().map(|ip| ip.parse().unwrap()).collect());
    }

    #[test]
    fn a_healthy_roce_port_is_usable_at_its_netdevs_address() {
        let seen = one(&roce(1));
        assert_eq!(seen.name.to_string(), "node7/mlx5_0/1");
        assert_eq!((seen.fabric, seen.gid), (Fabric::Roce, Some("::ffff:192.0.2.1".parse().unwrap())));
        assert_eq!(
            (seen.netdev.as_deref(), seen.netdev_mtu, seen.active_mtu),
            (Some("eth0"), Some(9000), Some(4096))
        );
        assert_eq!((seen.rate_bps, seen.unusable), (Some(100_000_000_000), None));
    }

    #[test]
    fn the_gid_is_chosen_by_address_whatever_its_slot() {
        let mut machine = roce(1);
        addresses(&mut machine, "eth0", &["2001:db8::5", "fe80::1", "198.51.100.9", "192.0.2.1"]);
        port(&mut machine).gids = Reading::Value(vec![
            gid(0, "fe80::1", "RoCE v2", "eth0"),
            gid(1, "::ffff:203.0.113.7", "RoCE v2", "eth0"),
            gid(2, "2001:db8::5", "RoCE v2", "eth0"),
            gid(3, "::ffff:192.0.2.1", "RoCE v2", "eth0"),
            gid(4, "::ffff:198.51.100.9", "IB/RoCE v1", "eth0"),
            gid(5, "::ffff:198.51.100.9", "RoCE v2", "eth0"),
        ]);
        assert_eq!(
            one(&machine).gid,
            Some("::ffff:198.51.100.9".parse().unwrap()),
            "the primary IPv4 address"
        );
        addresses(&mut machine, "eth0", &["fe80::1", "2001:db8::5"]);
        assert_eq!(one(&machine).gid, Some("2001:db8::5".parse().unwrap()), "IPv6 where there is no IPv4");
        addresses(&mut machine, "eth0", &["fe80::1"]);
        let seen = one(&machine);
        assert_eq!((seen.gid, seen.unusable), (None, Some(Cause::NoUsableGid)), "never a link-local one");
        assert!(seen.unusable_detail.contains("eth0") && seen.unusable_detail.contains("fe80::1"));
    }

    #[test]
    fn a_vlan_on_the_port_serves_when_the_port_itself_has_no_address() {
        let mut machine = roce(1);
        addresses(&mut machine, "eth0", &[]);
        addresses(&mut machine, "eth0.100", &["198.51.100.9"]);
        port(&mut machine).gids = Reading::Value(vec![
            gid(0, "fe80::1", "RoCE v2", "eth0"),
            gid(1, "::ffff:198.51.100.9", "RoCE v2", "eth0.100"),
        ]);
        let seen = one(&machine);
        assert_eq!((seen.netdev.as_deref(), seen.unusable), (Some("eth0.100"), None));
    }

    #[test]
    fn an_unusable_port_says_why() {
        let mut machine = roce(1);
        port(&mut machine).state = Reading::Value(PortState::Down);
        let seen = one(&machine);
        assert_eq!(seen.unusable, Some(Cause::PortDown));
        assert_eq!(seen.unusable_detail, "state DOWN, physical state LinkUp");

        let mut machine = roce(1);
        addresses(&mut machine, "eth0", &[]);
        let seen = one(&machine);
        assert_eq!(
            (seen.unusable, seen.unusable_detail.as_str()),
            (Some(Cause::NoUsableGid), "eth0 has no IP address")
        );

        let mut machine = roce(1);
        port(&mut machine).gids = Reading::Failed("EIO".into());
        assert_eq!(one(&machine).unusable_detail, "the GID table could not be read: EIO");

        let mut machine = roce(1);
        port(&mut machine).gids = Reading::Value(Vec::new());
        port(&mut machine).gids_unread = vec!["slot 3: EIO".into()];
        assert!(
            one(&machine).unusable_detail.ends_with("a part of the GID table could not be read: slot 3: EIO")
        );
    }

    #[test]
    fn a_state_that_cannot_be_read_is_left_to_the_probe() {
        let mut machine = roce(1);
        port(&mut machine).state = Reading::Failed("EINVAL".into());
        assert_eq!(one(&machine).unusable, None);
    }

    #[test]
    fn infiniband_uses_slot_zero() {
        let mut machine = infiniband(1);
        let seen = one(&machine);
        assert_eq!((seen.fabric, seen.unusable), (Fabric::InfiniBand, None));
        assert_eq!(seen.gid, Some("fe80::200:ff:fe00:1".parse().unwrap()));
        port(&mut machine).gids = Reading::Value(Vec::new());
        assert_eq!(one(&machine).unusable_detail, "slot 0 of the GID table is empty");
    }

    #[test]
    fn path_labels_go_by_the_driver() {
        let seen = |machine: &Snapshot| {
            let seen = one(machine);
            (seen.connections_labelled_by, seen.datagrams_labelled_by)
        };
        let mut machine = roce(1);
        assert_eq!(seen(&machine), (LabelBy::FlowLabel, LabelBy::FlowLabel), "mlx5");
        let with = |machine: &mut Snapshot, driver| {
            let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
            devices[0].driver = driver;
        };
        with(&mut machine, Reading::Absent);
        assert_eq!(seen(&machine), (LabelBy::FlowLabel, LabelBy::QueuePair), "rxe");
        for driver in [Reading::Value("bnxt_en".to_owned()), Reading::Failed("EIO".to_owned())] {
            with(&mut machine, driver);
            assert_eq!(seen(&machine), (LabelBy::Unknown, LabelBy::Unknown));
        }
        assert_eq!(seen(&infiniband(1)), (LabelBy::Nothing, LabelBy::Nothing));
    }

    #[test]
    fn iwarp_is_addressed_by_the_network_devices_ip() {
        let mut machine = roce(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].node_type = Reading::Value("RNIC".to_owned());
        // Its only GID is made from the MAC.
        port(&mut machine).gids = Reading::Value(vec![gid(0, "200:0:1::", "IB/RoCE v1", "")]);
        let seen = one(&machine);
        assert_eq!((seen.fabric, seen.unusable), (Fabric::Iwarp, None), "{}", seen.unusable_detail);
        assert_eq!(seen.gid, Some("::ffff:192.0.2.1".parse().unwrap()));
        assert_eq!((seen.netdev.as_deref(), seen.netdev_mtu), (Some("eth0"), Some(9000)));
        addresses(&mut machine, "eth0", &["fe80::1", "2001:db8::5", "169.254.0.1"]);
        assert_eq!(one(&machine).gid, Some("2001:db8::5".parse().unwrap()));
        addresses(&mut machine, "eth0", &["2001:db8::5", "198.51.100.9", "192.0.2.1"]);
        assert_eq!(
            one(&machine).gid,
            Some("::ffff:198.51.100.9".parse().unwrap()),
            "the primary IPv4 address"
        );
    }

    #[test]
    fn iwarp_without_an_address_says_why() {
        let mut machine = roce(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].node_type = Reading::Value("RNIC".to_owned());
        let mut seen = |list: &[&str]| {
            addresses(&mut machine, "eth0", list);
            let seen = one(&machine);
            assert_eq!((seen.gid, seen.unusable), (None, Some(Cause::NoUsableGid)));
            seen.unusable_detail
        };
        assert_eq!(seen(&[]), "eth0 has no IP address");
        assert_eq!(seen(&["fe80::1"]), "eth0 has no IP address that other hosts reach: it has fe80::1");
        port(&mut machine).netdev = Reading::Failed("EIO".into());
        assert_eq!(one(&machine).unusable_detail, "the port's network device is not known: EIO");
    }

    #[test]
    fn only_the_named_devices_count() {
        let machine = roce(3);
        let names: Vec<String> = endpoints(&machine, "n", &["mlx5_1".to_owned()], &Manifest::default())
            .into_iter()
            .map(|e| e.name.to_string())
            .collect();
        assert_eq!(names, ["n/mlx5_1/1"]);
        assert_eq!(endpoints(&machine, "n", &[], &Manifest::default()).len(), 3);
    }

    #[test]
    fn the_switch_port_is_what_the_switch_says_at_each_cable() {
        let says = |system: &str, port: &str| {
            Reading::Value(rdmascope_model::Lldp {
                system: Reading::Value(system.to_owned()),
                port: Reading::Value(port.to_owned()),
                frame_bytes_max: Reading::Absent,
                pfc: Reading::Absent,
                age_seconds: 9,
            })
        };
        let mut machine = roce(1);
        assert_eq!(one(&machine).switch_port, Reading::Absent, "nobody says anything");
        let netdevs = |machine: &mut Snapshot| match std::mem::replace(&mut machine.netdevs, Reading::Absent)
        {
            Reading::Value(netdevs) => netdevs,
            other => panic!("{other:?}"),
        };
        let mut there = netdevs(&mut machine);
        there.get_mut("eth0").unwrap().lldp = Reading::failed("EIO");
        machine.netdevs = Reading::Value(there.clone());
        assert_eq!(one(&machine).switch_port, Reading::failed("EIO"), "could not look is not: no switch");
        there.get_mut("eth0").unwrap().lldp = says("leaf1", "swp3");
        machine.netdevs = Reading::Value(there.clone());
        let at = |switch: &str, port: &str| {
            Reading::Value(SwitchPort { switch: switch.to_owned(), port: Some(port.to_owned()) })
        };
        assert_eq!(one(&machine).switch_port, at("leaf1", "swp3"));

        // The RDMA port stands on a bond whose cables end in two switches.
        let member = |name: &str| rdmascope_model::BondMember {
            name: name.to_owned(),
            mii_status: Reading::Absent,
            link_failures: Reading::Absent,
            aggregated: Reading::Absent,
        };
        for (name, switch, port) in [("p1", "leaf2", "swp7"), ("p0", "leaf1", "swp3")] {
            let cable = Netdev { lldp: says(switch, port), ..netdev(9, &[]) };
            there.insert(name.to_owned(), cable);
        }
        let bond = rdmascope_model::Bond { mode: Reading::Absent, members: vec![member("p0"), member("p1")] };
        there.get_mut("eth0").unwrap().bond = Reading::Value(bond);
        machine.netdevs = Reading::Value(there);
        assert_eq!(one(&machine).switch_port, at("leaf1+leaf2", "swp3+swp7"));
    }

    #[test]
    fn the_rail_is_the_manifests() {
        let row = rdmascope_checks::manifest::Expectation {
            device: "mlx5_1".to_owned(),
            rail: Some("rail-2".to_owned()),
            ..Default::default()
        };
        let seen = endpoints(&roce(2), "n", &[], &Manifest { rows: vec![row] });
        let rails: Vec<_> = seen.iter().map(|e| e.rail.as_deref()).collect();
        assert_eq!(rails, [None, Some("rail-2")]);
        assert!(seen.iter().all(|e| e.pci_address.is_some()));
    }
}
