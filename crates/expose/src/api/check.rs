//! What `rdmascope check --json` prints: the judgement of one machine.

use rdmascope_model::{Finding, Snapshot, Status};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Looked, and it is as it should be.
    Ok,
    /// Works, but not as it should.
    Warn,
    /// Could not look.
    Unknown,
    /// Broken.
    Fail,
}

impl From<Status> for Severity {
    fn from(status: Status) -> Self {
        match status {
            Status::Ok => Self::Ok,
            Status::Warn => Self::Warn,
            Status::Unknown => Self::Unknown,
            Status::Fail => Self::Fail,
        }
    }
}

/// One machine, judged once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckReport {
    /// The worst of all findings.
    pub status: Severity,
    /// When the machine was read, RFC 3339 in UTC.
    pub taken_at: String,
    /// Every judgement, the worst first.
    pub findings: Vec<FindingView>,
    /// What could not be looked at, whether a check asked for it or not.
    pub could_not_look: Vec<BlindSpot>,
}

/// One judgement about one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingView {
    /// Stable id of the check or of the kernel-log rule; `rdmascope explain ID` says more.
    pub id: String,
    /// How bad it is.
    pub status: Severity,
    /// What it is about, such as `mlx5_0/1` or `netdev eth2`.
    pub subject: String,
    /// What was seen, in one sentence.
    pub summary: String,
    /// Probable cause; empty when ok.
    pub cause: String,
    /// What to do next; empty when ok.
    pub next_step: String,
    /// Readings behind it, `name = value`.
    pub evidence: Vec<String>,
}

impl From<&Finding> for FindingView {
    fn from(finding: &Finding) -> Self {
        Self {
            id: finding.id.to_string(),
            status: finding.status.into(),
            subject: finding.subject.clone(),
            summary: finding.summary.clone(),
            cause: finding.cause.clone(),
            next_step: finding.next_step.clone(),
            evidence: finding.evidence.clone(),
        }
    }
}

/// Something that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlindSpot {
    /// What.
    pub what: String,
    /// Why not.
    pub why: String,
    /// What it takes to see it.
    pub needs: String,
}

impl CheckReport {
    /// The report of findings that are in order already.
    #[must_use]
    pub fn new(snapshot: &Snapshot, worst: Status, findings: &[Finding], blind: Vec<BlindSpot>) -> Self {
        Self {
            status: worst.into(),
            taken_at: snapshot.taken_at.to_string(),
            findings: findings.iter().map(FindingView::from).collect(),
            could_not_look: blind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_model() {
        for status in Status::ALL {
            let word = serde_json::to_string(&Severity::from(status)).unwrap();
            assert_eq!(word, format!("\"{}\"", status.as_str()));
        }
    }
}
