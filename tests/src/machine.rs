//! A real agent over a machine of files, for programs that watch one from a process of their own.

use rdmascope_config::{AgentConfig, Config};
use rdmascope_host::Host;
use std::path::Path;
use std::process::ExitCode;

/// Where such a machine has its kernel log, below its root.
pub const KERNEL_LOG: &str = "rdmascope/kernel-log";

/// The agent over the machine below `root`, until it is ended.
///
/// # Panics
/// It cannot start.
#[must_use]
pub fn watch(root: &Path, coordinator: &str, listen: &str, node: &str) -> ExitCode {
    let config = AgentConfig {
        coordinator: coordinator.parse().ok(),
        node_name: Some(node.to_owned()),
        listen: listen.parse().ok(),
        state_dir: root.join("state"),
        kernel_log: Some(root.join(KERNEL_LOG)),
        ..Config::default().agent
    };
    let host = Host::new(root.to_owned()).unwrap_or_else(|error| panic!("{error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
    let ran = rdmascope_agent::run_on(host, &config, Config::default().policy, std::future::pending());
    runtime.block_on(ran).unwrap_or_else(|error| panic!("{error}"));
    ExitCode::SUCCESS
}
