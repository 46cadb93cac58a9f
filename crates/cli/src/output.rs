//! What goes to the terminal: results, progress, and nothing that a terminal would obey.

use crate::failure::{Failure, code};
use std::io::{ErrorKind, IsTerminal as _, Write as _};

/// Columns that a table may have where nobody looks at it directly (a pipe, a file).
const COLUMNS_ELSEWHERE: usize = 240;

/// Prints a result. A reader that has seen enough (`| head`) is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(code::FAILED, format!("the result cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Columns of the terminal behind standard output.
pub(crate) fn columns() -> usize {
    if !std::io::stdout().is_terminal() {
        return COLUMNS_ELSEWHERE;
    }
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
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
