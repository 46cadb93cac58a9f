//! `cargo xtask bench`: builds the release programs and measures them where the real devices are.

use crate::error::{Result, other};
use crate::install::{Need, install};
use crate::lab::{Lab, Plan, RunFolder, free_port};
use crate::workspace::{Product, RDMASCOPE, build};
use std::path::Path;
use std::process::Command;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Name {
    /// In the lab, side by side with perftest.
    Lab,
    /// In the lab: every verb side by side with perftest, and what is injected into the network against what is said of it; then on this
    /// machine: what pings cost.
    Probes,
    /// On this machine: how fast many agents connect.
    Swarm,
    /// On this machine: what a coordinator costs as the cluster grows to 4,096 endpoints.
    Scale,
    /// On this machine: what looking at a node of eight ports costs.
    Node,
}

const BENCH: Product = Product::Program { package: "rdmascope-tests", name: "bench" };
const ENDPOINTS: u8 = 4;

/// Measures and returns the exit code: 0 when every row holds.
///
/// # Errors
/// Something cannot be installed, built or booted.
pub(crate) fn bench(name: Name, json: bool) -> Result<i32> {
    install(match name {
        Name::Lab | Name::Probes => &[Need::Build, Need::Lab],
        Name::Swarm | Name::Scale => &[Need::Build],
        Name::Node => &[Need::Build, Need::Tests],
    })?;
    let rdmascope = build(RDMASCOPE)?;
    let bench = build(BENCH)?;
    let form = json.then_some("--json");
    match name {
        Name::Swarm => here(&rdmascope, &bench, "swarm", form),
        Name::Scale => here(&rdmascope, &bench, "scale", form),
        Name::Node => here(&rdmascope, &bench, "node", form),
        Name::Lab => in_lab(&rdmascope, &bench, "lab", form),
        Name::Probes => {
            let there = in_lab(&rdmascope, &bench, "probes", form)?;
            Ok(there.max(here(&rdmascope, &bench, "mesh", form)?))
        }
    }
}

/// On this machine.
fn here(rdmascope: &Path, bench: &Path, part: &str, form: Option<&str>) -> Result<i32> {
    let mut command = Command::new(bench);
    command.arg(part).args(form).env("RDMASCOPE_BIN", rdmascope);
    let status = command.status().map_err(|error| other(format!("{}: {error}", bench.display())))?;
    Ok(status.code().unwrap_or(1))
}

/// In a lab of its own.
fn in_lab(rdmascope: &Path, bench: &Path, part: &str, form: Option<&str>) -> Result<i32> {
    let run = RunFolder::create()?;
    run.add_program(rdmascope, "rdmascope")?;
    run.add_program(bench, "bench")?;
    let command = ["/tmp/lab/bench", part].into_iter().chain(form).map(str::to_owned).collect();
    Lab::boot(run, &Plan { endpoints: ENDPOINTS, modules: false, port: free_port()?, command })?.finish(None)
}
