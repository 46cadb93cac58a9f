//! Settings and counters of RoCE adapters, read from a real kernel while RDMA traffic runs: each fault ends in its finding on the
//! coordinator's API, and in no other. It shows that they are read and judged, not what priority flow control does to traffic.

use rdmascope_tests::guest::{Adapters, Api, Cluster, Endpoint, endpoints, wait_until};
use serde_json::json;
use std::time::{Duration, Instant};

/// Statistics are read every 30 s, and what rises shows at the second reading.
const PATIENCE: Duration = Duration::from_secs(150);

fn cluster() -> (Cluster, Api) {
    let cluster = Cluster::start(endpoints());
    let api = cluster.api();
    api.wait_usable(endpoints());
    (cluster, api)
}

#[test]
fn pfc_missing_on_one_node_is_named_there_and_against_the_others() {
    let adapters = Adapters::dress();
    let (_cluster, api) = cluster();
    api.wait_findings("a lossless fabric", PATIENCE, &[]);
    let odd = Endpoint(3);
    adapters.dcb(odd, "pfc set dev PORT prio-pfc all:off");
    // Its DSCP map is still there, so lossy on purpose cannot be told from forgotten by this node alone.
    api.wait_findings("a node without PFC", PATIENCE, &["lab-3 warn drift rxe3/1"]);
    let drift = api.json("/api/v1/findings?id=drift").unwrap();
    let summary = drift["findings"][0]["summary"].as_str().unwrap_or_default().to_owned();
    assert!(summary.contains("3 of 4") && summary.contains("pfc"), "{summary}");
    wait_until("the change is an event with before and after", PATIENCE, || {
        let events = api.json("/api/v1/events?node=lab-3&kind=setting-change")?;
        let change =
            events["events"].as_array().into_iter().flatten().find(|event| event["id"] == json!("pfc"));
        let change = change.ok_or_else(|| events.to_string())?;
        if change["before"] == json!("3") && change["after"] == json!("none") {
            Ok(())
        } else {
            Err(change.to_string())
        }
    });
    adapters.dcb(odd, "app flush dev PORT");
    wait_until("nothing of a lossless class is left", PATIENCE, || {
        let seen = api.findings()?;
        let own = seen.iter().any(|line| line == "lab-3 warn pfc-priority netdev w3");
        if own && seen.iter().all(|line| line.starts_with("lab-3 ")) {
            Ok(())
        } else {
            Err(format!("{seen:#?}"))
        }
    });
    adapters.lossless(odd);
    api.wait_findings("PFC that was set again", PATIENCE, &[]);
}

#[test]
fn a_dscp_map_that_differs_is_named_against_the_others() {
    let adapters = Adapters::dress();
    let (_cluster, api) = cluster();
    api.wait_findings("a lossless fabric", PATIENCE, &[]);
    let odd = Endpoint(2);
    adapters.dcb(odd, "app del dev PORT dscp-prio 48:6");
    adapters.dcb(odd, "app add dev PORT dscp-prio 48:7");
    api.wait_findings("another DSCP map", PATIENCE, &["lab-2 warn drift rxe2/1"]);
    adapters.lossless(odd);
    api.wait_findings("the map that was set again", PATIENCE, &[]);
}

#[test]
fn counters_that_rise_are_judged_each_on_its_node_while_rdma_traffic_runs() {
    let adapters = Adapters::dress();
    let (_cluster, api) = cluster();
    api.wait_findings("a lossless fabric", PATIENCE, &[]);
    let sweep = api.begin_sweep("all");
    // The switch stops this port for a quarter of the time.
    adapters.rise(Endpoint(1), "rx_prio3_pause_duration", 700_000);
    adapters.rise(Endpoint(1), "rx_prio3_pause", 20_000);
    adapters.rise(Endpoint(1), "rx_prio3_pause_transition", 20_000);
    // This one's receiver cannot keep up, and its port drops.
    adapters.rise(Endpoint(2), "rx_discards_phy", 50);
    adapters.rise(Endpoint(3), "rx_symbol_err_phy", 10);
    // Congestion notifications come in and nobody slows down.
    adapters.rise(Endpoint(4), "rp_cnp_ignored", 5);
    api.wait_sweep(sweep);
    api.wait_findings(
        "four faults",
        PATIENCE,
        &[
            "lab-1 fail pause-share netdev w1",
            "lab-2 fail discards netdev w2",
            "lab-3 fail symbol-errors netdev w3",
            "lab-4 warn ecn netdev w4",
        ],
    );
}

#[test]
fn a_hot_module_and_a_pause_storm_are_told() {
    let adapters = Adapters::dress();
    let (_cluster, api) = cluster();
    api.wait_findings("a lossless fabric", PATIENCE, &[]);
    adapters.set(Endpoint(1), "temperature", 73_000);
    adapters.rise(Endpoint(2), "tx_pause_storm_error_events", 1);
    api.wait_findings(
        "a hot module and a storm",
        PATIENCE,
        &["lab-1 warn module netdev w1", "lab-2 fail pause-storm netdev w2"],
    );
}

#[test]
fn a_port_down_is_an_event_at_once_and_fails_after_the_debounce() {
    let (_cluster, api) = cluster();
    api.wait_findings("a healthy cluster", PATIENCE, &[]);
    let broken = Endpoint(3);
    let began = Instant::now();
    let fault = broken.down();
    wait_until("the event is on the API", PATIENCE, || {
        let events = api.json("/api/v1/events?node=lab-3&kind=state-change&limit=10")?;
        let down = |event: &&serde_json::Value| {
            event["subject"] == json!("rxe3/1") && event["after"] == json!("DOWN")
        };
        events["events"]
            .as_array()
            .into_iter()
            .flatten()
            .find(down)
            .map(drop)
            .ok_or_else(|| events.to_string())
    });
    let told = began.elapsed();
    let settling = |seen: &[String]| {
        seen.iter().any(|line| line == "lab-3 warn port-state rxe3/1 (settling)")
            && !seen.iter().any(|line| line.contains(" fail "))
    };
    wait_until("it settles first", PATIENCE, || {
        let seen = api.findings()?;
        if settling(&seen) { Ok(()) } else { Err(format!("{seen:#?}")) }
    });
    wait_until("then it has failed", PATIENCE, || {
        let seen = api.findings()?;
        if seen.iter().any(|line| line == "lab-3 fail port-state rxe3/1") {
            Ok(())
        } else {
            Err(format!("{seen:#?}"))
        }
    });
    let failed = began.elapsed();
    assert!(failed >= Duration::from_secs(10), "failed after {failed:?}, before the debounce was over");
    let seen = api.findings().unwrap();
    assert!(seen.iter().all(|line| line.starts_with("lab-3 ")), "only the node that is broken: {seen:#?}");
    eprintln!("port down: event after {} ms, fail after {} ms", told.as_millis(), failed.as_millis());
    drop(fault);
    api.wait_findings("a port that is back", PATIENCE, &[]);
}
