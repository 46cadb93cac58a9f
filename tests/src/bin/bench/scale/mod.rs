//! What a coordinator costs as the cluster grows: one row for each claim about size, and how each cost grows from N to 4 N.
//!
//! Most rows are what `rdmascope simulate` says of a real coordinator process with simulated agents over real sockets. What others build
//! and what needs no process (planning a round, a verdict over the whole matrix, sweeps in virtual time) has its place in [`PARTS`].

mod growth;
mod simulated;
mod verdict;
mod virtual_time;

use super::row::{Asked, Row};
use rdmascope_tests::guest::Cluster;
use rdmascope_tests::swarm;
use simulated::Simulated;
use std::time::Duration;

/// Agents that reconnect at once.
const AGENTS: usize = 2_000;

/// Where rows go as they come.
type Print<'a> = &'a mut dyn FnMut(Vec<Row>);

/// Everything that is measured, in the order of the rows.
const PARTS: &[fn(Print<'_>)] = &[
    machine,
    virtual_time::rows,
    verdict::rows,
    full_matrix,
    around_pairs_max,
    whole_matrix,
    reconnecting,
    growth::rows,
];

pub(crate) fn rows(print: Print<'_>) {
    PARTS.iter().for_each(|part| part(print));
}

fn row(what: &'static str, seen: f64, unit: &'static str, asked: Asked) -> Row {
    Row { what, seen, unit, asked, against: None }
}

/// Figures per core are only as good as the core.
fn machine(print: Print<'_>) {
    let cores = std::thread::available_parallelism().map_or(f64::NAN, |cores| cores.get() as f64);
    print(vec![row("processor cores of this machine", cores, "", Asked::Nothing)]);
}

/// 4,096 endpoints of which every pair is known.
fn full_matrix(print: Print<'_>) {
    let seen = Simulated::run(&["--endpoints", "4096", "--flood", "--seconds", "20"]);
    let ingest = seen.of("cells taken per second of one core, from the socket to the matrix");
    print(vec![row(
        "ingest: pings, from the socket to the matrix, per core",
        ingest,
        "1/s",
        Asked::AtLeast(5e6),
    )]);
    let seen =
        Simulated::run(&["--endpoints", "4096", "--filled", "--flood", "--restart", "--seconds", "20"]);
    memory(&seen, print);
    answers(&seen, print);
    restarted(&seen, print);
}

fn memory(seen: &Simulated, print: Print<'_>) {
    let at_most = Asked::AtMost;
    let memory = seen.of("resident memory, latency of all pairs, bandwidth by rail");
    let pings = seen.of("resident memory, pings of all pairs beside them");
    let empty = seen.of("resident memory, agents registered, nothing measured");
    print(vec![
        row("4096: memory, latency of all pairs, bandwidth by rail", memory, "MB", at_most(1_200.0)),
        // Pings of all pairs instead of latency over connections: what a cluster has that takes datagrams.
        row(
            "4096: memory, pings of all pairs, bandwidth by rail",
            pings - memory + empty + BANDWIDTH_MB,
            "MB",
            at_most(1_200.0),
        ),
        row("4096: memory, latency and pings of all pairs", pings, "MB", Asked::Nothing),
        row("4096: memory, nothing measured yet", empty, "MB", Asked::Nothing),
    ]);
}

fn answers(seen: &Simulated, print: Print<'_>) {
    let at_most = Asked::AtMost;
    let ingest = "cells taken per second of one core, from the socket to the matrix";
    print(vec![
        row(
            "the same beside latency of all pairs, verdicts and snapshots",
            seen.of(ingest),
            "1/s",
            Asked::Nothing,
        ),
        row(
            "ingest: results told by name, per core",
            seen.of("of them taken per second of one core"),
            "1/s",
            Asked::Nothing,
        ),
        row("4096: /metrics, size", seen.of("/metrics, size"), "MB", at_most(1.0)),
        row("4096: /metrics, time", seen.of("/metrics, time"), "ms", at_most(50.0)),
        row("4096: /metrics/pairs, size", seen.of("/metrics/pairs, size"), "MB", at_most(10.0)),
        row("4096: /metrics/pairs, time", seen.of("/metrics/pairs, time"), "ms", Asked::Nothing),
        row(
            "4096: matrix of pings, binary, size",
            seen.of("matrix of pings, binary, size"),
            "MB",
            Asked::Nothing,
        ),
        row(
            "4096: matrix of pings, binary, time",
            seen.of("matrix of pings, binary, time"),
            "ms",
            Asked::Nothing,
        ),
        row(
            "4096: matrix of pings, JSON, time",
            seen.of("matrix of pings, JSON, time"),
            "ms",
            Asked::Nothing,
        ),
    ]);
}

fn restarted(seen: &Simulated, print: Print<'_>) {
    let at_most = Asked::AtMost;
    let peak = seen.of("resident memory at most, after these answers");
    let pings = seen.of("coordinator, resident memory");
    print(vec![
        row("4096: snapshot, size", seen.of("matrix on disk"), "MB", Asked::Nothing),
        row(
            "4096: snapshot and end of the process",
            seen.of("orderly end, with the matrix written down"),
            "s",
            Asked::Nothing,
        ),
        row(
            "4096: snapshot back",
            seen.of("start, until the matrix is back and it listens"),
            "s",
            at_most(10.0),
        ),
        row("4096: all answers and snapshots beside the matrix", peak - pings, "MB", at_most(200.0)),
        row(
            "4096: memory at most while the snapshot comes back",
            seen.of("resident memory at most, since the restart"),
            "MB",
            Asked::Nothing,
        ),
        row(
            "4096: all agents back after the restart",
            seen.of("all agents are back after that"),
            "s",
            Asked::Nothing,
        ),
        row(
            "the simulation itself, processor",
            seen.of("the simulation itself: processor"),
            "s",
            Asked::Nothing,
        ),
        row(
            "the simulation itself, memory",
            seen.of("the simulation itself: resident memory at most"),
            "MB",
            Asked::Nothing,
        ),
    ]);
}

/// 2.1 million pairs within rails, 52 bytes each.
const BANDWIDTH_MB: f64 = 109.0;

/// At the limit of `/metrics/pairs`, and one endpoint above it; two endpoints answer nothing.
fn around_pairs_max(print: Print<'_>) {
    let around = |endpoints| {
        let flags = ["--endpoints", endpoints, "--rails", "1", "--silent", "2", "--filled", "--seconds", "1"];
        Simulated::run(&flags)
    };
    let (at, above) = (around("100"), around("101"));
    let failed = |seen: &Simulated| seen.of("/metrics/pairs, pairs whose pings failed");
    // 98 others ping two that do not answer; those two ping nobody.
    print(vec![
        row("100 endpoints: /metrics/pairs, size", at.of("/metrics/pairs, size"), "MB", Asked::AtMost(10.0)),
        row("100 endpoints: /metrics/pairs, time", at.of("/metrics/pairs, time"), "ms", Asked::Nothing),
        row(
            "100 endpoints: pairs whose pings failed are there",
            failed(&at),
            "",
            Asked::Between(196.0, 196.0),
        ),
        row(
            "101 endpoints: /metrics/pairs, size",
            above.of("/metrics/pairs, size"),
            "MB",
            Asked::AtMost(10.0),
        ),
        row("101 endpoints: /metrics/pairs, time", above.of("/metrics/pairs, time"), "ms", Asked::Nothing),
        row(
            "101 endpoints: pairs whose pings failed are there",
            failed(&above),
            "",
            Asked::Between(198.0, 198.0),
        ),
    ]);
}

/// One metric of 1,000 endpoints as a whole.
fn whole_matrix(print: Print<'_>) {
    let seen = Simulated::run(&["--endpoints", "1000", "--filled", "--seconds", "1"]);
    print(vec![
        row(
            "1000: matrix of pings, binary, size",
            seen.of("matrix of pings, binary, size"),
            "MB",
            Asked::Nothing,
        ),
        row(
            "1000: matrix of pings, binary, time",
            seen.of("matrix of pings, binary, time"),
            "ms",
            Asked::AtMost(20.0),
        ),
        row(
            "1000: matrix of pings, JSON, size",
            seen.of("matrix of pings, JSON, size"),
            "MB",
            Asked::Nothing,
        ),
        row(
            "1000: matrix of pings, JSON, time",
            seen.of("matrix of pings, JSON, time"),
            "ms",
            Asked::AtMost(200.0),
        ),
    ]);
}

/// The states and connections of 2,000 agents, without what looks at a machine: in a cluster every agent has a machine of its own for that.
/// There is no TLS yet, so none is measured.
fn reconnecting(print: Print<'_>) {
    let seen = Simulated::run(&["--endpoints", "2000", "--rails", "1", "--seconds", "1"]);
    print(vec![row(
        "2000 agents connect at once, all registered (no TLS)",
        seen.of("all agents registered after"),
        "s",
        Asked::AtMost(2.0),
    )]);
    // Whole agents, all of whose looks at a machine are this machine's.
    eprintln!("bench: {AGENTS} agents connect at once");
    let cluster = Cluster::start([]);
    let limit = Duration::from_secs(60);
    let seen = swarm::connect(AGENTS, &cluster.address(), Some(&cluster.token_file()), limit);
    print(vec![
        row(
            "2000 whole agents on this machine, all registered",
            seen.took.as_secs_f64(),
            "s",
            Asked::Nothing,
        ),
        row("of them refused", seen.refused as f64, "", Asked::AtMost(0.0)),
    ]);
}
