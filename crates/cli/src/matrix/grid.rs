//! One matrix as its drawings read it: names, figures, states, and how bad each pair is.

use crate::figures::Unit;
use crate::output::plain;
use crate::screen::Tone;
use rdmascope_expose::api::{CellState, MatrixView};
use std::collections::BTreeMap;

/// How bad a pair is, the worst last. Each has a shape of its own, since not everybody sees colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    /// No pair: an endpoint with itself, or ends that never meet.
    None,
    /// As fast as most.
    Usual,
    /// A little slower.
    Mild,
    /// Not probed by order.
    Excluded,
    /// Not measured yet.
    Never,
    /// Measured too long ago.
    Stale,
    /// Slow.
    Slow,
    /// Very slow.
    VerySlow,
    /// Loses pings.
    Lossy,
    /// Its probe failed.
    Failed,
}

/// From so many times the median on a pair is drawn as a little slower, slow, and very slow. A drawing judges nobody: the verdicts of
/// incidents rest on more than one number.
const MILD_FROM: f64 = 1.2;
const SLOW_FROM: f64 = 1.5;
const VERY_SLOW_FROM: f64 = 2.0;

impl Mark {
    /// All that say something.
    pub(super) const ALL: [Self; 9] = [
        Self::Usual,
        Self::Mild,
        Self::Slow,
        Self::VerySlow,
        Self::Lossy,
        Self::Failed,
        Self::Stale,
        Self::Never,
        Self::Excluded,
    ];

    /// Its shape.
    pub(super) fn shape(self) -> char {
        match self {
            Self::None => ' ',
            Self::Usual => '.',
            Self::Mild => '+',
            Self::Slow => '*',
            Self::VerySlow => '#',
            Self::Lossy => '!',
            Self::Failed => 'X',
            Self::Stale => '~',
            Self::Never => '?',
            Self::Excluded => '/',
        }
    }

    pub(super) fn tone(self) -> Option<Tone> {
        match self {
            Self::None => None,
            Self::Usual => Some(Tone::Good),
            Self::Mild => Some(Tone::Mild),
            Self::Slow => Some(Tone::Warn),
            Self::VerySlow | Self::Lossy | Self::Failed => Some(Tone::Bad),
            Self::Stale | Self::Never | Self::Excluded => Some(Tone::Faint),
        }
    }

    /// What it says, in words.
    pub(super) fn words(self, of_rates: bool) -> String {
        let times = |from: f64, to: f64| {
            if of_rates {
                format!("{:.0} to {:.0} % of the median", 100.0 / to, 100.0 / from)
            } else {
                format!("{from} to {to} times the median")
            }
        };
        match self {
            Self::None => String::new(),
            Self::Usual if of_rates => format!("more than {:.0} % of the median", 100.0 / MILD_FROM),
            Self::Usual => format!("less than {MILD_FROM} times the median"),
            Self::Mild => times(MILD_FROM, SLOW_FROM),
            Self::Slow => times(SLOW_FROM, VERY_SLOW_FROM),
            Self::VerySlow if of_rates => format!("{:.0} % of the median or less", 100.0 / VERY_SLOW_FROM),
            Self::VerySlow => format!("{VERY_SLOW_FROM} times the median or more"),
            Self::Lossy => "loses pings".to_owned(),
            Self::Failed => "failed".to_owned(),
            Self::Stale => "stale: measured too long ago".to_owned(),
            Self::Never => "never measured".to_owned(),
            Self::Excluded => "excluded: not probed".to_owned(),
        }
    }
}

/// A matrix with what its drawings share.
pub(super) struct Grid<'a> {
    pub(super) view: &'a MatrixView,
    /// Of the endpoints, as short as they can be told apart.
    pub(super) names: Vec<String>,
    pub(super) unit: Unit,
}

impl<'a> Grid<'a> {
    pub(super) fn new(view: &'a MatrixView) -> Self {
        let rates = view.average_bits_per_second.iter().flatten().flatten().flatten();
        let unit = match view.average_bits_per_second {
            Some(_) => Unit::of_rates(rates.copied().max().unwrap_or(u64::MAX)),
            None => Unit::Microseconds,
        };
        Self { view, names: short_names(&view.endpoints), unit }
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Every row with every column.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let len = self.len();
        (0..len).flat_map(move |row| (0..len).map(move |column| (row, column)))
    }

    pub(super) fn is_latency(&self) -> bool {
        self.view.p50_ns.is_some()
    }

    pub(super) fn state(&self, row: usize, column: usize) -> Option<CellState> {
        let letter = self.view.state.get(row)?.as_bytes().get(column)?;
        CellState::from_letter(char::from(*letter))
    }

    pub(super) fn value(&self, row: usize, column: usize) -> Option<u64> {
        let rows = self.view.p50_ns.as_ref().or(self.view.average_bits_per_second.as_ref());
        *rows?.get(row)?.get(column)?
    }

    pub(super) fn loss(&self, row: usize, column: usize) -> Option<f64> {
        let rows = self.view.loss_ratio.as_ref()?;
        rows.get(row)?.get(column).copied()?.filter(|loss| *loss > 0.0)
    }

    /// How many times slower than the median a value is; `None` without a median.
    pub(super) fn slowdown(&self, value: u64) -> Option<f64> {
        let median = self.view.median.filter(|median| *median > 0)?;
        let (value, median) = (value as f64, median as f64);
        Some(if self.is_latency() { value / median } else { median / value })
    }

    pub(super) fn mark(&self, row: usize, column: usize) -> Mark {
        let fresh = match self.state(row, column) {
            None => return Mark::None,
            Some(CellState::Failed) => return Mark::Failed,
            Some(CellState::Excluded) => return Mark::Excluded,
            Some(CellState::Never) => return Mark::Never,
            Some(CellState::Stale) => return Mark::Stale,
            Some(CellState::Fresh) => self.value(row, column),
        };
        if self.loss(row, column).is_some() {
            return Mark::Lossy;
        }
        match fresh.and_then(|value| self.slowdown(value)) {
            Some(times) if times >= VERY_SLOW_FROM => Mark::VerySlow,
            Some(times) if times >= SLOW_FROM => Mark::Slow,
            Some(times) if times >= MILD_FROM => Mark::Mild,
            _ => Mark::Usual,
        }
    }

    /// What is shown, of what, and when.
    pub(super) fn heading(&self, figure: &str) -> String {
        let median = self.view.median.map_or("none yet".to_owned(), |median| self.unit.show(median));
        format!(
            "{}: {figure}, from row to column; median of all pairs {median}; as of {}\n\n",
            plain(&self.view.metric),
            plain(&self.view.generated_at)
        )
    }

    /// Pairs of a state.
    pub(super) fn count(&self, state: CellState) -> usize {
        let letter = state.letter();
        self.view.state.iter().map(|row| row.chars().filter(|c| *c == letter).count()).sum()
    }

    /// How many pairs are in which state.
    pub(super) fn counts(&self) -> String {
        let counts: Vec<String> =
            CellState::ALL.iter().map(|state| format!("{} {}", self.count(*state), state.as_str())).collect();
        format!("pairs: {}\n", counts.join(", "))
    }

    /// The words that occur and do not explain themselves.
    pub(super) fn legend(&self) -> String {
        let mut text = String::new();
        if self.count(CellState::Never) > 0 {
            text.push_str("never: not measured yet\n");
        }
        if self.count(CellState::Stale) > 0 {
            let seconds = self.view.stale_after_seconds;
            text.push_str(&format!("stale: last measured more than {seconds:.0} s ago\n"));
        }
        let lossy = self.lossy().len();
        if lossy > 0 {
            text.push_str(&format!("!: loses pings ({lossy} pairs)\n"));
        }
        if text.is_empty() { text } else { format!("\n{text}") }
    }

    /// The fresh pairs that lose pings, with the share that they lose, the worst first.
    pub(super) fn lossy(&self) -> Vec<(f64, usize, usize)> {
        let fresh = self.pairs().filter(|&(row, column)| self.state(row, column) == Some(CellState::Fresh));
        let mut lossy: Vec<_> =
            fresh.filter_map(|(row, column)| Some((self.loss(row, column)?, row, column))).collect();
        lossy.sort_by(|a, b| b.0.total_cmp(&a.0));
        lossy
    }
}

/// As much of each name as tells it from the others: NODE, NODE/DEVICE or all of it, the same for the whole table.
fn short_names(full: &[String]) -> Vec<String> {
    for parts in [1, 2] {
        let short: Vec<String> = full
            .iter()
            .map(|name| plain(&name.split('/').take(parts).collect::<Vec<_>>().join("/")))
            .collect();
        let mut seen = BTreeMap::new();
        for name in &short {
            *seen.entry(name).or_insert(0) += 1;
        }
        if seen.values().all(|count| *count == 1) {
            return short;
        }
    }
    full.iter().map(|name| plain(name)).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Three endpoints: one pair fresh, one stale, one failed, one excluded, two never measured.
    pub(in crate::matrix) fn view() -> MatrixView {
        MatrixView {
            metric: "latency".to_owned(),
            unit: "ns".to_owned(),
            method: "rc_half_rtt".to_owned(),
            clock: "sw".to_owned(),
            revision: 7,
            generated_at: "2026-11-29T17:43:47.172Z".to_owned(),
            coverage_seconds: None,
            stale_after_seconds: 390.0,
            median: Some(8_210),
            endpoints: ["a/rxe0/1", "b/rxe0/1", "c/rxe0/1"].map(str::to_owned).to_vec(),
            legend: BTreeMap::new(),
            state: ["-fs", "x-e", "nn-"].map(str::to_owned).to_vec(),
            p50_ns: Some(vec![vec![None, Some(8_210), Some(24_630)], vec![None; 3], vec![None; 3]]),
            p99_ns: Some(vec![vec![None, Some(31_694), None], vec![None; 3], vec![None; 3]]),
            average_bits_per_second: None,
            loss_ratio: None,
            measured_at_ms: Vec::new(),
            causes: Vec::new(),
            causes_left_out: 0,
            cause_texts: BTreeMap::new(),
        }
    }

    /// The same with bandwidth: 4 Gbit/s in the middle, and a pair with an eighth of it.
    pub(in crate::matrix) fn rates() -> MatrixView {
        let row = vec![None, Some(4_000_000_000), Some(500_000_000)];
        MatrixView {
            metric: "bandwidth".to_owned(),
            state: ["-ff", "x-e", "nn-"].map(str::to_owned).to_vec(),
            median: Some(4_000_000_000),
            average_bits_per_second: Some(vec![row, vec![None; 3], vec![None; 3]]),
            p50_ns: None,
            p99_ns: None,
            ..view()
        }
    }

    /// The same with pings, of which some are lost.
    pub(in crate::matrix) fn pings() -> MatrixView {
        MatrixView {
            metric: "ping".to_owned(),
            state: ["-fs", "f-e", "nn-"].map(str::to_owned).to_vec(),
            p50_ns: Some(vec![
                vec![None, Some(8_210), Some(24_630)],
                vec![Some(9_000), None, None],
                vec![None; 3],
            ]),
            p99_ns: None,
            loss_ratio: Some(vec![
                vec![None, Some(0.05), Some(0.5)],
                vec![Some(0.25), None, None],
                vec![None; 3],
            ]),
            ..view()
        }
    }

    #[test]
    fn names_are_as_short_as_they_can_be_told_apart() {
        let short =
            |full: &[&str]| short_names(&full.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(short(&["a/x/1", "b/x/1"]), ["a", "b"]);
        assert_eq!(short(&["a/x/1", "a/y/1", "b/x/1"]), ["a/x", "a/y", "b/x"]);
        assert_eq!(short(&["a/x/1", "a/x/2"]), ["a/x/1", "a/x/2"]);
    }

    #[test]
    fn a_pair_is_marked_by_its_state_its_loss_and_its_speed() {
        let marks = |view: &MatrixView| {
            let grid = Grid::new(view);
            grid.pairs().map(|(row, column)| grid.mark(row, column).shape()).collect::<String>()
        };
        assert_eq!(marks(&view()), " .~X /?? ");
        assert_eq!(marks(&rates()), " .#X /?? ", "the smaller the rate, the worse");
        assert_eq!(marks(&pings()), " !~! /?? ", "what is stale is not called lossy");
        let mut slow = view();
        slow.median = Some(4_000);
        assert_eq!(marks(&slow), " #~X /?? ");
        for (median, shape) in [(6_841, '+'), (5_473, '*'), (4_105, '#')] {
            slow.median = Some(median);
            assert_eq!(Grid::new(&slow).mark(0, 1).shape(), shape, "8,210 against {median}");
        }
        slow.median = None;
        assert_eq!(Grid::new(&slow).mark(0, 1), Mark::Usual, "one pair alone is not slow");
    }

    #[test]
    fn every_mark_has_a_shape_of_its_own() {
        let shapes: std::collections::BTreeSet<char> = Mark::ALL.iter().map(|mark| mark.shape()).collect();
        assert_eq!(shapes.len(), Mark::ALL.len());
    }

    #[test]
    fn pairs_that_lose_pings_come_in_order_without_what_is_stale() {
        let pings = pings();
        assert_eq!(Grid::new(&pings).lossy(), [(0.25, 1, 0), (0.05, 0, 1)]);
    }
}
