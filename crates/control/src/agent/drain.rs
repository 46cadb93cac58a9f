//! Leave to take this node out of the scheduler: which faults it may be asked for, and the question itself.
//!
//! The agent never decides alone. It says which hard local faults stand; the coordinator, which sees the whole cluster, gives leave or not;
//! and without a coordinator nothing is drained.

use super::{Action, Agent};
use rdmascope_link::{DRAIN_FAULTS_MAX, DrainAnswer, DrainFault, ToCoordinator};
use rdmascope_model::{Finding, Mono};
use std::time::Duration;

/// What was read longer ago than three times its usual interval, and at least this, is out of date: a driver that hangs for some seconds
/// is no news, one that hangs for longer says nothing of now.
const OUTDATED_AFTER_MIN: Duration = Duration::from_secs(30);

/// A fault for which alone a node may be drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HardFault {
    /// The finding; its status is `fail`, and it settles no longer.
    pub finding: Finding,
    /// Since when it has failed without a break.
    pub since: Mono,
}

/// A part of the machine as it is read again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is called, such as `state`.
    pub name: &'static str,
    /// How often it is to be read.
    pub every: Duration,
    /// When it was read last; `None` before the first time.
    pub read_at: Option<Mono>,
}

impl Part {
    /// Why it says nothing of now.
    #[must_use]
    pub fn outdated(&self, now: Mono) -> Option<String> {
        let Some(read_at) = self.read_at else { return Some(format!("{} was not looked at yet", self.name)) };
        let age = now.since(read_at);
        let outdated = age > (3 * self.every).max(OUTDATED_AFTER_MIN);
        outdated.then(|| format!("{} was looked at {} s ago, which is too long", self.name, age.as_secs()))
    }
}

/// The faults that count now: those that have stood for `settle`, so that a driver that is being loaded again is none.
///
/// # Errors
/// A part is out of date: nothing can be said of now. In words.
pub fn faults_now<'a>(
    faults: &'a [HardFault],
    settle: Duration,
    parts: &[Part],
    now: Mono,
) -> Result<Vec<&'a Finding>, String> {
    match parts.iter().find_map(|part| part.outdated(now)) {
        Some(why) => Err(why),
        None => {
            let stands = |fault: &&HardFault| now.since(fault.since) >= settle;
            Ok(faults.iter().filter(stands).map(|fault| &fault.finding).collect())
        }
    }
}

impl Agent {
    /// Asks the coordinator, or says at once that there is none.
    pub(super) fn ask_drain(&mut self, mut faults: Vec<DrainFault>) {
        if !self.is_connected() {
            let why = "there is no connection to the coordinator".to_owned();
            self.outbox.push_back(Action::Drain(DrainAnswer { leave: false, why }));
            return;
        }
        faults.truncate(DRAIN_FAULTS_MAX);
        self.send(ToCoordinator::Heartbeat { pause: self.local_pause, drain_for: faults });
    }
}
