//! What a person or a program asks for of one pair or target: probes, full reports, and incasts; and which metrics.

use rdmascope_model::Metric;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{EndpointView, FailureView, IncastView, MeasurementView, PairView, SkippedView, VerdictView};

/// Which metrics to measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MetricChoice {
    /// Latency alone.
    #[default]
    Latency,
    /// Bandwidth alone.
    Bandwidth,
    /// Pings alone, small and of the full path MTU.
    Ping,
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
            Self::Ping => &[Metric::Ping],
            // Pings are sent all the time; nobody has to ask.
            Self::All => &[Metric::Latency, Metric::Bandwidth],
        }
    }

    /// The word used on the API and the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::Ping => "ping",
            Self::All => "all",
        }
    }
}

/// Body of `POST /api/v1/probes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    /// Measure bandwidth although a job may be there, of this one pair. Limits, pauses and the guard against congestion hold all the
    /// same; it must begin within a minute, and the history has its beginning and its end. Not together with `drained`.
    #[serde(default)]
    pub force: bool,
    /// Everything that can be measured of the pair, with verdicts; `metric` is not looked at.
    #[serde(default)]
    pub full: bool,
    /// Equal-cost paths to assume between the two ends, 1 to 32, for `full`; 4 when left out.
    #[serde(default)]
    pub paths: Option<u32>,
    /// GPU whose memory to measure, for `full`.
    #[serde(default)]
    pub gpu: Option<u8>,
    /// Class of the packets: a DSCP, 0 to 63; a service level, 0 to 15, on InfiniBand.
    #[serde(default)]
    pub class: Option<u8>,
    /// RDMA device of both ends, where `source` and `target` name nodes.
    #[serde(default)]
    pub device: Option<String>,
    /// Takes device and class from this service of the configuration, where they are left out.
    #[serde(default)]
    pub service: Option<String>,
}

/// Body of `POST /api/v1/incasts`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IncastRequest {
    /// Endpoints that send, 2 to 8, all at once.
    pub sources: Vec<String>,
    /// Endpoint that receives.
    pub target: String,
    /// The nodes are known to carry no job: the idle gate of bandwidth does not apply.
    #[serde(default)]
    pub drained: bool,
    /// Class of the packets, as for a probe.
    #[serde(default)]
    pub class: Option<u8>,
    /// RDMA device of all ends, where the names are those of nodes.
    #[serde(default)]
    pub device: Option<String>,
}

/// What kind of run a probe is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProbeKind {
    /// Latency or bandwidth of one pair, or both.
    #[default]
    Probe,
    /// Everything about one pair.
    Full,
    /// Several sources to one target.
    Incast,
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

/// Answer of `GET /api/v1/probes`: the newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProbeList {
    /// Those that are kept, of the last 64 that somebody asked for.
    pub probes: Vec<ProbeView>,
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
    /// What kind of run it is.
    #[serde(default)]
    pub kind: ProbeKind,
    /// Source and target as their agents had described them when it began.
    #[serde(default)]
    pub ends: Vec<EndpointView>,
    /// What is measured, in this order.
    #[serde(default)]
    pub measurements: Vec<MeasurementView>,
    /// What was left out.
    #[serde(default)]
    pub skipped: Vec<SkippedView>,
    /// What it all means, the worst first; empty until it is over, and for an ordinary probe.
    #[serde(default)]
    pub verdicts: Vec<VerdictView>,
    /// What an incast found; `null` until it is over.
    #[serde(default)]
    pub incast: Option<IncastView>,
}

/// One step of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProbeStep {
    /// Milliseconds since the probe was asked for.
    pub at_ms: u64,
    /// Who did it: `source`, `target` or `coordinator`.
    pub side: String,
    /// Which step: `admit`, `open`, `init`, `exchange`, `resolve`, `rtr`, `rts`, `first-byte` or `measure`.
    pub step: String,
    /// What happened, in words.
    pub text: String,
}
