//! `cargo xtask bench`: builds the release programs and measures them where the real devices are.

use crate::error::Result;
use crate::install::{Need, install};
use crate::lab::{Lab, Plan, RunFolder, free_port};
use crate::workspace::{Product, RDMASCOPE, build};

/// What can be measured.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Name {
    /// In the lab, side by side with perftest.
    Lab,
}

const BENCH: Product = Product::Program { package: "rdmascope-tests", name: "bench" };
const ENDPOINTS: u8 = 4;

/// Measures and returns the exit code: 0 when every row holds.
///
/// # Errors
/// Something cannot be installed, built or booted.
pub(crate) fn bench(name: Name, json: bool) -> Result<i32> {
    install(&[Need::Build, Need::Lab])?;
    let rdmascope = build(RDMASCOPE)?;
    let bench = build(BENCH)?;
    let run = RunFolder::create()?;
    run.add_program(&rdmascope, "rdmascope")?;
    run.add_program(&bench, "bench")?;
    let mut command = vec!["/tmp/lab/bench".to_owned()];
    command.push(match name {
        Name::Lab => "lab".to_owned(),
    });
    if json {
        command.push("--json".to_owned());
    }
    Lab::boot(run, &Plan { endpoints: ENDPOINTS, port: free_port()?, command })?.finish(None)
}
