//! `cargo xtask soak`: whether a cluster in the lab holds the same after an hour of work as in its beginning.

use crate::error::Result;
use crate::install::{Need, install};
use crate::test::{LAB_LIMIT, test_in_lab};
use std::time::Duration;

/// For how long.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seconds of work
    #[arg(long, value_name = "SECONDS", default_value_t = 3_600, value_parser = clap::value_parser!(u32).range(120..))]
    seconds: u32,
}

/// Runs it and prints what was held, by program and by device.
///
/// # Errors
/// Something grew, or cannot be installed, built or started.
pub(crate) fn soak(options: &Options) -> Result<()> {
    install(&[Need::Build, Need::Lab])?;
    let seconds = format!("RDMASCOPE_SOAK_SECONDS={}", options.seconds);
    let behind = ["--nocapture", "--include-ignored", "soak::"];
    let limit = LAB_LIMIT + Duration::from_secs(options.seconds.into());
    test_in_lab(&["/usr/bin/env", &seconds], &behind, limit)
}
