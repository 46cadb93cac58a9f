//! May the processes that use RDMA lock as much memory as they need?

use super::{size, subject};
use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use crate::limits;
use crate::verdict::Verdict;
use rdmascope_model::{Finding, Reading};

const ID: &str = "memlock";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "May the processes that use RDMA lock as much memory as they need?",
    meaning: "Queues and registered memory are locked memory. With a limit, jobs fail with \"Cannot allocate memory\", or fall back to TCP in silence.",
    causes: &[
        "the container runtime's or systemd's default (64 KiB, 8 MiB, 64 MiB)",
        "limits.conf was changed, but the process was started by a daemon that does not read it",
    ],
    next_steps: &[
        "`grep 'locked memory' /proc/PID/limits` of the job itself, never of your own shell.",
        "systemd unit: `LimitMEMLOCK=infinity`; Docker: `--ulimit memlock=-1`; Kubernetes: the container runtime's unit, or IPC_LOCK.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&limits::MEMLOCK_BYTES],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    match &look.now.workloads {
        Reading::Value(all) => {
            for workload in all {
                findings.push(one(look, subject(workload), &workload.memlock_bytes, &workload.ipc_lock));
            }
        }
        Reading::Absent => {}
        // Inside a container the job's own limit is ours.
        Reading::Failed(_) if look.policy.in_container => {}
        failed => {
            findings.push(unknown(ID, "machine".to_owned(), "the processes that use RDMA", why(failed)))
        }
    }
    if look.policy.in_container {
        findings.push(one(
            look,
            "machine".to_owned(),
            &look.now.system.memlock_bytes,
            &Reading::Value(false),
        ));
    }
    crate::verdict::or_none(findings, ID, "no process uses RDMA now")
}

fn one(look: &Look<'_>, subject: String, limit: &Reading<u64>, exempt: &Reading<bool>) -> Finding {
    let needed = look.policy.limit(&limits::MEMLOCK_BYTES);
    let bytes = match limit {
        Reading::Value(bytes) => *bytes,
        missing => return unknown(ID, subject, "the limit of locked memory", why(missing)),
    };
    if bytes as f64 >= needed {
        return ok(ID, subject, format!("may lock memory: {}", size(bytes)));
    }
    match exempt {
        Reading::Value(true) => {
            return ok(ID, subject, "has CAP_IPC_LOCK: the limit does not count".to_owned());
        }
        Reading::Value(false) | Reading::Absent => {}
        failed => return unknown(ID, subject, "whether it has CAP_IPC_LOCK", why(failed)),
    }
    Verdict::fail(
        format!("may lock only {} of memory", size(bytes)),
        "a setting of what started the process: systemd, the batch system or the container runtime",
        "`grep 'locked memory' /proc/PID/limits`; unit: `LimitMEMLOCK=infinity`, Docker: `--ulimit memlock=-1`, Slurm: `PropagateResourceLimitsExcept=MEMLOCK`; then start it again.",
    )
    .finding(ID, subject, vec![format!("memlock = {bytes} bytes")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::testing::{first, with};
    use rdmascope_fixtures::snapshot::process;
    use rdmascope_model::Status;

    fn limited(bytes: u64) -> Finding {
        first(&CHECK, |m| {
            let mut job = process(4711, "python3");
            job.memlock_bytes = Reading::Value(bytes);
            m.workloads = Reading::Value(vec![job]);
        })
        .remove(0)
    }

    fn inside() -> Policy {
        Policy { in_container: true, ..Policy::default() }
    }

    #[test]
    fn c110_eight_mebibytes_in_the_launched_process() {
        let found = limited(8_388_608);
        assert_eq!((found.status, found.summary.as_str()), (Status::Fail, "may lock only 8.0 MiB of memory"));
        assert_eq!(found.evidence, ["memlock = 8388608 bytes"]);
    }

    #[test]
    fn c112_sixty_four_mebibytes_are_not_enough_either() {
        assert_eq!(limited(67_108_864).status, Status::Fail);
        assert_eq!(limited(u64::MAX).status, Status::Ok);
    }

    #[test]
    fn c113_a_service_with_64_kibibytes() {
        let found = limited(65_536);
        assert_eq!(found.status, Status::Fail);
        assert!(found.next_step.contains("LimitMEMLOCK=infinity"), "{}", found.next_step);
    }

    #[test]
    fn c107_a_sandboxed_service_has_the_default_limit() {
        let found = with(&CHECK, &inside(), |m| m.system.memlock_bytes = Reading::Value(8_388_608));
        assert_eq!(found[0].status, Status::Fail);
        // On the host our own limit says nothing about jobs.
        assert_eq!(first(&CHECK, |m| m.system.memlock_bytes = Reading::Value(65_536))[0].status, Status::Ok);
    }

    #[test]
    fn the_capability_exempts_and_what_cannot_be_read_is_unknown() {
        let with_capability = |capability: Reading<bool>| {
            first(&CHECK, |m| {
                let mut job = process(4711, "python3");
                job.memlock_bytes = Reading::Value(65_536);
                job.ipc_lock = capability.clone();
                m.workloads = Reading::Value(vec![job]);
            })[0]
                .status
        };
        assert_eq!(with_capability(Reading::Value(true)), Status::Ok);
        assert_eq!(with_capability(Reading::failed("EPERM")), Status::Unknown);
        assert_eq!(first(&CHECK, |m| m.workloads = Reading::failed("EPERM"))[0].status, Status::Unknown);
    }
}
