//! The rows that latency and bandwidth are packed into.

use crate::Measured;
use rdmascope_model::{BandwidthStats, CounterDelta, LatencyStats, Wall};

/// A completed latency probe in 40 bytes; 0 stands for "absent" in p99 and p999, `u32::MAX` in `retransmits`.
/// Times are nanoseconds and stop at 4.29 s, which is longer than any lease lets a message travel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LatencyRow {
    pub(crate) at_ms: u64,
    pub(crate) min: u32,
    pub(crate) p50: u32,
    pub(crate) p90: u32,
    pub(crate) p99: u32,
    pub(crate) p999: u32,
    pub(crate) max: u32,
    pub(crate) count: u32,
    pub(crate) host_delayed: u32,
    pub(crate) retransmits: u32,
}

/// A completed bandwidth probe; `u64::MAX` stands for "absent" in `worst_bps`, `u32::MAX` in `retransmits`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BandwidthRow {
    pub(crate) at_ms: u64,
    pub(crate) bytes: u64,
    pub(crate) duration_ns: u64,
    pub(crate) average_bps: u64,
    pub(crate) worst_bps: u64,
    pub(crate) completions: u32,
    pub(crate) retransmits: u32,
}

fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn pack_retransmits(delta: CounterDelta) -> u32 {
    delta.retransmits.map_or(u32::MAX, |count| narrow(count).min(u32::MAX - 1))
}

fn unpack_retransmits(packed: u32) -> CounterDelta {
    CounterDelta { retransmits: (packed != u32::MAX).then_some(packed.into()) }
}

pub(super) fn pack_latency(at: Wall, stats: &LatencyStats, delta: CounterDelta) -> LatencyRow {
    LatencyRow {
        at_ms: at.0,
        min: narrow(stats.min_ns),
        p50: narrow(stats.p50_ns),
        p90: narrow(stats.p90_ns),
        p99: stats.p99_ns.map_or(0, narrow),
        p999: stats.p999_ns.map_or(0, narrow),
        max: narrow(stats.max_ns),
        count: stats.count,
        host_delayed: stats.host_delayed,
        retransmits: pack_retransmits(delta),
    }
}

pub(super) fn unpack_latency(row: &LatencyRow) -> Option<(Wall, Measured)> {
    let stats = LatencyStats {
        count: row.count,
        min_ns: row.min.into(),
        p50_ns: row.p50.into(),
        p90_ns: row.p90.into(),
        p99_ns: (row.p99 != 0).then_some(row.p99.into()),
        p999_ns: (row.p999 != 0).then_some(row.p999.into()),
        max_ns: row.max.into(),
        host_delayed: row.host_delayed,
    };
    let measured = Measured::Latency(stats, unpack_retransmits(row.retransmits));
    (row.count != 0).then_some((Wall(row.at_ms), measured))
}

pub(super) fn pack_bandwidth(at: Wall, stats: &BandwidthStats, delta: CounterDelta) -> BandwidthRow {
    BandwidthRow {
        at_ms: at.0,
        bytes: stats.bytes,
        duration_ns: stats.duration_ns,
        average_bps: stats.average_bps,
        worst_bps: stats.worst_window_bps.unwrap_or(u64::MAX),
        completions: stats.completions,
        retransmits: pack_retransmits(delta),
    }
}

pub(super) fn unpack_bandwidth(row: &BandwidthRow) -> Option<(Wall, Measured)> {
    let stats = BandwidthStats {
        bytes: row.bytes,
        duration_ns: row.duration_ns,
        average_bps: row.average_bps,
        worst_window_bps: (row.worst_bps != u64::MAX).then_some(row.worst_bps),
        // Not kept: a cell has room for what is compared over days.
        variation_permille: None,
        completions: row.completions,
    };
    let measured = Measured::Bandwidth(stats, unpack_retransmits(row.retransmits));
    (row.completions != 0).then_some((Wall(row.at_ms), measured))
}
