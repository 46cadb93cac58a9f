//! `cargo xtask cases`: judges the machine of every public case with the release build, and compares with what its report asks for.

use crate::error::{Result, other};
use crate::install::{Need, install};
use crate::workspace::{Product, RDMASCOPE, build, root};
use std::path::PathBuf;
use std::process::Command;

const CASES: Product = Product::Program { package: "rdmascope-tests", name: "cases" };

/// Which cases, and how the result is printed.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Folder with one folder for each case (`machine.capture`, `expect.yaml`, maybe `config.yaml`) [default: tests/fixtures/cases]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// One JSON object for each row instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs them all and returns the exit code: 0 when enough are right.
///
/// # Errors
/// Something cannot be installed, built or started.
pub(crate) fn cases(options: Options) -> Result<i32> {
    install(&[Need::Build])?;
    let rdmascope = build(RDMASCOPE)?;
    let program = build(CASES)?;
    let mut command = Command::new(&program);
    command.env("RDMASCOPE_BIN", &rdmascope).args(options.json.then_some("--json"));
    command.arg(options.dir.unwrap_or_else(|| root().join("tests/fixtures/cases")));
    let status = command.status().map_err(|error| other(format!("{}: {error}", program.display())))?;
    Ok(status.code().unwrap_or(1))
}
