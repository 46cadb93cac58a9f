//! Files of a capture that hold lines `key: value`: what only netlink tells of one thing.

use crate::tree::Tree;
use rdmascope_model::Reading;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The value of what the machine does not have.
const ABSENT: &str = "-";

/// One file of fields.
pub(crate) struct Fields {
    path: String,
    found: Reading<BTreeMap<String, String>>,
}

impl Fields {
    /// Reads the file; lines without a colon are wrong, and the last of two equal keys counts.
    pub(crate) fn read(tree: &Tree, path: String) -> Self {
        let found = tree.long_parsed(&path, |text| {
            let field = |line: &str| match line.split_once(':') {
                Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
                None => Err("a line of it is not of the form 'key: value'".to_owned()),
            };
            text.lines().filter(|line| !line.trim().is_empty()).map(field).collect()
        });
        Self { path, found }
    }

    /// One field through a parser. A file or a key that is not there is no part of the capture.
    pub(crate) fn get<T>(&self, key: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Reading<T> {
        let path = &self.path;
        match &self.found {
            Reading::Value(fields) => match fields.get(key).map(String::as_str) {
                Some(ABSENT) => Reading::Absent,
                Some(value) => parse(value).map_or_else(
                    |why| Reading::Failed(format!("reading {key} in {path}: {why}")),
                    Reading::Value,
                ),
                None => Reading::Failed(format!("{key} in {path} is not part of this capture")),
            },
            Reading::Absent => Reading::Failed(format!("{path} is not part of this capture")),
            Reading::Failed(why) => Reading::Failed(why.clone()),
        }
    }
}

/// Adds the line of one field; a reading that failed leaves none.
pub(crate) fn put<T: ToString>(text: &mut String, key: &str, reading: &Reading<T>) {
    let value = match reading {
        Reading::Value(value) => value.to_string(),
        Reading::Absent => ABSENT.to_owned(),
        Reading::Failed(_) => return,
    };
    let _ = writeln!(text, "{key}: {value}");
}
