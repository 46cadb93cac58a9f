//! `cargo xtask package`: a .deb and a .rpm from the release binary, and a trial of both in a fresh root.

mod deb;
mod rpm;
mod tree;
mod trial;

use crate::error::{Result, file, other};
use crate::install::{Need, install};
use crate::process::{TemporaryFolder, output, run};
use crate::workspace::{RDMASCOPE, build, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What to do with the packages.
#[derive(Default, clap::Args)]
pub(crate) struct Options {
    /// Then install, start, upgrade and remove both in a fresh Debian root (needs root and Debian's mirror).
    #[arg(long = "try")]
    tried: bool,
}

/// What a package is of.
struct Source {
    /// The release build.
    binary: PathBuf,
    /// Of the program, such as 0.1.0.
    version: String,
    /// How often this version was packaged, and what goes with its date.
    changelog: Changelog,
}

/// The first entry of `deploy/package/changelog`.
struct Changelog {
    text: String,
    /// Version and release, such as 0.1.0-1.
    full: String,
    /// As it stands there: Mon, 30 Nov 2026 12:00:00 +0000.
    date: String,
}

/// Builds both and has lintian judge the .deb; the folder and the time are said.
///
/// # Errors
/// What could not be built, what lintian calls an error, or what went otherwise than expected in the trial.
pub(crate) fn package(options: &Options) -> Result<()> {
    install(&[Need::Build, Need::Package])?;
    let source = Source::here()?;
    // TARGET/release/rdmascope
    let target = source
        .binary
        .ancestors()
        .nth(2)
        .map_or_else(|| root().join("target"), Path::to_owned)
        .join("package");
    std::fs::create_dir_all(&target).map_err(file("create", &target))?;
    let work = TemporaryFolder::create(&std::env::temp_dir(), "rdmascope-package")?;
    let deb = deb::build(&source, 1, work.path(), &target)?;
    let rpm = rpm::build(&source, 1, work.path(), &target)?;
    // Run as root it says on standard error that it is; its judgement is the exit code.
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error", "--tag-display-limit", "0"]).arg(&deb);
    run("lintian", &mut lintian)?;
    for package in [&deb, &rpm] {
        println!("{}", package.display());
    }
    if options.tried { trial::run_all(&source, [&deb, &rpm], work.path()) } else { Ok(()) }
}

impl Source {
    fn here() -> Result<Self> {
        let binary = build(RDMASCOPE)?;
        let said = output("asking for the version", Command::new(&binary).arg("--version"))?;
        let version = said.split_whitespace().nth(1).unwrap_or_default().to_owned();
        let changelog = Changelog::read()?;
        if changelog.full.split('-').next() != Some(&version) {
            return Err(other(format!(
                "deploy/package/changelog begins with {}, the program is {version}: add an entry",
                changelog.full
            )));
        }
        Ok(Self { binary, version, changelog })
    }

    /// For one of several packages of the same program: 0.1.0-2 is newer than 0.1.0-1.
    fn full(&self, release: u32) -> String {
        format!("{}-{release}", self.version)
    }
}

impl Changelog {
    fn read() -> Result<Self> {
        let text = shipped("changelog")?;
        let full = text.split(['(', ')']).nth(1).unwrap_or_default().to_owned();
        let signed = text.lines().find_map(|line| line.strip_prefix(" -- ")?.split_once(">  "));
        let date = signed.map(|(_, date)| date.to_owned()).unwrap_or_default();
        if full.is_empty() || date.is_empty() {
            return Err(other("deploy/package/changelog has no entry that can be read"));
        }
        Ok(Self { text, full, date })
    }

    /// What changed, a line each.
    fn lines(&self) -> impl Iterator<Item = &str> {
        let entry = self.text.lines().skip(1).take_while(|line| !line.starts_with(" -- "));
        entry.map(str::trim).filter(|line| !line.is_empty())
    }
}

/// A file of `deploy/package`.
fn shipped(name: &str) -> Result<String> {
    let path = root().join("deploy/package").join(name);
    std::fs::read_to_string(&path).map_err(file("read", &path))
}

fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    std::fs::write(path, text).map_err(file("write", path))
}

/// Seconds since 1970 of the changelog's date: the same sources give the same package.
fn epoch(source: &Source) -> Result<String> {
    let mut date = Command::new("date");
    let said = output(
        "reading the date of the changelog",
        date.args(["--utc", "+%s", "--date", &source.changelog.date]),
    )?;
    Ok(said.trim().to_owned())
}
