//! What a probe moves at its end: the port's counters and the thread's processor time, read before its first byte and after its last.

use crate::PortReading;
use rdmascope_model::Effects;
use rustix::time::{ClockId, clock_gettime};

/// The counters as they stood before the first byte.
pub(super) struct Meter(Effects);

impl Meter {
    pub(super) fn begin(port: &PortReading) -> Self {
        Self(Effects { processor_ns: Some(processor_time()), ..port.effects.clone() })
    }

    /// How far they moved since. Retransmissions of a counter that went back are not known: a device that was reset has not proved
    /// itself healthy.
    pub(super) fn moved(&self, read: impl FnOnce() -> PortReading) -> Effects {
        // Reading the counters is no part of it.
        let processor_ns = Some(processor_time());
        let now = Effects { processor_ns, ..read().effects };
        let resent = now.retransmits.zip(self.0.retransmits);
        let retransmits = resent.and_then(|(now, before)| now.checked_sub(before));
        Effects { retransmits, ..now.since(&self.0) }
    }
}

/// Processor time of the calling thread since it began, nanoseconds.
fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}
