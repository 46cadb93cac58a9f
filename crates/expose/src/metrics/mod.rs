//! Metric families and their text: one catalogue, and functions from plain values to the Prometheus text format 0.0.4.
//!
//! A sample is there only when its value is known: what could not be read is absent, never 0.

mod agent;
mod build;
mod catalogue;
mod checks;
mod coordinator;
mod counters;
mod incidents;
mod own;
mod pairs;
mod spread;
mod text;

pub use agent::{AgentInput, MeshInput, PairsInput, agent, look};
pub use build::built_from;
pub use catalogue::{Family, Kind, Scrape, families, markdown};
pub use coordinator::{
    CoordinatorInput, FindingCounts, FindingState, MetricInput, QueueInput, SweepInput, coordinator,
};
pub use incidents::{IncidentInput, IncidentState};
pub use own::{AgentOwn, ConnectionRefusal, CoordinatorOwn, DaemonOwn, ProbeOutcome, encode};
pub use pairs::{PairBandwidth, PairLatency, PairPing, PairRow, WorstOf, WorstRow, pairs, worst_pairs};
pub use spread::{GroupInput, NodeFailures, WorstPairInput};
pub use text::{CONTENT_TYPE, SpreadInput};
