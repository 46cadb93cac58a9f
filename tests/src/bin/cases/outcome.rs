//! What the binary finds on one case's machine, compared with what it should find.

use crate::case::{Case, Judged, Wanted};
use rdmascope_checks::manifest::glob;
use serde::Deserialize;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Findings that are shown beside a wish that was not met.
const SHOWN_MAX: usize = 4;

/// How a case went.
#[derive(Debug)]
pub(crate) enum Outcome {
    Right,
    /// One machine says nothing of it, for this reason.
    NotHere(String),
    /// Each thing that was expected, with what was seen.
    Wrong(Vec<String>),
}

/// A finding as `rdmascope check --json` prints it.
#[derive(Debug, Deserialize)]
struct Finding {
    id: String,
    status: String,
    subject: String,
    summary: String,
    #[serde(default)]
    cause: String,
    #[serde(default)]
    next_step: String,
    #[serde(default)]
    evidence: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Findings {
    findings: Vec<Finding>,
}

/// Judges the machine and compares.
pub(crate) fn of(case: &Case, binary: &Path) -> Outcome {
    let (must, must_not) = match &case.judged {
        Judged::NotHere(why) => return Outcome::NotHere(why.clone()),
        Judged::Here { must, must_not, .. } => (must, must_not),
    };
    let found = match judge(case, binary) {
        Ok(found) => found,
        Err(why) => return Outcome::Wrong(vec![why]),
    };
    let missed = must.iter().filter(|wanted| !found.iter().any(|finding| wanted.fits(finding)));
    let missed = missed.map(|wanted| format!("expected {wanted}; seen {}", nearest(wanted, &found)));
    let excess = must_not.iter().flat_map(|unwanted| {
        let fits = found.iter().filter(|finding| unwanted.fits(finding));
        fits.map(move |finding| format!("expected no {unwanted}; seen {finding}"))
    });
    let wrong: Vec<String> = missed.chain(excess).collect();
    if wrong.is_empty() { Outcome::Right } else { Outcome::Wrong(wrong) }
}

fn judge(case: &Case, binary: &Path) -> Result<Vec<Finding>, String> {
    let capture = case.file("machine.capture").ok_or("there is no machine.capture")?;
    let mut command = Command::new(binary);
    command.args(["check", "--json", "--capture"]).arg(capture).stdin(Stdio::null());
    if let Some(config) = case.file("config.yaml") {
        command.arg("--config").arg(config);
    }
    if matches!(case.judged, Judged::Here { in_container: true, .. }) {
        command.arg("--in-container");
    }
    let done = command.output().map_err(|error| format!("{}: {error}", binary.display()))?;
    let found: Result<Findings, _> = serde_json::from_slice(&done.stdout);
    match found {
        Ok(found) if !found.findings.is_empty() => Ok(found.findings),
        _ => Err(format!("no findings ({}): {}", done.status, String::from_utf8_lossy(&done.stderr).trim())),
    }
}

impl Wanted {
    fn fits(&self, finding: &Finding) -> bool {
        let pairs =
            [(&self.id, &finding.id), (&self.status, &finding.status), (&self.subject, &finding.subject)];
        let said = |text: &String| {
            let Finding { summary, cause, next_step, evidence, .. } = finding;
            let mut all = [summary, cause, next_step].into_iter().chain(evidence);
            all.any(|part| part.contains(text.as_str()))
        };
        pairs.into_iter().all(|(pattern, text)| glob(pattern, text)) && self.text.as_ref().is_none_or(said)
    }
}

/// What was found instead: of the same id and subject, else of the same id, else whatever is above ok.
fn nearest(wanted: &Wanted, found: &[Finding]) -> String {
    let of_id = |finding: &&Finding| glob(&wanted.id, &finding.id);
    let here = |finding: &&Finding| of_id(finding) && glob(&wanted.subject, &finding.subject);
    let bad = |finding: &&Finding| finding.status == "fail" || finding.status == "warn";
    let rows = |keep: &dyn Fn(&&Finding) -> bool| {
        let rows: Vec<String> = found.iter().filter(keep).take(SHOWN_MAX).map(Finding::to_string).collect();
        (!rows.is_empty()).then(|| rows.join("; "))
    };
    rows(&here).or_else(|| rows(&of_id)).or_else(|| rows(&bad)).unwrap_or_else(|| "nothing of it".to_owned())
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {}", self.id, self.status, self.subject)?;
        self.text.as_ref().map_or(Ok(()), |text| write!(f, " with '{text}'"))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {}: {}", self.id, self.status, self.subject, self.summary)
    }
}
