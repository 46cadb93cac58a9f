//! The report of `rdmascope selfcheck`: what `--json` prints, and what every other form is made from.

use super::{PairState, Severity};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One batch of nodes, judged once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SelfcheckReport {
    /// `ok`: it passes. What was not tested never does: then it is `unknown`, or worse.
    pub status: Severity,
    /// 0 ok, 1 warn, 2 fail, 3 unknown.
    pub exit_code: u8,
    /// The verdict in one line.
    pub headline: String,
    /// Version of the program.
    pub version: String,
    /// Start.
    pub began_at: String,
    /// How long it took, seconds.
    pub seconds: f64,
    /// Name of the limits.
    pub preset: String,
    /// Decides which pairs were measured side by side, and which incasts.
    pub seed: u64,
    /// The nodes were said to carry no job.
    pub drained: bool,
    /// Somebody ended it early.
    pub interrupted: bool,
    /// Everything that was not tested, and why.
    pub not_tested: Vec<NotTestedView>,
    /// What is to blame: what nodes say of themselves first, then what explains most bad pairs.
    pub suspects: Vec<BatchSuspectView>,
    /// The stages, in their order.
    pub stages: Vec<StageView>,
    /// The nodes of the batch.
    pub nodes: Vec<BatchNodeView>,
    /// What was asked and what was seen.
    pub limits: Vec<LimitView>,
    /// Endpoints that were to be tested; pairs go by their places in this list.
    pub endpoints: Vec<String>,
    /// Every ordered pair, once for latency and once for bandwidth.
    pub pairs: Vec<BatchPairView>,
    /// Incasts.
    pub incasts: Vec<BatchIncastView>,
}

/// Something that was not tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotTestedView {
    /// What: a node, an endpoint, a stage, pairs of a stage.
    pub what: String,
    /// Why.
    pub reason: String,
    /// What to do next.
    pub next_step: String,
}

/// What is to blame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BatchSuspectView {
    /// Who: an endpoint, a node, a leaf, a pair. Several names are what nothing tells apart.
    pub names: Vec<String>,
    /// `fail`, or `warn` where only a warning speaks against it.
    pub status: Severity,
    /// What was seen, in one sentence.
    pub text: String,
    /// The figures behind it.
    pub evidence: Vec<String>,
    /// What to do next.
    pub next_step: String,
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StageView {
    /// `local`, `latency`, `bandwidth`, `incast` or `alone`.
    pub name: String,
    /// The worst of what it found.
    pub status: Severity,
    /// What it found, in one line.
    pub text: String,
    /// How long it took, seconds.
    pub seconds: f64,
}

/// One node of the batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BatchNodeView {
    /// Its name.
    pub name: String,
    /// The worst of what its own checks found; `unknown` where it could not be asked.
    pub status: Severity,
    /// What is not fine about it, a line each.
    pub text: Vec<String>,
}

/// One limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LimitView {
    /// Its name, as `--limit` takes it.
    pub name: String,
    /// What it is about.
    pub text: String,
    /// Unit of its numbers.
    pub unit: String,
    /// `at least` or `at most`.
    pub sense: String,
    /// The number that was asked; `null`: any.
    pub asked: Option<f64>,
    /// `preset`, or `flag` where somebody gave another number.
    pub from: String,
    /// The worst that was seen; `null` where nothing was.
    pub worst: Option<f64>,
    /// The median of what was seen.
    pub median: Option<f64>,
    /// Pairs, ports or incasts that it could be held against.
    pub judged: u64,
    /// Those of them that miss it.
    pub missed: u64,
    /// Those that lack what it needs: a counter, a rate.
    pub unknown: u64,
}

/// One ordered pair and stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BatchPairView {
    /// Place of the source in `endpoints`, from 0.
    pub source: u32,
    /// Place of the target.
    pub target: u32,
    /// `latency` or `bandwidth`.
    pub metric: String,
    /// What came of it.
    pub state: PairState,
    /// `ok`, `fail`, or `unknown` where it was not tested.
    pub status: Severity,
    /// Median latency in nanoseconds, or average goodput in bits per second.
    pub value: Option<u64>,
    /// 99th percentile of latency, nanoseconds.
    pub p99_ns: Option<u64>,
    /// Packets sent again; `null` where nobody counts them.
    pub retransmits: Option<u64>,
    /// Goodput over its ceiling.
    pub ratio_to_ceiling: Option<f64>,
    /// The limits that it misses, `latency 12.1 µs (at most 5)`; or why it has no figure.
    pub why: Vec<String>,
}

/// One incast.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BatchIncastView {
    /// Who received.
    pub target: String,
    /// Who sent.
    pub sources: Vec<String>,
    /// How it came out.
    pub status: Severity,
    /// What was found, a line each.
    pub text: Vec<String>,
}
