//! A file is replaced as a whole: whoever reads it, and whoever starts after a power cut, finds the old one or the new one.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;

/// Fewer and larger writes than those that fill the file.
const BUFFER_BYTES: usize = 1 << 20;

/// Has `fill` write the file `name` of a folder. It is written beside, as `NAME.new`, is on the disk, and only then takes the old one's place.
///
/// # Errors
/// It cannot be written. Then the old one stays, and nothing of the new one: half a file takes room that others need.
pub(crate) fn replace(
    folder: &Path,
    name: &str,
    fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let beside = folder.join(format!("{name}.new"));
    let written = || {
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, File::create(&beside)?);
        fill(&mut out)?;
        out.into_inner()?.sync_all()?;
        fs::rename(&beside, folder.join(name))
    };
    let done = written();
    if done.is_err() {
        let _ = fs::remove_file(&beside);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_file_is_the_old_one_until_the_new_one_is_whole() {
        let folder = std::env::temp_dir().join(format!("rdmascope-replace-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let there = || fs::read_to_string(folder.join("kept")).unwrap();
        replace(&folder, "kept", |out| out.write_all(b"one")).unwrap();
        assert_eq!(there(), "one");
        let failed = replace(&folder, "kept", |out| {
            out.write_all(b"half of two")?;
            out.flush()?;
            assert_eq!((there().as_str(), fs::read(folder.join("kept.new"))?.len()), ("one", 11));
            Err(io::Error::other("the disk is full"))
        });
        assert_eq!((failed.unwrap_err().to_string().as_str(), there().as_str()), ("the disk is full", "one"));
        assert!(!folder.join("kept.new").exists(), "nothing is left of it");
        replace(&folder, "kept", |out| out.write_all(b"two")).unwrap();
        assert_eq!(there(), "two");
        fs::remove_dir_all(folder).unwrap();
    }
}
