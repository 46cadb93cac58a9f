//! The whole matrix in three forms: JSON with row arrays, CSV for a spreadsheet, and a binary form for large N.
//!
//! All three are written straight from the caller's cells, row by row, so that no second matrix is held.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rdmascope_model::{Cause, Exclusion, Failure, Metric, Wall};
use serde::ser::{SerializeSeq, SerializeStruct};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use super::CellState;

mod bin;
pub use bin::{DecodeError, DecodedMatrix, decode_bin};

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

/// One cell, as the caller gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixCell<'a> {
    /// State now.
    pub state: CellState,
    /// Median latency or round trip in ns, or average bandwidth in bits per second. Ignored unless the cell is fresh or stale.
    pub value: Option<u64>,
    /// 99th percentile in ns; latency only.
    pub p99_ns: Option<u64>,
    /// Share of pings that were lost; ping only.
    pub loss_ratio: Option<f64>,
    /// When it was measured, failed or was found excluded.
    pub at: Option<Wall>,
    /// Why it failed.
    pub failure: Option<&'a Failure>,
    /// Why it is excluded.
    pub exclusion: Option<Exclusion>,
}

impl MatrixCell<'_> {
    /// A cell of which nothing is known.
    pub const NEVER: Self = Self {
        state: CellState::Never,
        value: None,
        p99_ns: None,
        loss_ratio: None,
        at: None,
        failure: None,
        exclusion: None,
    };

    fn has_figures(&self) -> bool {
        matches!(self.state, CellState::Fresh | CellState::Stale)
    }

    /// Never a number that stands for a failure.
    fn shown_value(&self) -> Option<u64> {
        self.value.filter(|_| self.has_figures())
    }

    fn shown_loss(&self) -> Option<f64> {
        self.loss_ratio.filter(|_| self.has_figures())
    }

    fn shown_p99(&self) -> Option<u64> {
        self.p99_ns.filter(|_| self.has_figures())
    }
}

/// A matrix ready to be written: its head and a function that gives the cell of (source, target).
/// The function is never called for an endpoint with itself.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    /// Everything but the cells.
    pub head: &'a MatrixHead,
    /// The cell of (row, column).
    pub cells: &'a dyn Fn(usize, usize) -> MatrixCell<'a>,
}

impl Matrix<'_> {
    fn len(&self) -> usize {
        self.head.endpoints.len()
    }

    fn cell(&self, source: usize, target: usize) -> Option<MatrixCell<'_>> {
        (source != target).then(|| (self.cells)(source, target))
    }

    fn letter(&self, source: usize, target: usize) -> char {
        self.cell(source, target).map_or(STATE_SELF, |cell| cell.state.letter())
    }

    /// The JSON form: a [`MatrixView`].
    ///
    /// # Errors
    /// None in practice: writing numbers and texts to memory cannot fail.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// The CSV form: first row targets, first column sources; a number for a fresh cell, else the word of its state.
    #[must_use]
    pub fn csv(&self) -> String {
        let what = match self.head.metric {
            Metric::Latency | Metric::Ping => "p50_ns",
            Metric::Bandwidth => "average_bits_per_second",
        };
        let mut out = format!("{what} source\\target");
        for name in &self.head.endpoints {
            out.push(',');
            out.push_str(name);
        }
        out.push('\n');
        for (source, name) in self.head.endpoints.iter().enumerate() {
            out.push_str(name);
            for target in 0..self.len() {
                out.push(',');
                let Some(cell) = self.cell(source, target) else { continue };
                match cell.shown_value().filter(|_| cell.state == CellState::Fresh) {
                    Some(value) => drop(write!(out, "{value}")),
                    None => out.push_str(cell.state.as_str()),
                }
            }
            out.push('\n');
        }
        out
    }

    /// The binary form, see [`decode_bin`].
    #[must_use]
    pub fn bin(&self) -> Vec<u8> {
        bin::encode(self)
    }

    fn causes(&self) -> (Vec<MatrixCause>, u64) {
        let (mut list, mut left_out) = (Vec::new(), 0);
        for source in 0..self.len() {
            for target in 0..self.len() {
                let Some(cell) = self.cell(source, target) else { continue };
                let (cause, step, side) = match (cell.state, cell.failure, cell.exclusion) {
                    (CellState::Failed, Some(f), _) => {
                        (f.cause.id(), Some(f.step.as_str()), Some(f.side.as_str()))
                    }
                    (CellState::Excluded, _, Some(why)) => (why.as_str(), None, None),
                    _ => continue,
                };
                if list.len() == CAUSES_MAX {
                    left_out += 1;
                    continue;
                }
                list.push(MatrixCause {
                    source: self.head.endpoints[source].clone(),
                    target: self.head.endpoints[target].clone(),
                    state: cell.state,
                    cause: cause.to_owned(),
                    step: step.map(str::to_owned),
                    side: side.map(str::to_owned),
                });
            }
        }
        (list, left_out)
    }
}

impl Serialize for Matrix<'_> {
    /// Writes what [`MatrixView`] reads, without holding it.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let head = self.head;
        let mut out = serializer.serialize_struct("MatrixView", 17)?;
        out.serialize_field("metric", head.metric.as_str())?;
        let unit = match head.metric {
            Metric::Latency | Metric::Ping => "ns",
            Metric::Bandwidth => "bits_per_second",
        };
        out.serialize_field("unit", unit)?;
        out.serialize_field("method", head.method)?;
        out.serialize_field("clock", head.clock)?;
        out.serialize_field("revision", &head.revision)?;
        out.serialize_field("generated_at", &head.generated_at.to_string())?;
        out.serialize_field("coverage_seconds", &head.coverage_seconds)?;
        out.serialize_field("stale_after_seconds", &head.stale_after_seconds)?;
        out.serialize_field("median", &head.median)?;
        out.serialize_field("endpoints", &head.endpoints)?;
        out.serialize_field("legend", &legend())?;
        out.serialize_field("state", &Rows(self.len(), |row| self.state_row(row)))?;
        match head.metric {
            Metric::Latency => {
                out.serialize_field("p50_ns", &self.rows(|cell| cell.shown_value()))?;
                out.serialize_field("p99_ns", &self.rows(|cell| cell.shown_p99()))?;
            }
            Metric::Ping => {
                out.serialize_field("p50_ns", &self.rows(|cell| cell.shown_value()))?;
                out.serialize_field("loss_ratio", &self.rows(|cell| cell.shown_loss()))?;
            }
            Metric::Bandwidth => {
                out.serialize_field("average_bits_per_second", &self.rows(|cell| cell.shown_value()))?;
            }
        }
        out.serialize_field("measured_at_ms", &self.rows(|cell| cell.at.map(|at| at.0)))?;
        let (causes, left_out) = self.causes();
        let ids: BTreeSet<&str> = causes.iter().map(|row| row.cause.as_str()).collect();
        out.serialize_field("causes", &causes)?;
        out.serialize_field("causes_left_out", &left_out)?;
        out.serialize_field("cause_texts", &cause_texts(&ids))?;
        out.end()
    }
}

impl Matrix<'_> {
    fn state_row(&self, source: usize) -> String {
        (0..self.len()).map(|target| self.letter(source, target)).collect()
    }

    fn rows<T: Serialize>(&self, pick: impl Fn(&MatrixCell<'_>) -> Option<T>) -> impl Serialize {
        Rows(self.len(), move |source| -> Vec<Option<T>> {
            (0..self.len()).map(|target| self.cell(source, target).and_then(|cell| pick(&cell))).collect()
        })
    }
}

/// So many rows, made one at a time.
struct Rows<F>(usize, F);

impl<T: Serialize, F: Fn(usize) -> T> Serialize for Rows<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_seq(Some(self.0))?;
        for row in 0..self.0 {
            out.serialize_element(&(self.1)(row))?;
        }
        out.end()
    }
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
