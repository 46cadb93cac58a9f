//! What of the matrix survives the coordinator: each source's cells as bytes, out for a snapshot and in from one.

use super::Coordinator;
use rdmascope_localise::{EndpointIndex, KeptError};
use rdmascope_model::{EndpointName, Metric, Now};

impl Coordinator {
    /// Who is known, in the order of the numbers that [`Self::keep`] uses.
    #[must_use]
    pub fn kept_names(&self) -> Vec<EndpointName> {
        let count = u32::try_from(self.matrix.len()).unwrap_or(u32::MAX);
        (0..count).map(|number| self.matrix.name(EndpointIndex(number)).clone()).collect()
    }

    /// Appends what is known of the pairs from one source to the first `endpoints`, to be kept.
    pub fn keep(&self, metric: Metric, source: EndpointIndex, endpoints: u32, out: &mut Vec<u8>) {
        self.matrix.keep(metric, source, endpoints, out);
    }

    /// Knows again who an earlier coordinator knew; answers their numbers of now. Who is too many stays unknown.
    pub fn restore_names(&mut self, names: &[EndpointName]) -> Vec<EndpointIndex> {
        names.iter().map_while(|name| self.number_for(name)).collect()
    }

    /// Takes cells that an earlier coordinator kept. What agents know better, because it is newer, replaces them.
    ///
    /// # Errors
    /// The bytes are not what [`Self::keep`] wrote.
    pub fn restore(&mut self, kept: &[u8], numbers: &[EndpointIndex], now: Now) -> Result<usize, KeptError> {
        self.matrix.take_back(kept, numbers, now.wall)
    }
}
