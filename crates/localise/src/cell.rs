//! What is known of one ordered pair and metric.

use rdmascope_model::{
    BandwidthStats, CounterDelta, Exclusion, Failure, LatencyStats, Metric, PingFigures, Wall,
};

/// The figures of a probe that completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// Half round trips.
    Latency(LatencyStats, CounterDelta),
    /// Goodput.
    Bandwidth(BandwidthStats, CounterDelta),
    /// Network round trips and loss.
    Ping(PingFigures),
}

impl Measured {
    /// What was measured.
    #[must_use]
    pub fn metric(&self) -> Metric {
        match self {
            Self::Latency(..) => Metric::Latency,
            Self::Bandwidth(..) => Metric::Bandwidth,
            Self::Ping(_) => Metric::Ping,
        }
    }

    /// The figure that pairs are compared by: median latency or network round trip in nanoseconds, or average bits per second.
    /// `None` for pings that were answered without usable stamps.
    #[must_use]
    pub fn headline(&self) -> Option<u64> {
        match self {
            Self::Latency(stats, _) => Some(stats.p50_ns),
            Self::Bandwidth(stats, _) => Some(stats.average_bps),
            Self::Ping(figures) => figures.network.map(|network| network.p50_ns),
        }
    }
}

/// One cell, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// No probe of this pair has ended yet.
    Never,
    /// The last probe completed. Whether it is still fresh depends on the time of the question.
    Known {
        /// When it was measured, on the measuring agent's clock.
        at: Wall,
        /// What it found.
        measured: Measured,
    },
    /// The last probe failed.
    Failed {
        /// When.
        at: Wall,
        /// Why.
        failure: Failure,
    },
    /// The last probe was not run.
    Excluded {
        /// When.
        at: Wall,
        /// Why.
        why: Exclusion,
    },
}

/// The state of a cell at the time of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CellState {
    /// Measured within the limit.
    Fresh,
    /// Measured, too long ago.
    Stale,
    /// Not yet measured.
    Never,
    /// The last probe failed.
    Failed,
    /// The last probe was not run.
    Excluded,
}

impl CellState {
    /// All of them, each at its own number.
    pub const ALL: [Self; 5] = [Self::Fresh, Self::Stale, Self::Never, Self::Failed, Self::Excluded];

    /// The word used everywhere.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Stale => "stale",
            Self::Never => "never",
            Self::Failed => "failed",
            Self::Excluded => "excluded",
        }
    }
}

impl Cell {
    /// When it came to be what it is; `None` for never.
    #[must_use]
    pub fn at(&self) -> Option<Wall> {
        match self {
            Self::Never => None,
            Self::Known { at, .. } | Self::Failed { at, .. } | Self::Excluded { at, .. } => Some(*at),
        }
    }

    /// Its state at `now`, when figures older than `fresh_for` are stale.
    #[must_use]
    pub fn state(&self, now: Wall, fresh_for: std::time::Duration) -> CellState {
        match self {
            Self::Never => CellState::Never,
            Self::Known { at, .. } if now.since(*at) <= fresh_for => CellState::Fresh,
            Self::Known { .. } => CellState::Stale,
            Self::Failed { .. } => CellState::Failed,
            Self::Excluded { .. } => CellState::Excluded,
        }
    }
}
