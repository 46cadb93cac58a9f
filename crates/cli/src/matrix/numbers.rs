//! The matrix as a table of numbers, where that fits: the most telling layout that does.

use super::grid::Grid;
use crate::screen::{Screen, length, painted};
use rdmascope_expose::api::CellState;

/// Spaces between columns.
const GAP: usize = 2;

/// What fits.
pub(super) struct Layout {
    /// The 99th percentile stands behind the median.
    tails: bool,
    /// Columns are headed by the numbers of rows, not by names.
    numbered: bool,
}

/// The first of the layouts, the most telling first, that fits so many columns.
pub(super) fn layout(grid: &Grid<'_>, columns: usize) -> Option<Layout> {
    // A column has at least one character and its gap: no need to look at the cells of a very large matrix.
    if grid.len() * (GAP + 1) > columns {
        return None;
    }
    let has_tails = grid.view.p99_ns.is_some();
    [(true, false), (false, false), (true, true), (false, true)]
        .into_iter()
        .filter(|(tails, _)| has_tails || !tails)
        .map(|(tails, numbered)| Layout { tails, numbered })
        .find(|layout| {
            let cells: usize = widths(grid, layout).iter().map(|width| width + GAP).sum();
            row_width(grid, layout) + cells <= columns
        })
}

/// The table with its heading and legend.
pub(super) fn draw(grid: &Grid<'_>, layout: &Layout, screen: Screen) -> String {
    let what = match (grid.is_latency(), layout.tails) {
        (true, true) => "p50/p99",
        (true, false) => "p50",
        (false, _) => "average",
    };
    let mut text = grid.heading(&format!("{what} in {}", grid.unit.as_str()));
    let (first, widths) = (row_width(grid, layout), widths(grid, layout));
    text.push_str(&" ".repeat(first));
    for (column, width) in widths.iter().enumerate() {
        text.push_str(&format!("{:>1$}", column_name(grid, column, layout), width + GAP));
    }
    for row in 0..grid.len() {
        text.push_str(&format!("\n{:<first$}", row_name(grid, row, layout)));
        for (column, width) in widths.iter().enumerate() {
            let cell = cell(grid, row, column, layout.tails);
            text.push_str(&" ".repeat(width + GAP - length(&cell)));
            text.push_str(&painted(&cell, grid.mark(row, column).tone(), screen.colour));
        }
    }
    text + "\n" + &grid.legend()
}

fn cell(grid: &Grid<'_>, row: usize, column: usize, tails: bool) -> String {
    let Some(state) = grid.state(row, column) else { return "-".to_owned() };
    let Some(value) = grid.value(row, column) else { return state.as_str().to_owned() };
    let mut text = grid.unit.number(value);
    let p99 = grid.view.p99_ns.as_ref().and_then(|rows| *rows.get(row)?.get(column)?);
    if let Some(p99) = p99.filter(|_| tails) {
        text = format!("{text}/{}", grid.unit.number(p99));
    }
    if grid.loss(row, column).is_some() {
        text.push('!');
    }
    if state == CellState::Fresh { text } else { format!("{text} {}", state.as_str()) }
}

fn widths(grid: &Grid<'_>, layout: &Layout) -> Vec<usize> {
    let width = |column| {
        let cells = (0..grid.len()).map(|row| length(&cell(grid, row, column, layout.tails)));
        cells.max().unwrap_or(0).max(length(&column_name(grid, column, layout)))
    };
    (0..grid.len()).map(width).collect()
}

fn column_name(grid: &Grid<'_>, column: usize, layout: &Layout) -> String {
    if layout.numbered { (column + 1).to_string() } else { grid.names[column].clone() }
}

fn row_name(grid: &Grid<'_>, row: usize, layout: &Layout) -> String {
    let digits = grid.len().to_string().len();
    if layout.numbered {
        format!("{:>digits$} {}", row + 1, grid.names[row])
    } else {
        grid.names[row].clone()
    }
}

fn row_width(grid: &Grid<'_>, layout: &Layout) -> usize {
    (0..grid.len()).map(|row| length(&row_name(grid, row, layout))).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::grid::tests::{pings, view};
    use super::*;
    use rdmascope_expose::api::MatrixView;

    fn drawn(view: &MatrixView, columns: usize) -> Option<String> {
        let grid = Grid::new(view);
        layout(&grid, columns).map(|layout| draw(&grid, &layout, Screen::default()))
    }

    #[test]
    fn states_are_words_and_figures_have_their_tail() {
        assert_eq!(
            drawn(&view(), 80).unwrap(),
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
        let narrow = drawn(&view(), 30).unwrap();
        assert!(narrow.contains("8.21") && !narrow.contains("31.7"), "{narrow}");
        let mut long = view();
        long.endpoints = (1..=3).map(|n| format!("a-node-with-a-long-name-{n}/rxe0/1")).collect();
        let numbered = drawn(&long, 64).unwrap();
        assert!(numbered.contains("1 a-node-with-a-long-name-1       -"), "{numbered}");
        assert_eq!(drawn(&view(), 20), None);
    }

    #[test]
    fn pairs_that_lose_pings_are_marked() {
        let mut pings = pings();
        let text = drawn(&pings, 80).unwrap();
        assert!(text.contains("8.21!") && text.contains("24.6! stale"), "{text}");
        assert!(text.contains("!: loses pings (2 pairs)"), "what is stale is not counted: {text}");
        pings.loss_ratio = Some(vec![vec![Some(0.0); 3]; 3]);
        assert!(!drawn(&pings, 80).unwrap().contains('!'), "none lost is no loss");
    }

    #[test]
    fn colours_cost_no_column() {
        let view = view();
        let grid = Grid::new(&view);
        let layout = layout(&grid, 80).unwrap();
        let coloured = draw(&grid, &layout, Screen { columns: Some(80), colour: true });
        let plain = draw(&grid, &layout, Screen::default());
        assert!(coloured.contains("\x1b[1;38;5;166mfailed\x1b[0m"), "{coloured}");
        assert!(coloured.lines().zip(plain.lines()).all(|(a, b)| length(a) == length(b)), "{coloured}");
    }

    #[test]
    fn an_answer_with_rows_missing_draws_what_is_there() {
        let mut cut = view();
        cut.state.truncate(1);
        cut.p50_ns = Some(Vec::new());
        assert!(drawn(&cut, 80).unwrap().contains("stale"));
    }
}
