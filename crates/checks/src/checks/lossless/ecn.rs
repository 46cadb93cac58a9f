//! Is ECN on for the lossless priority, at both of its ends?

use super::pfc;
use crate::check::{Check, Look, Settles};
use crate::finding::ok;
use crate::verdict::{Verdict, shown};
use crate::watch::{Moved, Seen, by_rate, seen_at_port, window};
use crate::wires::{Wire, each_wire};
use rdmascope_model::{Finding, Reading, priorities};

const ID: &str = "ecn";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Are congestion notifications (ECN, CNP) on for the lossless priority?",
    meaning: "Without them senders do not slow down: congestion is left to pause frames, and spreads through the fabric.",
    causes: &[
        "the notification point (receiver) or the reaction point (sender) is off for the priority of RDMA",
        "CNPs come in on a priority that this host does not listen to",
    ],
    next_steps: &[
        "Compare `grep . ports/1/hw_counters/*cnp*` below the device's folder in /sys/class/infiniband with a good node.",
        "Vendor driver: `cat /sys/class/net/NETDEV/ecn/roce_np/enable/*`; firmware default: `mlxconfig -d PCI q ROCE_CC_PRIO_MASK_P1`.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&crate::limits::CONGESTION_WINDOW_SECONDS],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    each_wire(look, ID, "ECN", |wire| vec![one(look, wire)])
}

fn one(look: &Look<'_>, wire: &Wire<'_>) -> Finding {
    let ecn = &wire.netdev.ecn;
    let mask = pfc(wire).value().copied().unwrap_or(0);
    let off = |point: &Reading<u8>| point.value().map_or(0, |on| mask & !on);
    let (receiver, sender) = (off(&ecn.notification_point), off(&ecn.reaction_point));
    let show = |name: &str, point: &Reading<u8>| shown(name, &point.as_ref().map(|mask| priorities(*mask)));
    let masks = vec![
        show("notification point", &ecn.notification_point),
        show("reaction point", &ecn.reaction_point),
    ];
    if receiver | sender != 0 {
        let which = match (receiver != 0, sender != 0) {
            (true, true) => "notification and reaction point are",
            (true, false) => "notification point (receiver) is",
            (false, _) => "reaction point (sender) is",
        };
        let verdict = Verdict::warn(
            format!("the ECN {which} off for priority {}", priorities(receiver | sender)),
            "a setting of this host: ECN is not on for the priority that has PFC",
            format!(
                "`grep . /sys/class/net/{0}/ecn/roce_np/enable/* /sys/class/net/{0}/ecn/roce_rp/enable/*`; turn both on for the priority.",
                wire.name
            ),
        );
        return wire.finding(ID, verdict, masks);
    }
    let names = ["np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored"];
    let seen = seen_at_port(look, (wire.device, wire.port), &names, window(look));
    let read = ecn.notification_point.value().is_some() && ecn.reaction_point.value().is_some();
    if let (true, Seen::NotCounted) = (read, &seen) {
        let summary = "ECN is on for the lossless priorities".to_owned();
        return Finding { evidence: masks, ..ok(ID, wire.subject(), summary) };
    }
    let mut found = by_rate(ID, wire.subject(), "congestion notifications", seen, silent);
    found.evidence.extend(masks);
    found
}

fn silent(moved: &Moved) -> Option<Verdict> {
    let next = "Set ECN for the priority of RDMA at both ends (`mlxconfig -d PCI q | grep ROCE_CC_PRIO_MASK`), and compare the counters with a good node's.";
    let (marked, sent) = (moved.of("np_ecn_marked_roce_packets"), moved.of("np_cnp_sent"));
    if marked > 0 && sent == 0 && moved.rises.contains_key("np_cnp_sent") {
        return Some(Verdict::warn(
            format!("{marked} packets with a congestion mark came in and no CNP was sent"),
            "a setting of this host: the ECN notification point is off, so senders are never told to slow down",
            next,
        ));
    }
    let ignored = moved.of("rp_cnp_ignored");
    (ignored > 0).then(|| {
        Verdict::warn(
            format!("{ignored} CNPs came in and were ignored"),
            "a setting of this host: the ECN reaction point is off, or CNPs come on another priority",
            next,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{counters_rose, eth0, first};
    use rdmascope_model::Status;

    #[test]
    fn masks_are_judged_where_they_can_be_read() {
        assert_eq!(first(&CHECK, |_| ())[0].status, Status::Ok);
        let found = first(&CHECK, |m| eth0(m).ecn.reaction_point = Reading::Value(0)).remove(0);
        assert_eq!(found.status, Status::Warn);
        assert!(found.summary.contains("reaction point (sender) is off for priority 3"), "{}", found.summary);
        // The inbox driver shows no mask: that alone is no finding.
        assert_eq!(
            first(&CHECK, |m| eth0(m).ecn.reaction_point = Reading::failed("EPERM"))[0].status,
            Status::Ok
        );
    }

    #[test]
    fn counters_tell_where_the_masks_do_not() {
        let silent = counters_rose(&CHECK, 60, &[("np_ecn_marked_roce_packets", 5_000), ("np_cnp_sent", 0)]);
        assert_eq!(silent.status, Status::Warn);
        let answered =
            counters_rose(&CHECK, 60, &[("np_ecn_marked_roce_packets", 5_000), ("np_cnp_sent", 9)]);
        assert_eq!(answered.status, Status::Ok);
        assert_eq!(counters_rose(&CHECK, 60, &[("rp_cnp_ignored", 1)]).status, Status::Warn);
    }
}
