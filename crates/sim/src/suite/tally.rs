//! The figures of many runs: shares with their intervals, times, probes; by size, and by kind and size.

use super::file::Suite;
use super::quiet::QuietOutcome;
use super::score::Outcome;
use super::wilson::Share;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Goals hold from so many endpoints on.
const GOALS_FROM: usize = 32;
const PRECISION_LEAST: f64 = 99.0;
const RECALL_LEAST: f64 = 99.0;
const EXACT_LEAST: f64 = 97.0;
/// Seconds until a node, an endpoint or a leaf is named; 19 of 20 runs.
const URGENT_MOST_S: f64 = 10.0;
/// After one coverage time: what re-tests may take until a pair or a path is named; 19 of 20 runs.
const RETEST_MOST_S: f64 = 30.0;
const RULE: &str = "ClusterKit's published rule, our reading";

/// Times of many runs, seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times(Vec<f64>);

impl Times {
    /// One more.
    pub fn add(&mut self, seconds: f64) {
        self.0.push(seconds);
    }

    /// The smallest time that this share of the runs, in percent, does not exceed; `None` of none.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied()
    }
}

/// What many runs add up to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Runs.
    pub runs: usize,
    /// Incidents that named something broken, of all that were opened.
    pub precision: Share,
    /// Faults that were told.
    pub recall: Share,
    /// Faults that were named exactly.
    pub exact: Share,
    /// Effects, ways and shares of paths that were told right, of faults that were named exactly.
    pub words: [Share; 3],
    /// Until a fault was told.
    pub told: Times,
    /// Until a node, an endpoint or a leaf was told.
    pub urgent: Times,
    /// Until a pair or a path was told, less the coverage time.
    pub after_coverage: Times,
    /// Pings of the mesh until everything was told.
    pub pings: u64,
    /// Probes on request.
    pub retests: u64,
    /// Runs in which the other rule named only what is broken, of those in which it named something.
    pub kit_precision: Share,
    /// Faults that it found.
    pub kit_recall: Share,
    /// Runs with faults in which it named exactly the pairs that they touch.
    pub kit_exact: Share,
}

impl Tally {
    fn count(&mut self, outcome: &Outcome, urgent: bool, waits: bool) {
        self.runs += 1;
        self.pings += outcome.pings;
        self.retests += outcome.retests;
        outcome.told.iter().for_each(|told| self.precision.count(told.right));
        for fault in &outcome.faults {
            self.recall.count(fault.told_s.is_some());
            self.exact.count(fault.exact);
            if let Some(words) = fault.words {
                self.words.iter_mut().zip(words).for_each(|(share, right)| share.count(right));
            }
            if let Some(seconds) = fault.told_s {
                self.told.add(seconds);
                if urgent {
                    self.urgent.add(seconds);
                }
                if waits {
                    self.after_coverage.add(seconds - outcome.coverage_s);
                }
            }
        }
        if outcome.kit.names {
            self.kit_precision.count(outcome.kit.right);
        }
        self.kit_recall.add(outcome.kit.found);
        if !outcome.faults.is_empty() {
            self.kit_exact.count(outcome.kit.exact);
        }
    }
}

/// What is asked of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    AtLeast(f64),
    AtMost(f64),
    Nothing,
}

/// One figure beside what was asked of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    what: String,
    seen: Option<f64>,
    unit: &'static str,
    asked: Asked,
    against: Option<f64>,
}

impl Row {
    fn new(what: String, seen: Option<f64>, unit: &'static str, asked: Asked) -> Self {
        Self { what, seen, unit, asked, against: None }
    }

    /// Whether what was asked was seen. What could not be seen does not hold.
    #[must_use]
    pub fn holds(&self) -> bool {
        match self.asked {
            Asked::AtLeast(least) => self.seen.is_some_and(|seen| seen >= least),
            Asked::AtMost(most) => self.seen.is_some_and(|seen| seen <= most),
            Asked::Nothing => true,
        }
    }

    fn asked(&self) -> String {
        match self.asked {
            Asked::AtLeast(least) => format!(">= {least}"),
            Asked::AtMost(most) => format!("<= {most}"),
            Asked::Nothing => String::new(),
        }
    }

    /// As programs read it.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "what": self.what, "seen": self.seen, "unit": self.unit, "asked": self.asked(), "holds": self.holds(),
            "against": self.against.map(|_| RULE), "seen_against": self.against,
        })
    }

    /// As people read it.
    #[must_use]
    pub fn line(&self) -> String {
        let verdict = match (self.asked, self.holds()) {
            (Asked::Nothing, _) => "",
            (_, true) => "holds",
            (_, false) => "FALLS SHORT",
        };
        let beside = self.against.map_or(String::new(), |seen| format!("({RULE}: {seen:.1})"));
        let seen = self.seen.map_or("nothing to see".to_owned(), |seen| format!("{seen:.2}"));
        format!("{:70} {seen:>14} {:5} {:9} {verdict:11} {beside}", self.what, self.unit, self.asked())
            .trim_end()
            .to_owned()
    }
}

/// All runs, by size and by kind.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    sizes: BTreeMap<usize, Tally>,
    kinds: BTreeMap<(usize, usize), Tally>,
}

impl Figures {
    /// Counts a run.
    pub fn count(&mut self, outcome: &Outcome, suite: &Suite) {
        let Some(at) = suite.kinds.iter().position(|kind| kind.name == outcome.kind) else { return };
        let kind = &suite.kinds[at];
        for tally in [
            self.sizes.entry(outcome.endpoints).or_default(),
            self.kinds.entry((at, outcome.endpoints)).or_default(),
        ] {
            tally.count(outcome, kind.is_urgent(), kind.is_narrow());
        }
    }

    /// The figures of each size, with what is asked of them.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        self.sizes.iter().flat_map(|(&endpoints, tally)| rows_of(endpoints, tally)).collect()
    }

    /// The figures of each kind and size.
    #[must_use]
    pub fn kind_rows(&self, suite: &Suite) -> Vec<Row> {
        let named =
            |&(kind, endpoints): &(usize, usize)| format!("{}, N = {endpoints}", suite.kinds[kind].name);
        self.kinds.iter().flat_map(|(key, tally)| rows_of_kind(&named(key), tally)).collect()
    }

    /// The same as a table for people.
    #[must_use]
    pub fn table(&self, suite: &Suite) -> Vec<String> {
        let head = format!(
            "{:38} {:>5} {:>4}  {:>20} {:>20} {:>20} {:>16} {:>8} {:>15}",
            "kind", "N", "runs", "precision", "recall", "exact", "told in s", "re-tests", "rule: found, ="
        );
        let line = |(&(kind, endpoints), tally): (&(usize, usize), &Tally)| {
            let time =
                |percent| tally.told.percentile(percent).map_or("–".to_owned(), |s| format!("{s:.1}"));
            format!(
                "{:38} {endpoints:>5} {:>4}  {:>20} {:>20} {:>20} {:>16} {:>8.1} {:>15}",
                suite.kinds[kind].name,
                tally.runs,
                in_percent(tally.precision),
                in_percent(tally.recall),
                in_percent(tally.exact),
                format!("{} / {}", time(50), time(100)),
                tally.retests as f64 / tally.runs.max(1) as f64,
                format!("{}, {}", whole(tally.kit_recall), whole(tally.kit_exact)),
            )
        };
        [head].into_iter().chain(self.kinds.iter().map(line)).collect()
    }
}

fn whole(share: Share) -> String {
    share.percent().map_or("–".to_owned(), |percent| format!("{percent:.0} %"))
}

/// A share and its interval, such as `97.2 (95.4–98.4)`.
fn in_percent(share: Share) -> String {
    match (share.percent(), share.interval()) {
        (Some(percent), Some((low, high))) => format!("{percent:.1} ({low:.1}–{high:.1})"),
        _ => "–".to_owned(),
    }
}

fn rows_of(endpoints: usize, tally: &Tally) -> Vec<Row> {
    let asked = |asked: Asked| if endpoints >= GOALS_FROM { asked } else { Asked::Nothing };
    let what = |words: &str| format!("N = {endpoints}: {words}");
    let mut rows = vec![Row::new(what("runs"), Some(tally.runs as f64), "", Asked::Nothing)];
    let mut share = |words: &str, share: Share, goal: Asked, against: Option<Share>| {
        let row = Row::new(what(words), share.percent(), "%", asked(goal));
        rows.push(Row { against: against.and_then(Share::percent), ..row });
        if let Some((low, high)) = share.interval() {
            let bound = |end: &str, seen| {
                Row::new(what(&format!("{words}, 95 % interval {end}")), Some(seen), "%", Asked::Nothing)
            };
            rows.extend([bound("from", low), bound("to", high)]);
        }
    };
    share("precision", tally.precision, Asked::AtLeast(PRECISION_LEAST), Some(tally.kit_precision));
    share("recall", tally.recall, Asked::AtLeast(RECALL_LEAST), Some(tally.kit_recall));
    share("exact culprit", tally.exact, Asked::AtLeast(EXACT_LEAST), Some(tally.kit_exact));
    for (words, right) in ["effect", "way", "share of paths"].iter().zip(tally.words) {
        share(&format!("{words} told right, of those named exactly"), right, Asked::Nothing, None);
    }
    let time = |words: &str, times: &Times, percent: usize, goal: Asked| {
        Row::new(what(words), times.percentile(percent), "s", goal)
    };
    rows.extend([
        time("told, median", &tally.told, 50, Asked::Nothing),
        time("node, endpoint or leaf told, median", &tally.urgent, 50, Asked::Nothing),
        time("node, endpoint or leaf told, 95 of 100", &tally.urgent, 95, Asked::AtMost(URGENT_MOST_S)),
        time("node, endpoint or leaf told, the last", &tally.urgent, 100, Asked::Nothing),
        time(
            "pair or path told, 95 of 100, less one coverage time",
            &tally.after_coverage,
            95,
            Asked::AtMost(RETEST_MOST_S),
        ),
    ]);
    let each = |count: u64| Some(count as f64 / tally.runs.max(1) as f64);
    rows.push(Row::new(
        what("pings of the mesh until told, each run"),
        each(tally.pings),
        "",
        Asked::Nothing,
    ));
    rows.push(Row::new(what("probes on request, each run"), each(tally.retests), "", Asked::Nothing));
    // A run of one kind may have none of these.
    rows.retain(|row| row.seen.is_some());
    rows
}

fn rows_of_kind(name: &str, tally: &Tally) -> Vec<Row> {
    let share = |words: &str, share: Share, against: Option<Share>| {
        let row = Row::new(format!("{name}: {words} of {}", share.of), share.percent(), "%", Asked::Nothing);
        Row { against: against.and_then(Share::percent), ..row }
    };
    let mut rows = vec![
        share("precision", tally.precision, Some(tally.kit_precision)),
        share("recall", tally.recall, Some(tally.kit_recall)),
        share("exact culprit", tally.exact, Some(tally.kit_exact)),
    ];
    for (words, percent) in [("median", 50), ("95 of 100", 95)] {
        let seen = tally.told.percentile(percent);
        rows.push(Row::new(format!("{name}: told, {words}"), seen, "s", Asked::Nothing));
    }
    let retests = tally.retests as f64 / tally.runs.max(1) as f64;
    rows.push(Row::new(format!("{name}: probes on request, each run"), Some(retests), "", Asked::Nothing));
    rows.retain(|row| row.seen.is_some());
    rows
}

/// The figures of the quiet week.
#[must_use]
pub fn quiet_rows(parts: &[QuietOutcome]) -> Vec<Row> {
    let Some(endpoints) = parts.first().map(|part| part.endpoints) else { return Vec::new() };
    let hours: f64 = parts.iter().map(|part| part.hours).sum();
    let pings: u64 = parts.iter().map(|part| part.pings).sum();
    let alarms: usize = parts.iter().map(|part| part.alarms.len()).sum();
    let rate = pings as f64 / (hours * 3_600.0) / endpoints as f64;
    let sum = |of: fn(&QuietOutcome) -> u64| Some(parts.iter().map(of).sum::<u64>() as f64);
    let what = |words: &str| format!("quiet, N = {endpoints}: {words}");
    vec![
        Row::new(what("hours"), Some(hours), "h", Asked::Nothing),
        Row::new(what("pings a second and endpoint"), Some(rate), "/s", Asked::Nothing),
        Row::new(what("agents restarted"), sum(|part| part.restarts), "", Asked::Nothing),
        Row::new(what("probes on request"), sum(|part| part.retests), "", Asked::Nothing),
        Row::new(what("alarms"), Some(alarms as f64), "", Asked::AtMost(0.0)),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::file::tests::text;
    use super::super::score::{FaultOutcome, Kit, Told};
    use super::*;

    fn outcome(kind: &str, told_s: Option<f64>, exact: bool, alarms: &[bool]) -> Outcome {
        let told = |&right: &bool| Told { right, at_s: 1.0, text: String::new() };
        Outcome {
            kind: kind.to_owned(),
            endpoints: 32,
            faults: vec![FaultOutcome { told_s, exact, ..FaultOutcome::default() }],
            told: alarms.iter().map(told).collect(),
            kit: Kit { names: true, right: false, ..Kit::default() },
            ..Outcome::default()
        }
    }

    #[test]
    fn figures_are_the_shares_of_what_was_told() {
        let suite = Suite::parse(text()).unwrap();
        let mut figures = Figures::default();
        for at in 0..98 {
            figures.count(&outcome("endpoint dead", Some(f64::from(at) / 10.0), true, &[true]), &suite);
        }
        figures.count(&outcome("endpoint dead", None, false, &[false]), &suite);
        figures.count(&outcome("endpoint dead", Some(20.0), false, &[true]), &suite);
        let rows = figures.rows();
        let row = |words: &str| rows.iter().find(|row| row.what.ends_with(words)).unwrap();
        let seen = |words: &str| (row(words).seen.unwrap(), row(words).holds());
        assert_eq!(seen("precision"), (99.0, true));
        assert_eq!(seen("recall"), (99.0, true));
        assert_eq!(seen("exact culprit"), (98.0, true));
        assert_eq!(seen("leaf told, 95 of 100"), (9.4, true), "the 95th of 99 that were told");
        assert_eq!(seen("leaf told, the last").0, 20.0);
        assert_eq!(row("precision").json()["against"], RULE);
        assert_eq!(row("precision").json()["seen_against"], 0.0);
        assert!(row("recall").line().contains("holds"));
        assert!(rows.iter().all(Row::holds), "no pair was to be named");
    }

    #[test]
    fn what_falls_short_says_so() {
        let suite = Suite::parse(text()).unwrap();
        let mut figures = Figures::default();
        figures.count(&outcome("pair dead", None, false, &[]), &suite);
        let rows = figures.rows();
        let short: Vec<_> = rows.iter().filter(|row| !row.holds()).map(|row| row.what.as_str()).collect();
        assert_eq!(short, ["N = 32: recall", "N = 32: exact culprit"]);
        let quiet = QuietOutcome {
            endpoints: 256,
            hours: 1.0,
            pings: 9_216_000,
            alarms: vec![String::new()],
            ..QuietOutcome::default()
        };
        let rows = quiet_rows(&[quiet]);
        assert_eq!(rows[1].seen, Some(10.0));
        assert!(!rows[4].holds());
    }
}
