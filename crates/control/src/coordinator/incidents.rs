//! The incidents of the cluster: what the matrix and the nodes' own findings add up to.

use super::Coordinator;
use rdmascope_localise::Incident;

/// All that are held in memory: open ones, suspected ones, and the last of those that are over.
#[derive(Debug, Default)]
pub(super) struct Incidents {
    list: Vec<Incident>,
}

impl Coordinator {
    /// Incidents, suspected and closed ones too, in the order of their numbers.
    #[must_use]
    pub fn incidents(&self) -> &[Incident] {
        &self.incidents.list
    }
}
