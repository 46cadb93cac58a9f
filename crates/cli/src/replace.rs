//! A file is replaced as a whole: whoever reads it meanwhile, and whoever starts after a power cut, finds the old one or the new one.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// Puts these bytes in the place of a file. They are written beside it, under a hidden name of this process, are on the disk, and only then
/// take the old one's place.
///
/// # Errors
/// It cannot be written. Then the old one stays, and nothing of the new one.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = || {
        let mut file = File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    let done = written();
    if done.is_err() {
        // That it cannot be removed either is the same trouble.
        let _ = fs::remove_file(&beside);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_a_file_that_cannot_take_its_place() {
        let folder = std::env::temp_dir().join(format!("rdmascope-cli-replace-{}", std::process::id()));
        fs::create_dir_all(folder.join("taken/by-a-folder")).unwrap();
        let names = || {
            let mut names: Vec<_> =
                fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let path = folder.join("file");
        for text in ["one", "two"] {
            replace(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert!(replace(&folder.join("taken"), b"three").is_err());
        assert!(replace(Path::new("/"), b"three").is_err());
        assert!(replace(&folder.join("not/there"), b"three").is_err());
        assert_eq!(names(), ["file", "taken"]);
        fs::remove_dir_all(folder).unwrap();
    }
}
