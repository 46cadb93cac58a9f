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

mod text;

pub use text::ArchiveError;

use rustix::io::Errno;
use std::collections::BTreeMap;

/// Symbolic links that are followed for one path, as in the kernel (`include/linux/namei.h`, `MAXSYMLINKS`).
const LINKS_MAX: u32 = 40;

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

/// A tree of files in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Archive {
    entries: BTreeMap<String, Entry>,
}

impl Archive {
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
        archive.put("sys/a/is it hex", file("0a\n"));
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
