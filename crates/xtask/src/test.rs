//! `cargo xtask test`: every check and every test, cheap ones first, the lab's last.

use crate::dashboards;
use crate::deploy;
use crate::error::{Result, file, other};
use crate::install::{Need, install};
use crate::lab::{Lab, Plan, RunFolder, free_port};
use crate::package;
use crate::page;
use crate::process::run;
use crate::services;
use crate::workspace::{Product, RDMASCOPE, build, cargo, root};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LAB_TESTS: Product = Product::LabTest { package: "rdmascope-tests", name: "lab" };
const ENDPOINTS: u8 = 4;
/// The lab's tests wait for conditions with deadlines of their own; this ends a machine that hangs as a whole.
pub(crate) const LAB_LIMIT: Duration = Duration::from_secs(50 * 60);

/// Runs all of it; the first failure ends it.
///
/// # Errors
/// The step that failed and why; also when this machine cannot boot the lab, for nothing is skipped.
pub(crate) fn test() -> Result<()> {
    step("install the packages that are missing", || install(&Need::ALL))?;
    cargo_step(&["fmt", "--all", "--check"])?;
    cargo_step(&["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])?;
    step("alerts: promtool, amtool", check_alerts)?;
    step("dashboards: types", dashboards::check_types)?;
    step("Kubernetes: Helm chart, kustomize base, Dockerfile", || {
        deploy::deploy(&deploy::Options::default())
    })?;
    cargo_step(&["test", "--workspace"])?;
    step("cargo doc", || {
        let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
        run("cargo doc", doc.env("RUSTDOCFLAGS", "-Dwarnings"))
    })?;
    step("dashboards: every query on this machine", queries_have_data)?;
    step("Slurm: health check and prolog", services::slurm_here)?;
    step("scale-out: two blocks, one Prometheus", || services::here("scale-out"))?;
    step("packages: .deb and .rpm, lintian", || package::package(&package::Options::default()))?;
    step("the web page: types, and a short look", || page::page(&page::Options::short()))?;
    test_in_lab(&[], &[], LAB_LIMIT)
}

fn queries_have_data() -> Result<()> {
    match dashboards::here()? {
        0 => Ok(()),
        _ => Err(other("some queries of the dashboards have no data; which ones stands above")),
    }
}

/// Tests in the lab, with these words before the program and behind it, for so long at most. The guest's lines are the last of the whole
/// run, so that the test runner's own verdict closes it.
///
/// # Errors
/// Something cannot be built or booted, or a test failed.
pub(crate) fn test_in_lab(before: &[&str], behind: &[&str], limit: Duration) -> Result<()> {
    let (rdmascope, tests) = step("build for the lab", || Ok((build(RDMASCOPE)?, build(LAB_TESTS)?)))?;
    eprintln!("==> tests in the lab");
    let folder = RunFolder::create()?;
    folder.add_program(&rdmascope, "rdmascope")?;
    folder.add_program(&tests, "tests")?;

    // One at a time: all of them change the same ports, and two probes at once spoil each other on two processors.
    let own = ["/tmp/lab/tests", "--test-threads=1"];
    let command = [before, &own, behind].concat().into_iter().map(str::to_owned).collect();
    let lab = Lab::boot(folder, &Plan { endpoints: ENDPOINTS, modules: true, port: free_port()?, command })?;
    match lab.finish(Some(limit))? {
        0 => Ok(()),
        code => Err(other(format!("tests in the lab failed (exit code {code}); their output is above"))),
    }
}

fn check_alerts() -> Result<()> {
    let rules = yaml_files(&root().join("dashboards/alerts"))?;
    let tests = yaml_files(&root().join("dashboards/alerts/tests"))?;
    if !rules.is_empty() {
        run("promtool check rules", Command::new("promtool").args(["check", "rules"]).args(&rules))?;
    }
    if !tests.is_empty() {
        run("promtool test rules", Command::new("promtool").args(["test", "rules"]).args(&tests))?;
    }
    let routes = yaml_files(&root().join("dashboards/alerts/alertmanager"))?;
    run("amtool check-config", Command::new("amtool").arg("check-config").args(&routes))
}

fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(file("read", folder))?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "yaml" || end == "yml")).collect();
    files.sort();
    Ok(files)
}

fn cargo_step(arguments: &[&str]) -> Result<()> {
    let name = format!("cargo {}", arguments.join(" "));
    step(&name, || run(&name, &mut cargo(arguments)))
}

fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("==> {name}");
    let start = Instant::now();
    let result = work()?;
    eprintln!("    done in {:.1} s: {name}", start.elapsed().as_secs_f64());
    Ok(result)
}
