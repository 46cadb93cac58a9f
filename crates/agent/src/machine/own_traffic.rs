//! Bytes that our own bandwidth probes moved, kept apart from those of somebody's job.

use rdmascope_host::Traffic;
use rdmascope_model::{EndpointName, Reading};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Bytes that our own bandwidth probes moved, so that they do not count as somebody's job.
#[derive(Default)]
pub(crate) struct OwnTraffic {
    tallies: Mutex<BTreeMap<EndpointName, Tally>>,
}

#[derive(Default)]
struct Tally {
    running: u32,
    before: Option<Traffic>,
    bytes: u64,
}

impl OwnTraffic {
    /// A bandwidth probe begins: what the port moves from here on is ours.
    pub(crate) fn begin(&self, name: &EndpointName, now: &Reading<Traffic>) {
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = tallies.entry(name.clone()).or_default();
        tally.running += 1;
        if tally.running == 1 {
            tally.before = now.value().copied();
        }
    }

    /// It has ended.
    pub(crate) fn end(&self, name: &EndpointName, now: &Reading<Traffic>) {
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(tally) = tallies.get_mut(name) else { return };
        tally.running = tally.running.saturating_sub(1);
        if tally.running == 0
            && let (Some(before), Some(after)) = (tally.before.take(), now.value())
        {
            let tx = after.tx_bytes.saturating_sub(before.tx_bytes);
            tally.bytes += tx + after.rx_bytes.saturating_sub(before.rx_bytes);
        }
    }

    /// Our bytes so far; `None` while a probe runs, since its bytes are not counted yet.
    pub(super) fn bytes(&self, name: &EndpointName) -> Option<u64> {
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        tallies.get(name).map_or(Some(0), |tally| (tally.running == 0).then_some(tally.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_traffic_is_counted_from_the_first_probe_to_the_last() {
        let own = OwnTraffic::default();
        let name: EndpointName = "a/d/1".parse().unwrap();
        let at = |bytes| Reading::Value(Traffic { tx_bytes: bytes, rx_bytes: 0 });
        assert_eq!(own.bytes(&name), Some(0));
        own.begin(&name, &at(100));
        own.begin(&name, &at(150));
        own.end(&name, &at(200));
        assert_eq!(own.bytes(&name), None, "one still runs");
        own.end(&name, &at(300));
        assert_eq!(own.bytes(&name), Some(200));
    }
}
