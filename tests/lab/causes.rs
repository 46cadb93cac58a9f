//! One symptom, several causes, made for real: acknowledgements that never come at the start, in the middle, and because a
//! port went down.

use rdmascope_tests::guest::{Api, Cluster, Endpoint, wait_until};
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const FROM: Endpoint = Endpoint(1);
const TO: Endpoint = Endpoint(2);

fn cluster() -> (Cluster, Api) {
    let cluster = Cluster::start([FROM, TO]);
    let api = cluster.api();
    api.wait_usable([FROM, TO]);
    // Addresses are resolved and in the neighbour tables: what is lost from now on are the probe's own packets.
    let done = api.wait_sweep(api.begin_sweep("latency"));
    assert_eq!(done["state"], json!("done"), "{done}");
    (cluster, api)
}

fn begin(api: &Api) -> u64 {
    let body = json!({"source": FROM.name(), "target": TO.name(), "metric": "latency", "drained": true});
    let begun = api.post("/api/v1/probes", &body).expect("the coordinator answers");
    assert_eq!(begun.status, 202, "{}", begun.text);
    begun.body["id"].as_u64().expect("an id")
}

fn end(api: &Api, id: u64) -> Value {
    wait_until("the probe is over", PATIENCE, || {
        let view = api.json(&format!("/api/v1/probes/{id}"))?;
        let running = ["waiting", "running"].contains(&view["state"].as_str().unwrap_or_default());
        if running { Err(view.to_string()) } else { Ok(view) }
    })
}

/// Begins a probe and waits until both ends are connected, and some round trips are done.
fn begin_and_get_going(api: &Api) -> u64 {
    let id = begin(api);
    wait_until("both ends are connected", PATIENCE, || {
        let view = api.json(&format!("/api/v1/probes/{id}"))?;
        let steps = view["steps"].as_array().cloned().unwrap_or_default();
        let connected = steps.iter().filter(|step| step["step"] == json!("rts")).count();
        if connected == 2 { Ok(()) } else { Err(view.to_string()) }
    });
    sleep(Duration::from_millis(700));
    id
}

/// Makes a fault until the probe ends with this cause: a virtual machine that gets no processor for seconds may put it
/// before or behind the time that is meant.
#[track_caller]
fn ends_with(api: &Api, causes: &[&str], step: Option<&str>, fail: impl Fn() -> Value) -> Value {
    let mut last = Value::Null;
    for _ in 0..3 {
        last = fail();
        let failure = &last["failure"];
        let cause = failure["cause"].as_str().unwrap_or_default();
        if causes.contains(&cause) && step.is_none_or(|step| failure["step"] == json!(step)) {
            assert!(!failure["next_step"].as_str().unwrap_or_default().is_empty(), "{last}");
            assert!(last["pair"]["latency"]["figures"].is_null(), "a failure has no number: {last}");
            return last;
        }
        eprintln!("once more: {last}");
        api.wait_usable([FROM, TO]);
    }
    panic!("not {causes:?}: {last}")
}

#[track_caller]
fn names_status_12(view: &Value) {
    let evidence = view["failure"]["evidence"].as_str().unwrap_or_default();
    for word in ["IBV_WC_RETRY_EXC_ERR, status 12", "vendor error 0x"] {
        assert!(evidence.contains(word), "no '{word}': {view}");
    }
}

#[test]
fn status_12_at_the_start_and_in_the_middle_are_different_causes() {
    let (_cluster, api) = cluster();
    let at_once = ends_with(&api, &["retry-exceeded"], Some("first-byte"), || {
        let _fault = TO.netem("loss 100%");
        end(&api, begin(&api))
    });
    names_status_12(&at_once);
    // 1,100 round trips of 3 ms: long enough to be in the middle of.
    let _slow = FROM.netem("delay 3ms");
    let in_the_middle = ends_with(&api, &["path-lost"], Some("measure"), || {
        let id = begin_and_get_going(&api);
        let _fault = TO.netem("loss 100%");
        end(&api, id)
    });
    names_status_12(&in_the_middle);
    assert_ne!(at_once["failure"]["next_step"], in_the_middle["failure"]["next_step"]);
}

#[test]
fn a_port_that_goes_down_in_the_middle_of_a_probe_is_named_and_its_event_is_kept() {
    let (_cluster, api) = cluster();
    let _slow = FROM.netem("delay 3ms");
    let seen = ends_with(&api, &["port-down", "path-lost"], Some("measure"), || {
        let id = begin_and_get_going(&api);
        let _fault = TO.down();
        let seen = end(&api, id);
        wait_until("the port's event is in the history", PATIENCE, || port_went_down(&api));
        seen
    });
    if seen["failure"]["cause"] == json!("path-lost") {
        names_status_12(&seen);
    }
}

fn port_went_down(api: &Api) -> Result<(), String> {
    let events = api.json("/api/v1/events")?;
    let subject = format!("{}/1", TO.device());
    let found = events["events"].as_array().into_iter().flatten().any(|event| {
        event["kind"] == json!("state-change")
            && event["node"] == json!(TO.node())
            && event["subject"] == json!(subject)
            && event["before"] == json!("ACTIVE")
            && event["after"] == json!("DOWN")
    });
    if found { Ok(()) } else { Err(events.to_string()) }
}
