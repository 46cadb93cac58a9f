//! The runbook pages of the checks say what the code says.
#![expect(clippy::disallowed_methods, reason = "a test reads and writes files of the repository")]

use rdmascope_checks::{ALL, page};
use std::collections::BTreeSet;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../dashboards/runbooks/checks")
}

#[test]
fn every_check_has_its_page_and_no_page_is_left_over() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let expected: BTreeSet<String> = ALL.iter().map(|check| format!("{}.md", check.id)).collect();
    for check in ALL {
        let path = folder().join(format!("{}.md", check.id));
        if update {
            std::fs::write(&path, page(check)).expect("a page can be written");
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(text == page(check), "{}: out of date: run this test with UPDATE_GOLDEN=1", path.display());
    }
    let entries = std::fs::read_dir(folder()).expect("the folder is there");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let extra: Vec<String> = names.filter(|name| !expected.contains(name)).collect();
    assert!(extra.is_empty(), "pages of no check: {extra:?}");
}

#[test]
fn every_check_can_be_explained() {
    for check in ALL {
        assert!(check.question.ends_with('?'), "{}: {}", check.id, check.question);
        assert!(!check.meaning.is_empty() && !check.next_steps.is_empty(), "{}", check.id);
    }
}
