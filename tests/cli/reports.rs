//! Full reports, incasts, classes and services from the command line, over TCP.

use crate::harness::Cluster;
use serde_json::Value;

const CONFIG: &str = "coordinator:\n  services:\n    embed: {class: af31, peers: [n1, n2, n3]}\n";

fn three() -> Cluster {
    let cluster = Cluster::configured(CONFIG, None, &["n1", "n2", "n3"]);
    cluster.wait_for_nodes(&["n1", "n2", "n3"]);
    cluster
}

#[test]
fn an_incast_tells_each_source_and_passes_nothing_for_rdma() {
    let cluster = three();
    let incast = cluster.run(&["probe", "--incast", "n1", "--from", "n2,n3", "--drained"]);
    assert_eq!((incast.code, incast.err.as_str()), (Some(0), ""), "{incast:?}");
    let parts =
        ["2 sources -> n1/tcp/1\n", "\nsources\n  n2/tcp/1  ", "\n  n3/tcp/1  ", "\nverdicts\n", "0 fail, "];
    for part in parts {
        assert!(incast.out.contains(part), "no {part:?} in {}", incast.out);
    }
    let json = cluster.run(&["probe", "--incast", "n1", "--from", "n2,n3", "--drained", "--json"]);
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(json["kind"], "incast");
    let sources = json["incast"]["sources"].as_array().expect("sources");
    assert!(
        sources.len() == 2 && sources.iter().all(|s| s["average_bits_per_second"].as_u64() > Some(0)),
        "{json}"
    );
    assert!(json["measurements"][0]["manner"]["carrier"] == "tcp", "TCP passes for RDMA: {json}");
    // Whether a port of this transport is idle is not known, and that counts as busy.
    let busy = cluster.run(&["probe", "--incast", "n1", "--from", "n2,n3"]);
    assert!(busy.out.contains("not run: busy") && busy.out.contains("--drained"), "{busy:?}");
}

#[test]
fn a_service_is_probed_with_its_peers_in_its_class() {
    let cluster = three();
    let probe = cluster.run(&["probe", "n1", "--service", "embed"]);
    assert_eq!((probe.code, probe.err.as_str()), (Some(0), ""), "{probe:?}");
    for part in ["n1/tcp/1 -> n2/tcp/1\n", "n1/tcp/1 -> n3/tcp/1\n", "latency over TCP, DSCP 26"] {
        assert!(probe.out.contains(part), "no {part:?} in {}", probe.out);
    }
    assert!(!probe.out.contains("n1/tcp/1 -> n1"), "it is no peer of itself: {}", probe.out);
    let unknown = cluster.run(&["probe", "n1", "--service", "emebd"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert!(
        unknown.err.contains("no service 'emebd'") && unknown.err.contains("known are: embed"),
        "{unknown:?}"
    );
}

#[test]
fn what_cannot_be_asked_for_is_refused_before_anything_runs() {
    let cases: [(&[&str], &str); 6] = [
        (&["probe", "n1"], "<TARGET>"),
        (&["probe", "n1", "n2", "--class", "gold"], "such as cs3 or af31"),
        (&["probe", "n1", "n2", "--paths", "4"], "--full"),
        (&["probe", "n1", "n2", "--full", "--paths", "33"], "1..=32"),
        (&["probe", "--incast", "n1"], "--from"),
        (&["probe", "n1", "n2", "--full", "--metric", "all"], "cannot be used with"),
    ];
    for (arguments, words) in cases {
        let refused = crate::harness::run(arguments);
        assert_eq!(refused.code, Some(64), "{arguments:?}: {refused:?}");
        assert!(refused.err.contains(words), "no {words:?} in {refused:?}");
    }
}

#[test]
fn the_last_probes_can_be_read_again_by_pair() {
    let cluster = three();
    for target in ["n2", "n3", "n2"] {
        let probe = cluster.run(&["probe", "n1", target]);
        assert_eq!(probe.code, Some(0), "{probe:?}");
    }
    let ids = |query: &str| -> Vec<u64> {
        let list = cluster.api().json(&format!("/api/v1/probes{query}")).expect("a list");
        let probes = list["probes"].as_array().expect("probes");
        assert!(probes.iter().all(|probe| !probe["steps"].as_array().expect("steps").is_empty()), "{list}");
        probes.iter().filter_map(|probe| probe["id"].as_u64()).collect()
    };
    assert_eq!(ids(""), [3, 2, 1], "the newest first");
    assert_eq!(ids("?source=n1/tcp/1&target=n2/tcp/1"), [3, 1]);
    assert_eq!(ids("?target=n2/tcp/1&limit=1"), [3]);
    assert_eq!(ids("?source=n2/tcp/1"), [0; 0]);
    assert_eq!(cluster.api().get("/api/v1/probes?limit=x").expect("an answer").status, 400);
}
