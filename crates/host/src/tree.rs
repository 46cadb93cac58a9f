//! Opens, reads and lists files below one root, so that a captured machine (a folder, or an archive in memory) is read exactly like
//! the one we run on.
//!
//! Below any root but `/`, every path and every symbolic link is resolved inside that root (`openat2(2)`, `RESOLVE_IN_ROOT`):
//! a link in a capture can never lead to the files of the machine that judges it.

use crate::archive::Archive;
use crate::recorder::Recorder;
use crate::source::{FILE_BYTES_MAX, NOT_CAPTURED, Source};
use rdmascope_model::Reading;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A root folder, or one below it that many files are read from: the kernel then walks the long path once.
#[derive(Debug)]
pub(crate) struct Tree {
    source: Source,
    /// Its path below the root, with a slash at the end, for messages.
    label: String,
    /// Keeps everything that is read, for a capture.
    recorder: Option<Arc<Recorder>>,
    /// Questions to the kernel so far, of this folder and all that were opened from it.
    reads: Arc<AtomicU64>,
}

impl Tree {
    /// Opens the root folder; the error is what `open(2)` said.
    pub(crate) fn open(root: &Path) -> std::io::Result<Self> {
        let fd = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self::of(Source::Folder { root: fd, real: root == Path::new("/") }))
    }

    /// The files of an archive.
    pub(crate) fn in_memory(archive: Archive) -> Self {
        Self::of(Source::Archive { archive: Arc::new(archive), at: String::new() })
    }

    fn of(source: Source) -> Self {
        Self { source, label: String::new(), recorder: None, reads: Arc::default() }
    }

    /// The same files; all that is read from now on is recorded.
    pub(crate) fn recorded(mut self, recorder: Arc<Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// What was read, where that is kept.
    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_deref()
    }

    /// A folder below; `Absent` when it is not there.
    pub(crate) fn folder(&self, path: &str) -> Reading<Self> {
        match self.source.folder(path) {
            Ok(source) => {
                self.record(path, |recorder, path| recorder.exists(path));
                let label = format!("{}{path}/", self.label);
                Reading::Value(Self {
                    source,
                    label,
                    recorder: self.recorder.clone(),
                    reads: Arc::clone(&self.reads),
                })
            }
            Err(Errno::NOENT) => Reading::Absent,
            Err(e) => Reading::Failed(format!("opening {}{path}: {}", self.label, words(e))),
        }
    }

    /// What was read some seconds earlier, where a capture holds it below `folder`: a root of its own.
    pub(crate) fn root_below(&self, folder: &str) -> Option<Self> {
        match &self.source {
            Source::Folder { .. } => {
                let recorder =
                    self.recorder.as_ref().and_then(|recorder| recorder.below(folder)).map(Arc::new);
                Some(Self { recorder, ..Self::of(self.source.folder(folder).ok()?) })
            }
            Source::Archive { archive, .. } => archive.below(folder).map(Self::in_memory),
        }
    }

    /// Whether this is the machine that we run on.
    pub(crate) fn is_real(&self) -> bool {
        matches!(self.source, Source::Folder { real: true, .. })
    }

    /// Files, folders and links that were opened, and other questions that were counted.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Counts questions that were asked in another way, such as by netlink.
    pub(crate) fn count(&self, questions: u64) {
        self.reads.fetch_add(questions, Ordering::Relaxed);
    }

    /// One question was asked: it is counted and, for a capture, kept.
    fn record(&self, path: &str, record: impl FnOnce(&Recorder, &str)) {
        self.count(1);
        if let Some(recorder) = &self.recorder {
            record(recorder, &format!("{}{path}", self.label));
        }
    }

    /// The text of a file, without the white space around it. An empty file is `Absent`: drivers leave attributes empty that
    /// they have nothing to say for.
    pub(crate) fn text(&self, path: &str) -> Reading<String> {
        let bytes = match self.bytes(path, FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            // EOPNOTSUPP: the driver has no such thing (`phys_port_name`).
            Err(Errno::NOENT | Errno::NOTDIR | Errno::OPNOTSUPP) => return Reading::Absent,
            Err(e) => return Reading::Failed(format!("reading {}{path}: {}", self.label, words(e))),
        };
        if bytes.len() > FILE_BYTES_MAX {
            return Reading::Failed(format!(
                "reading {}{path}: longer than {FILE_BYTES_MAX} bytes",
                self.label
            ));
        }
        match String::from_utf8(bytes).map(trimmed) {
            Ok(text) if text.is_empty() => Reading::Absent,
            Ok(text) => Reading::Value(text),
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

    /// How long ago a file was written, by the machine's clock.
    pub(crate) fn age_seconds(&self, path: &str) -> Reading<u32> {
        match self.source.modified(path) {
            // A clock that was set back since: just now.
            Ok(then) => {
                let seconds = then.elapsed().unwrap_or_default().as_secs();
                Reading::Value(u32::try_from(seconds).unwrap_or(u32::MAX))
            }
            Err(Errno::NOENT | Errno::NOTDIR) => Reading::Absent,
            Err(e) => Reading::Failed(format!("looking at {}{path}: {}", self.label, words(e))),
        }
    }

    /// The bytes of a file; one more than `most` when it has more.
    fn bytes(&self, path: &str, most: usize) -> Result<Vec<u8>, Errno> {
        let read = self.source.bytes(path, most);
        self.record(path, |recorder, path| recorder.file(path, &read));
        read
    }

    /// The first `most` bytes of a file as they are.
    pub(crate) fn binary(&self, path: &str, most: usize) -> Reading<Vec<u8>> {
        match self.bytes(path, most) {
            Ok(mut bytes) => {
                bytes.truncate(most);
                Reading::Value(bytes)
            }
            Err(Errno::NOENT | Errno::NOTDIR) => Reading::Absent,
            Err(e) => Reading::Failed(format!("reading {}{path}: {}", self.label, words(e))),
        }
    }

    /// The text of the first `most` bytes of a file that may be longer than a sysfs attribute, as in procfs. An empty file is an
    /// empty text: a list may have no lines.
    pub(crate) fn beginning(&self, path: &str, most: usize) -> Reading<String> {
        self.binary(path, most).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What is written in a symbolic link, such as `net:[4026531840]`; the link is not followed.
    pub(crate) fn link_text(&self, path: &str) -> Reading<String> {
        let read = self.source.link(path);
        self.record(path, |recorder, path| recorder.exists(path));
        match read {
            Ok(text) => Reading::Value(text),
            Err(Errno::NOENT | Errno::NOTDIR) => Reading::Absent,
            Err(e) => Reading::Failed(format!("reading the link {}{path}: {}", self.label, words(e))),
        }
    }

    /// The last name of where a link leads, such as the driver's name for `device/driver`.
    pub(crate) fn target_name(&self, path: &str) -> Reading<String> {
        match self.resolved(path) {
            Reading::Value(target) => match target.file_name().and_then(|name| name.to_str()) {
                Some(name) => Reading::Value(name.to_owned()),
                None => Reading::Failed(format!("{path} leads to a name that is not text")),
            },
            Reading::Absent => Reading::Absent,
            Reading::Failed(why) => Reading::Failed(why),
        }
    }

    /// For a file that every machine has: when it is not there, it could not be looked at.
    pub(crate) fn owed<T>(&self, path: &str, reading: Reading<T>) -> Reading<T> {
        match reading {
            Reading::Absent if self.is_real() => {
                Reading::Failed(format!("{}{path} is not there", self.label))
            }
            Reading::Absent => Reading::Failed(format!("{}{path} is not part of this capture", self.label)),
            other => other,
        }
    }

    /// For a file that a machine may lack: that it is not there means something only where the folder around it is.
    pub(crate) fn owed_within<T>(&self, folder: &str, reading: Reading<T>) -> Reading<T> {
        match reading {
            Reading::Absent if !self.is_there(folder) => self.owed(folder, Reading::Absent),
            other => other,
        }
    }

    /// Whether a file or folder is there, as far as it may be seen.
    pub(crate) fn is_there(&self, path: &str) -> bool {
        let there = self.source.is_there(path);
        self.record(path, |recorder, path| recorder.exists(path));
        there
    }

    /// Names in a folder, sorted, numbers by their value; `Absent` when there is no such folder.
    pub(crate) fn list(&self, path: &str) -> Reading<Vec<String>> {
        let names = self.source.names(path);
        self.record(path, |recorder, path| recorder.listing(path, &names));
        match names {
            Ok(mut names) => {
                names.sort_unstable();
                names.sort_by_key(|name| name.parse::<u32>().unwrap_or(u32::MAX));
                Reading::Value(names)
            }
            Err(Errno::NOENT) => Reading::Absent,
            Err(Errno::ILSEQ) => {
                Reading::Failed(format!("listing {}{path}: a name in it is not text", self.label))
            }
            Err(e) => Reading::Failed(format!("listing {}{path}: {}", self.label, words(e))),
        }
    }

    /// Where a path ends after all symbolic links, as the kernel names it; the root's own path is in front of it.
    pub(crate) fn resolved(&self, path: &str) -> Reading<PathBuf> {
        self.record(path, |recorder, path| recorder.exists(path));
        match self.source.resolved(path) {
            Ok(target) => Reading::Value(target),
            Err(Errno::NOENT) => Reading::Absent,
            Err(e) => Reading::Failed(format!("following {path}: {}", words(e))),
        }
    }
}

/// Without the white space around it, in the same memory.
fn trimmed(mut text: String) -> String {
    text.truncate(text.trim_end().len());
    text.drain(..text.len() - text.trim_start().len());
    text
}

/// What is said when a driver answers EINVAL.
const EINVAL_WORDS: &str =
    "the driver answers EINVAL (not supported on this port, or not in its present state)";

/// Whether a reading failed because the driver answered EINVAL: asking again soon gives the same, and may fill the kernel log.
pub(crate) fn is_refused(why: &str) -> bool {
    why.ends_with(EINVAL_WORDS)
}

/// An errno with what it means in sysfs, where that differs from its usual text.
fn words(e: Errno) -> String {
    match e {
        Errno::INVAL => EINVAL_WORDS.to_owned(),
        NOT_CAPTURED => "it is not part of this capture".to_owned(),
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
    fn files_of_procfs_are_read_beyond_one_page_and_links_are_not_followed() {
        let folder = Folder::new();
        folder.write("long", &"0123456789".repeat(1000));
        folder.write("empty", "");
        folder.link("ns", "net:[4026531840]");
        let tree = Tree::open(folder.path()).unwrap();
        assert_eq!(tree.beginning("long", 100_000).value().unwrap().len(), 10_000);
        assert_eq!(tree.beginning("long", 12), Reading::Value("012345678901".to_owned()));
        assert_eq!(tree.beginning("empty", 12), Reading::Value(String::new()));
        assert_eq!(tree.beginning("missing", 12), Reading::Absent);
        assert_eq!(tree.link_text("ns"), Reading::Value("net:[4026531840]".to_owned()));
        assert_eq!(tree.link_text("other"), Reading::Absent);
        let real = Tree::open(Path::new("/")).unwrap();
        assert!(real.link_text("proc/self/ns/net").value().unwrap().starts_with("net:["));
        // procfs gives a page at a time: an own environment, or the maps of a test, is longer.
        assert!(real.beginning("proc/self/maps", 1 << 20).value().unwrap().len() > FILE_BYTES_MAX);
    }

    #[test]
    fn what_is_missing_from_a_capture_is_not_what_a_machine_lacks() {
        let folder = Folder::new();
        folder.write("sys/devices/system/cpu/online", "0-3");
        let tree = Tree::open(folder.path()).unwrap();
        let absent = || Reading::<u32>::Absent;
        assert_eq!(tree.owed_within("sys/devices/system/cpu", absent()), Reading::Absent);
        let gone = "sys/module is not part of this capture";
        assert_eq!(tree.owed_within("sys/module", absent()), Reading::Failed(gone.to_owned()));
        assert_eq!(tree.owed("sys/module", Reading::Value(1)), Reading::Value(1));
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
