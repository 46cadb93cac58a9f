//! Do two RDMA network devices of this host share a subnet without the settings that this needs?

use crate::check::{Check, Look, Settles};
use crate::finding::{netdev_under, ok, unknown, why};
use crate::verdict::{Verdict, shown};
use crate::wires::{each_netdev, roce_ports};
use rdmascope_model::{Address, Finding, Netdev, Reading};
use std::net::IpAddr;

const ID: &str = "multi-nic-subnet";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Do several RDMA network devices of this host share a subnet, and can the kernel keep them apart?",
    meaning: "Linux answers ARP for any of its addresses on any device and routes by subnet: packets leave or arrive at the wrong adapter, and some pairs time out.",
    causes: &[
        "rails in one flat subnet without arp_ignore, arp_announce and a routing rule for each address",
    ],
    next_steps: &[
        "Best: one subnet for each rail.",
        "`sysctl -w net.ipv4.conf.NETDEV.arp_ignore=1 net.ipv4.conf.NETDEV.arp_announce=2` and a rule for each address: `ip rule add from ADDRESS table N`.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let rails: Vec<(&str, &Netdev)> =
        roce_ports(look).filter_map(|(_, port)| netdev_under(look.now, port).ok()).collect();
    each_netdev(look, ID, "the network device's addresses", |wire| {
        Some(one(look, &rails, wire.name, wire.netdev))
    })
}

/// First address of an IPv4 network, and its length.
fn network(address: &Address) -> Option<(u32, u8)> {
    let IpAddr::V4(ip) = address.ip else { return None };
    let mask = u32::MAX.checked_shl(32 - u32::from(address.prefix)).unwrap_or(0);
    (address.prefix < 32).then_some((u32::from(ip) & mask, address.prefix))
}

fn networks(netdev: &Netdev) -> Vec<(u32, u8)> {
    netdev.addresses.value().into_iter().flatten().filter_map(network).collect()
}

fn one(look: &Look<'_>, rails: &[(&str, &Netdev)], name: &str, netdev: &Netdev) -> Finding {
    let subject = format!("netdev {name}");
    if let Reading::Failed(why) = &netdev.addresses {
        return unknown(ID, subject, "the addresses", why);
    }
    let own = networks(netdev);
    let beside: Vec<&str> = rails
        .iter()
        .filter(|(other, theirs)| *other != name && networks(theirs).iter().any(|n| own.contains(n)))
        .map(|(other, _)| *other)
        .collect();
    if beside.is_empty() {
        return ok(ID, subject, "no other RDMA device of this host is in its subnet".to_owned());
    }
    let rules = &look.now.routing.own_rules;
    for (what, failed) in [
        ("arp_ignore", &netdev.arp_ignore),
        ("arp_announce", &netdev.arp_announce),
        ("the policy rules", rules),
    ] {
        if let Reading::Failed(_) = failed {
            return unknown(ID, subject, what, why(failed));
        }
    }
    let evidence = vec![
        shown("arp_ignore", &netdev.arp_ignore),
        shown("arp_announce", &netdev.arp_announce),
        shown("policy rules", rules),
        format!("same subnet = {}", beside.join(", ")),
    ];
    let ignores = matches!(netdev.arp_ignore.value(), Some(1 | 2));
    let announces = netdev.arp_announce.value() == Some(&2);
    let ruled = rules.value().is_some_and(|rules| *rules > 0);
    if ignores && announces && ruled {
        let summary =
            format!("shares its subnet with {}, and ARP and policy rules keep them apart", beside.join(", "));
        return Finding { evidence, ..ok(ID, subject, summary) };
    }
    let missing: Vec<&str> =
        [(ignores, "arp_ignore=1"), (announces, "arp_announce=2"), (ruled, "policy rules")]
            .into_iter()
            .filter_map(|(there, what)| (!there).then_some(what))
            .collect();
    let verdict = Verdict::fail(
        format!("{name} shares its subnet with {} without {}", beside.join(", "), missing.join(", ")),
        "a setting of this host: replies and ARP leave through the wrong adapter, and some pairs time out",
        format!(
            "One subnet for each rail; or `sysctl -w net.ipv4.conf.{name}.arp_ignore=1 net.ipv4.conf.{name}.arp_announce=2`, and \
             `ip rule add from ADDRESS table N; ip route add SUBNET dev {name} table N` for each device."
        ),
    );
    verdict.finding(ID, subject, evidence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::testing::netdev;
    use rdmascope_fixtures::snapshot::roce;
    use rdmascope_model::{Snapshot, Status};

    fn judged(edit: impl Fn(&mut Snapshot)) -> Vec<Status> {
        let mut machine = roce(2);
        edit(&mut machine);
        judge(&Look::first(&machine, &Policy::default())).iter().map(|f| f.status).collect()
    }

    #[test]
    fn c017_two_subnets_are_two_fabrics_and_no_fault() {
        let seen = judged(|m| {
            netdev(m, "eth1").addresses = Reading::Value(vec!["198.51.100.1/24".parse().unwrap()]);
            netdev(m, "eth0").arp_ignore = Reading::Value(0);
            m.routing.own_rules = Reading::Value(0);
        });
        assert_eq!(seen, [Status::Ok, Status::Ok]);
    }

    #[test]
    fn c018_two_devices_in_one_subnet_without_rules() {
        let bare = |m: &mut Snapshot| {
            for name in ["eth0", "eth1"] {
                netdev(m, name).arp_ignore = Reading::Value(0);
                netdev(m, name).arp_announce = Reading::Value(0);
            }
            m.routing.own_rules = Reading::Value(0);
        };
        assert_eq!(judged(bare), [Status::Fail, Status::Fail]);
        assert_eq!(judged(|_| ()), [Status::Ok, Status::Ok]);
        assert_eq!(
            judged(|m| netdev(m, "eth1").arp_announce = Reading::Value(0)),
            [Status::Ok, Status::Fail]
        );
        assert_eq!(judged(|m| m.routing.own_rules = Reading::failed("EPERM"))[0], Status::Unknown);
    }

    #[test]
    fn networks_are_compared_with_their_length() {
        let network = |text: &str| network(&text.parse().unwrap());
        assert_eq!(network("192.0.2.1/24"), network("192.0.2.200/24"));
        assert_ne!(network("192.0.2.1/24"), network("192.0.2.1/25"));
        assert_eq!((network("192.0.2.1/32"), network("fe80::1/64")), (None, None));
        assert_eq!(network("192.0.2.1/0"), Some((0, 0)));
    }
}
