//! `cargo xtask page`: the web page as a person uses it, in a real browser, against real coordinators.

use crate::demo::{self, Cluster};
use crate::error::{Result, file, other};
use crate::install::{Need, install};
use crate::lab::{free_port, tail};
use crate::npm;
use crate::process::{Group, TemporaryFolder, run};
use crate::workspace::{RDMASCOPE, build, root};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What npm brings.
const TOOLS: [&str; 3] = ["typescript@5.9.3", "playwright-core@1.60.0", "openapi-typescript@7.13.0"];
/// Endpoints of the real cluster beside the simulated one.
const REAL: u8 = 3;

/// What stands beside the page's modules while they are checked.
const BESIDE: [&str; 3] = ["tsconfig.json", "package.json", "matrix.test.mjs"];

/// How thoroughly.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Endpoints of the simulated cluster
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(16..=4_096))]
    endpoints: u16,
    /// Drag the map for a second only
    #[arg(long)]
    short: bool,
    /// Use the lab's cluster of RDMA devices instead of one over TCP on this machine
    #[arg(long)]
    lab: bool,
    /// Keep pictures of the page in this folder
    #[arg(long, value_name = "DIR")]
    shots: Option<PathBuf>,
    /// One JSON object for each row instead of a table
    #[arg(long)]
    json: bool,
}

impl Options {
    /// What every run of all tests does.
    pub(crate) fn short() -> Self {
        Self { endpoints: 128, short: true, lab: false, shots: None, json: false }
    }
}

/// Checks the types and drives the page.
///
/// # Errors
/// Something cannot be installed, built or started, a type does not fit, or a step or a row of the script does not hold.
pub(crate) fn page(options: &Options) -> Result<()> {
    install(&[Need::Build, Need::Tests, Need::Page])?;
    if options.lab {
        install(&[Need::Lab])?;
    }
    let tools = npm::packages("page", &TOOLS)?;
    let rdmascope = build(RDMASCOPE)?;
    let logs = TemporaryFolder::create(&std::env::temp_dir(), "rdmascope-page")?;
    let (_simulation, simulated) =
        simulation(&rdmascope, options.endpoints, &logs.path().join("simulation.log"))?;
    check_types(&tools, &simulated)?;
    let (_insecure, insecure) = insecure(&rdmascope, &logs.path().join("insecure.log"))?;
    let (cluster, port) = cluster(&rdmascope, options.lab)?;
    let mut script = Command::new("node");
    script
        .arg(root().join("tests/page/main.mjs"))
        .env("PAGE_TOOLS", &tools)
        .env("CHROMIUM", "/usr/bin/chromium");
    script.env("PAGE_SIMULATED", &simulated).env("PAGE_ENDPOINTS", options.endpoints.to_string());
    script.env("PAGE_CLUSTER", format!("http://127.0.0.1:{port}/")).env("PAGE_TOKEN_FILE", cluster.token());
    script.env("PAGE_CLUSTER_NAME", if options.lab { "lab" } else { "tcp" }).env("PAGE_INSECURE", &insecure);
    script
        .envs(options.short.then_some(("PAGE_SHORT", "1")))
        .envs(options.json.then_some(("PAGE_JSON", "1")));
    if let Some(folder) = &options.shots {
        fs::create_dir_all(folder).map_err(file("create", folder))?;
        script.env("PAGE_SHOTS", folder);
    }
    run("driving the page", &mut script)
}

/// A simulated cluster in which every pair is known and one endpoint answers nobody; and where its page is.
fn simulation(rdmascope: &Path, endpoints: u16, log: &Path) -> Result<(Group, String)> {
    eprintln!("page: {endpoints} simulated endpoints tell of every pair");
    let mut command = Command::new(rdmascope);
    command.args(["simulate", "--silent", "1", "--filled", "--keep", "--endpoints", &endpoints.to_string()]);
    command.stdout(Stdio::piped()).stderr(fs::File::create(log).map_err(file("create", log))?);
    let mut group = Group::start(&mut command)?;
    let stdout = group.take_stdout().ok_or_else(|| other("the simulation has no output to read"))?;
    let url = BufReader::new(stdout).lines().map_while(|line| line.ok()).find_map(|line| {
        let at = line.find("http://")?;
        Some(line[at..].to_owned())
    });
    let url = url.ok_or_else(|| {
        other(format!("the simulation ended before it said where its page is:\n{}", tail(log)))
    })?;
    Ok((group, url))
}

/// A coordinator without agents and without credentials that listens to the network; and where its page is.
fn insecure(rdmascope: &Path, log: &Path) -> Result<(Group, String)> {
    let port = free_port()?;
    let mut command = Command::new(rdmascope);
    command.args(["coordinator", "--insecure", "--listen", &format!("0.0.0.0:{port}")]);
    Ok((Group::start_bound(&command, log)?, format!("http://127.0.0.1:{port}/")))
}

/// A real cluster with a token, and its port.
fn cluster(rdmascope: &Path, lab: bool) -> Result<(Cluster, u16)> {
    let port = free_port()?;
    let mut cluster = if lab { demo::lab(rdmascope, port, REAL)? } else { demo::tcp(rdmascope, port, REAL)? };
    demo::wait_for_coordinator(&mut cluster, port)?;
    Ok((cluster, port))
}

/// Checks the page's types against the document of the API that a coordinator serves, and tests what needs no browser.
fn check_types(tools: &Path, url: &str) -> Result<()> {
    let folder = TemporaryFolder::create(&std::env::temp_dir(), "rdmascope-page")?;
    let web = root().join("crates/coordinator/web");
    let entries = fs::read_dir(&web).map_err(file("read", &web))?;
    let files = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let beside = BESIDE.map(|name| root().join("tests/page").join(name));
    for from in files.filter(|path| path.extension().is_some_and(|end| end == "js")).chain(beside) {
        let to = folder.path().join(from.file_name().unwrap_or_default());
        fs::copy(&from, &to).map_err(file("copy", &from))?;
    }
    let program = |name: &str| Command::new(tools.join("node_modules/.bin").join(name));
    let mut types = program("openapi-typescript");
    types.arg(format!("{url}api/v1/openapi.json")).arg("--output").arg(folder.path().join("schema.d.ts"));
    run("openapi-typescript", types.stdout(Stdio::null()))?;
    run("tsc", program("tsc").arg("--project").arg(folder.path()))?;
    let mut unit = Command::new("node");
    run("node --test", unit.arg("--test").current_dir(folder.path()).stdout(std::io::stderr()))
}
