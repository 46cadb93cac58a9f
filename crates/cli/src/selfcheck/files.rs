//! The report as files: JSON, JUnit, CSV and HTML.

use super::html;
use super::text::figure;
use crate::failure::{Failure, code};
use crate::output::plain;
use rdmascope_expose::api::{BatchPairView, SelfcheckReport, Severity};
use std::path::{Path, PathBuf};

/// Writes the report to each file, in the form that its name says.
pub(crate) fn write(report: &SelfcheckReport, files: &[PathBuf]) -> Result<(), Failure> {
    for file in files {
        let text = match file.extension().and_then(|end| end.to_str()) {
            Some("html") => html::html(report)?,
            Some("xml") => junit(report),
            Some("csv") => csv(report),
            _ => json(report)?,
        };
        std::fs::write(file, text).map_err(|error| cannot(file, &error))?;
    }
    Ok(())
}

fn cannot(file: &Path, error: &std::io::Error) -> Failure {
    Failure::new(code::CHECK_UNKNOWN, format!("the report {} cannot be written: {error}", file.display()))
        .then("Name a file in a folder that is there and can be written.")
}

/// The report as JSON.
pub(crate) fn json(report: &SelfcheckReport) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(report);
    let text = text.map_err(|error| {
        Failure::new(code::CHECK_UNKNOWN, format!("the report cannot be written: {error}"))
    })?;
    Ok(text + "\n")
}

/// Text as it may stand in XML and HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in plain(text).chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // No character of XML 1.0.
            '\u{fffe}' | '\u{ffff}' => out.push('?'),
            other => out.push(other),
        }
    }
    out
}

/// One case of a suite: its name, how it came out, and the words.
struct Case {
    name: String,
    status: Severity,
    text: String,
}

/// A suite for each stage and one for what was not tested: what was not tested is skipped, never passed.
fn junit(report: &SelfcheckReport) -> String {
    let mut suites: Vec<(String, f64, Vec<Case>)> = Vec::new();
    for stage in &report.stages {
        let mut cases =
            vec![Case { name: "stage".to_owned(), status: stage.status, text: stage.text.clone() }];
        match stage.name.as_str() {
            "local" => cases.extend(report.nodes.iter().map(|node| Case {
                name: node.name.clone(),
                status: node.status,
                text: node.text.join("; "),
            })),
            "incast" => cases.extend(report.incasts.iter().map(|incast| Case {
                name: format!("{} senders to {}", incast.sources.len(), incast.target),
                status: incast.status,
                text: incast.text.join("; "),
            })),
            "alone" => cases.extend(report.suspects.iter().map(|suspect| Case {
                name: suspect.names.join(", or "),
                status: suspect.status,
                text: format!(
                    "{}; {}; next step: {}",
                    suspect.text,
                    suspect.evidence.join("; "),
                    suspect.next_step
                ),
            })),
            metric => cases.extend(of_nodes(report, metric)),
        }
        suites.push((stage.name.clone(), stage.seconds, cases));
    }
    let skipped = report.not_tested.iter().map(|one| Case {
        name: one.what.clone(),
        status: Severity::Unknown,
        text: format!("{}; next step: {}", one.reason, one.next_step),
    });
    suites.push(("not tested".to_owned(), 0.0, skipped.collect()));
    let mut text =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"rdmascope selfcheck\">\n".to_owned();
    for (name, seconds, cases) in suites {
        let count = |status| cases.iter().filter(|case| case.status == status).count();
        text.push_str(&format!(
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{seconds:.3}\" timestamp=\"{}\">\n",
            escaped(&name),
            cases.len(),
            count(Severity::Fail),
            count(Severity::Unknown),
            escaped(&report.began_at)
        ));
        for case in &cases {
            let (own, words) = (escaped(&case.name), escaped(&case.text));
            let inside = match case.status {
                Severity::Fail => format!("<failure message=\"{words}\"/>"),
                Severity::Unknown => format!("<skipped message=\"not tested: {words}\"/>"),
                Severity::Warn => format!("<system-out>warning: {words}</system-out>"),
                Severity::Ok => String::new(),
            };
            let suite = escaped(&name);
            text.push_str(&format!(
                "    <testcase classname=\"selfcheck.{suite}\" name=\"{own}\">{inside}</testcase>\n"
            ));
        }
        text.push_str("  </testsuite>\n");
    }
    text + "</testsuites>\n"
}

/// What each node's pairs of a stage came to, whichever end it was.
fn of_nodes(report: &SelfcheckReport, metric: &str) -> Vec<Case> {
    let node =
        |at: u32| report.endpoints.get(at as usize).and_then(|name| name.split('/').next()).unwrap_or("?");
    let mut of: std::collections::BTreeMap<&str, [usize; 3]> = std::collections::BTreeMap::new();
    for pair in report.pairs.iter().filter(|pair| pair.metric == metric) {
        for name in [node(pair.source), node(pair.target)] {
            let [fine, bad, untested] = of.entry(name).or_default();
            match pair.status {
                Severity::Fail => *bad += 1,
                Severity::Unknown => *untested += 1,
                Severity::Ok | Severity::Warn => *fine += 1,
            }
        }
    }
    let case = |(name, [fine, bad, untested]): (&str, [usize; 3])| Case {
        name: name.to_owned(),
        status: match (bad, untested) {
            (0, 0) => Severity::Ok,
            (0, _) => Severity::Unknown,
            _ => Severity::Fail,
        },
        text: format!("{fine} pairs fine, {bad} bad, {untested} not tested"),
    };
    of.into_iter().map(case).collect()
}

/// A row for each pair and metric.
fn csv(report: &SelfcheckReport) -> String {
    let mut text =
        "source,target,metric,state,status,value,unit,p99_ns,retransmits,ratio_to_ceiling,why\r\n".to_owned();
    let name = |at: u32| report.endpoints.get(at as usize).map_or("", String::as_str);
    let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    for pair in &report.pairs {
        let unit = if pair.metric == "bandwidth" { "bits_per_second" } else { "ns" };
        let cells = [
            name(pair.source).to_owned(),
            name(pair.target).to_owned(),
            pair.metric.clone(),
            state(pair).to_owned(),
            status(pair.status).to_owned(),
            number(pair.value),
            unit.to_owned(),
            number(pair.p99_ns),
            number(pair.retransmits),
            pair.ratio_to_ceiling.map(|ratio| ratio.to_string()).unwrap_or_default(),
            pair.why.join("; "),
        ];
        let cells: Vec<_> = cells.iter().map(|cell| quoted(cell)).collect();
        text.push_str(&cells.join(","));
        text.push_str("\r\n");
    }
    text
}

fn state(pair: &BatchPairView) -> &'static str {
    use rdmascope_expose::api::PairState;
    match pair.state {
        PairState::Measured => "measured",
        PairState::Failed => "failed",
        PairState::Excluded => "excluded",
        PairState::NotRun => "not-run",
    }
}

fn status(status: Severity) -> &'static str {
    match status {
        Severity::Ok => "ok",
        Severity::Warn => "warn",
        Severity::Unknown => "not-tested",
        Severity::Fail => "fail",
    }
}

/// A cell as RFC 4180 has it; a spreadsheet must not take it for a formula.
fn quoted(cell: &str) -> String {
    let cell = plain(cell);
    let cell = if cell.starts_with(['=', '+', '-', '@']) { format!("'{cell}") } else { cell };
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

/// A pair in one line, for lists of the worst.
pub(crate) fn in_line(report: &SelfcheckReport, pair: &BatchPairView) -> [String; 3] {
    let name = |at: u32| report.endpoints.get(at as usize).cloned().unwrap_or_default();
    [name(pair.source), name(pair.target), figure(pair)]
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
