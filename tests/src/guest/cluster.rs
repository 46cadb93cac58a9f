//! A whole cluster of the real binary in the lab: one coordinator, one agent for each endpoint.

use super::{Api, Endpoint, Program, wait_until};
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Node names are this and the endpoint's number: `lab-1`.
pub const NODE_PREFIX: &str = "lab-";
const ADDRESS: &str = "127.0.0.1:8080";
/// The agent of endpoint 1 serves its metrics on the port after this, and so on.
const AGENT_PORTS: u16 = 19_810;
const TOKEN: &str = "token-of-the-lab-s-tests";
/// Starting a program in an emulated machine takes a second; a busy one may need many.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A running cluster. Dropping it kills its programs and removes its folder.
pub struct Cluster {
    // Fields are dropped in this order: agents first, so that none of them complains about the others' end.
    agents: BTreeMap<u8, Program>,
    others: Vec<Program>,
    coordinator: Option<Program>,
    folder: PathBuf,
}

impl Cluster {
    /// Starts a coordinator, waits until it answers, and starts an agent for each endpoint.
    ///
    /// # Panics
    /// When a program cannot be started or the coordinator does not answer.
    #[track_caller]
    #[must_use]
    pub fn start(endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("cluster-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let token = folder.join("token");
        // A token that others can read is refused.
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).mode(0o600);
        let written = options.open(&token).and_then(|mut file| file.write_all(TOKEN.as_bytes()));
        written.unwrap_or_else(|error| panic!("{}: {error}", token.display()));
        let mut cluster = Self { agents: BTreeMap::new(), others: Vec::new(), coordinator: None, folder };
        cluster.start_coordinator();
        for endpoint in endpoints {
            cluster.start_agent(endpoint);
        }
        cluster
    }

    /// The API, with the token.
    #[must_use]
    pub fn api(&self) -> Api {
        Api::new(ADDRESS, Some(TOKEN))
    }

    /// `HOST:PORT` of the coordinator.
    #[must_use]
    pub fn address(&self) -> String {
        ADDRESS.to_owned()
    }

    /// A folder for files of a test, removed with the cluster.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file with the token.
    #[must_use]
    pub fn token_file(&self) -> PathBuf {
        self.folder.join("token")
    }

    /// `rdmascope` with these arguments, then `--coordinator` and `--token-file` of this cluster.
    #[must_use]
    pub fn client(&self, arguments: &[&str]) -> Command {
        let mut command = rdmascope();
        command.args(arguments).args(["--coordinator", ADDRESS, "--token-file"]).arg(self.token_file());
        command
    }

    /// Starts the coordinator (again, with the state that it kept) and waits until it answers.
    ///
    /// # Panics
    /// When it does not answer.
    #[track_caller]
    pub fn start_coordinator(&mut self) {
        let mut command = rdmascope();
        command.args(["coordinator", "--listen", ADDRESS]);
        self.coordinator = Some(self.program("coordinator", command));
        let api = self.api();
        wait_until("the coordinator answers", START_LIMIT, || api.json("/healthz"));
    }

    /// Starts the agent of an endpoint (again, with the state that it kept).
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn start_agent(&mut self, endpoint: Endpoint) {
        let listen = format!("127.0.0.1:{}", AGENT_PORTS + u16::from(endpoint.0));
        let node = format!("{NODE_PREFIX}{}", endpoint.0);
        let agent = self.agent_program(&node, &endpoint.device(), &["--listen", &listen]);
        self.agents.insert(endpoint.0, agent);
    }

    /// Starts an agent for a device that is no endpoint of the lab. It runs as long as the cluster.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn start_agent_of(&mut self, node: &str, device: &str) {
        let agent = self.agent_program(node, device, &[]);
        self.others.push(agent);
    }

    #[track_caller]
    fn agent_program(&self, node: &str, device: &str, more: &[&str]) -> Program {
        let mut command = rdmascope();
        command.args(["agent", "--coordinator", ADDRESS, "--device", device, "--node-name", node]).args(more);
        self.program(node, command)
    }

    /// The agent of an endpoint, to send it signals or read what it printed.
    ///
    /// # Panics
    /// When none was started or it was killed.
    #[track_caller]
    pub fn agent(&mut self, endpoint: Endpoint) -> &mut Program {
        let agent = self.agents.get_mut(&endpoint.0);
        agent.unwrap_or_else(|| panic!("no agent runs for {}", endpoint.device()))
    }

    /// Kills the agent of an endpoint with -9.
    ///
    /// # Panics
    /// When none was started or it was already killed.
    #[track_caller]
    pub fn kill_agent(&mut self, endpoint: Endpoint) {
        let agent = self.agents.remove(&endpoint.0);
        agent.unwrap_or_else(|| panic!("no agent runs for {}", endpoint.device())).kill();
    }

    /// The coordinator, to send it signals or read what it printed.
    ///
    /// # Panics
    /// When it was killed.
    #[track_caller]
    pub fn coordinator(&mut self) -> &mut Program {
        self.coordinator.as_mut().unwrap_or_else(|| panic!("no coordinator runs"))
    }

    /// Kills the coordinator with -9.
    pub fn kill_coordinator(&mut self) {
        self.coordinator = None;
    }

    #[track_caller]
    fn program(&self, name: &str, mut command: Command) -> Program {
        let state = self.folder.join(name);
        std::fs::create_dir_all(&state).unwrap_or_else(|error| panic!("{}: {error}", state.display()));
        command.arg("--token-file").arg(self.token_file()).arg("--state-dir").arg(&state);
        Program::start(name, &mut command, &self.folder.join(format!("{name}.log")))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.agents.clear();
        self.others.clear();
        self.coordinator = None;
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// The binary under test: the lab says where it is.
fn rdmascope() -> Command {
    let program = std::env::var_os("RDMASCOPE_BIN");
    Command::new(program.as_deref().map_or(Path::new("rdmascope"), Path::new))
}
