//! An agent that only checks: what it keeps in memory, and what it costs.

use super::row::{Asked, Row};
use super::while_paused;
use rdmascope_tests::guest::{Cluster, Endpoint};
use std::time::Duration;

/// node_exporter 1.5 of Debian 12 with its default collectors, MB resident.
const NODE_EXPORTER_MB: f64 = 21.5;
const WINDOW: Duration = Duration::from_secs(20);
/// Clock ticks per second of `/proc/PID/stat` (USER_HZ, 100 on every Linux that we run on).
const TICKS_PER_SECOND: f64 = 100.0;

pub(crate) fn rows(cluster: &mut Cluster) -> Vec<Row> {
    let api = cluster.api();
    let pid = cluster.agent(Endpoint(1)).pid();
    eprintln!("bench: an idle agent for {} s", WINDOW.as_secs());
    let cpu = while_paused(&api, || {
        let before = cpu_seconds(pid);
        std::thread::sleep(WINDOW);
        (cpu_seconds(pid) - before) / WINDOW.as_secs_f64() * 100.0
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

fn resident_mb(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kib: f64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(f64::NAN);
    kib * 1024.0 / 1e6
}

/// User and system time since the process began, from fields 14 and 15 of `/proc/PID/stat`.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in brackets may hold spaces; what follows it begins with field 3.
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = rest.split_whitespace().skip(11).take(2).map(|n| n.parse().unwrap_or(f64::NAN));
    ticks.sum::<f64>() / TICKS_PER_SECOND
}
