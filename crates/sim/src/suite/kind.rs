//! One kind of fault: where it is, what it does there, and what the node tells of it.

use crate::net::{Jobs, Layout, Load, Parameters};
use rdmascope_localise::Way;
use rdmascope_model::Status;
use serde::Deserialize;

/// One row of the list of kinds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// Its name, as it is printed.
    pub name: String,
    /// Where it is.
    pub at: At,
    /// Which way suffers there.
    #[serde(default)]
    pub way: Direction,
    /// Smallest and largest share of packets that are lost, likewise below.
    #[serde(default)]
    pub loss: [f32; 2],
    /// Share of packets of the full MTU that are lost.
    #[serde(default)]
    pub large_loss: [f32; 2],
    /// What is added to round trips, as a share of the one between leaves.
    #[serde(default)]
    pub slower: [f32; 2],
    /// What is added at random, as a share of it, on average.
    #[serde(default)]
    pub queue: [f32; 2],
    /// What is added more with each minute, as a share of it.
    #[serde(default)]
    pub drift_per_minute: [f32; 2],
    /// It is not there all the time.
    pub comes_and_goes_s: Option<ComesAndGoes>,
    /// Only packets that leave the leaf suffer.
    #[serde(default)]
    pub beyond_leaf: bool,
    /// What the node finds.
    pub finding: Option<FindingRow>,
    /// How many faults at once.
    #[serde(default)]
    pub faults: usize,
    /// Share of a host's processor time that is taken from its agent.
    #[serde(default)]
    pub stolen: [f32; 2],
    /// Share of the time in which a job fills the port of one node.
    #[serde(default)]
    pub duty: f32,
    /// Smallest and largest step of a clock, seconds.
    #[serde(default)]
    pub step_s: [f32; 2],
    /// For how long it is watched.
    #[serde(default)]
    pub watch: Watch,
    /// The cluster is another one from the beginning.
    pub cluster: Option<Change>,
}

/// Where a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum At {
    /// At one endpoint.
    Endpoint,
    /// At one endpoint, whose port is down, as its node sees.
    PortDown,
    /// At two endpoints that have one address: what is sent to either arrives at one of them in turns.
    DuplicateAddress,
    /// At all endpoints of a node.
    Node,
    /// The same, and its agent is gone without a word.
    PowerOff,
    /// In the processors of a node.
    StarvedHost,
    /// At a leaf.
    Leaf,
    /// At all uplinks of a leaf.
    Uplinks,
    /// At one uplink of a leaf.
    Link,
    /// At one spine.
    Spine,
    /// Between two leaves.
    LeafPair,
    /// On one of the ways between two leaves.
    LeafPairPath,
    /// Between two endpoints.
    Pair,
    /// On one of the ways between two endpoints.
    PairPath,
    /// Everywhere.
    Everything,
    /// At several of these places.
    Several,
    /// Nowhere.
    Nothing,
    /// Nowhere; the nodes of a job all send to one of them.
    Incast,
    /// Nowhere; the clock of a node jumps.
    ClockStep,
    /// Nowhere; the agent of a node is killed and stays away.
    AgentKilled,
    /// Nowhere; all agents restart one after another.
    AgentsRestart,
}

/// Which way suffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Both.
    #[default]
    Both,
    /// What the place sends; of a pair, from the first to the second.
    Out,
    /// What it receives.
    In,
}

impl Direction {
    /// The word of verdicts.
    #[must_use]
    pub fn way(self) -> Way {
        match self {
            Self::Both => Way::Both,
            Self::Out => Way::Out,
            Self::In => Way::In,
        }
    }
}

/// A fault that comes and goes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComesAndGoes {
    /// Shortest and longest period, seconds.
    pub period: [f32; 2],
    /// For how long of it the fault is there, seconds.
    pub there: [f32; 2],
}

/// What a node's own check finds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindingRow {
    /// Id of the check.
    pub id: String,
    /// What it is about.
    pub subject: About,
    /// How bad.
    pub status: FindingStatus,
    /// What was seen.
    pub summary: String,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum About {
    /// The RDMA port, such as `mlx5_0/1`.
    Port,
    /// The network device, such as `netdev eth2`.
    Netdev,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingStatus {
    /// Works, but not as it should.
    Warn,
    /// Broken.
    Fail,
}

impl From<FindingStatus> for Status {
    fn from(status: FindingStatus) -> Self {
        match status {
            FindingStatus::Warn => Self::Warn,
            FindingStatus::Fail => Self::Fail,
        }
    }
}

/// For how long a run is watched, at most: it ends half a minute after everything was named exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Watch {
    /// 90 seconds.
    #[default]
    Short,
    /// The time in which pings cover all pairs, and 90 seconds.
    Coverage,
    /// Twenty minutes.
    Drift,
}

/// How a cluster differs from the usual ones.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Oversubscription of leaves.
    pub oversubscription: Option<f32>,
    /// Rates of ports.
    pub rates_gbps: Option<Vec<u64>>,
    /// Everybody's traffic.
    pub load: Option<Load>,
    /// Share of nodes that are in a job.
    pub busy_share: Option<f32>,
}

impl Change {
    /// The changed cluster.
    #[must_use]
    pub fn of(&self, layout: &Layout, parameters: &Parameters) -> (Layout, Parameters) {
        let layout = Layout {
            oversubscription: self.oversubscription.unwrap_or(layout.oversubscription),
            rates_gbps: self.rates_gbps.clone().unwrap_or_else(|| layout.rates_gbps.clone()),
            ..layout.clone()
        };
        let jobs = &parameters.jobs;
        let parameters = Parameters {
            load: self.load.clone().unwrap_or_else(|| parameters.load.clone()),
            jobs: Jobs { share: self.busy_share.unwrap_or(jobs.share), ..jobs.clone() },
            ..parameters.clone()
        };
        (layout, parameters)
    }
}

impl Kind {
    /// It is one fault at one place, which may stand beside others.
    #[must_use]
    pub fn is_single(&self) -> bool {
        let single = !matches!(
            self.at,
            At::Several
                | At::Nothing
                | At::Incast
                | At::ClockStep
                | At::AgentKilled
                | At::AgentsRestart
                | At::Everything
                | At::DuplicateAddress
        );
        single && self.cluster.is_none() && self.watch != Watch::Drift
    }

    /// Asked to be named within ten seconds: a node, an endpoint or a leaf that is broken from one moment to the next.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        let place = matches!(
            self.at,
            At::Endpoint
                | At::PortDown
                | At::DuplicateAddress
                | At::Node
                | At::PowerOff
                | At::StarvedHost
                | At::Leaf
                | At::Uplinks
        );
        place && self.watch != Watch::Drift
    }

    /// Asked to be named within one coverage time: a pair, or a path.
    #[must_use]
    pub fn is_narrow(&self) -> bool {
        matches!(self.at, At::Pair | At::PairPath | At::Link | At::LeafPair | At::LeafPairPath)
    }

    /// Something must be told.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        !matches!(self.at, At::Nothing | At::Incast | At::ClockStep | At::AgentKilled | At::AgentsRestart)
    }
}
