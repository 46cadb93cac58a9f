//! Do the peers and gateways of an RDMA network device answer at the link layer?

use crate::check::{Check, Look, Settles};
use crate::finding::{is_down, ok, unknown, why};
use crate::verdict::Verdict;
use crate::wires::each_netdev;
use rdmascope_model::{Finding, Neighbour, Reading};

const ID: &str = "neighbours";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Do the peers and gateways of an RDMA network device answer at the link layer?",
    meaning: "An address without a MAC address cannot be reached: connections to it fail before the first RDMA packet.",
    causes: &[
        "the peer is off, or in another VLAN",
        "the gateway's address is wrong, or the switch is not set up",
    ],
    next_steps: &["`ip neigh show dev NETDEV`; `arping -I NETDEV ADDRESS`; the VLAN of the switch port."],
    settles: Settles::AfterDebounce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let routing = &look.now.routing;
    each_netdev(look, ID, "the neighbours", |wire| {
        let (name, subject) = (wire.name, wire.subject());
        // Behind a link that is down nobody answers, and the link is a finding already.
        if is_down(wire.port) {
            return None;
        }
        let all = match &routing.unresolved {
            Reading::Value(all) => all,
            Reading::Absent => return None,
            failed => return Some(unknown(ID, subject, "the neighbours", why(failed))),
        };
        // INCOMPLETE is a question on its way; FAILED has no answer.
        let silent: Vec<&Neighbour> =
            all.iter().filter(|n| n.netdev == name && n.state == "FAILED").collect();
        let Some(first) = silent.first() else {
            return Some(ok(ID, subject, "all neighbours answer".to_owned()));
        };
        let gateway = |n: &&&Neighbour| {
            routing
                .routes
                .value()
                .into_iter()
                .flatten()
                .any(|route| route.netdev == name && route.gateway == Some(n.ip))
        };
        let evidence = silent.iter().map(|n| format!("neighbour {} = {}", n.ip, n.state)).collect();
        let verdict = match silent.iter().find(gateway) {
            Some(gateway) => Verdict::warn(
                format!("the gateway {} of {name} does not answer", gateway.ip),
                "a setting of this host (address, VLAN) or the switch that should be the gateway",
                format!(
                    "`ip route show dev {name}`; `arping -I {name} {}`; VLAN and address of the switch port.",
                    gateway.ip
                ),
            ),
            None => Verdict::warn(
                format!("{} peers of {name} do not answer, such as {}", silent.len(), first.ip),
                "the peers: off, in another VLAN, or their port is down",
                format!("`arping -I {name} {}`; `rdmascope check` at that peer.", first.ip),
            ),
        };
        Some(verdict.finding(ID, subject, evidence))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{device, first};
    use rdmascope_model::{PortState, Route, Snapshot, Status};

    fn silent(m: &mut Snapshot, state: &str, netdev: &str) {
        let ip = "192.0.2.254".parse().unwrap();
        m.routing.unresolved =
            Reading::Value(vec![Neighbour { ip, netdev: netdev.into(), state: state.into() }]);
    }

    #[test]
    fn peers_and_gateways() {
        let found = first(&CHECK, |m| silent(m, "FAILED", "eth0")).remove(0);
        assert_eq!(found.status, Status::Warn);
        assert!(found.cause.starts_with("the peers"));
        let found = first(&CHECK, |m| {
            silent(m, "FAILED", "eth0");
            let gateway = Some("192.0.2.254".parse().unwrap());
            m.routing.routes =
                Reading::Value(vec![Route { to: None, netdev: "eth0".into(), table: 254, gateway }]);
        });
        assert!(found[0].summary.starts_with("the gateway 192.0.2.254"), "{}", found[0].summary);
    }

    #[test]
    fn questions_on_their_way_and_other_devices_are_no_finding() {
        assert_eq!(first(&CHECK, |m| silent(m, "INCOMPLETE", "eth0"))[0].status, Status::Ok);
        assert_eq!(first(&CHECK, |m| silent(m, "FAILED", "docker0"))[0].status, Status::Ok);
        assert_eq!(
            first(&CHECK, |m| m.routing.unresolved = Reading::failed("EPERM"))[0].status,
            Status::Unknown
        );
    }

    #[test]
    fn a_port_that_is_down_explains_itself() {
        let found = first(&CHECK, |m| {
            silent(m, "FAILED", "eth0");
            device(m).ports[0].state = Reading::Value(PortState::Down);
        });
        assert!(found.is_empty(), "{found:?}");
    }
}
