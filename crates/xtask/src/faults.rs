//! `cargo xtask faults`: the fault suite of the simulated cluster, and how often the verdict names the right one.

use crate::error::{Result, other};
use crate::install::{Need, install};
use crate::test::{LAB_LIMIT, test_in_lab};
use crate::workspace::{Product, build, root};
use std::path::PathBuf;
use std::process::Command;

const FAULTS: Product = Product::Program { package: "rdmascope-sim", name: "faults" };

/// Which runs, and how the result is printed.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Runs of each size, over all kinds of faults [default: as the parameter file says]
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
    /// Only clusters of so many endpoints, and no quiet week
    #[arg(long, value_name = "N")]
    endpoints: Option<usize>,
    /// Only kinds of faults whose name contains this, and no quiet week
    #[arg(long, value_name = "TEXT")]
    kind: Option<String>,
    /// Only this run of the others, by its seed as `--wrong` tells it, and no quiet week; takes the same --runs and --kind
    #[arg(long, value_name = "SEED")]
    run: Option<String>,
    /// Only the quiet week
    #[arg(long)]
    quiet: bool,
    /// Not the simulation: faults made for real in the lab, and ten minutes there without one
    #[arg(long, exclusive = true)]
    lab: bool,
    /// Another seed makes other runs; the same one makes the same [default: as the parameter file says]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// The fabric, the clusters and the kinds of faults [default: tests/faults.yaml]
    #[arg(long, value_name = "FILE")]
    parameters: Option<PathBuf>,
    /// Tell of every run that was not told right, on standard error
    #[arg(long)]
    wrong: bool,
    /// One JSON object for each row instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs them all and returns the exit code: 0 when every goal holds.
///
/// # Errors
/// Something cannot be installed, built or started.
pub(crate) fn faults(options: Options) -> Result<i32> {
    if options.lab {
        install(&[Need::Build, Need::Lab])?;
        let healthy = ["/usr/bin/env", "RDMASCOPE_HEALTHY_SECONDS=600"];
        let behind = ["--nocapture", "--include-ignored", "incidents::"];
        return test_in_lab(&healthy, &behind, LAB_LIMIT).map(|()| 0);
    }
    install(&[Need::Build])?;
    let program = build(FAULTS)?;
    let mut command = Command::new(&program);
    let mut pass = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            command.args([name, &value]);
        }
    };
    pass("--runs", options.runs.map(|runs| runs.to_string()));
    pass("--endpoints", options.endpoints.map(|endpoints| endpoints.to_string()));
    pass("--kind", options.kind);
    pass("--seed", options.seed.map(|seed| seed.to_string()));
    pass("--run", options.run);
    let flags = [("--quiet", options.quiet), ("--wrong", options.wrong), ("--json", options.json)];
    command.args(flags.into_iter().filter(|(_, wanted)| *wanted).map(|(name, _)| name));
    command.arg("--parameters").arg(options.parameters.unwrap_or_else(|| root().join("tests/faults.yaml")));
    let status = command.status().map_err(|error| other(format!("{}: {error}", program.display())))?;
    Ok(status.code().unwrap_or(1))
}
