//! `cargo xtask dashboards`: the types of the Grafana dashboards, their rules, and every query of them against a real Prometheus.

use crate::error::{Result, file, other};
use crate::install::{Need, install};
use crate::lab::{Lab, Plan, RunFolder, free_port};
use crate::npm;
use crate::process::{TemporaryFolder, run};
use crate::workspace::{Product, RDMASCOPE, build, cargo, root};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What npm brings.
const TOOLS: [&str; 2] = ["typescript@5.9.3", "@grafana/schema@13.2.3"];
const PROGRAM: Product = Product::Program { package: "rdmascope-tests", name: "dashboards" };
const ENDPOINTS: u8 = 4;
/// Waiting has its own limits; this ends a machine that hangs as a whole.
const LAB_LIMIT: Duration = Duration::from_secs(20 * 60);
/// Where the dashboards are, from the top folder; and the list of queries that may have no data.
const FOLDER: &str = "dashboards/grafana";
const EMPTY: &str = "tests/dashboards/empty.yaml";

/// Where the queries are run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// In the lab, on RDMA devices, instead of on this machine.
    #[arg(long)]
    lab: bool,
}

/// Checks types and rules, then runs every query; the exit code is 0 when each had data where it should.
///
/// # Errors
/// Something cannot be installed, built or booted, a type does not fit, or a rule is broken.
pub(crate) fn dashboards(options: &Options) -> Result<i32> {
    install(if options.lab { &[Need::Build, Need::Tests, Need::Lab] } else { &[Need::Build, Need::Tests] })?;
    check_types()?;
    run(
        "the rules of dashboards",
        &mut cargo(&["test", "--quiet", "-p", "rdmascope-tests", "--test", "dashboards"]),
    )?;
    if options.lab { in_lab() } else { here() }
}

/// Runs every query on this machine.
///
/// # Errors
/// Something cannot be built or started.
pub(crate) fn here() -> Result<i32> {
    let (rdmascope, program) = (build(RDMASCOPE)?, build(PROGRAM)?);
    let mut command = Command::new(&program);
    command.arg("here").arg(root().join(FOLDER)).arg(root().join(EMPTY)).env("RDMASCOPE_BIN", rdmascope);
    let status = command.status().map_err(|error| other(format!("{}: {error}", program.display())))?;
    Ok(status.code().unwrap_or(1))
}

fn in_lab() -> Result<i32> {
    let (rdmascope, program) = (build(RDMASCOPE)?, build(PROGRAM)?);
    let folder = RunFolder::create()?;
    folder.add_program(&rdmascope, "rdmascope")?;
    folder.add_program(&program, "dashboards")?;
    // The guest sees this machine's files but for /tmp, where a working tree may be.
    folder.write("empty.yaml", &read(&root().join(EMPTY))?)?;
    let json = folder.share().join("grafana");
    fs::create_dir(&json).map_err(file("create", &json))?;
    for path in json_files()? {
        let to = json.join(path.file_name().unwrap_or_default());
        fs::copy(&path, &to).map_err(file("copy into the lab", &path))?;
    }
    let command =
        ["/tmp/lab/dashboards", "lab", "/tmp/lab/grafana", "/tmp/lab/empty.yaml"].map(str::to_owned);
    let plan = Plan { endpoints: ENDPOINTS, modules: true, port: free_port()?, command: command.to_vec() };
    Lab::boot(folder, &plan)?.finish(Some(LAB_LIMIT))
}

/// Holds every dashboard against the types that Grafana publishes.
///
/// # Errors
/// npm cannot bring them, or something does not fit.
pub(crate) fn check_types() -> Result<()> {
    let tools = npm::packages("dashboards", &TOOLS)?;
    let folder = TemporaryFolder::create(&std::env::temp_dir(), "rdmascope-dashboards")?;
    let modules = folder.path().join("node_modules");
    symlink(tools.join("node_modules"), &modules).map_err(file("create", &modules))?;
    let mut text = read(&root().join("tests/dashboards/types.ts"))?;
    for path in json_files()? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let _ = write!(text, "\nexport const {name}: Classic = {}", read(&path)?);
    }
    let script = folder.path().join("dashboards.ts");
    fs::write(&script, text).map_err(file("write", &script))?;
    let mut check = Command::new(tools.join("node_modules/.bin/tsc"));
    check.args([
        "--noEmit",
        "--strict",
        "--skipLibCheck",
        "--target",
        "es2022",
        "--moduleResolution",
        "node",
    ]);
    run("tsc, the types of dashboards", check.arg(&script).current_dir(folder.path()))
}

fn json_files() -> Result<Vec<PathBuf>> {
    let folder = root().join(FOLDER);
    let entries = fs::read_dir(&folder).map_err(file("read", &folder))?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut files: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(file("read", path))
}
