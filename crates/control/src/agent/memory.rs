//! The last result of each pair that starts here, so that a restarted coordinator gets its matrix back.

use rdmascope_link::{ProbeResult, RESULTS_PER_FRAME_MAX};
use rdmascope_model::{EndpointName, Metric, Outcome, Role};
use std::collections::BTreeMap;

/// Pairs that are remembered: 8 endpoints with 4,095 peers and one metric; about 300 bytes each.
const PAIRS_MAX: usize = 32_768;

/// What is remembered.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    last: BTreeMap<(EndpointName, EndpointName, Metric), ProbeResult>,
}

impl Memory {
    /// Keeps a result that says something about the pair from here to the peer.
    pub(super) fn keep(&mut self, result: &ProbeResult) {
        // The target of a bandwidth probe speaks of the opposite direction, which the source remembers.
        let Some(metric) = result.metric else { return };
        let about_this_direction = result.role == Role::Source || metric == Metric::Latency;
        let passing = matches!(result.outcome, Outcome::Excluded(_) | Outcome::Served | Outcome::Aborted(..));
        if !about_this_direction || passing {
            return;
        }
        let key = (result.local.clone(), result.peer.clone(), metric);
        if self.last.len() >= PAIRS_MAX && !self.last.contains_key(&key) {
            let oldest = self.last.iter().min_by_key(|(_, r)| r.measured_at).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.last.remove(&key));
        }
        self.last.insert(key, ProbeResult { lease: None, effects: None, ..result.clone() });
    }

    /// Everything, in portions that fit into a frame.
    pub(super) fn all(&self) -> Vec<Vec<ProbeResult>> {
        let results: Vec<_> = self.last.values().cloned().collect();
        results.chunks(RESULTS_PER_FRAME_MAX).map(<[_]>::to_vec).collect()
    }
}
