//! Do the MTUs of stacked devices fit: VLAN and macvlan on their parent, members in their bond?

use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use crate::verdict::Verdict;
use crate::wires::each_netdev;
use rdmascope_model::{Finding, Netdev, Reading};
use std::collections::BTreeMap;

const ID: &str = "child-mtu";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Do the MTUs of stacked network devices fit?",
    meaning: "A VLAN or macvlan cannot send more than its parent, and a bond no more than its smallest member: large frames are lost, or the pod does not start.",
    causes: &["the MTU was raised above and not below, or a driver reload set one of them back"],
    next_steps: &[
        "`ip -d link show`; raise the physical device first, then what stands on it: `ip link set dev PARENT mtu 9000`.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let nothing = BTreeMap::new();
    let all = look.now.netdevs.value().unwrap_or(&nothing);
    each_netdev(look, ID, "the MTUs of stacked devices", |wire| Some(one(all, wire.name, wire.netdev)))
}

/// What stands on what, as far as it has to do with `name`: above, below, and whether below must be the same.
fn stacks<'a>(
    all: &'a BTreeMap<String, Netdev>,
    name: &'a str,
    netdev: &'a Netdev,
) -> Vec<(&'a str, &'a str, bool)> {
    let below = netdev.parent.value().map(|parent| (name, parent.as_str(), false));
    let members = netdev.bond.value().into_iter().flat_map(|bond| &bond.members);
    let members: Vec<(&str, &str, bool)> = members.map(|m| (name, m.name.as_str(), true)).collect();
    let on = |other: &Netdev| {
        let parent = other.parent.value().map(String::as_str);
        parent.is_some_and(|parent| parent == name || members.iter().any(|(_, member, _)| *member == parent))
    };
    let above = all.iter().filter(|(_, other)| on(other));
    let above: Vec<_> = above
        .filter_map(|(child, other)| Some((child.as_str(), other.parent.value()?.as_str(), false)))
        .collect();
    below.into_iter().chain(members).chain(above).collect()
}

fn one(all: &BTreeMap<String, Netdev>, name: &str, netdev: &Netdev) -> Finding {
    let subject = format!("netdev {name}");
    if let Reading::Failed(why) = &netdev.parent {
        return unknown(ID, subject, "what the device stands on", why);
    }
    let stacks = stacks(all, name, netdev);
    let mut evidence = Vec::new();
    for (above, below, same) in &stacks {
        // A parent in another network namespace cannot be compared.
        let (Some(upper), Some(lower)) = (all.get(*above), all.get(*below)) else { continue };
        let (upper, lower) = match (&upper.mtu, &lower.mtu) {
            (Reading::Value(upper), Reading::Value(lower)) => (*upper, *lower),
            (Reading::Value(_), missing) | (missing, _) => {
                return unknown(ID, subject, &format!("the MTU of {above} or {below}"), why(missing));
            }
        };
        evidence.push(format!("mtu {above} = {upper}, below it {below} = {lower}"));
        if upper > lower || (*same && upper != lower) {
            let verdict = Verdict::fail(
                format!("{above} has MTU {upper} and stands on {below} with {lower}"),
                "a setting of this host: the device below was not raised, or was set back",
                format!(
                    "`ip link set dev {below} mtu {upper}` first, and the switch port; then `ip link set dev {above} mtu {upper}`; in the network manager's files too."
                ),
            );
            return verdict.finding(ID, subject, evidence);
        }
    }
    let summary = if stacks.is_empty() {
        "nothing is stacked on it or below it"
    } else {
        "the MTUs of stacked devices fit"
    };
    Finding { evidence, ..ok(ID, subject, summary.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{eth0, first};
    use rdmascope_fixtures::snapshot::netdev as fresh;
    use rdmascope_model::{Bond, BondMember, Snapshot, Status};

    fn add(m: &mut Snapshot, name: &str, mtu: u32, parent: Option<&str>) {
        let Reading::Value(all) = &mut m.netdevs else { panic!("no netdevs") };
        let parent = parent.map_or(Reading::Absent, |p| Reading::Value(p.to_owned()));
        all.insert(name.into(), Netdev { mtu: Reading::Value(mtu), parent, ..fresh(9, &[]) });
    }

    #[test]
    fn c026_a_macvlan_that_is_larger_than_its_parent() {
        let found = first(&CHECK, |m| {
            eth0(m).mtu = Reading::Value(1500);
            add(m, "macvlan0", 9000, Some("eth0"));
        })
        .remove(0);
        assert_eq!(found.status, Status::Fail);
        assert!(
            found.summary.contains("macvlan0 has MTU 9000 and stands on eth0 with 1500"),
            "{}",
            found.summary
        );
    }

    #[test]
    fn smaller_above_and_others_devices_are_fine() {
        assert_eq!(first(&CHECK, |m| add(m, "eth0.100", 1500, Some("eth0")))[0].status, Status::Ok);
        let found = first(&CHECK, |m| {
            add(m, "lan0", 1500, None);
            add(m, "lan0.1", 9000, Some("lan0"));
        });
        assert_eq!(found[0].status, Status::Ok);
    }

    #[test]
    fn a_member_with_another_mtu() {
        let with_member = |mtu| {
            first(&CHECK, |m| {
                add(m, "ens0", mtu, None);
                let member = BondMember {
                    name: "ens0".into(),
                    mii_status: Reading::Value("up".into()),
                    link_failures: Reading::Value(0),
                    aggregated: Reading::Absent,
                };
                eth0(m).bond = Reading::Value(Bond { mode: Reading::Absent, members: vec![member] });
            })[0]
                .status
        };
        assert_eq!(with_member(1500), Status::Fail);
        assert_eq!(with_member(9216), Status::Fail);
        assert_eq!(with_member(9000), Status::Ok);
    }
}
