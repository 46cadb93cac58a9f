//! The text forms in which a capture keeps what netlink and ioctls told: files of lines `key: value`, written and read here.
//!
//! `key: -` says that the machine does not have it, and so does a file whose only line is `-`. What could not be read has no line:
//! a capture cannot tell it from what nobody asked for.

pub(crate) mod dcb;
pub(crate) mod ethtool;
pub(crate) mod module;
pub(crate) mod statistics;

use crate::parse;
use crate::tree::Tree;
use rdmascope_model::Reading;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What stands for "the machine does not have it".
const ABSENT: &str = "-";

/// Largest file that is read: the statistics of a card with hundreds of queues as `ethtool -S` prints them.
const BYTES_MAX: usize = 1 << 20;

/// The lines of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    path: String,
    lines: BTreeMap<String, String>,
}

impl Fields {
    /// Reads a file; `Absent` when it says that the machine has nothing of it.
    pub(crate) fn read(tree: &Tree, path: &str) -> Reading<Self> {
        let text = match tree.beginning(path, BYTES_MAX) {
            Reading::Value(text) if !text.trim().is_empty() => text,
            Reading::Value(_) | Reading::Absent => {
                return Reading::Failed(format!("{path} is not part of this capture, or empty"));
            }
            Reading::Failed(why) => return Reading::Failed(why),
        };
        if text.trim() == ABSENT {
            return Reading::Absent;
        }
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| {
            // A text may have a colon in it, a key has none.
            line.split_once(':').map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
        });
        match lines.collect() {
            Some(lines) => Reading::Value(Self { path: path.to_owned(), lines }),
            None => Reading::Failed(format!("reading {path}: a line of it is not of the form 'key: value'")),
        }
    }

    /// The value of one key.
    pub(crate) fn get<T>(&self, key: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Reading<T> {
        match self.lines.get(key).map(String::as_str) {
            None => Reading::Failed(format!("'{key}' in {} is not part of this capture", self.path)),
            Some(ABSENT) => Reading::Absent,
            Some(text) => read(text).map_or_else(
                |why| Reading::Failed(format!("reading '{key}' in {}: {why}", self.path)),
                Reading::Value,
            ),
        }
    }

    /// All lines.
    pub(crate) fn lines(&self) -> &BTreeMap<String, String> {
        &self.lines
    }
}

/// The text of a file that is no list of keys, through a parser; `Absent` when it says that the machine has nothing of it.
pub(crate) fn parsed<T>(
    tree: &Tree,
    path: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Reading<T> {
    match tree.beginning(path, BYTES_MAX) {
        Reading::Value(text) if text.trim() == ABSENT => Reading::Absent,
        Reading::Value(text) if !text.trim().is_empty() => parse(text.trim())
            .map_or_else(|why| Reading::Failed(format!("reading {path}: {why}")), Reading::Value),
        Reading::Value(_) | Reading::Absent => {
            Reading::Failed(format!("{path} is not part of this capture, or empty"))
        }
        Reading::Failed(why) => Reading::Failed(why),
    }
}

/// The text of a whole file; `None` when nothing is known.
pub(crate) fn file<T>(reading: &Reading<T>, write: impl FnOnce(&T) -> String) -> Option<String> {
    match reading {
        Reading::Value(value) => Some(write(value)).filter(|text| !text.is_empty()),
        Reading::Absent => Some(format!("{ABSENT}\n")),
        Reading::Failed(_) => None,
    }
}

/// Appends the line of one key.
pub(crate) fn put<T>(text: &mut String, key: &str, reading: &Reading<T>, show: impl FnOnce(&T) -> String) {
    let value = match reading {
        Reading::Value(value) => show(value),
        Reading::Absent => ABSENT.to_owned(),
        Reading::Failed(_) => return,
    };
    writeln!(text, "{key}: {value}").expect("a text can always grow");
}

/// `on`, or `off`; also as `true`/`false` and `yes`/`no`.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" | "yes" => Ok(true),
        "off" | "false" | "no" => Ok(false),
        _ => Err(format!("'{}' is neither on nor off", text.escape_debug())),
    }
}

/// See [`switch`].
pub(crate) fn show_switch(on: &bool) -> String {
    if *on { "on" } else { "off" }.to_owned()
}

/// A mask of priorities or classes as a list such as `3,5`, or `none`.
pub(crate) fn mask(text: &str) -> Result<u8, String> {
    if text == "none" {
        return Ok(0);
    }
    text.split(',').try_fold(0, |mask, number| match parse::number::<u8>(number.trim())? {
        bit @ 0..8 => Ok(mask | (1 << bit)),
        other => Err(format!("{other} is above 7")),
    })
}

/// See [`mask`].
pub(crate) fn show_mask(mask: &u8) -> String {
    rdmascope_model::priorities(*mask)
}

/// Numbers with spaces between them.
pub(crate) fn list<T: std::str::FromStr>(text: &str) -> Result<Vec<T>, String> {
    text.split_whitespace().map(parse::number).collect()
}

/// See [`list`].
pub(crate) fn show_list<T: ToString>(numbers: &[T]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Exactly eight numbers.
pub(crate) fn eight<T: std::str::FromStr>(text: &str) -> Result<[T; 8], String> {
    let numbers = list(text)?;
    let count = numbers.len();
    numbers.try_into().map_err(|_| format!("{count} numbers where 8 belong"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::Folder;

    fn read(text: &str) -> Reading<Fields> {
        let folder = Folder::new();
        folder.write("file", text);
        Fields::read(&Tree::open(folder.path()).unwrap(), "file")
    }

    #[test]
    fn missing_absent_and_wrong_are_three_different_things() {
        let Reading::Value(fields) = read("a: 1\n  b: -\n\nc: x:y\n") else { panic!("it is read") };
        assert_eq!(fields.get("a", parse::number::<u8>), Reading::Value(1));
        assert_eq!(fields.get("b", parse::number::<u8>), Reading::Absent);
        assert_eq!(fields.get("c", parse::plain), Reading::Value("x:y".to_owned()));
        let missing = Reading::Failed("'d' in file is not part of this capture".to_owned());
        assert_eq!(fields.get("d", parse::plain), missing);
        assert!(
            matches!(fields.get("c", parse::number::<u8>), Reading::Failed(why) if why.contains("'c' in file"))
        );
        assert_eq!(read("-\n"), Reading::Absent);
        assert!(matches!(read(""), Reading::Failed(why) if why.contains("not part of this capture")));
        assert!(matches!(read("a: 1\nb\n"), Reading::Failed(why) if why.contains("key: value")));
        let whole = |text: &str| {
            let folder = Folder::new();
            folder.write("file", text);
            parsed(&Tree::open(folder.path()).unwrap(), "file", parse::number::<u8>)
        };
        assert_eq!((whole(" 7\n"), whole("-\n")), (Reading::Value(7), Reading::Absent));
        assert!(matches!(whole("\n"), Reading::Failed(why) if why.contains("not part of this capture")));
        assert!(matches!(whole("x"), Reading::Failed(why) if why.starts_with("reading file: ")));
    }

    #[test]
    fn masks_and_lists() {
        for (text, value) in [("none", 0), ("3", 0b1000), ("0,3,7", 0b1000_1001)] {
            assert_eq!(mask(text), Ok(value));
            assert_eq!(show_mask(&value), text);
        }
        assert!(mask("8").is_err() && mask("").is_err() && mask("3 4").is_err());
        assert_eq!(eight::<u8>("1 2 3 4 5 6 7 8"), Ok([1, 2, 3, 4, 5, 6, 7, 8]));
        assert!(eight::<u8>("1 2 3").is_err() && eight::<u8>("1 2 3 4 5 6 7 256").is_err());
        assert!(switch("on") == Ok(true) && switch("no") == Ok(false) && switch("On").is_err());
    }
}
