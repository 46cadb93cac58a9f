//! How far it is, and whether somebody wants it to end.

use super::own::Beside;
use crate::output::Progress;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often the coordinator is asked.
const BETWEEN: Duration = Duration::from_millis(200);
/// Where the line cannot change in place, one is printed this often.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

/// Shows progress on standard error.
pub(crate) struct Watch<'a> {
    beside: &'a Beside,
    progress: Progress,
    next_line: Instant,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(beside: &'a Beside) -> Self {
        Self { beside, progress: Progress::new(), next_line: Instant::now() }
    }

    /// Somebody wants it to end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.beside.is_interrupted()
    }

    /// Something that must be read: a line of its own.
    pub(crate) fn say(&mut self, text: &str) {
        self.progress.clear();
        // Without a standard error there is nobody to tell.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{text}\n").as_bytes());
    }

    /// Shows how far it is, and waits until it is time to look again.
    pub(crate) fn wait(&mut self, text: &str) {
        if self.progress.is_live() || Instant::now() >= self.next_line {
            self.progress.show(text);
            self.next_line = Instant::now() + BETWEEN_LINES;
        }
        sleep(BETWEEN);
    }

    pub(crate) fn clear(&mut self) {
        self.progress.clear();
    }
}
