//! What a probe found: numbers, or a failure with its cause, or a reason why it was not run.

use crate::{Exclusion, Failure};

/// Half round trips of one side, nanoseconds. A quantile that the count cannot support is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyStats {
    /// Samples behind the figures.
    pub count: u32,
    /// Smallest.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile, from 300 samples on.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile, from 3,000 samples on.
    pub p999_ns: Option<u64>,
    /// Largest.
    pub max_ns: u64,
    /// Samples during which the measuring thread was preempted; they are within the figures and say how far to trust them.
    pub host_delayed: u32,
}

/// Goodput of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandwidthStats {
    /// Payload bytes completed in the measured window.
    pub bytes: u64,
    /// Length of that window, nanoseconds.
    pub duration_ns: u64,
    /// Average over the window, bits per second.
    pub average_bps: u64,
    /// The slowest tenth of the window, bits per second; absent below 50 completions.
    pub worst_window_bps: Option<u64>,
    /// Writes completed in the window.
    pub completions: u32,
}

/// How far the port's own counters moved during the probe, from before the first byte until after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterDelta {
    /// Packets or requests that had to be sent again or came out of order, as far as the driver counts them.
    pub retransmits: Option<u64>,
}

/// How one side's probe ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Latency figures.
    Latency(LatencyStats, CounterDelta),
    /// Bandwidth figures.
    Bandwidth(BandwidthStats, CounterDelta),
    /// It failed.
    Failed(Failure),
    /// It was not run, for a reason that says nothing about the pair.
    Excluded(Exclusion),
}
