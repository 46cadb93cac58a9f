//! `rdmascope history`: one pair over the last day, and why that is kept.

use crate::arguments::{CoordinatorAt, OneMetric};
use crate::client::Client;
use crate::client::escaped;
use crate::failure::Failure;
use crate::figures::Unit;
use crate::output::{plain, print};
use clap::Args;
use rdmascope_expose::api::{CellState, HistoryPoint, HistoryView, PinList};
use std::collections::BTreeMap;

/// Columns of a newcomer's terminal.
const COLUMNS: usize = 80;
/// Where the figures begin: behind the time, how long it was so, and the state.
const STATE_WIDTH: usize = 8;
/// What is said instead of figures takes the room of the state and of these.
const FIGURE_WIDTH: usize = 9;

/// Show one pair over the last day: since when it is slow, lossy or dead, and whether it was so before
///
/// The newest moments are of a minute each, older ones of a quarter of an hour; each tells the worst that was in it. The history of every
/// pair is kept up to 128 endpoints; above, that of the worst 1,000 pairs, of incidents, and of pinned pairs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope history node3 node4
  rdmascope history node3/mlx5_0/1 node4/mlx5_0/1 --metric bandwidth
  rdmascope history node3 node4 --pin    keeps it from now on")]
pub(crate) struct HistoryFlags {
    /// Endpoint that sends: NODE/DEVICE/PORT, or the start of it where that names one
    source: String,
    /// Endpoint that receives
    target: String,
    /// What to show [default: what is measured of the pair all the time]
    #[arg(long, value_enum)]
    metric: Option<OneMetric>,
    /// Keep the history of this pair from now on
    #[arg(long, conflicts_with_all = ["unpin", "metric", "json"])]
    pin: bool,
    /// Take that back
    #[arg(long, conflicts_with_all = ["metric", "json"])]
    unpin: bool,
    /// Print the JSON of the API
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: CoordinatorAt,
}

/// Runs it.
pub(crate) fn run(flags: &HistoryFlags) -> Result<u8, Failure> {
    let client = Client::new(&flags.at)?;
    let pair = format!("source={}&target={}", escaped(&flags.source), escaped(&flags.target));
    if flags.pin || flags.unpin {
        let list: PinList = client.set(&format!("/api/v1/history/pins?{pair}"), flags.pin)?;
        let what =
            if flags.pin { "is kept from now on" } else { "is no longer pinned; it stays for an hour" };
        let (source, target) = (plain(&flags.source), plain(&flags.target));
        print(&format!("the history of {source} -> {target} {what}\n{} pinned in all\n", list.pins.len()))?;
        return Ok(0);
    }
    let metric = flags.metric.map(|metric| match metric {
        OneMetric::Latency => "&metric=latency",
        OneMetric::Bandwidth => "&metric=bandwidth",
        OneMetric::Ping => "&metric=ping",
    });
    let path = format!("/api/v1/history?{pair}{}", metric.unwrap_or_default());
    if flags.json {
        print(&(client.text(&path)? + "\n"))?;
    } else {
        print(&words(&client.get(&path)?))?;
    }
    Ok(0)
}

fn words(view: &HistoryView) -> String {
    let (source, target, metric) = (plain(&view.source), plain(&view.target), plain(&view.metric));
    let table = Table::of(view);
    let what = format!("{metric}, in {}", table.unit.as_str());
    let whole = format!("{source} -> {target}: {what}\n");
    let fits = whole.chars().count() <= COLUMNS;
    let mut text = if fits { whole } else { format!("{source}\n-> {target}: {what}\n") };
    text.push_str(&format!("kept because {}\n", because(view)));
    if view.points.is_empty() {
        text.push_str(&format!(
            "\nno {metric} was measured of it within the last day\n  next step: rdmascope probe {source} {target} --metric {metric}\n"
        ));
        return text;
    }
    text.push_str(&table.head());
    view.points.iter().for_each(|point| text.push_str(&table.line(point)));
    let causes = view.points.iter().filter_map(|point| point.cause.as_ref().zip(point.text.as_ref()));
    let causes: BTreeMap<_, _> = causes.collect();
    if !causes.is_empty() {
        text.push('\n');
    }
    for (cause, meaning) in causes {
        text.push_str(&format!("{}: {}\n", plain(cause), plain(meaning)));
    }
    text
}

fn because(view: &HistoryView) -> String {
    let words = match view.kept_because.as_str() {
        "few-endpoints" => "there are few endpoints: every pair of 128 at most is kept",
        "incident" => "it shows an incident or a suspect, or was measured again for one",
        "worst" => "it is among the worst 1,000 pairs, or was within the hour",
        "pinned" => "somebody pinned it",
        other => other,
    };
    let until = view.kept_until.as_ref().map(|until| format!("\nkept until {} at least", second(until)));
    format!("{}{}", plain(words), until.unwrap_or_default())
}

/// A time without its milliseconds.
fn second(at: &str) -> String {
    let at = plain(at);
    at.split_once('.').map_or(at.clone(), |(seconds, _)| format!("{seconds}Z"))
}

/// Which figures there are, and in which unit.
struct Table {
    unit: Unit,
    /// Headings of the two columns of figures.
    heads: [&'static str; 2],
    pings: bool,
}

impl Table {
    fn of(view: &HistoryView) -> Self {
        let largest = view.points.iter().filter_map(|point| point.average).max();
        let (unit, heads) = match view.metric.as_str() {
            "bandwidth" => (Unit::of_rates(largest.unwrap_or(u64::MAX)), ["average", ""]),
            "latency" => (Unit::Microseconds, ["p50", "p99"]),
            _ => (Unit::Microseconds, ["p50", "max"]),
        };
        Self { unit, heads, pings: view.metric == "ping" }
    }

    fn head(&self) -> String {
        let [first, second] = self.heads;
        let lost = if self.pings { "lost/sent" } else { "" };
        let line = format!(
            "{:<20}  {:>4}  {:<STATE_WIDTH$}  {first:>FIGURE_WIDTH$}  {second:>FIGURE_WIDTH$}  {lost}",
            "time", "for", "state"
        );
        format!("\n{}\n", line.trim_end())
    }

    fn line(&self, point: &HistoryPoint) -> String {
        let number = |value: Option<u64>| value.map_or("-".to_owned(), |value| self.unit.number(value));
        let tail = point.p99.or(point.max);
        let middle = match (&point.cause, point.state) {
            (Some(cause), state) => {
                let width = STATE_WIDTH + 2 * (FIGURE_WIDTH + 2);
                format!("{:<width$}", format!("{}: {}", state.as_str(), plain(cause)))
            }
            (None, state) => {
                let tail = if self.heads[1].is_empty() { String::new() } else { number(tail) };
                // What was measured then was fresh then: that needs no word.
                let state = if state == CellState::Fresh { "ok" } else { state.as_str() };
                let headline = number(point.p50.or(point.average));
                format!("{state:<STATE_WIDTH$}  {headline:>FIGURE_WIDTH$}  {tail:>FIGURE_WIDTH$}")
            }
        };
        let lost = point.lost.zip(point.sent).map(|(lost, sent)| format!("{lost}/{sent}"));
        let line = format!(
            "{:<20}  {:>4}  {middle}  {}",
            second(&point.at),
            span(&point.at, &point.until),
            lost.unwrap_or_default()
        );
        let line: String = line.trim_end().chars().take(COLUMNS).collect();
        line + "\n"
    }
}

/// How long a span is: nothing for one moment.
fn span(at: &str, until: &str) -> String {
    let seconds = |text: &str| text.parse::<rdmascope_model::Wall>().map_or(0, |wall| wall.0 / 1_000);
    match seconds(until).saturating_sub(seconds(at)) {
        0 => String::new(),
        seconds if seconds < 60 => format!("{seconds}s"),
        seconds => format!("{}m", seconds / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(minute: u32, state: CellState) -> HistoryPoint {
        let at = format!("2026-11-30T14:{minute:02}:00.000Z");
        HistoryPoint::bare(at, format!("2026-11-30T14:{minute:02}:40.000Z"), state)
    }

    fn view(metric: &str, points: Vec<HistoryPoint>) -> HistoryView {
        HistoryView {
            source: "node3/mlx5_0/1".to_owned(),
            target: "node4/mlx5_0/1".to_owned(),
            metric: metric.to_owned(),
            unit: "ns".to_owned(),
            kept_because: "few-endpoints".to_owned(),
            kept_until: None,
            points,
        }
    }

    #[test]
    fn a_table_shows_since_when_a_pair_is_slow_and_dead_and_why_it_is_kept() {
        let fine = HistoryPoint {
            p50: Some(3_020),
            max: Some(9_100),
            sent: Some(60),
            lost: Some(0),
            ..point(5, CellState::Fresh)
        };
        let slow = HistoryPoint { p50: Some(31_400), lost: Some(3), ..point(6, CellState::Fresh) };
        let slow = HistoryPoint { max: Some(2_000_000), sent: Some(5_400), ..slow };
        let failed = HistoryPoint { sent: Some(60), lost: Some(60), ..point(7, CellState::Failed) };
        let failed = failed.with_cause(rdmascope_model::Cause::NoFirstByte);
        let text = words(&view("ping", vec![fine, slow, failed]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..7],
            [
                "node3/mlx5_0/1 -> node4/mlx5_0/1: ping, in µs",
                "kept because there are few endpoints: every pair of 128 at most is kept",
                "",
                "time                   for  state           p50        max  lost/sent",
                "2026-11-30T14:05:00Z   40s  ok             3.02       9.10  0/60",
                "2026-11-30T14:06:00Z   40s  ok             31.4       2000  3/5400",
                "2026-11-30T14:07:00Z   40s  failed: no-first-byte           60/60",
            ]
        );
        assert!(lines[8].starts_with("no-first-byte: "), "{text}");
    }

    #[test]
    fn no_line_of_the_table_is_longer_than_a_terminal() {
        let worst = |cause: rdmascope_model::Cause| HistoryPoint {
            sent: Some(u32::MAX),
            lost: Some(u32::MAX),
            ..point(9, CellState::Failed).with_cause(cause)
        };
        let points: Vec<_> = rdmascope_model::Cause::all().map(worst).collect();
        let table = Table::of(&view("ping", points.clone()));
        let longest = |text: &str| text.lines().map(|line| line.chars().count()).max();
        for point in &points {
            let line = table.line(point);
            assert!(longest(&line) <= Some(COLUMNS), "{line}");
            assert!(line.contains(point.cause.as_deref().unwrap()), "{line}");
        }
        for metric in ["latency", "bandwidth", "ping"] {
            let head = Table::of(&view(metric, Vec::new())).head();
            assert!(longest(&head) <= Some(COLUMNS), "{head}");
        }
    }

    #[test]
    fn where_nothing_was_measured_it_says_what_to_do() {
        let mut empty = view("bandwidth", Vec::new());
        empty.kept_because = "worst".to_owned();
        empty.kept_until = Some("2026-11-30T15:05:00.000Z".to_owned());
        let text = words(&empty);
        assert!(text.contains("kept until 2026-11-30T15:05:00Z at least"), "{text}");
        assert!(
            text.contains("next step: rdmascope probe node3/mlx5_0/1 node4/mlx5_0/1 --metric bandwidth"),
            "{text}"
        );
    }
}
