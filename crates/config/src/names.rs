//! Which keys a file may have: unknown, misplaced and duplicate ones, with the name that was probably meant.

use crate::expectations::{MANIFEST, POLICY};
use crate::keys::{KEYS, SECTIONS};
use crate::problem::{Found, Wrong};
use crate::tree::{Node, Value};
use crate::values::shown;

/// Words under which people write the secret itself into a config.
const SECRET_WORDS: [&str; 5] = ["token", "password", "secret", "bearer_token", "auth_token"];

/// Sections whose keys are no part of the table.
const OWN_RULES: [&str; 2] = [POLICY, MANIFEST];

/// Checks the names of all keys, not their values.
pub(crate) fn check(root: &Node) -> Vec<Found> {
    let mut found = Vec::new();
    check_section(root, "", &mut found);
    found
}

fn check_section(node: &Node, section: &str, found: &mut Vec<Found>) {
    let entries = match &node.value {
        Value::Map(entries) => entries,
        // A section with all its keys commented out.
        Value::Null => return,
        _ => {
            let hint = format!("indent its keys below it by two spaces: {}", listed(&children(section)));
            found.push(Found {
                id: node.id,
                key: section.to_owned(),
                wrong: Wrong::new("must be a section", hint),
            });
            return;
        }
    };
    for (index, (key, value)) in entries.iter().enumerate() {
        let Value::Text(name) = &key.value else {
            let wrong =
                Wrong::new("a key must be a word", format!("known here: {}", listed(&children(section))));
            found.push(Found { id: key.id, key: section.to_owned(), wrong });
            continue;
        };
        let path = if section.is_empty() { shown(name) } else { format!("{section}.{}", shown(name)) };
        let same = |entry: &&(Node, Node)| matches!(&entry.0.value, Value::Text(earlier) if earlier == name);
        if entries.iter().take(index).any(|entry| same(&entry)) {
            let wrong = Wrong::new("is there twice", "keep one of the two");
            found.push(Found { id: key.id, key: path, wrong });
        } else if section.is_empty() && OWN_RULES.contains(&name.as_str()) {
            // Their keys are checked with their values.
        } else if SECTIONS.iter().any(|(known, _)| *known == path) {
            check_section(value, &path, found);
        } else if !KEYS.iter().any(|known| known.path == path) {
            let wrong = Wrong::new("unknown key", unknown_hint(name, section));
            found.push(Found { id: key.id, key: path, wrong });
        }
    }
}

/// Names of the keys and sections directly below a section.
fn children(section: &str) -> Vec<&'static str> {
    let below = |path: &'static str| {
        let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
        (parent == section).then_some(name)
    };
    let sections = SECTIONS.iter().filter_map(|(path, _)| below(path));
    let own = OWN_RULES.into_iter().filter_map(below);
    KEYS.iter().filter_map(|key| below(key.path)).chain(sections).chain(own).collect()
}

fn unknown_hint(name: &str, section: &str) -> String {
    let known = children(section);
    if known.contains(&"token_file") && SECRET_WORDS.contains(&name) {
        return "a secret never stands in the config: put it into a file and name that in `token_file`"
            .to_owned();
    }
    let nearest = known.iter().map(|candidate| (distance(name, candidate), candidate)).min();
    if let Some((steps, candidate)) = nearest
        && steps <= 2
        && steps < name.len()
    {
        return format!("did you mean `{candidate}`?");
    }
    let elsewhere: Vec<&str> = KEYS
        .iter()
        .map(|key| key.path)
        .chain(SECTIONS.iter().map(|(path, _)| *path))
        .filter_map(|path| path.rsplit_once('.').filter(|(_, last)| *last == name).map(|(parent, _)| parent))
        .collect();
    if elsewhere.is_empty() {
        format!("known here: {}", listed(&known))
    } else {
        format!("it belongs under {}", either(&elsewhere))
    }
}

fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn either(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
}

/// Edits between two words (insert, delete, replace; a swap of neighbours counts as two).
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    // A key may be as long as the file; beyond this length no known key is near.
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, to) in row.iter_mut().skip(1).zip(&b) {
            let replaced = diagonal + usize::from(from != to);
            diagonal = *cell;
            left = replaced.min(left + 1).min(diagonal + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        for (a, b, edits) in [
            ("listen", "listen", 0),
            ("listn", "listen", 1),
            ("lsiten", "listen", 2),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), edits, "{a} -> {b}");
        }
    }

    #[test]
    fn children_are_keys_and_sections_of_that_level_alone() {
        assert_eq!(children(""), ["agent", "coordinator", "log", "policy", "manifest"]);
        assert_eq!(children("coordinator.sweep"), ["coverage", "pause", "pairs_at_once", "gigabytes_max"]);
        assert!(children("coordinator").contains(&"mesh") && !children("coordinator").contains(&"coverage"));
    }
}
