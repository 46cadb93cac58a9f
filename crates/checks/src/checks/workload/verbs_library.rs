//! Can the verbs library be loaded?

use super::in_container;
use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use crate::verdict::Verdict;
use rdmascope_model::{Finding, Reading};

const ID: &str = "verbs-library";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Can the verbs library (libibverbs) be loaded?",
    meaning: "Programs load it when they start: without it they use TCP, and most of them say so in one line of their log only.",
    causes: &[
        "the container image has no rdma-core",
        "the library of another architecture, or none of its drivers",
    ],
    next_steps: &[
        "`ldconfig -p | grep libibverbs`; install rdma-core (Debian: `apt-get install ibverbs-providers`; Red Hat: `dnf install libibverbs`) in the image.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let subject = "machine".to_owned();
    match &look.now.system.libibverbs {
        Reading::Value(()) => vec![ok(ID, subject, "libibverbs can be loaded".to_owned())],
        failed @ Reading::Failed(_) => {
            vec![unknown(ID, subject, "whether libibverbs can be loaded", why(failed))]
        }
        Reading::Absent => {
            let summary = "libibverbs cannot be loaded here".to_owned();
            let next = "`ldconfig -p | grep libibverbs`; install rdma-core in the image or on the host: `apt-get install ibverbs-providers`, `dnf install libibverbs`.";
            let verdict = if in_container(look) {
                Verdict::fail(
                    summary,
                    "the image: it has no rdma-core, so programs in it use TCP; the kernel's devices are fine",
                    next,
                )
            } else {
                Verdict::warn(
                    summary,
                    "this host has no rdma-core: jobs outside containers, and probes, cannot use RDMA",
                    next,
                )
            };
            vec![verdict.finding(ID, subject, Vec::new())]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::testing::{first, with};
    use rdmascope_model::Status;

    #[test]
    fn c108_an_image_without_the_library() {
        let inside = Policy { in_container: true, ..Policy::default() };
        let found = with(&CHECK, &inside, |m| m.system.libibverbs = Reading::Absent).remove(0);
        assert_eq!(found.status, Status::Fail);
        assert!(found.cause.contains("the kernel's devices are fine"), "{}", found.cause);
        assert_eq!(first(&CHECK, |m| m.system.libibverbs = Reading::Absent)[0].status, Status::Warn);
        assert_eq!(first(&CHECK, |m| m.system.libibverbs = Reading::failed("x"))[0].status, Status::Unknown);
    }
}
