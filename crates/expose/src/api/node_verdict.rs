//! What an agent's local socket answers to a scheduler on the same machine, from what it knows already: nothing is read or probed for it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Severity;

/// Name of the socket in the agent's `state_dir`. Whoever connects writes one line with one word, and reads one line of JSON
/// ([`NodeVerdictView`]).
pub const AGENT_SOCKET: &str = "agent.sock";
/// The word for what is known.
pub const ASK_VERDICT: &str = "verdict";
/// The word for the same, and for leave to drain this node, where there is a reason: the coordinator is asked.
pub const ASK_LEAVE: &str = "leave";

/// What an agent knows of its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeVerdictView {
    /// Version of the agent.
    pub version: String,
    /// Name of the node.
    pub node: String,
    /// The coordinator is there.
    pub connected: bool,
    /// Why nothing can be said of now: the machine was not looked at yet, or too long ago; `null` when it can. Then no finding is `hard`.
    pub cannot_say: Option<String>,
    /// How long ago the parts of the machine were looked at, and judged.
    pub parts: Vec<LookedView>,
    /// What is not fine, the worst first.
    pub findings: Vec<HeldFinding>,
    /// Findings that had no room.
    pub findings_left_out: u32,
    /// Whether this node may be drained; `null` where that was not asked.
    pub leave: Option<LeaveView>,
}

/// A part of the machine that is looked at again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LookedView {
    /// Its name: `state`, `counters`, `statistics`, `slow` (everything else), or `checks` (what was read, judged).
    pub part: String,
    /// How long ago, milliseconds; `null` before the first time.
    pub age_ms: Option<u64>,
    /// How often it is to be, milliseconds.
    pub every_ms: u64,
}

/// A finding as the node itself holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldFinding {
    /// Stable id of the check or of the kernel-log rule; `rdmascope explain ID` says more.
    pub id: String,
    /// How bad it is.
    pub status: Severity,
    /// What it is about, such as `mlx5_0/1`.
    pub subject: String,
    /// What was seen, in one sentence.
    pub summary: String,
    /// What to do next.
    pub next_step: String,
    /// A hard local fault that stands: the node may be drained for it, if the coordinator gives leave.
    pub hard: bool,
}

/// The coordinator's word about draining this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaveView {
    /// It may be drained.
    pub granted: bool,
    /// Why, or why not.
    pub why: String,
}
