//! What people are told: one incident for one cause, from the first doubt to its end.

use crate::Suspect;
use rdmascope_model::Wall;

/// How far an incident has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IncidentState {
    /// Seen, and being measured again: nobody is told.
    Suspected,
    /// Measured again, and still so.
    Open,
    /// Not seen any more.
    Closed,
}

impl IncidentState {
    /// The word used everywhere.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Suspected => "suspected",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// One incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Counts up over restarts.
    pub id: u64,
    /// How far it has come.
    pub state: IncidentState,
    /// What is blamed, as it was judged last.
    pub suspect: Suspect,
    /// Names of what is blamed, such as `node7/mlx5_0/1` or `leaf rack3-a`; more than one when they cannot be told apart.
    pub subjects: Vec<String>,
    /// In one sentence: what is wrong with whom.
    pub title: String,
    /// What was seen, one sentence each, the most telling first.
    pub evidence: Vec<String>,
    /// What to do.
    pub next_step: String,
    /// When it was first seen.
    pub since: Wall,
    /// When it was told.
    pub opened_at: Option<Wall>,
    /// When it was last seen.
    pub seen_at: Wall,
    /// When it was over.
    pub closed_at: Option<Wall>,
}
