//! Full reports and incasts on real devices: everything that a pair can be asked is answered, or it says why not.

use rdmascope_tests::guest::{Cluster, Endpoint, endpoints};
use serde_json::Value;
use std::process::Command;

fn cluster() -> Cluster {
    let cluster = Cluster::start(endpoints());
    cluster.api().wait_usable(endpoints());
    cluster
}

/// What a command prints as JSON. Its exit code says what was found, which is not looked at here.
#[track_caller]
fn json(mut command: Command) -> Value {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{command:?}: {error}:\n{text}{wrong}"))
}

fn measurements<'v>(view: &'v Value, part: &str) -> Vec<&'v Value> {
    let all = view["measurements"].as_array().unwrap_or_else(|| panic!("no measurements in {view}"));
    all.iter().filter(|m| m["part"] == part).collect()
}

#[test]
fn a_full_report_of_a_healthy_pair_has_every_part_and_no_failure() {
    let cluster = cluster();
    let (from, to) = (Endpoint(1).node(), Endpoint(2).node());
    let view = json(cluster.client(&["probe", &from, &to, "--full", "--class", "26", "--drained", "--json"]));
    let all = view["measurements"].as_array().unwrap_or_else(|| panic!("no measurements in {view}"));
    let failed: Vec<_> = all.iter().filter(|m| m["state"] != "done").collect();
    eprintln!("{} measurements, not done: {}", all.len(), failed.len());
    // An emulated machine that gets no processor for a while may lose a stream; what it loses has a cause and a next step.
    assert!(failed.len() * 10 <= all.len(), "{failed:#?}");
    let told = |m: &&Value| m["failure"]["next_step"].as_str().is_some_and(|step| !step.is_empty());
    assert!(failed.iter().all(told), "{failed:#?}");
    for part in
        ["ping", "echo", "latency", "label", "class", "control", "bandwidth", "under-load", "baseline"]
    {
        assert!(!measurements(&view, part).is_empty(), "no {part} in the report");
    }
    let pings = &measurements(&view, "ping")[0]["at_source"]["pings"];
    for (size, bytes) in [("small", 64), ("large", 4_096)] {
        let count = |name: &str| pings[size][name].as_u64().unwrap_or_else(|| panic!("no {name} in {pings}"));
        assert_eq!(count("payload_bytes"), bytes);
        // An emulated machine drains its receive buffers late now and then.
        assert!(count("answered") * 2 > count("sent"), "{pings}");
    }
    let echo = &measurements(&view, "echo")[0]["at_source"]["echo"];
    assert_eq!((echo["payload_bytes"].as_u64(), &echo["answered"]), (Some(8_972), &echo["sent"]), "{echo}");
    for verb in ["write", "read", "send"] {
        let of = |part: &str| {
            let found = measurements(&view, part).into_iter().find(|m| m["manner"]["operation"] == verb);
            found.unwrap_or_else(|| panic!("no {part} by {verb}")).clone()
        };
        assert!(of("latency")["at_source"]["latency"]["p50_ns"].as_u64() > Some(1_000), "{verb}");
        let rate = of("bandwidth")["at_source"]["bandwidth"]["average_bits_per_second"].as_u64();
        assert!(rate > Some(1_000_000), "{verb}: {rate:?}");
    }
    let judged = view["verdicts"].as_array().unwrap_or_else(|| panic!("no verdicts in {view}"));
    assert!(judged.iter().any(|v| v["id"] == "path-mtu" && v["status"] == "ok"), "{judged:#?}");
}

#[test]
fn an_incast_of_all_others_to_one_is_measured_at_every_end() {
    let cluster = cluster();
    let others: Vec<_> = endpoints().skip(1).map(Endpoint::node).collect();
    let (target, sources) = (Endpoint(1).node(), others.join(","));
    let view =
        json(cluster.client(&["probe", "--incast", &target, "--from", &sources, "--drained", "--json"]));
    let all = measurements(&view, "incast");
    assert_eq!(all.len(), others.len());
    let told = |m: &&Value| m["state"] == "done" || m["failure"]["cause"].as_str().is_some();
    assert!(all.iter().all(told), "{all:#?}");
    assert!(all.iter().filter(|m| m["state"] == "done").count() >= 2, "{all:#?}");
    let sum = view["incast"]["sum_bits_per_second"].as_u64();
    assert!(sum > Some(1_000_000), "{}", view["incast"]);
}
