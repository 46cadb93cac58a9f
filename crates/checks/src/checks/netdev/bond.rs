//! Are all members of a bond under a RoCE port in use?

use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use crate::verdict::{Verdict, or_none};
use crate::wires::each_netdev;
use rdmascope_model::{Bond, BondMember, Finding, Reading};

const ID: &str = "bond";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Are all members of the bond under a RoCE port in use?",
    meaning: "A bond that has lost a member stays up with half its bandwidth, and its RDMA port stays ACTIVE.",
    causes: &[
        "a cable, transceiver or switch port of one member",
        "LACP: the switch port is not in the same group, or LACP is off there",
    ],
    next_steps: &[
        "`cat /proc/net/bonding/BOND`: MII status and aggregator of each member; then the member's cable and switch port.",
    ],
    settles: Settles::AfterDebounce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let found = each_netdev(look, ID, "the bond", |wire| match &wire.netdev.bond {
        Reading::Value(bond) => Some(one(wire.name, bond)),
        Reading::Absent => None,
        Reading::Failed(why) => Some(unknown(ID, wire.subject(), "whether it is a bond", why)),
    });
    let any = crate::wires::roce_ports(look).next().is_some();
    if any { or_none(found, ID, "no RoCE port stands on a bond") } else { found }
}

fn one(name: &str, bond: &Bond) -> Finding {
    let subject = format!("netdev {name}");
    let lacp = bond.mode.value().is_some_and(|mode| mode == "802.3ad");
    if let Reading::Failed(why) = &bond.mode {
        return unknown(ID, subject, "the bond's mode", why);
    }
    let unread = bond.members.iter().find(|m| matches!(m.mii_status, Reading::Failed(_)));
    if let Some(member) = unread {
        return unknown(ID, subject, &format!("the MII status of {}", member.name), why(&member.mii_status));
    }
    let failed = bond
        .members
        .iter()
        .map(|m| m.aggregated.as_ref().map(|_| ()))
        .find(|r| matches!(r, Reading::Failed(_)));
    if let (true, Some(failed)) = (lacp, failed) {
        return unknown(ID, subject, "the bond's aggregators", why(&failed));
    }
    let in_use = |m: &&BondMember| {
        m.mii_status.value().is_none_or(|s| s == "up") && !(lacp && m.aggregated == Reading::Value(false))
    };
    let (all, good) = (bond.members.len(), bond.members.iter().filter(in_use).count());
    let evidence: Vec<String> = bond.members.iter().map(|m| shown(m, lacp)).collect();
    if good == all && all > 0 {
        let summary = format!("all {all} members are in use; one queue pair uses one of them");
        return Finding { evidence, ..ok(ID, subject, summary) };
    }
    let lost: Vec<&str> = bond.members.iter().filter(|m| !in_use(m)).map(|m| m.name.as_str()).collect();
    let first = lost.first().copied().unwrap_or(name);
    let down = bond.members.iter().any(|m| m.mii_status.value().is_some_and(|s| s != "up"));
    let cause = if down {
        "the cable, transceiver or switch port of that member"
    } else {
        "a setting at the switch: the member's port is in no or another LACP group"
    };
    let next = format!(
        "`cat /proc/net/bonding/{name}`; `ethtool {first}`; the switch port of {first} and its LACP group."
    );
    let verdict = match (all, good) {
        (0, _) => Verdict::fail(format!("{name} has no member"), "a setting of this host", next),
        (_, 0) => Verdict::fail(format!("no member of {name} is in use ({})", lost.join(", ")), cause, next),
        _ => Verdict::warn(
            format!("{good} of {all} members of {name} are in use; lost: {}", lost.join(", ")),
            cause,
            next,
        ),
    };
    verdict.finding(ID, subject, evidence)
}

fn shown(member: &BondMember, lacp: bool) -> String {
    let status = member.mii_status.value().map_or("not known", String::as_str);
    let failures = member.link_failures.value().map_or(String::new(), |n| format!(", {n} link failures"));
    let group = match (lacp, &member.aggregated) {
        (true, Reading::Value(false)) => ", not in the active aggregator",
        _ => "",
    };
    format!("{} = {status}{failures}{group}", member.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{eth0, first};
    use rdmascope_model::Status;

    fn seen(statuses: [&str; 2], aggregated: [bool; 2]) -> Finding {
        first(&CHECK, |m| {
            let member = |i: usize| BondMember {
                name: format!("ens{i}"),
                mii_status: Reading::Value(statuses[i].to_owned()),
                link_failures: Reading::Value(0),
                aggregated: Reading::Value(aggregated[i]),
            };
            let mode = Reading::Value("802.3ad".to_owned());
            eth0(m).bond = Reading::Value(Bond { mode, members: vec![member(0), member(1)] });
        })
        .remove(0)
    }

    #[test]
    fn c055_one_queue_pair_uses_one_leg_and_that_is_fine() {
        let found = seen(["up", "up"], [true, true]);
        assert_eq!(found.status, Status::Ok);
        assert!(found.summary.contains("one queue pair uses one of them"));
    }

    #[test]
    fn c056_a_whole_bond_is_fine_whatever_a_library_makes_of_it() {
        assert_eq!(seen(["up", "up"], [true, true]).status, Status::Ok);
    }

    #[test]
    fn lost_legs() {
        let one = seen(["up", "down"], [true, false]);
        assert_eq!((one.status, one.summary.contains("lost: ens1")), (Status::Warn, true));
        assert_eq!(seen(["up", "down"], [true, true]).status, Status::Warn);
        assert_eq!(seen(["down", "down"], [false, false]).status, Status::Fail);
        let group = seen(["up", "up"], [true, false]);
        assert_eq!(group.status, Status::Warn);
        assert!(group.cause.contains("LACP"), "{}", group.cause);
    }
}
