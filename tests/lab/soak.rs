//! A cluster that works for as long as `cargo xtask soak` asks for, and whether what its programs hold stays as it was.

use rdmascope_tests::guest::{Cluster, endpoints, run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// So long, in seconds, by this variable.
const SOAK: (&str, u64) = ("RDMASCOPE_SOAK_SECONDS", 120);
/// Between two looks.
const EVERY: Duration = Duration::from_secs(5);
/// Of the whole time: what is held for good was taken by then (every pair measured, each table grown to its size).
const WARM_UP: f64 = 0.25;
/// Resident memory may grow by this share, and by so many KiB, from the first to the last quarter of the rest: pages that the allocator
/// keeps, and histories that fill up to their limits.
const MEMORY_GROWS: (f64, u64) = (0.05, 1_024);

/// What is held at one moment: by program and by device, what and how much.
type Held = BTreeMap<(String, &'static str), u64>;

fn held(pids: &BTreeMap<String, u32>) -> Held {
    let mut held = Held::new();
    for (name, pid) in pids {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let resident =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of the kernel");
        let kib = resident.trim().trim_end_matches(" kB").parse().expect("a number");
        held.insert((name.clone(), "KiB"), kib);
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count();
        held.insert((name.clone(), "file descriptors"), u64::try_from(open).unwrap_or(u64::MAX));
    }
    let devices: Value = serde_json::from_str(&run("rdma -j resource show")).expect("JSON of rdma");
    for device in devices.as_array().expect("devices") {
        let name = device["ifname"].as_str().expect("a name");
        for (key, what) in [("qp", "queue pairs"), ("mr", "memory regions"), ("cq", "completion queues")] {
            held.insert((name.to_owned(), what), device[key].as_u64().expect("a count"));
        }
    }
    held
}

/// The least and the most that was seen in a part of the time.
#[derive(Debug, PartialEq, Eq)]
struct Span {
    least: u64,
    most: u64,
}

fn span(looks: &[Held], of: &(String, &'static str)) -> Span {
    let seen = || looks.iter().map(|held| held.get(of).copied().unwrap_or(0));
    Span { least: seen().min().unwrap_or(0), most: seen().max().unwrap_or(0) }
}

/// Memory is compared by its most. Everything else comes and goes with probes, and what leaks is there while nothing runs: the least.
fn grew((_, what): &(String, &'static str), first: &Span, last: &Span) -> bool {
    if *what == "KiB" {
        last.most as f64 > first.most as f64 * (1.0 + MEMORY_GROWS.0) + MEMORY_GROWS.1 as f64
    } else {
        last.least > first.least
    }
}

#[test]
fn what_leaks_is_seen() {
    let of = |what: &'static str, first: (u64, u64), last: (u64, u64)| {
        let span = |(least, most)| Span { least, most };
        grew(&(String::new(), what), &span(first), &span(last))
    };
    assert!(!of("KiB", (9_000, 10_000), (9_000, 11_500)) && of("KiB", (9_000, 10_000), (9_000, 11_600)));
    assert!(!of("queue pairs", (1, 5), (1, 9)) && of("queue pairs", (1, 5), (2, 5)));
}

#[test]
#[ignore = "an hour; `cargo xtask soak` runs it"]
fn an_hour_of_work_leaves_memory_descriptors_and_queue_pairs_as_they_were() {
    let mut cluster = Cluster::start(endpoints());
    let api = cluster.api();
    api.wait_usable(endpoints());
    let mut pids: BTreeMap<String, u32> =
        endpoints().map(|endpoint| (endpoint.node(), cluster.agent(endpoint).pid())).collect();
    pids.insert("coordinator".to_owned(), cluster.coordinator().pid());
    let asked = std::env::var(SOAK.0).ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs(asked.unwrap_or(SOAK.1));

    let (began, mut looks, mut sweeps, mut failed) = (Instant::now(), Vec::new(), 0, 0);
    while began.elapsed() < time {
        // Pings go on by themselves; every path of a probe on request is walked in turns.
        let metric = ["latency", "bandwidth", "ping"][sweeps % 3];
        let sweep = api.wait_sweep(api.begin_sweep(metric));
        failed += sweep["failed"].as_u64().unwrap();
        sweeps += 1;
        for path in ["/metrics", "/metrics/pairs", "/api/v1/matrix?metric=latency", "/api/v1/nodes"] {
            api.get(path).unwrap();
        }
        std::thread::sleep(EVERY);
        looks.push(held(&pids));
    }
    let warm = looks.split_off((looks.len() as f64 * WARM_UP) as usize);
    let quarter = warm.len() / 4;
    assert!(quarter > 0, "{} looks are too few: let it run for longer", warm.len());
    let (first, last) = (&warm[..quarter], &warm[warm.len() - quarter..]);
    let mut grown = Vec::new();
    for of in warm[0].keys() {
        let (before, after) = (span(first, of), span(last, of));
        let row = format!(
            "{:<12} {:<18} {:>6} to {:>6} at first, {:>6} to {:>6} at the end",
            of.0, of.1, before.least, before.most, after.least, after.most
        );
        eprintln!("soak: {row}");
        if grew(of, &before, &after) {
            grown.push(row);
        }
    }
    eprintln!("soak: {} looks in {} s, {sweeps} sweeps, {failed} probes failed", warm.len(), time.as_secs());
    assert!(grown.is_empty(), "grew: {grown:#?}");
    let incidents = api.json("/api/v1/incidents").unwrap();
    let opened = |incident: &&Value| !incident["opened_at"].is_null();
    let opened: Vec<&Value> = incidents["incidents"].as_array().unwrap().iter().filter(opened).collect();
    assert!(opened.is_empty(), "a healthy cluster: {opened:#?}");
}
