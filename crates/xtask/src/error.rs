//! What can go wrong in a task, in words that say what to do next.

use std::io;
use std::path::{Path, PathBuf};

/// A task that could not be finished.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A program could not be started at all.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program's name.
        program: String,
        /// Why the system refused.
        #[source]
        source: io::Error,
    },
    /// A program ran and failed.
    #[error("{what} failed ({how})")]
    Failed {
        /// What was being done, in words.
        what: String,
        /// Exit code or signal.
        how: String,
    },
    /// A file or folder could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The verb: read, write, create.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why the system refused.
        #[source]
        source: io::Error,
    },
    /// Anything that needs a sentence of its own.
    #[error("{0}")]
    Other(String),
}

/// The result of a task or a part of it.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Puts the path and the verb to an I/O error.
pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { action, path, source }
}

/// An error that is one sentence.
pub(crate) fn other(text: impl Into<String>) -> Error {
    Error::Other(text.into())
}
