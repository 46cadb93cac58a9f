//! In the lab: a real cluster on RDMA devices dressed up as RoCE adapters, and faults made for real.

use super::looks::{Looks, Phase};
use rdmascope_tests::guest::{Adapters, Endpoint, endpoints, wait_until};
use rdmascope_tests::loopback::Cluster;
use rdmascope_tests::prometheus::Prometheus;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// An emulated machine needs a while to write down all that it serves.
const SCRAPE_SECONDS: u64 = 5;
/// A sweep of everything takes a minute there, and what statistics say shows at their second reading.
const LIMIT: Duration = Duration::from_secs(420);

/// Whether every query had data where it should.
pub(super) fn run(mut looks: Looks) -> bool {
    let adapters = Adapters::dress();
    let mut cluster = Cluster::start("lab", "  sweep: {coverage: 60s, pause: 5s}\n", &[]);
    endpoints().for_each(|endpoint| cluster.add_agent(&endpoint.node(), &["--device", &endpoint.device()]));
    // An emulated machine that shares its processors may take minutes where a second is usual.
    wait_until("every endpoint is usable", LIMIT, || {
        let status = cluster.api().json("/api/v1/status")?;
        if status["endpoints_usable"] == json!(endpoints().count()) {
            Ok(())
        } else {
            Err(status.to_string())
        }
    });
    let coordinators = [cluster.address.clone()];
    let prometheus = Prometheus::start(SCRAPE_SECONDS, cluster.agents(), &coordinators);
    let first = Endpoint(1);
    let wished = BTreeMap::from([
        ("instance".to_owned(), cluster.agent(&first.node()).to_owned()),
        ("node".to_owned(), first.node()),
    ]);
    looks.look_until_shown(&prometheus, &wished, Phase::Healthy, LIMIT, || cluster.sweep());
    // The switch stops this port for a quarter of the time; nothing reaches the second, the third goes down.
    adapters.rise(first, "rx_prio3_pause_duration", 700_000);
    adapters.rise(first, "rx_prio3_pause", 20_000);
    adapters.rise(first, "rx_prio3_pause_transition", 20_000);
    let _faults = [Endpoint(2).netem("loss 100%"), Endpoint(3).down()];
    looks.look_until_shown(&prometheus, &wished, Phase::Broken, LIMIT, || {});
    looks.report()
}
