//! The runbook pages of checks and of probe causes say what the code says.
#![expect(clippy::disallowed_methods, reason = "a test reads and writes files of the repository")]

use rdmascope_checks::log::Rules;
use rdmascope_checks::{ALL, DRIFT, cause_page, drift_page, page, rule_page};
use rdmascope_model::Cause;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The pages below a folder of the runbooks are exactly these; `UPDATE_GOLDEN` writes them.
fn hold(folder: &str, expected: &BTreeMap<String, String>) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../dashboards/runbooks").join(folder);
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    for (name, page) in expected {
        let path = folder.join(name);
        if update {
            std::fs::write(&path, page).expect("a page can be written");
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(text == *page, "{}: out of date: run this test with UPDATE_GOLDEN=1", path.display());
    }
    let entries = std::fs::read_dir(&folder).expect("the folder is there");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let extra: Vec<String> = names.filter(|name| !expected.contains_key(name)).collect();
    assert!(extra.is_empty(), "pages of nothing that is there: {extra:?}");
}

#[test]
fn every_check_and_rule_has_its_page_and_no_page_is_left_over() {
    let rules = Rules::builtin();
    let checks = ALL.iter().map(|check| (format!("{}.md", check.id), page(check)));
    let rule_pages = rules.docs().iter().map(|rule| (format!("{}.md", rule.id), rule_page(rule)));
    let drift = (format!("{DRIFT}.md"), drift_page());
    let expected: BTreeMap<String, String> = checks.chain(rule_pages).chain([drift]).collect();
    assert_eq!(expected.len(), ALL.len() + rules.docs().len() + 1, "an id is there twice");
    hold("checks", &expected);
}

#[test]
fn every_cause_of_a_failed_probe_has_its_page_and_no_page_is_left_over() {
    let expected = Cause::all().map(|cause| (format!("{}.md", cause.id()), cause_page(cause))).collect();
    hold("causes", &expected);
}

#[test]
fn every_check_can_be_explained() {
    for check in ALL {
        assert!(check.question.ends_with('?'), "{}: {}", check.id, check.question);
        assert!(!check.meaning.is_empty() && !check.next_steps.is_empty(), "{}", check.id);
    }
}
