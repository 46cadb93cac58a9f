//! The parts around the chart that are programs of their own: the plugin of node-problem-detector, and the command that takes the taint away.

use super::{deploy, read};
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

const LAST_RUN: &str = "rdmascope_checks_last_run_timestamp_seconds";

/// What an agent serves, of a machine with two adapters, all of whose checks are as `states` says; the machine was read so long ago.
fn metrics(states: &[(&str, &str)], seconds_ago: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let mut text = String::new();
    for line in read("../tests/fixtures/hosts/mlx5-roce/metrics.txt").lines() {
        let label = |name: &str| line.split(&format!("{name}=\"")).nth(1)?.split('"').next();
        if line.starts_with("rdmascope_check_status{") {
            let (check, status) = (label("check").expect("check"), label("status").expect("status"));
            let state = states.iter().find(|(name, _)| *name == check).map_or("ok", |(_, state)| *state);
            let series = line.rsplit_once(' ').expect("a value").0;
            let _ = writeln!(text, "{series} {}", u8::from(status == state));
        } else if line.starts_with("rdmascope_finding{") {
            // Told below.
        } else if line.starts_with(&format!("{LAST_RUN} ")) {
            for (check, status) in states {
                let _ = writeln!(
                    text,
                    r#"rdmascope_finding{{check="{check}",subject="mlx5_1/1",status="{status}"}} 1"#
                );
            }
            let _ = writeln!(text, "{LAST_RUN} {}.25", now - seconds_ago);
        } else {
            let _ = writeln!(text, "{line}");
        }
    }
    assert!(text.contains(&format!("{LAST_RUN} {}", now - seconds_ago)), "the fixture has no {LAST_RUN}");
    text
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.0 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// What the plugin says to node-problem-detector, by exit code and message, when the agent answers so; `None`: there is no agent.
fn plugin(answer: Option<&str>) -> (Option<i32>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = listener.local_addr().expect("address").port();
    let mut command = Command::new("bash");
    command.arg(deploy().join("helm/rdmascope/files/check-rdma.sh"));
    command.env("RDMASCOPE_PORT", port.to_string()).env_remove("HOST_IP");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Some(answer) = answer else {
        drop(listener);
        return said(command.spawn().expect("bash"));
    };
    let child = command.spawn().expect("bash");
    let (mut agent, _) = listener.accept().expect("the plugin");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        agent.read_exact(&mut byte).expect("a request");
        head.extend(byte);
    }
    assert!(head.starts_with(b"GET /metrics HTTP/1.0\r\n"), "{}", String::from_utf8_lossy(&head));
    // A plugin that has seen enough hangs up.
    let _ = agent.write_all(answer.as_bytes());
    drop(agent);
    said(child)
}

fn said(child: std::process::Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().expect("bash");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "node-problem-detector would log it");
    let message = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(message.len() <= 81 && message.lines().count() == 1, "{message:?}");
    (output.status.code(), message.trim_end().to_owned())
}

#[test]
fn the_plugin_says_what_the_agent_has_found() {
    let of = |states: &[(&str, &str)], ago| plugin(Some(&answer("200 OK", &metrics(states, ago))));
    let (code, message) = of(&[], 3);
    assert_eq!(code, Some(0), "{message}");
    assert!(message.starts_with("no RDMA check fails ("), "{message}");
    assert_eq!(of(&[("port-state", "warn")], 3).0, Some(0), "a warning is no problem of the node");
    let (code, message) = of(&[("port-state", "fail")], 3);
    assert_eq!((code, message.as_str()), (Some(1), "port-state fails: mlx5_1/1"));
    let (code, message) = of(&[("kernel-log", "unknown")], 3);
    let unseen = "kernel-log could not be judged: rdmascope explain kernel-log";
    assert_eq!((code, message.as_str()), (Some(2), unseen), "what was not seen is not fine");
    let (code, message) = of(&[("kernel-log", "unknown"), ("port-state", "fail")], 3);
    assert_eq!((code, message.as_str()), (Some(1), "port-state fails: mlx5_1/1"));
}

#[test]
fn what_the_plugin_does_not_know_is_unknown() {
    let fine = metrics(&[], 3);
    let whole = answer("200 OK", &fine);
    let old = metrics(&[], 600);
    let never = fine
        .lines()
        .filter(|line| !line.starts_with(LAST_RUN))
        .fold(String::new(), |text, line| text + line + "\n");
    let no_check = fine
        .lines()
        .filter(|line| !line.contains("_check_status"))
        .fold(String::new(), |text, line| text + line + "\n");
    for (what, answer, word) in [
        ("no agent", None, "does not answer"),
        ("it hangs up", Some(String::new()), "gives no metrics"),
        ("it speaks TLS", Some("\u{15}\u{3}\u{3}".to_owned()), "gives no metrics"),
        ("it lets nobody in", Some(answer("401 Unauthorized", "")), "401"),
        ("its end is missing", Some(whole[..whole.len() - 10].to_owned()), "not whole"),
        ("no length", Some(whole.replace("content-length", "x-length")), "not whole"),
        ("no checks", Some(answer("200 OK", &no_check)), "not whole"),
        ("never looked", Some(answer("200 OK", &never)), "has not looked at this node yet"),
        ("looked long ago", Some(answer("200 OK", &old)), "not looked at this node for"),
    ] {
        let (code, message) = plugin(answer.as_deref());
        assert_eq!(code, Some(2), "{what}: {message}");
        assert!(message.contains(word), "{what}: {message}");
    }
}

#[test]
fn the_plugins_configuration_begins_with_unknown_and_keeps_its_limits() {
    let config: serde_json::Value =
        serde_json::from_str(&read("helm/rdmascope/files/node-problem-detector.json")).expect("JSON");
    let (set, rule) = (&config["pluginConfig"], &config["rules"][0]);
    assert_eq!(config["plugin"], "custom");
    assert_eq!(set["skip_initial_status"], true, "else a node is healthy before anybody has looked");
    assert_eq!(set["max_output_length"], 80);
    assert_eq!((&rule["type"], &rule["condition"]), (&"permanent".into(), &config["conditions"][0]["type"]));
    assert_eq!(rule["timeout"], set["timeout"], "a longer one is refused");
    let file = Path::new(rule["path"].as_str().expect("path"))
        .file_name()
        .expect("name")
        .to_string_lossy()
        .into_owned();
    assert!(deploy().join("helm/rdmascope/files").join(&file).is_file(), "{file}");
    assert!(read("helm/rdmascope/templates/node-problem-detector.yaml").contains(&format!("  {file}: |")));
}

/// A folder with programs that stand in for kubectl, which writes down its words, and for rdmascope, which ends in this way.
fn stand_ins(rdmascope: &str) -> (PathBuf, PathBuf) {
    let name: String = rdmascope.chars().filter(char::is_ascii_alphanumeric).collect();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("untaint-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let told = folder.join("told");
    for (program, does) in
        [("rdmascope", rdmascope.to_owned()), ("kubectl", format!("echo \"$@\" >> '{}'", told.display()))]
    {
        let path = folder.join(program);
        std::fs::write(&path, format!("#!/bin/sh\n{does}\n")).expect("writable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a program");
    }
    (folder, told)
}

/// The command that the chart's README tells pipelines to use.
fn documented() -> String {
    let readme = read("helm/rdmascope/README.md");
    let from = readme.find("rdmascope selfcheck --preset").expect("the command");
    readme[from..].split("```").next().expect("its end").to_owned()
}

#[test]
fn nothing_but_a_self_check_that_passed_takes_the_taint_away() {
    let command = documented();
    assert!(command.contains("--nodes gpu01,gpu02") && command.contains("&&"), "{command}");
    // 0 passes, 1 warns, 2 fails, 3 was not tested, 64 and 78 are mistakes; it may be killed, or not be there at all.
    for ends in
        ["exit 0", "exit 1", "exit 2", "exit 3", "exit 64", "exit 78", "kill -TERM $$", "kill -KILL $$"]
    {
        let (folder, told) = stand_ins(ends);
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        let status = Command::new("sh")
            .args(["-c", &command])
            .env("PATH", path)
            .stderr(Stdio::null())
            .status()
            .expect("sh");
        let told = std::fs::read_to_string(told).unwrap_or_default();
        if ends == "exit 0" {
            assert_eq!(told, "taint nodes gpu01 gpu02 rdmascope.io/not-checked:NoSchedule-\n");
            assert!(status.success());
        } else {
            assert_eq!(
                (told.as_str(), status.success()),
                ("", false),
                "{ends}: the taint is gone, or nobody hears of it"
            );
        }
        std::fs::remove_dir_all(folder).expect("removable");
    }
}
