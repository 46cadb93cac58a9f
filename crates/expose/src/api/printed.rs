//! What commands print with `--json` that no route of the coordinator answers: about one machine, one file, or several answers in one.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ContinuousView, EndpointView, NodeView, ProbeView, SweepPlan};

/// What `rdmascope nodes --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodesReport {
    /// Every node that registered, by name.
    pub nodes: Vec<NodeView>,
    /// Every endpoint of them, by name.
    pub endpoints: Vec<EndpointView>,
}

/// What `rdmascope gids --json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GidReport {
    /// Every used slot, by device, port and slot.
    pub gids: Vec<GidView>,
    /// What could not be read, in words.
    pub could_not_look: Vec<String>,
}

/// One used slot of a port's GID table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GidView {
    /// RDMA device.
    pub device: String,
    /// Port number, from 1.
    pub port: u8,
    /// Slot. It moves when addresses change.
    pub index: u32,
    /// The address.
    pub gid: String,
    /// The IPv4 address that it stands for; `null` where it stands for none.
    pub ipv4: Option<String>,
    /// `v1`, `v2` (RoCE), or `ib`; `null` where it could not be read.
    pub version: Option<String>,
    /// The network device that it belongs to; `null` where it has none or it could not be read.
    pub netdev: Option<String>,
}

/// What `rdmascope explain --json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExplainReport {
    /// Everything that has this id.
    pub pages: Vec<ExplainPage>,
}

/// One page about an id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExplainPage {
    /// The id.
    pub id: String,
    /// What it is: `check`, `drift`, `kernel-log`, or `cause` (of a failed probe).
    pub kind: String,
    /// Meaning, causes and next steps, in Markdown.
    pub markdown: String,
}

/// What `rdmascope check --what-i-can-see --json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SightReport {
    /// Everything that checks look at.
    pub sights: Vec<SightView>,
}

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SightView {
    /// What.
    pub what: String,
    /// `seen`, `none here` (this machine has no such thing), or `not seen`.
    pub seen: String,
    /// What it takes to see it.
    pub needs: String,
    /// Why it is not seen; `null` where it is.
    pub why: Option<String>,
}

/// What `rdmascope check --self-audit --json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenedReport {
    /// Paths of all files and folders that were opened for reading.
    pub opened: Vec<String>,
}

/// What `rdmascope config check --json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigReport {
    /// The file.
    pub file: String,
    /// Nothing is wrong with it.
    pub ok: bool,
    /// What is wrong, in words; `null` where nothing is.
    pub problems: Option<String>,
}

/// What `rdmascope sweep --plan --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SweepPlanReport {
    /// What the sweep would be.
    pub plan: SweepPlan,
    /// What goes on by itself.
    pub continuous: ContinuousView,
}

/// What `rdmascope probe --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ProbeReport {
    /// One pair, or an incast.
    One(Box<ProbeView>),
    /// Each peer of a service.
    Several(Vec<ProbeView>),
}

/// What `rdmascope simulate --json` prints on each line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SimulateRow {
    /// What was measured.
    pub what: String,
    /// The figure.
    pub seen: f64,
    /// Its unit; empty for a count.
    pub unit: String,
    /// What is asked of it; empty: a simulation asks nothing.
    pub asked: String,
    /// It is as it is asked to be.
    pub holds: bool,
    /// What it is compared with; `null`: nothing.
    pub against: Option<String>,
    /// The figure of that.
    pub seen_against: Option<f64>,
}

/// What `rdmascope replay --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReplayReport {
    /// From when on, RFC 3339 in UTC.
    pub since: String,
    /// Numbers that the policy has and that were other ones when findings were raised.
    pub changed: Vec<ReplayChange>,
    /// How many findings say the same.
    pub same: usize,
    /// Findings that would not have been raised.
    pub silent: Vec<ReplayRow>,
    /// Findings that would have had another status.
    pub becomes: Vec<ReplayRow>,
    /// Findings of which the history does not hold enough.
    pub cannot_say: Vec<ReplayRow>,
    /// Incidents, and what would have become of their reasons.
    pub incidents: Vec<ReplayIncident>,
}

/// A number of the policy that was another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReplayChange {
    /// Its name in the policy.
    pub limit: String,
    /// What it was.
    pub then: f64,
    /// What it is in the policy that is tried.
    pub now: f64,
    /// Findings that were judged by it.
    pub findings: usize,
}

/// One finding that was raised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplayRow {
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// Node; empty where it is about the cluster.
    pub node: String,
    /// What it is about.
    pub subject: String,
    /// Id of the check or rule.
    pub id: String,
    /// The status that it was raised with.
    pub was: String,
    /// The status under the policy, or why it is not known.
    pub now: String,
    /// What was seen.
    pub text: String,
}

/// One incident under the policy that is tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplayIncident {
    /// Its number.
    pub id: u64,
    /// Its title.
    pub title: String,
    /// What would have become of it, in words.
    pub now: String,
}
