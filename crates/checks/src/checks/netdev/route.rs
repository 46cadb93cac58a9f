//! Does any route lead over an RDMA network device?

use crate::check::{Check, Look, Settles};
use crate::finding::{is_down, ok, unknown, why};
use crate::verdict::Verdict;
use crate::wires::each_netdev;
use rdmascope_model::{Address, Finding, Reading, Route};

const ID: &str = "route";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Does a route lead over each RDMA network device?",
    meaning: "The kernel resolves each RDMA connection by its routes: without one, connecting fails with \"Network is unreachable\".",
    causes: &[
        "the address was set with a length of 32 and no route",
        "a network manager or another routing daemon took the route away",
    ],
    next_steps: &[
        "`ip route show table all dev NETDEV`; `ip route get PEER from ADDRESS oif NETDEV`; add the rail's route or mend the prefix length.",
    ],
    settles: Settles::AfterDebounce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let routes = &look.now.routing.routes;
    each_netdev(look, ID, "the routes", |wire| {
        let (name, netdev, subject) = (wire.name, wire.netdev, wire.subject());
        // The kernel takes the routes of a device that is down away, and the link is a finding already.
        if is_down(wire.port) {
            return None;
        }
        // Without a routable address there is no GID either, and that is another finding.
        let addresses = match &netdev.addresses {
            Reading::Value(all) => all.iter().filter(|a| !link_local(a)).collect::<Vec<_>>(),
            Reading::Absent => return None,
            failed => return Some(unknown(ID, subject, "the addresses", why(failed))),
        };
        if addresses.is_empty() {
            return None;
        }
        let routes: Vec<&Route> = match routes {
            Reading::Value(all) => {
                all.iter().filter(|route| route.netdev == name && routable(route)).collect()
            }
            Reading::Absent => Vec::new(),
            failed => return Some(unknown(ID, subject, "the routes", why(failed))),
        };
        let mut evidence: Vec<String> = addresses.iter().map(|a| format!("address = {a}")).collect();
        evidence.extend(routes.iter().map(|route| told(route)));
        if routes.is_empty() {
            let verdict = Verdict::fail(
                format!("no route leads over {name}"),
                "a setting of this host: the prefix length is wrong, or the route was never made",
                format!(
                    "`ip route show table all dev {name}`; `ip route get PEER from {} oif {name}`; add the rail's route.",
                    addresses[0].ip
                ),
            );
            return Some(verdict.finding(ID, subject, evidence));
        }
        let far = routes.iter().any(|route| route.gateway.is_some());
        let summary = if far {
            "routes lead to its own subnet and beyond"
        } else {
            "a route leads to its own subnet; there is no gateway to others"
        };
        Some(Finding { evidence, ..ok(ID, subject, summary.to_owned()) })
    })
}

fn link_local(address: &Address) -> bool {
    match address.ip {
        std::net::IpAddr::V4(ip) => ip.is_link_local(),
        std::net::IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn routable(route: &Route) -> bool {
    route.to.as_ref().is_none_or(|to| !link_local(to))
}

fn told(route: &Route) -> String {
    let to = route.to.map_or("default".to_owned(), |to| to.to_string());
    let via = route.gateway.map_or(String::new(), |gateway| format!(" via {gateway}"));
    format!("route = {to}{via} table {}", route.table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{device, eth0, first};
    use rdmascope_model::{PortState, Status};

    #[test]
    fn c015_no_route_over_the_device() {
        let found = first(&CHECK, |m| m.routing.routes = Reading::Value(Vec::new())).remove(0);
        assert_eq!(found.status, Status::Fail);
        assert!(found.next_step.contains("ip route get PEER from 192.0.2.1 oif eth0"), "{}", found.next_step);
        assert_eq!(first(&CHECK, |_| ())[0].status, Status::Ok);
    }

    #[test]
    fn the_kernels_own_link_local_route_leads_nowhere() {
        let found = first(&CHECK, |m| {
            let to = Some("fe80::/64".parse().unwrap());
            m.routing.routes =
                Reading::Value(vec![Route { to, netdev: "eth0".into(), table: 254, gateway: None }]);
        });
        assert_eq!(found[0].status, Status::Fail);
        assert!(first(&CHECK, |m| eth0(m).addresses = Reading::Value(Vec::new())).is_empty());
        assert_eq!(first(&CHECK, |m| m.routing.routes = Reading::failed("EPERM"))[0].status, Status::Unknown);
    }

    #[test]
    fn a_port_that_is_down_explains_itself() {
        let found = first(&CHECK, |m| {
            m.routing.routes = Reading::Value(Vec::new());
            device(m).ports[0].state = Reading::Value(PortState::Down);
        });
        assert!(found.is_empty(), "{found:?}");
    }
}
