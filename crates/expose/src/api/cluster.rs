//! Nodes, endpoints, pause and health as the API shows them.

use rdmascope_model::{EndpointInfo, Reading, Status, Wall};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{IncidentCounts, SweepView};

/// Answer of `GET /api/v1/nodes`, in the order of their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeList {
    /// Every node that registered, also those that are not connected now.
    pub nodes: Vec<NodeView>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeView {
    /// As its agent calls itself.
    pub name: String,
    /// Its agent is connected now.
    pub connected: bool,
    /// When its agent was heard last.
    pub last_seen: Option<String>,
    /// Version of its agent.
    pub agent_version: Option<String>,
    /// Names of its endpoints.
    pub endpoints: Vec<String>,
    /// What is paused on it, by whichever way.
    pub paused: PauseLevel,
    /// The worst of its findings (`ok`, `warn`, `unknown`, `fail`); `null` when it sent none.
    pub worst_finding: Option<String>,
}

impl NodeView {
    /// The same node with the worst of `statuses`.
    #[must_use]
    pub fn with_findings(mut self, statuses: impl IntoIterator<Item = Status>) -> Self {
        self.worst_finding = statuses.into_iter().max().map(|s| s.as_str().to_owned());
        self
    }
}

/// Answer of `GET /api/v1/endpoints`, in the order of their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EndpointList {
    /// Every endpoint, also those that cannot be probed now.
    pub endpoints: Vec<EndpointView>,
}

/// One endpoint: an RDMA port that can be probed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EndpointView {
    /// `NODE/DEVICE/PORT`.
    pub name: String,
    /// Node.
    pub node: String,
    /// RDMA device.
    pub device: String,
    /// Port number, from 1.
    pub port: u8,
    /// `roce`, `infiniband`, `tcp` or `simulated`; only endpoints of the same fabric are paired.
    pub fabric: String,
    /// The GID that probes use.
    pub gid: Option<String>,
    /// Network device underneath.
    pub netdev: Option<String>,
    /// MTU of the network device, bytes.
    pub netdev_mtu_bytes: Option<u32>,
    /// RDMA MTU in use, bytes.
    pub active_mtu_bytes: Option<u32>,
    /// Signalling rate, bits per second.
    pub rate_bits_per_second: Option<u64>,
    /// Can be probed now.
    pub usable: bool,
    /// Why it cannot be probed.
    pub unusable: Option<UnusableView>,
    /// Since when its agent no longer reports it or is no longer connected; `null` while it is there.
    pub gone_since: Option<String>,
    /// Where it stands in the fabric.
    #[serde(default)]
    pub place: PlaceView,
}

/// Where an endpoint stands in the fabric, and who says so. What nobody says is `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlaceView {
    /// Which plane of the fabric it belongs to.
    pub rail: Option<String>,
    /// Who says so: `manifest`, `file` (coordinator.topology_file), or it follows from `pci-address`, `leaf` or `subnet`.
    pub rail_from: Option<String>,
    /// The switch that it hangs on.
    pub leaf: Option<String>,
    /// The port of that switch, in the switch's own words; known by LLDP only.
    pub leaf_port: Option<String>,
    /// Who says so: `lldp` (the switch itself) or `file`.
    pub leaf_from: Option<String>,
    /// Why its node could not look for what the switch says.
    pub leaf_unread: Option<String>,
    /// The group of leaves below the same spines.
    pub pod: Option<String>,
}

impl EndpointView {
    /// What an agent told, as the API shows it; of its place only what the agent itself knows.
    #[must_use]
    pub fn new(info: &EndpointInfo, gone_since: Option<Wall>) -> Self {
        Self {
            name: info.name.to_string(),
            node: info.name.node.clone(),
            device: info.name.device.clone(),
            port: info.name.port,
            fabric: info.fabric.as_str().to_owned(),
            gid: info.gid.map(|gid| gid.to_string()),
            netdev: info.netdev.clone(),
            netdev_mtu_bytes: info.netdev_mtu,
            active_mtu_bytes: info.active_mtu,
            rate_bits_per_second: info.rate_bps,
            usable: info.unusable.is_none() && gone_since.is_none(),
            unusable: info.unusable.map(|cause| UnusableView {
                cause: cause.id().to_owned(),
                text: cause.text().to_owned(),
                next_step: cause.next_step().to_owned(),
                detail: info.unusable_detail.clone(),
            }),
            gone_since: gone_since.map(|at| at.to_string()),
            place: PlaceView {
                leaf_port: info.switch_port.value().and_then(|at| at.port.clone()),
                leaf_unread: match &info.switch_port {
                    Reading::Failed(why) => Some(why.clone()),
                    Reading::Value(_) | Reading::Absent => None,
                },
                ..PlaceView::default()
            },
        }
    }

    /// The same endpoint on this rail and leaf, each with who says so, and in this pod.
    #[must_use]
    pub fn at(mut self, rail: Option<(&str, &str)>, leaf: Option<(&str, &str)>, pod: Option<&str>) -> Self {
        let own = |told: Option<(&str, &str)>| told.map(|(a, b)| (a.to_owned(), b.to_owned())).unzip();
        (self.place.rail, self.place.rail_from) = own(rail);
        (self.place.leaf, self.place.leaf_from) = own(leaf);
        self.place.pod = pod.map(str::to_owned);
        self
    }
}

/// Why an endpoint cannot be probed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnusableView {
    /// Stable id of the cause, such as `no-usable-gid`.
    pub cause: String,
    /// The cause in words.
    pub text: String,
    /// What to do next.
    pub next_step: String,
    /// What was seen on this port.
    pub detail: String,
}

/// How much is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PauseLevel {
    /// Nothing.
    None,
    /// Bandwidth probes.
    Bandwidth,
    /// Every probe.
    All,
}

impl PauseLevel {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Bandwidth, Self::All];

    /// The widest of what is paused: every probe, or bandwidth probes.
    #[must_use]
    pub fn of(all: bool, bandwidth: bool) -> Self {
        match (all, bandwidth) {
            (true, _) => Self::All,
            (false, true) => Self::Bandwidth,
            (false, false) => Self::None,
        }
    }

    /// The word used on the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bandwidth => "bandwidth",
            Self::All => "all",
        }
    }
}

/// Body of `POST /api/v1/pause` and `POST /api/v1/resume`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// Names of nodes; `null` or left out means the whole cluster.
    #[serde(default)]
    pub nodes: Option<Vec<String>>,
    /// Only bandwidth probes.
    #[serde(default)]
    pub bandwidth_only: bool,
}

/// What is paused now: answer of `GET /api/v1/pause` and of the calls that change it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PauseView {
    /// For every node.
    pub cluster: PauseLevel,
    /// Nodes with a pause of their own.
    pub nodes: Vec<NodePause>,
}

/// One node's own pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodePause {
    /// Its name.
    pub node: String,
    /// What is paused.
    pub level: PauseLevel,
    /// By the pause file on the node, which only the node can lift.
    pub local_file: bool,
}

/// Answer of `GET /api/v1/status`: what a banner on the page needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatusView {
    /// Version of the coordinator.
    pub version: String,
    /// The coordinator's epoch: grows with every start.
    pub epoch: u64,
    /// It is open to the network without credentials.
    pub insecure: bool,
    /// What is paused.
    pub paused: PauseView,
    /// Nodes that ever registered.
    pub nodes: u64,
    /// Nodes whose agent is connected.
    pub nodes_connected: u64,
    /// Endpoints known.
    pub endpoints: u64,
    /// Endpoints that can be probed now.
    pub endpoints_usable: u64,
    /// The sweep that runs now, else the last one.
    pub sweep: Option<SweepView>,
    /// Incidents that are not over.
    #[serde(default)]
    pub incidents: IncidentCounts,
}

/// Answer of `GET /healthz`: the process answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthView {
    /// Always `ok`.
    pub status: String,
    /// Version of the program.
    pub version: String,
}

impl HealthView {
    /// The answer of a living process.
    #[must_use]
    pub fn ok(version: &str) -> Self {
        Self { status: "ok".to_owned(), version: version.to_owned() }
    }
}

/// Answer of `GET /readyz`, with status 200 when ready and 503 when not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReadyView {
    /// It can do its work.
    pub ready: bool,
    /// Why not; `null` when ready.
    pub reason: Option<String>,
}
