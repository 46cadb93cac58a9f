//! The epoch of a run: later than that of every run before it, also when the machine's clock was set back in between.
//!
//! Agents obey the newest epoch that they have seen, so a coordinator with an older one would be refused by all of them. Two runs with the
//! same one would be one and the same to agents, which would then not tell the second what they remember. So where the clock is behind, the
//! distance to the run before is the clock's: a folder from a backup does not lead to an epoch that runs after the backup have had.

use crate::replace::replace;
use rdmascope_model::Wall;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use tracing::warn;

const FILE: &str = "epoch";

/// Where the clock is behind, an epoch is up to so much later than the one before; two runs begin in the same of so many milliseconds by
/// chance alone.
const DISTANCE_MAX: u64 = 65_536;

/// The epoch of this run: the time in milliseconds, which grows over a lost disk too, or somewhat more than that of the run before.
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
    let next = before.unwrap_or(0).saturating_add(1);
    let epoch = if now.0 >= next { now.0 } else { next.saturating_add(now.0 % DISTANCE_MAX) };
    if let Err(error) = replace(folder, FILE, |out| writeln!(out, "{epoch}")) {
        warn!(path = %path.display(), %error, "the epoch cannot be kept: if the clock is set back, agents will refuse the next run");
    }
    epoch
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
            [begin(2_000), begin(9_001), begin(40_000)],
            [9_001 + 2_000, 11_002 + 9_001, 40_000],
            "set back, and right again"
        );
        fs::write(folder.join(FILE), "garbled").unwrap();
        assert_eq!([begin(7_000), begin(7_000)], [7_000, 7_001 + 7_000]);
        assert_eq!(super::begin(None, Wall(3)), 3);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_from_a_backup_leads_to_no_epoch_that_a_run_after_the_backup_has_had() {
        let folder = std::env::temp_dir().join(format!("rdmascope-epoch-backup-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let begin = |now| begin(Some(&folder), Wall(now));
        let backed_up = begin(9_000_000);
        // The clock is an hour behind: on the old machine before the restore, and on the new one after it.
        let behind = 9_000_000 - 3_600_000;
        let seen = [begin(behind), begin(behind + 5_000)];
        fs::write(folder.join(FILE), backed_up.to_string()).unwrap();
        let restored = begin(behind + 9_000);
        assert!(restored > backed_up && !seen.contains(&restored), "{restored} {backed_up} {seen:?}");
        // With a right clock it is later than all of them.
        fs::write(folder.join(FILE), backed_up.to_string()).unwrap();
        assert_eq!(begin(9_500_000), 9_500_000);
        fs::remove_dir_all(folder).unwrap();
    }
}
