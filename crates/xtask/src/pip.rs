//! Packages that pip brings, kept outside the tree: once for each list of them.

use crate::error::Result;
use crate::lab::cache;
use crate::process::{TemporaryFolder, run};
use std::path::PathBuf;
use std::process::Command;

/// The folder with these packages (`NAME==VERSION`), which is for `PYTHONPATH`, and their programs in `bin`; `who` needs them.
///
/// # Errors
/// pip cannot bring them, or they cannot be kept.
pub(crate) fn packages(who: &str, packages: &[&str]) -> Result<PathBuf> {
    let names: Vec<String> = packages.iter().map(|package| package.replace("==", "-")).collect();
    let (cache, there) = (cache()?, cache()?.join(format!("{who}-{}", names.join("_"))));
    if there.exists() {
        return Ok(there);
    }
    eprintln!("{who}: pip brings {}", packages.join(", "));
    let made = TemporaryFolder::create(&cache, who)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    // A folder and no virtual environment: that one could not be moved to its place.
    pip.args(["--no-compile", "--target"]).arg(made.path()).args(packages);
    // An option of newer versions: the warning is of installing into the system, which this does not.
    pip.env("PIP_ROOT_USER_ACTION", "ignore");
    run("pip install", pip.stdout(std::io::stderr()))?;
    made.keep_as(&there)?;
    Ok(there)
}
