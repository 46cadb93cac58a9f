//! Did the kernel drop records before we could read them?

use crate::check::{Check, Look, Settles};
use crate::finding::ok;
use rdmascope_model::{Finding, Reading, Status};

const ID: &str = "kernel-log-lost";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Did the kernel drop log records before they could be read?",
    meaning: "What the dropped lines said is not known; a fault may be among them.",
    causes: &["a flood of messages that fills the kernel's buffer faster than it is read", "a small buffer"],
    next_steps: &[
        "`dmesg | cut -d']' -f2- | sort | uniq -c | sort -n | tail`: which message floods.",
        "Boot with log_buf_len=4M.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let Reading::Value(log) = look.log else { return Vec::new() };
    let subject = "machine".to_owned();
    if log.lost == 0 {
        return vec![ok(ID, subject, "no record was lost".to_owned())];
    }
    vec![Finding {
        id: ID.into(),
        status: Status::Warn,
        subject,
        summary: format!("{} records of the kernel log were lost before they could be read", log.lost),
        cause: CHECK.causes.join(", or "),
        next_step: CHECK.next_steps.join(" "),
        evidence: vec![format!("lost = {}", log.lost), format!("lines = {}", log.lines)],
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use rdmascope_model::KernelLog;

    #[test]
    fn a_gap_is_a_warning_and_no_log_says_nothing() {
        let machine = rdmascope_fixtures::snapshot::roce(1);
        let policy = Policy::default();
        let seen = |log: Reading<KernelLog>| judge(&Look { log: &log, ..Look::first(&machine, &policy) });
        let gap = seen(Reading::Value(KernelLog { lost: 3, ..KernelLog::default() }));
        assert_eq!((gap[0].status, gap[0].evidence[0].as_str()), (Status::Warn, "lost = 3"));
        assert_eq!(seen(Reading::Value(KernelLog::default()))[0].status, Status::Ok);
        assert!(seen(Reading::Absent).is_empty() && seen(Reading::failed("EPERM")).is_empty());
    }
}
