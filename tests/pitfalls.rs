//! The pitfalls of public reports: each is reproduced by a test that is there, or has the reason why not.

use rdmascope_checks::log::Rules;
use rdmascope_checks::{ALL, DRIFT};
use rdmascope_model::{Cause, Exclusion};
use rdmascope_tests::root;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// How many pitfalls there are.
const ROWS: u8 = 40;

/// Those that must be reproduced.
fn required(row: u8) -> bool {
    matches!(row, 1 | 2 | 3 | 5 | 7 | 9 | 10 | 12 | 13 | 15 | 20..=22 | 24..=32)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    row: u8,
    symptom: String,
    #[serde(default)]
    says: Ids,
    #[serde(default)]
    kind: Vec<Kind>,
    #[serde(default)]
    tests: Vec<String>,
    not: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Ids {
    causes: Vec<String>,
    findings: Vec<String>,
    verdicts: Vec<String>,
    exclusions: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Lab,
    Fake,
    Simulation,
    Unit,
}

fn rows() -> Vec<Row> {
    let text = fs::read_to_string(root().join("tests/fixtures/pitfalls.yaml")).expect("the table is there");
    serde_yaml::from_str(&text).unwrap_or_else(|why| panic!("pitfalls.yaml: {why}"))
}

/// Whether a text has this function, and the attributes right above it make it a test.
fn has_test(text: &str, function: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let heads = [format!("fn {function}("), format!("async fn {function}(")];
    let found = |at: usize| heads.iter().any(|head| lines[at].starts_with(head.as_str()));
    let is_test = |at: usize| {
        let above = lines[..at].iter().rev().take_while(|line| line.starts_with('#'));
        above.clone().any(|line| *line == "#[test]" || line.starts_with("#[tokio::test"))
    };
    (0..lines.len()).any(|at| found(at) && is_test(at))
}

/// Why a reference such as `tests/lab/faults.rs::a_port_that_is_down` leads nowhere; `None` where it leads to a test.
fn wrong(reference: &str) -> Option<String> {
    let Some((file, function)) = reference.split_once("::") else {
        return Some(format!("'{reference}' is not FILE::FUNCTION"));
    };
    let Ok(text) = fs::read_to_string(root().join(file)) else {
        return Some(format!("there is no file {file}"));
    };
    (!has_test(&text, function)).then(|| format!("{file} has no test {function}"))
}

#[test]
fn each_pitfall_stands_there_once_and_in_order() {
    let numbers: Vec<u8> = rows().iter().map(|row| row.row).collect();
    assert_eq!(numbers, Vec::from_iter(1..=ROWS));
}

#[test]
fn each_is_reproduced_or_has_its_reason() {
    for row in rows() {
        let tested = !row.tests.is_empty();
        let number = row.row;
        assert!(row.symptom.len() > 20, "row {number}: no symptom");
        assert_eq!(tested, row.not.is_none(), "row {number}: tests or a reason, and not both");
        assert_eq!(tested, required(number), "row {number}: required, or not");
        assert_eq!(tested, !row.kind.is_empty(), "row {number}: a kind goes with tests: {:?}", row.kind);
        assert!(row.not.is_none_or(|why| why.len() > 40), "row {number}: the reason says too little");
    }
}

#[test]
fn every_test_that_is_named_is_there() {
    let all: Vec<String> = rows().into_iter().flat_map(|row| row.tests).collect();
    let wrong: Vec<String> = all.iter().filter_map(|reference| wrong(reference)).collect();
    assert!(wrong.is_empty() && all.len() > 30, "{wrong:#?}");
}

#[test]
fn every_id_that_is_named_is_one_of_the_product() {
    let causes: BTreeSet<&str> = Cause::all().map(Cause::id).collect();
    let rules = Rules::builtin();
    let checks = ALL.iter().map(|check| check.id).chain([DRIFT]);
    let findings: BTreeSet<&str> = checks.chain(rules.docs().iter().map(|rule| rule.id.as_str())).collect();
    let exclusions: BTreeSet<&str> = Exclusion::ALL.iter().map(|why| why.as_str()).collect();
    let verdicts = sources(&root().join("crates/localise/src"));
    for row in rows() {
        let unknown = |ids: Vec<String>, known: &BTreeSet<&str>| -> Vec<String> {
            ids.into_iter().filter(|id| !known.contains(id.as_str())).collect()
        };
        let number = row.row;
        assert_eq!(unknown(row.says.causes, &causes), [""; 0], "row {number}: no such cause");
        assert_eq!(unknown(row.says.findings, &findings), [""; 0], "row {number}: no such finding");
        assert_eq!(unknown(row.says.exclusions, &exclusions), [""; 0], "row {number}: no such exclusion");
        // Verdicts have no list: they are words in the rules that make them.
        let spelt = |id: &String| verdicts.contains(&format!("\"{id}\""));
        assert!(row.says.verdicts.iter().all(spelt), "row {number}: no such verdict");
    }
}

/// All Rust source below a folder.
fn sources(folder: &Path) -> String {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let texts = paths.map(|path| match path.is_dir() {
        true => sources(&path),
        false => fs::read_to_string(&path).expect("a source file is text"),
    });
    texts.collect()
}

#[test]
fn a_function_that_is_no_test_does_not_count() {
    let text = "#[test]\n#[cfg(unix)]\nfn one() {}\n\n/// Words.\nfn two() {}\n    #[tokio::test(start_paused = true)]\n    async fn three() {}\n";
    assert!(has_test(text, "one") && has_test(text, "three"));
    assert!(!has_test(text, "two") && !has_test(text, "on") && !has_test(text, "four"));
    assert!(wrong("tests/pitfalls.rs::root").is_some_and(|why| why.contains("no test root")));
    assert!(wrong("tests/nowhere.rs::x").is_some_and(|why| why.contains("no file")));
    assert!(wrong("x").is_some());
}
