//! The local pause file: an operator's word that works without a coordinator.

use rdmascope_link::PauseFlags;

/// Longest text that is read from the file, bytes.
const PAUSE_BYTES_MAX: usize = 64;

/// What the pause file says: `bandwidth` in it pauses bandwidth probes, anything else (nothing, too) every probe. A file
/// that is there and cannot be read pauses everything.
pub(super) fn pause_flags(path: &std::path::Path) -> PauseFlags {
    use std::io::Read as _;
    let mut text = Vec::new();
    let read = std::fs::File::open(path).and_then(|f| f.take(PAUSE_BYTES_MAX as u64).read_to_end(&mut text));
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => PauseFlags::default(),
        Ok(_) if text.trim_ascii() == b"bandwidth" => PauseFlags { all: false, bandwidth: true },
        Ok(_) | Err(_) => PauseFlags { all: true, bandwidth: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_file_pauses_whatever_is_in_it() {
        let path = std::env::temp_dir().join(format!("rdmascope-pause-test-{}", std::process::id()));
        let all = PauseFlags { all: true, bandwidth: false };
        let written = |text: &str| {
            std::fs::write(&path, text).unwrap();
            pause_flags(&path)
        };
        assert_eq!(written(""), all);
        assert_eq!(written("maintenance, ask Kim\n"), all);
        assert_eq!(written("bandwidth\n"), PauseFlags { all: false, bandwidth: true });
        std::fs::remove_file(&path).unwrap();
        assert_eq!(pause_flags(&path), PauseFlags::default());
    }
}
