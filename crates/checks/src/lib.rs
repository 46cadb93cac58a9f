//! Findings from readings, with cause and next step; pure.
//!
//! [`run`] asks every check of [`ALL`] and keeps what each says, also "ok": a report shows what was looked at. A reading that could
//! not be taken gives `unknown` with its reason, never ok.

mod addressing;
mod check;
mod checks;
pub mod counters;
mod duty;
mod explain;
mod finding;
pub mod limits;
pub mod log;
pub mod manifest;
mod motion;
mod past;
mod policy;
pub mod replay;
#[cfg(test)]
mod testing;
mod verdict;
mod watch;
mod wires;

pub use addressing::{NoGid, is_iwarp, usable_gid};
pub use check::{Check, Look, Settles};
pub use checks::ALL;
pub use explain::{DRIFT, DRIFT_CAUSES, cause_page, drift_page, page, rule_page};
pub use past::{Change, GidMove, Past, Rise, Source};
pub use policy::Policy;

use rdmascope_model::{Finding, Status};

/// Every finding, in the order of [`ALL`]: link layer first, then addresses and sizes.
#[must_use]
pub fn run(look: &Look<'_>) -> Vec<Finding> {
    ALL.iter().flat_map(|check| (check.judge)(look)).collect()
}

/// A `fail` with this id is a hard local fault: of a check that is marked as such, or of a kernel-log rule that
/// says why ([`log::Rule::drain`]).
#[must_use]
pub fn is_hard(id: &str, rules: &log::Rules) -> bool {
    ALL.iter().any(|check| check.hard && check.id == id)
        || rules.get(id).is_some_and(|rule| rule.drain.is_some())
}

/// The worst status; `Unknown` when nothing was judged at all.
#[must_use]
pub fn worst(findings: &[Finding]) -> Status {
    findings.iter().map(|f| f.status).max().unwrap_or(Status::Unknown)
}

/// Exit code of `check` and `selfcheck`: 0 ok, 1 warn, 2 fail, 3 unknown.
#[must_use]
pub fn exit_code(status: Status) -> u8 {
    match status {
        Status::Ok => 0,
        Status::Warn => 1,
        Status::Fail => 2,
        Status::Unknown => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::snapshot::{infiniband, roce, workload};
    use rdmascope_model::{Function, KernelLog, Reading, Snapshot};
    use std::collections::BTreeSet;

    #[test]
    fn ids_are_kebab_case_and_unique() {
        let ids: BTreeSet<&str> = ALL.iter().map(|check| check.id).collect();
        assert_eq!(ids.len(), ALL.len());
        for id in ids {
            assert!(id.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{id}");
        }
    }

    #[test]
    fn every_check_uses_its_own_id() {
        let policy = Policy::default();
        let (machines, log) = (healthy(), Reading::Value(KernelLog::default()));
        for check in ALL {
            let judged = |machine| (check.judge)(&Look { log: &log, ..Look::first(machine, &policy) });
            let findings: Vec<Finding> = machines.iter().flat_map(judged).collect();
            assert!(!findings.is_empty(), "{} says nothing of a healthy machine", check.id);
            assert!(findings.iter().all(|f| f.id == check.id), "{}", check.id);
        }
    }

    #[test]
    fn healthy_machines_are_quiet_and_each_subject_is_judged_once_by_a_check() {
        let policy = Policy::default();
        for machine in healthy() {
            let mut seen = BTreeSet::new();
            for finding in run(&Look::first(&machine, &policy)) {
                assert_eq!(finding.status, Status::Ok, "{finding:?}");
                assert!(seen.insert((finding.id.clone(), finding.subject.clone())), "{finding:?}");
            }
        }
    }

    /// RoCE, InfiniBand with a virtual function, and RoCE with a job that chooses its GID.
    fn healthy() -> [Snapshot; 3] {
        let mut fabric = infiniband(2);
        let Reading::Value(devices) = &mut fabric.devices else { panic!("no devices") };
        devices[1].function = Reading::Value(Function::Virtual { of: Reading::Value("0000:3b:00.0".into()) });
        let mut job = roce(2);
        job.workloads = Reading::Value(vec![workload(&[("NCCL_IB_GID_INDEX", "3")])]);
        [roce(2), fabric, job]
    }

    #[test]
    fn fail_is_worst_and_silence_is_not_health() {
        let machine = roce(1);
        let mut findings = run(&Look::first(&machine, &Policy::default()));
        assert_eq!(exit_code(worst(&findings)), 0);
        findings[0].status = Status::Warn;
        assert_eq!(exit_code(worst(&findings)), 1);
        findings[1].status = Status::Unknown;
        assert_eq!(exit_code(worst(&findings)), 3);
        findings[2].status = Status::Fail;
        assert_eq!(exit_code(worst(&findings)), 2);
        assert_eq!(worst(&[]), Status::Unknown);
    }
}
