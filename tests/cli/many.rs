//! Two hundred real agents, each with its own connection and TCP transport, against a real coordinator process.

use crate::harness::{Cluster, PATIENCE};
use rdmascope_tests::guest::wait_until;
use rdmascope_tests::swarm;
use serde_json::json;

const AGENTS: usize = 200;

#[test]
fn two_hundred_agents_register_at_once_and_can_be_probed() {
    let cluster = Cluster::start(None, &[]);
    swarm::with(AGENTS, &cluster.address, None, PATIENCE, |seen, api| {
        assert_eq!(seen.refused, 0, "{seen:?}");
        let status = api.json("/api/v1/status").unwrap();
        assert_eq!(status["nodes_connected"], json!(AGENTS), "{status}");
        let body = json!({"source": "swarm-0", "target": "swarm-199", "metric": "all", "drained": true});
        let begun = api.post("/api/v1/probes", &body).unwrap();
        assert_eq!(begun.status, 202, "{}", begun.text);
        let path = format!("/api/v1/probes/{}", begun.body["id"]);
        let view = wait_until("the probe is over", PATIENCE, || {
            let view = api.json(&path)?;
            if view["pair"].is_null() { Err(view.to_string()) } else { Ok(view) }
        });
        assert_eq!(view["state"], json!("done"), "{view}");
        assert_eq!(view["pair"]["latency"]["figures"]["count"], json!(1_000), "{view}");
    });
}
