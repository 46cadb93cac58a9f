//! A judgement about the machine, with its evidence and the next step.

use std::borrow::Cow;

/// How bad it is. `Unknown` (could not look) stands between `Fail` and `Warn`: not seeing is worse than a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Looked, and it is as it should be.
    Ok,
    /// Works, but not as it should.
    Warn,
    /// Could not look.
    Unknown,
    /// Broken.
    Fail,
}

impl Status {
    /// All of them, the best first.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Warn, Self::Unknown, Self::Fail];

    /// The word used everywhere.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Unknown => "unknown",
            Self::Fail => "fail",
        }
    }
}

/// One judgement about one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Stable kebab-case id of the check, or of the kernel-log rule.
    pub id: Cow<'static, str>,
    /// How bad it is.
    pub status: Status,
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
