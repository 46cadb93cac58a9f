//! Reads and follows a plain log file; rotation and truncation do not lose a line that was written.

use super::lines::Lines;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Only so much of the end of a file is read at first; what stands before it is history.
const HISTORY_BYTES: u64 = 16 * 1024 * 1024;

/// First bytes of a systemd journal file.
const JOURNAL: &[u8] = b"LPKSHHRH";

/// A log file and how far it was read.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    fd: OwnedFd,
    identity: (u64, u64),
    position: u64,
    /// What was there when it was opened.
    history_until: u64,
    lines: Lines,
}

impl LogFile {
    /// Opens the file so that its last 16 MiB come first; the error says what is needed.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let said = |e: Errno| format!("opening {}: {}", path.display(), std::io::Error::from(e));
        Self::of(path, openat(CWD, path, flags, Mode::empty()).map_err(said)?)
    }

    /// The same for a file that is open already.
    pub(super) fn of(path: &Path, fd: OwnedFd) -> Result<Self, String> {
        let stat = rustix::fs::fstat(&fd).map_err(|e| format!("looking at {}: {e}", path.display()))?;
        let mut begin = [0; 8];
        if matches!(rustix::io::pread(&fd, &mut begin, 0), Ok(8)) && begin == JOURNAL {
            return Err(format!(
                "{} is a systemd journal, which systemd alone can read: `journalctl -k -b > FILE` makes a plain file",
                path.display()
            ));
        }
        let length = u64::try_from(stat.st_size).unwrap_or(0);
        let mut file = Self {
            path: path.to_owned(),
            fd,
            identity: (stat.st_dev, stat.st_ino),
            position: length.saturating_sub(HISTORY_BYTES),
            history_until: length,
            lines: Lines::default(),
        };
        if file.position > 0 {
            file.skip_broken_line();
        }
        Ok(file)
    }

    /// A position in the middle of a file is most often in the middle of a line.
    fn skip_broken_line(&mut self) {
        let mut buffer = [0; 4096];
        if let Ok(length) = rustix::io::pread(&self.fd, &mut buffer, self.position) {
            let skip = buffer[..length].iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            self.position += skip as u64;
        }
    }

    /// Gives lines of about `most` bytes to `each`, with true for those that were there when it was opened. True: more may be there.
    pub(super) fn read(&mut self, most: usize, each: &mut dyn FnMut(&str, bool)) -> Result<bool, String> {
        let mut buffer = vec![0; most];
        let length =
            match rustix::io::retry_on_intr(|| rustix::io::pread(&self.fd, &mut buffer, self.position)) {
                Ok(length) => length,
                // A pipe has no positions.
                Err(Errno::SPIPE) => {
                    match rustix::io::retry_on_intr(|| rustix::io::read(&self.fd, &mut buffer)) {
                        Ok(length) => length,
                        Err(Errno::AGAIN) => return Ok(self.wait_for_pipe()),
                        Err(e) => return Err(self.said(e)),
                    }
                }
                Err(e) => return Err(self.said(e)),
            };
        let historic = self.position < self.history_until;
        self.position += length as u64;
        self.lines.feed(&buffer[..length], &mut |line| each(line, historic));
        if length > 0 {
            return Ok(true);
        }
        self.next_file(each)
    }

    /// Whether somebody still writes into the pipe, within two seconds (`--kernel-log <(dmesg)`).
    fn wait_for_pipe(&self) -> bool {
        let limit = rustix::time::Timespec { tv_sec: 2, tv_nsec: 0 };
        let mut fds = [rustix::event::PollFd::new(&self.fd, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&limit)).is_ok_and(|ready| ready > 0)
    }

    /// At the end: was the file cut, or has another one taken its name?
    fn next_file(&mut self, each: &mut dyn FnMut(&str, bool)) -> Result<bool, String> {
        let own = rustix::fs::fstat(&self.fd).map_err(|e| self.said(e))?;
        if u64::try_from(own.st_size).unwrap_or(0) < self.position && own.st_size >= 0 && !is_pipe(&own) {
            (self.position, self.history_until) = (0, 0);
            self.lines = Lines::default();
            return Ok(true);
        }
        // Without a file of that name the new one is yet to come.
        let Ok(named) = rustix::fs::stat(&self.path) else { return Ok(false) };
        if (named.st_dev, named.st_ino) == self.identity || is_pipe(&own) {
            return Ok(false);
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = openat(CWD, &self.path, flags, Mode::empty()).map_err(|e| self.said(e))?;
        self.lines.end(&mut |line| each(line, false));
        self.identity = (named.st_dev, named.st_ino);
        (self.fd, self.position, self.history_until) = (fd, 0, 0);
        Ok(true)
    }

    /// The last line, where the file does not end with a line end and nothing more will come.
    pub(super) fn end(&mut self, each: &mut dyn FnMut(&str)) {
        self.lines.end(each);
    }

    fn said(&self, e: Errno) -> String {
        format!("reading {}: {}", self.path.display(), std::io::Error::from(e))
    }
}

fn is_pipe(stat: &rustix::fs::Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Fifo
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::Folder;
    use std::io::Write as _;

    fn drain(file: &mut LogFile) -> Vec<(String, bool)> {
        let mut seen = Vec::new();
        while file.read(64 * 1024, &mut |line, historic| seen.push((line.to_owned(), historic))).unwrap() {}
        seen
    }

    fn lines(seen: &[(String, bool)]) -> Vec<(&str, bool)> {
        seen.iter().map(|(line, historic)| (line.as_str(), *historic)).collect()
    }

    #[test]
    fn rotation_and_truncation_lose_nothing() {
        let folder = Folder::new();
        let path = folder.path().join("kern.log");
        let append = |path: &Path, text: &str| {
            std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(path)
                .unwrap()
                .write_all(text.as_bytes())
                .unwrap();
        };
        append(&path, "old\n");
        let mut file = LogFile::open(&path).unwrap();
        assert_eq!(lines(&drain(&mut file)), [("old", true)]);
        append(&path, "new\nha");
        assert_eq!(lines(&drain(&mut file)), [("new", false)]);
        append(&path, "lf\n");
        std::fs::rename(&path, folder.path().join("kern.log.1")).unwrap();
        append(&folder.path().join("kern.log.1"), "late\n");
        assert_eq!(
            lines(&drain(&mut file)),
            [("half", false), ("late", false)],
            "the new file is not there yet"
        );
        append(&path, "rotated\n");
        assert_eq!(lines(&drain(&mut file)), [("rotated", false)]);
        std::fs::write(&path, "cut\n").unwrap();
        assert_eq!(lines(&drain(&mut file)), [("cut", false)]);
        std::fs::remove_file(&path).unwrap();
        assert!(drain(&mut file).is_empty());
    }

    #[test]
    fn only_the_end_of_a_long_file_is_read() {
        let folder = Folder::new();
        let line = format!("{}\n", "x".repeat(1023));
        folder.write("long", &line.repeat(usize::try_from(HISTORY_BYTES).unwrap() / 1024 + 10));
        let mut file = LogFile::open(&folder.path().join("long")).unwrap();
        let seen = drain(&mut file);
        assert!(seen.len() as u64 * 1024 <= HISTORY_BYTES && seen.iter().all(|(line, _)| line.len() == 1023));
    }

    #[test]
    fn a_journal_is_refused_with_the_way_out() {
        let folder = Folder::new();
        folder.write("system.journal", "LPKSHHRH\0\0\0");
        let why = LogFile::open(&folder.path().join("system.journal")).unwrap_err();
        assert!(why.contains("journalctl -k -b"), "{why}");
        assert!(LogFile::open(&folder.path().join("none")).unwrap_err().contains("No such file"));
    }
}
