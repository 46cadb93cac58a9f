//! The daemons under a service manager: ready, alive, reloaded, refused, stopping, as its socket hears it.

use super::harness::{Folder, PATIENCE, rdmascope};
use rdmascope_tests::guest::{Program, Signal, wait_until};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// A socket in place of systemd's, with all that came.
struct Manager {
    socket: UnixDatagram,
    path: std::path::PathBuf,
    heard: Arc<Mutex<String>>,
}

impl Manager {
    fn new(folder: &Folder) -> Self {
        let path = folder.path("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_nonblocking(true).expect("a socket that need not have anything");
        Self { socket, path, heard: Arc::default() }
    }

    /// The command, watched by this manager as by `WatchdogSec=3`.
    fn watches(&self, command: &mut Command) {
        command.env("NOTIFY_SOCKET", &self.path).env("WATCHDOG_USEC", "3000000");
    }

    /// All lines so far, in their order.
    fn heard(&self) -> String {
        let mut heard = self.heard.lock().expect("one thread");
        let mut buffer = [0; 4096];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            heard.push_str(std::str::from_utf8(&buffer[..length]).expect("text"));
        }
        heard.clone()
    }

    /// Waits until a line has come so many times.
    #[track_caller]
    fn wait_for(&self, line: &str, times: usize) {
        wait_until(&format!("{times} times {line}"), PATIENCE, || {
            let heard = self.heard();
            if heard.lines().filter(|heard| heard.contains(line)).count() >= times {
                Ok(())
            } else {
                Err(heard)
            }
        });
    }
}

#[track_caller]
fn wait_for_log(program: &Program, words: &str) {
    wait_until(words, PATIENCE, || {
        let printed = program.printed();
        if printed.contains(words) { Ok(()) } else { Err(printed) }
    });
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn a_coordinator_tells_when_it_listens_lives_reloads_and_stops() {
    let folder = Folder::new();
    let manager = Manager::new(&folder);
    let token = folder.file("token", TOKEN);
    let config = |level: &str| format!("coordinator: {{token_file: {token}}}\nlog: {{level: {level}}}\n");
    let file = folder.file("config.yaml", &config("info"));
    let mut command = rdmascope(&["coordinator", "--listen", "127.0.0.1:0", "--config", &file]);
    manager.watches(&mut command);
    let mut coordinator = Program::start("coordinator", &mut command, &folder.path("log"));
    manager.wait_for("READY=1", 1);
    assert!(coordinator.printed().contains("listening on http://"), "it was ready before it listened");
    manager.wait_for("STATUS=0 of 0 agents connected, 0 endpoints; 0 open incidents", 1);
    manager.wait_for("WATCHDOG=1", 3);

    // What is wrong is named, and nothing changes.
    folder.file("config.yaml", "coordinator: {lisen: 1}\n");
    coordinator.signal(Signal::HUP);
    wait_for_log(&coordinator, "is refused; the old one stays");
    wait_for_log(&coordinator, "lisen");
    manager.wait_for("STATUS=the new configuration is refused, see the log; the old one stays", 1);
    manager.wait_for("RELOADING=1", 1);
    manager.wait_for("MONOTONIC_USEC=", 1);
    manager.wait_for("READY=1", 2);

    // What can be taken over is; what cannot is named.
    folder.file("token", &TOKEN.replace('0', "f"));
    folder.file("config.yaml", &config("debug").replace("}\nlog", ", metrics: {pairs_max: 1}}\nlog"));
    coordinator.signal(Signal::HUP);
    manager.wait_for("READY=1", 3);
    wait_for_log(&coordinator, "changed=\"tokens\"");
    wait_for_log(&coordinator, "keys=\"coordinator.metrics\"");
    wait_for_log(&coordinator, "level=\"debug\"");

    coordinator.signal(Signal::TERM);
    manager.wait_for("STOPPING=1", 1);
    wait_until("it has ended", PATIENCE, || coordinator.ended().ok_or("it lives".to_owned()));
}

#[test]
fn an_agent_tells_when_its_loop_runs_lives_reloads_and_stops() {
    let folder = Folder::new();
    let manager = Manager::new(&folder);
    let config =
        |more: &str| format!("agent: {{transport: tcp, node_name: a, coordinator: '127.0.0.1:1'}}\n{more}");
    let file = folder.file("config.yaml", &config(""));
    let state = folder.path("state");
    let mut command = rdmascope(&["agent", "--listen", "127.0.0.1:0", "--config", &file, "--state-dir"]);
    manager.watches(command.arg(&state));
    let mut agent = Program::start("agent", &mut command, &folder.path("log"));
    manager.wait_for("READY=1", 1);
    manager.wait_for("STATUS=NO CONNECTION to the coordinator", 1);
    manager.wait_for("WATCHDOG=1", 3);
    wait_for_log(&agent, "serves /metrics");

    folder.file("config.yaml", &config("manifest: [{device: mlx5_0, rate_gbps: four}]\n"));
    agent.signal(Signal::HUP);
    wait_for_log(&agent, "is refused; the old one stays");
    manager.wait_for("READY=1", 2);

    folder.file(
        "config.yaml",
        &config("manifest: [{device: mlx5_0, rate_gbps: 400}]\n").replace("node_name: a", "node_name: b"),
    );
    agent.signal(Signal::HUP);
    wait_for_log(&agent, "changed=\"manifest\"");
    wait_for_log(&agent, "keys=\"agent.node_name\"");
    manager.wait_for("READY=1", 3);

    agent.signal(Signal::TERM);
    manager.wait_for("STOPPING=1", 1);
    wait_until("it has ended", PATIENCE, || agent.ended().ok_or("it lives".to_owned()));
}
