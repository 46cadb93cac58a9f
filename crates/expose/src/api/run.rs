//! What a person or a program asks for: sweeps over all pairs, and one probe of one pair.

use rdmascope_model::Metric;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{FailureView, PairView};

/// Which metrics to measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MetricChoice {
    /// Latency alone.
    #[default]
    Latency,
    /// Bandwidth alone.
    Bandwidth,
    /// Both.
    All,
}

impl MetricChoice {
    /// The metrics that it stands for.
    #[must_use]
    pub fn metrics(self) -> &'static [Metric] {
        match self {
            Self::Latency => &[Metric::Latency],
            Self::Bandwidth => &[Metric::Bandwidth],
            Self::All => &Metric::ALL,
        }
    }

    /// The word used on the API and the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::All => "all",
        }
    }
}

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
}

/// Who wanted a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SweepKind {
    /// The coordinator by itself, over and over.
    Continuous,
    /// A call of the API.
    Requested,
}

/// How far a sweep is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SweepState {
    /// At work.
    Running,
    /// Every pair has its answer.
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
}

/// One sweep: every pair once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
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
}

/// What a sweep is going to cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SweepPlan {
    /// Ordered pairs.
    pub pairs: u64,
    /// Rounds of pairs that share no endpoint.
    pub rounds: u64,
    /// Bytes that it sends at most, over all pairs.
    pub bytes: u64,
    /// Estimated length, seconds.
    pub seconds: f64,
}

/// Body of `POST /api/v1/probes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeRequest {
    /// Endpoint that sends: `NODE/DEVICE/PORT`, or the start of it where that names one endpoint.
    pub source: String,
    /// Endpoint that receives.
    pub target: String,
    /// What to measure; latency when left out.
    #[serde(default)]
    pub metric: MetricChoice,
    /// The nodes are known to carry no job: the idle gate of bandwidth does not apply.
    #[serde(default)]
    pub drained: bool,
}

/// How far a probe is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProbeState {
    /// Waits for its endpoints to be free.
    Waiting,
    /// At work.
    Running,
    /// Measured.
    Done,
    /// Failed; the cause is in `failure`.
    Failed,
    /// Not run; the reason is in `excluded`.
    Excluded,
}

impl ProbeState {
    /// It will not change any more.
    #[must_use]
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// One probe of one pair that somebody asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProbeView {
    /// Number, unique within the coordinator's epoch.
    pub id: u64,
    /// Full name of the endpoint that sends.
    pub source: String,
    /// Full name of the endpoint that receives.
    pub target: String,
    /// What is measured.
    pub metric: MetricChoice,
    /// How far it is.
    pub state: ProbeState,
    /// What happened so far, in the order of time.
    pub steps: Vec<ProbeStep>,
    /// The pair after the probe; `null` until then.
    pub pair: Option<PairView>,
    /// Why it failed.
    pub failure: Option<FailureView>,
    /// Why it was not run: `busy`, `maintenance` or `policy`.
    pub excluded: Option<String>,
}

/// One step of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProbeStep {
    /// Milliseconds since the probe was asked for.
    pub at_ms: u64,
    /// Who did it: `source`, `target` or `coordinator`.
    pub side: String,
    /// Which step: `admit`, `open`, `init`, `exchange`, `rtr`, `rts`, `first-byte` or `measure`.
    pub step: String,
    /// What happened, in words.
    pub text: String,
}
