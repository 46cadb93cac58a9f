//! One pair in full: what is known of its latency, its bandwidth and its pings.

use rdmascope_model::{BandwidthStats, CounterDelta, Exclusion, Failure, LatencyStats, Wall};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{PairVerdict, PingFigures};

/// Answer of `GET /api/v1/pairs/{source}/{target}`. The other direction is a pair of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PairView {
    /// Endpoint that sends.
    pub source: String,
    /// Endpoint that receives.
    pub target: String,
    /// Half round trip of an RC RDMA write.
    pub latency: CellView<LatencyFigures>,
    /// RC RDMA write goodput from source to target.
    pub bandwidth: CellView<BandwidthFigures>,
    /// UD pings from source to target and their answers.
    pub ping: CellView<PingFigures>,
    /// What is wrong with the pair although its pings are answered, the most telling first.
    pub verdicts: Vec<PairVerdict>,
}

/// What can be said of one pair and metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CellState {
    /// Measured within the stated limit.
    Fresh,
    /// Measured, but too long ago.
    Stale,
    /// Not measured yet.
    Never,
    /// The last probe failed, and its cause is known.
    Failed,
    /// Not probed, for a reason that says nothing about the pair.
    Excluded,
}

impl CellState {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Fresh, Self::Stale, Self::Never, Self::Failed, Self::Excluded];

    /// The word used on the API and as a label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Stale => "stale",
            Self::Never => "never",
            Self::Failed => "failed",
            Self::Excluded => "excluded",
        }
    }

    /// The letter that stands for it in rows of states and in the binary form.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Fresh => 'f',
            Self::Stale => 's',
            Self::Never => 'n',
            Self::Failed => 'x',
            Self::Excluded => 'e',
        }
    }

    /// The state of that letter.
    #[must_use]
    pub fn from_letter(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.letter() == letter)
    }
}

/// One cell. Figures are there only when the pair was measured; a failed pair has a cause instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CellView<F> {
    /// State now.
    pub state: CellState,
    /// When it was measured, failed or was found excluded.
    pub measured_at: Option<String>,
    /// How long ago that was, seconds.
    pub age_seconds: Option<f64>,
    /// How it was measured: `rc_half_rtt`, `rc_write`, `tcp_half_rtt`, `tcp_stream` or `ud_network_rtt`.
    pub method: Option<String>,
    /// Numbers; `null` unless the cell is fresh or stale.
    #[schema(schema_with = nullable::<F>)]
    pub figures: Option<F>,
    /// Median of this cell over the median of all fresh cells of this metric.
    pub ratio_to_median: Option<f64>,
    /// Packets sent again or out of order at either end during the probe; `null` where the drivers do not count them.
    pub retransmits: Option<u64>,
    /// Why the last probe failed.
    pub failure: Option<FailureView>,
    /// Why it is not probed: `busy`, `maintenance` or `policy`.
    pub excluded: Option<String>,
}

/// "A reference to `F`, or null": the derive would write a generic field in place, without the null.
fn nullable<F: ToSchema>() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
    use utoipa::openapi::{ObjectBuilder, OneOfBuilder, Ref, RefOr, Schema, schema};
    let null = ObjectBuilder::new().schema_type(schema::Type::Null).build();
    let value = Ref::from_schema_name(F::name());
    let words = Some("Numbers; `null` unless the cell is fresh or stale.");
    RefOr::T(Schema::OneOf(OneOfBuilder::new().description(words).item(null).item(value).build()))
}

impl<F> CellView<F> {
    fn bare(state: CellState, at: Option<Wall>, now: Wall) -> Self {
        Self {
            state,
            measured_at: at.map(|at| at.to_string()),
            age_seconds: at.map(|at| now.since(at).as_secs_f64()),
            method: None,
            figures: None,
            ratio_to_median: None,
            retransmits: None,
            failure: None,
            excluded: None,
        }
    }

    /// A cell of which nothing is known.
    #[must_use]
    pub fn never() -> Self {
        Self::bare(CellState::Never, None, Wall(0))
    }

    /// A cell whose last probe failed at `at`.
    #[must_use]
    pub fn failed(failure: &Failure, method: &str, at: Wall, now: Wall) -> Self {
        Self {
            method: Some(method.to_owned()),
            failure: Some(FailureView::new(failure)),
            ..Self::bare(CellState::Failed, Some(at), now)
        }
    }

    /// A cell that was found excluded at `at`.
    #[must_use]
    pub fn excluded(why: Exclusion, at: Option<Wall>, now: Wall) -> Self {
        Self { excluded: Some(why.as_str().to_owned()), ..Self::bare(CellState::Excluded, at, now) }
    }

    /// A cell measured at `at`, `stale` when that was too long ago.
    #[must_use]
    pub fn measured(
        figures: F,
        counters: CounterDelta,
        method: &str,
        stale: bool,
        at: Wall,
        now: Wall,
    ) -> Self {
        let state = if stale { CellState::Stale } else { CellState::Fresh };
        Self {
            method: Some(method.to_owned()),
            figures: Some(figures),
            retransmits: counters.retransmits,
            ..Self::bare(state, Some(at), now)
        }
    }

    /// The same cell compared with the median of the fresh cells.
    #[must_use]
    pub fn with_ratio(mut self, ratio_to_median: Option<f64>) -> Self {
        self.ratio_to_median = ratio_to_median;
        self
    }
}

/// Latency of one pair, nanoseconds. A quantile that the count cannot support is `null`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LatencyFigures {
    /// Samples behind the figures.
    pub count: u32,
    /// Smallest, nanoseconds.
    pub min_ns: u64,
    /// Median, nanoseconds.
    pub p50_ns: u64,
    /// 90th percentile, nanoseconds.
    pub p90_ns: u64,
    /// 99th percentile, nanoseconds; from 300 samples on.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile, nanoseconds; from 3,000 samples on.
    pub p999_ns: Option<u64>,
    /// Largest, nanoseconds.
    pub max_ns: u64,
    /// Samples during which the measuring thread was preempted: how far the host itself is in the figures.
    pub host_delayed: u32,
}

impl From<&LatencyStats> for LatencyFigures {
    fn from(stats: &LatencyStats) -> Self {
        Self {
            count: stats.count,
            min_ns: stats.min_ns,
            p50_ns: stats.p50_ns,
            p90_ns: stats.p90_ns,
            p99_ns: stats.p99_ns,
            p999_ns: stats.p999_ns,
            max_ns: stats.max_ns,
            host_delayed: stats.host_delayed,
        }
    }
}

/// Bandwidth of one pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BandwidthFigures {
    /// Writes completed in the measured window.
    pub count: u32,
    /// Payload bytes completed in the measured window.
    pub bytes: u64,
    /// Length of the window, nanoseconds.
    pub duration_ns: u64,
    /// Average, bits per second.
    pub average_bits_per_second: u64,
    /// The slowest tenth of the window, bits per second; from 50 completions on.
    pub worst_window_bits_per_second: Option<u64>,
    /// Coefficient of variation of the rate over the tenths of the window, in thousandths; told by reports of single probes only.
    pub variation_permille: Option<u32>,
}

impl From<&BandwidthStats> for BandwidthFigures {
    fn from(stats: &BandwidthStats) -> Self {
        Self {
            count: stats.completions,
            bytes: stats.bytes,
            duration_ns: stats.duration_ns,
            average_bits_per_second: stats.average_bps,
            worst_window_bits_per_second: stats.worst_window_bps,
            variation_permille: stats.variation_permille,
        }
    }
}

/// Why a probe failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailureView {
    /// Stable id of the cause, such as `retry-exceeded`.
    pub cause: String,
    /// The cause in words.
    pub text: String,
    /// The step that failed: `admit`, `open`, `init`, `exchange`, `rtr`, `rts`, `first-byte` or `measure`.
    pub step: String,
    /// Who saw it: `source`, `target` or `coordinator`.
    pub side: String,
    /// What was seen, such as a verb and its errno.
    pub evidence: String,
    /// What to do next.
    pub next_step: String,
}

impl FailureView {
    /// The failure with its words.
    #[must_use]
    pub fn new(failure: &Failure) -> Self {
        Self {
            cause: failure.cause.id().to_owned(),
            text: failure.cause.text().to_owned(),
            step: failure.step.as_str().to_owned(),
            side: failure.side.as_str().to_owned(),
            evidence: failure.evidence.clone(),
            next_step: failure.cause.next_step().to_owned(),
        }
    }
}
