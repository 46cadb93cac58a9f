//! The report in a terminal: the verdict first, then what was not tested, then who is suspect, then figures.

use super::judged::number;
use super::word;
use crate::figures::Unit;
use crate::output::plain;
use rdmascope_expose::api::{BatchPairView, SelfcheckReport, Severity};

/// Columns of a newcomer's terminal.
const COLUMNS: usize = 80;
/// Entries of a kind on the screen; files have all.
const SHOWN_MAX: usize = 10;
/// Pairs of a metric in the list of the worst.
const WORST_MAX: usize = 5;

/// The whole report.
pub(crate) fn text(report: &SelfcheckReport) -> String {
    let mut text = String::new();
    wrapped(&mut text, "", &report.headline);
    let carry = if report.drained { "drained" } else { "live" };
    let words = format!(
        "preset {}, seed {}, nodes {carry}, {:.0} s, from {}",
        report.preset, report.seed, report.seconds, report.began_at
    );
    wrapped(&mut text, "", &words);
    if report.interrupted {
        text.push_str("It was interrupted: what had not begun was not tested.\n");
    }
    section(&mut text, "not tested", report.not_tested.len(), |text| {
        for one in report.not_tested.iter().take(SHOWN_MAX) {
            wrapped(text, "  ", &format!("{}: {}", plain(&one.what), plain(&one.reason)));
            wrapped(text, "    ", &format!("next step: {}", plain(&one.next_step)));
        }
    });
    section(&mut text, "suspects", report.suspects.len(), |text| {
        for one in report.suspects.iter().take(SHOWN_MAX) {
            wrapped(text, "  ", &format!("{:<5}{}", word(one.status), one.names.join(", or ")));
            wrapped(text, "       ", &one.text);
            one.evidence.iter().take(SHOWN_MAX).for_each(|line| wrapped(text, "       seen: ", line));
            wrapped(text, "       next step: ", &one.next_step);
        }
    });
    let nodes: Vec<_> = report.nodes.iter().filter(|node| node.status != Severity::Ok).collect();
    section(&mut text, "nodes that are not fine", nodes.len(), |text| {
        for node in nodes.iter().take(SHOWN_MAX) {
            wrapped(text, "  ", &format!("{:<11}{}", word(node.status), plain(&node.name)));
            node.text.iter().take(SHOWN_MAX).for_each(|line| wrapped(text, "             ", &plain(line)));
        }
    });
    text.push_str("\nstages\n");
    for stage in &report.stages {
        let line = format!(
            "{:<10} {:<11}{} ({:.1} s)",
            stage.name,
            word(stage.status),
            plain(&stage.text),
            stage.seconds
        );
        wrapped(&mut text, "  ", &line);
    }
    limits(&mut text, report);
    worst(&mut text, report);
    text
}

/// A heading and its entries, and how many more there are; nothing where there are none.
fn section(text: &mut String, title: &str, count: usize, entries: impl FnOnce(&mut String)) {
    if count == 0 {
        return;
    }
    text.push_str(&format!("\n{title}\n"));
    entries(text);
    if count > SHOWN_MAX {
        text.push_str(&format!("  and {} more (--report FILE has all)\n", count - SHOWN_MAX));
    }
}

/// Words in lines of at most 80 columns; what follows the first line stands below its text.
fn wrapped(text: &mut String, indent: &str, words: &str) {
    let first = indent.len();
    let hanging =
        " ".repeat(indent.chars().take_while(|c| *c == ' ').count() + if first > 0 { 2 } else { 0 });
    let mut line = indent.to_owned();
    let mut empty = true;
    for word in words.split(' ') {
        if !empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            text.push_str(line.trim_end());
            text.push('\n');
            line.clone_from(&hanging);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

fn limits(text: &mut String, report: &SelfcheckReport) {
    if report.limits.is_empty() {
        return;
    }
    text.push_str("\nlimits\n");
    text.push_str(&format!("  {:<19}{:<18}{:>11}{:>11}  miss it\n", "name", "asked", "worst", "median"));
    for limit in &report.limits {
        let sign = if limit.sense == "at least" { "\u{2265} " } else { "\u{2264} " };
        let sign = if limit.sense.is_empty() { "" } else { sign };
        let asked =
            limit.asked.map_or("any".to_owned(), |asked| format!("{sign}{} {}", number(asked), limit.unit));
        let of = |value: Option<f64>| value.map_or("-".to_owned(), number);
        let missed = match (limit.asked, limit.judged, limit.sense.as_str()) {
            (None, ..) | (_, _, "") => "-".to_owned(),
            (_, 0, _) => "not tested".to_owned(),
            (_, judged, _) => format!("{}/{judged}", limit.missed),
        };
        let flag = if limit.from == "flag" { "*" } else { "" };
        let (worst, median) = (of(limit.worst), of(limit.median));
        text.push_str(&format!("  {:<19}{asked:<18}{worst:>11}{median:>11}  {missed}{flag}\n", limit.name));
    }
    if report.limits.iter().any(|limit| limit.from == "flag") {
        text.push_str("  * given by --limit\n");
    }
}

/// How bad a pair is: the larger the worse.
pub(crate) fn badness(pair: &BatchPairView) -> (u8, u64) {
    match (pair.status, pair.value) {
        (Severity::Fail, None) => (3, 0),
        (_, Some(value)) if pair.metric == "bandwidth" => (1, u64::MAX - value),
        (_, Some(value)) => (1, value),
        (_, None) => (0, 0),
    }
}

/// A pair's figure, or why there is none.
pub(crate) fn figure(pair: &BatchPairView) -> String {
    match pair.value {
        Some(value) if pair.metric == "bandwidth" => {
            let share = pair.ratio_to_ceiling.map(|ratio| format!(" ({:.1} %)", 100.0 * ratio));
            format!("{}{}", Unit::of_rates(value).show(value), share.unwrap_or_default())
        }
        Some(value) => Unit::Microseconds.show(value),
        None => pair.why.join(", "),
    }
}

fn worst(text: &mut String, report: &SelfcheckReport) {
    for metric in ["latency", "bandwidth"] {
        let mut of: Vec<&BatchPairView> =
            report.pairs.iter().filter(|p| p.metric == metric && badness(p).0 > 0).collect();
        if of.is_empty() {
            continue;
        }
        of.sort_by_key(|pair| std::cmp::Reverse(badness(pair)));
        text.push_str(&format!("\nworst pairs, {metric}\n"));
        for pair in of.iter().take(WORST_MAX) {
            let name = |at: u32| plain(report.endpoints.get(at as usize).map_or("?", String::as_str));
            let status = if pair.status == Severity::Ok { "" } else { word(pair.status) };
            let line = format!("{status:<5}{} -> {}  {}", name(pair.source), name(pair.target), figure(pair));
            wrapped(text, "  ", &line);
        }
    }
}
