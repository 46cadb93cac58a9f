//! `rdmascope simulate`: what a coordinator costs for so many endpoints, measured on a real one with agents that are made up.

mod agent;
mod made_up;
mod orders;
mod process;
mod swarm;

use crate::daemons::until_signal;
use crate::failure::{Failure, code};
use crate::logs;
use crate::output::{Progress, print, show};
use crate::screen::screen;
use agent::Shape;
use clap::{Args, value_parser};
use orders::{Mode, Orders};
use process::Coordinator;
use rdmascope_config::{Config, LogConfig, LogLevel};
use rdmascope_expose::api::SimulateRow;
use rdmascope_host::ProcessCost;
use rdmascope_model::Reading;
use serde_json::Value;
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use swarm::Swarm;

/// The whole cluster is there in this time, or something is wrong.
const PATIENCE: Duration = Duration::from_secs(300);
/// Between two looks.
const GLANCE: Duration = Duration::from_millis(20);
/// Each request is made so often; the median counts.
const REQUESTS: usize = 5;

/// Find out what a coordinator costs for a cluster of a size, without that cluster
///
/// Starts a coordinator of its own on this machine and as many simulated agents as wanted, which speak the real protocol over real
/// sockets, in real time. Only the fabric behind them is made up. What the simulation itself costs is told apart. Needs no RDMA and
/// touches no running coordinator.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope simulate --endpoints 1024             half a minute of its daily life
  rdmascope simulate --endpoints 4096 --filled    every pair known: its memory
  rdmascope simulate --endpoints 2048 --flood     how many results it can take
  rdmascope simulate --endpoints 1000 --silent 1 --filled --keep
                                                  a cluster of that size to look at in a browser")]
pub(crate) struct SimulateFlags {
    /// RDMA endpoints of the cluster
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(2..=4_096))]
    endpoints: u16,
    /// Endpoints of one node, each on a rail of its own
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u16).range(1..=64))]
    rails: u16,
    /// Nodes on one leaf switch
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u16).range(1..))]
    nodes_per_leaf: u16,
    /// Pings of each endpoint, as mesh.pings_per_second
    #[arg(long, value_name = "N", default_value_t = 10)]
    pings_per_second: u32,
    /// How long to watch
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    seconds: u64,
    /// So many of the endpoints answer no ping
    #[arg(long, value_name = "N", default_value_t = 0)]
    silent: u16,
    /// First tell of every pair: latency, bandwidth within each rail, and pings
    #[arg(long)]
    filled: bool,
    /// Tell of pings as fast as the coordinator takes them, instead of at the granted rate
    #[arg(long)]
    flood: bool,
    /// At the end restart the coordinator, and wait until matrix and agents are back
    #[arg(long)]
    restart: bool,
    /// Measure nothing: say where the page and the API are, and go on pinging until Ctrl-C
    #[arg(long, conflicts_with_all = ["flood", "restart", "seconds"])]
    keep: bool,
    /// Print JSON, one object for each line
    #[arg(long)]
    json: bool,
}

/// Figures as they come.
struct Report {
    json: bool,
    progress: Progress,
}

impl Report {
    fn row(&mut self, what: &str, seen: f64, unit: &str) -> Result<(), Failure> {
        self.progress.clear();
        if !self.json {
            let room = screen().columns.map_or(66, |columns| columns.saturating_sub(24).min(66));
            return show(&format!("{what:room$} {seen:>14.3} {unit}\n"));
        }
        let row = SimulateRow {
            what: what.to_owned(),
            seen,
            unit: unit.to_owned(),
            asked: String::new(),
            holds: true,
            against: None,
            seen_against: None,
        };
        // One object on each line, as the benchmarks have it.
        let row = serde_json::to_string(&row).unwrap_or_default();
        print(&format!("{row}\n"))
    }
}

/// Runs the simulation.
pub(crate) fn run(flags: &SimulateFlags) -> Result<u8, Failure> {
    if flags.silent >= flags.endpoints {
        return Err(Failure::new(code::USAGE, "--silent: some endpoints must answer"));
    }
    logs::set_up(&LogConfig { level: LogLevel::Error, ..Config::default().log })?;
    let shape =
        Shape { endpoints: flags.endpoints.into(), rails: flags.rails.into(), silent: flags.silent.into() };
    let mut report = Report { json: flags.json, progress: Progress::new() };
    let mut coordinator = Coordinator::start(&config(flags), &topology(flags, &shape))?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    report.row("processor cores of this machine", cores as f64, "")?;
    let began = Instant::now();
    let (swarm, orders) = Swarm::start(&shape, &coordinator.address())?;
    wait_for_agents(&coordinator, &shape, &mut report)?;
    report.row("all agents registered after", began.elapsed().as_secs_f64(), "s")?;
    let mut simulation = Simulation { flags, shape, orders: &orders, report };
    if flags.filled {
        simulation.fill(&coordinator)?;
    }
    if flags.keep {
        return simulation.keep(&coordinator);
    }
    simulation.watch(&coordinator)?;
    simulation.ask(&coordinator)?;
    if flags.restart {
        simulation.restart(&mut coordinator)?;
    }
    drop(swarm);
    simulation.own_cost()?;
    Ok(0)
}

fn config(flags: &SimulateFlags) -> String {
    let folder = std::env::temp_dir().join(format!("rdmascope-simulate-{}", std::process::id()));
    format!(
        "log:\n  level: warn\ncoordinator:\n  topology_file: {}\n  mesh:\n    pings_per_second: {}\n",
        folder.join("topology.csv").display(),
        flags.pings_per_second
    )
}

fn topology(flags: &SimulateFlags, shape: &Shape) -> String {
    let mut text = "node,leaf,pod,rail\n".to_owned();
    for node in 0..shape.nodes() {
        let (name, leaf) = (made_up::node_name(node), node / usize::from(flags.nodes_per_leaf));
        let _ = writeln!(text, "{name},leaf-{leaf:03},,");
        // Whoever looks wants to see rails; what is measured stays as it was.
        for rail in (0..shape.rails).filter(|_| flags.keep) {
            let _ = writeln!(text, "{name}/mlx5_{rail},,,rail-{rail}");
        }
    }
    text
}

fn wait_for_agents(coordinator: &Coordinator, shape: &Shape, report: &mut Report) -> Result<(), Failure> {
    let usable = || -> Result<usize, Failure> {
        let (body, _) = coordinator.get("/api/v1/status")?;
        let status: Value = serde_json::from_slice(&body).unwrap_or_default();
        Ok(usize::try_from(status["endpoints_usable"].as_u64().unwrap_or(0)).unwrap_or(0))
    };
    wait(PATIENCE, "the agents do not register", || {
        let there = usable()?;
        report.progress.show(&format!("{there} of {} endpoints are there", shape.endpoints));
        Ok(there >= shape.endpoints)
    })
}

fn wait(
    limit: Duration,
    what: &str,
    mut there: impl FnMut() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let began = Instant::now();
    while !there()? {
        if began.elapsed() > limit {
            return Err(Failure::new(code::FAILED, format!("{what} within {} s", limit.as_secs())));
        }
        std::thread::sleep(GLANCE);
    }
    Ok(())
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

struct Simulation<'a> {
    flags: &'a SimulateFlags,
    shape: Shape,
    orders: &'a Orders,
    report: Report,
}

impl Simulation<'_> {
    /// Every pair is told of.
    fn fill(&mut self, coordinator: &Coordinator) -> Result<(), Failure> {
        let agents = self.shape.nodes() as u64;
        let empty = coordinator.cost()?;
        self.report.row(
            "resident memory, agents registered, nothing measured",
            megabytes(empty.resident),
            "MB",
        )?;
        self.pour(coordinator, Mode::Fill, "results of connections", |orders| orders.filled() >= agents)?;
        let told = coordinator.cost()?;
        let rate = self.orders.results() as f64 / (told.processor - empty.processor).as_secs_f64();
        self.report.row("results of connections told by name", self.orders.results() as f64, "")?;
        self.report.row("of them taken per second of one core", rate, "1/s")?;
        self.report.row(
            "resident memory, latency of all pairs, bandwidth by rail",
            megabytes(told.resident),
            "MB",
        )?;
        self.pour(coordinator, Mode::Flood, "pings", |orders| orders.rounds() >= agents)?;
        let full = coordinator.cost()?;
        self.report.row("resident memory, pings of all pairs beside them", megabytes(full.resident), "MB")
    }

    /// Until it is `over`, and the coordinator has taken all that is under way.
    fn pour(
        &mut self,
        coordinator: &Coordinator,
        mode: Mode,
        what: &str,
        over: impl Fn(&Orders) -> bool,
    ) -> Result<(), Failure> {
        self.orders.give(mode);
        wait(PATIENCE, &format!("not all {what} are told"), || {
            let told = self.orders.results() + self.orders.reports();
            self.report.progress.show(&format!("{told} cells are told"));
            Ok(over(self.orders))
        })?;
        self.orders.give(Mode::Rest);
        self.drain(coordinator)
    }

    /// Waits until the coordinator rests.
    fn drain(&self, coordinator: &Coordinator) -> Result<(), Failure> {
        let mut before = coordinator.cost()?.processor;
        wait(PATIENCE, "the coordinator does not come to rest", || {
            std::thread::sleep(Duration::from_millis(500));
            let now = coordinator.cost()?.processor;
            let busy = now - std::mem::replace(&mut before, now);
            Ok(busy < Duration::from_millis(100))
        })
    }

    /// Its life until somebody has seen enough of it.
    fn keep(&mut self, coordinator: &Coordinator) -> Result<u8, Failure> {
        self.orders.give(Mode::Paced);
        self.report.progress.clear();
        print(&format!("page and API: http://{}/\n", coordinator.address()))?;
        until_signal(|stop| async move {
            let _ = stop.await;
            Ok(())
        })
    }

    /// Its life for a while.
    fn watch(&mut self, coordinator: &Coordinator) -> Result<(), Failure> {
        let window = Duration::from_secs(self.flags.seconds);
        let mode = if self.flags.flood { Mode::Flood } else { Mode::Paced };
        let (before, told) = (coordinator.cost()?, self.orders.reports());
        let began = Instant::now();
        self.orders.give(mode);
        self.report.progress.show(&format!("pings for {} s", window.as_secs()));
        std::thread::sleep(window);
        self.orders.give(Mode::Rest);
        if self.flags.flood {
            self.drain(coordinator)?;
        }
        let (after, took) = (coordinator.cost()?, began.elapsed().as_secs_f64());
        let cells = (self.orders.reports() - told) as f64;
        let core = (after.processor - before.processor).as_secs_f64();
        self.report.row("batches of pings told by number", cells, "")?;
        self.report.row("of them per second", cells / took, "1/s")?;
        if self.flags.flood {
            self.report.row(
                "cells taken per second of one core, from the socket to the matrix",
                cells / core,
                "1/s",
            )?;
        }
        self.report.row("coordinator, processor, of one core", 100.0 * core / took, "%")?;
        self.report.row("coordinator, resident memory", megabytes(after.resident), "MB")?;
        self.report.row("coordinator, resident memory at most", megabytes(after.resident_max), "MB")?;
        self.report.row("frames for which a queue had no room", self.orders.dropped() as f64, "")
    }

    /// What its pages and metrics cost.
    fn ask(&mut self, coordinator: &Coordinator) -> Result<(), Failure> {
        for (path, what) in [
            ("/metrics", "/metrics"),
            ("/metrics/pairs", "/metrics/pairs"),
            ("/api/v1/matrix?metric=ping&format=bin", "matrix of pings, binary"),
            ("/api/v1/matrix?metric=ping", "matrix of pings, JSON"),
        ] {
            let mut times = Vec::new();
            let mut bytes = 0;
            self.report.progress.show(path);
            for _ in 0..REQUESTS {
                let (body, took) = coordinator.get(path)?;
                bytes = body.len();
                times.push(took.as_secs_f64() * 1e3);
                if path == "/metrics/pairs" {
                    self.failed_pings(&body, times.len())?;
                }
            }
            times.sort_by(f64::total_cmp);
            self.report.row(&format!("{what}, size"), bytes as f64 / 1e6, "MB")?;
            self.report.row(&format!("{what}, time"), times[times.len() / 2], "ms")?;
        }
        let peak = coordinator.cost()?.resident_max;
        self.report.row("resident memory at most, after these answers", megabytes(peak), "MB")
    }

    /// Pings that failed on their way to those who answer none, counted in the first answer; what is measured again the other way is not.
    fn failed_pings(&mut self, body: &[u8], answer: usize) -> Result<(), Failure> {
        if answer > 1 {
            return Ok(());
        }
        let targets: Vec<String> = self.shape.silent_targets().collect();
        let text = String::from_utf8_lossy(body);
        let failed = |line: &&str| {
            line.starts_with("rdmascope_pair_state{")
                && line.contains("metric=\"ping\",state=\"failed\"")
                && targets.iter().any(|target| line.contains(target))
        };
        let failed = text.lines().filter(failed).count();
        self.report.row("/metrics/pairs, pairs whose pings failed", failed as f64, "")
    }

    /// The coordinator ends and comes back.
    fn restart(&mut self, coordinator: &mut Coordinator) -> Result<(), Failure> {
        self.report.progress.show("the coordinator is restarted");
        let (end, start) = coordinator.restart()?;
        self.report.row("orderly end, with the matrix written down", end.as_secs_f64(), "s")?;
        self.report.row("matrix on disk", coordinator.snapshot_bytes() as f64 / 1e6, "MB")?;
        self.report.row("start, until the matrix is back and it listens", start.as_secs_f64(), "s")?;
        let began = Instant::now();
        wait_for_agents(coordinator, &self.shape, &mut self.report)?;
        self.report.row("all agents are back after that", began.elapsed().as_secs_f64(), "s")?;
        let cost = coordinator.cost()?;
        self.report.row("resident memory at most, since the restart", megabytes(cost.resident_max), "MB")
    }

    /// What the simulation itself cost.
    fn own_cost(&mut self) -> Result<(), Failure> {
        let Reading::Value(cost) = ProcessCost::of(std::process::id()) else { return Ok(()) };
        self.report.row("the simulation itself: processor", cost.processor.as_secs_f64(), "s")?;
        self.report.row("the simulation itself: resident memory at most", megabytes(cost.resident_max), "MB")
    }
}
