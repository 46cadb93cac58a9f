//! One pair over time, with the real binary: measured, asked for, pinned, and back after a restart.

use crate::harness::{Cluster, Folder, PATIENCE};
use rdmascope_tests::guest::{Api, Signal, wait_until};
use serde_json::{Value, json};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const PINS: &str = "/api/v1/history/pins";

/// The history of a pair as soon as it has a point.
fn history(cluster: &Cluster, pair: [&str; 2]) -> Value {
    wait_until("the pair has a history", PATIENCE, || {
        let path = format!("/api/v1/history?source={}&target={}&metric=latency", pair[0], pair[1]);
        let view = cluster.api().json(&path)?;
        if view["points"].as_array().is_some_and(|points| !points.is_empty()) {
            Ok(view)
        } else {
            Err(view.to_string())
        }
    })
}

#[test]
fn a_pair_has_a_history_for_people_and_for_programs() {
    let cluster = Cluster::start(None, &["n1", "n2", "n3"]);
    assert_eq!(cluster.run(&["sweep", "--min-endpoints", "3"]).code, Some(0));
    let view = history(&cluster, ["n1", "n2"]);
    for (key, value) in [
        ("source", "n1/tcp/1"),
        ("target", "n2/tcp/1"),
        ("metric", "latency"),
        ("unit", "ns"),
        ("kept_because", "few-endpoints"),
    ] {
        assert_eq!(view[key], value, "{view}");
    }
    let point = &view["points"][0];
    assert_eq!(point["state"], "fresh", "{view}");
    assert!(point["p50"].as_u64().is_some_and(|ns| ns > 0), "{view}");
    for absent in ["average", "lost", "cause"] {
        assert!(point.get(absent).is_none(), "{absent} in {view}");
    }
    let table = cluster.run(&["history", "n1", "n2"]);
    assert_eq!((table.code, table.err.as_str()), (Some(0), ""));
    assert!(
        table.out.starts_with("n1/tcp/1 -> n2/tcp/1: latency, in µs\nkept because there are few endpoints"),
        "{}",
        table.out
    );
    assert!(table.out.lines().any(|line| line.starts_with("20") && line.contains("  ok  ")), "{}", table.out);
    assert!(table.out.lines().all(|line| line.chars().count() <= 80), "{}", table.out);
    let json = cluster.run(&["history", "n1", "n2", "--metric", "bandwidth", "--json"]);
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!((&json["unit"], &json["points"]), (&json!("bits_per_second"), &json!([])));
    let nothing = cluster.run(&["history", "n1", "n2", "--metric", "bandwidth"]);
    assert!(
        nothing.out.contains("next step: rdmascope probe n1/tcp/1 n2/tcp/1 --metric bandwidth"),
        "{}",
        nothing.out
    );
}

#[test]
fn what_cannot_be_shown_says_why_and_what_to_do() {
    let cluster = Cluster::start(None, &["n1", "n2"]);
    cluster.wait_for_nodes(&["n1", "n2"]);
    let unknown = cluster.run(&["history", "n1", "n9"]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.err.contains("no endpoint 'n9'; there are: n1/tcp/1, n2/tcp/1"), "{}", unknown.err);
    let api = cluster.api();
    for (query, status, words) in [
        ("source=n1", 400, "give both ends"),
        ("source=n1&target=n1", 400, "two different endpoints"),
        ("source=n1&target=n2&metric=speed", 400, "no metric 'speed'"),
        ("source=n1&target=n9", 404, "no endpoint 'n9'"),
    ] {
        let answer = api.get(&format!("/api/v1/history?{query}")).unwrap();
        assert_eq!(
            (answer.status, &answer.body["status"]),
            (status, &json!(status)),
            "{query}: {}",
            answer.text
        );
        assert!(answer.body["detail"].as_str().is_some_and(|text| text.contains(words)), "{}", answer.text);
    }
}

#[test]
fn who_shows_the_token_pins_pairs_and_pins_and_points_outlast_the_coordinator() {
    let state = Folder::new();
    let config = format!("coordinator:\n  state_dir: {}\n", state.path("").display());
    let mut cluster = Cluster::configured(&config, Some(TOKEN), &["n1", "n2"]);
    assert_eq!(cluster.run(&["sweep", "--min-endpoints", "2"]).code, Some(0));
    let before = history(&cluster, ["n1", "n2"]);
    let pair = format!("{PINS}?source=n1&target=n2");
    assert_eq!(cluster.api().put(&pair).unwrap().status, 401);
    assert_eq!(cluster.api().delete(&pair).unwrap().status, 401);
    assert_eq!(cluster.api().json(PINS).unwrap(), json!({"pins": []}));
    let pinned = cluster.run(&["history", "n1", "n2", "--pin"]);
    assert_eq!(pinned.code, Some(0), "{pinned:?}");
    let pins = json!({"pins": [{"source": "n1/tcp/1", "target": "n2/tcp/1"}]});
    assert_eq!(cluster.api().json(PINS).unwrap(), pins);
    let with_token = Api::new(&cluster.address, Some(TOKEN));
    assert_eq!(with_token.put(&format!("{PINS}?source=n1&target=n1")).unwrap().status, 400);
    assert_eq!(with_token.delete(&format!("{PINS}?source=n2&target=n1")).unwrap().status, 404);
    // In good order: a coordinator that is killed loses five minutes of points at most.
    cluster.end_coordinator(Signal::TERM);
    assert_eq!(cluster.api().json(PINS).unwrap(), pins);
    let after = history(&cluster, ["n1", "n2"]);
    assert_eq!(after["points"][0]["at"], before["points"][0]["at"], "{after}");
    assert_eq!(after["kept_because"], "pinned");
    let unpinned = Api::new(&cluster.address, Some(TOKEN)).delete(&pair).unwrap();
    assert_eq!((unpinned.status, unpinned.body), (200, json!({"pins": []})));
}
