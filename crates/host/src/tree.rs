//! Opens, reads and lists files below one root folder, so that a captured machine is read exactly like the one we run on.
//!
//! Below any root but `/`, every path and every symbolic link is resolved inside that root (`openat2(2)`, `RESOLVE_IN_ROOT`):
//! a link in a capture can never lead to the files of the machine that judges it.

use rdmascope_model::Reading;
use rustix::fs::{CWD, Dir, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Largest file that is read: a sysfs attribute fills at most one page of memory (`Documentation/filesystems/sysfs.rst`).
const FILE_BYTES_MAX: usize = 4096;

/// Most entries of one folder that are looked at; the longest real one is a GID table, 256 slots.
const ENTRIES_MAX: usize = 8192;

/// A root folder, or one below it that many files are read from: the kernel then walks the long path once.
#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
    real: bool,
    /// Its path below the root, with a slash at the end, for messages.
    label: String,
    /// Questions to the kernel so far, of this folder and all that were opened from it.
    reads: Arc<AtomicU64>,
}

impl Tree {
    /// Opens the root folder; the error is what `open(2)` said.
    pub(crate) fn open(root: &Path) -> std::io::Result<Self> {
        let fd = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { root: fd, real: root == Path::new("/"), label: String::new(), reads: Arc::default() })
    }

    /// A folder below; `Absent` when it is not there.
    pub(crate) fn folder(&self, path: &str) -> Reading<Self> {
        match self.open_at(path, OFlags::PATH | OFlags::DIRECTORY) {
            Ok(root) => {
                let label = format!("{}{path}/", self.label);
                Reading::Value(Self { root, real: self.real, label, reads: Arc::clone(&self.reads) })
            }
            Err(Errno::NOENT) => Reading::Absent,
            Err(e) => Reading::Failed(format!("opening {}{path}: {}", self.label, words(e))),
        }
    }

    /// Whether this is the machine that we run on.
    pub(crate) fn is_real(&self) -> bool {
        self.real
    }

    /// Files, folders and links that were opened, and other questions that were counted.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Counts questions that were asked in another way, such as by netlink.
    pub(crate) fn count(&self, questions: u64) {
        self.reads.fetch_add(questions, Ordering::Relaxed);
    }

    fn open_at(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.count(1);
        let flags = flags | OFlags::CLOEXEC;
        if self.real {
            // Container runtimes of old refuse openat2(2), and there is nothing to stay inside of here.
            return openat(&self.root, path, flags, Mode::empty());
        }
        openat2(&self.root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
    }

    /// The text of a file, without the white space around it. An empty file is `Absent`: drivers leave attributes empty that
    /// they have nothing to say for.
    pub(crate) fn text(&self, path: &str) -> Reading<String> {
        let bytes = match self.bytes(path) {
            Ok(bytes) => bytes,
            Err(Errno::NOENT | Errno::NOTDIR) => return Reading::Absent,
            Err(e) => return Reading::Failed(format!("reading {}{path}: {}", self.label, words(e))),
        };
        if bytes.len() > FILE_BYTES_MAX {
            return Reading::Failed(format!(
                "reading {}{path}: longer than {FILE_BYTES_MAX} bytes",
                self.label
            ));
        }
        match String::from_utf8(bytes) {
            Ok(text) if text.trim().is_empty() => Reading::Absent,
            Ok(text) => Reading::Value(text.trim().to_owned()),
            Err(_) => Reading::Failed(format!("reading {}{path}: not text", self.label)),
        }
    }

    /// A file's text through a parser, whose error says what is wrong with it.
    pub(crate) fn parsed<T>(&self, path: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Reading<T> {
        match self.text(path) {
            Reading::Value(text) => parse(&text).map_or_else(
                |why| Reading::Failed(format!("reading {}{path}: {why}", self.label)),
                Reading::Value,
            ),
            Reading::Absent => Reading::Absent,
            Reading::Failed(why) => Reading::Failed(why),
        }
    }

    fn bytes(&self, path: &str) -> Result<Vec<u8>, Errno> {
        // Without O_NONBLOCK a named pipe in a hand-made folder would hold the reader for ever.
        let fd = self.open_at(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let mut bytes = vec![0; FILE_BYTES_MAX + 1];
        // One call gets all of it: a sysfs attribute is printed at once, and the room is larger than any.
        let length = rustix::io::retry_on_intr(|| rustix::io::read(&fd, &mut bytes))?;
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Names in a folder, sorted, numbers by their value; `Absent` when there is no such folder.
    pub(crate) fn list(&self, path: &str) -> Reading<Vec<String>> {
        let failed = |e: Errno| Reading::Failed(format!("listing {}{path}: {}", self.label, words(e)));
        let fd = match self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Reading::Absent,
            Err(e) => return failed(e),
        };
        let entries = match Dir::read_from(&fd) {
            Ok(entries) => entries,
            Err(e) => return failed(e),
        };
        let mut names = Vec::new();
        for entry in entries.take(ENTRIES_MAX) {
            match entry {
                Ok(entry) => match entry.file_name().to_str() {
                    Ok("." | "..") => {}
                    Ok(name) => names.push(name.to_owned()),
                    Err(_) => {
                        return Reading::Failed(format!(
                            "listing {}{path}: a name in it is not text",
                            self.label
                        ));
                    }
                },
                Err(e) => return failed(e),
            }
        }
        names.sort_by_key(|name| (name.parse::<u32>().unwrap_or(u32::MAX), name.clone()));
        Reading::Value(names)
    }

    /// Where a path ends after all symbolic links, as the kernel names it; the root's own path is in front of it.
    pub(crate) fn resolved(&self, path: &str) -> Reading<PathBuf> {
        let failed = |e: Errno| Reading::Failed(format!("following {path}: {}", words(e)));
        let fd = match self.open_at(path, OFlags::PATH) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Reading::Absent,
            Err(e) => return failed(e),
        };
        match rustix::fs::readlinkat(CWD, format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new()) {
            Ok(target) => {
                use std::os::unix::ffi::OsStringExt as _;
                Reading::Value(PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes())))
            }
            Err(e) => failed(e),
        }
    }
}

/// An errno with what it means in sysfs, where that differs from its usual text.
fn words(e: Errno) -> String {
    match e {
        Errno::INVAL => {
            "the driver answers EINVAL (not supported on this port, or not in its present state)".to_owned()
        }
        Errno::ACCESS | Errno::PERM => format!("{}: permission denied; run as root", std::io::Error::from(e)),
        _ => std::io::Error::from(e).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::Folder;

    #[test]
    fn a_link_in_a_capture_cannot_leave_it() {
        let folder = Folder::new();
        folder.write("sys/inside", "kept");
        folder.link("sys/absolute", "/etc/hostname");
        folder.link("sys/climbing", "../../../../../../../etc/hostname");
        folder.link("sys/own", "/sys/inside");
        let tree = Tree::open(folder.path()).unwrap();
        assert_eq!(tree.text("sys/absolute"), Reading::Absent);
        assert_eq!(tree.text("sys/climbing"), Reading::Absent);
        assert_eq!(tree.text("sys/own"), Reading::Value("kept".to_owned()));
    }

    #[test]
    fn what_is_no_attribute_is_refused_and_never_holds_the_reader() {
        let folder = Folder::new();
        folder.write("big", &"x".repeat(FILE_BYTES_MAX + 1));
        folder.write("full", &"x".repeat(FILE_BYTES_MAX));
        folder.write("empty", "\n");
        folder.unreadable("folder");
        rustix::fs::mknodat(
            CWD,
            folder.path().join("pipe"),
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let tree = Tree::open(folder.path()).unwrap();
        assert_eq!(tree.text("big"), Reading::Failed("reading big: longer than 4096 bytes".to_owned()));
        assert!(tree.text("full").value().is_some());
        assert_eq!(tree.text("empty"), Reading::Absent);
        assert_eq!(tree.text("pipe"), Reading::Absent);
        assert_eq!(tree.text("missing"), Reading::Absent);
        assert!(matches!(tree.text("folder"), Reading::Failed(why) if why.contains("Is a directory")));
    }

    #[test]
    fn slots_are_listed_by_number() {
        let folder = Folder::new();
        for slot in ["10", "9", "0"] {
            folder.write(&format!("gids/{slot}"), "x");
        }
        let tree = Tree::open(folder.path()).unwrap();
        assert_eq!(tree.list("gids"), Reading::Value(vec!["0".into(), "9".into(), "10".into()]));
        assert_eq!(tree.list("none"), Reading::Absent);
    }
}
