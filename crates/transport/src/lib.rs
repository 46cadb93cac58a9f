//! Moves the bytes of probes: every transport takes the same commands and tells the same events.
//!
//! A transport never blocks its caller: commands return at once, what came of them is told by [`Transport::poll`].

pub mod conformance;
pub mod tcp;
pub mod verbs;
mod worker;

use rdmascope_model::{EndpointInfo, LeaseId, Mono, ProbePlan};
use rdmascope_probe::TransportEvent;
use std::sync::Arc;

/// Reads the sum of retransmission counters of (device, port); `None` where the driver has none or they cannot be read.
/// Called on the worker thread right before the first and right after the last byte of a probe.
pub type RetransmitReader = Arc<dyn Fn(&str, u8) -> Option<u64> + Send + Sync>;

/// Called from a worker thread when [`Transport::poll`] has something new.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// What every transport does. Each probe goes through prepare, connect, start and close, in this order; close may come
/// at any time and ends whatever is going on within 100 ms. After `close`, no event of that lease follows.
pub trait Transport {
    /// Makes what one probe needs on this side. `endpoint` is the local one as the inventory last saw it. Answer:
    /// `Prepared` or `Finished(Failed)`. Whatever happens, the probe is over `plan.expires_in` after `now`.
    /// A lease that is there already goes on as it is, and nothing is answered. One endpoint measures one lease at a
    /// time: of two that overlap, the second waits for the first and fails when that takes too long.
    fn prepare(&mut self, plan: &ProbePlan, endpoint: &EndpointInfo, now: Mono);

    /// Connects to the peer, whose transport made `offer`. Answer: `Connected` or `Finished(Failed)`.
    fn connect(&mut self, lease: LeaseId, offer: &[u8], now: Mono);

    /// Measures (source) or answers (target). Answer: `Finished`; the target of a bandwidth probe stays silent
    /// unless it fails.
    fn start(&mut self, lease: LeaseId, now: Mono);

    /// Ends the probe and frees everything.
    fn close(&mut self, lease: LeaseId, now: Mono);

    /// The next event, if there is one.
    fn poll(&mut self, now: Mono) -> Option<(LeaseId, TransportEvent)>;
}
