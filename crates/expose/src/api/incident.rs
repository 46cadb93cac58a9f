//! Incidents as the API shows them, and as they are kept over a restart; with what a ticket needs.

use super::{AcknowledgementView, EventView, NodeFinding};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of `GET /api/v1/incidents`: open ones first, then suspected, then closed; the newest of each first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IncidentList {
    /// The incidents.
    pub incidents: Vec<IncidentView>,
    /// Incidents that were asked for and are beyond `limit`.
    pub left_out: u64,
}

/// One incident: one cause, from the first doubt to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IncidentView {
    /// Counts up over restarts.
    pub id: u64,
    /// `suspected` (being measured again, nobody is told), `open` or `closed`.
    pub state: String,
    /// `fail`, or `warn` for what slows a job a little.
    pub status: String,
    /// In one sentence: what is wrong with whom.
    pub title: String,
    /// What is blamed, in words; what cannot be told apart is named together.
    pub who: String,
    /// What is blamed: those that explain what is seen equally well, usually one.
    pub components: Vec<ComponentView>,
    /// What is wrong: `dead`, `lossy`, `large-lost`, `slow`, `narrow`, `host-slow` or `setting`.
    pub effect: String,
    /// Which way suffers: `both`, `out` (what it sends) or `in`.
    pub way: String,
    /// On how many of its paths: `all` or `some-paths`.
    pub share: String,
    /// How sure: `low`, `medium` or `high`.
    pub confidence: String,
    /// What was seen, one sentence each, the most telling first.
    pub evidence: Vec<String>,
    /// Figures behind it.
    pub figures: Vec<String>,
    /// What the nodes themselves tell that explains it, the most telling first.
    pub reasons: Vec<ReasonView>,
    /// What to do.
    pub next_step: String,
    /// Pairs through it that suffer, of `pairs` that were looked at.
    pub bad_pairs: u32,
    /// Pairs through it that were looked at.
    pub pairs: u32,
    /// Peers that suffer with it, of `peers` that were looked at.
    pub bad_peers: u32,
    /// Peers that were looked at.
    pub peers: u32,
    /// The pair that suffers most.
    pub worst: Option<PairNames>,
    /// A pair that does not go through it and is fine.
    pub fine: Option<PairNames>,
    /// Nodes that it touches; none where it is about the whole fabric.
    pub nodes: Vec<String>,
    /// When it was first seen.
    pub since: String,
    /// When it was told; `null` while it is suspected.
    pub opened_at: Option<String>,
    /// When it was last seen.
    pub seen_at: String,
    /// When it was over.
    pub closed_at: Option<String>,
    /// Somebody knows of it.
    pub acknowledged: Option<AcknowledgementView>,
    /// Somebody works on all of its nodes.
    pub maintenance: bool,
}

impl IncidentView {
    /// Open, and nobody knows of it or works there: what somebody should look at.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.state == "open" && self.acknowledged.is_none() && !self.maintenance
    }
}

/// A part of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ComponentView {
    /// `node`, `endpoint`, `leaf`, `uplinks`, `leaf-pair`, `spines`, `pair` or `cluster`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// An ordered pair of endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PairNames {
    /// Source.
    pub source: String,
    /// Target.
    pub target: String,
}

/// A finding of a node that explains an incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReasonView {
    /// Id of the finding; `rdmascope explain ID` says more.
    pub id: String,
    /// The node that told it.
    pub node: String,
    /// Its subject, such as `mlx5_0/1`.
    pub subject: String,
    /// How bad.
    pub status: String,
    /// What was seen.
    pub summary: String,
    /// What to do.
    pub next_step: String,
    /// Since when, on the node's clock; `null` where it is not known.
    pub since: Option<String>,
}

/// Answer of `GET /api/v1/incidents/{id}`: the incident with what a ticket needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IncidentDetail {
    /// The incident.
    pub incident: IncidentView,
    /// The hardware that it touches: those endpoints, and the switch ports at the other end where these say so.
    pub parts: Vec<PartView>,
    /// Further parts.
    pub parts_left_out: u64,
    /// What changed on its nodes in the hour before it was first seen, and until it was told: settings, firmware, drivers, recabling, and
    /// what came to differ from other nodes. The newest first.
    pub changes: Vec<EventView>,
    /// Further changes.
    pub changes_left_out: u64,
    /// The history in memory does not reach back an hour, and there is none on disk: there may have been more changes.
    pub changes_incomplete: bool,
}

/// An endpoint and what it is made of, as its node tells; what it does not tell is `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartView {
    /// `NODE/DEVICE/PORT`.
    pub endpoint: String,
    /// Network device.
    pub netdev: Option<String>,
    /// Signalling rate.
    pub rate: Option<String>,
    /// Name of the switch at the other end of the cable, as it said by LLDP when it was heard last.
    pub switch: Option<String>,
    /// Its port.
    pub switch_port: Option<String>,
    /// The leaf that the topology names.
    pub leaf: Option<String>,
    /// Type of the adapter.
    pub adapter: Option<String>,
    /// Serial number of the adapter.
    pub adapter_serial: Option<String>,
    /// Board id (PSID) of the adapter.
    pub psid: Option<String>,
    /// Firmware of the adapter.
    pub firmware: Option<String>,
    /// Driver, with its version where it has one of its own.
    pub driver: Option<String>,
    /// Kernel.
    pub kernel: Option<String>,
    /// Transceiver or cable: kind, vendor and part number.
    pub module: Option<String>,
    /// Its serial number.
    pub module_serial: Option<String>,
}

/// Answer of `GET /api/v1/diagnosis`: what is wrong now, or whether it is the network of a few nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DiagnosisView {
    /// The nodes that were asked for; none for the whole cluster.
    pub nodes: Vec<String>,
    /// `fine`, `host` (something on a node, not the network), `network` or `cannot-say`.
    pub answer: String,
    /// The answer in words.
    pub text: String,
    /// What to do, or to measure, next; empty when there is nothing to do.
    pub next_step: String,
    /// Incidents that touch the nodes and are not over, open ones first.
    pub incidents: Vec<IncidentView>,
    /// Findings of the nodes, the worst first, at most 50.
    pub findings: Vec<NodeFinding>,
    /// Further findings.
    pub findings_left_out: u64,
    /// What their pairs show, by metric; metrics without pairs are left out.
    pub pairs: Vec<PairsView>,
}

/// What the pairs of a few nodes show in one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PairsView {
    /// Which metric.
    pub metric: String,
    /// Ordered pairs.
    pub pairs: u64,
    /// Of these measured lately.
    pub fresh: u64,
    /// Measured too long ago.
    pub stale: u64,
    /// Not yet measured.
    pub never: u64,
    /// Whose last probe failed.
    pub failed: u64,
    /// Not probed, for a reason that says nothing about them.
    pub excluded: u64,
    /// Age of the oldest fresh one.
    pub oldest_seconds: Option<f64>,
    /// Fresh ones that lose pings.
    pub lossy: u64,
    /// Share of pings lost over all fresh ones; `null` where no pings are sent.
    pub loss_ratio: Option<f64>,
    /// The one that loses most.
    pub lossiest: Option<LossyPair>,
    /// Fresh ones that are slow against their tier.
    pub slow: u64,
    /// The one that is slowest against its tier.
    pub worst: Option<WorstPairView>,
    /// Failed ones, those for which the network can be to blame first, at most 3.
    pub failures: Vec<FailedPair>,
}

/// A pair that loses pings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LossyPair {
    /// Source.
    pub source: String,
    /// Target.
    pub target: String,
    /// Share of pings lost.
    pub loss_ratio: f64,
}

/// A pair that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailedPair {
    /// Source.
    pub source: String,
    /// Target.
    pub target: String,
    /// Stable id of the cause.
    pub cause: String,
    /// The cause in words.
    pub text: String,
}

/// The pair that is slowest against its tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorstPairView {
    /// Source.
    pub source: String,
    /// Target.
    pub target: String,
    /// Its figure: nanoseconds, or bits per second for bandwidth.
    pub value: u64,
    /// The tier's median, in the same unit.
    pub median: u64,
    /// How many times slower than the median.
    pub slower: f64,
    /// How far apart the two are: only pairs of the same distance are compared.
    pub distance: String,
    /// Fresh pairs of the tier that the median is made from.
    pub compared: u64,
}

/// How many incidents there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IncidentCounts {
    /// Open, and nobody knows of them.
    pub open: u64,
    /// Being measured again.
    pub suspected: u64,
    /// Open, and somebody knows of them.
    pub acknowledged: u64,
    /// Open, and somebody works on all of their nodes.
    pub maintenance: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_part_does_not_tell_is_null_and_not_left_out() {
        let json =
            serde_json::to_value(PartView { endpoint: "n/d/1".to_owned(), ..PartView::default() }).unwrap();
        assert_eq!(json["switch_port"], serde_json::Value::Null);
        assert_eq!(json.as_object().unwrap().len(), 14);
    }
}
