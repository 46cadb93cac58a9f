//! Findings and what can be seen, in words for people, for programs, and for two schedulers.

use super::is_problem;
use crate::output::plain;
use crate::screen::{Screen, Tone, painted};
use rdmascope_expose::api::{BlindSpot, CheckReport, SightReport, SightView};
use rdmascope_host::Sight;
use rdmascope_model::{Finding, Reading, Snapshot, Status};

/// Longest message that node-problem-detector keeps of a plugin (`max_output_length`, default 80 bytes).
const NPD_BYTES: usize = 80;

/// Subjects that are named where findings are folded.
const NAMED: usize = 4;

/// The worst first, then the counts. What is fine takes one line for each check, unless `all` is wanted.
pub(super) fn for_people(findings: &[Finding], all: bool) -> String {
    let mut text = String::new();
    let folded = |finding: &&Finding| finding.status == Status::Ok && !all;
    for finding in findings.iter().filter(|finding| !folded(finding)) {
        text.push_str(&block(finding));
    }
    let fine: Vec<&Finding> = findings.iter().filter(folded).collect();
    // The checks come one after the other, so the findings of each lie together.
    for group in fine.chunk_by(|a, b| a.id == b.id) {
        text.push_str(&match group {
            [one] => block(one),
            several => fold(several),
        });
    }
    let count = |status| findings.iter().filter(|finding| finding.status == status).count();
    let counts: Vec<String> = Status::ALL
        .into_iter()
        .rev()
        .map(|status| format!("{} {}", count(status), status.as_str()))
        .collect();
    text.push_str(&format!("{}\n", counts.join(", ")));
    if let Some(bad) = findings.iter().find(|finding| finding.status != Status::Ok) {
        text.push_str(&format!("more about a finding: rdmascope explain {}\n", bad.id));
    }
    text
}

/// One line when all is well, else with everything that helps.
fn block(finding: &Finding) -> String {
    let mut text = format!("{:<8}{}\n", label(finding.status), line(finding));
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

fn fold(fine: &[&Finding]) -> String {
    let mut subjects: Vec<String> = fine.iter().take(NAMED).map(|finding| plain(&finding.subject)).collect();
    if fine.len() > NAMED {
        subjects.push(format!("and {} more", fine.len() - NAMED));
    }
    let id = fine.first().map_or("", |finding| &finding.id);
    format!("{:<8}{} [{id}]\n", label(Status::Ok), subjects.join(", "))
}

fn label(status: Status) -> String {
    status.as_str().to_uppercase()
}

fn line(finding: &Finding) -> String {
    format!("{}: {} [{}]", plain(&finding.subject), plain(&finding.summary), finding.id)
}

/// The same for programs.
pub(super) fn report(
    snapshot: &Snapshot,
    worst: Status,
    findings: &[Finding],
    sights: &[Sight],
) -> CheckReport {
    let blind = sights.iter().filter_map(|sight| match &sight.seen {
        Reading::Failed(why) => {
            Some(BlindSpot { what: sight.what.to_owned(), why: why.clone(), needs: sight.needs.clone() })
        }
        Reading::Value(()) | Reading::Absent => None,
    });
    CheckReport::new(snapshot, worst, findings, blind.collect())
}

/// What matters most, in one line; findings are in order, the worst first.
pub(super) fn worst_line(findings: &[Finding]) -> String {
    match findings.iter().find(|finding| finding.status != Status::Ok) {
        Some(worst) => {
            let problems = findings.iter().filter(|finding| finding.status != Status::Ok).count();
            let more = if problems > 1 { format!("(+{}) ", problems - 1) } else { String::new() };
            format!("{more}{} {}: {}", worst.id, worst.subject, worst.summary)
        }
        None if findings.is_empty() => "nothing could be judged".to_owned(),
        None => format!("{} findings, all ok", findings.len()),
    }
}

/// The form of monitoring plugins: the worst and counts in the first line, then every problem. A bar would begin the counts, so texts
/// have none.
pub(super) fn for_nagios(findings: &[Finding], worst: Status) -> String {
    let word = match worst {
        Status::Ok => "OK",
        Status::Warn => "WARNING",
        Status::Fail => "CRITICAL",
        Status::Unknown => "UNKNOWN",
    };
    let count = |status| findings.iter().filter(|finding| finding.status == status).count();
    let mut text = format!(
        "RDMA {word}: {} | fail={};;0 unknown={} warn={};0 ok={}\n",
        without_bar(&worst_line(findings)),
        count(Status::Fail),
        count(Status::Unknown),
        count(Status::Warn),
        count(Status::Ok)
    );
    for finding in findings.iter().filter(|finding| finding.status != Status::Ok) {
        text.push_str(&format!("{} {}\n", label(finding.status), without_bar(&line(finding))));
    }
    text
}

/// The same where nothing was judged.
pub(super) fn nagios_unknown(why: &str) -> String {
    format!("RDMA UNKNOWN: {}\n", without_bar(why))
}

fn without_bar(text: &str) -> String {
    plain(text).replace('|', "/")
}

/// One line of at most 80 bytes, cut where no letter is torn apart.
pub(super) fn for_npd(text: &str) -> String {
    let mut text = plain(text);
    while text.len() > NPD_BYTES {
        text.pop();
    }
    text + "\n"
}

/// One line for each failure and for what could not be judged; silence when there is none.
pub(super) fn for_slurm(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "rdmascope: UNKNOWN nothing could be judged\n".to_owned();
    }
    let problems = findings.iter().filter(is_problem);
    problems.map(|finding| format!("rdmascope: {} {}\n", label(finding.status), line(finding))).collect()
}

/// What can be seen, as a table.
pub(super) fn sights(sights: &[Sight], screen: Screen) -> String {
    let wide = sights.iter().map(|sight| sight.what.len()).max().unwrap_or(0);
    let mut text = String::new();
    for SightView { what, seen, needs, why } in sight_report(sights).sights {
        let tone = match seen.as_str() {
            SEEN => Tone::Good,
            NOT_SEEN => Tone::Unknown,
            _ => Tone::Faint,
        };
        let word = painted(&format!("{seen:<SEEN_WIDTH$}"), Some(tone), screen.colour);
        text.push_str(&format!("{what:<wide$}  {word}  needs {needs}\n"));
        if let Some(why) = why {
            text.push_str(&format!("{:<wide$}  why:       {why}\n", ""));
        }
    }
    text
}

const SEEN: &str = "seen";
const NOT_SEEN: &str = "not seen";
/// The longest of these words.
const SEEN_WIDTH: usize = 9;

/// The same for programs.
pub(super) fn sight_report(sights: &[Sight]) -> SightReport {
    let view = |sight: &Sight| {
        let (seen, why) = match &sight.seen {
            Reading::Value(()) => (SEEN, None),
            Reading::Absent => ("none here", None),
            Reading::Failed(why) => (NOT_SEEN, Some(plain(why))),
        };
        SightView { what: sight.what.to_owned(), seen: seen.to_owned(), needs: sight.needs.clone(), why }
    };
    SightReport { sights: sights.iter().map(view).collect() }
}

/// Every file that was opened.
pub(super) fn audit(opened: &[String]) -> String {
    let mut text = String::from("Opened for reading; nothing was written:\n");
    for path in opened {
        text.push_str(&format!("/{}\n", plain(path)));
    }
    text + &format!(
        "{} files and folders. Besides, on a live machine: netlink sockets, which are asked and never told, and the \
         devices of libibverbs, for the MTU of each port.\n",
        opened.len()
    )
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
            for_people(&[finding(Status::Fail), finding(Status::Ok)], false),
            "FAIL    mlx5_0/1: the port is DOWN [port-state]\n        \
                     seen:      state = DOWN\n        \
                     cause:     no cable\n        \
                     next step: Plug it in.\n\n\
             OK      mlx5_0/1: the port is DOWN [port-state]\n\
             1 fail, 0 unknown, 0 warn, 1 ok\n\
             more about a finding: rdmascope explain port-state\n"
        );
    }

    #[test]
    fn what_is_fine_is_folded_to_one_line_for_each_check() {
        let mut fine = vec![finding(Status::Ok); 6];
        fine[5].id = "port-rate".into();
        assert_eq!(
            for_people(&fine, false),
            "OK      mlx5_0/1, mlx5_0/1, mlx5_0/1, mlx5_0/1, and 1 more [port-state]\n\
             OK      mlx5_0/1: the port is DOWN [port-rate]\n0 fail, 0 unknown, 0 warn, 6 ok\n"
        );
        assert_eq!(for_people(&fine, true).lines().count(), 7);
    }

    #[test]
    fn nothing_from_the_machine_reaches_the_terminal_as_a_command() {
        let evil = Finding { summary: "down\u{1b}[2J\nOK".to_owned(), ..finding(Status::Warn) };
        let text = for_people(std::slice::from_ref(&evil), false);
        assert!(!text.contains('\u{1b}') && text.contains("down [2J OK"), "{text}");
        let failed = Finding { status: Status::Fail, ..evil };
        assert_eq!(for_slurm(std::slice::from_ref(&failed)).lines().count(), 1);
        assert!(!for_npd(&worst_line(&[failed])).contains('\u{1b}'));
    }

    #[test]
    fn schedulers_get_what_they_can_keep() {
        let long = Finding { summary: "µ".repeat(100), ..finding(Status::Fail) };
        let message = for_npd(&worst_line(&[long.clone(), finding(Status::Warn)]));
        assert!(message.starts_with("(+1) port-state mlx5_0/1: µ"), "{message}");
        assert!(message.trim_end().len() <= 80 && message.trim_end().len() > 78, "{message}");
        assert_eq!(for_slurm(&[finding(Status::Warn), finding(Status::Ok)]), "");
        assert_eq!(worst_line(&[finding(Status::Ok)]), "1 findings, all ok");
    }

    #[test]
    fn monitoring_plugins_have_their_counts_behind_the_only_bar() {
        let barred = Finding { summary: "a | b".to_owned(), ..finding(Status::Warn) };
        assert_eq!(
            for_nagios(&[finding(Status::Fail), barred, finding(Status::Ok)], Status::Fail),
            "RDMA CRITICAL: (+1) port-state mlx5_0/1: the port is DOWN | fail=1;;0 unknown=0 warn=1;0 ok=1\n\
             FAIL mlx5_0/1: the port is DOWN [port-state]\nWARN mlx5_0/1: a / b [port-state]\n"
        );
        assert!(for_nagios(&[], Status::Unknown).starts_with("RDMA UNKNOWN: nothing could be judged | "));
        assert_eq!(nagios_unknown("a|b"), "RDMA UNKNOWN: a/b\n");
    }
}
