//! `rdmascope matrix`: the whole matrix for people, and as the API has it for programs.

mod grid;
mod map;
mod numbers;
mod worst;

use crate::arguments::{MatrixFlags, OneMetric};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{plain, print_answer, show};
use crate::screen::{Screen, screen};
use crate::{figures, pause, reasons};
use grid::Grid;
use map::Parts;
use rdmascope_expose::api::{EndpointList, MatrixCause, MatrixView, PairView, PauseLevel, StatusView};
use std::collections::BTreeMap;

/// Columns of a drawing where nobody looks at it directly (a pipe, a file).
const COLUMNS_ELSEWHERE: usize = 240;

/// Pairs with loss that are told in words.
const LOSSY_MAX: usize = 8;

/// Pairs in the list of the worst, where nothing can be drawn; and below a map, which has no figures.
const WORST: usize = 20;
const WORST_BELOW_MAP: usize = 5;

/// Runs it.
pub(crate) fn run(flags: &MatrixFlags) -> Result<u8, Failure> {
    let client = Client::new(&flags.at)?;
    let metric = match flags.metric {
        OneMetric::Latency => "latency",
        OneMetric::Bandwidth => "bandwidth",
        OneMetric::Ping => "ping",
    };
    if flags.json || flags.csv {
        let format = if flags.json { "json" } else { "csv" };
        print_answer(&client.text(&format!("/api/v1/matrix?metric={metric}&format={format}"))?)?;
        return Ok(0);
    }
    let view: MatrixView = client.get(&format!("/api/v1/matrix?metric={metric}"))?;
    let status: StatusView = client.get("/api/v1/status")?;
    show(&(for_people(&client, flags, &view)? + &notes(&status)))?;
    Ok(0)
}

fn for_people(client: &Client, flags: &MatrixFlags, view: &MatrixView) -> Result<String, Failure> {
    if view.endpoints.is_empty() {
        return Ok(client.no_agents());
    }
    let evidence = |row: &MatrixCause| {
        // The cause may be gone by now, and the coordinator too: the rest is still worth showing.
        let pair: PairView = client.get(&pair_path(&row.source, &row.target)).ok()?;
        let failure = match flags.metric {
            OneMetric::Latency => pair.latency.failure,
            OneMetric::Bandwidth => pair.bandwidth.failure,
            OneMetric::Ping => pair.ping.failure,
        };
        failure.filter(|failure| failure.cause == row.cause).map(|failure| failure.evidence)
    };
    let grid = Grid::new(view);
    let drawn = draw(&grid, flags, || leaves(client), screen())?;
    Ok(drawn + &lossy(client, &grid) + &reasons::words(view, evidence))
}

/// The leaf of each endpoint that has one.
fn leaves(client: &Client) -> Result<BTreeMap<String, String>, Failure> {
    let list: EndpointList = client.get("/api/v1/endpoints")?;
    Ok(list
        .endpoints
        .into_iter()
        .filter_map(|endpoint| Some((endpoint.name, endpoint.place.leaf?)))
        .collect())
}

/// The most telling form that fits: numbers, a map of endpoints, of nodes, of leaves, else the worst pairs.
fn draw(
    grid: &Grid<'_>,
    flags: &MatrixFlags,
    leaves: impl FnOnce() -> Result<BTreeMap<String, String>, Failure>,
    screen: Screen,
) -> Result<String, Failure> {
    let columns = screen.columns.unwrap_or(COLUMNS_ELSEWHERE);
    if let Some(at_most) = flags.worst {
        let figure = if grid.is_latency() { "p50" } else { "average" };
        return Ok(grid.heading(figure) + &grid.counts() + "\n" + &worst::list(grid, at_most.into(), screen));
    }
    if let Some(layout) = numbers::layout(grid, columns).filter(|_| !flags.map) {
        return Ok(numbers::draw(grid, &layout, screen));
    }
    let mut parts = Some(Parts::endpoints(grid)).filter(|parts| parts.fits(columns));
    parts = parts.or_else(|| Some(Parts::nodes(grid)).filter(|parts| parts.fits(columns)));
    if parts.is_none() {
        parts = Parts::leaves(grid, &leaves()?).filter(|parts| parts.fits(columns));
    }
    Ok(match parts {
        Some(parts) => {
            map::draw(grid, &parts, columns, screen) + "\n" + &worst::list(grid, WORST_BELOW_MAP, screen)
        }
        None => format!(
            "{} endpoints are too many to be drawn in {columns} columns (--csv and --json have them all).\n{}\n{}{}",
            grid.len(),
            grid.counts(),
            worst::list(grid, WORST, screen),
            grid.legend()
        ),
    })
}

/// The pairs that lose most, each with what its pings say of it.
fn lossy(client: &Client, grid: &Grid<'_>) -> String {
    let mut text = String::new();
    let pairs = grid.lossy();
    for (loss, source, target) in pairs.iter().take(LOSSY_MAX) {
        let name = |index: usize| grid.view.endpoints.get(index).map_or("", String::as_str);
        let (source, target) = (name(*source), name(*target));
        text.push_str(&format!("\nloss: {} -> {}, {}\n", plain(source), plain(target), figures::loss(*loss)));
        // The pair may be fine by now, and the coordinator gone: the rest is still worth showing.
        let pair: Option<PairView> = client.get(&pair_path(source, target)).ok();
        for verdict in pair.iter().flat_map(|pair| &pair.verdicts) {
            text.push_str(&reasons::verdict(verdict));
        }
    }
    if pairs.len() > LOSSY_MAX {
        text.push_str(&format!("and {} more pairs with loss\n", pairs.len() - LOSSY_MAX));
    }
    text
}

/// What a reader of the matrix should know besides.
fn notes(status: &StatusView) -> String {
    let mut text = String::new();
    if status.paused.cluster != PauseLevel::None || !status.paused.nodes.is_empty() {
        text.push_str(&format!("\n{}", pause::words(&status.paused)));
    }
    if status.insecure {
        text.push_str("\nINSECURE: this coordinator lets anybody who reaches it start probes\n");
    }
    text
}

/// Where the API has a pair; the slashes of the names belong to the names.
fn pair_path(source: &str, target: &str) -> String {
    format!("/api/v1/pairs/{}/{}", source.replace('/', "%2F"), target.replace('/', "%2F"))
}

#[cfg(test)]
mod tests {
    use super::grid::tests::view;
    use super::*;
    use clap::Parser as _;

    fn drawn(view: &MatrixView, words: &[&str], columns: usize, leaves: &[(&str, &str)]) -> String {
        let command = ["rdmascope", "matrix"].iter().chain(words);
        let arguments = crate::arguments::Arguments::try_parse_from(command).unwrap();
        let crate::arguments::Command::Matrix(flags) = arguments.command else { panic!("not a matrix") };
        let leaves = leaves.iter().map(|(name, leaf)| ((*name).to_owned(), (*leaf).to_owned())).collect();
        let screen = Screen { columns: Some(columns), colour: false };
        draw(&Grid::new(view), &flags, || Ok(leaves), screen).unwrap()
    }

    #[test]
    fn the_most_telling_form_that_fits_is_drawn() {
        let mut view = view();
        assert!(drawn(&view, &[], 80, &[]).contains("8.21/31.7"), "numbers");
        let map = drawn(&view, &["--map"], 80, &[]);
        assert!(map.contains("\n2 b  X   /\n") && map.contains("\nthe slowest 2:\n"), "{map}");
        assert!(drawn(&view, &[], 18, &[]).contains("\n2 b  X   /\n"), "a map where numbers do not fit");
        let worst = drawn(&view, &["--worst", "1"], 80, &[]);
        assert!(worst.starts_with("latency: p50, from row to column"), "{worst}");
        assert!(worst.contains("1 failed") && worst.contains("the slowest 1:"), "{worst}");
        assert!(!worst.contains("8.21 µs  "), "{worst}");
        view.endpoints = ["a/x/1", "b/x/1", "b/y/1"].map(str::to_owned).to_vec();
        let leaves = [("a/x/1", "1"), ("b/x/1", "2"), ("b/y/1", "2")];
        assert!(drawn(&view, &[], 9, &leaves).contains("node x node"));
        view.endpoints = ["aaaaaa/x/1", "bbbbbb/x/1", "cccccc/y/1"].map(str::to_owned).to_vec();
        let leaves = [("aaaaaa/x/1", "1"), ("bbbbbb/x/1", "2"), ("cccccc/y/1", "2")];
        assert!(drawn(&view, &[], 9, &leaves).contains("leaf x leaf"));
        let list = drawn(&view, &[], 9, &[]);
        assert!(list.contains("too many to be drawn") && list.contains("the slowest 2:"), "{list}");
    }
}
