//! The commented example that documents every key, written from the table of keys.

use crate::keys::{KEYS, SECTIONS};
use std::fmt::Write;

/// Widest line of the reference, characters.
const WIDTH: usize = 100;

const HEAD: &str = "\
# Config of rdmascope: every key, what it does, its default and the reason for it.
#
# One file serves agents and the coordinator; each reads its own section. All keys are optional: a
# key that is commented out (#key: value) has the value shown, or none where the text says so. An
# unknown or misspelt key is an error, never ignored. Try a file with:  rdmascope config check FILE
# Flags on the command line win over the file. This file is written by the program: do not edit it,
# copy it.
";

const TAIL: &str = "
# The numbers that the checks judge by; policy.yaml beside this file lists all, with their reasons.
policy:

# What each port is expected to be; policy.yaml lists the fields, `rdmascope config manifest` writes
# one from a healthy node.
manifest:
";

/// The text of `config/rdmascope.yaml`.
#[must_use]
pub fn reference() -> String {
    let mut text = HEAD.to_owned();
    for (section, about) in SECTIONS {
        let depth = section.matches('.').count();
        let indent = "  ".repeat(depth);
        let name = section.rsplit('.').next().unwrap_or(section);
        // Writing into a String cannot fail.
        let _ = write!(text, "\n{indent}# {about}\n{indent}{name}:\n");
        for key in
            KEYS.iter().filter(|key| key.path.rsplit_once('.').is_some_and(|(parent, _)| parent == section))
        {
            let indent = "  ".repeat(depth + 1);
            for line in wrapped(&format!("{} ({})", key.doc, key.form), WIDTH - indent.len() - 2) {
                let _ = writeln!(text, "{indent}# {line}");
            }
            let name = key.path.rsplit('.').next().unwrap_or(key.path);
            let _ = writeln!(text, "{indent}#{name}: {}", key.default.unwrap_or(key.example));
        }
    }
    text.push_str(TAIL);
    text
}

pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
