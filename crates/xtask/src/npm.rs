//! Packages that npm brings, kept outside the tree: once for each list of them.

use crate::error::Result;
use crate::lab::cache;
use crate::process::{TemporaryFolder, run};
use std::path::PathBuf;
use std::process::Command;

/// The folder with these packages, each with its version, which are part of the folder's name; `who` needs them.
///
/// # Errors
/// npm cannot bring them, or they cannot be kept.
pub(crate) fn packages(who: &str, packages: &[&str]) -> Result<PathBuf> {
    let names: Vec<String> = packages.iter().map(|package| package.replace(['@', '/'], "-")).collect();
    let (cache, there) = (cache()?, cache()?.join(format!("{who}-{}", names.join("_"))));
    if there.exists() {
        return Ok(there);
    }
    eprintln!("{who}: npm brings {}", packages.join(", "));
    let made = TemporaryFolder::create(&cache, who)?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--save-exact", "--loglevel=error"]);
    run("npm install", npm.args(packages).arg("--prefix").arg(made.path()).stdout(std::io::stderr()))?;
    made.keep_as(&there)?;
    Ok(there)
}
