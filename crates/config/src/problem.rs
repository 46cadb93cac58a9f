//! What is wrong with a config file, for the person who has to mend it.

use std::fmt;
use std::path::PathBuf;

/// Problems that are listed; a file with more is not a config, and each costs one more pass over the text.
pub(crate) const PROBLEMS_MAX: usize = 50;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, as it was named.
    pub file: PathBuf,
    /// Line, from 1; `None` where the file as a whole is meant.
    pub line: Option<usize>,
    /// The key with its sections, such as `coordinator.sweep.pause`; empty where the file as a whole is meant.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub hint: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}\n    hint: {}", self.what, self.hint)
    }
}

/// Everything that is wrong with one file, in the order of its lines. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// The first 50.
    pub list: Vec<Problem>,
    /// How many more there are.
    pub more: usize,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// A problem whose line is not known yet.
#[derive(Debug)]
pub(crate) struct Found {
    /// Node of the tree that it is about.
    pub(crate) id: u32,
    pub(crate) key: String,
    pub(crate) wrong: Wrong,
}

/// What is wrong with a value, and the way out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) what: String,
    pub(crate) hint: String,
}

impl Wrong {
    pub(crate) fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }
}
