//! Who an agent is, and how it introduces itself.

use rdmascope_link::{Hello, PROTOCOL_MAX, PROTOCOL_MIN};
use std::net::SocketAddr;

/// Who this agent is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Node name.
    pub node: String,
    /// Differs between two runs.
    pub instance: u64,
    /// The machine's boot id.
    pub machine: String,
    /// Program version.
    pub version: String,
    /// Where others can have its own metrics.
    pub metrics: Option<SocketAddr>,
}

impl Identity {
    pub(super) fn hello(&self) -> Hello {
        Hello {
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            agent_version: self.version.clone(),
            node: self.node.clone(),
            instance: self.instance,
            machine: self.machine.clone(),
            metrics: self.metrics,
        }
    }
}
