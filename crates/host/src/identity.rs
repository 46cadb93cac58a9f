//! Who this machine is: its name, and the boot that tells processes on it from processes elsewhere.

use rdmascope_model::Reading;
use std::path::Path;

/// The kernel's random id of this boot (`/proc/sys/kernel/random/boot_id`); processes that share it share processors.
#[must_use]
pub fn boot_id() -> Reading<String> {
    read(Path::new("/proc/sys/kernel/random/boot_id"))
}

/// The kernel's host name (`/proc/sys/kernel/hostname`).
#[must_use]
pub fn host_name() -> Reading<String> {
    read(Path::new("/proc/sys/kernel/hostname"))
}

fn read(path: &Path) -> Reading<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Reading::Value(text.trim().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Reading::Absent,
        Err(error) => Reading::Failed(format!("{}: {error}", path.display())),
    }
}
