//! One source's cells of a metric side by side, for who shows a whole matrix: millions of cells are read like this, so that nothing is
//! worked out for a cell that is not shown of it.

use crate::row::{self, Kind};
use crate::{CellState, EndpointIndex, Matrix, ping};
use rdmascope_model::{Metric, Wall};
use std::time::Duration;

/// What stands where there is no figure, and no time.
pub const NOTHING: u64 = u64::MAX;

/// The cells of one source; each list has one entry for each target that was asked for.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// State of each, by the words that were given for them.
    pub states: Vec<u8>,
    /// Headline of each known cell ([`crate::Measured::headline`]), else [`NOTHING`].
    pub figures: Vec<u64>,
    /// Latency: 99th percentile, nanoseconds; pings: share that was lost, from 0 to 1. NaN where there is none.
    pub beside: Vec<f64>,
    /// When each came to be what it is, milliseconds since 1970, else [`NOTHING`].
    pub at_ms: Vec<u64>,
}

/// Which of the columns beside the states are wanted; the others are left as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// [`Columns::figures`].
    pub figures: bool,
    /// [`Columns::beside`].
    pub beside: bool,
    /// [`Columns::at_ms`].
    pub at: bool,
}

impl Columns {
    /// Reads the cells from a source to these targets as they are at `now`, when figures older than `fresh_for` are stale. `words` has a
    /// byte for each state in the order of [`CellState::ALL`].
    pub fn read(
        &mut self,
        matrix: &Matrix,
        metric: Metric,
        (source, targets): (EndpointIndex, &[EndpointIndex]),
        (now, fresh_for): (Wall, Duration),
        words: [u8; CellState::ALL.len()],
        wanted: Wanted,
    ) {
        // Older than this is stale; what lies in the future is fresh.
        let oldest = Wall(now.0.saturating_sub(u64::try_from(fresh_for.as_millis()).unwrap_or(u64::MAX)));
        let asked = Asked { oldest, words, wanted };
        match metric {
            Metric::Latency => {
                let figure = |row: &row::LatencyRow| row::latency_figures(row).0;
                let beside = |row: &_| row::latency_figures(row).1.map_or(f64::NAN, |ns| ns as f64);
                self.fill(asked, targets.iter().map(|&t| matrix.latency.row(source, t)), figure, beside);
            }
            Metric::Bandwidth => {
                let rows = targets.iter().map(|&t| matrix.bandwidth.row(source, t));
                self.fill(asked, rows, row::bandwidth_figure, |_| f64::NAN);
            }
            Metric::Ping => {
                let short = |row: &ping::PingRow| ping::figures_of(row).in_short();
                let figure = |row: &_| short(row).network_p50_ns.unwrap_or(NOTHING);
                let beside = |row: &_| {
                    let short = short(row);
                    match (short.lost, short.answered + short.lost) {
                        (_, 0) => f64::NAN,
                        (0, _) => 0.0,
                        (lost, judged) => f64::from(lost) / f64::from(judged),
                    }
                };
                self.fill(asked, targets.iter().map(|&t| matrix.ping.row(source, t)), figure, beside);
            }
        }
    }

    fn fill<'a, const WORDS: usize>(
        &mut self,
        asked: Asked,
        rows: impl Iterator<Item = Option<&'a [u32; WORDS]>> + Clone,
        figure: impl Fn(&[u32; WORDS]) -> u64,
        beside: impl Fn(&[u32; WORDS]) -> f64,
    ) {
        let [fresh, stale, never, failed, excluded] = asked.words;
        self.states.clear();
        self.states.extend(rows.clone().map(|row| match row.map_or(Kind::Never, row::kind) {
            Kind::Never => never,
            Kind::Known if row.map_or(Wall(0), row::at) >= asked.oldest => fresh,
            Kind::Known => stale,
            Kind::Failed => failed,
            Kind::Excluded => excluded,
        }));
        let known = |row: Option<&'a [u32; WORDS]>| row.filter(|row| row::kind(row) == Kind::Known);
        let written = |row: Option<&'a [u32; WORDS]>| row.filter(|row| row::kind(row) != Kind::Never);
        if asked.wanted.figures {
            self.figures.clear();
            self.figures.extend(rows.clone().map(|row| known(row).map_or(NOTHING, &figure)));
        }
        if asked.wanted.beside {
            self.beside.clear();
            self.beside.extend(rows.clone().map(|row| known(row).map_or(f64::NAN, &beside)));
        }
        if asked.wanted.at {
            self.at_ms.clear();
            self.at_ms.extend(rows.map(|row| written(row).map_or(NOTHING, |row| row::at(row).0)));
        }
    }
}

#[derive(Clone, Copy)]
struct Asked {
    oldest: Wall,
    words: [u8; CellState::ALL.len()],
    wanted: Wanted,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Brief, Measured};
    use rdmascope_model::{Cause, Exclusion, Failure, Side, Step};

    #[test]
    fn columns_say_what_cells_say() {
        let mut m = Matrix::default();
        let all: Vec<_> = (0..70).map(|i| m.intern(&format!("n{i}/d/1").parse().unwrap())).collect();
        let failure =
            Failure { cause: Cause::PortDown, step: Step::Open, side: Side::Source, evidence: String::new() };
        let figures = Measured::Ping(ping::tests::figures());
        m.record(all[0], all[1], Wall(40_000), &figures);
        m.record(all[0], all[69], Wall(39_999), &figures);
        m.record(all[0], all[5], Wall(999_000), &figures);
        m.fail(Metric::Ping, all[0], all[2], Wall(7), &failure);
        m.exclude(Metric::Ping, all[0], all[3], Wall(8), Exclusion::Busy);
        let (now, fresh_for) = (Wall(100_000), Duration::from_secs(60));
        let targets: Vec<_> = all.iter().rev().copied().collect();
        let mut columns = Columns::default();
        let whole = Wanted { figures: true, beside: true, at: true };
        for metric in Metric::ALL {
            columns.read(&m, metric, (all[0], &targets), (now, fresh_for), *b"fsnxe", whole);
            for (at, &target) in targets.iter().enumerate() {
                let cell = m.cell(metric, all[0], target);
                let letter = match cell.state(now, fresh_for) {
                    CellState::Fresh => b'f',
                    CellState::Stale => b's',
                    CellState::Never => b'n',
                    CellState::Failed => b'x',
                    CellState::Excluded => b'e',
                };
                let (figure, lost) = match m.brief(metric, all[0], target) {
                    Brief::Known { headline, lost, .. } => (headline, lost),
                    _ => (None, None),
                };
                assert_eq!(columns.states[at], letter, "{metric} {cell:?}");
                assert_eq!(columns.figures[at], figure.unwrap_or(NOTHING));
                assert_eq!(columns.at_ms[at], cell.at().map_or(NOTHING, |at| at.0));
                let share = lost.map(|[lost, judged]| f64::from(lost) / f64::from(judged));
                assert_eq!(Some(columns.beside[at]).filter(|share| !share.is_nan()), share);
            }
        }
    }
}
