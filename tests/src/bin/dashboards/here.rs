//! On a machine without RDMA: real coordinators, agents that probe over TCP, and agents over machines of files that can be broken.

use super::looks::{Looks, Phase};
use super::machine::Machine;
use rdmascope_tests::guest::wait_until;
use rdmascope_tests::loopback::Cluster;
use rdmascope_tests::prometheus::Prometheus;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// So many seconds between two scrapes, so that a run takes less than a minute.
const SCRAPE_SECONDS: u64 = 1;
const SWEEP: &str = "  sweep: {coverage: 10s, pause: 1s}\n";
/// Both take some twenty seconds on an idle machine.
const HEALTHY_LIMIT: Duration = Duration::from_secs(120);
const BROKEN_LIMIT: Duration = Duration::from_secs(180);

/// Whether every query had data where it should.
pub(super) fn run(mut looks: Looks) -> bool {
    let mut whole = Cluster::start("whole", SWEEP, &[]);
    (1..=4).for_each(|node| whole.add_agent(&format!("whole-{node}"), &["--transport", "tcp"]));
    // Six pairs are too many for this one, as a million are for others.
    let leaves = "node,leaf\nlarge-1,leaf-a\nlarge-2,leaf-b\nlarge-3,leaf-b\n";
    let config = format!("{SWEEP}  metrics: {{pairs_max: 5}}\n  topology_file: FOLDERleaves.csv\n");
    let mut large = Cluster::start("large", &config, &[("leaves.csv", leaves)]);
    (1..=3).for_each(|node| large.add_agent(&format!("large-{node}"), &["--transport", "tcp"]));
    // Their ports are files: nobody can probe them, so nobody tries until something is to be broken.
    let machines = Cluster::start("machines", SWEEP, &[]);
    pause(&machines, true);
    let seen: Vec<_> = ["machine-1", "machine-2"]
        .into_iter()
        .map(|node| Machine::start(node, &machines.address, &machines.folder))
        .collect();
    for (cluster, nodes) in [(&whole, 4), (&large, 3), (&machines, 2)] {
        wait_for_nodes(cluster, nodes);
    }
    let agents = whole.agents().chain(large.agents()).chain(seen.iter().map(|machine| &machine.address));
    let coordinators = [&whole, &large, &machines].map(|cluster| cluster.address.clone());
    let prometheus = Prometheus::start(SCRAPE_SECONDS, agents, &coordinators);
    let wished = BTreeMap::from([
        ("instance".to_owned(), seen[0].address.clone()),
        ("node".to_owned(), "whole-1".to_owned()),
    ]);
    let mut packets = 0;
    looks.look_until_shown(&prometheus, &wished, Phase::Healthy, HEALTHY_LIMIT, || {
        packets += 100_000;
        seen[0].receive(packets);
        whole.sweep();
        large.sweep();
    });
    seen[0].break_it();
    pause(&machines, false);
    whole.kill("whole-4");
    looks.look_until_shown(&prometheus, &wished, Phase::Broken, BROKEN_LIMIT, || whole.sweep());
    looks.report()
}

fn pause(cluster: &Cluster, on: bool) {
    let path = if on { "/api/v1/pause" } else { "/api/v1/resume" };
    let answer = cluster.api().post(path, &json!({})).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
}

fn wait_for_nodes(cluster: &Cluster, nodes: u64) {
    wait_until(&format!("{nodes} nodes are connected"), HEALTHY_LIMIT, || {
        let status = cluster.api().json("/api/v1/status")?;
        if status["nodes_connected"] == json!(nodes) { Ok(()) } else { Err(status.to_string()) }
    });
}
