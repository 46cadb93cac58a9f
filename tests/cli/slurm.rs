//! `rdmascope slurm` between an agent that says what it is told to and a scontrol that writes down what it is asked.

use crate::harness::{Cluster, Done, Folder, PATIENCE, answering_at, finish, rdmascope};
use rdmascope_tests::guest::wait_until;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// A node with its scontrol.
struct Node {
    folder: Folder,
}

fn fault(subject: &str) -> Value {
    json!({
        "id": "port-phys-state", "status": "fail", "subject": subject, "summary": "the physical link is not up: Disabled",
        "next_step": "Swap the cable.", "hard": true,
    })
}

fn verdict(findings: &[Value], granted: Option<bool>) -> String {
    let leave = granted.map(|granted| json!({ "granted": granted, "why": "the count of the hour" }));
    json!({
        "version": "1", "node": "n1", "connected": true, "cannot_say": null, "parts": [], "findings": findings,
        "findings_left_out": 0, "leave": leave,
    })
    .to_string()
}

impl Node {
    /// Idle, without a reason.
    fn new() -> Self {
        let folder = Folder::new();
        let base = folder.path("").display().to_string();
        let script =
            format!("#!/bin/sh\necho \"$*\" >> {base}calls\ncase $1 in show) cat {base}node;; esac\n");
        let script = folder.file("scontrol", &script);
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("our own file");
        let node = Self { folder };
        node.is("IDLE", "");
        node
    }

    fn is(&self, state: &str, reason: &str) {
        let reason =
            if reason.is_empty() { String::new() } else { format!("   Reason={reason} [root@now]\n") };
        self.folder.file("node", &format!("NodeName=n1\n   State={state} ThreadsPerCore=1\n{reason}"));
    }

    fn socket(&self) -> PathBuf {
        self.folder.path("agent.sock")
    }

    fn run(&self, words: &[&str]) -> Done {
        let mut command = rdmascope(&["slurm"]);
        command.args(words).env("SLURMD_NODENAME", "n1");
        if words[0] != "undrain" {
            command.arg("--socket").arg(self.socket()).arg("--memory").arg(self.folder.path("memory.json"));
        }
        command.arg("--scontrol").arg(self.folder.path("scontrol"));
        finish(command)
    }

    /// The same with an agent that answers so; what it was asked.
    fn run_with(&self, words: &[&str], answers: &[String]) -> (Done, Vec<String>) {
        drop(fs::remove_file(self.socket()));
        let agent = answering_at(&self.socket(), answers);
        let done = self.run(words);
        (done, agent.join().expect("the agent"))
    }

    /// What scontrol was asked since this was called last.
    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path("calls")).unwrap_or_default();
        drop(fs::remove_file(self.folder.path("calls")));
        text.lines().map(str::to_owned).collect()
    }
}

const DRAIN: &str = "update nodename=n1 state=drain reason=rdmascope: port-phys-state mlx5_0/1: the physical link is not up: Disabled";

#[test]
fn a_healthy_node_has_a_silent_health_check() {
    let node = Node::new();
    let soft = json!({
        "id": "netdev-mtu", "status": "fail", "subject": "netdev eth0", "summary": "1500", "next_step": "", "hard": false,
    });
    for findings in [&[][..], &[soft]] {
        let (done, asked) = node.run_with(&["healthcheck"], &[verdict(findings, None)]);
        assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (Some(0), "", ""));
        assert_eq!(asked, ["verdict"], "no leave is asked for nothing");
        let (done, _) = node.run_with(&["prolog"], &[verdict(findings, Some(false))]);
        assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (Some(0), "", ""));
    }
    assert_eq!(node.calls(), [""; 0]);
}

#[test]
fn a_hard_fault_is_drained_for_once_and_a_person_resumes() {
    let node = Node::new();
    let bad = [fault("mlx5_0/1")];
    let (done, asked) = node.run_with(&["healthcheck"], &[verdict(&bad, None), verdict(&bad, Some(true))]);
    assert_eq!((done.code, asked), (Some(0), vec!["verdict".to_owned(), "leave".to_owned()]), "{done:?}");
    assert!(done.out.contains("n1 is drained: rdmascope: port-phys-state"), "{done:?}");
    assert_eq!(node.calls(), ["show node n1", DRAIN]);
    let (done, asked) = node.run_with(&["healthcheck"], &[verdict(&bad, None)]);
    assert_eq!((done.out.as_str(), done.err.as_str(), asked.len()), ("", "", 1), "{done:?}");
    // It is over: nothing is done, and when it comes again it is news.
    node.run_with(&["healthcheck"], &[verdict(&[], None)]);
    assert_eq!(node.calls(), [""; 0]);
    node.is("IDLE+DRAIN", "rdmascope: port-phys-state mlx5_0/1: ...");
    node.run_with(&["healthcheck"], &[verdict(&bad, None), verdict(&bad, Some(true))]);
    assert_eq!(node.calls(), ["show node n1"], "it is drained still");
    // One that was told to resumes, once.
    node.run_with(&["healthcheck", "--resume"], &[verdict(&[], None)]);
    assert_eq!(node.calls(), ["show node n1", "update nodename=n1 state=resume"]);
    node.run_with(&["healthcheck", "--resume"], &[verdict(&[], None)]);
    assert_eq!(node.calls(), [""; 0]);
}

#[test]
fn without_leave_nothing_is_drained_and_jobs_start() {
    let node = Node::new();
    let bad = [fault("mlx5_0/1")];
    let (done, _) = node.run_with(&["healthcheck"], &[verdict(&bad, None), verdict(&bad, Some(false))]);
    assert_eq!((done.code, done.out.as_str()), (Some(0), ""), "{done:?}");
    assert!(done.err.contains("not drained: the count of the hour"), "{done:?}");
    let (done, _) = node.run_with(&["prolog"], &[verdict(&bad, Some(false))]);
    assert_eq!((done.code, done.out.as_str()), (Some(0), ""), "{done:?}");
    assert!(done.err.contains("let through: the count of the hour"), "{done:?}");
    assert_eq!(node.calls(), [""; 0]);
    // Nothing was done, so it is asked again.
    let (_, asked) = node.run_with(&["healthcheck"], &[verdict(&bad, None), verdict(&bad, Some(true))]);
    assert_eq!((asked.len(), node.calls().len()), (2, 2));
}

#[test]
fn a_prolog_keeps_the_job_off_and_says_why() {
    let node = Node::new();
    let (done, asked) = node.run_with(&["prolog"], &[verdict(&[fault("mlx5_0/1")], Some(true))]);
    assert_eq!((done.code, asked), (Some(1), vec!["leave".to_owned()]), "{done:?}");
    assert!(done.out.lines().all(|line| line.starts_with("print rdmascope: ")), "{done:?}");
    assert!(done.out.contains("mlx5_0/1") && done.out.contains("Swap the cable."), "{done:?}");
    assert_eq!(node.calls(), ["show node n1", DRAIN]);
}

#[test]
fn the_reason_of_somebody_else_stays() {
    let node = Node::new();
    let bad = [fault("mlx5_0/1")];
    node.is("IDLE+DRAIN", "Kim: new cable");
    let (done, _) = node.run_with(&["healthcheck"], &[verdict(&bad, None), verdict(&bad, Some(true))]);
    assert!(done.out.contains("somebody else (Kim: new cable)"), "{done:?}");
    assert_eq!(node.calls(), ["show node n1"]);
    let (done, asked) = node.run_with(&["healthcheck"], &[verdict(&bad, None)]);
    assert_eq!((done.out.as_str(), asked.len()), ("", 1), "{done:?}");
    let done = node.run(&["undrain"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.out.contains("stays drained"), "{done:?}");
    node.is("IDLE+DRAIN", "rdmascope: port-phys-state mlx5_0/1: ...");
    let done = node.run(&["undrain", "n1"]);
    assert_eq!((done.code, done.out.as_str()), (Some(0), "n1 is resumed\n"));
    assert_eq!(node.calls(), ["show node n1", "show node n1", "update nodename=n1 state=resume"]);
}

#[test]
fn who_cannot_say_drains_nobody() {
    let node = Node::new();
    // No agent; one that hangs; one of another version.
    let done = |what: &str| {
        for (command, code) in [("healthcheck", 0), ("prolog", 0), ("verdict", 3)] {
            let done = if command == "verdict" {
                finish({
                    let mut command = rdmascope(&["slurm", "verdict", "--socket"]);
                    command.arg(node.socket());
                    command
                })
            } else {
                node.run(&[command])
            };
            assert_eq!((done.code, done.out.as_str()), (Some(code), ""), "{what}, {command}: {done:?}");
            assert!(done.err.contains("next step:"), "{what}, {command}: {done:?}");
        }
    };
    done("no agent");
    let hangs = UnixListener::bind(node.socket()).unwrap();
    done("an agent that hangs");
    drop(hangs);
    let (odd, _) = node.run_with(&["healthcheck"], &["{}".to_owned()]);
    assert!(odd.code == Some(0) && odd.err.contains("cannot be understood"), "{odd:?}");
    assert_eq!(node.calls(), [""; 0]);
}

/// Over TCP a real agent judges nothing: it must say so, and nothing may come of it.
#[test]
fn a_real_agent_that_has_not_looked_says_so() {
    let cluster = Cluster::start(None, &["n1"]);
    let socket = cluster.state("n1").join("agent.sock").display().to_string();
    let said = wait_until("the agent is connected", PATIENCE, || {
        let said = cluster.run(&["slurm", "verdict", "--socket", &socket]);
        if said.out.contains("n1:") && !said.out.contains("not connected") {
            Ok(said)
        } else {
            Err(format!("{said:?}"))
        }
    });
    assert!(
        said.code == Some(3) && said.out.contains("n1: nothing can be said: state was not looked at yet"),
        "{said:?}"
    );
    let memory = cluster.folder.path("memory.json").display().to_string();
    let check = cluster.run(&[
        "slurm",
        "healthcheck",
        "--socket",
        &socket,
        "--memory",
        &memory,
        "--scontrol",
        "/no/such",
    ]);
    assert_eq!((check.code, check.out.as_str()), (Some(0), ""));
    assert!(check.err.contains("nothing is done: state was not looked at yet"), "{check:?}");
}
