//! Does a process that should use RDMA use TCP?

use super::subject;
use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use crate::manifest::glob;
use crate::verdict::{Verdict, or_none};
use rdmascope_model::{Finding, Reading, Workload};

const ID: &str = "tcp-fallback";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Do the processes that should use RDMA hold queue pairs?",
    meaning: "Libraries fall back to TCP in silence: the job runs, at a tenth of the speed.",
    causes: &[
        "the environment says so: NCCL_IB_DISABLE=1, NCCL_NET=Socket",
        "no device node in the container, too little locked memory, no verbs library in the image",
    ],
    next_steps: &[
        "`rdma resource show qp`; `NCCL_DEBUG=INFO` and the line \"Using network\"; then memlock, device-nodes and verbs-library inside the container.",
    ],
    settles: Settles::AfterDebounce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let devices = look.now.devices.value().is_some_and(|all| !all.is_empty());
    if look.policy.workloads.is_empty() || !devices {
        return vec![ok(ID, "machine".to_owned(), "no process is named that should use RDMA".to_owned())];
    }
    let all = match &look.now.workloads {
        Reading::Value(all) => all,
        Reading::Absent => return Vec::new(),
        failed => {
            return vec![unknown(
                ID,
                "machine".to_owned(),
                "the processes that should use RDMA",
                why(failed),
            )];
        }
    };
    let named = all.iter().filter(|w| look.policy.workloads.iter().any(|pattern| glob(pattern, &w.name)));
    or_none(named.map(one).collect(), ID, "none of the processes that should use RDMA is running")
}

fn one(workload: &Workload) -> Finding {
    let subject = subject(workload);
    let held: u32 = match &workload.queue_pairs {
        Reading::Value(pairs) => pairs.values().sum(),
        Reading::Absent => 0,
        failed => return unknown(ID, subject, "its queue pairs", why(failed)),
    };
    if held > 0 {
        return ok(ID, subject, format!("holds {held} queue pairs"));
    }
    let switched_off = workload.environment.value().and_then(|environment| {
        let is = |name: &str, value: &str| {
            environment.get(name).is_some_and(|v| v.trim().eq_ignore_ascii_case(value))
        };
        [("NCCL_IB_DISABLE", "1"), ("NCCL_NET", "Socket")].into_iter().find(|(name, value)| is(name, value))
    });
    let summary = "holds no queue pair, though it should use RDMA and there are devices".to_owned();
    match switched_off {
        Some((name, value)) => Verdict::fail(
            format!("{summary}: {name}={value} in its environment"),
            "a setting of the job: RDMA is switched off in its environment",
            format!("Start the job without {name}; look for it in the image, the batch script and the launcher (`tr '\\0' '\\n' < /proc/{}/environ | grep NCCL`).", workload.pid),
        )
        .finding(ID, subject, vec![format!("{name} = {value}")]),
        None => Verdict::warn(
            summary,
            "the job has not connected yet, or fell back to TCP (device nodes, locked memory, verbs library of its container)",
            format!("`NCCL_DEBUG=INFO` and its line \"Using network\"; `ls -l /proc/{0}/root/dev/infiniband`; `grep 'locked memory' /proc/{0}/limits`.", workload.pid),
        )
        .finding(ID, subject, vec!["queue pairs = 0".to_owned()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::testing::with;
    use rdmascope_fixtures::snapshot::process;
    use rdmascope_model::Status;
    use std::collections::BTreeMap;

    fn job(pairs: u32, environment: &[(&str, &str)]) -> Finding {
        let policy = Policy { workloads: vec!["python*".to_owned()], ..Policy::default() };
        with(&CHECK, &policy, |m| {
            let mut job = process(4711, "python3");
            job.queue_pairs = Reading::Value(BTreeMap::from([("mlx5_0".to_owned(), pairs)]));
            let owned = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            job.environment = Reading::Value(owned.collect());
            m.workloads = Reading::Value(vec![process(1, "bash"), job]);
        })
        .remove(0)
    }

    #[test]
    fn named_processes_without_queue_pairs() {
        assert_eq!(job(8, &[]).status, Status::Ok);
        let found = job(0, &[]);
        assert_eq!((found.status, found.subject.as_str()), (Status::Warn, "process 4711 (python3)"));
        let off = job(0, &[("NCCL_NET", "Socket")]);
        assert_eq!((off.status, off.evidence), (Status::Fail, vec!["NCCL_NET = Socket".to_owned()]));
        assert_eq!(job(0, &[("NCCL_IB_DISABLE", "0")]).status, Status::Warn);
    }
}
