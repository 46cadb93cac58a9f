//! Is there memory to register, where locking it is allowed?

use super::size;
use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use crate::limits;
use crate::verdict::Verdict;
use rdmascope_model::{Finding, Reading};

const ID: &str = "memory";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is there memory to register, where locking it is allowed?",
    meaning: "A registration that finds no memory fails with the same words as one that may not lock it: \"Cannot allocate memory\".",
    causes: &[
        "the machine is full",
        "the container's memory limit is small: registered memory counts against it",
    ],
    next_steps: &[
        "`grep MemAvailable /proc/meminfo`; `cat /sys/fs/cgroup/memory.max`; then huge pages that nobody uses (`grep Huge /proc/meminfo`).",
    ],
    settles: Settles::AfterDebounce,
    hard: false,
    limits: &[&limits::MEMORY_WARN_BYTES],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let system = &look.now.system;
    let subject = || "machine".to_owned();
    let available = match &system.memory_available_bytes {
        Reading::Value(bytes) => *bytes,
        Reading::Absent => u64::MAX,
        failed => return vec![unknown(ID, subject(), "the available memory", why(failed))],
    };
    // Outside a container the group is that of our own unit, and its limit says nothing about jobs.
    let group = match &system.memory_max_bytes {
        Reading::Value(bytes) if look.policy.in_container => *bytes,
        Reading::Failed(why) if look.policy.in_container => {
            return vec![unknown(ID, subject(), "the memory limit of the container", why)];
        }
        _ => u64::MAX,
    };
    let evidence = vec![format!("available = {available} bytes"), format!("memory.max = {}", size(group))];
    let least = available.min(group);
    if least as f64 >= look.policy.limit(&limits::MEMORY_WARN_BYTES) {
        return vec![Finding {
            evidence,
            ..ok(ID, subject(), format!("{} are there to be registered", size(least)))
        }];
    }
    let (what, cause) = if group < available {
        (
            "the container's memory limit is",
            "a setting of the container: its memory limit, against which registered memory counts",
        )
    } else {
        ("the machine's available memory is", "other processes of this host, or huge pages that nobody uses")
    };
    let verdict = Verdict::warn(
        format!("{what} {}: larger registrations fail though locking may be allowed", size(least)),
        cause,
        "In this order: `grep 'locked memory' /proc/PID/limits`, `grep MemAvailable /proc/meminfo`, `cat /sys/fs/cgroup/memory.max`.",
    );
    vec![verdict.finding(ID, subject(), evidence)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::testing::{first, with};
    use rdmascope_model::Status;

    #[test]
    fn c115_locking_is_allowed_and_there_is_no_memory() {
        let found = first(&CHECK, |m| m.system.memory_available_bytes = Reading::Value(500 << 20)).remove(0);
        assert_eq!((found.status, found.summary.contains("500.0 MiB")), (Status::Warn, true));
        let inside = Policy { in_container: true, ..Policy::default() };
        let found =
            with(&CHECK, &inside, |m| m.system.memory_max_bytes = Reading::Value(512 << 20)).remove(0);
        assert_eq!(found.status, Status::Warn);
        assert!(found.cause.contains("container"), "{}", found.cause);
        // The limit of our own unit.
        let own = first(&CHECK, |m| m.system.memory_max_bytes = Reading::Value(256 << 20));
        assert_eq!(own[0].status, Status::Ok);
    }
}
