//! Captured machines of many kinds, healthy and broken: what the checks say of each, and what its agent would show.

#[path = "hosts/node_exporter.rs"]
mod node_exporter;

use rdmascope_checks::counters::retransmits;
use rdmascope_checks::{Look, Past, Policy, run};
use rdmascope_expose::api::PauseLevel;
use rdmascope_expose::metrics::{AgentInput, agent};
use rdmascope_fixtures::hosts;
use rdmascope_host::{Host, KernelLogReader, PortMtu};
use rdmascope_model::{Finding, KernelLog, Reading, Snapshot, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Machines with nothing wrong: every finding of them is `ok`, and none `unknown`.
const HEALTHY: [&str; 14] = [
    "bnxt_re",
    "efa",
    "hfi1",
    "i40iw",
    "irdma",
    "mlx4",
    "mlx4-old-kernel",
    "mlx5-bond",
    "mlx5-h100-infiniband",
    "mlx5-roce",
    "mlx5-sriov",
    "mlx5-virtual-machine",
    "qib",
    "soft-roce",
];

/// The file of a folder that holds the machine itself.
const CAPTURE: &str = "machine.capture";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hosts")
}

/// Every captured machine: those that code puts together, and those that were taken from life.
fn names() -> BTreeSet<String> {
    let entries = fs::read_dir(folder()).expect("captured machines");
    let folders = entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir());
    let name = |path: PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    folders.filter_map(name).collect()
}

fn may_write() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// Compares with a file that people have read line by line; writes it when asked to.
fn same_as(name: &str, file: &str, text: &str, wrong: &mut Vec<String>) {
    let path = folder().join(name).join(file);
    if may_write() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for the machine");
        fs::write(&path, text).expect("the file can be written");
        return;
    }
    let golden = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let difference = golden.lines().zip(text.lines()).enumerate().find(|(_, (golden, now))| golden != now);
    if golden != text {
        let where_and_what = match difference {
            Some((line, (golden, now))) => format!("line {}: `{golden}` is now `{now}`", line + 1),
            None => format!("{} lines are now {}", golden.lines().count(), text.lines().count()),
        };
        wrong.push(format!("{name}/{file}: {where_and_what}"));
    }
}

fn text_of(name: &str) -> String {
    let path = folder().join(name).join(CAPTURE);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A machine as `rdmascope check --capture` sees it.
struct Judged {
    now: Snapshot,
    log: Reading<KernelLog>,
    findings: Vec<Finding>,
}

fn read(host: &Host) -> Snapshot {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(host.snapshot(|_, _| PortMtu::failed("a capture must not ask the real machine")))
}

/// What is expected of a machine: what its folder says (`config.yaml`, as for `rdmascope check --config`), or nothing special.
fn policy_of(name: &str) -> Policy {
    let file = folder().join(name).join("config.yaml");
    let expected = if file.is_file() {
        rdmascope_config::load(&file).unwrap_or_else(|problems| panic!("{problems}")).policy
    } else {
        Policy::default()
    };
    // As `rdmascope check --in-container` is called in a pod.
    Policy { in_container: name == "mlx5-container", ..expected }
}

fn judged(capture: &str, policy: &Policy) -> Judged {
    let host = Host::from_archive(capture).unwrap_or_else(|error| panic!("{error}"));
    let now = read(&host);
    let before = host.earlier().map(|before| read(&before));
    let past = Past::from_two(before.as_ref().unwrap_or(&now), &now);
    let log = KernelLogReader::new(None).read_now(&host, &policy.rules, &now);
    let look = Look { now: &now, past: &past, log: &log, policy };
    let findings = run(&look);
    Judged { now, log, findings }
}

/// What is above ok, one finding on each line, and how many are ok.
fn findings_text(findings: &[Finding]) -> String {
    let line = |f: &Finding| format!("{} {} {}\n", f.id, f.status.as_str(), f.subject);
    let mut lines: Vec<String> = findings.iter().filter(|f| f.status != Status::Ok).map(line).collect();
    lines.sort();
    let ok = findings.iter().filter(|f| f.status == Status::Ok).count();
    format!("{}{ok} ok\n", lines.concat())
}

/// The agent's `/metrics` of the machine.
fn metrics_text(Judged { now, log, findings }: &Judged) -> String {
    agent(&AgentInput {
        version: "0.0.0",
        snapshot: Some(now),
        findings,
        kernel_log: log.value(),
        took: &BTreeMap::new(),
        retransmits,
        paused: PauseLevel::None,
        uplink_connected: false,
    })
}

#[test]
fn every_machine_is_judged_as_people_have_read_it() {
    let mut wrong = Vec::new();
    // First the captures, which the others come from.
    for (name, machine) in hosts::all() {
        same_as(name, CAPTURE, &machine.capture(), &mut wrong);
    }
    for name in names() {
        let judged = judged(&text_of(&name), &policy_of(&name));
        same_as(&name, "findings.txt", &findings_text(&judged.findings), &mut wrong);
        same_as(&name, "metrics.txt", &metrics_text(&judged), &mut wrong);
    }
    assert!(wrong.is_empty(), "{}\nread each line, then UPDATE_GOLDEN=1", wrong.join("\n"));
}

#[test]
fn healthy_machines_are_quiet_and_others_are_not() {
    let (all, mut wrong) = (names(), Vec::new());
    for name in HEALTHY {
        assert!(all.contains(name), "{name} is gone");
    }
    for name in all {
        let findings = judged(&text_of(&name), &policy_of(&name)).findings;
        let loud: Vec<String> = findings
            .iter()
            .filter(|f| f.status != Status::Ok)
            .map(|f| format!("{} {} {}: {} {:?}", f.id, f.status.as_str(), f.subject, f.summary, f.evidence))
            .collect();
        if HEALTHY.contains(&name.as_str()) {
            wrong.extend(loud.into_iter().map(|line| format!("{name} is healthy: {line}")));
        } else if loud.is_empty() {
            wrong.push(format!("{name}: nothing is wrong with it: put it in HEALTHY"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn one_change_to_a_healthy_machine_is_found() {
    let healthy = text_of("mlx5-roce");
    let text = |capture: &str| findings_text(&judged(capture, &Policy::default()).findings);
    assert_eq!(text(&healthy).lines().count(), 1);
    let broken = healthy.replacen("/eth5/mtu\n9000\n", "/eth5/mtu\n1500\n", 1);
    assert_ne!(broken, healthy);
    let found = text(&broken);
    assert!(found.contains("netdev-mtu fail netdev eth5\n"), "{found}");
}
