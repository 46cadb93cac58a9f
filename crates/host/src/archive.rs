//! A captured machine as one text file, small enough to review line by line and to send by mail.
//!
//! The first line is `rdmascope capture 1`. Then come entries; the writer puts them in the order of their paths:
//!
//! ```text
//! == sys/class/net/eth0/mtu           a text file; its lines follow
//! 9000
//! == sys/devices/.../config hex       a file that is no text; lines of hexadecimal digits follow, xN: N such lines
//! d9150110
//! 00000000 x15
//! => sys/class/net/eth0 -> ../../devices/pci0000:3a/0000:3b:00.0/net/eth0
//! !! sys/class/net/eth0/speed EINVAL  it exists, and reading it gave this error; UNREAD: nobody has read it
//! ++ sys/class/infiniband             a folder with nothing in it
//! ```
//!
//! A line of a text file that begins like one of these (`==`, `=>`, `!!`, `++`) has a backslash in front. Every line of a file ends
//! with a newline, the last one too.

use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// What every archive begins with.
const HEAD: &str = "rdmascope capture 1";

/// How an entry begins; a line of a text that begins so is escaped.
const MARKS: [&str; 4] = ["==", "=>", "!!", "++"];

/// The word for a file that was listed and not read.
const UNREAD: &str = "UNREAD";

/// Symbolic links that are followed for one path, as in the kernel (`include/linux/namei.h`, `MAXSYMLINKS`).
const LINKS_MAX: u32 = 40;

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

/// What is at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A file with its bytes.
    File(Vec<u8>),
    /// A symbolic link with its target.
    Link(String),
    /// It exists, and reading or listing it gives this error.
    Error(Errno),
    /// A file that exists and was not read.
    Unread,
    /// A folder, perhaps an empty one. Folders above other entries need none.
    Folder,
}

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

/// A tree of files in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Archive {
    entries: BTreeMap<String, Entry>,
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

    /// What is at a path, links not followed.
    pub(crate) fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// Puts an entry in, or in the place of another one. A `Folder` and an `Unread` never replace what is known.
    pub(crate) fn put(&mut self, path: &str, entry: Entry) {
        if matches!(entry, Entry::Folder | Entry::Unread)
            && (self.entries.contains_key(path) || self.has_below(path))
        {
            return;
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// Puts all entries of another archive in, each with `prefix` in front of its path.
    pub(crate) fn add(&mut self, prefix: &str, other: Self) {
        self.entries
            .extend(other.entries.into_iter().map(|(path, entry)| (format!("{prefix}{path}"), entry)));
    }

    /// Every entry with its path, in order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&String, &Entry)> {
        self.entries.iter()
    }

    /// What lies below a folder, as an archive of its own; `None` when nothing does.
    pub(crate) fn below(&self, folder: &str) -> Option<Self> {
        let start = format!("{folder}/");
        let inside = self.entries.range(start.clone()..).take_while(|(path, _)| path.starts_with(&start));
        let entries: BTreeMap<_, _> =
            inside.map(|(path, entry)| (path[start.len()..].to_owned(), entry.clone())).collect();
        (!entries.is_empty()).then_some(Self { entries })
    }

    fn has_below(&self, folder: &str) -> bool {
        let start = format!("{folder}/");
        self.entries.range(start.clone()..).next().is_some_and(|(path, _)| path.starts_with(&start))
    }

    /// Follows a path from a folder (empty: the root), links and all, without leaving the archive.
    pub(crate) fn find(&self, from: &str, path: &str) -> Result<String, Errno> {
        walk(from, path, |at, last| match self.entries.get(at) {
            Some(Entry::Link(target)) => Ok(Some(target.clone())),
            Some(Entry::Error(e)) if !last => Err(*e),
            Some(Entry::File(_) | Entry::Unread) if !last => Err(Errno::NOTDIR),
            Some(_) => Ok(None),
            None if self.has_below(at) => Ok(None),
            None => Err(Errno::NOENT),
        })
    }

    /// What is written in the link at a path; `EINVAL` when it is none.
    pub(crate) fn link(&self, from: &str, path: &str) -> Result<String, Errno> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let at = self.find(from, folder)?;
        let own = if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") };
        match self.entries.get(&own) {
            Some(Entry::Link(target)) => Ok(target.clone()),
            Some(Entry::Error(e)) => Err(*e),
            Some(Entry::File(_) | Entry::Unread | Entry::Folder) => Err(Errno::INVAL),
            None if self.has_below(&own) => Err(Errno::INVAL),
            None => Err(Errno::NOENT),
        }
    }

    /// Where a path ends after all links, as the kernel names it. A link of the kernel that names no path (`net:[4026531840]`, a
    /// namespace below `proc`) is its own end.
    pub(crate) fn resolved(&self, from: &str, path: &str) -> Result<String, Errno> {
        let no_path = |target: &String| target.ends_with(']') && target.contains(":[");
        match self.find(from, path) {
            Ok(end) => Ok(format!("/{end}")),
            Err(e) => self.link(from, path).ok().filter(no_path).ok_or(e),
        }
    }

    /// Names in a folder, found by [`Self::find`].
    pub(crate) fn names(&self, folder: &str) -> Result<Vec<String>, Errno> {
        match self.entries.get(folder) {
            Some(Entry::Error(e)) => return Err(*e),
            Some(Entry::File(_) | Entry::Unread | Entry::Link(_)) => return Err(Errno::NOTDIR),
            Some(Entry::Folder) | None => {}
        }
        let start = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut names: Vec<String> = Vec::new();
        for (path, _) in self.entries.range(start.clone()..).take_while(|(path, _)| path.starts_with(&start))
        {
            let name = path[start.len()..].split('/').next().unwrap_or_default();
            if names.last().is_none_or(|last| last != name) {
                names.push(name.to_owned());
            }
        }
        // "a", "a-b" and "a/c" stand in this order: the same name may come twice.
        names.sort();
        names.dedup();
        Ok(names)
    }
}

/// Follows a path from a folder below a root, as the kernel does inside `RESOLVE_IN_ROOT`: `..` and absolute links stay below the
/// root. `link_at` gives the target of a link, `None` for anything else that exists, and is told whether it is the path's end.
pub(crate) fn walk(
    from: &str,
    path: &str,
    mut link_at: impl FnMut(&str, bool) -> Result<Option<String>, Errno>,
) -> Result<String, Errno> {
    let mut at = from.to_owned();
    let mut rest: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
    let mut links = 0;
    while let Some(name) = rest.pop() {
        match name.as_str() {
            "" | "." => continue,
            ".." => {
                at.truncate(at.rfind('/').unwrap_or(0));
                continue;
            }
            _ => {}
        }
        let next = if at.is_empty() { name } else { format!("{at}/{name}") };
        match link_at(&next, rest.is_empty())? {
            None => at = next,
            Some(_) if links == LINKS_MAX => return Err(Errno::LOOP),
            Some(target) => {
                links += 1;
                if target.starts_with('/') {
                    at.clear();
                }
                rest.extend(target.rsplit('/').map(str::to_owned));
            }
        }
    }
    Ok(at)
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
                    Some(text) => {
                        writeln!(f, "== {path}")?;
                        for line in text.lines() {
                            writeln!(f, "{}{line}", if is_escaped(line) { "\\" } else { "" })?;
                        }
                    }
                    None => {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Entry {
        Entry::File(text.as_bytes().to_vec())
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut archive = Archive::default();
        archive.put("sys/a/text", file("one\n\n== two\n\\== three\n\\four\n"));
        archive.put("sys/a/empty", file(""));
        archive.put("sys/a/binary", Entry::File((0..=255).collect()));
        archive.put("sys/a/zeros", Entry::File(vec![0; 100]));
        archive.put("sys/a/environ", Entry::File(b"A=1\0B=2\0".to_vec()));
        archive.put("sys/link", Entry::Link("../x -> y".to_owned()));
        archive.put("sys/a/denied", Entry::Error(Errno::ACCESS));
        archive.put("sys/a/odd", Entry::Error(Errno::from_raw_os_error(117)));
        archive.put("sys/a/unread", Entry::Unread);
        archive.put("sys/void", Entry::Folder);
        let text = archive.to_string();
        assert_eq!(Archive::parse(&text).unwrap(), archive, "{text}");
        assert!(text.contains(&format!("== sys/a/zeros hex\n{0} x3\n00000000\n", "0".repeat(64))), "{text}");
        assert!(text.contains("\n\\== two\n\\\\== three\n\\four\n"), "{text}");
        assert!(
            text.contains("\n!! sys/a/denied EACCES\n") && text.contains("\n!! sys/a/odd 117\n"),
            "{text}"
        );
        assert!(text.contains("\n++ sys/void\n") && text.contains("\n=> sys/link -> ../x -> y\n"), "{text}");
    }

    #[test]
    fn everything_that_is_wrong_is_said_with_its_line() {
        let text = "capture\n== a\n1\n== a\n2\n== b hex\n0g\n=> c\n!! d EWHAT\n== /e\n== a/f\n!! g\n";
        let wrong = Archive::parse(text).unwrap_err();
        let lines: Vec<usize> = wrong.problems.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 4, 7, 8, 9, 10, 11, 12], "{wrong}");
        assert!(wrong.to_string().contains("line 11: a/f cannot be there: a is no folder"), "{wrong}");
        assert_eq!(Archive::parse("").unwrap_err().problems.len(), 1);
    }

    #[test]
    fn links_stay_inside_and_end() {
        let text = "rdmascope capture 1\n== etc/x\n1\n=> up -> ../../etc\n=> abs -> /etc/x\n=> loop -> loop\n\
                    => deep/er -> ../up/x\n!! no EACCES\n";
        let archive = Archive::parse(text).unwrap();
        let find = |path: &str| archive.find("", path);
        assert_eq!(find("up/x"), Ok("etc/x".to_owned()));
        assert_eq!(find("abs"), Ok("etc/x".to_owned()));
        assert_eq!(find("deep/er"), Ok("etc/x".to_owned()));
        assert_eq!(archive.find("deep", "../etc"), Ok("etc".to_owned()));
        assert_eq!(find("loop"), Err(Errno::LOOP));
        assert_eq!(find("etc/x/y"), Err(Errno::NOTDIR));
        assert_eq!(find("no/y"), Err(Errno::ACCESS));
        assert_eq!(find("none/../etc"), Err(Errno::NOENT));
    }
}
