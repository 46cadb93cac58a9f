//! The kernel-log rules: memory of the set, and time for a line, in a process of their own.

use super::super::cpu::{milliseconds, resident_mb};
use super::super::row::{Asked, Row};
use rdmascope_checks::log::{Rules, Tally, Times};
use rdmascope_model::{Reading, Wall};
use std::process::{Command, ExitCode};

/// The word that runs [`alone`].
pub(super) const PART: &str = "node-rules";
const LINES: &str = include_str!("../../../../../crates/checks/rules/published-lines.txt");
/// Lines of other messages for each that a rule knows.
const UNKNOWN_FOR_KNOWN: usize = 9;
/// Lines of one measurement.
const BATCH: usize = 10_000;
/// The flood of which the share of a processor is told, lines per second.
const FLOOD: f64 = 1_000.0;

pub(super) fn rows() -> Vec<Row> {
    eprintln!("bench: the kernel-log rules");
    let own = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
    let output = Command::new(own).arg(PART).output().unwrap_or_else(|error| panic!("{error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let figures: Vec<f64> = text.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
    let [megabytes, loading, line, rules] = figures[..] else {
        panic!("four figures were expected: {text:?}")
    };
    vec![
        Row {
            what: "kernel-log rules, resident memory of the set",
            seen: megabytes,
            unit: "MB",
            asked: Asked::AtMost(3.0),
            against: Some(("rules", rules)),
        },
        Row {
            what: "kernel-log rules, one line (9 unknown, 1 known)",
            seen: line * 1e3,
            unit: "us",
            asked: Asked::AtMost(5.0),
            against: None,
        },
        Row {
            what: "kernel-log rules, 1,000 lines a second, of one core",
            seen: line * FLOOD / 1e3 * 100.0,
            unit: "%",
            asked: Asked::AtMost(0.5),
            against: None,
        },
        Row {
            what: "kernel-log rules, reading the set once",
            seen: loading,
            unit: "ms",
            asked: Asked::Nothing,
            against: None,
        },
    ]
}

/// Prints megabytes, milliseconds of loading and of a line, and the number of rules.
pub(super) fn alone() -> ExitCode {
    let before = resident_mb(std::process::id());
    let rules = Rules::builtin();
    let megabytes = resident_mb(std::process::id()) - before;
    let loading = milliseconds(1, || drop(Rules::builtin()));
    let known: Vec<&str> = LINES.lines().filter_map(|line| line.splitn(3, ' ').nth(2)).collect();
    let lines: Vec<String> = (0..BATCH)
        .map(|n| match (n % (UNKNOWN_FOR_KNOWN + 1), known.get(n / (UNKNOWN_FOR_KNOWN + 1) % known.len())) {
            (0, Some(line)) => (*line).to_owned(),
            _ => format!(
                "[  12.{:06}] usb 1-{n}: new high-speed USB device number {n} using xhci_hcd, SerialNumber=1",
                n % 1_000_000
            ),
        })
        .collect();
    let times =
        Times { read_at: Wall(1_796_000_000_000), booted_at: Reading::Value(Wall(1_795_000_000_000)) };
    let mut tally = Tally::new(&rules, Some(1));
    let batch = milliseconds(1, || {
        for line in &lines {
            tally.line(line, &times);
        }
    });
    println!("{megabytes} {loading} {} {}", batch / lines.len() as f64, rules.docs().len());
    ExitCode::SUCCESS
}
