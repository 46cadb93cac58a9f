//! What the history is made of: one row for each event, and up to where each node has told its own.

use rdmascope_link::EventKind;
use rdmascope_model::Wall;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// A node told it.
    Node(EventKind),
    /// An agent connected.
    Connected,
    /// An agent's connection ended.
    Lost,
    /// Events of a node that its agent had no room to keep.
    EventsLost,
    /// A part is no longer like the others of its kind.
    DriftRaised,
    /// It is like them again.
    DriftCleared,
    /// Somebody acknowledged a finding, or took that back.
    Acknowledgement,
    /// Somebody began or ended a maintenance, or it ran out.
    Maintenance,
    /// Somebody removed or renamed a node.
    Membership,
    /// Somebody had a pair probed although a job may be there; and its end.
    ForcedProbe,
    /// A node asked whether it may be drained for a hard local fault: it may, or may not because too many were.
    DrainLeave,
    /// Somebody or something is to blame, and people are to be told.
    IncidentOpened,
    /// It is over.
    IncidentClosed,
}

impl RowKind {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Node(EventKind::StateChange),
        Self::Node(EventKind::FindingRaised),
        Self::Node(EventKind::FindingCleared),
        Self::Node(EventKind::KernelLog),
        Self::Node(EventKind::SettingChange),
        Self::Connected,
        Self::Lost,
        Self::EventsLost,
        Self::DriftRaised,
        Self::DriftCleared,
        Self::Acknowledgement,
        Self::Maintenance,
        Self::Membership,
        Self::ForcedProbe,
        Self::DrainLeave,
        Self::IncidentOpened,
        Self::IncidentClosed,
    ];

    /// The word used on the API and on disk.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node(EventKind::StateChange) => "state-change",
            Self::Node(EventKind::FindingRaised) => "finding-raised",
            Self::Node(EventKind::FindingCleared) => "finding-cleared",
            Self::Node(EventKind::KernelLog) => "kernel-log",
            Self::Node(EventKind::SettingChange) => "setting-change",
            Self::Connected => "agent-connected",
            Self::Lost => "agent-lost",
            Self::EventsLost => "events-lost",
            Self::DriftRaised => "drift-raised",
            Self::DriftCleared => "drift-cleared",
            Self::Acknowledgement => "acknowledgement",
            Self::Maintenance => "maintenance",
            Self::Membership => "membership",
            Self::ForcedProbe => "forced-probe",
            Self::DrainLeave => "drain-leave",
            Self::IncidentOpened => "incident-opened",
            Self::IncidentClosed => "incident-closed",
        }
    }
}

/// One entry of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// Counts up over all nodes and restarts.
    pub number: u64,
    /// When it happened, never later than when it was heard of.
    pub at: Wall,
    /// Node; empty for the cluster.
    pub node: String,
    /// What it is about.
    pub kind: RowKind,
    /// The part, such as `mlx5_0/1`.
    pub subject: String,
    /// Finding, rule or setting.
    pub id: String,
    /// What was before.
    pub before: String,
    /// What is now.
    pub after: String,
    /// One sentence for a person.
    pub text: String,
    /// What a raised finding rests on; see [`rdmascope_link::NodeEvent::basis`].
    pub basis: Option<Vec<String>>,
}

/// Up to where a run of a node's agent has told its events: those up to this number are in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Node.
    pub node: String,
    /// The run of its agent ([`rdmascope_link::Hello::instance`]).
    pub run: u64,
    /// The agent's number of the event.
    pub number: u64,
}
