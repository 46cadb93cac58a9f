//! `rdmascope check`: judges this machine, or a captured one, without coordinator and agent.

use crate::arguments::CheckFlags;
use crate::failure::{Failure, code};
use crate::output::{plain, print};
use rdmascope_checks::Policy;
use rdmascope_host::{Host, ask_verbs};
use rdmascope_model::in_one_line;
use rdmascope_model::{Finding, Snapshot, Status};
use serde_json::json;
use std::cmp::Reverse;

/// Runs it.
pub(crate) fn run(flags: &CheckFlags) -> Result<u8, Failure> {
    let snapshot = read(flags)?;
    let policy = Policy { devices: flags.devices.clone(), ..Policy::default() };
    let mut findings = rdmascope_checks::run(&rdmascope_checks::Look::first(&snapshot, &policy));
    // Stable: within a status the order of the checks stays, link layer first.
    findings.sort_by_key(|finding| Reverse(finding.status));
    let worst = rdmascope_checks::worst(&findings);
    print(&if flags.json { as_json(&snapshot, worst, &findings) } else { for_people(&findings) })?;
    Ok(rdmascope_checks::exit_code(worst))
}

fn read(flags: &CheckFlags) -> Result<Snapshot, Failure> {
    let host = match &flags.root {
        Some(root) => Host::new(root.clone()),
        None => Host::here(),
    };
    let host =
        host.map_err(|error| Failure::new(code::CHECK_UNKNOWN, in_one_line(&error)))?.only(&flags.devices);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::new(code::CHECK_UNKNOWN, format!("the program cannot be set up: {error}"))
    })?;
    let snapshot = runtime.block_on(host.snapshot(ask_verbs()));
    // A thread may be stuck in the kernel with a broken device; waiting for it would never end.
    runtime.shutdown_background();
    Ok(snapshot)
}

fn for_people(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        text.push_str(&block(finding));
    }
    let count = |status| findings.iter().filter(|finding| finding.status == status).count();
    let counts: Vec<String> = Status::ALL
        .into_iter()
        .rev()
        .map(|status| format!("{} {}", count(status), status.as_str()))
        .collect();
    text + &format!("{}\n", counts.join(", "))
}

/// One line when all is well, else with everything that helps.
fn block(finding: &Finding) -> String {
    let status = finding.status.as_str().to_uppercase();
    let mut text =
        format!("{status:<8}{}: {} [{}]\n", plain(&finding.subject), plain(&finding.summary), finding.id);
    if finding.status == Status::Ok {
        return text;
    }
    let seen = finding.evidence.join(", ");
    for (name, words) in [("seen", &seen), ("cause", &finding.cause), ("next step", &finding.next_step)] {
        if !words.is_empty() {
            text.push_str(&format!("        {:<11}{}\n", format!("{name}:"), plain(words)));
        }
    }
    text + "\n"
}

fn as_json(snapshot: &Snapshot, worst: Status, findings: &[Finding]) -> String {
    let findings: Vec<_> = findings
        .iter()
        .map(|finding| {
            json!({
                "id": finding.id,
                "status": finding.status.as_str(),
                "subject": finding.subject,
                "summary": finding.summary,
                "cause": finding.cause,
                "next_step": finding.next_step,
                "evidence": finding.evidence,
            })
        })
        .collect();
    let report = json!({
        "status": worst.as_str(),
        "taken_at": snapshot.taken_at.to_string(),
        "findings": findings,
    });
    format!("{report:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(status: Status) -> Finding {
        Finding {
            id: "port-state".into(),
            status,
            subject: "mlx5_0/1".to_owned(),
            summary: "the port is DOWN".to_owned(),
            cause: "no cable".to_owned(),
            next_step: "Plug it in.".to_owned(),
            evidence: vec!["state = DOWN".to_owned()],
        }
    }

    #[test]
    fn a_fault_says_what_was_seen_why_and_what_to_do() {
        assert_eq!(
            for_people(&[finding(Status::Fail), finding(Status::Ok)]),
            "FAIL    mlx5_0/1: the port is DOWN [port-state]\n        \
                     seen:      state = DOWN\n        \
                     cause:     no cable\n        \
                     next step: Plug it in.\n\n\
             OK      mlx5_0/1: the port is DOWN [port-state]\n\
             1 fail, 0 unknown, 0 warn, 1 ok\n"
        );
    }

    #[test]
    fn nothing_from_the_machine_reaches_the_terminal_as_a_command() {
        let evil = Finding { summary: "down\u{1b}[2J\nOK".to_owned(), ..finding(Status::Warn) };
        let text = for_people(&[evil]);
        assert!(!text.contains('\u{1b}') && text.contains("down [2J OK"), "{text}");
    }
}
