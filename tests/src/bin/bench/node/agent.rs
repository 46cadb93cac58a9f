//! Whole agents that only check: over the machine of files, whose counters move, and the real program on this machine.

use super::super::cpu::{resident_mb, seconds_of};
use super::super::row::{Asked, Row};
use super::PORTS;
use rdmascope_fixtures::FakeHost;
use rdmascope_tests::machine::watch;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The word that runs [`alone`].
pub(super) const PART: &str = "node-agent";
const EXPORTER: &str = "/usr/bin/prometheus-node-exporter";
/// Where node_exporter and the agent over the machine of files are asked for metrics while they are measured.
const EXPORTER_ADDRESS: &str = "127.0.0.1:19100";
const AGENT_ADDRESS: &str = "127.0.0.1:19101";
/// How often Prometheus asks.
const SCRAPE: Duration = Duration::from_secs(15);
/// Every tier comes as often in it as it does all day.
const WINDOW: Duration = Duration::from_secs(60);
/// The start is not measured.
const START: Duration = Duration::from_secs(5);
/// Nobody listens there: the discard port.
const NO_COORDINATOR: &str = "127.0.0.1:9";

/// A process that is measured and ended.
struct Measured {
    child: Child,
    before: f64,
}

/// Percent of one core, and MB resident.
#[derive(Clone, Copy)]
struct Figures {
    percent: f64,
    megabytes: f64,
}

pub(super) fn rows(machine: &FakeHost) -> Vec<Row> {
    eprintln!("bench: agents for {} s", WINDOW.as_secs());
    let state = machine.root().join("state");
    let own = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
    let mut on_files = Measured::start(Command::new(own).arg(PART).arg(machine.root()));
    let mut real = std::env::var_os("RDMASCOPE_BIN").map(|program| {
        let mut command = Command::new(program);
        command.args(["agent", "--coordinator", NO_COORDINATOR, "--node-name", "bench", "--state-dir"]);
        Measured::start(command.arg(&state))
    });
    let mut exporter =
        Path::new(EXPORTER).exists().then(|| Measured::start(&mut exporter_of(machine.root())));
    sleep(START);
    let all = [Some(&mut on_files), real.as_mut(), exporter.as_mut()];
    all.into_iter().flatten().for_each(Measured::begin);
    wait(machine, exporter.is_some());
    let on_files = on_files.end();
    let (real, exporter) = (real.map(Measured::end), exporter.map(Measured::end));
    let row = |what, seen, unit, asked, theirs: Option<f64>| Row {
        what,
        seen,
        unit,
        asked,
        against: theirs.map(|theirs| ("node_exporter, same files", theirs)),
    };
    let mut rows = vec![
        row(
            "agent, checks only, 8 ports, of one core",
            on_files.percent,
            "%",
            Asked::AtMost(0.3),
            exporter.map(|theirs| theirs.percent),
        ),
        row(
            "agent, checks only, 8 ports, resident memory",
            on_files.megabytes,
            "MB",
            Asked::AtMost(10.0),
            exporter.map(|theirs| theirs.megabytes),
        ),
    ];
    if let Some(real) = real {
        rows.push(row("rdmascope agent here, of one core", real.percent, "%", Asked::AtMost(0.3), None));
        rows.push(row(
            "rdmascope agent here, resident memory",
            real.megabytes,
            "MB",
            Asked::AtMost(10.0),
            None,
        ));
    }
    rows
}

/// An agent without a coordinator over the machine below `root`, until it is ended.
pub(super) fn alone(root: &str) -> ExitCode {
    watch(Path::new(root), NO_COORDINATOR, AGENT_ADDRESS, "bench")
}

fn exporter_of(root: &Path) -> Command {
    let mut command = Command::new(EXPORTER);
    command.arg(format!("--path.sysfs={}", root.join("sys").display()));
    command.arg(format!("--path.procfs={}", root.join("proc").display()));
    command.arg(format!("--web.listen-address={EXPORTER_ADDRESS}"));
    command
}

/// Until the window is over. Traffic moves the counters, and Prometheus asks.
fn wait(machine: &FakeHost, exporter: bool) {
    let began = Instant::now();
    for second in 0.. {
        let now = began + Duration::from_secs(second);
        if now.duration_since(began) >= WINDOW {
            return;
        }
        sleep(now.saturating_duration_since(Instant::now()));
        for device in (0..PORTS).map(|i| format!("mlx5_{i}")) {
            for (counter, each) in
                [("port_xmit_data", 1_000_000), ("port_rcv_data", 1_000_000), ("port_xmit_packets", 1_000)]
            {
                let file = machine.port_file(&device, &format!("counters/{counter}"));
                machine.folder().write(&file, &format!("{}\n", 1_000_000_000 + second * each));
            }
        }
        if second % SCRAPE.as_secs() == 0 {
            let exporter = exporter.then_some(EXPORTER_ADDRESS);
            exporter.into_iter().chain([AGENT_ADDRESS]).for_each(scrape);
        }
    }
}

fn scrape(address: &str) {
    let asked = ureq::get(format!("http://{address}/metrics")).call();
    let read = asked.and_then(|mut answer| answer.body_mut().read_to_string());
    read.unwrap_or_else(|error| panic!("{address}: {error}"));
}

impl Measured {
    fn start(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
        Self { child, before: f64::NAN }
    }

    fn begin(&mut self) {
        self.before = seconds_of(self.child.id());
    }

    fn end(mut self) -> Figures {
        let pid = self.child.id();
        let percent = (seconds_of(pid) - self.before) / WINDOW.as_secs_f64() * 100.0;
        let figures = Figures { percent, megabytes: resident_mb(pid) };
        assert!(matches!(self.child.try_wait(), Ok(None)), "a measured process ended early");
        figures
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
