//! `cargo xtask slurm` and `cargo xtask scale-out`: the product beside services of other makers, on this machine.

use crate::error::{Result, other};
use crate::install::{Need, install};
use crate::process::run;
use crate::workspace::{Product, RDMASCOPE, build};
use std::process::Command;

const PROGRAM: Product = Product::Program { package: "rdmascope-tests", name: "services" };

/// Health check and prolog in Debian's Slurm.
///
/// # Errors
/// Something cannot be installed or built, this user is not root, or a node was drained, or not, where it should not be.
pub(crate) fn slurm() -> Result<()> {
    install(&[Need::Build, Need::Slurm])?;
    slurm_here()
}

/// The same, where all packages are there.
///
/// # Errors
/// As [`slurm`].
pub(crate) fn slurm_here() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(other("slurmd drains nodes and starts jobs as root only: run it as root"));
    }
    here("slurm")
}

/// Two blocks with a coordinator each, and one Prometheus that federates both.
///
/// # Errors
/// Something cannot be installed, built or started, or one query does not show both blocks.
pub(crate) fn scale_out() -> Result<()> {
    install(&[Need::Build, Need::Tests])?;
    here("scale-out")
}

/// One of both, where all packages are there. What it started ends with it, and nothing stays.
///
/// # Errors
/// As above.
pub(crate) fn here(part: &str) -> Result<()> {
    let (rdmascope, program) = (build(RDMASCOPE)?, build(PROGRAM)?);
    run(part, Command::new(&program).arg(part).env("RDMASCOPE_BIN", rdmascope))
}
