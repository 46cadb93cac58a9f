//! Mistakes that people make end with what to do next: wrong names, wrong tokens, other versions, missing rights.

use crate::harness::{Cluster, Done, Folder, answering, finish, rdmascope, run};
use crate::incidents::{open_incidents, with_a_port_that_is_down};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const OTHER_TOKEN: &str = "fedcba9876543210fedcba9876543210";

/// Says what failed and, in the last line, what to do.
#[track_caller]
fn says(done: &Done, code: i32, what: &str, next_step: &str) {
    assert_eq!(done.code, Some(code), "{done:?}");
    assert!(done.err.starts_with("rdmascope: "), "{done:?}");
    assert!(done.err.contains(what), "no {what:?} in {}", done.err);
    let last = done.err.lines().last().unwrap_or_default();
    assert!(last.starts_with("  next step: ") && last.contains(next_step), "no {next_step:?} in {last:?}");
}

#[test]
fn a_mistyped_node_finds_the_one_that_was_meant() {
    let cluster = Cluster::start(None, &["gpu-01", "gpu-02", "login"]);
    cluster.wait_for_nodes(&["gpu-01", "gpu-02", "login"]);
    let policy = cluster.folder.file("policy.yaml", "policy: {rdma_mtu: 2048}\n");
    for words in [
        ["nodes", "--node", "logon"].as_slice(),
        &["nodes", "remove", "logon"],
        &["findings", "--node", "logon"],
        &["events", "--node", "logon"],
        &["replay", "--policy", &policy, "--node", "logon"],
        &["ack", "logon", "port-state"],
        &["pause", "--nodes", "gpu-01,logon"],
        &["probe", "gpu-01", "logon"],
        &["sweep", "--nodes", "gpu-01,logon"],
        &["sweep", "--plan", "--nodes", "gpu-01,logon"],
        &["probe", "--incast", "gpu-01", "--from", "gpu-02,logon"],
    ] {
        let done = cluster.run(words);
        says(&done, 1, "logon", "did you mean login?");
    }
    says(&cluster.run(&["diagnose", "--nodes", "gpu-01,logon"]), 3, "logon", "did you mean login?");
    says(&cluster.run(&["probe", "gpu-01/tpc/1", "gpu-02"]), 1, "gpu-01/tpc/1", "did you mean gpu-01/tcp/1");
    says(
        &cluster.run(&["nodes", "--node", "elsewhere-77"]),
        1,
        "elsewhere-77",
        "`rdmascope nodes` lists them",
    );
}

#[test]
fn a_mistyped_finding_or_incident_finds_what_there_is() {
    let cluster = Cluster::start(None, &[]);
    let agent = with_a_port_that_is_down(&cluster);
    open_incidents(&cluster.api());
    says(&cluster.run(&["ack", "stranger", "port-sate"]), 1, "no such finding", "did you mean port-state?");
    says(&cluster.run(&["ack", "--incident", "77"]), 1, "no incident 77", "rdmascope incidents");
    says(&cluster.run(&["incidents", "77"]), 1, "77", "rdmascope incidents --all");
    says(&run(&["explain", "port-sate"]), 64, "port-sate", "did you mean port-state");
    says(&run(&["explain", "x"]), 64, "'x'", "in brackets behind a finding");
    drop(agent);
}

#[test]
fn without_the_right_token_it_is_said_whose_to_take() {
    let cluster = Cluster::start(Some(TOKEN), &[]);
    let none = run(&["pause", "--coordinator", &cluster.address]);
    says(&none, 1, "needs a token", "--token-file FILE");
    let wrong = cluster.folder.file("wrong-token", OTHER_TOKEN);
    let wrong = run(&["pause", "--coordinator", &cluster.address, "--token-file", &wrong]);
    says(&wrong, 1, "needs a token", "wrong-token: copy its file");
}

#[test]
fn a_coordinator_that_is_not_there_or_is_something_else_is_told_apart() {
    says(
        &run(&["nodes", "--coordinator", "127.0.0.1:1"]),
        1,
        "cannot reach the coordinator",
        "rdmascope coordinator",
    );
    let unknown_host = run(&["nodes", "--coordinator", "no-such-host.invalid:1"]);
    says(
        &unknown_host,
        1,
        "cannot reach the coordinator at no-such-host.invalid:1",
        "--coordinator HOST:PORT",
    );

    let other_version = r#"{"status":"ok","version":"99.0.0"}"#;
    let (address, server) = answering(&[r#"{"nodes": 7}"#, other_version]);
    let done = run(&["nodes", "--coordinator", &address]);
    says(&done, 1, "cannot be understood", "the coordinator is version 99.0.0, this program ");
    drop(server);
    let (address, server) = answering(&["<html>hello</html>", "<html>hello</html>"]);
    let done = run(&["nodes", "--coordinator", &address]);
    says(&done, 1, "cannot be understood", "is the address right?");
    drop(server);
}

/// Runs it as a user without any rights; who runs the tests may be root, whom nothing is denied.
fn without_rights(arguments: &[&str]) -> Done {
    const NOBODY: u32 = 65_534;
    let mut command = rdmascope(arguments);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    finish(command)
}

#[test]
fn a_missing_right_is_named_with_what_it_takes() {
    let folder = Folder::new();
    let set = |path: &str, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its permissions");
    };
    let token = folder.file("token", TOKEN);
    set(&token, 0o000);
    let closed = folder.path("closed");
    std::fs::create_dir(&closed).expect("a folder");
    let closed = closed.to_str().expect("a path of ASCII");
    set(closed, 0o555);

    let done = without_rights(&["pause", "--token-file", &token]);
    assert_eq!(done.code, Some(78), "{done:?}");
    assert!(done.err.contains("this user may read it") && done.err.contains("denied"), "{done:?}");
    let file = format!("{closed}/node.capture");
    let root = rdmascope_fixtures::FakeHost::mlx5(1);
    let root = root.root().to_str().expect("a path of ASCII");
    let done = without_rights(&["capture", "--root", root, "--seconds", "0", "--output", &file]);
    says(&done, 1, "denied", "this user may write to");
    says(&without_rights(&["man", closed]), 1, "denied", "this user may write to");
    let config = folder.file("config.yaml", "");
    set(&config, 0o000);
    let done = without_rights(&["config", "check", &config]);
    assert_eq!(done.code, Some(78), "{done:?}");
    assert!(done.err.contains("config.yaml: cannot be read") && done.err.contains("denied"), "{done:?}");
}

#[test]
fn wrong_usage_has_the_code_of_its_command_wherever_flags_stand() {
    assert_eq!(run(&["--color", "never", "check", "--jsn"]).code, Some(3));
    assert_eq!(run(&["--color=never", "check", "--jsn"]).code, Some(3));
    assert_eq!(run(&["nodes", "--jsn"]).code, Some(64));
    assert_eq!(run(&["check", "--json", "--exit-style", "npd"]).code, Some(3));
    assert_eq!(run(&["matrix", "--worst", "0"]).code, Some(64));
}
