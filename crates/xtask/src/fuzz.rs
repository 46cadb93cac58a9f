//! `cargo xtask fuzz`: libFuzzer feeds everything that reads bytes of others; what it finds stays outside the tree, the kept corpus in it.

use crate::error::{Result, file, other};
use crate::install::{Need, install};
use crate::lab::cache;
use crate::process::{Group, TemporaryFolder};
use crate::workspace::{Product, build, root};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The kept corpus, from the top folder: a folder for each target, which `tests/corpus.rs` holds to be so.
const KEPT: &str = "tests/fixtures/fuzz";
/// Longest input, bytes; what is kept is no longer.
const INPUT_BYTES_MAX: &str = "-max_len=4096";
/// A decoder that takes longer than this, or more memory, is broken.
const LIMITS: [&str; 2] = ["-timeout=20", "-rss_limit_mb=1024"];
/// Files that are kept for each target at most.
const KEPT_MAX: usize = 48;

/// Which targets, and how long.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only this target; their names are those of the folders in tests/fixtures/fuzz
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Seconds for each target
    #[arg(long, value_name = "S", default_value_t = 60, conflicts_with = "runs")]
    seconds: u64,
    /// Inputs for each target, however long they take
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// Afterwards, replace the kept corpus by the few inputs that reach most
    #[arg(long)]
    keep: bool,
}

/// What libFuzzer says of a run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    runs: u64,
    per_second: u64,
    /// Edges that were reached.
    edges: u64,
    /// Inputs in the corpus, the kept ones among them.
    inputs: u64,
    /// The input that broke the target.
    broken: Option<String>,
}

/// Runs each target in turn and prints what was run; the first that breaks ends it.
///
/// # Errors
/// Something cannot be installed or built, there is no such target, or an input breaks one: its path is in the error.
pub(crate) fn fuzz(options: &Options) -> Result<()> {
    install(&[Need::Build, Need::Fuzz])?;
    let names = names(options.target.as_deref())?;
    let program = build(Product::Fuzz)?;
    let length = match options.runs {
        Some(runs) => format!("-runs={runs}"),
        None => format!("-max_total_time={}", options.seconds),
    };
    println!("{:<24} {:>12} {:>9} {:>7} {:>7}", "target", "runs", "per s", "edges", "inputs");
    let mut all = 0;
    for name in &names {
        let told = run_target(&program, name, &length)?;
        println!("{name:<24} {:>12} {:>9} {:>7} {:>7}", told.runs, told.per_second, told.edges, told.inputs);
        all += told.runs;
        if options.keep {
            keep(&program, name)?;
        }
    }
    println!("{:<24} {all:>12}", "all");
    Ok(())
}

/// The targets that are wanted, which are the folders of the kept corpus.
fn names(only: Option<&str>) -> Result<Vec<String>> {
    let folder = root().join(KEPT);
    let entries = fs::read_dir(&folder).map_err(file("read", &folder))?;
    let folders = entries.filter_map(|entry| entry.ok()).filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> =
        folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    if let Some(only) = only {
        if !names.iter().any(|name| name == only) {
            return Err(other(format!("there is no target {only}; there are: {}", names.join(", "))));
        }
        names.retain(|name| name == only);
    }
    Ok(names)
}

/// Where what a target finds stays from run to run.
fn finds(name: &str) -> Result<PathBuf> {
    let folder = cache()?.join("fuzz").join(name);
    fs::create_dir_all(&folder).map_err(file("create", &folder))?;
    Ok(folder)
}

fn run_target(program: &Path, name: &str, length: &str) -> Result<Told> {
    let finds = finds(name)?;
    let broken = finds.with_extension("broken-");
    let mut command = libfuzzer(program, name);
    command.args([length, "-print_final_stats=1", &format!("-artifact_prefix={}", broken.display())]);
    let (ended_well, said) = said(command.arg(&finds).arg(root().join(KEPT).join(name)), &finds)?;
    let told = told(&said);
    if ended_well {
        return Ok(told);
    }
    let last: Vec<&str> = said.lines().rev().filter(|line| !line.trim().is_empty()).take(60).collect();
    eprintln!("{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"));
    Err(other(match told.broken {
        Some(input) => {
            format!("{name} breaks at {input}: mend the decoder, then keep the input in {KEPT}/{name}")
        }
        None => format!("{name} ended early and named no input; what it said is above"),
    }))
}

fn libfuzzer(program: &Path, name: &str) -> Command {
    let mut command = Command::new(program);
    command.env("RDMASCOPE_FUZZ_TARGET", name).arg(INPUT_BYTES_MAX).args(LIMITS);
    command
}

/// Runs it to its end: whether that was a good one, and what it said. Its words lie beside the finds.
fn said(command: &mut Command, finds: &Path) -> Result<(bool, String)> {
    let log = finds.with_extension("log");
    command.stderr(File::create(&log).map_err(file("create", &log))?);
    command.stdout(std::process::Stdio::null());
    let status = Group::start(command)?.wait()?;
    let said = fs::read(&log).map_err(file("read", &log))?;
    Ok((status.success(), String::from_utf8_lossy(&said).into_owned()))
}

/// Reads libFuzzer's lines: `stat::number_of_executed_units: 7`, `#7 DONE cov: 5 ft: 6 corp: 3/9b ...`.
fn told(said: &str) -> Told {
    let mut told = Told::default();
    let number = |text: Option<&str>| text.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    for line in said.lines() {
        if let Some(count) = line.strip_prefix("stat::number_of_executed_units:") {
            told.runs = number(Some(count));
        } else if let Some(speed) = line.strip_prefix("stat::average_exec_per_sec:") {
            told.per_second = number(Some(speed));
        } else if let Some((_, path)) = line.split_once("Test unit written to ") {
            told.broken = Some(path.trim().to_owned());
        } else if line.starts_with('#') {
            let words: Vec<&str> = line.split_whitespace().collect();
            let after =
                |word: &str| words.iter().position(|w| *w == word).and_then(|at| words.get(at + 1).copied());
            if after("cov:").is_some() {
                told.edges = number(after("cov:"));
                told.inputs = number(after("corp:").and_then(|corpus| corpus.split('/').next()));
            }
        }
    }
    told
}

/// Puts the few inputs that reach most, of all that are known, into the tree; the shortest of them where they are too many.
fn keep(program: &Path, name: &str) -> Result<()> {
    let (finds, kept) = (finds(name)?, root().join(KEPT).join(name));
    let merged = TemporaryFolder::create(&std::env::temp_dir(), "rdmascope-fuzz")?;
    let mut command = libfuzzer(program, name);
    let (ended_well, said) =
        said(command.arg("-set_cover_merge=1").arg(merged.path()).arg(&finds).arg(&kept), &finds)?;
    if !ended_well {
        return Err(other(format!("the corpus of {name} cannot be merged:\n{said}")));
    }
    let mut new = inputs(merged.path())?;
    new.sort_by_key(|(file, bytes)| (bytes.len(), file.clone()));
    new.truncate(KEPT_MAX);
    for (old, _) in inputs(&kept)? {
        fs::remove_file(kept.join(&old)).map_err(file("remove", &kept))?;
    }
    for (name, bytes) in new {
        let to = kept.join(name);
        fs::write(&to, bytes).map_err(file("write", &to))?;
    }
    Ok(())
}

/// Names and bytes of the files in a folder.
fn inputs(folder: &Path) -> Result<Vec<(std::ffi::OsString, Vec<u8>)>> {
    let entries = fs::read_dir(folder).map_err(file("read", folder))?;
    let paths = entries.filter_map(|entry| entry.ok()).map(|entry| (entry.file_name(), entry.path()));
    paths.map(|(name, path)| Ok((name, fs::read(&path).map_err(file("read", &path))?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libfuzzer_says_is_read() {
        let said = "INFO: Seed: 1\n#2\tINITED cov: 10 ft: 11 corp: 1/1b exec/s: 0 rss: 40Mb\n\
            #70\tDONE   cov: 25 ft: 61 corp: 12/345b lim: 4 exec/s: 35 rss: 41Mb\nDone 70 runs in 2 second(s)\n\
            stat::number_of_executed_units: 70\nstat::average_exec_per_sec:     35\n";
        let expected = Told { runs: 70, per_second: 35, edges: 25, inputs: 12, broken: None };
        assert_eq!(told(said), expected);
        let broken =
            "==1== ERROR: libFuzzer: deadly signal\nartifact_prefix='/x/'; Test unit written to /x/crash-1\n";
        assert_eq!(told(broken).broken.as_deref(), Some("/x/crash-1"));
        assert_eq!(told(""), Told::default());
    }
}
