//! The public JSON API, version 1. Names and meanings only ever grow: scripts and dashboards depend on them.
//!
//! Units stand in the field names. Times are RFC 3339 in UTC. What is not known is `null`, never 0 and never left out (but of
//! a history's points, of which there are hundreds).

mod check;
mod cluster;
mod discovery;
mod health;
mod incident;
mod matrix;
mod node_verdict;
mod openapi;
mod outputs;
mod pair;
mod pair_history;
mod ping;
mod printed;
mod problem;
mod report;
mod route;
mod routes;
mod run;
mod selfcheck;
mod sweep;
mod sweep_pairs;
mod told;

pub use check::{BlindSpot, CheckReport, FindingView, Severity};
pub use cluster::{
    EndpointList, EndpointView, HealthView, NodeList, NodePause, NodeView, PauseLevel, PauseRequest,
    PauseView, PlaceView, ReadyView, StatusView, UnusableView,
};
pub use discovery::{ScrapeTarget, ScrapeTargets};
pub use health::{
    AcknowledgeAnswer, AcknowledgeRequest, AcknowledgementView, EventList, EventView, FactView, FindingList,
    MaintenanceFileView, MaintenanceList, MaintenanceRequest, MaintenanceView, NodeDetail, NodeFinding,
    RemoveRequest,
};
pub use incident::{
    ComponentView, DiagnosisView, FailedPair, IncidentCounts, IncidentDetail, IncidentList, IncidentView,
    LossyPair, PairNames, PairsView, PartView, ReasonView, WorstPairView,
};
pub use matrix::{
    CauseText, CellReason, DecodeError, DecodedMatrix, MATRIX_BIN, MatrixCause, MatrixCells, MatrixForm,
    MatrixHead, MatrixRow, MatrixView, MatrixWriter, Needed, ReadRow, STATE_SELF, decode_bin,
};
pub use node_verdict::{
    AGENT_SOCKET, ASK_LEAVE, ASK_VERDICT, HeldFinding, LeaveView, LookedView, NodeVerdictView,
};
pub use openapi::openapi;
pub use outputs::{OUTPUTS, Output};
pub use pair::{BandwidthFigures, CellState, CellView, FailureView, LatencyFigures, PairView};
pub use pair_history::{HistoryPoint, HistoryView, PinList, PinView};
pub use ping::{PairVerdict, PingFigures, PingLabelFigures, PingSizeFigures};
pub use printed::{
    ConfigReport, ExplainPage, ExplainReport, GidReport, GidView, NodesReport, OpenedReport, ProbeReport,
    ReplayChange, ReplayIncident, ReplayReport, ReplayRow, SightReport, SightView, SimulateRow,
    SweepPlanReport,
};
pub use problem::Problem;
pub use report::{
    IncastSourceView, IncastView, MannerView, MeasurementState, MeasurementView, PriorityCount, ServiceList,
    ServiceView, SkippedView, VerdictView,
};
pub use route::{Method, Route};
pub use routes::ROUTES;
pub use run::{
    IncastRequest, MetricChoice, ProbeKind, ProbeList, ProbeRequest, ProbeState, ProbeStep, ProbeView,
};
pub use selfcheck::{
    BatchIncastView, BatchNodeView, BatchPairView, BatchSuspectView, LimitView, NotTestedView,
    SelfcheckReport, StageView,
};
pub use sweep::{
    ContinuousView, CoveringView, SweepKind, SweepList, SweepPair, SweepPlan, SweepRequest, SweepResult,
    SweepState, SweepView,
};
pub use sweep_pairs::{CancelRequest, PairState, SweepPairList, SweepPairRow};
pub use told::{DelayFigures, EchoFigures, EffectsView, EndView, PingBatchFigures};
