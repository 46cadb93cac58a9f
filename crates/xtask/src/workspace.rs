//! Where the sources are, and cargo builds that say where they put what they built.

use crate::error::{Error, Result, other};
use crate::process::{Group, failed, output};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The top folder of the working tree.
pub(crate) fn root() -> PathBuf {
    // `cargo run` says where this package is now; the path of the time it was built may be of a moved tree.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = package.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    package.ancestors().nth(2).map_or_else(|| package.clone(), Path::to_owned)
}

/// A cargo command in the working tree.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// What a build has to produce.
#[derive(Clone, Copy)]
pub(crate) enum Product {
    /// A program: `cargo build --release -p PACKAGE --bin NAME`.
    Program {
        /// Cargo package.
        package: &'static str,
        /// Name of the binary target.
        name: &'static str,
    },
    /// The test executable of a test target that only runs inside the lab.
    LabTest {
        /// Cargo package.
        package: &'static str,
        /// Name of the test target.
        name: &'static str,
    },
    /// All fuzz targets in one program, with code that tells libFuzzer what each input reaches.
    Fuzz,
}

/// What the compiler adds for libFuzzer: counters of edges, their places, and what is compared with what.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The one program of the product.
pub(crate) const RDMASCOPE: Product = Product::Program { package: "rdmascope-cli", name: "rdmascope" };

impl Product {
    fn name(self) -> &'static str {
        match self {
            Self::Program { name, .. } | Self::LabTest { name, .. } => name,
            Self::Fuzz => "fuzz",
        }
    }

    fn arguments(self) -> Vec<&'static str> {
        match self {
            Self::Program { package, name } => vec!["build", "--release", "-p", package, "--bin", name],
            Self::LabTest { package, name } => {
                vec!["test", "-p", package, "--features", "lab", "--test", name, "--no-run"]
            }
            // With a target, what runs while building is compiled without those counters.
            Self::Fuzz => {
                vec![
                    "build",
                    "--release",
                    "--manifest-path",
                    "tests/fuzz/Cargo.toml",
                    "--target",
                    "host-tuple",
                ]
            }
        }
    }
}

/// Builds one product and returns the path of its executable.
pub(crate) fn build(product: Product) -> Result<PathBuf> {
    let mut command = cargo(&product.arguments());
    // Warnings and errors still reach the terminal as text; only the artifacts come as JSON.
    command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    if let (Product::Program { .. }, Some(revision)) = (product, revision()) {
        // `rdmascope --version` and its metrics say it.
        command.env("RDMASCOPE_REVISION", revision);
    }
    if let Product::Fuzz = product {
        // A workspace of its own, built into the folder of this one.
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        command.env("RUSTFLAGS", COVERAGE).env("CARGO_TARGET_DIR", target);
    }
    let what = format!("cargo {}", product.arguments().join(" "));
    let mut group = Group::start(&mut command)?;
    let stdout = group.take_stdout().ok_or_else(|| other("cargo has no output to read"))?;
    let mut found = None;
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|source| Error::Start { program: "cargo".to_owned(), source })?;
        found = executable(&line, product.name()).or(found);
    }
    let status = group.wait()?;
    if !status.success() {
        return Err(failed(&what, status));
    }
    found.ok_or_else(|| other(format!("`{what}` built no executable of that name")))
}

/// The commit that is checked out, with `-dirty` where files differ from it; `None` without git or outside of a clone.
fn revision() -> Option<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"]).current_dir(root());
    output("asking git", &mut git).ok().map(|said| said.trim().to_owned())
}

/// The release build of rdmascope, if somebody has made one.
pub(crate) fn built_rdmascope() -> Result<Option<PathBuf>> {
    let metadata = output("asking cargo", &mut cargo(&["metadata", "--no-deps", "--format-version=1"]))?;
    let metadata: serde_json::Value =
        serde_json::from_str(&metadata).map_err(|error| other(format!("cargo metadata: {error}")))?;
    let target =
        metadata["target_directory"].as_str().ok_or_else(|| other("cargo names no target folder"))?;
    let program = Path::new(target).join("release/rdmascope");
    Ok(program.exists().then_some(program))
}

/// The path in one line of cargo's JSON, if the line is about the wanted executable.
fn executable(line: &str, name: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["target"]["name"] != name {
        return None;
    }
    message["executable"].as_str().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_taken_from_the_artifact_of_that_name_only() {
        let bench = r#"{"reason":"compiler-artifact","target":{"name":"bench"},"executable":"/t/bench"}"#;
        let library = r#"{"reason":"compiler-artifact","target":{"name":"bench"},"executable":null}"#;
        assert_eq!(executable(bench, "bench"), Some(PathBuf::from("/t/bench")));
        assert_eq!(executable(bench, "lab"), None);
        assert_eq!(executable(library, "bench"), None);
        assert_eq!(executable("not JSON", "bench"), None);
    }
}
