//! What was done the last time, in a small file of root's: by it scontrol is called only when something changed.

use super::decide::FaultKey;
use crate::failure::{Failure, code};
use crate::replace::replace;
use clap::Args;
use rdmascope_expose::api::HeldFinding;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// Where it is kept.
#[derive(Debug, Args)]
pub(super) struct Memory {
    /// File that remembers for which faults this node was drained; below /run, for a reboot is a fresh start
    #[arg(long, value_name = "FILE", default_value = "/run/rdmascope-slurm.json")]
    memory: PathBuf,
}

impl Memory {
    /// The faults for which something was done; `None` when there is no such file, or it cannot be understood.
    pub(super) fn read(&self) -> Option<BTreeSet<FaultKey>> {
        serde_json::from_slice(&fs::read(&self.memory).ok()?).ok()
    }

    /// Replaces it as a whole: whoever is killed meanwhile leaves the old one.
    pub(super) fn write(&self, faults: &[&HeldFinding]) -> Result<(), Failure> {
        let keys: BTreeSet<FaultKey> =
            faults.iter().map(|fault| (fault.id.clone(), fault.subject.clone())).collect();
        // This type always has a JSON form.
        let text = serde_json::to_vec(&keys).unwrap_or_default();
        replace(&self.memory, &text).map_err(|error| {
            let text = format!("{} cannot be written: {error}", self.memory.display());
            Failure::new(code::FAILED, text)
                .then("slurmd runs this as root; by hand, name another file with --memory")
        })
    }
}
