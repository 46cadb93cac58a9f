//! The question whether a node may be taken out of the scheduler, and its answer: a part of heartbeats, which older versions skip.

use crate::{PauseFlags, ToCoordinator};

/// Faults for which leave to drain a node is asked at once: one that is known is enough.
pub const DRAIN_FAULTS_MAX: usize = 16;

/// A hard local fault for which a node is to be drained.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DrainFault {
    /// Id of the finding.
    pub id: String,
    /// What it is about.
    pub subject: String,
}

/// Whether a node may be drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainAnswer {
    /// It may.
    pub leave: bool,
    /// Why, or why not, for a person.
    pub why: String,
}

impl ToCoordinator {
    /// An ordinary heartbeat, which asks for nothing.
    #[must_use]
    pub fn heartbeat(pause: PauseFlags) -> Self {
        Self::Heartbeat { pause, drain_for: Vec::new() }
    }
}
