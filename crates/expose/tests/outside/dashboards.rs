//! Dashboards, alerts and METRICS.md against the catalogue.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use rdmascope_expose::metrics::{AgentOwn, CoordinatorOwn, Kind, Scrape, encode, families, markdown};

use crate::dashboards;

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == extension))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no .{extension} in {}", folder.display());
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names of our metrics that stand in a text; the start of a name followed by `*` is none.
fn metric_names(text: &str) -> BTreeSet<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c: char| !is_name(c)).filter(|word| word.starts_with("rdmascope_")).collect()
}

#[test]
fn metrics_md_is_what_the_catalogue_says() {
    let path = dashboards().join("METRICS.md");
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, markdown()).unwrap();
    }
    assert!(read(&path) == markdown(), "METRICS.md is out of date: run this test with UPDATE_GOLDEN=1");
}

#[test]
fn dashboards_and_alerts_use_only_metrics_of_the_catalogue() {
    let mut known = BTreeSet::new();
    for family in families() {
        known.insert(family.name.to_owned());
        if family.kind == Kind::Histogram {
            known.extend(["_bucket", "_sum", "_count"].map(|suffix| family.name.to_owned() + suffix));
        }
    }
    let per_pair: BTreeSet<&str> = families().filter(|f| f.scrape == Scrape::Pairs).map(|f| f.name).collect();
    let alerts = files(&dashboards().join("alerts"), "yaml");
    for path in files(&dashboards().join("grafana"), "json").iter().chain(&alerts) {
        let text = read(path);
        let names = metric_names(&text);
        assert!(!names.is_empty(), "{} uses no metric of ours", path.display());
        for name in names {
            assert!(known.contains(name), "{}: {name} is not in the catalogue", path.display());
            assert!(
                !alerts.contains(path) || !per_pair.contains(name),
                "{name}: alerts never use series per pair",
            );
        }
    }
}

#[test]
fn a_counter_that_an_alert_watches_is_there_from_the_start() {
    let [agent, coordinator] = [prometheus::Registry::new(), prometheus::Registry::new()];
    AgentOwn::new(&agent).unwrap();
    CoordinatorOwn::new(&coordinator, &[]).unwrap();
    let at_start = encode(&agent).unwrap() + &encode(&coordinator).unwrap();
    // Every series, whatever its labels.
    let zero = |name: &str| {
        let is_of = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
        let mut series = at_start.lines().filter(is_of).peekable();
        series.peek().is_some() && series.all(|line| line.ends_with(" 0"))
    };
    let mut seen = 0;
    for path in files(&dashboards().join("alerts"), "yaml") {
        let text = read(&path);
        for inside in ["rate(", "increase("].iter().flat_map(|function| text.split(function).skip(1)) {
            let name = metric_names(inside.split(['[', '{']).next().unwrap()).pop_first().unwrap();
            assert!(zero(name), "{name} is not 0 at the start: {at_start}");
            seen += 1;
        }
    }
    assert!(seen > 0, "no alert watches a counter");
}
