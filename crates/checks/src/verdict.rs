//! A judgement before it has its subject, and how settings are shown in it.

use crate::finding::{ok, why};
use rdmascope_model::{Finding, Reading, Status};

/// A judgement without its subject.
pub(crate) struct Verdict {
    pub(crate) status: Status,
    pub(crate) summary: String,
    pub(crate) cause: String,
    pub(crate) next_step: String,
}

impl Verdict {
    pub(crate) fn warn(summary: String, cause: impl Into<String>, next_step: impl Into<String>) -> Self {
        Self { status: Status::Warn, summary, cause: cause.into(), next_step: next_step.into() }
    }

    pub(crate) fn fail(summary: String, cause: impl Into<String>, next_step: impl Into<String>) -> Self {
        Self { status: Status::Fail, ..Self::warn(summary, cause, next_step) }
    }

    pub(crate) fn finding(self, id: &'static str, subject: String, evidence: Vec<String>) -> Finding {
        let Self { status, summary, cause, next_step } = self;
        Finding { id: id.into(), status, subject, summary, cause, next_step, evidence }
    }
}

/// What a check says of a machine that has nothing of the kind: one line that it was looked for.
pub(crate) fn or_none(findings: Vec<Finding>, id: &'static str, none: &str) -> Vec<Finding> {
    if findings.is_empty() { vec![ok(id, "machine".to_owned(), none.to_owned())] } else { findings }
}

/// `name = value`, or why there is no value.
pub(crate) fn shown<T: std::fmt::Display>(name: &str, reading: &Reading<T>) -> String {
    match reading {
        Reading::Value(v) => format!("{name} = {v}"),
        missing => format!("{name}: {}", why(missing)),
    }
}
