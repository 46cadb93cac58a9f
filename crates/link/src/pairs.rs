//! What an agent hears of the pairs of its own endpoints.

use rdmascope_model::Metric;

/// The pairs of one endpoint in one direction, in short: so that its own agent can show them beside its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairsBrief {
    /// RDMA device of the agent's node.
    pub device: String,
    /// Its port.
    pub port: u8,
    /// What was measured.
    pub metric: Metric,
    /// From the endpoint; else to it.
    pub outgoing: bool,
    /// Pairs that are fresh.
    pub fresh: u32,
    /// Pairs whose figure is too old.
    pub stale: u32,
    /// Pairs that failed.
    pub failed: u32,
    /// The largest fresh median, nanoseconds; of bandwidth the smallest average, bits per second.
    pub worst: Option<u64>,
}
