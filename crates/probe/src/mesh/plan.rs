//! Which pings a batch is made of: their sizes, paths and marks, and whose stamps they go by.

use rdmascope_model::{LeaseId, Marks, StampClock};

/// Which pings a batch is made of.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// How many.
    pub(super) pings: u32,
    /// The flow labels; a single 0 for the device's own choice.
    pub(super) labels: Vec<u32>,
    /// How the pings are marked besides.
    pub(super) marks: Marks,
    /// The label to begin with.
    pub(super) first_label: u32,
    /// A lease's batch alternates between small and large; the mesh sends two small ones and then a large one.
    pub(super) lease: Option<LeaseId>,
    /// It belongs to a pass, and is sent at that rate.
    pub(super) of_pass: bool,
    /// Payload of a large ping, bytes.
    pub(super) large_bytes: u32,
    /// Whose stamps it goes by, as far as the prober's side is concerned.
    pub(super) clock: StampClock,
}

impl Plan {
    /// The marks of pings with this label.
    pub(super) fn marks(&self, label: u16) -> Marks {
        Marks { flow_label: self.labels.get(usize::from(label)).copied().unwrap_or(0), ..self.marks }
    }

    /// Size and label of a ping.
    pub(super) fn ping(&self, sequence: u32) -> (bool, u16) {
        let group = if self.lease.is_some() { 2 } else { 3 };
        let labels = u32::try_from(self.labels.len()).unwrap_or(1).max(1);
        let label = self.first_label.wrapping_add(sequence / group) % labels;
        (sequence % group == group - 1, u16::try_from(label).unwrap_or(0))
    }
}
