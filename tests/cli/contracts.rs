//! What is promised to programs: every path of the OpenAPI document is served, and Prometheus reads the metrics.

use crate::harness::{Cluster, PATIENCE};
use rdmascope_tests::guest::{Api, wait_until};
use std::io::Write as _;
use std::process::{Command, Stdio};

fn cluster() -> (Cluster, Api) {
    let cluster = Cluster::start(None, &["n1", "n2"]);
    let api = Api::new(&cluster.address, None);
    wait_until("both agents are there", PATIENCE, || {
        let status = api.json("/api/v1/status")?;
        if status["endpoints_usable"] == 2 { Ok(()) } else { Err(status.to_string()) }
    });
    (cluster, api)
}

#[test]
fn every_documented_path_is_served_with_its_method() {
    let (_cluster, api) = cluster();
    let document = api.json("/api/v1/openapi.json").unwrap();
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.len() >= 15, "{} paths", paths.len());
    // A stream does not end; it has a test of its own.
    for (path, methods) in paths.iter().filter(|(path, _)| !path.ends_with("/stream")) {
        let path = path.replace("{source}", "n1").replace("{target}", "n2").replace("{id}", "1");
        for method in methods.as_object().expect("methods").keys() {
            let answer = match method.as_str() {
                "get" => api.get(&path),
                // A body that no call accepts: what is tested is that the path is there.
                "post" => api.post(&path, &serde_json::json!({"no such key": 1})),
                "put" => api.put(&path),
                "delete" => api.delete(&path),
                other => panic!("{other} {path}"),
            };
            let answer = answer.unwrap();
            assert_ne!(answer.status, 405, "{method} {path}");
            assert!(!answer.text.contains("no such path"), "{method} {path}: {}", answer.text);
            assert!(answer.status < 500, "{method} {path}: {}", answer.text);
        }
    }
}

#[test]
fn prometheus_reads_what_a_running_coordinator_says() {
    let (cluster, api) = cluster();
    let sweep = cluster.run(&["sweep", "--min-endpoints", "2", "--metric", "all", "--drained"]);
    assert_eq!(sweep.code, Some(0), "{sweep:?}");
    for (path, wanted) in
        [("/metrics", "rdmascope_nodes{state=\"connected\"} 2"), ("/metrics/pairs", "rdmascope_pair_state{")]
    {
        let text = api.get(path).unwrap().text;
        assert!(text.contains(wanted), "{path} lacks {wanted}:\n{text}");
        let mut linter = Command::new("promtool");
        linter.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut linter =
            linter.spawn().expect("promtool, of the package prometheus, is installed by the test command");
        linter.stdin.take().expect("its input").write_all(text.as_bytes()).expect("it reads");
        let seen = linter.wait_with_output().expect("it ends");
        let said = [seen.stdout, seen.stderr].concat();
        assert!(seen.status.success(), "{path}: {}", String::from_utf8_lossy(&said));
    }
    let pairs = api.get("/metrics/pairs").unwrap().text;
    assert!(
        pairs.contains("method=\"tcp_half_rtt\"") && !pairs.contains("method=\"rc_half_rtt\""),
        "TCP passes for RDMA:\n{pairs}"
    );
    let fresh = pairs.lines().filter(|line| {
        line.starts_with("rdmascope_pair_state{") && line.contains("metric=\"all\",state=\"fresh\"")
    });
    assert_eq!(fresh.count(), 2, "two pairs, latency and bandwidth:\n{pairs}");
}
