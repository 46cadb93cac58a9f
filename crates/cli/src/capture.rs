//! `rdmascope capture`: takes this machine along in one text file.

use crate::check_arguments::CaptureFlags;
use crate::failure::{Failure, code};
use crate::looking::finished;
use crate::output::print;
use rdmascope_host::{Host, ask_verbs, capture};
use rdmascope_model::in_one_line;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs it.
pub(crate) fn run(flags: &CaptureFlags) -> Result<u8, Failure> {
    let failed = |what: String| Failure::new(code::FAILED, what);
    let root = flags.root.clone().unwrap_or_else(|| PathBuf::from("/"));
    let host = Host::recording(root).map_err(|error| failed(in_one_line(&error)))?;
    // Before the waiting, so that a wrong path is told at once.
    let file = flags.output.as_deref().map(create).transpose()?;
    let text = finished(code::FAILED, capture(&host, Duration::from_secs(flags.seconds), ask_verbs()))?;
    match (file, &flags.output) {
        (Some(mut file), Some(path)) => {
            let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
            written.map_err(|error| failed(format!("{} cannot be written: {error}", path.display())))?;
        }
        _ => print(&text)?,
    }
    Ok(0)
}

/// A new file that only its owner reads, until he has read it himself.
fn create(path: &Path) -> Result<std::fs::File, Failure> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| {
        let next_step = match error.kind() {
            ErrorKind::AlreadyExists => "nothing is overwritten: name a new file",
            ErrorKind::PermissionDenied => "name a file in a folder that this user may write to",
            _ => "name a file in a folder that is there",
        };
        Failure::new(code::FAILED, format!("{} cannot be made: {error}", path.display())).then(next_step)
    })
}
