//! One run's temporary folder: what host and guest share, the ports' sockets and the kernel's messages.

use crate::error::{Result, file};
use crate::process::{TemporaryFolder, create_private_folder};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const PREFIX: &str = "rdmascope-lab";
const LOCK: &str = "lock";

/// A run's folder; it goes with all its content when the run ends, however it ends.
pub(crate) struct RunFolder {
    folder: TemporaryFolder,
    /// Held as long as the run lives: this is how another run knows a folder whose owner was killed.
    _lock: File,
}

impl RunFolder {
    /// Creates the folder, and removes those of runs that were killed before they could do it themselves.
    pub(crate) fn create() -> Result<Self> {
        let parent = std::env::temp_dir();
        remove_abandoned(&parent);
        let folder = TemporaryFolder::create(&parent, PREFIX)?;
        let lock = folder.path().join(LOCK);
        let lock =
            File::create(&lock).and_then(|open| open.lock().map(|()| open)).map_err(file("lock", &lock))?;
        let run = Self { folder, _lock: lock };
        create_private_folder(&run.share())?;
        create_private_folder(&run.share().join(".boot"))?;
        Ok(run)
    }

    /// The folder itself, which the guest does not see.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What the guest sees as `/tmp/lab`.
    pub(crate) fn share(&self) -> PathBuf {
        self.path().join("share")
    }

    /// Copies a program into the share.
    pub(crate) fn add_program(&self, program: &Path, name: &str) -> Result<()> {
        let target = self.share().join(name);
        fs::copy(program, &target).map(drop).map_err(file("copy into the lab", program))
    }

    /// Copies the files of a folder into a folder of the share.
    pub(crate) fn add_folder(&self, folder: &Path, name: &str) -> Result<()> {
        let target = self.share().join(name);
        fs::create_dir(&target).map_err(file("create", &target))?;
        for entry in fs::read_dir(folder).map_err(file("read", folder))? {
            let path = entry.map_err(file("read", folder))?.path();
            fs::copy(&path, target.join(path.file_name().unwrap_or_default()))
                .map_err(file("copy into the lab", &path))?;
        }
        Ok(())
    }

    /// Writes a file into the share.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<()> {
        let target = self.share().join(name);
        fs::write(&target, content).map_err(file("write", &target))
    }
}

fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // Without a lock file the folder has just been created; somebody else's cannot be opened.
        let abandoned = File::open(entry.path().join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
        if abandoned && fs::remove_dir_all(entry.path()).is_ok() {
            eprintln!("lab: removed {}, left by a run that was killed", entry.path().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_run_s_folder_is_removed_and_a_living_one_s_stays() {
        let parent = TemporaryFolder::create(&std::env::temp_dir(), "rdmascope-unit").unwrap();
        let [killed, living, young] = ["killed", "living", "young"].map(|name| {
            let path = parent.path().join(format!("{PREFIX}-{name}"));
            fs::create_dir(&path).unwrap();
            path
        });
        File::create(killed.join(LOCK)).unwrap();
        let lock = File::create(living.join(LOCK)).unwrap();
        lock.lock().unwrap();
        remove_abandoned(parent.path());
        assert!(!killed.exists());
        assert!(living.exists() && young.exists());
    }
}
