//! An agent that only checks: what it keeps in memory, and what it costs.

use super::cpu::{resident_mb, seconds_of};
use super::row::{Asked, Row};
use super::while_paused;
use rdmascope_tests::guest::{Cluster, Endpoint};
use std::time::Duration;

/// node_exporter 1.5 of Debian 12 with its default collectors, MB resident.
const NODE_EXPORTER_MB: f64 = 21.5;
const WINDOW: Duration = Duration::from_secs(20);

pub(crate) fn rows(cluster: &mut Cluster) -> Vec<Row> {
    let api = cluster.api();
    let pid = cluster.agent(Endpoint(1)).pid();
    eprintln!("bench: an idle agent for {} s", WINDOW.as_secs());
    let cpu = while_paused(&api, || {
        let before = seconds_of(pid);
        std::thread::sleep(WINDOW);
        (seconds_of(pid) - before) / WINDOW.as_secs_f64() * 100.0
    });
    vec![
        Row {
            what: "agent, checks only, resident memory",
            seen: resident_mb(pid),
            unit: "MB",
            asked: Asked::AtMost(10.0),
            against: Some(("node_exporter, MB", NODE_EXPORTER_MB)),
        },
        Row {
            what: "agent, checks only, processor (of one, emulated)",
            seen: cpu,
            unit: "%",
            asked: Asked::Nothing,
            against: None,
        },
    ]
}
