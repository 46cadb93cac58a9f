//! The public JSON API, version 1. Names and meanings only ever grow: scripts and dashboards depend on them.
//!
//! Units stand in the field names. Times are RFC 3339 in UTC. What is not known is `null`, never 0 and never left out.

mod check;
mod cluster;
mod discovery;
mod health;
mod incident;
mod matrix;
mod openapi;
mod pair;
mod ping;
mod problem;
mod report;
mod routes;
mod run;
mod sweep;
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
    CellReason, DecodeError, DecodedMatrix, MATRIX_BIN, MatrixCause, MatrixCells, MatrixForm, MatrixHead,
    MatrixRow, MatrixView, MatrixWriter, Needed, ReadRow, STATE_SELF, decode_bin,
};
pub use openapi::openapi;
pub use pair::{BandwidthFigures, CellState, CellView, FailureView, LatencyFigures, PairView};
pub use ping::{PairVerdict, PingFigures, PingLabelFigures, PingSizeFigures};
pub use problem::Problem;
pub use report::{
    IncastSourceView, IncastView, MannerView, MeasurementState, MeasurementView, PriorityCount, ServiceList,
    ServiceView, SkippedView, VerdictView,
};
pub use routes::{Method, ROUTES, Route};
pub use run::{IncastRequest, MetricChoice, ProbeKind, ProbeRequest, ProbeState, ProbeStep, ProbeView};
pub use sweep::{
    ContinuousView, CoveringView, SweepKind, SweepList, SweepPair, SweepPlan, SweepRequest, SweepResult,
    SweepState, SweepView,
};
pub use told::{DelayFigures, EchoFigures, EffectsView, EndView, PingBatchFigures};
