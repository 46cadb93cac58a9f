//! Captured machines of many kinds, healthy and broken: what the checks say of each, and what its agent would show.

#[path = "hosts/node_exporter.rs"]
mod node_exporter;

use rdmascope_checks::counters::retransmits;
use rdmascope_checks::log::Rules;
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
    let rules = Rules::builtin();
    agent(&AgentInput {
        mesh: None,
        pairs: &[],
        expected_rate_bps: &|_, _| None,
        version: "0.0.0",
        snapshot: Some(now),
        findings,
        kernel_log: log,
        log_class: &|rule| rules.get(rule).map_or("unknown", |rule| rule.class.word()),
        took: &BTreeMap::new(),
        done_at: &BTreeMap::new(),
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

/// One change to each healthy machine (a line of a file, and what is there instead), and the finding that it must bring.
const CHANGES: [(&str, &str, &str, &str, &str); 14] = [
    ("bnxt_re", "/eth0/mtu", "9000", "1500", "netdev-mtu fail netdev eth0"),
    (
        "efa",
        "/infiniband/rdmap0s6/ports/1/rate",
        "100 Gb/sec (4X EDR)",
        "fast",
        "port-rate unknown rdmap0s6/1",
    ),
    ("hfi1", "/ports/1/state", "4: ACTIVE", "2: INIT", "port-state fail hfi1_0/1"),
    ("i40iw", "/ports/1/phys_state", "5: LinkUp", "2: Polling", "port-phys-state fail i40iw0/1"),
    ("irdma", "/eth0/carrier", "1", "0", "netdev-link fail netdev eth0"),
    ("mlx4", "/ports/2/counters/link_downed", "0", "255", "counter-saturated warn mlx4_0/2"),
    ("mlx4-old-kernel", "/ports/2/sm_lid", "0x1", "0x0", "subnet-manager fail mlx4_0/2"),
    ("mlx5-bond", "/eth1/bonding_slave/mii_status", "up", "down", "bond warn netdev bond0"),
    (
        "mlx5-h100-infiniband",
        "/infiniband/mlx5_9/fw_ver",
        "28.41.1000",
        "28.39.1002",
        "firmware-version warn mlx5_9",
    ),
    ("mlx5-roce", "/eth5/mtu", "9000", "1500", "netdev-mtu fail netdev eth5"),
    (
        "mlx5-sriov",
        "/infiniband/mlx5_2/ports/1/state",
        "4: ACTIVE",
        "1: DOWN",
        "virtual-function fail mlx5_2/1",
    ),
    ("mlx5-virtual-machine", "/0000:01:00.0/current_link_width", "16", "8", "pci-link fail pci 0000:01:00.0"),
    ("qib", "/ports/1/pkeys/0", "0xffff", "0x0000", "partition-keys fail qib0/1"),
    ("soft-roce", "/rxe2/ports/1/gids/1", GID, ZERO_GID, "gid-usable fail rxe2/1"),
];

const GID: &str = "0000:0000:0000:0000:0000:ffff:c000:0205";
const ZERO_GID: &str = "0000:0000:0000:0000:0000:0000:0000:0000";

#[test]
fn one_change_to_each_healthy_machine_is_found() {
    let changed: BTreeSet<&str> = CHANGES.iter().map(|(name, ..)| *name).collect();
    assert_eq!(changed, HEALTHY.into_iter().collect(), "every healthy machine has its change");
    let mut wrong = Vec::new();
    for (name, file, from, to, expected) in CHANGES {
        let healthy = text_of(name);
        let (before, now) =
            healthy.split_once("\n== sys/").expect("files of sysfs come after the earlier reading");
        let broken = now.replacen(&format!("{file}\n{from}\n"), &format!("{file}\n{to}\n"), 1);
        assert_ne!(broken, now, "{name} has no {file} with {from}");
        let findings = judged(&format!("{before}\n== sys/{broken}"), &Policy::default()).findings;
        let found = findings_text(&findings);
        if !found.lines().any(|line| line == expected) {
            wrong.push(format!("{name}: {expected} is not in {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
