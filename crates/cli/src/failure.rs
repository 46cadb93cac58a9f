//! What ends a command early: words for a person, and the exit code for a script.

use std::io::Write as _;

/// Exit codes that are not a judgement.
pub(crate) mod code {
    /// It did not work, or some of it did not.
    pub(crate) const FAILED: u8 = 1;
    /// The command line is wrong (`EX_USAGE` of sysexits.h).
    pub(crate) const USAGE: u8 = 64;
    /// The configuration is wrong (`EX_CONFIG` of sysexits.h).
    pub(crate) const CONFIG: u8 = 78;
    /// `check` could not judge: a mistyped flag must never read as "node failed".
    pub(crate) const CHECK_UNKNOWN: u8 = 3;
}

/// Why a command ended early.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    text: String,
    next_step: String,
    unknown_name: bool,
}

impl Failure {
    /// `text` says what failed and why.
    pub(crate) fn new(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), next_step: String::new(), unknown_name: false }
    }

    /// The same failure with what to do about it.
    pub(crate) fn then(mut self, next_step: impl Into<String>) -> Self {
        self.next_step = next_step.into();
        self
    }

    /// The same failure with another exit code.
    pub(crate) fn with(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// The same failure, which is that something named does not exist.
    pub(crate) fn of_unknown_name(mut self) -> Self {
        self.unknown_name = true;
        self
    }

    /// Something named does not exist.
    pub(crate) fn is_unknown_name(&self) -> bool {
        self.unknown_name
    }

    /// What failed and why.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What to do about it; empty where nothing is known.
    pub(crate) fn next_step(&self) -> &str {
        &self.next_step
    }

    /// Prints it, once, to standard error.
    pub(crate) fn tell(&self) {
        let mut text = format!("rdmascope: {}\n", self.text);
        if !self.next_step.is_empty() {
            text.push_str(&format!("  next step: {}\n", self.next_step));
        }
        // Without a standard error there is nobody to tell.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}
