//! The coordinator that is measured: a process of its own, from the same program, with a folder of its own.

use crate::failure::{Failure, code};
use rdmascope_config::HostPort;
use rdmascope_host::ProcessCost;
use rdmascope_model::Reading;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use ureq::Agent;

/// The answer to one request may take so long: a matrix of thousands of endpoints as JSON.
const ANSWER_WITHIN: Duration = Duration::from_secs(300);
/// Longest answer, bytes.
const ANSWER_BYTES_MAX: u64 = 2 << 30;
/// A coordinator that is told to end has written everything down by then.
const END_WITHIN: Duration = Duration::from_secs(120);

/// A running coordinator.
pub(super) struct Coordinator {
    folder: PathBuf,
    port: u16,
    child: Child,
    http: Agent,
}

fn failed(what: &str, error: impl std::fmt::Display) -> Failure {
    Failure::new(code::FAILED, format!("{what}: {error}"))
}

impl Coordinator {
    /// Starts one with this configuration and topology.
    pub(super) fn start(config: &str, topology: &str) -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("rdmascope-simulate-{}", std::process::id()));
        let write = |name: &str, text: &str| fs::write(folder.join(name), text);
        fs::create_dir_all(folder.join("state"))
            .and_then(|()| write("topology.csv", topology))
            .and_then(|()| write("rdmascope.yaml", config))
            .map_err(|error| failed(&format!("{} cannot be written", folder.display()), error))?;
        let any = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let port = any.map_err(|error| failed("no port is free", error))?.port();
        let http =
            Agent::config_builder().timeout_global(Some(ANSWER_WITHIN)).proxy(None).build().new_agent();
        let child = spawn(&folder, port)?;
        let mut this = Self { folder, port, child, http };
        this.wait_for_line()?;
        Ok(this)
    }

    /// Ends it in an orderly way and starts it again; says how long the end took, and how long the start until it listens.
    pub(super) fn restart(&mut self) -> Result<(Duration, Duration), Failure> {
        let began = Instant::now();
        self.end();
        let ended = Instant::now();
        self.child = spawn(&self.folder, self.port)?;
        self.wait_for_line()?;
        Ok((ended - began, ended.elapsed()))
    }

    /// Where its agents dial.
    pub(super) fn address(&self) -> HostPort {
        HostPort { host: Ipv4Addr::LOCALHOST.to_string(), port: self.port }
    }

    /// What it has cost so far.
    pub(super) fn cost(&self) -> Result<ProcessCost, Failure> {
        match ProcessCost::of(self.child.id()) {
            Reading::Value(cost) => Ok(cost),
            other => Err(failed("the coordinator's cost", other.why_missing().unwrap_or("not known"))),
        }
    }

    /// Bytes of the matrix that it has written down.
    pub(super) fn snapshot_bytes(&self) -> u64 {
        fs::metadata(self.folder.join("state").join("matrix.snapshot")).map_or(0, |file| file.len())
    }

    /// `GET path`: the body, and how long that took.
    pub(super) fn get(&self, path: &str) -> Result<(Vec<u8>, Duration), Failure> {
        let began = Instant::now();
        let url = format!("http://{}{path}", self.address());
        let answer = self.http.get(url).call();
        let body = answer
            .and_then(|mut answer| answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec());
        let body = body.map_err(|error| failed(&format!("GET {path}"), error))?;
        Ok((body, began.elapsed()))
    }

    /// It says so when it listens, and it listens when it has read its folder.
    fn wait_for_line(&mut self) -> Result<(), Failure> {
        let mut line = String::new();
        let out = self.child.stdout.take().map(BufReader::new);
        let read = out.map(|mut out| out.read_line(&mut line));
        match read {
            Some(Ok(bytes)) if bytes > 0 => Ok(()),
            _ => Err(failed("the coordinator does not start", "its log stands above")),
        }
    }

    fn end(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(process) = group {
            // An error means that it has ended, which is what is wanted.
            let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
        }
        let deadline = Instant::now() + END_WITHIN;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.end();
        // What is left in the temporary folder harms nobody.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn spawn(folder: &Path, port: u16) -> Result<Child, Failure> {
    let own = std::env::current_exe().map_err(|error| failed("this program cannot be found", error))?;
    let mut command = Command::new(own);
    command.arg("coordinator").arg("--config").arg(folder.join("rdmascope.yaml"));
    command.arg("--state-dir").arg(folder.join("state")).args(["--listen", &format!("127.0.0.1:{port}")]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().map_err(|error| failed("the coordinator cannot be started", error))
}
