//! What one rtnetlink message of a link says of its network device.

use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State};
use rdmascope_model::{Address, Netdev, Reading};
use std::collections::BTreeMap;

/// Kinds whose `IFLA_LINK` is the other end of a pair.
pub(crate) const PAIRS: [&str; 3] = ["veth", "netkit", "vxcan"];

/// The network devices by name.
pub(crate) fn joined(
    links: &[LinkMessage],
    addresses: Result<Vec<AddressMessage>, String>,
) -> BTreeMap<String, Netdev> {
    let mut by_index: BTreeMap<u32, Vec<Address>> = BTreeMap::new();
    for message in addresses.iter().flatten() {
        if let Some(ip) = address_of(message) {
            by_index.entry(message.header.index).or_default().push(ip);
        }
    }
    let failed = addresses.err().map(|e| format!("asking rtnetlink for the addresses: {e}"));
    let names = names(links);
    let one = |link: &LinkMessage| {
        let found = match &failed {
            Some(why) => Reading::Failed(why.clone()),
            None => Reading::Value(by_index.remove(&link.header.index).unwrap_or_default()),
        };
        Some((name(link)?, netdev(link, &names, found)))
    };
    links.iter().filter_map(one).collect()
}

/// Names of the network devices by kernel index.
pub(crate) fn names(links: &[LinkMessage]) -> BTreeMap<u32, String> {
    links.iter().filter_map(|link| Some((link.header.index, name(link)?))).collect()
}

/// The address of the device itself. On a point-to-point link `IFA_ADDRESS` is the peer's and `IFA_LOCAL` ours. An address whose
/// duplicate detection failed or is not over cannot be used.
fn address_of(message: &AddressMessage) -> Option<Address> {
    let unusable = AddressHeaderFlags::Dadfailed | AddressHeaderFlags::Tentative;
    let optimistic = message.header.flags.contains(AddressHeaderFlags::Optimistic);
    if message.header.flags.intersects(unusable) && !optimistic {
        return None;
    }
    let local = message.attributes.iter().find_map(|a| match a {
        AddressAttribute::Local(ip) => Some(*ip),
        _ => None,
    });
    let ip = local.or_else(|| {
        message.attributes.iter().find_map(|a| match a {
            AddressAttribute::Address(ip) => Some(*ip),
            _ => None,
        })
    })?;
    Some(Address { ip, prefix: message.header.prefix_len })
}

pub(super) fn name(link: &LinkMessage) -> Option<String> {
    link.attributes.iter().find_map(|a| match a {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    })
}

fn netdev(link: &LinkMessage, names: &BTreeMap<u32, String>, addresses: Reading<Vec<Address>>) -> Netdev {
    let mut netdev = Netdev {
        index: Reading::Value(link.header.index),
        mtu: Reading::Absent,
        oper_state: Reading::Absent,
        admin_up: Reading::Value(link.header.flags.contains(LinkFlags::Up)),
        carrier: Reading::Value(link.header.flags.contains(LinkFlags::LowerUp)),
        carrier_changes: Reading::Absent,
        carrier_down_count: Reading::Absent,
        tx_bytes: Reading::Absent,
        rx_bytes: Reading::Absent,
        addresses,
        hardware: Reading::Value(u16::from(link.header.link_layer_type)),
        kind: Reading::Absent,
        master: Reading::Absent,
        parent: Reading::Absent,
        phys_port_name: Reading::Absent,
        ..Netdev::unread(crate::rdma::NOT_YET)
    };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::Mtu(mtu) => netdev.mtu = Reading::Value(*mtu),
            LinkAttribute::OperState(state) => netdev.oper_state = oper_state(*state),
            LinkAttribute::CarrierChanges(n) => netdev.carrier_changes = Reading::Value(*n),
            LinkAttribute::CarrierDownCount(n) => netdev.carrier_down_count = Reading::Value(*n),
            LinkAttribute::Stats64(stats) => {
                netdev.tx_bytes = Reading::Value(stats.tx_bytes);
                netdev.rx_bytes = Reading::Value(stats.rx_bytes);
            }
            LinkAttribute::PhysPortName(name) => netdev.phys_port_name = Reading::Value(name.clone()),
            LinkAttribute::Controller(0) => {}
            LinkAttribute::Controller(index) => netdev.master = named(names, *index),
            _ => {}
        }
    }
    netdev.kind = kind(link);
    netdev.parent = parent(link, &netdev.kind, names);
    netdev
}

fn named(names: &BTreeMap<u32, String>, index: u32) -> Reading<String> {
    names.get(&index).cloned().map_or_else(
        || Reading::Failed(format!("rtnetlink lists no network device with the index {index}")),
        Reading::Value,
    )
}

fn kind(link: &LinkMessage) -> Reading<String> {
    let infos = link.attributes.iter().filter_map(|attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => Some(infos),
        _ => None,
    });
    let kind = infos.flatten().find_map(|info| match info {
        LinkInfo::Kind(kind) => Some(kind.to_string()),
        _ => None,
    });
    kind.map_or(Reading::Absent, Reading::Value)
}

/// `IFLA_LINK`: the device underneath. On a veth it is the other end of the pair, which nothing is stacked on, and a device that
/// stands on nothing names itself.
fn parent(link: &LinkMessage, kind: &Reading<String>, names: &BTreeMap<u32, String>) -> Reading<String> {
    if kind.value().is_some_and(|kind| PAIRS.contains(&kind.as_str())) {
        return Reading::Absent;
    }
    let below = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Link(index) => Some(*index),
        _ => None,
    });
    let elsewhere =
        link.attributes.iter().any(|attribute| matches!(attribute, LinkAttribute::LinkNetNsId(_)));
    match below {
        None | Some(0) => Reading::Absent,
        Some(index) if elsewhere => Reading::Failed(format!(
            "the device underneath has the index {index} in another network namespace, where it cannot be looked at"
        )),
        Some(index) if index == link.header.index => Reading::Absent,
        Some(index) => named(names, index),
    }
}

/// The words of `/sys/class/net/NAME/operstate`.
fn oper_state(state: State) -> Reading<String> {
    let word = match state {
        State::Unknown => "unknown",
        State::NotPresent => "notpresent",
        State::Down => "down",
        State::LowerLayerDown => "lowerlayerdown",
        State::Testing => "testing",
        State::Dormant => "dormant",
        State::Up => "up",
        other => return Reading::Failed(format!("unknown operational state {}", u8::from(other))),
    };
    Reading::Value(word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_route::link::InfoKind;

    fn message(index: u32, name: &str, more: &[LinkAttribute]) -> LinkMessage {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes = [&[LinkAttribute::IfName(name.to_owned())], more].concat();
        link
    }

    fn made(kind: InfoKind, below: u32) -> [LinkAttribute; 2] {
        [LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)]), LinkAttribute::Link(below)]
    }

    #[test]
    fn a_vlan_on_a_bond_of_real_ports_is_followed_by_name() {
        let port = |index, name| {
            message(
                index,
                name,
                &[LinkAttribute::Controller(4), LinkAttribute::PhysPortName(format!("p{}", index - 2))],
            )
        };
        let links = [
            port(2, "eth0"),
            port(3, "eth1"),
            message(4, "bond0", &[LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bond)])]),
            message(5, "bond0.100", &made(InfoKind::Vlan, 4)),
            message(6, "lost", &made(InfoKind::Other("new".to_owned()), 99)),
            // Devices over tunnels name themselves or nothing.
            message(7, "self", &made(InfoKind::Vxlan, 7)),
            message(8, "none", &made(InfoKind::Vxlan, 0)),
        ];
        let all = joined(&links, Ok(Vec::new()));
        let value = |text: &str| Reading::Value(text.to_owned());
        assert_eq!((&all["eth1"].master, &all["eth1"].phys_port_name), (&value("bond0"), &value("p1")));
        assert_eq!((&all["eth1"].kind, &all["eth1"].parent), (&Reading::Absent, &Reading::Absent));
        assert_eq!((&all["bond0"].kind, &all["bond0"].parent), (&value("bond"), &Reading::Absent));
        assert_eq!((&all["bond0.100"].kind, &all["bond0.100"].parent), (&value("vlan"), &value("bond0")));
        assert_eq!(all["lost"].kind, value("new"));
        assert!(matches!(&all["lost"].parent, Reading::Failed(why) if why.contains("99")));
        assert_eq!((&all["self"].parent, &all["none"].parent), (&Reading::Absent, &Reading::Absent));
    }
}
