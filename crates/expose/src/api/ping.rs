//! What pings found of one pair: time in network and hosts, loss in each direction and size, and what is odd about it.

use rdmascope_model::{LabelResult, PingCounts};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The last batch of pings of one pair. What is not known is `null`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PingFigures {
    /// Which clock stamped the pings: `sw` (the host's) or `hw` (the adapter's).
    pub clock: String,
    /// Share of pings that were lost, of those that were answered in time or lost; both sizes.
    pub loss_ratio: Option<f64>,
    /// Median network round trip of small pings, without the time inside both hosts, nanoseconds.
    pub network_p50_ns: Option<u64>,
    /// Largest, nanoseconds.
    pub network_max_ns: Option<u64>,
    /// Median network round trip of large pings, nanoseconds.
    pub large_p50_ns: Option<u64>,
    /// Median time inside the responder's host, nanoseconds.
    pub responder_p50_ns: Option<u64>,
    /// Largest, nanoseconds.
    pub responder_max_ns: Option<u64>,
    /// Median time inside the prober's host, nanoseconds.
    pub prober_p50_ns: Option<u64>,
    /// Largest, nanoseconds.
    pub prober_max_ns: Option<u64>,
    /// Answered pings during which either host took far longer than usual.
    pub host_delayed: u32,
    /// Answered pings without usable stamps: in the counts, not in the times.
    pub invalid_stamps: u32,
    /// Pings to, or answers from, a queue pair that the peer no longer has: not loss.
    pub stale: u32,
    /// Small pings (64 bytes).
    pub small: PingSizeFigures,
    /// Pings of the full path MTU.
    pub large: PingSizeFigures,
    /// The path label that lost most, else the slowest; `null` where there was one only.
    pub worst_label: Option<PingLabelFigures>,
}

/// What became of the pings of one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PingSizeFigures {
    /// Payload of one ping, bytes; 0 when none were sent.
    pub payload_bytes: u32,
    /// Pings sent.
    pub sent: u32,
    /// Pings answered in time.
    pub answered: u32,
    /// Pings lost on the way from source to target; `null` when the direction is not known.
    pub lost_forward: Option<u32>,
    /// Answers lost on the way back.
    pub lost_backward: Option<u32>,
    /// Answers after the time-out: neither answered nor lost.
    pub late: u32,
    /// Answers that came twice.
    pub duplicate: u32,
    /// Answers that overtook an earlier one.
    pub reordered: u32,
}

impl From<&PingCounts> for PingSizeFigures {
    fn from(counts: &PingCounts) -> Self {
        Self {
            payload_bytes: counts.payload_bytes,
            sent: counts.sent,
            answered: counts.answered,
            lost_forward: counts.lost_forward,
            lost_backward: counts.lost_backward,
            late: counts.late,
            duplicate: counts.duplicate,
            reordered: counts.reordered,
        }
    }
}

/// The pings of one path label, both sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PingLabelFigures {
    /// The flow label; 0 stands for the device's own choice.
    pub flow_label: u32,
    /// Pings sent with it.
    pub sent: u32,
    /// Of them answered.
    pub answered: u32,
    /// Median network round trip of the small ones, nanoseconds.
    pub p50_ns: Option<u64>,
}

impl From<&LabelResult> for PingLabelFigures {
    fn from(label: &LabelResult) -> Self {
        Self {
            flow_label: label.flow_label,
            sent: label.sent,
            answered: label.answered,
            p50_ns: label.p50_ns,
        }
    }
}

/// Something that is wrong with a pair although its pings are answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PairVerdict {
    /// Stable id: `path-mtu`, `mtu-mismatch`, `host-delayed`, `path-label` or `loss`.
    pub id: String,
    /// What is wrong.
    pub text: String,
    /// What was seen.
    pub evidence: String,
    /// What to do next.
    pub next_step: String,
}
