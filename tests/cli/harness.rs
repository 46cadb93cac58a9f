//! Builds the binary, starts a cluster of it on loopback, and runs its commands to their end.

use rdmascope_tests::guest::{Api, Program, Signal, wait_until};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Far more than anything here takes; only a test that would hang sees its end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The binary, built once for these tests with the profile and into the folder of the tests themselves.
pub(crate) fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        // TARGET/PROFILE/deps/cli-HASH
        let own = std::env::current_exe().expect("the path of the test program");
        let profile = own.ancestors().nth(2).expect("the folder of the profile");
        let target = profile.parent().expect("the target folder");
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "-p", "rdmascope-cli", "--target-dir"]).arg(target);
        if profile.ends_with("release") {
            build.arg("--release");
        }
        let status = build.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).status();
        assert!(status.expect("cargo starts").success(), "rdmascope cannot be built");
        profile.join("rdmascope")
    })
}

/// Variables that tell the binary something.
const TELLING: [&str; 9] = [
    "RDMASCOPE_COORDINATOR",
    "RDMASCOPE_TLS",
    "RDMASCOPE_TOKEN_FILE",
    "RUST_LOG",
    "COLUMNS",
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "SOURCE_DATE_EPOCH",
];

/// The binary, without what the environment of the tests might tell it.
pub(crate) fn rdmascope(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments);
    for name in TELLING {
        command.env_remove(name);
    }
    command
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a command of the binary to its end.
pub(crate) fn run(arguments: &[&str]) -> Done {
    finish(rdmascope(arguments))
}

/// Runs a command to its end; kills it when that does not come.
pub(crate) fn finish(mut command: Command) -> Done {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("the binary starts");
    let id = child.id();
    let ended = std::thread::scope(|scope| {
        let reader = scope.spawn(move || child.wait_with_output());
        let mut limit = PATIENCE.as_millis() / 50;
        while !reader.is_finished() && limit > 0 {
            limit -= 1;
            std::thread::sleep(Duration::from_millis(50));
        }
        if !reader.is_finished() {
            let pid = rustix::process::Pid::from_raw(id.cast_signed()).expect("a process id");
            rustix::process::kill_process(pid, Signal::KILL).expect("it can be killed");
        }
        reader.join().expect("the reader ends")
    });
    let output = ended.expect("its output can be read");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Done { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// A folder of one test, removed at its end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("rdmascope-cli-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    /// A file in it, as text for a command line; only its owner can read it.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file in the temporary folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its permissions");
        path.to_str().expect("a path of ASCII").to_owned()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A coordinator with agents over TCP, all of them the real binary.
pub(crate) struct Cluster {
    // Before the folder, so that nothing writes into it when it goes.
    agents: Vec<(String, Program)>,
    pub(crate) coordinator: Program,
    /// Where the coordinator listens.
    pub(crate) address: String,
    token: Option<String>,
    pub(crate) folder: Folder,
}

/// Something on loopback that is no coordinator of this version: gives these answers, one to each connection. Ends by itself after the last
/// one, or with the program; its address, and the handle of its thread.
pub(crate) fn answering(answers: &[&str]) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
    let server = std::thread::spawn(move || {
        for answer in answers {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            lines.find(String::is_empty);
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", answer.len());
            // Whoever asked may be gone.
            drop(stream.write_all((head + &answer).as_bytes()));
        }
    });
    (address, server)
}

/// An agent's local socket that gives these answers, one to each connection; ends after the last one, or with the program. Its handle
/// gives what was asked.
pub(crate) fn answering_at(socket: &Path, answers: &[String]) -> JoinHandle<Vec<String>> {
    let listener = UnixListener::bind(socket).expect("a socket");
    let answers = answers.to_vec();
    std::thread::spawn(move || {
        let mut asked = Vec::new();
        for answer in answers {
            let Ok((mut stream, _)) = listener.accept() else { break };
            let mut question = String::new();
            // Whoever asked may be gone.
            drop(BufReader::new(&stream).read_line(&mut question));
            drop(stream.write_all(answer.as_bytes()));
            asked.push(question.trim_end().to_owned());
        }
        asked
    })
}

/// A coordinator with the configuration in a folder, and where it listens.
fn coordinator(folder: &Folder, token: Option<&str>, log: &str) -> (Program, String) {
    let mut command = rdmascope(&["coordinator", "--listen", "127.0.0.1:0", "--config"]);
    command.arg(folder.path("config.yaml")).args(token.iter().flat_map(|file| ["--token-file", file]));
    listening(&mut command, &folder.path(log))
}

/// Starts a coordinator, which is to log to a new file, and tells where it listens.
pub(crate) fn listening(command: &mut Command, log: &Path) -> (Program, String) {
    let coordinator = Program::start("coordinator", command, log);
    let address = wait_until("the coordinator says where it listens", PATIENCE, || {
        let printed = coordinator.printed();
        let found = printed.lines().find_map(|line| line.strip_prefix("listening on http://"));
        found.map(str::to_owned).ok_or(printed.clone())
    });
    (coordinator, address)
}

impl Cluster {
    /// With a token, everything gets it; without, nothing has one.
    pub(crate) fn start(token: Option<&str>, agents: &[&str]) -> Self {
        Self::configured("", token, agents)
    }

    /// The same, with a config file for the coordinator.
    pub(crate) fn configured(config: &str, token: Option<&str>, agents: &[&str]) -> Self {
        let folder = Folder::new();
        let token = token.map(|token| folder.file("token", token));
        folder.file("config.yaml", config);
        let (coordinator, address) = coordinator(&folder, token.as_deref(), "coordinator.log");
        let mut cluster = Self { agents: Vec::new(), coordinator, address, token, folder };
        for name in agents {
            cluster.add_agent(name, &[]);
        }
        cluster
    }

    /// Kills the coordinator and starts another one, with the same configuration, at another address.
    pub(crate) fn restart_coordinator(&mut self) {
        self.end_coordinator(Signal::KILL);
    }

    /// Ends the coordinator by a signal and starts another one, likewise.
    pub(crate) fn end_coordinator(&mut self, signal: Signal) {
        self.coordinator.signal(signal);
        let ended = &mut self.coordinator;
        wait_until("the coordinator is dead", PATIENCE, || ended.ended().ok_or("it lives".to_owned()));
        // Where it listens stands in its log, which must not be that of one before.
        let log = "coordinator-again.log";
        drop(fs::remove_file(self.folder.path(log)));
        (self.coordinator, self.address) = coordinator(&self.folder, self.token.as_deref(), log);
    }

    /// One more agent, with flags of its own.
    pub(crate) fn add_agent(&mut self, name: &str, flags: &[&str]) {
        let mut command = rdmascope(&["agent", "--coordinator", &self.address, "--transport", "tcp"]);
        command.args(["--node-name", name, "--state-dir"]).arg(self.state(name)).args(flags);
        if !flags.contains(&"--token-file") {
            command.args(self.token.iter().flat_map(|file| ["--token-file", file]));
        }
        let log = self.folder.path(&format!("{name}.log"));
        self.agents.push((name.to_owned(), Program::start(name, &mut command, &log)));
    }

    /// The state folder of an agent, made when it is first asked for.
    pub(crate) fn state(&self, agent: &str) -> PathBuf {
        let path = self.folder.path(&format!("state-{agent}"));
        fs::create_dir_all(&path).expect("a state folder");
        path
    }

    pub(crate) fn agent(&mut self, name: &str) -> &mut Program {
        let found = self.agents.iter_mut().find(|(own, _)| own == name);
        &mut found.unwrap_or_else(|| panic!("no agent {name}")).1
    }

    /// Runs a client command against it.
    pub(crate) fn run(&self, arguments: &[&str]) -> Done {
        let mut command = rdmascope(arguments);
        command.env("RDMASCOPE_COORDINATOR", &self.address);
        command.envs(self.token.iter().map(|file| ("RDMASCOPE_TOKEN_FILE", file)));
        finish(command)
    }

    /// Its API, without a token.
    pub(crate) fn api(&self) -> Api {
        Api::new(&self.address, None)
    }

    /// Waits until these nodes and no others are connected.
    pub(crate) fn wait_for_nodes(&self, names: &[&str]) {
        wait_until(&format!("{names:?} are connected"), PATIENCE, || {
            let answer = self.api().json("/api/v1/nodes")?;
            let nodes = answer["nodes"].as_array().ok_or("no list")?;
            let connected = nodes.iter().filter(|node| node["connected"] == true);
            let connected: Vec<&str> = connected.filter_map(|node| node["name"].as_str()).collect();
            if connected == names { Ok(()) } else { Err(format!("{connected:?}")) }
        });
    }
}
