//! Two blocks with a coordinator each, a representative of each block in the other, and one Prometheus that federates those of both.

use rdmascope_tests::guest::wait_until;
use rdmascope_tests::loopback::Cluster;
use rdmascope_tests::prometheus::Prometheus;
use serde_json::json;
use std::time::Duration;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(90);
const SCRAPE_SECONDS: u64 = 1;
const SWEEP: &str = "  sweep: {coverage: 10s, pause: 1s}\n";
/// As `deploy/scale-out.md` has it.
const GUIDE: &str = include_str!("../../../../deploy/scale-out.md");

/// Runs it; panics with what was seen where something is not as it should be.
pub(super) fn run() {
    let blocks = ["a", "b"].map(|block| (block, block_of(block)));
    step("each block measures its own nodes and the representative of the other");
    for (block, cluster) in &blocks {
        cluster.sweep();
        let (own, other) = (format!("{block}-2"), format!("{}-1", other(block)));
        for (source, target) in [(&own, &other), (&other, &own)] {
            wait_until(&format!("block {block} has measured {source} -> {target}"), PATIENCE, || {
                let pair = cluster.api().json(&format!("/api/v1/pairs/{source}/{target}"))?;
                if pair["latency"]["state"] == "fresh" { Ok(()) } else { Err(pair.to_string()) }
            });
        }
    }

    step("one query shows both blocks, and the pairs between them");
    let servers = blocks.each_ref().map(|(block, cluster)| of_block(block, cluster));
    let whole = whole(&servers);
    for (query, wanted) in [
        ("sum by (block) (rdmascope_nodes{state=\"connected\"}) == 4", 2),
        ("count by (block) (rdmascope_pair_state{source_node=~\"a-.*\", target_node=~\"b-.*\"})", 2),
        ("rdmascope_pair_state{block=\"a\", source_node=\"a-2\", target_node=\"b-1\"}", 1),
        ("rdmascope_pair_state{block=\"b\", source_node=\"b-2\", target_node=\"a-1\"}", 1),
    ] {
        wait_until(query, PATIENCE, || {
            let series = whole.query(query, true)?;
            if series.len() == wanted { Ok(()) } else { Err(format!("{} series", series.len())) }
        });
    }
    eprintln!("    all as it should be");
}

fn step(what: &str) {
    eprintln!("    {what}");
}

fn other(block: &str) -> &'static str {
    if block == "a" { "b" } else { "a" }
}

/// A coordinator with three agents of its block, and a second agent on the representative of the other one.
fn block_of(block: &str) -> Cluster {
    let mut cluster = Cluster::start(&format!("block-{block}"), SWEEP, &[]);
    (1..=3).for_each(|node| cluster.add_agent(&format!("{block}-{node}"), &["--transport", "tcp"]));
    cluster.add_agent(&format!("{}-1", other(block)), &["--transport", "tcp"]);
    wait_until("all nodes of the block are connected", PATIENCE, || {
        let status = cluster.api().json("/api/v1/status")?;
        if status["nodes_connected"] == json!(4) { Ok(()) } else { Err(status.to_string()) }
    });
    cluster
}

/// The configuration in the guide that begins with this comment: what stands there is what is tried here.
fn guide(name: &str) -> String {
    let indented = |line: &str| line.strip_prefix("   ").unwrap_or(line).to_owned() + "\n";
    let lines = GUIDE.lines().skip_while(|line| line.trim() != format!("# {name}"));
    let config: String = lines.take_while(|line| line.trim() != "```").map(indented).collect();
    assert!(!config.is_empty(), "deploy/scale-out.md has no configuration '{name}'");
    config
}

/// The Prometheus of a block, as in the guide.
fn of_block(block: &str, cluster: &Cluster) -> Prometheus {
    let config = guide("The Prometheus of block a").replace("block: a", &format!("block: {block}"));
    let config =
        config.replace("coordinator-a:8080", &cluster.address).replace("15s", "1s").replace("60s", "1s");
    Prometheus::configured(SCRAPE_SECONDS, &config)
}

/// The one over both, as in the guide.
fn whole(servers: &[Prometheus; 2]) -> Prometheus {
    let config = guide("The Prometheus of the whole");
    let config = config
        .replace("prometheus-a:9090", &servers[0].address)
        .replace("prometheus-b:9090", &servers[1].address);
    Prometheus::configured(SCRAPE_SECONDS, &config.replace("30s", "1s"))
}
