//! Keeps what readers read, as they read it, so that a capture shows its judge exactly what the machine showed.

use crate::archive::{Archive, Entry, walk};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, readlinkat, statat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// All that was read below one root folder.
#[derive(Debug)]
pub(crate) struct Recorder {
    root: OwnedFd,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    archive: Archive,
    /// Paths of the files and folders that were opened, as the readers named them.
    opened: BTreeSet<String>,
}

impl Recorder {
    /// For what is read below `root`; the error is what `open(2)` said.
    pub(crate) fn new(root: &Path) -> std::io::Result<Self> {
        let root = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { root, seen: Mutex::default() })
    }

    /// The same for a root below this one, such as the earlier reading of a capture.
    pub(crate) fn below(&self, folder: &str) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(&self.root, folder, flags | OFlags::NOFOLLOW, Mode::empty()).ok()?;
        Some(Self { root, seen: Mutex::default() })
    }

    /// What was read since the beginning, or since the last call.
    pub(crate) fn take(&self) -> Archive {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner).archive)
    }

    /// Every file and folder that was opened, as the readers named it, in order.
    pub(crate) fn opened(&self) -> Vec<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).opened.iter().cloned().collect()
    }

    /// A file was read, or could not be.
    pub(crate) fn file(&self, path: &str, read: &Result<Vec<u8>, Errno>) {
        self.keep(path, |archive, at| match read {
            Ok(bytes) => archive.put(at, Entry::File(bytes.clone())),
            Err(Errno::ISDIR) => archive.put(at, Entry::Folder),
            Err(e) => archive.put(at, Entry::Error(*e)),
        });
    }

    /// A folder was listed, or could not be. What stands in it is kept by name, so that it can be listed again.
    pub(crate) fn listing(&self, path: &str, names: &Result<Vec<String>, Errno>) {
        self.keep(path, |archive, at| {
            let names = match names {
                Ok(names) => names,
                // A file: whoever reads it will say more.
                Err(Errno::NOTDIR) => return,
                Err(e) => return archive.put(at, Entry::Error(*e)),
            };
            archive.put(at, Entry::Folder);
            for name in names {
                self.name(archive, &format!("{at}/{name}"));
            }
        });
    }

    /// Something was found at a path.
    pub(crate) fn exists(&self, path: &str) {
        self.keep(path, |archive, at| self.name(archive, at));
    }

    /// Keeps that something is there: a link with its target, a folder, or a file that nobody has read yet.
    fn name(&self, archive: &mut Archive, at: &str) {
        if let Ok(Some(target)) = self.link(at) {
            return archive.put(at, Entry::Link(target));
        }
        let kind = statat(&self.root, at, AtFlags::SYMLINK_NOFOLLOW);
        let kind = kind.map(|stat| FileType::from_raw_mode(stat.st_mode));
        match kind {
            Ok(FileType::Directory) => archive.put(at, Entry::Folder),
            Ok(_) => archive.put(at, Entry::Unread),
            // It went away since it was listed.
            Err(_) => {}
        }
    }

    /// Follows a path, keeps every link on the way, and hands its end on.
    fn keep(&self, path: &str, keep: impl FnOnce(&mut Archive, &str)) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Seen { archive, opened } = &mut *seen;
        let end = walk("", path, |at, _| {
            let link = self.link(at);
            match &link {
                Ok(Some(target)) => archive.put(at, Entry::Link(target.clone())),
                Ok(None) | Err(Errno::NOENT | Errno::NOTDIR) => {}
                // A link that may not be read, such as a namespace of another user's process.
                Err(e) => archive.put(at, Entry::Error(*e)),
            }
            link
        });
        if let Ok(at) = end {
            opened.insert(path.to_owned());
            keep(archive, &at);
        }
    }

    /// The target of a link; `None` for anything else that exists.
    fn link(&self, at: &str) -> Result<Option<String>, Errno> {
        if is_other_root(at) {
            return Ok(None);
        }
        match readlinkat(&self.root, at, Vec::new()) {
            Ok(target) => Ok(target.into_string().ok()),
            Err(Errno::INVAL) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// `proc/PID/root` leads to the root of a process, perhaps one in another mount namespace, although it reads as a link to `/`.
fn is_other_root(at: &str) -> bool {
    let pid = at.strip_prefix("proc/").and_then(|rest| rest.strip_suffix("/root"));
    pid.is_some_and(|pid| pid.parse::<u32>().is_ok())
}
