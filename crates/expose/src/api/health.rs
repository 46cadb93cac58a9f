//! Findings, events, facts, acknowledgements and maintenance as the API shows them.

use super::NodeView;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of `GET /api/v1/findings`: open ones first, of these the worst first, then by node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingList {
    /// What is not fine, on any node and between nodes.
    pub findings: Vec<NodeFinding>,
    /// Findings that were asked for and are beyond `limit`.
    #[serde(default)]
    pub left_out: u64,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeFinding {
    /// Node; empty where it is about the cluster.
    pub node: String,
    /// Stable id; `rdmascope explain ID` says more.
    pub id: String,
    /// `warn`, `unknown` or `fail`.
    pub status: String,
    /// What it is about, such as `mlx5_0/1`.
    pub subject: String,
    /// What was seen.
    pub summary: String,
    /// Probable cause.
    pub cause: String,
    /// What to do next.
    pub next_step: String,
    /// Readings behind it, `name = value`.
    pub evidence: Vec<String>,
    /// Since when; `null` where the agent does not say.
    pub since: Option<String>,
    /// Worse than its status says, if it stays: a link that has just gone down, a machine that has just booted.
    pub settling: bool,
    /// It is over, and kept in sight until it is acknowledged or its window has passed.
    pub latched: bool,
    /// Somebody knows of it.
    pub acknowledged: Option<AcknowledgementView>,
    /// Its node is in maintenance.
    pub maintenance: bool,
    /// Its node's agent is not connected: this is what it said last.
    pub node_lost: bool,
}

/// Somebody knows of a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AcknowledgementView {
    /// When.
    pub at: String,
    /// Why.
    pub note: String,
}

/// Answer of `GET /api/v1/events`: the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventList {
    /// The events.
    pub events: Vec<EventView>,
    /// Ask with `before` this number for older ones; `null` when there are none.
    pub older_before: Option<u64>,
}

/// One event of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventView {
    /// Counts up over all nodes.
    pub number: u64,
    /// When, on the node's clock.
    pub at: String,
    /// The same in milliseconds since 1970.
    pub at_ms: u64,
    /// Node; empty for the cluster.
    pub node: String,
    /// Such as `state-change`, `finding-raised`, `kernel-log`, `setting-change`, `drift-raised`, `acknowledgement`.
    pub kind: String,
    /// What it is about.
    pub subject: String,
    /// Finding, rule or setting.
    pub id: String,
    /// What was before; empty where nothing was.
    pub before: String,
    /// What is now; empty where nothing is.
    pub after: String,
    /// One sentence.
    pub text: String,
    /// What a raised finding rests on, for `rdmascope replay`: a line `NAME VALUE TURNS` for each number of the policy that it was judged
    /// by, and the answers between the turning points; `null` where it was not kept.
    #[serde(default)]
    pub basis: Option<Vec<String>>,
}

/// Answer of `GET /api/v1/nodes/{node}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeDetail {
    /// The node in short.
    pub node: NodeView,
    /// Its findings that are not fine.
    pub findings: Vec<NodeFinding>,
    /// Findings of it that the agent had no room to send.
    pub findings_left_out: u64,
    /// What it said of its settings and versions.
    pub facts: Vec<FactView>,
    /// Its last 50 events, the newest first.
    pub events: Vec<EventView>,
    /// The maintenance that it is in.
    pub maintenance: Option<MaintenanceView>,
}

/// A setting or version of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FactView {
    /// What it is about, such as `mlx5_0/1` or `machine`.
    pub subject: String,
    /// Such as `netdev_mtu`, `pfc`, `firmware`.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// Body of `POST /api/v1/acknowledgements`: a finding, by node and id, or an incident.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcknowledgeRequest {
    /// Node; empty for what is about the cluster, and for an incident.
    #[serde(default)]
    pub node: String,
    /// Id of the finding; empty for an incident.
    #[serde(default)]
    pub id: String,
    /// Number of an incident, in place of a finding.
    #[serde(default)]
    pub incident: Option<u64>,
    /// Its subject; left out: all of that id.
    #[serde(default)]
    pub subject: Option<String>,
    /// Why.
    #[serde(default)]
    pub note: String,
    /// Takes the acknowledgement back.
    #[serde(default)]
    pub undo: bool,
}

/// Answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AcknowledgeAnswer {
    /// Findings that were meant; 1 for an incident.
    pub findings: u64,
}

/// Body of `POST /api/v1/maintenance`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MaintenanceRequest {
    /// Names of nodes; `*` stands for any letters.
    pub nodes: String,
    /// How long, seconds; left out: it ends now.
    #[serde(default)]
    pub seconds: Option<u64>,
    /// Why.
    #[serde(default)]
    pub note: String,
}

/// Answer of `GET` and `POST /api/v1/maintenance`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MaintenanceList {
    /// All that run.
    pub maintenances: Vec<MaintenanceView>,
    /// The file that says so of some; `null` where none is configured.
    #[serde(default)]
    pub file: Option<MaintenanceFileView>,
}

/// Nodes on which somebody works: their findings are shown as silenced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MaintenanceView {
    /// Names of nodes; `*` stands for any letters.
    pub nodes: String,
    /// Since when.
    pub since: String,
    /// It ends by itself then; `null`: it lasts as long as `file` names the node.
    pub until: Option<String>,
    /// Why.
    pub note: String,
    /// Who says so: `operator`, or `file` (coordinator.maintenance_file).
    #[serde(default)]
    pub from: String,
}

/// The file that says which nodes are in maintenance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MaintenanceFileView {
    /// Its path.
    pub path: String,
    /// When it was read last.
    pub read_at: Option<String>,
    /// Why it could not be read or understood since; what it said before still holds.
    pub problem: Option<String>,
}

/// Body of `POST /api/v1/nodes/{node}/remove`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveRequest {
    /// Its history goes on under this name; left out: it is forgotten.
    #[serde(default)]
    pub rename_to: Option<String>,
}
