//! A cell in short: what whole matrices are shown and counted by, millions at a time.

use crate::CellState;
use crate::ping::{self, PingRow};
use crate::row::{self, BandwidthRow, Kind, LatencyRow};
use rdmascope_model::{Cause, Exclusion, Side, Step, Wall};

/// A cell in short, without any text: what whole matrices are shown and counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brief {
    /// No probe of this pair has ended yet.
    Never,
    /// The last probe completed.
    Known {
        /// When it was measured.
        at: Wall,
        /// The figure that pairs are compared by, see [`crate::Measured::headline`].
        headline: Option<u64>,
        /// Latency: 99th percentile, nanoseconds.
        p99_ns: Option<u64>,
        /// Pings: how many were lost, of how many that were answered in time or lost.
        lost: Option<[u32; 2]>,
    },
    /// The last probe failed.
    Failed {
        /// When.
        at: Wall,
        /// Why.
        cause: Cause,
        /// In which step.
        step: Step,
        /// Who saw it.
        side: Side,
    },
    /// The last probe was not run.
    Excluded {
        /// When.
        at: Wall,
        /// Why.
        why: Exclusion,
    },
}

impl Brief {
    /// Its state, when figures from before `fresh_since` are stale.
    #[must_use]
    pub fn state(self, fresh_since: Wall) -> CellState {
        match self {
            Self::Never => CellState::Never,
            Self::Known { at, .. } if at >= fresh_since => CellState::Fresh,
            Self::Known { .. } => CellState::Stale,
            Self::Failed { .. } => CellState::Failed,
            Self::Excluded { .. } => CellState::Excluded,
        }
    }
}

fn of<const WORDS: usize>(row: Option<&[u32; WORDS]>, known: impl Fn(Wall, &[u32; WORDS]) -> Brief) -> Brief {
    let Some(row) = row else { return Brief::Never };
    let at = row::at(row);
    match row::kind(row) {
        Kind::Never => Brief::Never,
        Kind::Known => known(at, row),
        Kind::Failed => {
            let (cause, step, side) = row::reason(row);
            Brief::Failed { at, cause, step, side }
        }
        Kind::Excluded => Brief::Excluded { at, why: row::unpack_exclusion(row) },
    }
}

pub(crate) fn latency(row: Option<&LatencyRow>) -> Brief {
    of(row, |at, row| {
        let (p50_ns, p99_ns) = row::latency_figures(row);
        Brief::Known { at, headline: Some(p50_ns), p99_ns, lost: None }
    })
}

pub(crate) fn bandwidth(row: Option<&BandwidthRow>) -> Brief {
    let headline = |row: &_| Some(row::bandwidth_figure(row));
    of(row, |at, row| Brief::Known { at, headline: headline(row), p99_ns: None, lost: None })
}

pub(crate) fn pings(row: Option<&PingRow>) -> Brief {
    if let Some(row) = row.filter(|row| ping::silent_batch(row).is_some()) {
        let (cause, step, side) = ping::reason(row);
        return Brief::Failed { at: row::at(row), cause, step, side };
    }
    of(row, |at, row| {
        let short = ping::figures_of(row).in_short();
        let lost = Some([short.lost, short.answered + short.lost]);
        Brief::Known { at, headline: short.network_p50_ns, p99_ns: None, lost }
    })
}
