//! Retransmissions of one port, read alone, so that they can stand before and after a probe.

use crate::Host;
use crate::parse;
use crate::rdma::CLASS;
use rdmascope_checks::counters::{CATALOGUE, Meaning, add_up};
use rdmascope_model::Reading;

impl Host {
    /// How often a port began to send again, read now from its own few files alone.
    #[must_use]
    pub fn read_retransmits(&self, device: &str, port: u8) -> Reading<u64> {
        let base = format!("{CLASS}/{device}/ports/{port}/hw_counters");
        match self.tree().folder(&base) {
            Reading::Value(folder) => {
                let rows = CATALOGUE.iter().filter(|r| r.meaning == Meaning::Resent);
                add_up(rows.map(|r| parse::known(folder.parsed(r.name, parse::counter))))
            }
            Reading::Absent => Reading::Absent,
            Reading::Failed(why) => Reading::Failed(why),
        }
    }
}
