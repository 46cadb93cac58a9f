//! What `rdmascope simulate` says, read from its JSON.

use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// The figures of one run, by what they are.
pub(super) struct Simulated(BTreeMap<String, f64>);

impl Simulated {
    /// Runs it to its end.
    pub(super) fn run(flags: &[&str]) -> Self {
        eprintln!("bench: rdmascope simulate {}", flags.join(" "));
        let binary =
            std::env::var("RDMASCOPE_BIN").unwrap_or_else(|_| panic!("RDMASCOPE_BIN names no binary"));
        let mut command = Command::new(binary);
        command.arg("simulate").args(flags).arg("--json").stdin(Stdio::null()).stderr(Stdio::inherit());
        let done = command.output().unwrap_or_else(|error| panic!("rdmascope simulate: {error}"));
        assert!(done.status.success(), "rdmascope simulate {}: {}", flags.join(" "), done.status);
        let text = String::from_utf8_lossy(&done.stdout);
        let rows = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Self(rows.filter_map(|row| Some((row["what"].as_str()?.to_owned(), row["seen"].as_f64()?))).collect())
    }

    /// A figure of it.
    pub(super) fn of(&self, what: &str) -> f64 {
        *self.0.get(what).unwrap_or_else(|| panic!("rdmascope simulate does not say: {what}"))
    }
}
