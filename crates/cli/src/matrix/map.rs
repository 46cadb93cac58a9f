//! The matrix as a map: one shape for each pair, or for the worst pair between two nodes or two leaves where all pairs do not fit.

use super::grid::{Grid, Mark};
use crate::columns::cut;
use crate::output::plain;
use crate::screen::{Screen, length, painted};
use std::collections::BTreeMap;

/// Longest name of a row; longer ones lose their middle.
const NAME_MAX: usize = 24;

/// What the rows and columns of a map stand for.
pub(super) struct Parts {
    /// In one word, for the heading.
    what: &'static str,
    names: Vec<String>,
    /// The part of each endpoint.
    of: Vec<usize>,
}

impl Parts {
    /// Each endpoint by itself.
    pub(super) fn endpoints(grid: &Grid<'_>) -> Self {
        Self { what: "endpoint", names: grid.names.clone(), of: (0..grid.len()).collect() }
    }

    /// All endpoints of a node together.
    pub(super) fn nodes(grid: &Grid<'_>) -> Self {
        let node = |name: &String| plain(name.split('/').next().unwrap_or(name));
        Self::by("node", grid.view.endpoints.iter().map(node).collect())
    }

    /// All endpoints on a leaf together; `None` where no two leaves are known.
    pub(super) fn leaves(grid: &Grid<'_>, leaf_of: &BTreeMap<String, String>) -> Option<Self> {
        let leaf = |name: &String| leaf_of.get(name).map_or("no leaf known".to_owned(), |leaf| plain(leaf));
        let leaves = Self::by("leaf", grid.view.endpoints.iter().map(leaf).collect());
        (leaves.names.len() > 1).then_some(leaves)
    }

    /// Parts in the order in which they are first met.
    fn by(what: &'static str, part_of: Vec<String>) -> Self {
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        let mut names = Vec::new();
        let of = part_of.into_iter().map(|name| {
            *numbers.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                names.len() - 1
            })
        });
        let of = of.collect();
        Self { what, names, of }
    }

    fn name_width(&self) -> usize {
        self.names.iter().map(|name| length(name)).max().unwrap_or(0).min(NAME_MAX)
    }

    fn digits(&self) -> usize {
        self.names.len().to_string().len()
    }

    /// Columns before the first shape.
    fn margin(&self) -> usize {
        self.digits() + 1 + self.name_width() + 2
    }

    /// Whether a map of it fits so many columns.
    pub(super) fn fits(&self, columns: usize) -> bool {
        self.margin() + self.names.len() <= columns
    }
}

/// The map with its heading and legend.
pub(super) fn draw(grid: &Grid<'_>, parts: &Parts, columns: usize, screen: Screen) -> String {
    let size = parts.names.len();
    let mut marks = vec![vec![Mark::None; size]; size];
    let mut counts: BTreeMap<Mark, usize> = BTreeMap::new();
    for (row, column) in grid.pairs() {
        let mark = grid.mark(row, column);
        *counts.entry(mark).or_default() += 1;
        let (Some(from), Some(to)) = (parts.of.get(row), parts.of.get(column)) else { continue };
        let worst = &mut marks[*from][*to];
        *worst = mark.max(*worst);
    }
    let figure = if grid.is_latency() { "p50 against the median" } else { "average against the median" };
    let mut text = grid.heading(figure);
    if size < grid.len() {
        text.push_str(&format!(
            "{} endpoints do not fit in {columns} columns (--csv and --json have them all): {} x {}, each shape is the worst of \
             its pairs\n\n",
            grid.len(),
            parts.what,
            parts.what
        ));
    }
    // A space between two shapes makes squares of them, where there is room.
    let between = if parts.margin() + 2 * size <= columns { " " } else { "" };
    text.push_str(&numbers_above(parts, between));
    let (digits, width) = (parts.digits(), parts.name_width());
    for (row, name) in parts.names.iter().enumerate() {
        let shapes: Vec<String> = marks[row]
            .iter()
            .map(|mark| painted(&mark.shape().to_string(), mark.tone(), screen.colour))
            .collect();
        let shapes = shapes.join(between);
        let line = format!("{:>digits$} {:<width$}  {shapes}", row + 1, cut(name, width));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text + "\n" + &legend(&counts, !grid.is_latency(), screen)
}

/// The numbers of the rows above the columns, from top to bottom.
fn numbers_above(parts: &Parts, between: &str) -> String {
    let (digits, margin) = (parts.digits(), parts.margin());
    let mut text = String::new();
    for digit in 0..digits {
        let letters = (1..=parts.names.len()).map(|number| {
            let number = format!("{number:>digits$}");
            number.chars().nth(digit).unwrap_or(' ').to_string()
        });
        let line = format!("{:margin$}{}", "", letters.collect::<Vec<_>>().join(between));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// What the shapes that occur say, and how many pairs have them.
fn legend(counts: &BTreeMap<Mark, usize>, of_rates: bool, screen: Screen) -> String {
    let there = |mark: &Mark| counts.get(mark).copied().filter(|count| *count > 0);
    let rows = Mark::ALL.into_iter().filter_map(|mark| there(&mark).map(|count| (mark, count)));
    rows.map(|(mark, count)| {
        let shape = painted(&mark.shape().to_string(), mark.tone(), screen.colour);
        let plural = if count == 1 { "pair" } else { "pairs" };
        format!("  {shape}  {:<30}{count:>8} {plural}\n", mark.words(of_rates))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::grid::tests::{rates, view};
    use super::*;

    #[test]
    fn each_pair_has_a_shape_and_the_legend_says_what_it_means() {
        let view = view();
        let grid = Grid::new(&view);
        assert_eq!(
            draw(&grid, &Parts::endpoints(&grid), 80, Screen::default()),
            "latency: p50 against the median, from row to column; median of all pairs 8.21 µs; as of 2026-11-29T17:43:47.172Z\n\
             \n     1 2 3\n\
             1 a    . ~\n\
             2 b  X   /\n\
             3 c  ? ?\n\
             \n\
             \u{20} .  less than 1.2 times the median       1 pair\n\
             \u{20} X  failed                               1 pair\n\
             \u{20} ~  stale: measured too long ago         1 pair\n\
             \u{20} ?  never measured                       2 pairs\n\
             \u{20} /  excluded: not probed                 1 pair\n"
        );
        let rates = rates();
        let grid = Grid::new(&rates);
        let text = draw(&grid, &Parts::endpoints(&grid), 80, Screen::default());
        assert!(text.contains("  #  50 % of the median or less"), "{text}");
    }

    #[test]
    fn colour_comes_on_top_of_the_shape() {
        let view = view();
        let grid = Grid::new(&view);
        let text = draw(&grid, &Parts::endpoints(&grid), 80, Screen { columns: Some(80), colour: true });
        assert!(text.contains("\x1b[1;38;5;166mX\x1b[0m"), "{text}");
    }

    /// Twelve nodes of two ports on three leaves; one pair has failed.
    fn many() -> rdmascope_expose::api::MatrixView {
        let mut view = view();
        let node = |n: usize| format!("node-{:02}", n / 2);
        view.endpoints = (0..24).map(|n| format!("{}/mlx5_{}/1", node(n), n % 2)).collect();
        let row = |own: usize| (0..24).map(|n| if n == own { '-' } else { 'f' }).collect::<String>();
        view.state = (0..24).map(row).collect();
        view.state[3].replace_range(20..21, "x");
        view.p50_ns = Some(vec![vec![Some(8_210); 24]; 24]);
        view
    }

    #[test]
    fn what_does_not_fit_is_folded_to_nodes_and_then_to_leaves_with_their_worst_pair() {
        let view = many();
        let grid = Grid::new(&view);
        let (endpoints, nodes) = (Parts::endpoints(&grid), Parts::nodes(&grid));
        assert!(endpoints.fits(80) && !endpoints.fits(36) && nodes.fits(36) && !nodes.fits(20));
        let text = draw(&grid, &nodes, 36, Screen::default());
        assert!(
            text.contains("\n 2 node-01  . . . . . . . . . . X .\n")
                || text.contains("\n 2 node-01  ..........X.\n"),
            "{text}"
        );
        assert!(
            text.contains("24 endpoints do not fit in 36 columns") && text.contains("node x node"),
            "{text}"
        );
        assert!(
            text.contains("  X  failed                               1 pair\n"),
            "pairs are counted, not shapes: {text}"
        );

        let leaf_of = |endpoint: &String| {
            let node: usize = endpoint[5..7].parse().unwrap();
            (endpoint.clone(), format!("leaf-{}", node / 4))
        };
        let leaf_of: BTreeMap<_, _> = view.endpoints.iter().map(leaf_of).collect();
        let leaves = Parts::leaves(&grid, &leaf_of).unwrap();
        assert!(leaves.fits(20));
        let text = draw(&grid, &leaves, 20, Screen::default());
        assert!(text.contains("\n1 leaf-0  . . X\n2 leaf-1  . . .\n3 leaf-2  . . .\n"), "{text}");
        assert!(Parts::leaves(&grid, &BTreeMap::new()).is_none(), "one group of everybody is no map");
    }

    #[test]
    fn long_names_lose_their_middle_and_not_the_map() {
        let mut view = many();
        view.endpoints = (0..24).map(|n| format!("{}-{n:02}/mlx5_0/1", "long".repeat(20))).collect();
        let grid = Grid::new(&view);
        let parts = Parts::endpoints(&grid);
        assert!(parts.fits(60));
        let text = draw(&grid, &parts, 60, Screen::default());
        let map = text.lines().skip(2).take(26);
        assert!(map.clone().all(|line| length(line) <= 60), "{text}");
        assert!(text.contains("\n 7 longlonglon…glonglong-06  "), "{text}");
    }
}
