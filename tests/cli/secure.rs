//! Attacks on the real binary over real sockets: strangers, impostors, readers that want to write, and what the log must not have.

use crate::harness::{Done, Folder, PATIENCE, rdmascope, run};
use rdmascope_tests::guest::{Api, Program, wait_until};
use serde_json::json;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

const TOKEN: &str = "operate-operate-operate-1";
const READ_TOKEN: &str = "read-read-read-read-read-2";

/// A folder with two authorities; everything is started with TLS.
struct Secure {
    programs: Vec<(String, Program)>,
    address: String,
    folder: Folder,
}

impl Secure {
    fn start(flags: &[&str]) -> Self {
        let folder = Folder::new();
        for name in ["pki", "other"] {
            let pki = folder.path(name);
            let done = run(&["tls", "init", text(&pki), "--nodes", "n[1-3]", "--coordinator", "head"]);
            assert_eq!(done.code, Some(0), "{done:?}");
        }
        let mut command = rdmascope(&["coordinator", "--listen", "127.0.0.1:0", "--tls"]);
        command.arg(folder.path("pki/coordinator")).args(flags).env("RUST_LOG", "trace");
        let coordinator = Program::start("coordinator", &mut command, &folder.path("coordinator.log"));
        let address = wait_until("the coordinator says where it listens", PATIENCE, || {
            let printed = coordinator.printed();
            let found = printed.lines().find_map(|line| line.strip_prefix("listening on https://"));
            found.map(str::to_owned).ok_or(printed.clone())
        });
        Self { programs: vec![("coordinator".to_owned(), coordinator)], address, folder }
    }

    fn path(&self, name: &str) -> String {
        text(&self.folder.path(name)).to_owned()
    }

    fn agent(&mut self, name: &str, flags: &[&str]) -> &Program {
        let mut command =
            rdmascope(&["agent", "--coordinator", &self.address, "--transport", "tcp", "--state-dir"]);
        command
            .arg(self.folder.path("state"))
            .args(["--node-name", name])
            .args(flags)
            .env("RUST_LOG", "trace");
        let log = self.folder.path(&format!("{name}-{}.log", self.programs.len()));
        self.programs.push((name.to_owned(), Program::start(name, &mut command, &log)));
        &self.programs.last().expect("it was started").1
    }

    /// A command with a folder of certificates.
    fn run(&self, tls: &str, arguments: &[&str]) -> Done {
        let tls = self.path(tls);
        run(&[arguments, &["--coordinator", &self.address, "--tls", &tls]].concat())
    }

    fn wait_for(&self, what: &str, program: &str, words: &[&str]) {
        let (_, program) = self.programs.iter().rfind(|(name, _)| name == program).expect("it was started");
        wait_until(what, PATIENCE, || {
            let printed = program.printed();
            if words.iter().all(|word| printed.contains(word)) { Ok(()) } else { Err(printed) }
        });
    }

    fn wait_for_nodes(&self, words: &str) {
        wait_until(words, PATIENCE, || {
            let done = self.run("pki/operator", &["nodes"]);
            if done.out.contains(words) { Ok(()) } else { Err(format!("{done:?}")) }
        });
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ASCII")
}

#[track_caller]
fn refused(done: &Done, code: i32, words: &[&str]) {
    assert_eq!(done.code, Some(code), "{done:?}");
    for word in words.iter().chain(&["next step:"]) {
        assert!(done.err.contains(word), "no '{word}' in {done:?}");
    }
}

#[test]
fn with_certificates_alone_agents_operators_and_readers_are_who_they_are() {
    let mut cluster = Secure::start(&[]);
    for node in ["n1", "n2"] {
        let own = cluster.path(&format!("pki/nodes/{node}"));
        cluster.agent(node, &["--tls", &own]);
    }
    cluster.wait_for_nodes("2 nodes, 2 connected");
    assert_eq!(cluster.run("pki/operator", &["pause"]).code, Some(0));
    assert_eq!(cluster.run("pki/coordinator", &["resume"]).code, Some(0), "on its own machine");
    // A reader looks and does not write, and neither does a node, whose key lies on a machine that runs jobs.
    for tls in ["pki/reader", "pki/nodes/n1"] {
        assert_eq!(cluster.run(tls, &["nodes"]).code, Some(0), "{tls}");
        refused(&cluster.run(tls, &["pause"]), 1, &["token or a certificate"]);
    }

    // An agent with the certificate of another node.
    let own = cluster.path("pki/nodes/n1");
    cluster.agent("n3", &["--tls", &own]);
    cluster.wait_for(
        "n3 is told",
        "n3",
        &["the certificate is for n1, the agent calls itself n3", "--node-name"],
    );
    // One with the operator's: it may do everything but be a node.
    let operator = cluster.path("pki/operator");
    cluster.agent("n3", &["--tls", &operator]);
    cluster.wait_for("n3 is told", "n3", &["the certificate is for no node"]);
    // One of another authority, which believes neither.
    let other = cluster.path("other/nodes/n3");
    cluster.agent("n3", &["--tls", &other]);
    cluster.wait_for("n3 is told", "n3", &["from an unknown CA", "next step: ca.crt must hold"]);
    // One that knows the right authority and shows no certificate; and one that speaks plain text.
    fs::create_dir(cluster.folder.path("bare")).expect("a folder");
    fs::copy(cluster.folder.path("pki/ca.crt"), cluster.folder.path("bare/ca.crt")).expect("a copy");
    let bare = cluster.path("bare");
    cluster.agent("n3", &["--tls", &bare]);
    cluster.wait_for("n3 is told", "n3", &["the coordinator wants another token"]);
    cluster.agent("n3", &[]);
    cluster.wait_for("n3 is told", "n3", &["the coordinator speaks TLS", "--tls"]);
    cluster.wait_for_nodes("2 nodes, 2 connected");

    let metrics = cluster_metrics(&cluster);
    for counted in ["agents_refused_total{reason=\"identity\"}", "agents_refused_total{reason=\"token\"}"] {
        let line =
            metrics.lines().find(|line| line.contains(counted)).unwrap_or_else(|| panic!("no {counted}"));
        assert!(!line.ends_with(" 0"), "{line}");
    }
    let expiry = "rdmascope_tls_certificate_expiry_timestamp_seconds{file=";
    assert_eq!(metrics.lines().filter(|line| line.starts_with(expiry)).count(), 2, "{metrics}");
}

/// `/metrics`, by the program that reads with a certificate.
fn cluster_metrics(cluster: &Secure) -> String {
    let tls = rdmascope_secure::Tls::read(&cluster.folder.path("pki/reader")).expect("certificates");
    https_get(&tls, &cluster.address, "/metrics", "")
}

fn https_get(tls: &rdmascope_secure::Tls, address: &str, path: &str, headers: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
        let mut stream = tls.connect("127.0.0.1", stream).await.expect("TLS");
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.expect("the request");
        let mut answer = String::new();
        drop(stream.read_to_string(&mut answer).await);
        answer
    })
}

#[test]
fn a_command_that_cannot_get_through_says_why_and_what_to_do() {
    let cluster = Secure::start(&[]);
    let plain = run(&["nodes", "--coordinator", &cluster.address]);
    refused(&plain, 1, &["This port speaks TLS", "--tls FOLDER"]);
    refused(&cluster.run("other/operator", &["nodes"]), 1, &["from an unknown CA", "ca.crt"]);
    let nothing = cluster.run("nothing", &["nodes"]);
    assert!(nothing.code == Some(78) && nothing.err.contains("ca.crt cannot be read"), "{nothing:?}");

    // TLS to a port that speaks none.
    let mut command = rdmascope(&["coordinator", "--listen", "127.0.0.1:0"]);
    let bare = Program::start("bare", &mut command, &cluster.folder.path("bare.log"));
    let address = wait_until("it listens", PATIENCE, || {
        let printed = bare.printed();
        let found = printed.lines().find_map(|line| line.strip_prefix("listening on http://"));
        found.map(str::to_owned).ok_or(printed.clone())
    });
    let tls = cluster.path("pki/operator");
    refused(&run(&["nodes", "--coordinator", &address, "--tls", &tls]), 1, &["in plain text, not TLS"]);
}

#[test]
fn certificates_are_made_once_and_shown() {
    let folder = Folder::new();
    let pki = folder.path("pki");
    let init = |more: &[&str]| run(&[&["tls", "init", text(&pki)], more].concat());
    let made = init(&["--nodes", "a[1-2],b", "--coordinator", "head.example.net", "--days", "10"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    for name in ["coordinator", "operator", "reader", "nodes/a1", "nodes/a2", "nodes/b"] {
        assert!(made.out.lines().any(|line| Path::new(line) == pki.join(name)), "{name}: {}", made.out);
    }
    refused(&init(&["--nodes", "c"]), 1, &["ca.crt is there already", "--add"]);
    assert_eq!(init(&["--add", "--nodes", "c"]).code, Some(0));
    refused(&init(&["--add", "--nodes", "c"]), 1, &["nodes/c is there already"]);
    refused(&init(&["--add", "--nodes", "../../d"]), 64, &["--nodes"]);
    refused(&init(&["--add", "--coordinator", "head:8080"]), 64, &["without a port"]);

    let shown = run(&["tls", "show", text(&pki.join("coordinator/tls.crt"))]);
    for word in
        ["head.example.net, localhost, 127.0.0.1, ::1", "9 days left: replace it now", "look and operate"]
    {
        assert!(shown.code == Some(0) && shown.out.contains(word), "{word}: {shown:?}");
    }
    refused(&run(&["tls", "show", text(&pki.join("ca.key"))]), 1, &["no certificate"]);
}

/// An answer to a request with these lines, in plain text.
fn asked(address: &str, method: &str, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: 0\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).expect("the request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

/// A coordinator in plain text with both tokens.
fn with_tokens() -> (Program, String, Folder) {
    let folder = Folder::new();
    let (token, read) = (folder.file("token", TOKEN), folder.file("read-token", READ_TOKEN));
    let arguments =
        ["coordinator", "--listen", "127.0.0.1:0", "--token-file", &token, "--read-token-file", &read];
    let program = Program::start("coordinator", &mut rdmascope(&arguments), &folder.path("log"));
    let address = wait_until("it listens", PATIENCE, || {
        let printed = program.printed();
        let found = printed.lines().find_map(|line| line.strip_prefix("listening on http://"));
        found.map(str::to_owned).ok_or(printed.clone())
    });
    (program, address, folder)
}

#[test]
fn with_a_token_for_reading_nobody_looks_without_one_of_the_two() {
    let (_program, address, folder) = with_tokens();
    let api = |token: Option<&str>| Api::new(&address, token);
    for path in [
        "/",
        "/web/main.js",
        "/metrics",
        "/metrics/pairs",
        "/api/v1/nodes",
        "/api/v1/events/stream",
        "/nothing",
    ] {
        assert_eq!(api(None).get(path).expect("an answer").status, 401, "{path}");
        assert_eq!(api(Some("wrong-wrong-wrong-wrong")).get(path).expect("an answer").status, 401, "{path}");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(api(None).get(path).expect("an answer").status, 200, "{path}");
    }
    for token in [TOKEN, READ_TOKEN] {
        for path in ["/", "/metrics", "/api/v1/nodes"] {
            assert_eq!(api(Some(token)).get(path).expect("an answer").status, 200, "{path}");
        }
    }
    assert_eq!(api(Some(READ_TOKEN)).post("/api/v1/pause", &json!({})).expect("an answer").status, 401);
    assert_eq!(api(Some(TOKEN)).post("/api/v1/pause", &json!({})).expect("an answer").status, 200);
    // The token for reading makes nobody an agent.
    let read = folder.path("read-token");
    let arguments = [
        "agent",
        "--coordinator",
        &address,
        "--transport",
        "tcp",
        "--node-name",
        "n1",
        "--token-file",
        text(&read),
    ];
    let mut command = rdmascope(&arguments);
    command.arg("--state-dir").arg(folder.path("state"));
    let agent = Program::start("n1", &mut command, &folder.path("n1.log"));
    wait_until("it is told", PATIENCE, || {
        let printed = agent.printed();
        if printed.contains("wants another token") { Ok(()) } else { Err(printed) }
    });
    // A browser asks for a password and sends it with everything; that looks and never writes.
    let unknown = asked(&address, "GET", "/", "");
    assert!(unknown.to_lowercase().contains("\r\nwww-authenticate: basic"), "{unknown}");
    // base64 of "me:operate-operate-operate-1".
    let password = "Authorization: Basic bWU6b3BlcmF0ZS1vcGVyYXRlLW9wZXJhdGUtMQ==\r\n";
    assert_eq!(status(&asked(&address, "GET", "/api/v1/nodes", password)), "200");
    assert_eq!(status(&asked(&address, "POST", "/api/v1/pause", password)), "401");
}

#[test]
fn the_page_of_another_site_neither_writes_nor_becomes_an_agent() {
    let folder = Folder::new();
    let mut command = rdmascope(&["coordinator", "--listen", "127.0.0.1:0"]);
    let program = Program::start("coordinator", &mut command, &folder.path("log"));
    let address = wait_until("it listens", PATIENCE, || {
        let printed = program.printed();
        let found = printed.lines().find_map(|line| line.strip_prefix("listening on http://"));
        found.map(str::to_owned).ok_or(printed.clone())
    });
    // Nothing guards it, as on a laptop; a browser of the same machine looks at another site.
    let foreign = "Origin: https://evil.example\r\n";
    assert_eq!(status(&asked(&address, "POST", "/api/v1/pause", foreign)), "403");
    let upgrade = format!(
        "{foreign}Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eHh4eHh4eHh4eHh4eHh4eA==\r\n"
    );
    assert_eq!(status(&asked(&address, "GET", "/api/v1/agent", &upgrade)), "403");
    let own = format!("Origin: http://{address}\r\n");
    assert_eq!(status(&asked(&address, "POST", "/api/v1/pause", &own)), "200");

    // What browsers are told of every answer.
    for path in ["/", "/api/v1/nodes", "/nothing", "/metrics"] {
        let answer = asked(&address, "GET", path, "").to_lowercase();
        let head = answer.split("\r\n\r\n").next().expect("a head");
        for line in [
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "frame-ancestors 'none'",
            "default-src 'none'",
        ] {
            assert!(head.contains(line), "{path}: no {line} in {head}");
        }
    }
}

#[test]
fn secrets_are_in_no_log_however_much_is_logged() {
    let folder = Folder::new();
    let token = folder.file("token", TOKEN);
    let mut cluster = Secure::start(&["--token-file", &token]);
    let own = cluster.path("pki/nodes/n1");
    cluster.agent("n1", &["--tls", &own, "--token-file", &token]);
    cluster.wait_for_nodes("1 nodes, 1 connected");
    assert_eq!(cluster.run("pki/reader", &["pause", "--token-file", &token]).code, Some(0), "by the token");
    // A wrong token, too: it may be the one of another cluster.
    let wrong = folder.file("wrong", "wrong-wrong-wrong-wrong-3");
    refused(&cluster.run("pki/reader", &["pause", "--token-file", &wrong]), 1, &["token"]);
    // The second of a minute is told to those only who want to hear everything.
    for _ in 0..2 {
        let authorization = format!("Authorization: Bearer {TOKEN}\r\n");
        assert_eq!(status(&asked(&cluster.address, "GET", "/api/v1/nodes", &authorization)), "426");
    }
    let mut secrets = vec![TOKEN.to_owned(), "wrong-wrong-wrong-wrong-3".to_owned()];
    for name in ["pki/coordinator/tls.key", "pki/nodes/n1/tls.key"] {
        let pem = fs::read_to_string(cluster.folder.path(name)).expect("a key");
        secrets.extend(pem.lines().filter(|line| !line.starts_with("-----")).map(str::to_owned));
    }
    assert!(secrets.len() >= 6, "the keys are there: {}", secrets.len());
    let logs: String = cluster.programs.iter().map(|(_, program)| program.printed()).collect();
    assert!(logs.contains("TRACE") || logs.contains("DEBUG"), "everything is logged:\n{logs}");
    for secret in &secrets {
        assert!(!logs.contains(secret.as_str()), "{secret} is in the log");
    }
}

/// A line of `/proc/PID/status` as a number.
fn set(program: &Program, name: &str) -> u64 {
    let path = PathBuf::from(format!("/proc/{}/status", program.pid()));
    let status = fs::read_to_string(path).expect("the program runs");
    let line = status.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).expect(name);
    u64::from_str_radix(line.trim(), 16).expect("a number")
}

#[test]
fn daemons_give_up_what_they_do_not_need() {
    let mut cluster = Secure::start(&[]);
    let own = cluster.path("pki/nodes/n1");
    cluster.agent("n1", &["--tls", &own]);
    cluster.wait_for_nodes("1 nodes, 1 connected");
    // DAC_READ_SEARCH, NET_ADMIN, IPC_LOCK, SYS_PTRACE, SYS_ADMIN, SYSLOG (linux/capability.h).
    let of_agent = [2, 12, 14, 19, 21, 34].iter().fold(0, |set, number| set | 1_u64 << number);
    for (name, program) in &cluster.programs {
        let kept = if name == "coordinator" { 0 } else { of_agent };
        for line in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            let kept = if line == "CapInh" || line == "CapAmb" { 0 } else { kept };
            assert_eq!(set(program, line) & !kept, 0, "{name}: {line}");
        }
        // Only who may give up what others could get does; without, there is nothing to get.
        if rustix::process::geteuid().is_root() {
            assert_eq!(set(program, "CapBnd") & !kept, 0, "{name}: CapBnd");
        }
        assert_eq!(set(program, "NoNewPrivs"), 1, "{name}");
    }
}
