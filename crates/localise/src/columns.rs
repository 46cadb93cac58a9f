//! One source's cells of a metric side by side, for who shows a whole matrix: millions of cells are read like this, so that nothing is
//! worked out for a cell that is not shown of it.

use crate::row::{self, Kind};
use crate::{CellState, EndpointIndex, Light, Matrix, ping};
use rdmascope_model::{Metric, Wall};

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
    /// Reads the cells from a source to these targets as they are shown at `now`, each in its `light`. `words` has a byte for each state in
    /// the order of [`CellState::ALL`].
    pub fn read(
        &mut self,
        matrix: &Matrix,
        metric: Metric,
        (source, targets): (EndpointIndex, &[EndpointIndex]),
        (now, light): (Wall, impl Fn(EndpointIndex) -> Light),
        words: [u8; CellState::ALL.len()],
        wanted: Wanted,
    ) {
        let asked = Asked { targets, light, now, words, wanted };
        match metric {
            Metric::Latency => {
                let beside = |row: &_| row::latency_figures(row).1.map_or(f64::NAN, |ns| ns as f64);
                self.fill(&asked, matrix.latency.row_of(source), |row| row::latency_figures(row).0, beside);
            }
            Metric::Bandwidth => {
                let row_to = |target| matrix.bandwidth.row(source, target);
                self.fill(&asked, row_to, row::bandwidth_figure, |_| f64::NAN);
            }
            Metric::Ping => {
                let short = |row: &ping::PingRow| ping::figures_of(row).in_short();
                let beside = |row: &_| {
                    let short = short(row);
                    match (short.lost, short.answered + short.lost) {
                        (_, 0) => f64::NAN,
                        (0, _) => 0.0,
                        (lost, judged) => f64::from(lost) / f64::from(judged),
                    }
                };
                let figure = |row: &_| short(row).network_p50_ns.unwrap_or(NOTHING);
                self.fill(&asked, matrix.ping.row_of(source), figure, beside);
            }
        }
    }

    fn fill<'a, const WORDS: usize>(
        &mut self,
        asked: &Asked<'_, impl Fn(EndpointIndex) -> Light>,
        row_to: impl Fn(EndpointIndex) -> Option<&'a [u32; WORDS]>,
        figure: impl Fn(&[u32; WORDS]) -> u64,
        beside: impl Fn(&[u32; WORDS]) -> f64,
    ) {
        let Asked { targets, light, now, words, wanted } = asked;
        // By itself, as memory answers many of these short looks at once; what follows finds the rows near.
        let heads = targets.iter().map(|&target| {
            let row = row_to(target);
            (row, row.map_or((Kind::Never, Wall(0)), |row| (row::kind(row), row::at(row))))
        });
        let heads: Vec<_> = heads.collect();
        let len = targets.len();
        self.states.resize(len, 0);
        let figures = column(&mut self.figures, wanted.figures, len);
        let besides = column(&mut self.beside, wanted.beside, len);
        let at_ms = column(&mut self.at_ms, wanted.at, len);
        let cells = heads.iter().zip(*targets).zip(&mut self.states).enumerate();
        for (place, ((&(row, (kind, at)), &target), word)) in cells {
            let light = light(target);
            let state = light.state(kind, at);
            *word = words[state as usize];
            let known = row.filter(|_| matches!(state, CellState::Fresh | CellState::Stale));
            if let Some(slot) = figures.get_mut(place) {
                *slot = known.map_or(NOTHING, &figure);
            }
            if let Some(slot) = besides.get_mut(place) {
                *slot = known.map_or(f64::NAN, &beside);
            }
            if let Some(slot) = at_ms.get_mut(place) {
                *slot = match light.excluded(kind, at, *now) {
                    Some((since, _)) => since.0,
                    None if kind == Kind::Never => NOTHING,
                    None => at.0,
                };
            }
        }
    }
}

/// A column to be filled; nothing of one that is not wanted.
fn column<T: Copy + Default>(column: &mut Vec<T>, wanted: bool, len: usize) -> &mut [T] {
    if !wanted {
        return &mut [];
    }
    column.resize(len, T::default());
    column
}

struct Asked<'a, L> {
    targets: &'a [EndpointIndex],
    light: L,
    now: Wall,
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
        let now = Wall(100_000);
        let plain = Light { fresh_since: Wall(40_000), silenced: None, apart: false };
        let silenced = Light { silenced: Some(Wall(50_000)), ..plain };
        let apart = Light { apart: true, ..plain };
        let targets: Vec<_> = all.iter().rev().copied().collect();
        let mut columns = Columns::default();
        let whole = Wanted { figures: true, beside: true, at: true };
        for (metric, light) in Metric::ALL.into_iter().flat_map(|m| [plain, silenced, apart].map(|l| (m, l)))
        {
            columns.read(&m, metric, (all[0], &targets), (now, |_| light), *b"fsnxe", whole);
            for (at, &target) in targets.iter().enumerate() {
                let brief = light.shown(m.brief(metric, all[0], target), now);
                let letter = match brief.state(light.fresh_since) {
                    CellState::Fresh => b'f',
                    CellState::Stale => b's',
                    CellState::Never => b'n',
                    CellState::Failed => b'x',
                    CellState::Excluded => b'e',
                };
                let (written, figure, lost) = match brief {
                    Brief::Known { at, headline, lost, .. } => (Some(at), headline, lost),
                    Brief::Failed { at, .. } | Brief::Excluded { at, .. } => (Some(at), None, None),
                    Brief::Never => (None, None, None),
                };
                assert_eq!(columns.states[at], letter, "{metric} {light:?} {brief:?}");
                assert_eq!(columns.figures[at], figure.unwrap_or(NOTHING));
                assert_eq!(columns.at_ms[at], written.map_or(NOTHING, |at| at.0));
                let share = lost.map(|[lost, judged]| f64::from(lost) / f64::from(judged));
                assert_eq!(Some(columns.beside[at]).filter(|share| !share.is_nan()), share);
            }
        }
    }
}
