//! What the meshes of a cluster told, added up: for tests, and for what a verdict costs in pings.

use rdmascope_model::PingCounts;
use rdmascope_probe::mesh::MeshEvent;

/// What the meshes of a cluster told so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pinged {
    /// Batches.
    pub batches: u64,
    /// Pings.
    pub sent: u64,
    /// Answered in time.
    pub answered: u64,
    /// Lost on the way there, as far as the prober knew.
    pub forward: u64,
    /// Lost on the way back, likewise.
    pub backward: u64,
    /// Batches that lost something in a direction that their prober did not know.
    pub untold: u64,
    /// Answered too late.
    pub late: u64,
    /// Held up by a host.
    pub delayed: u64,
    /// Batches that were heard, and their pings.
    pub heard: [u64; 2],
}

impl Pinged {
    /// What was told since it was so much.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            batches: self.batches - before.batches,
            sent: self.sent - before.sent,
            answered: self.answered - before.answered,
            forward: self.forward - before.forward,
            backward: self.backward - before.backward,
            untold: self.untold - before.untold,
            late: self.late - before.late,
            delayed: self.delayed - before.delayed,
            heard: [0, 1].map(|at| self.heard[at] - before.heard[at]),
        }
    }

    pub(crate) fn count(&mut self, event: &MeshEvent) {
        match event {
            MeshEvent::Pings(_, _, stats) => {
                let sum = |of: fn(&PingCounts) -> u32| u64::from(of(&stats.small) + of(&stats.large));
                self.batches += 1;
                self.sent += sum(|counts| counts.sent);
                self.answered += sum(|counts| counts.answered);
                self.forward += sum(|counts| counts.lost_forward.unwrap_or(0));
                self.backward += sum(|counts| counts.lost_backward.unwrap_or(0));
                let unknown = |counts: &PingCounts| counts.sent > 0 && counts.lost_forward.is_none();
                self.untold += u64::from(unknown(&stats.small) || unknown(&stats.large));
                self.late += sum(|counts| counts.late);
                self.delayed += u64::from(stats.host_delayed);
            }
            MeshEvent::Heard(heard) => {
                self.heard[0] += 1;
                self.heard[1] += u64::from(heard.small + heard.large);
            }
            _ => {}
        }
    }
}
