//! Two hundred agents that call at once: every one must be let in, and soon.

use super::row::{Asked, Row};
use rdmascope_tests::guest::Cluster;
use rdmascope_tests::swarm;
use std::time::Duration;

const AGENTS: usize = 200;

pub(crate) fn rows() -> Vec<Row> {
    eprintln!("bench: {AGENTS} agents connect at once");
    let cluster = Cluster::start([]);
    let seen =
        swarm::connect(AGENTS, &cluster.address(), Some(&cluster.token_file()), Duration::from_secs(60));
    vec![
        Row {
            what: "200 agents connect at once, until all are registered",
            seen: seen.took.as_secs_f64(),
            unit: "s",
            asked: Asked::AtMost(1.0),
            against: None,
        },
        Row {
            what: "of them refused",
            seen: seen.refused as f64,
            unit: "",
            asked: Asked::AtMost(0.0),
            against: None,
        },
    ]
}
