//! What the expressions of the dashboards ask for, against the catalogue of metrics and against Prometheus' own parser.

use rdmascope_expose::metrics::{Family, Kind, Scrape, families};
use rdmascope_tests::dashboards::{all, folder, interpolate, queries};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

/// Labels that Prometheus itself adds.
const OF_PROMETHEUS: [&str; 2] = ["job", "instance"];
/// Not ours: whether a target could be scraped.
const UP: &str = "up";

/// What is asked for: a name and the labels that must match.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(crate) name: String,
    pub(crate) labels: Vec<String>,
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Every selector of an expression. Ours begin with `rdmascope_`; no value of a matcher has a brace in it.
pub(crate) fn selectors(expression: &str) -> Vec<Selector> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(is_word) {
        let word = &rest[start..];
        let end = word.find(|c| !is_word(c)).unwrap_or(word.len());
        let (name, behind) = word.split_at(end);
        rest = behind;
        if name.starts_with("rdmascope_") || (name == UP && behind.starts_with('{')) {
            let matchers = behind.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            let labels = matchers.map(|(inner, _)| labels_of(inner)).unwrap_or_default();
            rest = matchers.map_or(behind, |(_, after)| after);
            found.push(Selector { name: name.to_owned(), labels });
        }
    }
    found
}

/// Names on the left of `=`, `!=` and their like; values may have commas in them.
fn labels_of(matchers: &str) -> Vec<String> {
    let outside = matchers.split('"').step_by(2);
    let name = |part: &str| part.trim_matches(|c| !is_word(c)).to_owned();
    outside.map(name).filter(|name| !name.is_empty()).collect()
}

/// The catalogue by the names that Prometheus keeps.
pub(crate) struct Known(BTreeMap<String, &'static Family>);

impl Known {
    pub(crate) fn new() -> Self {
        let mut names = BTreeMap::new();
        for family in families() {
            names.insert(family.name.to_owned(), family);
            if family.kind == Kind::Histogram {
                for part in ["_bucket", "_sum", "_count"] {
                    names.insert(format!("{}{part}", family.name), family);
                }
            }
        }
        Self(names)
    }

    pub(crate) fn scrape(&self, name: &str) -> Option<Scrape> {
        self.0.get(name).map(|family| family.scrape)
    }

    pub(crate) fn labels(&self, name: &str) -> Vec<String> {
        let own = self.0.get(name).map(|family| family.labels).unwrap_or_default();
        own.iter().chain(&OF_PROMETHEUS).map(|label| (*label).to_owned()).collect()
    }

    pub(crate) fn complaints(&self, expression: &str, selector: &Selector) -> Vec<String> {
        let name = &selector.name;
        if name == UP {
            return Vec::new();
        }
        let Some(family) = self.0.get(name) else { return vec![format!("{name} is not in the catalogue")] };
        let mut found = Vec::new();
        let counts = family.kind == Kind::Counter || (family.kind == Kind::Histogram && *name != family.name);
        let inside = ["rate(", "increase("].iter().any(|f| expression.contains(&format!("{f}{name}")));
        if counts && !inside {
            found.push(format!("{name}: a counter without a rate"));
        }
        if !counts && inside {
            found.push(format!("{name}: a rate of what is no counter"));
        }
        let labels = self.labels(name);
        let unknown = selector.labels.iter().filter(|label| !labels.contains(label) && *label != "le");
        found.extend(unknown.map(|label| format!("{name} has no label {label}")));
        found
    }
}

/// The expression as Prometheus gets it from Grafana, with words for what somebody has chosen.
fn chosen(expression: &str) -> String {
    interpolate(expression, |name| match name {
        "__rate_interval" => Some("1m".to_owned()),
        name if name.chars().all(|c| c.is_ascii_digit()) => None,
        _ => Some("chosen".to_owned()),
    })
}

/// What promtool says of a rule for each expression; `Err` when it does not understand one.
fn promtool(expressions: &[(String, String)]) -> Result<(), String> {
    let mut rules = "groups:\n- name: dashboards\n  rules:\n".to_owned();
    for (number, (panel, expression)) in expressions.iter().enumerate() {
        let quoted = serde_json::to_string(expression).expect("text");
        let _ = writeln!(rules, "  # {panel}\n  - record: query:{number}\n    expr: {quoted}");
    }
    let path = std::env::temp_dir().join(format!(
        "rdmascope-rules-{}-{}.yaml",
        std::process::id(),
        expressions.len()
    ));
    std::fs::write(&path, rules).expect("a temporary file");
    let output = Command::new("promtool").args(["check", "rules"]).arg(&path).output();
    let output = output
        .unwrap_or_else(|error| panic!("promtool cannot be run ({error}): install the package prometheus"));
    let said = [output.stdout, output.stderr].concat();
    std::fs::remove_file(&path).expect("the temporary file");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said).into_owned()) }
}

#[test]
fn every_expression_is_understood_by_prometheus() {
    let all: Vec<_> = all(&folder())
        .iter()
        .flat_map(queries)
        .map(|query| {
            (format!("{} {} {}", query.dashboard, query.panel, query.letter), chosen(&query.expression))
        })
        .collect();
    assert!(all.len() > 100, "only {} expressions", all.len());
    promtool(&all).unwrap_or_else(|said| panic!("{said}"));
    let broken = [("a bracket is missing".to_owned(), "sum(up{job=~\"chosen\"}".to_owned())];
    assert!(promtool(&broken).unwrap_err().contains("parse error"), "promtool takes anything");
}

#[test]
fn selectors_are_found_with_their_labels() {
    let found = selectors(
        "sum by (rdma) (rate(rdmascope_a{job=~\"$job\",x!=\"a,b\"}[1m])) / rdmascope_b + up{job=\"j\"} or vector(0)",
    );
    let short: Vec<(&str, Vec<&str>)> =
        found.iter().map(|s| (&*s.name, s.labels.iter().map(|label| &**label).collect())).collect();
    assert_eq!(short, [("rdmascope_a", vec!["job", "x"]), ("rdmascope_b", vec![]), ("up", vec!["job"])]);
}
