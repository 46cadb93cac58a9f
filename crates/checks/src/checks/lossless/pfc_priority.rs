//! Is priority flow control on for the priorities that carry RDMA?

use super::{pfc, setting};
use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use crate::verdict::{Verdict, shown};
use crate::wires::{Wire, each_wire};
use rdmascope_model::{Finding, Reading, Trust, priorities};
use std::collections::BTreeMap;

const ID: &str = "pfc-priority";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is priority flow control (PFC) on for the priorities that carry RDMA, and only for them?",
    meaning: "Without PFC on its priority RoCE loses packets under congestion, and each loss costs it a whole window of data.",
    causes: &[
        "the port was never configured, or a reboot or driver reload took the setting away",
        "the switch changed it by DCBX, because the adapter's firmware listens to LLDP",
    ],
    next_steps: &[
        "`dcb pfc show dev NETDEV; dcb app show dev NETDEV` (vendor tool: `mlnx_qos -i NETDEV`), and compare with a good node.",
        "`dcb pfc set dev NETDEV prio-pfc all:off PRIORITY:on` on every node and the same on every switch port, or none at all.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    each_wire(look, ID, "priority flow control", |wire| one(look, wire))
}

fn one(look: &Look<'_>, wire: &Wire<'_>) -> Vec<Finding> {
    let expected = look.policy.manifest.of(wire.device, Some(wire.port)).pfc;
    let mask = match pfc(wire) {
        Reading::Value(mask) => mask,
        Reading::Absent if expected.unwrap_or(0) == 0 => return Vec::new(),
        Reading::Absent => 0,
        failed => return vec![unknown(ID, wire.subject(), "priority flow control", why(&failed))],
    };
    let name = wire.name;
    let verdict = match expected {
        Some(expected) => (mask != expected).then(|| differs(name, mask, expected)),
        None => inconsistent(wire, mask),
    };
    let found = match verdict {
        Some(verdict) => wire.finding(ID, verdict, Vec::new()),
        None if mask == 0 => ok(ID, wire.subject(), format!("PFC is off on {name}: no priority is lossless")),
        None => ok(ID, wire.subject(), format!("PFC is on for priority {}", priorities(mask))),
    };
    let owner = setting(wire, |dcb| &dcb.firmware_controlled);
    let evidence = vec![format!("pfc = {}", priorities(mask)), shown("dcbx firmware controlled", &owner)];
    vec![Finding { evidence, ..found }]
}

fn differs(name: &str, mask: u8, expected: u8) -> Verdict {
    let (missing, extra) = (expected & !mask, mask & !expected);
    let summary = match (mask, expected) {
        (0, _) => format!("PFC is off on {name}, on for priority {} expected", priorities(expected)),
        (_, 0) => format!("PFC is on for priority {}, off on {name} expected", priorities(mask)),
        _ => format!(
            "PFC is on for priority {}, {} expected: missing {}, extra {}",
            priorities(mask),
            priorities(expected),
            priorities(missing),
            priorities(extra)
        ),
    };
    Verdict::fail(
        summary,
        "a setting of this host: never made, lost at a reboot, or changed by the switch through DCBX",
        format!(
            "`dcb pfc show dev {name}`; set it as the manifest says: `dcb pfc set dev {name} prio-pfc all:off {}`.",
            (0..8)
                .filter(|p| expected & (1 << p) != 0)
                .map(|p| format!("{p}:on "))
                .collect::<String>()
                .trim()
        ),
    )
}

/// What is wrong without knowing what is expected.
fn inconsistent(wire: &Wire<'_>, mask: u8) -> Option<Verdict> {
    let name = wire.name;
    let map = setting(wire, |dcb| &dcb.dscp);
    let nothing = BTreeMap::new();
    let map = match &map {
        Reading::Value(map) => map,
        Reading::Absent => &nothing,
        Reading::Failed(_) => return None,
    };
    if mask == 0 {
        return map.is_empty().then(|| {
            Verdict::warn(
                format!("PFC is off for all priorities of {name} and no DSCP is mapped to a priority"),
                "a setting of this host: the port was never configured for RoCE",
                format!(
                    "Decide between lossy and lossless. Lossless: `dcb app add dev {name} dscp-prio 26:3`, \
                     `dcb pfc set dev {name} prio-pfc 3:on`, the same at the switch, and the traffic class of RDMA (NCCL_IB_TC). \
                     Lossy on purpose: say `pfc: []` in the manifest."
                ),
            )
        });
    }
    // Where it is not known what decides the priority, it may well be the tag.
    let by_tag = matches!(setting(wire, |dcb| &dcb.trust), Reading::Value(Trust::Pcp) | Reading::Failed(_));
    let reached = map.values().any(|priority| priority < &8 && mask & (1 << priority) != 0);
    (!by_tag && !reached).then(|| {
        Verdict::warn(
            format!("PFC is on for priority {}, but no DSCP leads to it", priorities(mask)),
            "a setting of this host: PFC was set, the DSCP mapping was not",
            format!("`dcb app show dev {name}`; map the DSCP of RDMA to the priority: `dcb app add dev {name} dscp-prio DSCP:PRIORITY`."),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::manifest::{Expectation, Manifest};
    use crate::testing::{dcb, first, with};
    use rdmascope_fixtures::snapshot::infiniband;
    use rdmascope_model::{Snapshot, Status};

    fn expecting(pfc: u8) -> Policy {
        let row = Expectation { device: "*".into(), pfc: Some(pfc), ..Expectation::default() };
        Policy { manifest: Manifest { rows: vec![row] }, ..Policy::default() }
    }

    fn bare(machine: &mut Snapshot) {
        dcb(machine).pfc = Reading::Value(0);
        dcb(machine).dscp = Reading::Value(BTreeMap::new());
    }

    #[test]
    fn c027_nothing_is_configured() {
        let found = first(&CHECK, bare).remove(0);
        assert_eq!(found.status, Status::Warn);
        assert!(found.summary.contains("off for all priorities"), "{}", found.summary);
    }

    #[test]
    fn c030_no_lossless_class_on_the_fabric_of_a_job_with_tc_0() {
        assert_eq!(first(&CHECK, bare)[0].status, Status::Warn);
    }

    #[test]
    fn c035_priority_5_is_as_good_as_3() {
        let found = first(&CHECK, |m| {
            dcb(m).pfc = Reading::Value(1 << 5);
            dcb(m).dscp = Reading::Value((40..48).map(|d| (d, 5)).chain((48..56).map(|d| (d, 6))).collect());
        });
        assert_eq!(found[0].status, Status::Ok);
    }

    #[test]
    fn the_manifest_names_what_is_missing_and_extra() {
        let found = with(&CHECK, &expecting(1 << 5), |_| ()).remove(0);
        assert_eq!(found.status, Status::Fail);
        assert!(found.summary.contains("missing 5, extra 3"), "{}", found.summary);
        assert_eq!(with(&CHECK, &expecting(1 << 3), |_| ())[0].status, Status::Ok);
        // Lossy on purpose.
        assert_eq!(with(&CHECK, &expecting(0), bare)[0].status, Status::Ok);
    }

    #[test]
    fn pfc_that_no_packet_reaches() {
        let found = first(&CHECK, |m| dcb(m).dscp = Reading::Value(BTreeMap::from([(48, 6)])));
        assert_eq!(found[0].status, Status::Warn);
        let tagged = first(&CHECK, |m| {
            dcb(m).dscp = Reading::Value(BTreeMap::new());
            dcb(m).trust = Reading::Value(Trust::Pcp);
        });
        assert_eq!(tagged[0].status, Status::Ok);
    }

    #[test]
    fn unread_is_unknown_and_infiniband_is_not_asked() {
        assert_eq!(first(&CHECK, |m| dcb(m).pfc = Reading::failed("EPERM"))[0].status, Status::Unknown);
        assert!(judge(&Look::first(&infiniband(1), &Policy::default())).is_empty());
    }
}
