//! What of the matrix survives the coordinator: each source's cells as results, out for a snapshot and in from one.

use super::{Coordinator, settings};
use rdmascope_link::ProbeResult;
use rdmascope_localise::{Cell, EndpointIndex, Measured};
use rdmascope_model::{Metric, Now, Outcome, Role};

impl Coordinator {
    /// All that is known of the pairs from one source, to be kept. Exclusions are not: they speak of the moment.
    #[must_use]
    pub fn results_from(&self, source: EndpointIndex) -> Vec<ProbeResult> {
        let mut results = Vec::new();
        for (peer, target) in self.matrix.endpoints() {
            for metric in Metric::ALL {
                let (measured_at, outcome) = match self.matrix.cell(metric, source, target) {
                    Cell::Known { at, measured: Measured::Latency(stats, delta) } => {
                        (at, Outcome::Latency(stats, delta))
                    }
                    Cell::Known { at, measured: Measured::Bandwidth(stats, delta) } => {
                        (at, Outcome::Bandwidth(stats, delta))
                    }
                    Cell::Known { at, measured: Measured::Ping(figures) } => {
                        (at, Outcome::Pings(Box::new(figures.to_stats())))
                    }
                    Cell::Failed { at, failure } => (at, Outcome::Failed(failure)),
                    Cell::Never | Cell::Excluded { .. } => continue,
                };
                results.push(ProbeResult {
                    lease: None,
                    local: self.matrix.name(source).clone(),
                    peer: peer.clone(),
                    role: Role::Source,
                    metric: Some(metric),
                    measured_at,
                    outcome,
                    effects: None,
                    evidence: String::new(),
                });
            }
        }
        results
    }

    /// Takes results that an earlier coordinator kept. What agents know better, because it is newer, replaces them.
    pub fn restore(&mut self, results: Vec<ProbeResult>, now: Now) {
        for mut result in results {
            if self.matrix.len() + 2 > settings::ENDPOINTS_MAX {
                return;
            }
            result.measured_at = result.measured_at.min(now.wall);
            let source = self.matrix.intern(&result.local);
            let target = self.matrix.intern(&result.peer);
            self.write(source, target, &result);
        }
    }
}
