//! What outsiders see of this crate: scrapers, promtool, dashboards.
#![expect(clippy::disallowed_methods, reason = "tests run a program and read files of the repository")]
#![expect(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

mod dashboards;
mod metrics;
mod promtool;
mod samples;

use std::path::PathBuf;

fn dashboards() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../dashboards")
}
