//! Settings and counters of RoCE adapters, read from a real kernel while RDMA traffic runs: each fault ends in its finding on the
//! coordinator's API, and in no other. It shows that they are read and judged, not what priority flow control does to traffic.

use rdmascope_tests::guest::{Adapters, Api, Cluster, Endpoint, endpoints, wait_until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Statistics are read every 30 s, and what rises shows at the second reading.
const PATIENCE: Duration = Duration::from_secs(150);

fn cluster() -> (Cluster, Api) {
    let cluster = Cluster::start(endpoints());
    let api = cluster.api();
    api.wait_usable(endpoints());
    (cluster, api)
}

/// Several faults in one cluster, for each reading of settings is a minute apart from the next; no finding is another's.
#[test]
fn settings_and_modules_are_judged_each_on_its_node_and_against_the_others() {
    let adapters = Adapters::dress();
    let (_cluster, api) = cluster();
    api.wait_findings("a lossless fabric", PATIENCE, &[]);
    adapters.set(Endpoint(1), "temperature", 73_000);
    let (mapped, odd) = (Endpoint(2), Endpoint(3));
    adapters.dcb(mapped, "app del dev PORT dscp-prio 48:6");
    adapters.dcb(mapped, "app add dev PORT dscp-prio 48:7");
    // The DSCP map is still there, so lossy on purpose cannot be told from forgotten by this node alone.
    adapters.dcb(odd, "pfc set dev PORT prio-pfc all:off");
    adapters.rise(Endpoint(4), "tx_pause_storm_error_events", 1);
    let beside = ["lab-1 warn module netdev w1", "lab-4 fail pause-storm netdev w4"];
    let drifts = ["lab-2 warn drift rxe2/1", "lab-3 warn drift rxe3/1"];
    let what = "a hot module, another DSCP map, no PFC, a storm";
    api.wait_findings(what, PATIENCE, &[beside, drifts].concat());
    told_with_what_it_was(&api);

    adapters.lossless(mapped);
    adapters.dcb(odd, "app flush dev PORT");
    wait_until("one has nothing of a lossless class left, the other is as all", PATIENCE, || {
        let seen = api.findings()?;
        let others: Vec<_> = seen.iter().filter(|line| !line.starts_with("lab-3 ")).collect();
        if seen.iter().any(|line| line == "lab-3 warn pfc-priority netdev w3") && others == beside {
            Ok(())
        } else {
            Err(format!("{seen:#?}"))
        }
    });
    adapters.lossless(odd);
    api.wait_findings("settings that were set again", PATIENCE, &beside);
}

/// How many agree is said, and the change itself is an event with what was before.
fn told_with_what_it_was(api: &Api) {
    let drift = api.json("/api/v1/findings?id=drift").expect("findings");
    let said = |node: &str, setting: &str| {
        let of_node = |finding: &&Value| finding["node"] == json!(node);
        let summary = drift["findings"].as_array().into_iter().flatten().find(of_node);
        let summary = summary.and_then(|finding| finding["summary"].as_str()).unwrap_or_default();
        assert!(summary.contains("3 of 4") && summary.contains(setting), "{node}: {summary}");
    };
    said("lab-2", "dscp");
    said("lab-3", "pfc");
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
fn a_port_down_is_an_event_at_once_and_fails_after_the_debounce() {
    let (_cluster, api) = cluster();
    api.wait_findings("a healthy cluster", PATIENCE, &[]);
    let broken = Endpoint(3);
    let began = Instant::now();
    let fault = broken.down();
    wait_until("the event is on the API", PATIENCE, || {
        let events = api.json("/api/v1/events?node=lab-3&kind=state-change&limit=10")?;
        let down = |event: &&Value| event["subject"] == json!("rxe3/1") && event["after"] == json!("DOWN");
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
