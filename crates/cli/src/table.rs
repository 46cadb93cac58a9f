//! The matrix in a terminal: a table while it fits, else a list of the worst pairs; states are words.

use crate::figures::{Unit, loss, ratio};
use crate::output::plain;
use rdmascope_expose::api::{CellState, MatrixView};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Pairs in the list of the worst.
const WORST_MAX: usize = 20;
/// Spaces between columns.
const GAP: usize = 2;

/// Draws the matrix in so many columns.
pub(crate) fn draw(view: &MatrixView, columns: usize) -> String {
    let grid = Grid::new(view);
    let layout = grid.layout(columns);
    let mut text = grid.heading(layout.as_ref().is_some_and(|layout| layout.tails));
    match layout {
        Some(layout) => text.push_str(&grid.table(&layout)),
        None => text.push_str(&grid.worst(columns)),
    }
    text + &grid.legend()
}

/// What fits.
struct Layout {
    /// The 99th percentile stands behind the median.
    tails: bool,
    /// Columns are headed by the numbers of rows, not by names.
    numbered: bool,
}

struct Grid<'a> {
    view: &'a MatrixView,
    names: Vec<String>,
    unit: Unit,
}

impl<'a> Grid<'a> {
    fn new(view: &'a MatrixView) -> Self {
        let rates = view.average_bits_per_second.iter().flatten().flatten().flatten();
        let unit = match view.average_bits_per_second {
            Some(_) => Unit::of_rates(rates.copied().max().unwrap_or(u64::MAX)),
            None => Unit::Microseconds,
        };
        Self { view, names: short_names(&view.endpoints), unit }
    }

    fn len(&self) -> usize {
        self.names.len()
    }

    fn is_latency(&self) -> bool {
        self.view.p50_ns.is_some()
    }

    fn state(&self, row: usize, column: usize) -> Option<CellState> {
        let letter = self.view.state.get(row)?.as_bytes().get(column)?;
        CellState::from_letter(char::from(*letter))
    }

    fn value(&self, row: usize, column: usize) -> Option<u64> {
        let rows = self.view.p50_ns.as_ref().or(self.view.average_bits_per_second.as_ref());
        *rows?.get(row)?.get(column)?
    }

    fn loss(&self, row: usize, column: usize) -> Option<f64> {
        let rows = self.view.loss_ratio.as_ref()?;
        rows.get(row)?.get(column).copied()?.filter(|loss| *loss > 0.0)
    }

    fn cell(&self, row: usize, column: usize, tails: bool) -> String {
        let Some(state) = self.state(row, column) else { return "-".to_owned() };
        let Some(value) = self.value(row, column) else { return state.as_str().to_owned() };
        let mut text = self.unit.number(value);
        let p99 = self.view.p99_ns.as_ref().and_then(|rows| *rows.get(row)?.get(column)?);
        if let Some(p99) = p99.filter(|_| tails) {
            text = format!("{text}/{}", self.unit.number(p99));
        }
        if self.loss(row, column).is_some() {
            text.push('!');
        }
        if state == CellState::Fresh { text } else { format!("{text} {}", state.as_str()) }
    }

    fn heading(&self, tails: bool) -> String {
        let what = match (self.is_latency(), tails) {
            (true, true) => "p50/p99",
            (true, false) => "p50",
            (false, _) => "average",
        };
        let median = self.view.median.map_or("none yet".to_owned(), |median| self.unit.show(median));
        format!(
            "{}: {what} in {}, from row to column; median of all pairs {median}; as of {}\n\n",
            plain(&self.view.metric),
            self.unit.as_str(),
            plain(&self.view.generated_at)
        )
    }

    /// The first of the layouts, the most telling first, that fits.
    fn layout(&self, columns: usize) -> Option<Layout> {
        // A column has at least one character and its gap: no need to look at the cells of a very large matrix.
        if self.len() * (GAP + 1) > columns {
            return None;
        }
        let has_tails = self.view.p99_ns.is_some();
        [(true, false), (false, false), (true, true), (false, true)]
            .into_iter()
            .filter(|(tails, _)| has_tails || !tails)
            .map(|(tails, numbered)| Layout { tails, numbered })
            .find(|layout| {
                let cells: usize = self.widths(layout).iter().map(|width| width + GAP).sum();
                self.row_width(layout) + cells <= columns
            })
    }

    fn widths(&self, layout: &Layout) -> Vec<usize> {
        let width = |column| {
            let cells = (0..self.len()).map(|row| length(&self.cell(row, column, layout.tails)));
            cells.max().unwrap_or(0).max(length(&self.column_name(column, layout)))
        };
        (0..self.len()).map(width).collect()
    }

    fn column_name(&self, column: usize, layout: &Layout) -> String {
        if layout.numbered { (column + 1).to_string() } else { self.names[column].clone() }
    }

    fn row_name(&self, row: usize, layout: &Layout) -> String {
        let digits = self.len().to_string().len();
        if layout.numbered {
            format!("{:>digits$} {}", row + 1, self.names[row])
        } else {
            self.names[row].clone()
        }
    }

    fn row_width(&self, layout: &Layout) -> usize {
        (0..self.len()).map(|row| length(&self.row_name(row, layout))).max().unwrap_or(0)
    }

    fn table(&self, layout: &Layout) -> String {
        let (first, widths) = (self.row_width(layout), self.widths(layout));
        let mut text = " ".repeat(first);
        for (column, width) in widths.iter().enumerate() {
            text.push_str(&format!("{:>1$}", self.column_name(column, layout), width + GAP));
        }
        for row in 0..self.len() {
            text.push_str(&format!("\n{:<first$}", self.row_name(row, layout)));
            for (column, width) in widths.iter().enumerate() {
                text.push_str(&format!("{:>1$}", self.cell(row, column, layout.tails), width + GAP));
            }
        }
        text + "\n"
    }

    /// Pairs of a state.
    fn count(&self, state: CellState) -> usize {
        let letter = state.letter();
        self.view.state.iter().map(|row| row.chars().filter(|c| *c == letter).count()).sum()
    }

    fn worst(&self, columns: usize) -> String {
        let counts: Vec<String> =
            CellState::ALL.iter().map(|state| format!("{} {}", self.count(*state), state.as_str())).collect();
        let mut text = format!(
            "{} endpoints are too many for a table in {columns} columns (--csv and --json have them all).\n\
             pairs: {}\n\n",
            self.len(),
            counts.join(", ")
        );
        let mut measured: Vec<(u64, usize, usize)> = (0..self.len())
            .flat_map(|row| (0..self.len()).map(move |column| (row, column)))
            .filter_map(|(row, column)| Some((self.value(row, column)?, row, column)))
            .collect();
        if self.is_latency() {
            measured.sort_unstable_by_key(|pair| Reverse(pair.0));
        } else {
            measured.sort_unstable();
        }
        measured.truncate(WORST_MAX);
        text.push_str(&format!("the slowest {}:\n", measured.len()));
        for (value, row, column) in measured {
            let to_median = self.view.median.filter(|median| *median > 0);
            let to_median = to_median.map(|median| format!(", {}", ratio(value as f64 / median as f64)));
            let lost = self.loss(row, column).map(|share| format!(", {}", loss(share)));
            text.push_str(&format!(
                "  {:>7} {}  {} -> {}{}{}\n",
                self.unit.number(value),
                self.unit.as_str(),
                plain(&self.view.endpoints[row]),
                plain(&self.view.endpoints[column]),
                to_median.unwrap_or_default(),
                lost.unwrap_or_default()
            ));
        }
        text
    }

    /// The words that occur and do not explain themselves.
    fn legend(&self) -> String {
        let mut text = String::new();
        if self.count(CellState::Never) > 0 {
            text.push_str("never: not measured yet\n");
        }
        if self.count(CellState::Stale) > 0 {
            let seconds = self.view.stale_after_seconds;
            text.push_str(&format!("stale: last measured more than {seconds:.0} s ago\n"));
        }
        let lossy = lossy(self.view).len();
        if lossy > 0 {
            text.push_str(&format!("!: loses pings ({lossy} pairs)\n"));
        }
        if text.is_empty() { text } else { format!("\n{text}") }
    }
}

/// The fresh pairs that lose pings, with the share that they lose, the worst first.
pub(crate) fn lossy(view: &MatrixView) -> Vec<(f64, usize, usize)> {
    let grid = Grid::new(view);
    let pairs = (0..grid.len()).flat_map(|row| (0..grid.len()).map(move |column| (row, column)));
    let fresh = pairs.filter(|&(row, column)| grid.state(row, column) == Some(CellState::Fresh));
    let mut lossy: Vec<_> =
        fresh.filter_map(|(row, column)| Some((grid.loss(row, column)?, row, column))).collect();
    lossy.sort_by(|a, b| b.0.total_cmp(&a.0));
    lossy
}

/// Characters, for columns: names and numbers have no wide ones.
fn length(text: &str) -> usize {
    text.chars().count()
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
mod tests {
    use super::*;

    /// Three endpoints: one pair fresh, one stale, one failed, one excluded, two never measured.
    fn view() -> MatrixView {
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

    #[test]
    fn states_are_words_and_figures_have_their_tail() {
        assert_eq!(
            draw(&view(), 80),
            "latency: p50/p99 in µs, from row to column; median of all pairs 8.21 µs; as of 2026-11-29T17:43:47.172Z\n\
             \n        a          b           c\n\
             a       -  8.21/31.7  24.6 stale\n\
             b  failed          -    excluded\n\
             c   never      never           -\n\
             \n\
             never: not measured yet\n\
             stale: last measured more than 390 s ago\n"
        );
    }

    #[test]
    fn where_room_is_short_the_tail_goes_first_and_then_the_names() {
        let narrow = draw(&view(), 30);
        assert!(narrow.contains("8.21") && !narrow.contains("31.7"), "{narrow}");
        let mut long = view();
        long.endpoints = (1..=3).map(|n| format!("a-node-with-a-long-name-{n}/rxe0/1")).collect();
        let numbered = draw(&long, 64);
        assert!(numbered.contains("1 a-node-with-a-long-name-1       -"), "{numbered}");
    }

    #[test]
    fn a_matrix_that_does_not_fit_becomes_a_list_of_the_worst() {
        let list = draw(&view(), 20);
        assert!(list.contains("pairs: 1 fresh, 1 stale, 2 never, 1 failed, 1 excluded"), "{list}");
        let first = list.lines().position(|line| line.contains("24.6 µs  a/rxe0/1 -> c/rxe0/1, 3.00 times"));
        let second = list.lines().position(|line| line.contains("8.21 µs  a/rxe0/1 -> b/rxe0/1, 1.00 times"));
        assert!(first.is_some() && first < second, "{list}");
    }

    #[test]
    fn the_worst_bandwidth_is_the_smallest() {
        let mut rates = view();
        rates.median = Some(4_000_000_000);
        rates.average_bits_per_second = rates
            .p50_ns
            .take()
            .map(|_| vec![vec![None, Some(4_000_000_000), Some(500_000_000)], vec![None; 3], vec![None; 3]]);
        rates.p99_ns = None;
        let list = draw(&rates, 20);
        let first =
            list.lines().position(|line| line.contains("0.50 Gbit/s  a/rxe0/1 -> c/rxe0/1, 0.12 times"));
        let second = list.lines().position(|line| line.contains("4.00 Gbit/s  a/rxe0/1 -> b/rxe0/1"));
        assert!(first.is_some() && first < second, "{list}");
    }

    #[test]
    fn pairs_that_lose_pings_are_marked_and_the_worst_comes_first() {
        let mut pings = view();
        pings.state = ["-fs", "f-e", "nn-"].map(str::to_owned).to_vec();
        pings.p50_ns =
            Some(vec![vec![None, Some(8_210), Some(24_630)], vec![Some(9_000), None, None], vec![None; 3]]);
        pings.p99_ns = None;
        pings.loss_ratio =
            Some(vec![vec![None, Some(0.05), Some(0.5)], vec![Some(0.25), None, None], vec![None; 3]]);
        let text = draw(&pings, 80);
        assert!(text.contains("8.21!") && text.contains("24.6! stale"), "{text}");
        assert!(text.contains("!: loses pings (2 pairs)"), "what is stale is not counted: {text}");
        assert_eq!(lossy(&pings), [(0.25, 1, 0), (0.05, 0, 1)]);
        assert!(draw(&pings, 20).contains("times the median, 5.00 % lost"), "{}", draw(&pings, 20));
        pings.loss_ratio = Some(vec![vec![Some(0.0); 3]; 3]);
        assert!(!draw(&pings, 80).contains('!'), "none lost is no loss");
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
    fn an_answer_with_rows_missing_draws_what_is_there() {
        let mut cut = view();
        cut.state.truncate(1);
        cut.p50_ns = Some(Vec::new());
        assert!(draw(&cut, 80).contains("stale"));
    }
}
