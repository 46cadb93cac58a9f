//! Runs inside the lab for `cargo xtask bench`: measures, compares with what was asked, prints one row for each.
#![expect(clippy::print_stdout, reason = "the rows are this program's output")]

use serde_json::json;
use std::process::ExitCode;

/// One measured thing beside what was asked of it.
struct Row {
    what: &'static str,
    seen: f64,
    unit: &'static str,
    asked: String,
    holds: bool,
    /// What it is compared with, and what was seen of that; nothing when it stands alone.
    against: Option<(&'static str, f64)>,
}

impl Row {
    fn print(&self, as_json: bool) {
        let (against, seen_against) = self.against.unzip();
        if as_json {
            println!(
                "{}",
                json!({
                    "what": self.what, "seen": self.seen, "unit": self.unit, "asked": self.asked,
                    "holds": self.holds, "against": against, "seen_against": seen_against,
                })
            );
            return;
        }
        let verdict = if self.holds { "holds" } else { "FALLS SHORT" };
        let beside = against.zip(seen_against).map(|(what, seen)| format!(" ({what}: {seen:.2})"));
        println!(
            "{:44} {:>10.2} {:6} asked {:12} {verdict}{}",
            self.what,
            self.seen,
            self.unit,
            self.asked,
            beside.unwrap_or_default()
        );
    }
}

fn main() -> ExitCode {
    let as_json = std::env::args().any(|argument| argument == "--json");
    let rows = lab_rows();
    for row in &rows {
        row.print(as_json);
    }
    // No row at all is no proof of anything.
    if !rows.is_empty() && rows.iter().all(|row| row.holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn lab_rows() -> Vec<Row> {
    let active = rdmascope_tests::guest::endpoints().filter(|endpoint| endpoint.is_active()).count();
    vec![Row {
        what: "endpoints of the lab that are active",
        seen: u32::try_from(active).map_or(f64::NAN, f64::from),
        unit: "",
        asked: ">= 4".to_owned(),
        holds: active >= 4,
        against: None,
    }]
}
