//! What was read last and what the checks said of it: written by the watcher, shown by `/metrics`.

use rdmascope_control::agent::HardFault;
use rdmascope_model::{Finding, KernelLog, Mono, Now, Reading, Snapshot, Wall};
use std::collections::BTreeMap;
use std::time::Duration;

/// The machine as it was seen last. Whoever holds the lock waits for nothing.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) snapshot: Snapshot,
    /// As they are shown: what settles has not failed yet.
    pub(crate) findings: Vec<Finding>,
    /// Whoever follows the kernel log puts it here.
    pub(crate) log: Reading<KernelLog>,
    /// How long the last reading of each tier took, and the last run of the checks.
    pub(crate) took: BTreeMap<&'static str, Duration>,
    /// When each of these was done.
    pub(crate) done_at: BTreeMap<&'static str, Wall>,
    /// The same on the clock that never steps.
    pub(crate) read_at: BTreeMap<&'static str, Mono>,
    /// Faults for which the node may be drained once they have stood for long enough.
    pub(crate) hard: Vec<HardFault>,
    /// Something was read at all.
    pub(crate) begun: bool,
}

impl Seen {
    pub(super) fn done(&mut self, part: &'static str, took: Duration, at: Now) {
        self.took.insert(part, took);
        self.done_at.insert(part, at.wall);
        self.read_at.insert(part, at.mono);
    }
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            snapshot: Snapshot::unread("not read yet"),
            findings: Vec::new(),
            log: Reading::Absent,
            took: BTreeMap::new(),
            done_at: BTreeMap::new(),
            read_at: BTreeMap::new(),
            hard: Vec::new(),
            begun: false,
        }
    }
}
