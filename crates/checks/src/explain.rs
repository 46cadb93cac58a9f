//! A check in words: the page that `rdmascope explain` prints and that stands among the runbooks.

use crate::Check;

/// The page of a check, as Markdown that is as easy to read on a terminal.
#[must_use]
pub fn page(check: &Check) -> String {
    let causes: String = check.causes.iter().map(|cause| format!("- {cause}\n")).collect();
    let steps: String =
        check.next_steps.iter().enumerate().map(|(i, step)| format!("{}. {step}\n", i + 1)).collect();
    let mut page = format!("# {}\n\n{}\n\n{}\n", check.id, check.question, check.meaning);
    for (title, list) in [("Probable causes", causes), ("What to do", steps)] {
        if !list.is_empty() {
            page.push_str(&format!("\n## {title}\n\n{list}"));
        }
    }
    page
}
