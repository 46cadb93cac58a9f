//! From a path to a config: the file's limits, then the tree, the names, the values.

use crate::problem::{Found, PROBLEMS_MAX};
use crate::settings::{self, Config};
use crate::tree::{self, Node, Value};
use crate::{Problem, Problems, names};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Largest config file, bytes: a full one has about 5 KB; the rest is room for long device lists and comments.
pub const CONFIG_BYTES_MAX: usize = 256 * 1024;

/// Reads a config file.
///
/// # Errors
/// All problems at once: the file cannot be read or is no config, or its keys and values are wrong.
pub fn load(path: &Path) -> Result<Config, Problems> {
    let whole = |line, what: String, hint: &str| single(path, line, what, hint.to_owned());
    let (bytes, regular) = read_limited(path).map_err(|error| {
        whole(None, format!("cannot be read: {error}"), "check the path and its permissions")
    })?;
    if !regular {
        return Err(whole(None, "is not a regular file".to_owned(), "name a YAML file"));
    }
    if bytes.len() > CONFIG_BYTES_MAX {
        return Err(whole(
            None,
            "is larger than 256 KiB".to_owned(),
            "this is not a config file; is the path right?",
        ));
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse(text, path),
        Err(error) => {
            let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
            Err(whole(Some(line), "is not text in UTF-8".to_owned(), "save it as UTF-8; is the path right?"))
        }
    }
}

/// One byte more than the limit at most; a pipe or device is not read at all, for it could have no end.
fn read_limited(path: &Path) -> std::io::Result<(Vec<u8>, bool)> {
    if !std::fs::metadata(path)?.is_file() {
        return Ok((Vec::new(), false));
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(CONFIG_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok((bytes, true))
}

/// Reads the text of a config file; `file` is the name that problems carry.
///
/// # Errors
/// As `load`.
pub fn parse(text: &str, file: &Path) -> Result<Config, Problems> {
    let root = tree::read(text).map_err(|unreadable| {
        let hint = if unreadable.syntax {
            syntax_hint(text, unreadable.line)
        } else {
            "write each value out where it is used".to_owned()
        };
        single(file, unreadable.line, unreadable.what, hint)
    })?;
    if !matches!(root.value, Value::Map(_) | Value::Null) {
        return Err(not_sections(text, file, &root));
    }
    let mut found = names::check(&root);
    let config = settings::build(&root, &mut found);
    match config {
        Some(config) if found.is_empty() => Ok(config),
        _ => Err(with_lines(text, file, found)),
    }
}

fn with_lines(text: &str, file: &Path, mut found: Vec<Found>) -> Problems {
    // Nodes are numbered in the order of the file.
    found.sort_by_key(|found| found.id);
    let more = found.len().saturating_sub(PROBLEMS_MAX);
    let list = found.into_iter().take(PROBLEMS_MAX).map(|Found { id, key, wrong }| Problem {
        file: file.to_owned(),
        line: tree::line_of(text, id),
        key,
        what: wrong.what,
        hint: wrong.hint,
    });
    Problems { list: list.collect(), more }
}

fn single(file: &Path, line: Option<usize>, what: String, hint: String) -> Problems {
    Problems { list: vec![Problem { file: file.to_owned(), line, key: String::new(), what, hint }], more: 0 }
}

fn not_sections(text: &str, file: &Path, root: &Node) -> Problems {
    single(
        file,
        tree::line_of(text, root.id),
        "is not a config: it has no sections".to_owned(),
        "start with `agent:`, `coordinator:` or `log:` and indent their keys by two spaces".to_owned(),
    )
}

/// The usual slips behind a syntax error, looked for on the line and the one before it.
fn syntax_hint(text: &str, line: Option<usize>) -> String {
    let around: Vec<&str> = line.map_or_else(Vec::new, |line| {
        text.lines().skip(line.saturating_sub(2)).take(if line < 2 { 1 } else { 2 }).collect()
    });
    let indent_has_tab = |line: &&str| line.chars().take_while(|c| c.is_whitespace()).any(|c| c == '\t');
    if around.iter().any(indent_has_tab) {
        return "indent with spaces: YAML does not allow tabs".to_owned();
    }
    if around.iter().any(|line| line.contains("]:")) {
        return "put an IPv6 address in quotes: \"[::1]:8080\"".to_owned();
    }
    "check indentation (two spaces each level), colons and quotes around here".to_owned()
}
