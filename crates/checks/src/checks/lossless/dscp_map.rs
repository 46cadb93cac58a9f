//! Does the DSCP of RDMA traffic lead to a lossless priority?

use super::{pfc, setting};
use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use crate::verdict::Verdict;
use crate::wires::{Wire, each_wire};
use rdmascope_model::{Finding, Reading, Trust, Workload, priorities};
use std::collections::{BTreeMap, BTreeSet};

const ID: &str = "dscp-map";

/// Variables that set the traffic class of RDMA packets (`NCCL` and `UCX` manuals); the upper six bits are the DSCP.
const TRAFFIC_CLASS: [&str; 2] = ["NCCL_IB_TC", "UCX_IB_TRAFFIC_CLASS"];

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Does the DSCP of RDMA traffic lead to a priority with PFC?",
    meaning: "Traffic with another DSCP travels in a lossy class beside the lossless one: it is dropped first, and retransmits.",
    causes: &[
        "the job sets no or another traffic class (NCCL_IB_TC, UCX_IB_TRAFFIC_CLASS)",
        "the mapping of this host differs from the other nodes'",
        "the port trusts the VLAN tag's priority, not the DSCP",
    ],
    next_steps: &[
        "`dcb app show dev NETDEV; dcb pfc show dev NETDEV` and compare with a good node.",
        "Set the traffic class of the job to DSCP x 4 (DSCP 26: NCCL_IB_TC=104; with ECN bits 106).",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let mut findings = each_wire(look, ID, "the DSCP mapping", |wire| one(look, wire));
    // One line for each process, however many devices it uses.
    let mut seen = BTreeSet::new();
    findings.retain(|finding| seen.insert(finding.subject.clone()));
    findings
}

/// The settings that decide a packet's class.
struct Classes {
    map: BTreeMap<u8, u8>,
    pfc: u8,
}

impl Classes {
    /// Priority of a DSCP; what is not mapped has priority 0.
    fn of(&self, dscp: u8) -> u8 {
        self.map.get(&dscp).copied().unwrap_or(0)
    }

    fn lossless(&self, dscp: u8) -> bool {
        1_u8.checked_shl(u32::from(self.of(dscp))).is_some_and(|bit| self.pfc & bit != 0)
    }
}

fn one(look: &Look<'_>, wire: &Wire<'_>) -> Vec<Finding> {
    let classes = match (setting(wire, |dcb| &dcb.dscp), pfc(wire)) {
        (Reading::Failed(why), _) | (_, Reading::Failed(why)) => {
            return vec![unknown(ID, wire.subject(), "the DSCP mapping", &why)];
        }
        (map, pfc) => match (map.value(), pfc.value()) {
            (None, None) => return Vec::new(),
            (map, pfc) => Classes { map: map.cloned().unwrap_or_default(), pfc: pfc.copied().unwrap_or(0) },
        },
    };
    let expected = look.policy.manifest.of(wire.device, Some(wire.port)).dscp;
    let by_tag = setting(wire, |dcb| &dcb.trust) == Reading::Value(Trust::Pcp);
    let mut findings = vec![of_port(wire, &classes, expected, by_tag)];
    if classes.pfc != 0 && !by_tag {
        match &look.now.workloads {
            Reading::Value(all) => findings.extend(all.iter().filter_map(|w| of_workload(wire, &classes, w))),
            Reading::Absent => {}
            failed => {
                findings.push(unknown(ID, "machine".to_owned(), "the jobs' traffic classes", why(failed)))
            }
        }
    }
    findings
}

fn of_port(wire: &Wire<'_>, classes: &Classes, expected: Option<u8>, by_tag: bool) -> Finding {
    let name = wire.name;
    let evidence: Vec<String> = expected
        .iter()
        .map(|dscp| format!("dscp {dscp} = priority {}", classes.of(*dscp)))
        .chain([format!("pfc = {}", priorities(classes.pfc))])
        .collect();
    let verdict = match expected {
        Some(dscp) if by_tag => Verdict::warn(
            format!(
                "RDMA is expected with DSCP {dscp}, but {name} trusts the VLAN tag's priority, not the DSCP"
            ),
            "a setting of this host: no DSCP mapping was made, so the port looks at the tag",
            format!(
                "`dcb app show dev {name}`; `dcb app add dev {name} dscp-prio {dscp}:PRIORITY` (vendor tool: `mlnx_qos -i {name} --trust dscp`)."
            ),
        ),
        Some(dscp) if !classes.lossless(dscp) => Verdict::fail(
            format!("DSCP {dscp} leads to priority {}, which has no PFC", classes.of(dscp)),
            "a setting of this host: the mapping or the PFC mask differs from the manifest",
            format!(
                "`dcb app show dev {name}; dcb pfc show dev {name}`; map it: `dcb app replace dev {name} dscp-prio {dscp}:PRIORITY`."
            ),
        ),
        Some(dscp) => {
            let summary = format!("DSCP {dscp} leads to priority {}, which has PFC", classes.of(dscp));
            return Finding { evidence, ..ok(ID, wire.subject(), summary) };
        }
        None => {
            let lossless = classes.map.keys().filter(|dscp| classes.lossless(**dscp)).count();
            let summary = format!("{lossless} DSCP values lead to a priority with PFC");
            return Finding { evidence, ..ok(ID, wire.subject(), summary) };
        }
    };
    wire.finding(ID, verdict, evidence)
}

fn of_workload(wire: &Wire<'_>, classes: &Classes, workload: &Workload) -> Option<Finding> {
    if workload.queue_pairs.value().is_some_and(|pairs| !pairs.contains_key(&wire.device.name)) {
        return None;
    }
    let subject = format!("process {} ({})", workload.pid, workload.name);
    let environment = match &workload.environment {
        Reading::Value(environment) => environment,
        Reading::Absent => return None,
        failed => return Some(unknown(ID, subject, "its environment", why(failed))),
    };
    let (variable, class) = TRAFFIC_CLASS
        .iter()
        .find_map(|name| Some((*name, environment.get(*name)?.trim().parse::<u8>().ok()?)))?;
    let dscp = class >> 2;
    if classes.lossless(dscp) {
        return None;
    }
    let good = classes.map.keys().find(|dscp| classes.lossless(**dscp)).map(|dscp| dscp << 2);
    let verdict = Verdict::fail(
        format!(
            "RDMA traffic of this process has DSCP {dscp}, which leads to priority {} on {}: outside the lossless class",
            classes.of(dscp),
            wire.name
        ),
        "a setting of the job: its traffic class is not the one that the fabric protects",
        match good {
            Some(good) => format!(
                "Start the job with {variable}={good}, or the site's value; on the host: `dcb app show dev {}`.",
                wire.name
            ),
            None => format!(
                "`dcb app show dev {}`: no DSCP leads to a priority with PFC; map one first.",
                wire.name
            ),
        },
    );
    let evidence = vec![
        format!("{variable} = {class}"),
        format!("dscp {dscp} = priority {}", classes.of(dscp)),
        format!("pfc = {}", priorities(classes.pfc)),
    ];
    Some(verdict.finding(ID, subject, evidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::manifest::{Expectation, Manifest};
    use crate::testing::{dcb, first, with};
    use rdmascope_fixtures::snapshot::{process, roce};
    use rdmascope_model::{Snapshot, Status};

    fn expecting(dscp: u8) -> Policy {
        let row = Expectation { device: "*".into(), dscp: Some(dscp), ..Expectation::default() };
        Policy { manifest: Manifest { rows: vec![row] }, ..Policy::default() }
    }

    fn job_with(class: &str) -> Vec<Finding> {
        first(&CHECK, |m| {
            let mut job = process(4711, "python3");
            job.environment = Reading::Value(BTreeMap::from([("NCCL_IB_TC".to_owned(), class.to_owned())]));
            m.workloads = Reading::Value(vec![job]);
        })
    }

    #[test]
    fn c029_a_flow_outside_the_lossless_class() {
        let found = job_with("0").remove(1);
        assert_eq!((found.status, found.subject.as_str()), (Status::Fail, "process 4711 (python3)"));
        assert!(found.summary.contains("DSCP 0"), "{}", found.summary);
        // DSCP 26 and ECN bits.
        assert_eq!(job_with("106").len(), 1);
        assert_eq!(job_with("auto").len(), 1);
    }

    #[test]
    fn a_process_on_two_devices_is_told_once() {
        let mut machine = roce(2);
        let mut job = process(4711, "python3");
        job.queue_pairs = Reading::failed("EPERM");
        job.environment = Reading::Value(BTreeMap::from([("NCCL_IB_TC".to_owned(), "0".to_owned())]));
        machine.workloads = Reading::Value(vec![job.clone()]);
        let seen = |machine: &Snapshot| {
            let found = judge(&Look::first(machine, &Policy::default()));
            found.iter().map(|f| f.status).collect::<Vec<_>>()
        };
        assert_eq!(seen(&machine), [Status::Ok, Status::Fail, Status::Ok]);
        job.environment = Reading::failed("EPERM");
        machine.workloads = Reading::Value(vec![job]);
        assert_eq!(seen(&machine), [Status::Ok, Status::Unknown, Status::Ok]);
    }

    #[test]
    fn c030_traffic_class_0_beside_a_lossless_class() {
        assert_eq!(job_with("0")[1].status, Status::Fail);
    }

    #[test]
    fn c035_dscp_40_to_priority_5() {
        let found = with(&CHECK, &expecting(40), |m| {
            dcb(m).pfc = Reading::Value(1 << 5);
            dcb(m).dscp = Reading::Value((40..48).map(|d| (d, 5)).collect());
        });
        assert_eq!(found[0].status, Status::Ok);
    }

    #[test]
    fn c036_a_moved_dscp_matters_only_where_rdma_uses_it() {
        let moved = |policy: &Policy| {
            with(&CHECK, policy, |m| {
                let Reading::Value(map) = &mut dcb(m).dscp else { panic!("no map") };
                map.insert(30, 6);
            })
        };
        assert_eq!(moved(&Policy::default())[0].status, Status::Ok);
        assert_eq!(moved(&expecting(26))[0].status, Status::Ok);
        assert_eq!(moved(&expecting(30))[0].status, Status::Fail);
    }

    #[test]
    fn the_tag_is_trusted_where_dscp_is_expected() {
        let found = with(&CHECK, &expecting(26), |m| dcb(m).trust = Reading::Value(Trust::Pcp));
        assert_eq!(found[0].status, Status::Warn);
        assert_eq!(first(&CHECK, |m| dcb(m).dscp = Reading::failed("EPERM"))[0].status, Status::Unknown);
    }
}
