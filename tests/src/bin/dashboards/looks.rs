//! What every query of every panel answered, while all was well and after something broke; the table of it, and whether that is enough.

use super::variables;
use rdmascope_tests::dashboards::{Empty, Query, When, all, empty, panels, queries};
use rdmascope_tests::prometheus::{Prometheus, Series};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two looks.
const GLANCE: Duration = Duration::from_secs(2);

/// When was it looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing is wrong.
    Healthy,
    /// Something was broken.
    Broken,
}

/// A query and in which phases it had data.
struct Looked {
    query: Query,
    healthy: bool,
    broken: bool,
    /// What it last said instead.
    instead: String,
}

/// All of it.
pub(super) struct Looks {
    dashboards: Vec<Value>,
    empty: Vec<Empty>,
    place: When,
    looked: Vec<Looked>,
}

impl Looks {
    /// Of the dashboards in `folder`, with the list of those that may have no data.
    pub(super) fn new(folder: &Path, list: &Path, place: When) -> Self {
        let dashboards = all(folder);
        let looked =
            |query| Looked { query, healthy: false, broken: false, instead: "nobody looked".to_owned() };
        let looked = dashboards.iter().flat_map(queries).map(looked).collect();
        Self { dashboards, empty: empty(list).unwrap_or_else(|why| panic!("{why}")), place, looked }
    }

    fn reason(&self, query: &Query, when: When) -> Option<&Empty> {
        self.empty.iter().find(|entry| entry.is_about(query) && entry.when.contains(&when))
    }

    fn may_be_empty(&self, query: &Query, phase: Phase) -> bool {
        let healthy = phase == Phase::Healthy && self.reason(query, When::Healthy).is_some();
        healthy || self.reason(query, self.place).is_some()
    }

    /// Looks again and again until every query has had data that should, or the time is over. `between` runs before each look.
    pub(super) fn look_until_shown(
        &mut self,
        prometheus: &Prometheus,
        wished: &BTreeMap<String, String>,
        phase: Phase,
        limit: Duration,
        mut between: impl FnMut(),
    ) {
        let began = Instant::now();
        loop {
            between();
            self.look(prometheus, wished, phase);
            let missing = self.missing(phase);
            if missing == 0 || began.elapsed() > limit {
                let took = began.elapsed().as_secs();
                eprintln!(
                    "dashboards: {phase:?}: {missing} queries without data that should have some, after {took} s"
                );
                return;
            }
            std::thread::sleep(GLANCE);
        }
    }

    fn missing(&self, phase: Phase) -> usize {
        self.looked.iter().filter(|l| !l.shown(phase) && !self.may_be_empty(&l.query, phase)).count()
    }

    fn look(&mut self, prometheus: &Prometheus, wished: &BTreeMap<String, String>, phase: Phase) {
        for dashboard in &self.dashboards {
            let uid = dashboard["uid"].as_str().unwrap_or_default();
            let values = variables::resolve(prometheus, dashboard, wished);
            for looked in self.looked.iter_mut().filter(|l| l.query.dashboard == uid && !l.shown(phase)) {
                let answer = values.clone().and_then(|values| {
                    let expression =
                        rdmascope_tests::dashboards::interpolate(&looked.query.expression, |name| {
                            values.get(name).cloned()
                        });
                    prometheus.query(&expression, looked.query.instant)
                });
                match answer.and_then(|series| tables_fit(&looked.query, &series).map(|()| series)) {
                    Ok(series) if series.iter().any(|series| series.has_number) => match phase {
                        Phase::Healthy => looked.healthy = true,
                        Phase::Broken => looked.broken = true,
                    },
                    Ok(series) => looked.instead = format!("{} series without a number", series.len()),
                    Err(why) => looked.instead = why,
                }
            }
        }
    }

    /// Prints the table; whether every query had data where it should, and none where the list says that it cannot.
    pub(super) fn report(&self) -> bool {
        println!(
            "{:24} {:>6} {:>7} {:>9} {:>17} {:>9}",
            "dashboard", "panels", "queries", "with data", "only with a fault", "elsewhere"
        );
        for dashboard in &self.dashboards {
            let uid = dashboard["uid"].as_str().unwrap_or_default();
            let own: Vec<_> = self.looked.iter().filter(|l| l.query.dashboard == uid).collect();
            let shown = panels(dashboard).iter().filter(|panel| panel["type"] != "row").count();
            let count = |which: fn(&Looked) -> bool| own.iter().filter(|l| which(l)).count();
            let (healthy, only) = (count(|l| l.healthy), count(|l| !l.healthy && l.broken));
            let none = own.len() - healthy - only;
            println!("{uid:24} {shown:>6} {:>7} {healthy:>9} {only:>17} {none:>9}", own.len());
        }
        self.print_reasons(
            "\nNo data while nothing is wrong, and some with a fault:",
            |l| !l.healthy && l.broken,
            When::Healthy,
        );
        self.print_reasons("\nNo data here, and some elsewhere:", |l| !l.healthy && !l.broken, self.place);
        let wrong = self.wrong();
        for line in &wrong {
            println!("WRONG: {line}");
        }
        wrong.is_empty()
    }

    fn print_reasons(&self, title: &str, which: fn(&Looked) -> bool, when: When) {
        let mut lines = BTreeSet::new();
        for looked in self.looked.iter().filter(|l| which(l)) {
            if let Some(entry) = self.reason(&looked.query, when) {
                lines.insert(format!(
                    "  {}: {} {}: {}",
                    looked.query.dashboard, looked.query.panel, looked.query.letter, entry.why
                ));
            }
        }
        if !lines.is_empty() {
            println!("{title}");
            lines.iter().for_each(|line| println!("{line}"));
        }
    }

    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for looked in &self.looked {
            let query = &looked.query;
            let name = format!("{}: {} {}", query.dashboard, query.panel, query.letter);
            if !looked.healthy && !self.may_be_empty(query, Phase::Healthy) {
                wrong.push(format!("{name}: no data while nothing is wrong ({})", looked.instead));
            }
            if !looked.healthy && !looked.broken && !self.may_be_empty(query, Phase::Broken) {
                wrong.push(format!("{name}: no data, whatever is broken ({})", looked.instead));
            }
            if (looked.healthy || looked.broken) && self.reason(query, self.place).is_some() {
                wrong.push(format!("{name}: it has data here, and the list says that it cannot"));
            }
        }
        wrong
    }
}

impl Looked {
    fn shown(&self, phase: Phase) -> bool {
        match phase {
            Phase::Healthy => self.healthy,
            // What has data all the time needs no fault.
            Phase::Broken => self.broken || self.healthy,
        }
    }
}

/// A table with a cell for each pair needs the labels of its rows and columns, and one number in each cell.
fn tables_fit(query: &Query, series: &[Series]) -> Result<(), String> {
    let Some((row, column)) = &query.cells else { return Ok(()) };
    let mut cells = BTreeSet::new();
    for series in series {
        let label = |name: &str| series.labels[name].as_str().filter(|word| !word.is_empty());
        let cell =
            label(row).zip(label(column)).ok_or(format!("no {row} or no {column} in {}", series.labels))?;
        if !cells.insert(cell) {
            return Err(format!("two numbers for one cell: {cell:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cell_has_a_row_a_column_and_one_number() {
        let query = Query {
            dashboard: String::new(),
            panel: String::new(),
            letter: String::new(),
            expression: String::new(),
            instant: true,
            cells: Some(("from".to_owned(), "to".to_owned())),
        };
        let series =
            |from: &str, to: &str| Series { labels: json!({"from": from, "to": to}), has_number: true };
        assert_eq!(tables_fit(&query, &[series("a", "b"), series("b", "a")]), Ok(()));
        assert!(
            tables_fit(&query, &[series("a", "b"), series("a", "b")]).unwrap_err().contains("two numbers")
        );
        assert!(tables_fit(&query, &[series("a", "")]).unwrap_err().contains("no to"));
    }
}
