//! Harness of the end-to-end tests: starts the real binary, reads its API, ends what it started.

pub mod dashboards;
pub mod guest;
pub mod loopback;
pub mod machine;
pub mod prometheus;
pub mod swarm;
pub mod targets;

use std::path::PathBuf;

/// The folder of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
