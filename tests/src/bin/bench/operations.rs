//! Writes, reads and sends against perftest's programs of the same verb: latency, and bandwidth one way and both ways, in alternating
//! runs on the same processors.
//!
//! The transport is driven in this process, without agents and a coordinator: only what moves bytes is compared.

use super::median;
use super::pair::{CPUS, FROM, TO, figures};
use super::row::{Asked, Row};
use rdmascope_model::{BandwidthSpec, LatencySpec, Manner, Operation, Outcome, ProbeSpec};
use rdmascope_tests::guest::{Ended, Pair, run};
use rdmascope_transport::verbs::Verbs;
use rdmascope_transport::{PortReader, PortReading};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const LATENCY_RUNS: usize = 21;
const BANDWIDTH_RUNS: usize = 21;
/// As `-s 8 -n 1000`.
const LATENCY: ProbeSpec = ProbeSpec::Latency(LatencySpec { samples: 1_000, warmup: 100, message_bytes: 8 });
/// As `-s 65536 -t 8`; `-n 200` takes a quarter of a second there.
const STREAM: ProbeSpec = ProbeSpec::Bandwidth(BandwidthSpec {
    message_bytes: 65_536,
    depth: 8,
    warmup: Duration::from_millis(20),
    duration: Duration::from_millis(250),
    completions_min: 100,
    bytes_max: 1 << 30,
});

/// One verb: its rows and perftest's names for it.
struct Verb {
    operation: Operation,
    latency: [&'static str; 2],
    latency_tool: &'static str,
    bandwidth: [&'static str; 2],
    bandwidth_tool: &'static str,
}

const VERBS: [Verb; 3] = [
    Verb {
        operation: Operation::Write,
        latency: [
            "write latency, minimum, ratio to ib_write_lat",
            "write latency, p50, ratio to ib_write_lat",
        ],
        latency_tool: "ib_write_lat",
        bandwidth: [
            "write bandwidth, ratio to ib_write_bw",
            "write bandwidth both ways, ratio to ib_write_bw -b",
        ],
        bandwidth_tool: "ib_write_bw",
    },
    Verb {
        operation: Operation::Read,
        latency: ["read latency, minimum, ratio to ib_read_lat", "read latency, p50, ratio to ib_read_lat"],
        latency_tool: "ib_read_lat",
        bandwidth: [
            "read bandwidth, ratio to ib_read_bw",
            "read bandwidth both ways, ratio to ib_read_bw -b",
        ],
        bandwidth_tool: "ib_read_bw",
    },
    Verb {
        operation: Operation::Send,
        latency: ["send latency, minimum, ratio to ib_send_lat", "send latency, p50, ratio to ib_send_lat"],
        latency_tool: "ib_send_lat",
        bandwidth: [
            "send bandwidth, ratio to ib_send_bw",
            "send bandwidth both ways, ratio to ib_send_bw -b",
        ],
        bandwidth_tool: "ib_send_bw",
    },
];

pub(crate) fn rows(print: &mut impl FnMut(Vec<Row>)) {
    let mut pair = pinned();
    for verb in &VERBS {
        print(latency(&mut pair, verb).into());
        for both_ways in [false, true] {
            print(vec![bandwidth(&mut pair, verb, both_ways)]);
        }
    }
}

/// Both ends, each on the processor that perftest's end gets.
fn pinned() -> Pair {
    let effects: PortReader = Arc::new(|_| PortReading::default());
    let mut pair = Pair::new(FROM, TO, &effects, |effects, waker| {
        Box::new(Verbs::new(effects, waker, None, Path::new("/dev/infiniband")))
    });
    // Their threads are there once they were needed.
    let _ = pair.run(LATENCY, Manner::default());
    for (endpoint, cpu) in [(FROM, CPUS.0), (TO, CPUS.1)] {
        let pid = std::process::id();
        let name = format!("probe {}", endpoint.device());
        let _ = run(&format!(
            "for task in /proc/{pid}/task/*; do \
             if [ \"$(cat $task/comm)\" = '{name}' ]; then taskset -c -p {cpu} ${{task##*/}}; fi; done"
        ));
    }
    pair
}

fn latency(pair: &mut Pair, verb: &Verb) -> [Row; 2] {
    let manner = Manner { operation: verb.operation, ..Manner::default() };
    let (mut minima, mut medians, mut last) = (Vec::new(), Vec::new(), (0.0, 0.0));
    for number in 1..=LATENCY_RUNS {
        eprintln!("bench: {} run {number} of {LATENCY_RUNS}", verb.latency_tool);
        let [source, _] = pair.run(LATENCY, manner);
        let stats = match source {
            Some(Ended { outcome: Outcome::Latency(stats, _), .. }) => stats,
            other => panic!("no latency: {other:?}"),
        };
        // bytes, iterations, t_min, t_max, t_typical, ...
        let columns = figures(verb.latency_tool, "-s 8 -n 1000", "8 ");
        minima.push(stats.min_ns as f64 / 1e3 / columns[2]);
        medians.push(stats.p50_ns as f64 / 1e3 / columns[4]);
        last = (stats.p50_ns as f64 / 1e3, columns[4]);
    }
    eprintln!("bench: {} last p50 {:.2} us, ours {:.2} us", verb.latency_tool, last.1, last.0);
    let row = |what, seen, against| Row { what, seen, unit: "", asked: Asked::Between(0.9, 1.1), against };
    [
        row(verb.latency[0], median(minima), None),
        row(verb.latency[1], median(medians), Some(("its last p50, us", last.1))),
    ]
}

fn bandwidth(pair: &mut Pair, verb: &Verb, both_ways: bool) -> Row {
    let manner = Manner { operation: verb.operation, both_ways, ..Manner::default() };
    let more = if both_ways { " -b" } else { "" };
    let (mut ratios, mut last) = (Vec::new(), 0.0);
    for number in 1..=BANDWIDTH_RUNS {
        eprintln!("bench: {}{more} run {number} of {BANDWIDTH_RUNS}", verb.bandwidth_tool);
        let ends = pair.run(STREAM, manner);
        // perftest tells the sum of both directions.
        let ours: f64 = ends.iter().flatten().filter_map(rate).sum();
        assert!(ours > 0.0, "no bandwidth: {ends:?}");
        let arguments = format!("-s 65536 -n 200 -t 8 --report_gbits{more}");
        // bytes, iterations, peak, average, message rate
        let theirs = figures(verb.bandwidth_tool, &arguments, "65536 ")[3];
        eprintln!("bench: ours {ours:.3} Gbit/s, theirs {theirs:.3}");
        ratios.push(ours / theirs);
        last = theirs;
    }
    Row {
        what: verb.bandwidth[usize::from(both_ways)],
        seen: median(ratios),
        unit: "",
        asked: Asked::AtLeast(0.95),
        against: Some(("its last, Gbit/s", last)),
    }
}

/// In Gbit/s.
fn rate(end: &Ended) -> Option<f64> {
    match end.outcome {
        Outcome::Bandwidth(stats, _) => Some(stats.average_bps as f64 / 1e9),
        _ => None,
    }
}
