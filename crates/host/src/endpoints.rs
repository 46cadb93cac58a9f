//! From readings to endpoints: which ports can be probed, at which address; pure.

use rdmascope_checks::{is_iwarp, usable_gid};
use rdmascope_model::{
    Cause, Device, EndpointInfo, EndpointName, Fabric, GidEntry, LabelBy, LinkLayer, Netdev, Port, PortState,
    Reading, Snapshot,
};
use std::collections::BTreeMap;

/// Every port of the machine as an endpoint of `node`, usable or not; `only` names the devices that count, empty means all.
#[must_use]
pub fn endpoints(snapshot: &Snapshot, node: &str, only: &[String]) -> Vec<EndpointInfo> {
    let devices = snapshot.devices.value().into_iter().flatten();
    devices
        .filter(|device| only.is_empty() || only.contains(&device.name))
        .flat_map(|device| device.ports.iter().map(move |port| (device, port)))
        .map(|(device, port)| endpoint(&snapshot.netdevs, node, device, port))
        .collect()
}

fn endpoint(
    netdevs: &Reading<BTreeMap<String, Netdev>>,
    node: &str,
    device: &Device,
    port: &Port,
) -> EndpointInfo {
    let fabric = fabric_of(port);
    let chosen = match fabric {
        Fabric::InfiniBand => infiniband_gid(port),
        _ => roce_gid(netdevs, device, port),
    };
    let netdev = match (&chosen, fabric) {
        (Ok(entry), Fabric::Roce) => entry.netdev.value().or(port.netdev.value()),
        _ => port.netdev.value(),
    };
    let netdev_mtu = netdev
        .zip(netdevs.value())
        .and_then(|(name, netdevs)| netdevs.get(name))
        .and_then(|found| found.mtu.value());
    let (unusable, unusable_detail) = match (down(port), &chosen) {
        (Some(detail), _) => (Some(Cause::PortDown), detail),
        (None, Err(detail)) => (Some(Cause::NoUsableGid), detail.clone()),
        (None, Ok(_)) => (None, String::new()),
    };
    EndpointInfo {
        name: EndpointName { node: node.to_owned(), device: device.name.clone(), port: port.number },
        fabric,
        gid: chosen.ok().map(|entry| entry.gid),
        netdev: netdev.cloned(),
        netdev_mtu: netdev_mtu.copied(),
        active_mtu: port.active_mtu.value().copied(),
        rate_bps: port.rate_bps.value().copied(),
        // The mesh tells where they go, once it is open.
        datagrams: None,
        connections_labelled_by: LabelBy::Unknown,
        datagrams_labelled_by: LabelBy::Unknown,
        unusable,
        unusable_detail,
    }
}

/// By the link layer; where that cannot be read, a port with a LID from a subnet manager is InfiniBand.
fn fabric_of(port: &Port) -> Fabric {
    match &port.link_layer {
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

/// As the check of GIDs has it; iWARP devices are not probed.
fn roce_gid<'a>(
    netdevs: &Reading<BTreeMap<String, Netdev>>,
    device: &Device,
    port: &'a Port,
) -> Result<&'a GidEntry, String> {
    if is_iwarp(device) {
        return Err("an iWARP device: it is not probed".to_owned());
    }
    usable_gid(netdevs, port).map_err(|none| none.words().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::snapshot::{gid, infiniband, netdev, roce};

    fn one(snapshot: &Snapshot) -> EndpointInfo {
        endpoints(snapshot, "node7", &[]).remove(0)
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
    fn only_the_named_devices_count() {
        let machine = roce(3);
        let names: Vec<String> = endpoints(&machine, "n", &["mlx5_1".to_owned()])
            .into_iter()
            .map(|e| e.name.to_string())
            .collect();
        assert_eq!(names, ["n/mlx5_1/1"]);
        assert_eq!(endpoints(&machine, "n", &[]).len(), 3);
    }
}
