//! Turns the config file into values that cannot be wrong, or into a list of everything that is wrong with it.
//!
//! One file serves both roles: the agent reads `agent:`, the coordinator reads `coordinator:`, both read `log:`.
//! The table in `keys.rs` is the one place that names a key; defaults, reference text and the check for unknown
//! keys come from it. Command-line flags are laid over the result by the caller, who then asks `exposure()`.

mod examples;
mod expectations;
mod keys;
mod load;
mod names;
mod node_states;
mod pinned;
mod problem;
mod reference;
mod reload;
mod services;
mod settings;
mod token;
mod topology;
mod tree;
mod values;

pub use examples::examples;
pub use expectations::policy_reference;
pub use keys::AGENT_PORT;
pub use load::{CONFIG_BYTES_MAX, load, parse};
pub use names::distance;
pub use node_states::{NodeStatesError, in_maintenance, read_node_states};
pub use pinned::pinned;
pub use problem::{Problem, Problems};
pub use reference::reference;
pub use services::ServiceConfig;
pub use settings::{
    AgentConfig, Config, CoordinatorConfig, Exposed, LogConfig, LogFormat, LogLevel, MeshConfig,
    MetricsConfig, SweepConfig, TransportKind,
};
pub use token::{Token, TokenError};
pub use topology::{
    Topology, TopologyError, TopologyProblem, expanded as node_names, read_topology, topology,
};
pub use values::{HostPort, HostPortError};
