//! A verdict over a whole matrix: what the judge takes, and what memory it needs while it looks.

use super::{Print, row};
use crate::row::{Asked, Row};
use rdmascope_host::ProcessCost;
use rdmascope_localise::{EndpointIndex, Input, Judge, Matrix, Measured, Place, PlaceIndex, Places};
use rdmascope_model::{
    BandwidthStats, CounterDelta, LabelResult, LatencyStats, Metric, PingCounts, PingFigures, Spread,
    StampClock, Wall,
};
use std::time::{Duration, Instant};

const RAILS: u32 = 8;
const RATE_BPS: u64 = 400_000_000_000;
/// Nodes below the leaves of one pod.
const NODES_OF_A_POD: u32 = 32;
const NOW: Wall = Wall(1_800_000_000_000);
/// Looks of which the fastest and the slowest are told.
const LOOKS: usize = 3;
const MB: f64 = 1e6;

pub(super) fn rows(print: Print<'_>) {
    let seconds = |seconds: f64| Asked::AtMost(seconds * 1_000.0);
    let (small, large) = (Asked::Nothing, seconds(0.1));
    look(256, Metric::Ping, ["256: verdict, pings", "256: the same at worst"], small, print);
    look(1_024, Metric::Ping, ["1024: verdict, pings", "1024: the same at worst"], large, print);
    look(1_024, Metric::Latency, ["1024: verdict, latency", "1024: latency, at worst"], large, print);
    look(4_096, Metric::Ping, ["4096: verdict, pings", "4096: the same at worst"], seconds(2.0), print);
    in_progress(print);
}

fn look(endpoints: u32, metric: Metric, what: [&'static str; 2], asked: Asked, print: Print<'_>) {
    let world = World::new(endpoints, &[metric]);
    print(told(&world, what, asked));
}

fn told(world: &World, [what, worst]: [&'static str; 2], asked: Asked) -> Vec<Row> {
    let mut times = world.looks();
    times.sort_by(f64::total_cmp);
    vec![row(what, times[0], "ms", asked), row(worst, times[times.len() - 1], "ms", Asked::Nothing)]
}

/// Memory of this process, which has nothing else in it by now.
fn memory() -> ProcessCost {
    let cost = ProcessCost::of(std::process::id());
    *cost.value().unwrap_or_else(|| panic!("this process cannot be measured: {cost:?}"))
}

/// What a coordinator's matrix has: latency of all pairs, bandwidth by rail.
fn in_progress(print: Print<'_>) {
    let world = World::new(4_096, &[Metric::Latency, Metric::Bandwidth]);
    let before = memory().resident as f64 / MB;
    let rows = told(
        &world,
        ["4096: verdict, latency and bandwidth", "4096: latency and bandwidth, at worst"],
        Asked::AtMost(2_000.0),
    );
    print(rows);
    let matrix = world.matrix.bytes() as f64 / MB;
    print(vec![
        row("4096: the matrix alone, latency and bandwidth by rail", matrix, "MB", Asked::AtMost(1_200.0)),
        row("4096: with it in a process, resident", before, "MB", Asked::AtMost(1_200.0)),
        row(
            "4096: resident at most, verdicts in progress",
            memory().resident_max as f64 / MB,
            "MB",
            Asked::AtMost(1_500.0),
        ),
    ]);
}

/// A cluster in which one endpoint loses a fifth of its pings and one node is slow, so that there is something to judge.
struct World {
    matrix: Matrix,
    places: Places,
}

impl World {
    fn new(endpoints: u32, metrics: &[Metric]) -> Self {
        let mut matrix = Matrix::default();
        let mut places = Places::default();
        for at in 0..endpoints {
            let (node, rail) = (at / RAILS, at % RAILS);
            let name = format!("node-{node:04}/mlx5_{rail}/1");
            matrix.intern(&name.parse().unwrap_or_else(|error| panic!("{name}: {error}")));
            let leaf = node / NODES_OF_A_POD * RAILS + rail;
            places.of.push(Some(Place {
                node: PlaceIndex(node),
                rail: Some(PlaceIndex(rail)),
                leaf: Some(PlaceIndex(leaf)),
                pod: Some(PlaceIndex(node / NODES_OF_A_POD)),
                rate_bps: Some(RATE_BPS),
            }));
        }
        let nodes = endpoints / RAILS;
        let pods = nodes.div_ceil(NODES_OF_A_POD);
        let names = |what: &str, count: u32| (0..count).map(|at| format!("{what}-{at}")).collect();
        (places.nodes, places.rails) = (names("node", nodes), names("rail", RAILS));
        (places.leaves, places.pods) = (names("leaf", pods * RAILS), names("pod", pods));
        let mut world = Self { matrix, places };
        world.fill(endpoints, metrics);
        world
    }

    fn fill(&mut self, endpoints: u32, metrics: &[Metric]) {
        let mut draw = 1_u64;
        for (a, b) in (0..endpoints).flat_map(|a| (0..endpoints).map(move |b| (a, b))) {
            if a / RAILS == b / RAILS {
                continue;
            }
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let chance = draw >> 33;
            let at = Wall(NOW.0 - chance % 100_000);
            let (source, target) = (EndpointIndex(a), EndpointIndex(b));
            for metric in
                metrics.iter().filter(|metric| **metric != Metric::Bandwidth || a % RAILS == b % RAILS)
            {
                let _ = self.matrix.record(source, target, at, &measured(*metric, (a, b), chance));
            }
        }
    }

    /// Time of each look, milliseconds.
    fn looks(&self) -> Vec<f64> {
        let mut judge = Judge::default();
        let look = |_| {
            let began = Instant::now();
            let look = judge.look(&Input {
                matrix: &self.matrix,
                places: &self.places,
                silenced: &[],
                counted_from: &[],
                ceilings: &[],
                made_of: &[],
                told: &[],
                now: NOW,
                fresh_for: Duration::from_secs(360),
                buffers_last: Duration::from_secs(1),
            });
            let took = began.elapsed().as_secs_f64() * 1e3;
            assert!(!look.judged.is_empty(), "an endpoint loses a fifth of its pings, and nobody is blamed");
            took
        };
        (0..LOOKS).map(look).collect()
    }
}

const LOSSY: u32 = 21;
const SLOW_NODE: u32 = 7;

fn measured(metric: Metric, (a, b): (u32, u32), chance: u64) -> Measured {
    let slow = a / RAILS == SLOW_NODE || b / RAILS == SLOW_NODE;
    let p50_ns = (3_000 + chance % 400) * if slow { 2 } else { 1 };
    let none = CounterDelta { retransmits: Some(0) };
    match metric {
        Metric::Latency => Measured::Latency(
            LatencyStats {
                count: 1_000,
                min_ns: p50_ns - 500,
                p50_ns,
                p90_ns: p50_ns + 500,
                p99_ns: Some(p50_ns + 3_000),
                p999_ns: None,
                max_ns: p50_ns + 9_000,
                host_delayed: 0,
            },
            none,
        ),
        Metric::Bandwidth => Measured::Bandwidth(
            BandwidthStats {
                bytes: 1 << 33,
                duration_ns: 200_000_000,
                average_bps: RATE_BPS / 100 * 97 - chance % 1_000 * 1_000_000,
                worst_window_bps: None,
                variation_permille: None,
                completions: 1_000,
            },
            none,
        ),
        Metric::Ping => Measured::Ping(pings(p50_ns, a == LOSSY || b == LOSSY)),
    }
}

fn pings(p50_ns: u64, lossy: bool) -> PingFigures {
    let lost = u32::from(lossy) * 2;
    let counts = |payload_bytes, sent| PingCounts {
        payload_bytes,
        sent,
        answered: sent - lost,
        lost_forward: Some(lost),
        lost_backward: Some(0),
        ..PingCounts::default()
    };
    let host = Some(Spread { p50_ns: 12_000, max_ns: 40_000 });
    PingFigures {
        clock: StampClock::Software,
        small: counts(64, 20),
        large: counts(4_096, 10),
        network: Some(Spread { p50_ns, max_ns: p50_ns + 9_000 }),
        large_p50_ns: Some(p50_ns + 1_000),
        responder: host,
        prober: host,
        host_delayed: 0,
        invalid_stamps: 0,
        stale: 0,
        worst_label: Some(LabelResult { flow_label: 7, sent: 2, answered: 2, p50_ns: Some(p50_ns) }),
    }
}
