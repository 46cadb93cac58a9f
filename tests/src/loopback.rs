//! Coordinators and agents of the real binary, each agent with metrics of its own, in a folder that goes with them.

use crate::guest::{Api, Program, Signal, wait_until};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Far more than a start takes, in an emulated machine too.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A folder of its own, removed when dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// Makes it.
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("rdmascope-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self(path)
    }

    /// Where this is in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file in it.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// An address of loopback where nobody listens at this moment.
pub fn free_address() -> String {
    let any = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    any.unwrap_or_else(|error| panic!("no port of 127.0.0.1 is free: {error}")).to_string()
}

/// The binary that is tested.
pub fn rdmascope() -> Command {
    let program = std::env::var_os("RDMASCOPE_BIN");
    Command::new(program.unwrap_or_else(|| panic!("RDMASCOPE_BIN must name the program")))
}

/// A coordinator with its agents; agents end first.
pub struct Cluster {
    agents: BTreeMap<String, (Program, String)>,
    coordinator: Program,
    /// Where the coordinator listens.
    pub address: String,
    /// Its files.
    pub folder: Folder,
}

impl Cluster {
    /// A coordinator with these lines in the section `coordinator` of its config file.
    pub fn start(name: &str, config: &str, files: &[(&str, &str)]) -> Self {
        let folder = Folder::new(name);
        for (file, text) in files {
            folder.write(file, text);
        }
        let config = config.replace("FOLDER", &folder.path("").display().to_string());
        let config = folder.write("config.yaml", &format!("coordinator:\n{config}"));
        let mut command = rdmascope();
        command.args(["coordinator", "--listen", "127.0.0.1:0", "--config"]).arg(config);
        let coordinator = Program::start(name, &mut command, &folder.path("coordinator.log"));
        let address = wait_until("the coordinator says where it listens", START_LIMIT, || {
            let printed = coordinator.printed();
            let found = printed.lines().find_map(|line| line.strip_prefix("listening on http://"));
            found.map(str::to_owned).ok_or(printed.clone())
        });
        Self { agents: BTreeMap::new(), coordinator, address, folder }
    }

    /// An agent with a port for its metrics.
    pub fn add_agent(&mut self, node: &str, flags: &[&str]) {
        let listen = free_address();
        let state = self.folder.path(&format!("state-{node}"));
        std::fs::create_dir_all(&state).unwrap_or_else(|error| panic!("{}: {error}", state.display()));
        let mut command = rdmascope();
        command.args(["agent", "--coordinator", &self.address, "--node-name", node, "--listen", &listen]);
        command.args(flags).arg("--state-dir").arg(state);
        let agent = Program::start(node, &mut command, &self.folder.path(&format!("{node}.log")));
        self.agents.insert(node.to_owned(), (agent, listen));
    }

    /// Where the agents' own metrics are.
    pub fn agents(&self) -> impl Iterator<Item = &String> {
        self.agents.values().map(|(_, address)| address)
    }

    /// Where the metrics of this agent are.
    pub fn agent(&self, node: &str) -> &str {
        &self.agents[node].1
    }

    /// Kills an agent with -9.
    pub fn kill(&mut self, node: &str) {
        self.agents.remove(node).unwrap_or_else(|| panic!("no agent {node}")).0.kill();
    }

    /// Kills the coordinator with -9; its agents go on without one.
    pub fn kill_coordinator(&self) {
        self.coordinator.signal(Signal::KILL);
    }

    /// Begins a sweep over everything, if none runs.
    pub fn sweep(&self) {
        let body = json!({"metric": "all", "drained": true});
        let answer = self.api().post("/api/v1/sweeps", &body).unwrap_or_else(|why| panic!("{why}"));
        assert!([202, 409].contains(&answer.status), "a sweep: {} {}", answer.status, answer.text);
    }

    /// The coordinator's API.
    pub fn api(&self) -> Api {
        Api::new(&self.address, None)
    }
}
