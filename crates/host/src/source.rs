//! Where the files of a machine are, on disk or in an archive in memory, and the few things that are asked of either.

use crate::archive::{Archive, Entry};
use rustix::fs::{CWD, Mode, OFlags, RawDir, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

/// Largest file that is read: a sysfs attribute fills at most one page of memory (`Documentation/filesystems/sysfs.rst`).
pub(crate) const FILE_BYTES_MAX: usize = 4096;

/// Most entries of one folder that are looked at; the longest real one is a GID table, 256 slots.
const ENTRIES_MAX: usize = 8192;

/// Tries to open a path inside a root while other programs rename files; each takes microseconds.
const AGAIN_MAX: u32 = 64;

/// Stands for "it exists, and whoever made the capture did not read it"; no file system gives this error.
pub(crate) const NOT_CAPTURED: Errno = Errno::NOMEDIUM;

/// Where the files are.
#[derive(Debug)]
pub(crate) enum Source {
    /// On disk; `real`: this is the machine that we run on.
    Folder { root: OwnedFd, real: bool },
    /// In memory, from the folder `at` on.
    Archive { archive: Arc<Archive>, at: String },
}

impl Source {
    fn open(root: &OwnedFd, real: bool, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        if real {
            // Container runtimes of old refuse openat2(2), and there is nothing to stay inside of here.
            return openat(root, path, flags, Mode::empty());
        }
        let open = || openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT);
        let mut opened = open();
        for _ in 0..AGAIN_MAX {
            if !matches!(opened, Err(Errno::AGAIN)) {
                break;
            }
            // Something on the machine was renamed: the kernel is not sure of `..` and asks for another try (openat2(2)).
            opened = open();
        }
        opened
    }

    /// When a file was written; an archive does not keep that.
    pub(crate) fn modified(&self, path: &str) -> Result<SystemTime, Errno> {
        let Self::Folder { root, real } = self else { return Err(Errno::NOENT) };
        let file = std::fs::File::from(Self::open(root, *real, path, OFlags::PATH)?);
        file.metadata().and_then(|metadata| metadata.modified()).map_err(|_| Errno::IO)
    }

    pub(crate) fn folder(&self, path: &str) -> Result<Self, Errno> {
        match self {
            Self::Folder { root, real } => {
                let root = Self::open(root, *real, path, OFlags::PATH | OFlags::DIRECTORY)?;
                Ok(Self::Folder { root, real: *real })
            }
            Self::Archive { archive, at } => {
                let at = archive.find(at, path)?;
                match archive.get(&at) {
                    None | Some(Entry::Folder) => Ok(Self::Archive { archive: Arc::clone(archive), at }),
                    Some(Entry::Error(e)) => Err(*e),
                    Some(_) => Err(Errno::NOTDIR),
                }
            }
        }
    }

    pub(crate) fn bytes(&self, path: &str, most: usize) -> Result<Vec<u8>, Errno> {
        match self {
            Self::Folder { root, real } => {
                // Without O_NONBLOCK a named pipe in a hand-made folder would hold the reader for ever.
                let fd = Self::open(root, *real, path, OFlags::RDONLY | OFlags::NONBLOCK)?;
                // Room for what most files have: the limit of the longest would cost megabytes in each thread that reads.
                let mut page = [MaybeUninit::<u8>::uninit(); FILE_BYTES_MAX + 1];
                let mut bytes = Vec::new();
                // One call gets all of a sysfs attribute, which is printed at once; only a longer file of procfs takes more.
                loop {
                    let read = match rustix::io::read(&fd, &mut page[..]) {
                        Err(Errno::INTR) => continue,
                        read => read?.0,
                    };
                    bytes.extend_from_slice(read);
                    if read.is_empty() || most <= FILE_BYTES_MAX || bytes.len() > most {
                        break;
                    }
                }
                bytes.truncate(most + 1);
                Ok(bytes)
            }
            Self::Archive { archive, at } => match archive.get(&archive.find(at, path)?) {
                Some(Entry::File(bytes)) => Ok(bytes.iter().take(most + 1).copied().collect()),
                Some(Entry::Error(e)) => Err(*e),
                Some(Entry::Unread) => Err(NOT_CAPTURED),
                Some(Entry::Folder | Entry::Link(_)) | None => Err(Errno::ISDIR),
            },
        }
    }

    pub(crate) fn link(&self, path: &str) -> Result<String, Errno> {
        match self {
            Self::Folder { root, real } => {
                let fd = Self::open(root, *real, path, OFlags::PATH | OFlags::NOFOLLOW)?;
                // Of what is no link, the kernel says ENOENT here, as if it were not there.
                let text = rustix::fs::readlinkat(&fd, "", Vec::new());
                let text = text.map_err(|e| if e == Errno::NOENT { Errno::INVAL } else { e })?;
                Ok(text.to_string_lossy().into_owned())
            }
            Self::Archive { archive, at } => archive.link(at, path),
        }
    }

    pub(crate) fn is_there(&self, path: &str) -> bool {
        match self {
            Self::Folder { root, real } => Self::open(root, *real, path, OFlags::PATH).is_ok(),
            Self::Archive { archive, at } => archive.find(at, path).is_ok(),
        }
    }

    /// Names in a folder, in no order; `ILSEQ` when one of them is not text.
    pub(crate) fn names(&self, path: &str) -> Result<Vec<String>, Errno> {
        let (root, real) = match self {
            Self::Folder { root, real } => (root, *real),
            Self::Archive { archive, at } => return archive.names(&archive.find(at, path)?),
        };
        let fd = Self::open(root, real, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); FILE_BYTES_MAX];
        let mut entries = RawDir::new(&fd, &mut buffer);
        while let Some(entry) = entries.next().filter(|_| names.len() < ENTRIES_MAX) {
            match entry?.file_name().to_str() {
                Ok("." | "..") => {}
                Ok(name) => names.push(name.to_owned()),
                Err(_) => return Err(Errno::ILSEQ),
            }
        }
        Ok(names)
    }

    pub(crate) fn resolved(&self, path: &str) -> Result<PathBuf, Errno> {
        match self {
            Self::Folder { root, real } => {
                use std::os::unix::ffi::OsStringExt as _;
                let fd = Self::open(root, *real, path, OFlags::PATH)?;
                let own = format!("/proc/self/fd/{}", fd.as_raw_fd());
                let target = rustix::fs::readlinkat(CWD, own, Vec::new())?;
                Ok(PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes())))
            }
            Self::Archive { archive, at } => archive.resolved(at, path).map(PathBuf::from),
        }
    }
}
