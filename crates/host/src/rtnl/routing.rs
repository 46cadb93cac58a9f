//! Routes, policy rules and unresolved neighbours by rtnetlink.

use super::{DUMP_DEADLINE, connect, link, links, too_late};
use crate::routing::{LOCAL_TABLE, is_kernels_own};
use futures_util::{Stream, TryStreamExt as _};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteType, RouteVia,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use rdmascope_model::{Address, Neighbour, Reading, Route, Routing};
use rtnetlink::IpVersion;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Most entries of one list that are read. A node of a cluster has tens; one with a full Internet table is no such node, and its
/// million routes would cost every look a second.
const ENTRIES_MAX: usize = 10_000;

pub(crate) type Names = BTreeMap<u32, String>;

/// Where packets go, in the network namespace that we run in.
pub(crate) async fn routing() -> Routing {
    let (handle, _served) = match connect() {
        Ok(connected) => connected,
        Err(why) => return Routing::unread(&why),
    };
    let all = async {
        let names = link::names(&links(&handle).await?);
        let all_families = RouteMessage::default();
        let found = all_of("routes", handle.route().get(all_families).execute()).await;
        let mut rules = handle.rule().get(IpVersion::V4);
        // One request for both: the kernel refuses a family that is switched off, but not all families.
        rules.message_mut().header.family = AddressFamily::Unspec;
        let rules = all_of("policy rules", rules.execute()).await;
        let neighbours = all_of("neighbours", handle.neighbours().get().execute()).await;
        Ok::<_, String>(Routing {
            routes: found.map(|found| found.iter().flat_map(|message| routes(message, &names)).collect()),
            own_rules: rules.map(|rules| own_rules(&rules)),
            unresolved: neighbours
                .map(|found| found.iter().filter_map(|message| unresolved(message, &names)).collect()),
        })
    };
    match tokio::time::timeout(DUMP_DEADLINE, all).await {
        Ok(Ok(routing)) => routing,
        Ok(Err(why)) => Routing::unread(&why),
        Err(_) => Routing::unread(&too_late()),
    }
}

async fn all_of<T>(what: &str, answers: impl Stream<Item = Result<T, rtnetlink::Error>>) -> Reading<Vec<T>> {
    let mut answers = std::pin::pin!(answers);
    let mut found = Vec::new();
    loop {
        match answers.try_next().await {
            Ok(Some(one)) if found.len() < ENTRIES_MAX => found.push(one),
            Ok(Some(_)) => return Reading::Failed(format!("there are more than {ENTRIES_MAX} {what}")),
            Ok(None) => return Reading::Value(found),
            Err(e) => return Reading::Failed(format!("asking rtnetlink for the {what}: {e}")),
        }
    }
}

fn of_ip(family: AddressFamily) -> bool {
    matches!(family, AddressFamily::Inet | AddressFamily::Inet6)
}

fn name_of(names: &Names, index: u32) -> String {
    names.get(&index).cloned().unwrap_or_else(|| format!("index {index}"))
}

/// The unicast routes of one message: one for each next hop. The table `local` has our own addresses only.
pub(crate) fn routes(message: &RouteMessage, names: &Names) -> Vec<Route> {
    let mut table = u32::from(message.header.table);
    let (mut to, mut hops, mut gateway, mut netdev) = (None, Vec::new(), None, None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Destination(address) => {
                to = ip(address).map(|ip| Address { ip, prefix: message.header.destination_prefix_length });
            }
            RouteAttribute::Gateway(address) => gateway = ip(address),
            RouteAttribute::Via(via) => gateway = via_ip(via),
            RouteAttribute::Oif(index) => netdev = Some(name_of(names, *index)),
            RouteAttribute::MultiPath(paths) => {
                for path in paths {
                    let gateway = path.attributes.iter().find_map(|attribute| match attribute {
                        RouteAttribute::Gateway(address) => ip(address),
                        RouteAttribute::Via(via) => via_ip(via),
                        _ => None,
                    });
                    hops.push((name_of(names, path.interface_index), gateway));
                }
            }
            _ => {}
        }
    }
    let cached = message.header.flags.contains(RouteFlags::Cloned);
    if message.header.kind != RouteType::Unicast
        || table == LOCAL_TABLE
        || cached
        || !of_ip(message.header.address_family)
    {
        return Vec::new();
    }
    hops.extend(netdev.map(|netdev| (netdev, gateway)));
    hops.into_iter().map(|(netdev, gateway)| Route { to, netdev, table, gateway }).collect()
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

fn via_ip(via: &RouteVia) -> Option<IpAddr> {
    match via {
        RouteVia::Inet(ip) => Some((*ip).into()),
        RouteVia::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

pub(crate) fn own_rules(rules: &[RuleMessage]) -> u32 {
    let own = rules.iter().filter(|rule| of_ip(rule.header.family) && !is_kernels(rule)).count();
    u32::try_from(own).unwrap_or(u32::MAX)
}

/// One of the rules that the kernel makes: it selects by nothing and leads to a fixed table at a fixed place.
fn is_kernels(rule: &RuleMessage) -> bool {
    let (mut priority, mut table, mut selects) = (0, u32::from(rule.header.table), false);
    for attribute in &rule.attributes {
        match attribute {
            RuleAttribute::Priority(number) => priority = *number,
            RuleAttribute::Table(number) => table = *number,
            RuleAttribute::Source(_)
            | RuleAttribute::Destination(_)
            | RuleAttribute::Iifname(_)
            | RuleAttribute::Oifname(_)
            | RuleAttribute::FwMark(1..)
            | RuleAttribute::UidRange(_)
            | RuleAttribute::L3MDev(true)
            | RuleAttribute::IpProtocol(_)
            | RuleAttribute::SourcePortRange(_)
            | RuleAttribute::DestinationPortRange(_) => selects = true,
            _ => {}
        }
    }
    let header = &rule.header;
    let bare = !selects && header.src_len == 0 && header.dst_len == 0 && header.tos == 0;
    bare && header.action == RuleAction::ToTable && is_kernels_own(priority, table)
}

pub(crate) fn unresolved(message: &NeighbourMessage, names: &Names) -> Option<Neighbour> {
    let state = match message.header.state {
        NeighbourState::Failed => "FAILED",
        NeighbourState::Incomplete => "INCOMPLETE",
        _ => return None,
    };
    let ip = message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => Some(IpAddr::from(*ip)),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => Some(IpAddr::from(*ip)),
        _ => None,
    })?;
    Some(Neighbour { ip, netdev: name_of(names, message.header.ifindex), state: state.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unicast_routes_outside_the_local_table_count() {
        let names = Names::from([(2, "eth0".to_owned())]);
        let message = |table: u8, kind: RouteType, family: AddressFamily| {
            let mut message = RouteMessage::default();
            message.header.table = table;
            message.header.kind = kind;
            message.header.address_family = family;
            message.attributes = vec![RouteAttribute::Oif(2)];
            routes(&message, &names).len()
        };
        assert_eq!(message(254, RouteType::Unicast, AddressFamily::Inet), 1);
        assert_eq!(message(101, RouteType::Unicast, AddressFamily::Inet6), 1);
        // Older kernels have ff00::/8 of every device as a unicast route in there.
        assert_eq!(message(255, RouteType::Unicast, AddressFamily::Inet6), 0);
        assert_eq!(message(254, RouteType::BlackHole, AddressFamily::Inet), 0);
        // RTNL_FAMILY_IPMR: multicast forwarding answers the question for all families too.
        assert_eq!(message(254, RouteType::Unicast, AddressFamily::from(128)), 0);
        let mut cached = RouteMessage::default();
        cached.header.kind = RouteType::Unicast;
        cached.header.address_family = AddressFamily::Inet;
        cached.header.flags = RouteFlags::Cloned;
        cached.attributes = vec![RouteAttribute::Oif(2), RouteAttribute::Table(254)];
        assert_eq!(routes(&cached, &names), []);
        cached.header.flags = RouteFlags::empty();
        let expected = Route { to: None, netdev: "eth0".to_owned(), table: 254, gateway: None };
        assert_eq!(routes(&cached, &names), [expected]);
    }
}
