//! `/metrics/pairs`: a few series per ordered pair, written in chunks, and cut where there are too many pairs.

use std::borrow::Cow;
use std::fmt::Write as _;

use rdmascope_model::{EndpointName, Metric};

use super::Family;
use super::catalogue::{
    LEAF_PAIR_BANDWIDTH, LEAF_PAIR_LATENCY, NODE_PAIR_BANDWIDTH, NODE_PAIR_LATENCY, PAIR_BANDWIDTH,
    PAIR_LATENCY, PAIR_STATE, PAIRS_LEFT_OUT,
};
use super::text::{Text, header, sample};
use crate::api::CellState;

/// A chunk is handed out when it has grown beyond this.
const CHUNK_BYTES: usize = 64 * 1024;

/// Pairs that are not ok, written at most when there are too many pairs to write all.
const NOT_OK_MAX: usize = 1_000;

/// One ordered pair.
#[derive(Clone, Copy, Debug)]
pub struct PairRow<'a> {
    /// Endpoint that sends.
    pub source: &'a EndpointName,
    /// Endpoint that receives.
    pub target: &'a EndpointName,
    /// Rail of both; empty when not known.
    pub rail: &'a str,
    /// Latency; `None` where pings cover the pair and nobody measured it otherwise.
    pub latency: Option<PairLatency<'a>>,
    /// Bandwidth.
    pub bandwidth: PairBandwidth<'a>,
    /// Pings; `None` where they do not cover the pair.
    pub ping: Option<PairPing<'a>>,
}

/// Latency of a pair.
#[derive(Clone, Copy, Debug)]
pub struct PairLatency<'a> {
    /// State now.
    pub state: CellState,
    /// Median, nanoseconds; ignored unless fresh.
    pub p50_ns: Option<u64>,
    /// 99th percentile, nanoseconds; ignored unless fresh.
    pub p99_ns: Option<u64>,
    /// Such as `rc_half_rtt`.
    pub method: &'a str,
    /// `sw` or `hw`.
    pub clock: &'a str,
}

/// Bandwidth of a pair.
#[derive(Clone, Copy, Debug)]
pub struct PairBandwidth<'a> {
    /// State now.
    pub state: CellState,
    /// Average, bits per second; ignored unless fresh.
    pub average_bps: Option<u64>,
    /// Such as `rc_write`.
    pub method: &'a str,
    /// `sw` or `hw`.
    pub clock: &'a str,
}

/// Pings of a pair.
#[derive(Clone, Copy, Debug)]
pub struct PairPing<'a> {
    /// State now.
    pub state: CellState,
    /// Median network round trip, nanoseconds; ignored unless fresh.
    pub p50_ns: Option<u64>,
    /// `sw` or `hw`.
    pub clock: &'a str,
}

/// The label of pings; the figures of the other methods have their own.
const PING_METHOD: &str = "ud_network_rtt";

/// The label has no port of its own; without it two ports of a device would be one series.
pub(super) fn device_label(name: &EndpointName) -> Cow<'_, str> {
    match name.port {
        1 => Cow::Borrowed(name.device.as_str()),
        port => Cow::Owned(format!("{}/{port}", name.device)),
    }
}

impl<'a> PairRow<'a> {
    fn has(&self, state: CellState) -> bool {
        self.states().any(|(_, is)| is == state)
    }

    fn states(&self) -> impl Iterator<Item = (Metric, CellState)> {
        let latency = self.latency.map(|latency| (Metric::Latency, latency.state));
        let ping = self.ping.map(|ping| (Metric::Ping, ping.state));
        latency.into_iter().chain([(Metric::Bandwidth, self.bandwidth.state)]).chain(ping)
    }

    fn labels(&self) -> [Cow<'a, str>; 4] {
        [
            Cow::Borrowed(&self.source.node),
            device_label(self.source),
            Cow::Borrowed(&self.target.node),
            device_label(self.target),
        ]
    }
}

/// The text of all families of pairs, in chunks of about 64 KiB. The rows are gone through once per family.
///
/// `pairs_total` is the number of pairs. Up to `pairs_max` all are written, else those that failed and then those that are
/// stale, at most 1,000; the others need not be among the rows then.
pub fn pairs<'a, I>(pairs_total: u64, pairs_max: u64, rows: I) -> impl Iterator<Item = String>
where
    I: Iterator<Item = PairRow<'a>> + Clone,
{
    let cut = pairs_total > pairs_max;
    let all = rows.clone().take(if cut { 0 } else { usize::MAX });
    let failed = rows.clone().filter(|row| row.has(CellState::Failed));
    let stale = rows.filter(|row| row.has(CellState::Stale) && !row.has(CellState::Failed));
    let not_ok = failed.chain(stale).take(if cut { NOT_OK_MAX } else { 0 });
    let chosen = all.chain(not_ok);
    let written = chosen.clone().count() as u64;
    let families: [(&Family, Write); 3] =
        [(&PAIR_LATENCY, latency), (&PAIR_BANDWIDTH, bandwidth), (&PAIR_STATE, states)];
    families.into_iter().flat_map(move |(family, write)| chunks(family, write, chosen.clone())).chain(
        std::iter::once_with(move || {
            let mut out = String::new();
            header(&mut out, &PAIRS_LEFT_OUT);
            sample(&mut out, &PAIRS_LEFT_OUT, &[], pairs_total.saturating_sub(written));
            out
        }),
    )
}

/// The worst fresh figure between two nodes, or two leaves, of which there are too many pairs to write them all.
#[derive(Clone, Copy, Debug)]
pub struct WorstRow<'a> {
    /// Node or leaf that sends.
    pub source: &'a str,
    /// Node or leaf that receives.
    pub target: &'a str,
    /// What was measured.
    pub metric: Metric,
    /// Such as `rc_half_rtt`.
    pub method: &'a str,
    /// Nanoseconds, or bits per second.
    pub figure: u64,
}

/// Between which two kinds of things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorstOf {
    /// Nodes.
    Nodes,
    /// Leaves.
    Leaves,
}

/// The text of the worst figures: of latency and pings the largest medians, of bandwidth the smallest averages.
#[must_use]
pub fn worst_pairs(of: WorstOf, rows: &[WorstRow<'_>]) -> String {
    let (latency, bandwidth) = match of {
        WorstOf::Nodes => (&NODE_PAIR_LATENCY, &NODE_PAIR_BANDWIDTH),
        WorstOf::Leaves => (&LEAF_PAIR_LATENCY, &LEAF_PAIR_BANDWIDTH),
    };
    let mut text = Text::default();
    text.family(latency, |out| {
        for row in rows.iter().filter(|row| row.metric != Metric::Bandwidth) {
            out.add(&[row.source, row.target, row.method], Seconds(row.figure));
        }
    });
    text.family(bandwidth, |out| {
        for row in rows.iter().filter(|row| row.metric == Metric::Bandwidth) {
            out.add(&[row.source, row.target, row.method], row.figure as f64 / 8.0);
        }
    });
    text.done()
}

type Write = fn(&mut String, &PairRow<'_>);

fn chunks<'a>(
    family: &'static Family,
    write: Write,
    mut rows: impl Iterator<Item = PairRow<'a>>,
) -> impl Iterator<Item = String> {
    let mut at_start = true;
    std::iter::from_fn(move || {
        let mut out = String::new();
        for row in rows.by_ref() {
            let before = out.len();
            write(&mut out, &row);
            if at_start && out.len() > before {
                let body = std::mem::take(&mut out);
                header(&mut out, family);
                out.push_str(&body);
                at_start = false;
            }
            if out.len() > CHUNK_BYTES {
                break;
            }
        }
        (!out.is_empty()).then_some(out)
    })
}

fn latency(out: &mut String, row: &PairRow<'_>) {
    let [source, source_device, target, target_device] = &row.labels();
    let latency = row.latency.filter(|latency| latency.state == CellState::Fresh);
    let connected = latency.map_or(("", ""), |latency| (latency.method, latency.clock));
    let ping = row.ping.filter(|ping| ping.state == CellState::Fresh);
    let figures = [
        (connected, "0.5", latency.and_then(|latency| latency.p50_ns)),
        (connected, "0.99", latency.and_then(|latency| latency.p99_ns)),
        ((PING_METHOD, ping.map_or("", |ping| ping.clock)), "0.5", ping.and_then(|ping| ping.p50_ns)),
    ];
    for ((method, clock), quantile, ns) in figures {
        let Some(ns) = ns else { continue };
        let labels = [source, source_device, target, target_device, row.rail, method, clock, quantile];
        sample(out, &PAIR_LATENCY, &labels, Seconds(ns));
    }
}

fn bandwidth(out: &mut String, row: &PairRow<'_>) {
    let Some(bits) = row.bandwidth.average_bps.filter(|_| row.bandwidth.state == CellState::Fresh) else {
        return;
    };
    let [source, source_device, target, target_device] = &row.labels();
    let labels =
        [source, source_device, target, target_device, row.rail, row.bandwidth.method, row.bandwidth.clock];
    sample(out, &PAIR_BANDWIDTH, &labels, bits as f64 / 8.0);
}

fn states(out: &mut String, row: &PairRow<'_>) {
    let [source, source_device, target, target_device] = &row.labels();
    let mut one = |metric: &str, state: CellState| {
        let labels = [source, source_device, target, target_device, row.rail, metric, state.as_str()];
        sample(out, &PAIR_STATE, &labels, 1);
    };
    // Nearly all pairs, nearly all of the time: a third of the text otherwise.
    if row.states().all(|(_, state)| state == CellState::Fresh) {
        return one("all", CellState::Fresh);
    }
    row.states().for_each(|(metric, state)| one(metric.as_str(), state));
}

/// Nanoseconds written as seconds without a rounding error.
pub(super) struct Seconds(pub(super) u64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut digits = String::new();
        write!(digits, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)?;
        f.write_str(digits.trim_end_matches('0').trim_end_matches('.'))
    }
}
