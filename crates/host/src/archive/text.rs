//! The text form of an archive: its reader, which says all that is wrong at once, and its writer.

use super::{Archive, Entry};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// What every archive begins with.
const HEAD: &str = "rdmascope capture 1";

/// How an entry begins; a line of a text that begins so is escaped.
const MARKS: [&str; 4] = ["==", "=>", "!!", "++"];

/// The word for a file that was listed and not read.
const UNREAD: &str = "UNREAD";

/// Most lines that one line may stand for: a short archive must not fill the memory.
const HEX_LINES_MAX: usize = 1 << 16;

/// Bytes of a file that is no text, on each line.
const HEX_BYTES: usize = 32;

/// Errors that have a name in an archive; others are written as their number.
const ERRNOS: &[(&str, Errno)] = &[
    ("EACCES", Errno::ACCESS),
    ("EAGAIN", Errno::AGAIN),
    ("EBUSY", Errno::BUSY),
    ("EINVAL", Errno::INVAL),
    ("EIO", Errno::IO),
    ("EISDIR", Errno::ISDIR),
    ("ELOOP", Errno::LOOP),
    ("ENODATA", Errno::NODATA),
    ("ENODEV", Errno::NODEV),
    ("ENOMEM", Errno::NOMEM),
    ("ENOTDIR", Errno::NOTDIR),
    ("ENXIO", Errno::NXIO),
    ("EOPNOTSUPP", Errno::OPNOTSUPP),
    ("EPERM", Errno::PERM),
    ("ESRCH", Errno::SRCH),
    ("ETIMEDOUT", Errno::TIMEDOUT),
];

/// Everything that is wrong with the text of an archive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ArchiveError {
    /// Number of the line, from 1, and what is wrong with it.
    pub problems: Vec<(usize, String)>,
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is not a capture that can be read")?;
        self.problems.iter().try_for_each(|(line, what)| write!(f, "; line {line}: {what}"))
    }
}

impl Archive {
    /// Reads the text form; all that is wrong is said at once.
    pub(crate) fn parse(text: &str) -> Result<Self, ArchiveError> {
        let mut reader = Reader::default();
        if text.lines().next() != Some(HEAD) {
            reader.problems.push((1, format!("the first line must be `{HEAD}`")));
        }
        for (index, line) in text.lines().enumerate().skip(1) {
            reader.line(index + 1, line);
        }
        reader.finish()
    }
}

/// The name of an error, or its number.
fn errno_word(e: Errno) -> String {
    let named = ERRNOS.iter().find(|(_, known)| *known == e);
    named.map_or_else(|| e.raw_os_error().to_string(), |(name, _)| (*name).to_owned())
}

fn errno_of(word: &str) -> Option<Errno> {
    let named = ERRNOS.iter().find(|(name, _)| *name == word).map(|(_, e)| *e);
    let numbered = || word.parse().ok().filter(|n| (1..4096).contains(n)).map(Errno::from_raw_os_error);
    named.or_else(numbered)
}

/// Whether a line needs a backslash in front: it begins with a mark, after as many backslashes as there are.
fn is_escaped(line: &str) -> bool {
    let bare = line.trim_start_matches('\\');
    MARKS.iter().any(|mark| bare.starts_with(mark))
}

/// Whether bytes can stand as lines in an archive.
fn as_text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    (!text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'))).then_some(text)
}

impl fmt::Display for Archive {
    /// The text form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        for (path, entry) in &self.entries {
            match entry {
                Entry::Link(target) => writeln!(f, "=> {path} -> {target}")?,
                Entry::Error(e) => writeln!(f, "!! {path} {}", errno_word(*e))?,
                Entry::Unread => writeln!(f, "!! {path} {UNREAD}")?,
                Entry::Folder if self.has_below(path) => {}
                Entry::Folder => writeln!(f, "++ {path}")?,
                Entry::File(bytes) => match as_text(bytes) {
                    // A path that ends like the mark of the other form takes that form.
                    Some(text) if !path.ends_with(" hex") => {
                        writeln!(f, "== {path}")?;
                        for line in text.lines() {
                            writeln!(f, "{}{line}", if is_escaped(line) { "\\" } else { "" })?;
                        }
                    }
                    _ => {
                        writeln!(f, "== {path} hex")?;
                        let parts: Vec<&[u8]> = bytes.chunks(HEX_BYTES).collect();
                        for same in parts.chunk_by(|a, b| a == b) {
                            same[0].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                            match same.len() {
                                1 => f.write_char('\n')?,
                                times => writeln!(f, " x{times}")?,
                            }
                        }
                    }
                },
            }
        }
        Ok(())
    }
}

/// The state between two lines of the text form.
#[derive(Default)]
struct Reader {
    archive: Archive,
    /// Where each path stood.
    lines: BTreeMap<String, usize>,
    problems: Vec<(usize, String)>,
    /// The file whose lines are being read, and whether they are hexadecimal digits.
    open: Option<(String, bool)>,
    /// The last entry was wrong.
    skipping: bool,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) {
        if let Some(mark) = MARKS.into_iter().find(|mark| line.starts_with(mark)) {
            self.open = None;
            let entry = entry_of(mark, line[mark.len()..].trim());
            let begun = entry.and_then(|(path, entry, hex)| self.begin(number, path, entry, hex));
            self.skipping = begun.is_err();
            self.problems.extend(begun.err().map(|what| (number, what)));
            return;
        }
        let Some((path, hex)) = &self.open else {
            // After an entry that is wrong itself, its lines are of no interest.
            if !self.skipping && !line.trim().is_empty() {
                self.problems.push((number, "text that belongs to no file".to_owned()));
            }
            return;
        };
        let Some(Entry::File(bytes)) = self.archive.entries.get_mut(path) else { return };
        if *hex {
            match hex_bytes(line.trim()) {
                Some(more) => bytes.extend(more),
                None => self.problems.push((number, "not pairs of hexadecimal digits".to_owned())),
            }
        } else {
            let text = if line.starts_with('\\') && is_escaped(line) { &line[1..] } else { line };
            bytes.extend(text.as_bytes());
            bytes.push(b'\n');
        }
    }

    fn begin(&mut self, number: usize, path: &str, entry: Entry, hex: bool) -> Result<(), String> {
        if path.split('/').any(|name| matches!(name, "" | "." | "..")) {
            return Err(format!("`{path}` is no path below the root, such as sys/class/net/eth0/mtu"));
        }
        if let Some(first) = self.lines.insert(path.to_owned(), number) {
            return Err(format!("{path} is there already (line {first})"));
        }
        if matches!(entry, Entry::File(_)) {
            self.open = Some((path.to_owned(), hex));
        }
        self.archive.entries.insert(path.to_owned(), entry);
        Ok(())
    }

    fn finish(mut self) -> Result<Archive, ArchiveError> {
        for (path, number) in &self.lines {
            let above = path.match_indices('/').map(|(at, _)| &path[..at]);
            let wrong = |folder: &&str| !matches!(self.archive.get(folder), None | Some(Entry::Folder));
            if let Some(above) = above.into_iter().find(wrong) {
                self.problems.push((*number, format!("{path} cannot be there: {above} is no folder")));
            }
        }
        self.problems.sort();
        if self.problems.is_empty() {
            Ok(self.archive)
        } else {
            Err(ArchiveError { problems: self.problems })
        }
    }
}

/// Path and entry of one line that begins with a mark, and whether hexadecimal digits follow.
fn entry_of<'l>(mark: &str, rest: &'l str) -> Result<(&'l str, Entry, bool), String> {
    match mark {
        "==" => match rest.strip_suffix(" hex") {
            Some(path) => Ok((path.trim(), Entry::File(Vec::new()), true)),
            None => Ok((rest, Entry::File(Vec::new()), false)),
        },
        "=>" => match rest.split_once(" -> ") {
            Some((path, target)) if !target.trim().is_empty() => {
                Ok((path.trim(), Entry::Link(target.trim().to_owned()), false))
            }
            _ => Err("a link is written `=> PATH -> TARGET`".to_owned()),
        },
        "!!" => match rest.rsplit_once(' ') {
            Some((path, UNREAD)) => Ok((path.trim(), Entry::Unread, false)),
            Some((path, word)) => match errno_of(word) {
                Some(e) => Ok((path.trim(), Entry::Error(e), false)),
                None => Err(format!("{word} is no error that is known here, such as EINVAL or EACCES")),
            },
            None => Err("a file that cannot be read is written `!! PATH ERROR`".to_owned()),
        },
        _ => Ok((rest, Entry::Folder, false)),
    }
}

/// The bytes of one line: pairs of digits, and perhaps ` xN` for N such lines.
fn hex_bytes(line: &str) -> Option<Vec<u8>> {
    let (digits, times) = match line.split_once(" x") {
        Some((digits, times)) => (digits, times.parse().ok().filter(|times| *times <= HEX_LINES_MAX)?),
        None => (line, 1),
    };
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let pairs = digits.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = pairs.map(|pair| Some(value(pair[0])? << 4 | value(pair[1])?)).collect();
    Some(bytes?.repeat(times))
}
