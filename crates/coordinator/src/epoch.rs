//! The epoch of a run: later than that of every run before it, also when the machine's clock was set back in between.
//!
//! Agents obey the newest epoch that they have seen, so a coordinator with an older one would be refused by all of them.

use rdmascope_model::Wall;
use std::fs;
use std::io;
use std::path::Path;
use tracing::warn;

const FILE: &str = "epoch";

/// The epoch of this run: the time in milliseconds, which grows over a lost disk too, or one more than that of the run before.
pub(crate) fn begin(folder: Option<&Path>, now: Wall) -> u64 {
    let Some(folder) = folder else { return now.0 };
    let path = folder.join(FILE);
    let before = match fs::read_to_string(&path) {
        Ok(text) => text.trim().parse::<u64>().ok(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(0),
        Err(_) => None,
    };
    if before.is_none() {
        warn!(path = %path.display(), "the last epoch cannot be read; the clock gives this one");
    }
    let epoch = now.0.max(before.unwrap_or(0).saturating_add(1));
    if let Err(error) = keep(folder, epoch) {
        warn!(path = %path.display(), %error, "the epoch cannot be kept: if the clock is set back, agents will refuse the next run");
    }
    epoch
}

fn keep(folder: &Path, epoch: u64) -> io::Result<()> {
    let beside = folder.join(format!("{FILE}.new"));
    fs::write(&beside, format!("{epoch}\n"))?;
    fs::rename(beside, folder.join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_later_than_all_before_whatever_the_clock_says() {
        let folder = std::env::temp_dir().join(format!("rdmascope-epoch-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let begin = |now| begin(Some(&folder), Wall(now));
        assert_eq!([begin(5_000), begin(9_000)], [5_000, 9_000]);
        assert_eq!(
            [begin(2_000), begin(9_001), begin(10_000)],
            [9_001, 9_002, 10_000],
            "set back, and right again"
        );
        fs::write(folder.join(FILE), "garbled").unwrap();
        assert_eq!([begin(7_000), begin(7_000)], [7_000, 7_001]);
        assert_eq!(super::begin(None, Wall(3)), 3);
        fs::remove_dir_all(folder).unwrap();
    }
}
