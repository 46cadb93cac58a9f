//! What a check is, and what it is given to judge.

use crate::limits::Limit;
use crate::{Past, Policy};
use rdmascope_model::{Finding, KernelLog, Reading, Snapshot};

/// One check: what it asks, what people need to know of it, and the judgement itself.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Its stable id, and that of its findings.
    pub id: &'static str,
    /// What it asks, as one question.
    pub question: &'static str,
    /// What a bad answer means for a job, in one or two sentences.
    pub meaning: &'static str,
    /// Probable causes, the most frequent first.
    pub causes: &'static [&'static str],
    /// What to do, in order, with the commands to type.
    pub next_steps: &'static [&'static str],
    /// How its findings become bad over time.
    pub settles: Settles,
    /// A `fail` of it is a hard local fault: this node alone shows it, the part carries no RDMA traffic, and no setting of the node or state of
    /// the fabric explains it. Only for such a scheduler may drain the node ([`crate::is_hard`]).
    pub hard: bool,
    /// The numbers of the policy that it judges by.
    pub limits: &'static [&'static Limit],
    /// Judges every part of the machine that it applies to. A part that it does not apply to gets no finding; one that could not be
    /// read gets `unknown`.
    pub judge: fn(&Look<'_>) -> Vec<Finding>,
}

/// Whether a `fail` counts at once or has to stay first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settles {
    /// At once: a setting, or something that already looks over a window of time.
    AtOnce,
    /// A state that comes and goes, such as a link: until it has stayed (limits `settle_polls` and `settle_seconds`), and after a
    /// boot until `boot_grace_seconds`, it is shown as `warn`, settling.
    AfterDebounce,
}

/// Everything that a check may look at.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// The machine as it is.
    pub now: &'a Snapshot,
    /// What is remembered of before: how counters moved, which slot a GID had.
    pub past: &'a Past,
    /// The kernel log; `Absent` where nobody follows it.
    pub log: &'a Reading<KernelLog>,
    /// What is expected.
    pub policy: &'a Policy,
}

impl<'a> Look<'a> {
    /// A machine seen for the first time, without its kernel log.
    #[must_use]
    pub fn first(now: &'a Snapshot, policy: &'a Policy) -> Self {
        static NOTHING: Past = Past::new();
        Self { now, past: &NOTHING, log: &Reading::Absent, policy }
    }
}
