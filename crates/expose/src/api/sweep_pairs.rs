//! Every pair of one sweep that keeps what it finds: figures, or why there are none.

use super::{CauseText, MetricChoice, SweepState};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Body of `POST /api/v1/sweeps/{id}/cancel`: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {}

/// Answer of `GET /api/v1/sweeps/{id}/pairs`. Empty for a sweep whose figures are in the matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SweepPairList {
    /// Number of the sweep.
    pub id: u64,
    /// How far it is.
    pub state: SweepState,
    /// What decided which pairs were measured side by side.
    pub seed: u64,
    /// Names of endpoints; pairs go by their places in this list.
    pub endpoints: Vec<String>,
    /// Every ordered pair that belongs to the sweep, once for each metric.
    pub pairs: Vec<SweepPairRow>,
    /// The words for each `reason`.
    pub reasons: BTreeMap<String, CauseText>,
}

/// What came of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PairState {
    /// It has a figure.
    Measured,
    /// Its probe failed.
    Failed,
    /// Its probe was not run, or was given up, for a reason that says nothing about the pair.
    Excluded,
    /// It was not looked at.
    NotRun,
}

/// One ordered pair and metric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SweepPairRow {
    /// Place of the source in `endpoints`, from 0.
    pub source: u32,
    /// Place of the target.
    pub target: u32,
    /// What was measured.
    pub metric: MetricChoice,
    /// What came of it.
    pub state: PairState,
    /// Median latency in nanoseconds, or average goodput in bits per second; `null` unless it was measured.
    pub value: Option<u64>,
    /// 99th percentile of latency, nanoseconds.
    pub p99_ns: Option<u64>,
    /// Packets that the source sent again; `null` where its driver does not count them.
    pub retransmits: Option<u64>,
    /// Why there is no figure: a key of `reasons`.
    pub reason: Option<String>,
    /// Largest goodput that the slower of both ports can have at the expected MTU, bits per second; `null` for latency, and where a rate is
    /// not known.
    pub ceiling_bits_per_second: Option<u64>,
}
