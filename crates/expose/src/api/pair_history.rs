//! What a pair was over time, why that is kept, and which pairs an operator pinned.

use super::CellState;
use rdmascope_model::{Cause, Exclusion, Metric};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of `GET /api/v1/history`: the last hour by the minute, the last day by the quarter of an hour. Of its points what is not known
/// is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HistoryView {
    /// Endpoint that sends.
    pub source: String,
    /// Endpoint that receives.
    pub target: String,
    /// What was measured: `latency`, `bandwidth` or `ping`.
    pub metric: String,
    /// Unit of `p50`, `p99`, `max` and `average`: `ns` (latency: half round trip; ping: round trip in the network) or `bits_per_second`.
    pub unit: String,
    /// Why it is kept: `few-endpoints` (128 at most: every pair is kept), `incident` (it shows one, or was measured again for one),
    /// `worst` (it is among the worst 1,000, or was within the hour) or `pinned`.
    pub kept_because: String,
    /// It is kept until then, unless it is an incident's or among the worst again; `null` where the reason has no end.
    pub kept_until: Option<String>,
    /// In the order of time.
    pub points: Vec<HistoryPoint>,
}

/// What a pair was in a span of time: the worst of its figures, and the sums of its pings. What failed in the same span is a point of its
/// own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HistoryPoint {
    /// The first moment that is known of it.
    pub at: String,
    /// The last.
    pub until: String,
    /// `fresh` is what was measured then.
    pub state: CellState,
    /// Why nothing was measured: the id of a cause for `failed` (`rdmascope explain ID`), `busy`, `maintenance` or `policy` for
    /// `excluded`, `not-measured` for `stale`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The same in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Latency and ping: the largest median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<u64>,
    /// Latency: the largest 99th percentile. Batches of pings are too small for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<u64>,
    /// Ping: the longest round trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// Bandwidth: the smallest average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<u64>,
    /// Ping: pings sent; of failed batches, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<u32>,
    /// Ping: of these, pings without any answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u32>,
}

impl HistoryView {
    /// The unit of a metric's figures.
    #[must_use]
    pub fn unit_of(metric: Metric) -> &'static str {
        match metric {
            Metric::Latency | Metric::Ping => "ns",
            Metric::Bandwidth => "bits_per_second",
        }
    }
}

impl HistoryPoint {
    /// A span of which only the state is known.
    #[must_use]
    pub fn bare(at: String, until: String, state: CellState) -> Self {
        Self {
            at,
            until,
            state,
            cause: None,
            text: None,
            p50: None,
            p99: None,
            max: None,
            average: None,
            sent: None,
            lost: None,
        }
    }

    /// The same, with why the probe failed.
    #[must_use]
    pub fn with_cause(self, cause: Cause) -> Self {
        self.because(cause.id(), cause.text())
    }

    /// The same, with why nothing was probed.
    #[must_use]
    pub fn with_exclusion(self, why: Exclusion) -> Self {
        self.because(why.as_str(), why.text())
    }

    /// The same of a pair that nobody measured for too long.
    #[must_use]
    pub fn not_measured(self) -> Self {
        self.because("not-measured", "It was not measured for longer than such pairs usually are.")
    }

    fn because(self, cause: &str, text: &str) -> Self {
        Self { cause: Some(cause.to_owned()), text: Some(text.to_owned()), ..self }
    }
}

/// Pairs whose history is kept because an operator asked for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PinList {
    /// In the order of their names.
    pub pins: Vec<PinView>,
}

/// One pinned pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PinView {
    /// Endpoint that sends.
    pub source: String,
    /// Endpoint that receives.
    pub target: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_of_a_point_is_left_out_and_a_failure_has_a_cause_and_no_number() {
        let failed =
            HistoryPoint::bare("T".to_owned(), "U".to_owned(), CellState::Failed).with_cause(Cause::PortDown);
        let json = serde_json::to_value(&failed).unwrap();
        let keys: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["at", "cause", "state", "text", "until"]);
        assert_eq!((&json["state"], &json["cause"]), (&"failed".into(), &"port-down".into()));
        assert_eq!(serde_json::from_value::<HistoryPoint>(json).unwrap(), failed);
    }
}
