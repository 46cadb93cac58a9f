//! What is to be done with a node in Slurm, from the agent's verdict and what was done before; pure.

use super::scontrol::SlurmNode;
use rdmascope_expose::api::{HeldFinding, NodeVerdictView};
use std::collections::BTreeSet;

/// Each reason of ours begins with it; what begins otherwise is somebody else's.
pub(super) const LEADER: &str = "rdmascope: ";
/// Longest reason, characters: it has to be read in a table of `sinfo -R`.
const REASON_MAX: usize = 200;

/// Id and subject of a fault.
pub(super) type FaultKey = (String, String);

/// What the verdict asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish<'a> {
    /// All is as it was.
    Nothing,
    /// Nobody knows, and nothing is to be done.
    CannotSay(&'a str),
    /// A fault stands that was not there before: drain, with leave.
    Drain,
    /// The faults are over, and a person resumes: only the memory of them is to go.
    Forget,
    /// The faults are over: resume.
    Resume,
}

/// The hard local faults that stand.
pub(super) fn faults(verdict: &NodeVerdictView) -> Vec<&HeldFinding> {
    verdict.findings.iter().filter(|finding| finding.hard).collect()
}

/// `known`: the faults for which something was done; `None` when nothing is remembered, as after a boot.
pub(super) fn wish<'a>(
    verdict: &'a NodeVerdictView,
    known: Option<&BTreeSet<FaultKey>>,
    resumes: bool,
) -> Wish<'a> {
    if let Some(why) = &verdict.cannot_say {
        return Wish::CannotSay(why);
    }
    let stand = faults(verdict);
    let is_known = |fault: &&HeldFinding| {
        known.is_some_and(|known| {
            known.iter().any(|(id, subject)| *id == fault.id && *subject == fault.subject)
        })
    };
    match (stand.as_slice(), known) {
        // What was drained before a boot, and is fine now, is remembered by Slurm alone.
        ([], None) if resumes => Wish::Resume,
        ([], Some(known)) if !known.is_empty() => {
            if resumes {
                Wish::Resume
            } else {
                Wish::Forget
            }
        }
        ([], _) => Wish::Nothing,
        (stand, _) if stand.iter().all(is_known) => Wish::Nothing,
        _ => Wish::Drain,
    }
}

/// The faults for which the node may be drained.
///
/// # Errors
/// It may not: why.
pub(super) fn leave(verdict: &NodeVerdictView) -> Result<Vec<&HeldFinding>, &str> {
    if let Some(why) = &verdict.cannot_say {
        return Err(why);
    }
    let stand = faults(verdict);
    match &verdict.leave {
        Some(leave) if leave.granted && !stand.is_empty() => Ok(stand),
        Some(leave) => Err(&leave.why),
        None => Err("the agent did not say whether the node may be drained"),
    }
}

/// What is to be done with a node, as Slurm has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Do it.
    Go,
    /// It is as it should be.
    Done,
    /// It has this reason, which is not ours: nothing may be done.
    NotOurs(String),
}

/// Whether to drain a node. One that has a reason of somebody else's, in whatever state, is left alone: draining would put ours in its place.
pub(super) fn drain_step(node: &SlurmNode) -> Step {
    match node.reason.as_str() {
        "" => Step::Go,
        reason if !reason.starts_with(LEADER.trim_end()) => Step::NotOurs(reason.to_owned()),
        _ if node.is_drained() => Step::Done,
        _ => Step::Go,
    }
}

/// Whether to resume a node.
pub(super) fn resume_step(node: &SlurmNode) -> Step {
    match node.reason.as_str() {
        _ if !node.is_drained() => Step::Done,
        reason if reason.starts_with(LEADER.trim_end()) => Step::Go,
        reason => Step::NotOurs(reason.to_owned()),
    }
}

/// The reason for Slurm, on one line, and without the characters by which Slurm sets off words.
pub(super) fn reason(faults: &[&HeldFinding]) -> String {
    let told = faults.iter().map(|fault| format!("{} {}: {}", fault.id, fault.subject, fault.summary));
    let text = format!("{LEADER}{}", told.collect::<Vec<_>>().join("; "));
    let plain = |c: char| if c.is_control() || matches!(c, '"' | '\'' | '[' | ']' | '|') { ' ' } else { c };
    text.chars().map(plain).take(REASON_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_expose::api::{LeaveView, Severity};

    fn finding(status: Severity, hard: bool) -> HeldFinding {
        HeldFinding {
            id: "port-phys-state".to_owned(),
            status,
            subject: "mlx5_0/1".to_owned(),
            summary: "the physical link is not up: Disabled".to_owned(),
            next_step: "Swap the cable.".to_owned(),
            hard,
        }
    }

    fn verdict(findings: Vec<HeldFinding>) -> NodeVerdictView {
        NodeVerdictView {
            version: String::new(),
            node: "n1".to_owned(),
            connected: true,
            cannot_say: None,
            parts: Vec::new(),
            findings,
            findings_left_out: 0,
            leave: None,
        }
    }

    fn asked(findings: Vec<HeldFinding>, granted: bool) -> NodeVerdictView {
        let leave = Some(LeaveView { granted, why: "the count".to_owned() });
        NodeVerdictView { leave, ..verdict(findings) }
    }

    fn hard() -> HeldFinding {
        finding(Severity::Fail, true)
    }

    fn known() -> BTreeSet<FaultKey> {
        [("port-phys-state".to_owned(), "mlx5_0/1".to_owned())].into()
    }

    fn node(state: &str, reason: &str) -> SlurmNode {
        SlurmNode { state: state.to_owned(), reason: reason.to_owned() }
    }

    #[test]
    fn only_a_new_hard_fault_asks_for_a_drain() {
        let none = BTreeSet::new();
        for known in [None, Some(&none)] {
            assert_eq!(wish(&verdict(vec![hard()]), known, false), Wish::Drain);
            for status in [Severity::Fail, Severity::Unknown, Severity::Warn] {
                let soft = verdict(vec![finding(status, false)]);
                assert_eq!(wish(&soft, known, false), Wish::Nothing, "{status:?}");
            }
        }
        assert_eq!(wish(&verdict(vec![hard()]), Some(&known()), false), Wish::Nothing, "done already");
        let second = HeldFinding { subject: "mlx5_1/1".to_owned(), ..hard() };
        assert_eq!(wish(&verdict(vec![hard(), second]), Some(&known()), false), Wish::Drain, "one more");
    }

    #[test]
    fn out_of_date_is_never_a_change() {
        let old = NodeVerdictView { cannot_say: Some("too long".to_owned()), ..asked(vec![hard()], true) };
        for known in [None, Some(&known())] {
            for resumes in [false, true] {
                assert_eq!(wish(&old, known, resumes), Wish::CannotSay("too long"));
            }
        }
        assert_eq!(leave(&old), Err("too long"));
    }

    #[test]
    fn a_person_resumes_unless_it_is_told_otherwise() {
        let fine = verdict(Vec::new());
        assert_eq!(wish(&fine, Some(&known()), false), Wish::Forget);
        assert_eq!(wish(&fine, Some(&known()), true), Wish::Resume);
        assert_eq!(wish(&fine, Some(&BTreeSet::new()), true), Wish::Nothing, "done already");
        assert_eq!(wish(&fine, None, true), Wish::Resume, "Slurm may remember what a boot made us forget");
        assert_eq!(wish(&fine, None, false), Wish::Nothing);
    }

    #[test]
    fn without_the_coordinators_word_there_is_no_leave() {
        assert_eq!(leave(&asked(vec![hard()], true)).map(|faults| faults.len()), Ok(1));
        assert_eq!(leave(&asked(vec![hard()], false)), Err("the count"));
        assert!(leave(&verdict(vec![hard()])).is_err(), "nobody was asked");
        assert!(
            leave(&asked(vec![finding(Severity::Fail, false)], true)).is_err(),
            "and there must be a fault"
        );
    }

    #[test]
    fn the_reason_of_somebody_else_is_left_alone_in_every_state() {
        for state in ["IDLE+DRAIN", "DOWN*", "MIXED", "IDLE"] {
            let foreign = node(state, "Kim: new cable");
            assert_eq!(drain_step(&foreign), Step::NotOurs("Kim: new cable".to_owned()), "{state}");
        }
        assert_eq!(drain_step(&node("IDLE", "")), Step::Go);
        assert_eq!(drain_step(&node("IDLE+DRAIN", "rdmascope: port-state d/1: down")), Step::Done);
        assert_eq!(drain_step(&node("IDLE", "rdmascope: port-state d/1: down")), Step::Go, "resumed by hand");
        assert_eq!(resume_step(&node("IDLE+DRAIN", "rdmascope: x")), Step::Go);
        assert_eq!(resume_step(&node("IDLE+DRAIN", "rdmascoped")), Step::NotOurs("rdmascoped".to_owned()));
        assert_eq!(
            resume_step(&node("IDLE+DRAIN", "Prolog error")),
            Step::NotOurs("Prolog error".to_owned())
        );
        assert_eq!(resume_step(&node("DOWN*", "Not responding")), Step::Done, "it is not drained");
    }

    #[test]
    fn a_reason_is_one_line_with_our_leader() {
        let odd = HeldFinding { summary: "line\n\"two\" [x]|".repeat(50), ..hard() };
        let reason = reason(&[&hard(), &odd]);
        assert!(
            reason.starts_with("rdmascope: port-phys-state mlx5_0/1: the physical link is not up"),
            "{reason}"
        );
        assert_eq!(reason.chars().count(), REASON_MAX);
        assert!(!reason.contains(|c: char| c.is_control() || "\"[]|'".contains(c)), "{reason}");
    }
}
