//! One pair's latency and bandwidth, against perftest with the same size, count, depth and pinning, in alternating runs.

use super::row::{Asked, Row};
use super::{median, perftest, probe_view, while_paused};
use rdmascope_tests::guest::{Api, Cluster, Endpoint, run};
use serde_json::Value;

const LATENCY_RUNS: usize = 21;
const BANDWIDTH_RUNS: usize = 9;
pub(crate) const FROM: Endpoint = Endpoint(1);
pub(crate) const TO: Endpoint = Endpoint(2);
/// Processors of source and target: the lab has two.
pub(crate) const CPUS: (u8, u8) = (1, 0);

pub(crate) fn rows(cluster: &mut Cluster) -> Vec<Row> {
    for (endpoint, cpu) in [(FROM, CPUS.0), (TO, CPUS.1)] {
        let pid = cluster.agent(endpoint).pid();
        let _ = run(&format!("taskset -a -c -p {cpu} {pid}"));
    }
    let api = cluster.api();
    let mut minima = Vec::new();
    let mut medians = Vec::new();
    let mut last = (0.0, 0.0);
    for number in 1..=LATENCY_RUNS {
        eprintln!("bench: latency run {number} of {LATENCY_RUNS}");
        let ours = probe(&api, "latency");
        let theirs = while_paused(&api, perftest_latency);
        let figure = |name: &str| ours[name].as_f64().unwrap_or_else(|| panic!("no {name} in {ours}")) / 1e3;
        minima.push(figure("min_ns") / theirs.0);
        medians.push(figure("p50_ns") / theirs.1);
        last = (figure("p50_ns"), theirs.1);
    }
    let mut rates = Vec::new();
    let mut last_rate = (0.0, 0.0);
    for number in 1..=BANDWIDTH_RUNS {
        eprintln!("bench: bandwidth run {number} of {BANDWIDTH_RUNS}");
        let ours = probe(&api, "bandwidth");
        let bits = ours["average_bits_per_second"].as_f64().unwrap_or_else(|| panic!("no average in {ours}"));
        let theirs = while_paused(&api, perftest_bandwidth);
        rates.push(bits / 1e9 / theirs);
        last_rate = (bits / 1e9, theirs);
    }
    vec![
        Row {
            what: "write latency, minimum, ratio to ib_write_lat",
            seen: median(minima),
            unit: "",
            asked: Asked::Between(0.9, 1.1),
            against: None,
        },
        Row {
            what: "write latency, p50, ratio to ib_write_lat",
            seen: median(medians),
            unit: "",
            asked: Asked::Between(0.9, 1.1),
            against: None,
        },
        Row {
            what: "write latency, p50 of the last run",
            seen: last.0,
            unit: "us",
            asked: Asked::Nothing,
            against: Some(("ib_write_lat, us", last.1)),
        },
        Row {
            what: "write bandwidth, ratio to ib_write_bw",
            seen: median(rates),
            unit: "",
            asked: Asked::AtLeast(0.95),
            against: None,
        },
        Row {
            what: "write bandwidth of the last run",
            seen: last_rate.0,
            unit: "Gbit/s",
            asked: Asked::Nothing,
            against: Some(("ib_write_bw, Gbit/s", last_rate.1)),
        },
    ]
}

/// One probe through the coordinator; its figures.
fn probe(api: &Api, metric: &str) -> Value {
    probe_view(api, FROM, TO, metric)["pair"][metric]["figures"].clone()
}

/// Minimum and p50 in microseconds.
fn perftest_latency() -> (f64, f64) {
    // bytes, iterations, t_min, t_max, t_typical, ...
    let columns = figures("ib_write_lat", "-s 8 -n 1000", "8 ");
    (columns[2], columns[4])
}

/// Average in Gbit/s.
fn perftest_bandwidth() -> f64 {
    // bytes, iterations, peak, average, message rate
    figures("ib_write_bw", "-s 65536 -n 200 -t 8 --report_gbits", "65536 ")[3]
}

/// The numbers of the row of a perftest program that begins with the message size.
pub(crate) fn figures(tool: &str, arguments: &str, row: &str) -> Vec<f64> {
    let [client, server] = [CPUS.0, CPUS.1].map(|cpu| format!("taskset -c {cpu}"));
    let output = perftest(tool, FROM, TO, arguments, [&server, &client]);
    let line = output.lines().find(|line| line.trim_start().starts_with(row));
    let line = line.unwrap_or_else(|| panic!("{tool} printed no row of figures:\n{output}"));
    line.split_whitespace().map(|column| column.parse().unwrap_or(f64::NAN)).collect()
}
