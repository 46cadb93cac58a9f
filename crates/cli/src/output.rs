//! What goes to the terminal: results, progress, and nothing that a terminal would obey.

use crate::failure::{Failure, code};
use crate::screen::{laid_out, screen};
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal as _, Write as _};

/// Prints a result for people: fitted to the terminal where one shows it.
pub(crate) fn show(text: &str) -> Result<(), Failure> {
    print(&laid_out(text, screen()))
}

/// Prints a result of a type of the API as JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|error| Failure::new(code::FAILED, format!("no JSON: {error}")))?;
    print(&format!("{text}\n"))
}

/// Prints what the API answered, as it is, with an end of its last line.
pub(crate) fn print_answer(text: &str) -> Result<(), Failure> {
    print(text)?;
    if text.ends_with('\n') { Ok(()) } else { print("\n") }
}

/// Prints a result for programs, as it is. A reader that has seen enough (`| head`) is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(code::FAILED, format!("the result cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Text from elsewhere, without control characters.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Progress on standard error: one line that changes on a terminal, else a line for every change worth one.
pub(crate) struct Progress {
    live: bool,
    shown: String,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { live: std::io::stderr().is_terminal(), shown: String::new() }
    }

    /// Whether the line can change in place.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// Shows how far it is; the same text again shows nothing.
    pub(crate) fn show(&mut self, text: &str) {
        if self.shown == text {
            return;
        }
        text.clone_into(&mut self.shown);
        // To the start of the line, the text, and clear what an earlier, longer one left behind.
        let line = if self.live { format!("\r{text}\x1b[K") } else { format!("{text}\n") };
        tell(&line);
    }

    /// Takes the changing line away, so that a result can take its place.
    pub(crate) fn clear(&mut self) {
        if self.live && !self.shown.is_empty() {
            tell("\r\x1b[K");
        }
        self.shown.clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn tell(text: &str) {
    let mut err = std::io::stderr().lock();
    // Without a standard error nobody wants progress.
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}
