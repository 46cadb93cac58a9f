//! A check or a rule of the kernel log in words: the page that `rdmascope explain` prints and that stands among the runbooks.

use crate::Check;
use crate::log::Rule;

/// The page of a check, as Markdown that is as easy to read on a terminal.
#[must_use]
pub fn page(check: &Check) -> String {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let about = format!("{}\n\n{}", check.question, check.meaning);
    written(check.id, &about, &owned(check.causes), &owned(check.next_steps))
}

/// The page of a rule of the kernel log, likewise.
#[must_use]
pub fn rule_page(rule: &Rule) -> String {
    written(&rule.id, &rule.meaning, &rule.causes, &rule.next_steps)
}

fn written(id: &str, about: &str, causes: &[String], next_steps: &[String]) -> String {
    let causes: String = causes.iter().map(|cause| format!("- {cause}\n")).collect();
    let steps: String =
        next_steps.iter().enumerate().map(|(i, step)| format!("{}. {step}\n", i + 1)).collect();
    let mut page = format!("# {id}\n\n{about}\n");
    for (title, list) in [("Probable causes", causes), ("What to do", steps)] {
        if !list.is_empty() {
            page.push_str(&format!("\n## {title}\n\n{list}"));
        }
    }
    page
}
