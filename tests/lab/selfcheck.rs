//! Self-checks on real devices: a healthy batch passes, and each fault fails with its endpoint as the suspect.

use rdmascope_tests::guest::{Cluster, Endpoint, Undo, endpoints, wait_until};
use serde_json::{Value, json};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const BROKEN: Endpoint = Endpoint(2);

fn cluster() -> Cluster {
    let cluster = Cluster::start(endpoints());
    cluster.api().wait_usable(endpoints());
    cluster
}

/// Exit code and report.
#[track_caller]
fn selfcheck(cluster: &Cluster, flags: &[&str]) -> (Option<i32>, Value) {
    let nodes: Vec<String> = endpoints().map(Endpoint::node).collect();
    let own = ["selfcheck", "--preset", "lab", "--wait", "10s", "--json", "--nodes", &nodes.join(",")];
    let mut command = cluster.client(&[&own, flags].concat());
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (text, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let report: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{command:?}: {error}:\n{text}{told}"));
    eprintln!("exit code {:?}: {}", output.status.code(), report["headline"]);
    (output.status.code(), report)
}

/// All that is blamed: one list of names for each suspect.
fn suspects(report: &Value) -> Vec<String> {
    let all = report["suspects"].as_array().into_iter().flatten();
    all.map(|suspect| suspect["names"].to_string()).collect()
}

/// It fails, and only this endpoint or its node is suspect. A virtual machine that gets no
/// processor for seconds may spoil one run; three in a row are our own fault.
#[track_caller]
fn blames(cluster: &Cluster, broken: Endpoint, flags: &[&str]) -> Value {
    let mut last = String::new();
    for _ in 0..3 {
        let (code, report) = selfcheck(cluster, &[&["--incasts", "0"], flags].concat());
        let named = suspects(&report);
        // `["lab-2/rxe2/1"]`, `["lab-2/rxe2/1 as a receiver"]` or `["node lab-2"]`.
        let is_it = |names: &String| {
            names.contains(&format!("{}/", broken.node()))
                || names.contains(&format!("node {}\"", broken.node()))
        };
        if code == Some(2) && !named.is_empty() && named.iter().all(is_it) {
            let told = report["suspects"][0]["next_step"].as_str().unwrap_or_default();
            assert!(!told.is_empty(), "{report:#}");
            return report;
        }
        last = format!(
            "exit code {code:?}, suspects {named:?}: {:#} {:#}",
            report["stages"], report["suspects"]
        );
        eprintln!("one more: {last}");
    }
    panic!("{last}");
}

/// Waits until the coordinator knows that the endpoint cannot be probed.
#[track_caller]
fn noticed(cluster: &Cluster, broken: Endpoint) {
    let api = cluster.api();
    wait_until("the fault is noticed", PATIENCE, || {
        let seen = api.endpoint(broken)?;
        if seen["usable"] == json!(true) { Err(seen.to_string()) } else { Ok(()) }
    });
}

#[test]
fn a_healthy_lab_passes_and_the_report_has_every_pair() {
    let cluster = cluster();
    let mut last = String::new();
    for _ in 0..3 {
        let (code, report) = selfcheck(&cluster, &["--incasts", "2"]);
        if code == Some(0) {
            let n = endpoints().count();
            let pairs = report["pairs"].as_array().expect("pairs");
            assert_eq!(pairs.len(), 2 * n * (n - 1), "each direction, latency and goodput");
            assert!(pairs.iter().all(|pair| pair["status"] == "ok" && pair["value"].as_u64() > Some(0)));
            assert_eq!((report["suspects"].clone(), report["not_tested"].clone()), (json!([]), json!([])));
            assert_eq!(report["incasts"].as_array().map(Vec::len), Some(2));
            return;
        }
        last = format!("{:#} {:#} {:#}", report["stages"], report["not_tested"], report["suspects"]);
        eprintln!("one more: {last}");
    }
    panic!("{last}");
}

#[test]
fn a_port_that_is_down_fails_by_what_its_node_says() {
    let cluster = cluster();
    let _fault = BROKEN.down();
    noticed(&cluster, BROKEN);
    let report = blames(&cluster, BROKEN, &[]);
    assert!(report["suspects"][0].to_string().contains("not ACTIVE"), "{:#}", report["suspects"]);
}

#[test]
fn a_port_without_a_gid_fails_by_what_its_node_says() {
    let cluster = cluster();
    let _fault = BROKEN.without_address();
    noticed(&cluster, BROKEN);
    blames(&cluster, BROKEN, &[]);
}

#[test]
fn a_removed_device_fails_and_is_named() {
    let cluster = cluster();
    let fault = BROKEN.remove_device();
    noticed(&cluster, BROKEN);
    blames(&cluster, BROKEN, &[]);
    drop(fault);
    cluster.api().wait_usable([BROKEN]);
}

#[test]
fn mtu_1500_fails_although_every_probe_goes_through() {
    let cluster = cluster();
    let _fault = BROKEN.mtu(1500);
    let api = cluster.api();
    wait_until("the smaller MTU is seen", PATIENCE, || {
        let seen = api.endpoint(BROKEN)?;
        if seen["active_mtu_bytes"] == json!(1024) { Ok(()) } else { Err(seen.to_string()) }
    });
    let report = blames(&cluster, BROKEN, &["--limit", "mtu=4096"]);
    assert!(report["suspects"][0].to_string().contains("1024"), "{:#}", report["suspects"]);
}

/// What the network does to packets on their way to the endpoint, which no node can see.
#[track_caller]
fn blames_the_network_to(fault: impl FnOnce(Endpoint) -> Undo, flags: &[&str]) {
    let cluster = cluster();
    let _fault = fault(BROKEN);
    blames(&cluster, BROKEN, flags);
}

#[test]
fn delay_towards_an_endpoint_fails() {
    blames_the_network_to(|end| end.netem("delay 10ms"), &[]);
}

#[test]
fn loss_towards_an_endpoint_fails_where_nothing_may_be_sent_again() {
    blames_the_network_to(|end| end.netem("loss 10%"), &["--limit", "retransmits=30"]);
}

#[test]
fn a_slow_link_to_an_endpoint_fails() {
    blames_the_network_to(|end| end.netem("rate 3mbit"), &[]);
}

#[test]
fn a_hole_for_large_packets_fails_though_small_ones_pass() {
    blames_the_network_to(Endpoint::hole_for_large_packets, &[]);
}

#[test]
fn a_node_whose_agent_is_dead_was_not_tested_and_does_not_pass() {
    let mut cluster = cluster();
    cluster.kill_agent(BROKEN);
    noticed(&cluster, BROKEN);
    let (code, report) = selfcheck(&cluster, &["--incasts", "0"]);
    assert_eq!(code, Some(3), "{:#} {:#}", report["stages"], report["suspects"]);
    assert!(report["not_tested"].to_string().contains(&BROKEN.node()), "{:#}", report["not_tested"]);
}
