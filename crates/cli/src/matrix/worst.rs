//! The worst pairs of a matrix as a list.

use super::grid::Grid;
use crate::columns::{Cell, Columns};
use crate::figures::loss;
use crate::output::plain;
use crate::screen::Screen;
use rdmascope_expose::api::CellState;
use std::cmp::Reverse;

/// The slowest pairs of those that were measured, so many at most; failed ones have no figure and stand below, with their causes.
pub(super) fn list(grid: &Grid<'_>, at_most: usize, screen: Screen) -> String {
    let mut measured: Vec<(u64, usize, usize)> =
        grid.pairs().filter_map(|(row, column)| Some((grid.value(row, column)?, row, column))).collect();
    if grid.is_latency() {
        measured.sort_unstable_by_key(|pair| Reverse(pair.0));
    } else {
        measured.sort_unstable();
    }
    measured.truncate(at_most);
    if measured.is_empty() {
        return "no pair has a figure\n".to_owned();
    }
    let figure = if grid.is_latency() { "P50" } else { "AVERAGE" };
    let mut columns = Columns::new(&[figure, "/ MEDIAN", "SOURCE", "TARGET", "NOTE"], &[0, 1]);
    for (value, row, column) in &measured {
        let median = grid.view.median.filter(|median| *median > 0);
        let to_median =
            median.map_or("-".to_owned(), |median| format!("{:.2}", *value as f64 / median as f64));
        let stale = grid.state(*row, *column).filter(|state| *state != CellState::Fresh);
        let notes = [stale.map(|state| state.as_str().to_owned()), grid.loss(*row, *column).map(loss)];
        let name = |index: usize| plain(grid.view.endpoints.get(index).map_or("", String::as_str));
        columns.push([
            Cell::from(grid.unit.show(*value)).toned(grid.mark(*row, *column).tone()),
            to_median.into(),
            name(*row).into(),
            name(*column).into(),
            notes.into_iter().flatten().collect::<Vec<_>>().join(", ").into(),
        ]);
    }
    format!("the slowest {}:\n{}", measured.len(), columns.text(screen))
}

#[cfg(test)]
mod tests {
    use super::super::grid::tests::{pings, rates, view};
    use super::*;
    use crate::screen::length;

    #[test]
    fn the_slowest_comes_first() {
        let view = view();
        assert_eq!(
            list(&Grid::new(&view), 20, Screen::default()),
            "the slowest 2:\n\
             \u{20}   P50  / MEDIAN  SOURCE    TARGET    NOTE\n\
             24.6 µs      3.00  a/rxe0/1  c/rxe0/1  stale\n\
             8.21 µs      1.00  a/rxe0/1  b/rxe0/1\n"
        );
        let one = list(&Grid::new(&view), 1, Screen::default());
        assert!(one.contains("24.6 µs") && !one.contains("8.21 µs"), "{one}");
    }

    #[test]
    fn the_worst_bandwidth_is_the_smallest() {
        let rates = rates();
        let text = list(&Grid::new(&rates), 20, Screen::default());
        let first =
            text.lines().position(|line| line.starts_with("0.50 Gbit/s      0.12  a/rxe0/1  c/rxe0/1"));
        let second = text.lines().position(|line| line.starts_with("4.00 Gbit/s      1.00  a/rxe0/1"));
        assert!(first.is_some() && first < second, "{text}");
    }

    #[test]
    fn loss_stands_beside_the_figure_and_long_names_fit() {
        let mut pings = pings();
        assert!(list(&Grid::new(&pings), 3, Screen::default()).contains("b/rxe0/1  5.00 % lost"));
        pings.endpoints = (0..3).map(|n| format!("{}-{n}/mlx5_0/1", "long".repeat(20))).collect();
        let text = list(&Grid::new(&pings), 3, Screen { columns: Some(80), colour: true });
        assert!(text.lines().all(|line| length(line) <= 80), "{text}");
        let none = rdmascope_expose::api::MatrixView { p50_ns: Some(Vec::new()), ..view() };
        assert_eq!(list(&Grid::new(&none), 3, Screen::default()), "no pair has a figure\n");
    }
}
