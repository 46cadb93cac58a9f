//! The whole matrix in three forms: JSON with row arrays, CSV for a spreadsheet, and a binary form for large N.
//!
//! All three are written straight from the caller's cells, row by row, so that no second matrix is held.

use std::collections::{BTreeMap, BTreeSet};

use rdmascope_model::{Cause, Exclusion, Metric, Wall};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::CellState;

mod bin;
mod write;
pub use bin::{DecodeError, DecodedMatrix, MATRIX_BIN, decode_bin};
pub use write::{CellReason, MatrixCells, MatrixForm, MatrixRow, MatrixWriter, Needed, ReadRow};

/// The letter on the diagonal: an endpoint is not paired with itself.
pub const STATE_SELF: char = '-';

/// Pairs with a cause that the JSON form lists at most; a dead cluster would else make the list larger than the matrix.
const CAUSES_MAX: usize = 10_000;

/// Answer of `GET /api/v1/matrix`: rows are sources, columns are targets, both in the order of `endpoints`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MatrixView {
    /// `latency`, `bandwidth` or `ping`.
    pub metric: String,
    /// Unit of the values: `ns` or `bits_per_second`.
    pub unit: String,
    /// How it was measured: `rc_half_rtt`, `rc_write`, `tcp_half_rtt`, `tcp_stream`, `ud_network_rtt`, or `mixed`.
    pub method: String,
    /// Which clock: `sw` (the host's), `hw` (the adapter's), or `mixed`.
    pub clock: String,
    /// Grows whenever a cell of this metric changes; it is the ETag too.
    pub revision: u64,
    /// When this answer was made.
    pub generated_at: String,
    /// How long the plan needs to measure every pair once, seconds; `null` while there is no plan.
    pub coverage_seconds: Option<f64>,
    /// A cell older than this is stale, seconds.
    pub stale_after_seconds: f64,
    /// Median of the fresh cells, in `unit`.
    pub median: Option<u64>,
    /// Names, in the order of rows and columns.
    pub endpoints: Vec<String>,
    /// What the letters of `state` mean.
    pub legend: BTreeMap<String, String>,
    /// One text per source, one letter per target.
    pub state: Vec<String>,
    /// Latency: median half round trip; ping: median network round trip; nanoseconds. `null` where there is no fresh or stale figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<Vec<Vec<Option<u64>>>>,
    /// Latency: 99th percentile, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<Vec<Vec<Option<u64>>>>,
    /// Ping: share of pings that were lost, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_ratio: Option<Vec<Vec<Option<f64>>>>,
    /// Bandwidth: average goodput, bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_bits_per_second: Option<Vec<Vec<Option<u64>>>>,
    /// When each cell was measured or failed, milliseconds since 1970-01-01 UTC.
    pub measured_at_ms: Vec<Vec<Option<u64>>>,
    /// Why cells failed or are excluded; the first 10,000.
    pub causes: Vec<MatrixCause>,
    /// How many more there are.
    pub causes_left_out: u64,
    /// The words for the causes in `causes`.
    pub cause_texts: BTreeMap<String, CauseText>,
}

/// Why one cell has no figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MatrixCause {
    /// Source endpoint.
    pub source: String,
    /// Target endpoint.
    pub target: String,
    /// `failed` or `excluded`.
    pub state: CellState,
    /// Id of the cause of a failed probe, or the word for why the pair is excluded.
    pub cause: String,
    /// The step that failed; `null` for excluded pairs.
    pub step: Option<String>,
    /// Who saw it; `null` for excluded pairs.
    pub side: Option<String>,
}

/// The words for a cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CauseText {
    /// What happened.
    pub text: String,
    /// What to do next.
    pub next_step: String,
}

/// Everything of a matrix but its cells.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixHead {
    /// What was measured.
    pub metric: Metric,
    /// How, such as `rc_half_rtt`.
    pub method: &'static str,
    /// `sw`, `hw` or `mixed`.
    pub clock: &'static str,
    /// Grows whenever a cell of this metric changes.
    pub revision: u64,
    /// Now.
    pub generated_at: Wall,
    /// How long the plan needs to measure every pair once, seconds.
    pub coverage_seconds: Option<f64>,
    /// A cell older than this is stale, seconds.
    pub stale_after_seconds: f64,
    /// Median of the fresh cells, ns or bits per second.
    pub median: Option<u64>,
    /// Names, in the order of rows and columns.
    pub endpoints: Vec<String>,
}

fn legend() -> BTreeMap<String, String> {
    let mut legend: BTreeMap<String, String> =
        CellState::ALL.iter().map(|s| (s.letter().to_string(), s.as_str().to_owned())).collect();
    legend.insert(STATE_SELF.to_string(), "self".to_owned());
    legend
}

fn cause_texts(ids: &BTreeSet<&str>) -> BTreeMap<String, CauseText> {
    let failed = Cause::all().map(|cause| (cause.id(), cause.text(), cause.next_step()));
    let excluded = Exclusion::ALL.into_iter().map(|why| (why.as_str(), why.text(), why.next_step()));
    failed
        .chain(excluded)
        .filter(|(id, ..)| ids.contains(id))
        .map(|(id, text, next)| {
            (id.to_owned(), CauseText { text: text.to_owned(), next_step: next.to_owned() })
        })
        .collect()
}

#[cfg(test)]
mod tests;
