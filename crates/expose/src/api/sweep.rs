//! Sweeps over many pairs: what is asked for, what it is going to cost, how far it is; and what goes on by itself.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::MetricChoice;

/// Body of `POST /api/v1/sweeps`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepRequest {
    /// What to measure; latency when left out.
    #[serde(default)]
    pub metric: MetricChoice,
    /// The nodes are known to carry no job: the idle gate of bandwidth does not apply.
    #[serde(default)]
    pub drained: bool,
    /// Only between these nodes, also where they are in maintenance; left out: between all that are in none.
    #[serde(default)]
    pub nodes: Option<Vec<String>>,
    /// Only these RDMA devices; left out or empty: all.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Class of the packets: a DSCP, 0 to 63; a service level, 0 to 15, on InfiniBand. The figures are in `results` of the sweep and not
    /// in the matrix, which compares like with like.
    #[serde(default)]
    pub class: Option<u8>,
    /// Pairs of two rails, too; left out: those of one rail, and of endpoints of which no rail is known.
    #[serde(default)]
    pub cross_rail: bool,
    /// So many random partners for each endpoint instead of all, 1 to 64.
    #[serde(default)]
    pub quick: Option<u32>,
    /// How often every pair is measured, each time beside other pairs, 1 to 10; 1 when left out.
    #[serde(default)]
    pub passes: Option<u32>,
    /// Decides which pairs are measured at the same time; left out: another number for each sweep.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Bytes of one message, 1 to 8 MiB, for a sweep of latency alone or of bandwidth alone; left out: 8 for latency, 64 KiB for bandwidth.
    /// With it, what is found is kept with the sweep: `GET /api/v1/sweeps/{id}/pairs`.
    #[serde(default)]
    pub message_bytes: Option<u32>,
    /// Only tell what it would be; nothing is measured.
    #[serde(default)]
    pub dry_run: bool,
}

/// Who wanted a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SweepKind {
    /// The coordinator by itself, over and over.
    Continuous,
    /// A call of the API.
    #[default]
    Requested,
}

/// How far a sweep is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SweepState {
    /// At work.
    Running,
    /// Every pair has its answer.
    #[default]
    Done,
    /// Ended before that.
    Cancelled,
}

impl SweepState {
    /// The word used on the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Answer of `GET /api/v1/sweeps`, the newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SweepList {
    /// The running one and the last ones.
    pub sweeps: Vec<SweepView>,
    /// What goes on by itself.
    #[serde(default)]
    pub continuous: ContinuousView,
}

/// What goes on by itself, and in which time it has covered all pairs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContinuousView {
    /// Pings between endpoints that take datagrams; `null` where there are none.
    pub pings: Option<CoveringView>,
    /// Latency probes between all others; `null` where there are none.
    pub connections: Option<CoveringView>,
}

/// How one kind of probe covers its pairs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CoveringView {
    /// Ordered pairs of one rail, or of which a rail is not known.
    pub pairs: u64,
    /// They are covered in this time, seconds.
    pub seconds: f64,
    /// Ordered pairs of two rails; 0 where rails are not routed to each other.
    pub cross_rail_pairs: u64,
    /// They are covered in this time, seconds; `null` when there are none.
    pub cross_rail_seconds: Option<f64>,
    /// Pings, or round trips, per second and endpoint, at most.
    pub per_second: u32,
    /// Of them to one peer, one after the other.
    pub per_turn: u32,
    /// Bytes that one endpoint's probes make it and its peers send in a second, headers included.
    pub bytes_per_second: u64,
}

/// One sweep: every wanted pair once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SweepView {
    /// Number, unique within the coordinator's epoch.
    pub id: u64,
    /// Who wanted it.
    pub kind: SweepKind,
    /// What it measures.
    pub metric: MetricChoice,
    /// The nodes were said to carry no job.
    pub drained: bool,
    /// How far it is.
    pub state: SweepState,
    /// Probes planned.
    pub total: u64,
    /// Probes that have their answer, whichever it is.
    pub done: u64,
    /// Of these, failed.
    pub failed: u64,
    /// Of these, not run for a reason that says nothing about the pair.
    pub excluded: u64,
    /// Start.
    pub started_at: String,
    /// End; `null` while it runs.
    pub finished_at: Option<String>,
    /// Seconds that it still needs at its pace so far; `null` when it is over or nothing is done yet.
    pub seconds_left: Option<f64>,
    /// What it set out to do.
    pub plan: SweepPlan,
    /// Bytes that it has sent so far.
    #[serde(default)]
    pub bytes_sent: u64,
    /// The bytes that one sweep may send are used up: the rest was not run.
    #[serde(default)]
    pub out_of_bytes: bool,
    /// Endpoints that failed with everybody and were tried again in vain: the rest of their pairs was not run.
    #[serde(default)]
    pub given_up: Vec<String>,
    /// What it found, where that is not in the matrix: of a sweep in another class.
    #[serde(default)]
    pub results: Vec<SweepResult>,
}

/// What a sweep is going to cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SweepPlan {
    /// Ordered pairs.
    pub pairs: u64,
    /// Rounds of pairs that share no endpoint.
    pub rounds: u64,
    /// Bytes that it sends, over all pairs; of a port whose rate is not known, as many as its probes may.
    pub bytes: u64,
    /// How long it takes where no probe fails, seconds: by what probes have taken here, else by a first guess.
    pub seconds: f64,
    /// Probes; a latency probe fills both directions of its pair.
    #[serde(default)]
    pub probes: u64,
    /// Endpoints in it.
    #[serde(default)]
    pub endpoints: u64,
    /// Endpoints that are left out because their nodes are in maintenance.
    #[serde(default)]
    pub in_maintenance: u64,
    /// Rails among the endpoints.
    #[serde(default)]
    pub rails: u64,
    /// Endpoints of which no rail is known: they are probed with all rails.
    #[serde(default)]
    pub without_rail: u64,
    /// Leaves among the endpoints.
    #[serde(default)]
    pub leaves: u64,
    /// Endpoints of which no leaf is known.
    #[serde(default)]
    pub without_leaf: u64,
    /// How often every pair is measured, each time beside other pairs.
    #[serde(default)]
    pub passes: u32,
    /// What decides which pairs are measured at the same time.
    #[serde(default)]
    pub seed: u64,
}

/// What a sweep in another class found of one metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SweepResult {
    /// What was measured.
    pub metric: MetricChoice,
    /// Ordered pairs with a figure.
    pub measured: u64,
    /// Ordered pairs that failed.
    pub failed: u64,
    /// Median, nanoseconds or bits per second; `null` where nothing was measured.
    pub median: Option<u64>,
    /// The pairs that are worst, at most 20: those that failed, then the slowest.
    pub worst: Vec<SweepPair>,
}

/// One pair of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SweepPair {
    /// Source endpoint.
    pub source: String,
    /// Target endpoint.
    pub target: String,
    /// Nanoseconds or bits per second; `null` where it failed.
    pub value: Option<u64>,
    /// Id of the cause, where it failed.
    pub cause: Option<String>,
}
