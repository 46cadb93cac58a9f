//! Moves the bytes of probes: every transport takes the same commands and tells the same events.
//!
//! A transport never blocks its caller: commands return at once, what came of them is told by [`Transport::poll`].

pub mod conformance;
mod decoders;
pub mod echo;
pub mod mesh;
mod sockets;
pub mod tcp;
pub mod verbs;
mod worker;

pub use decoders::DECODERS;

use rdmascope_model::{Effects, EndpointInfo, LeaseId, Mono, ProbePlan};
use rdmascope_probe::TransportEvent;
use std::sync::Arc;

/// A port's counters as they stand; `None` where the driver has none or they cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortReading {
    /// What a probe can move, counted since an arbitrary beginning.
    pub effects: Effects,
    /// Bytes that the port sent and received.
    pub bytes: Option<u64>,
}

impl From<Effects> for PortReading {
    fn from(effects: Effects) -> Self {
        Self { effects, bytes: None }
    }
}

/// Reads an endpoint's port. Called on the worker thread before the first and right after the last byte of a probe, and every 100 ms of a
/// stream that may meet a job; never inside a latency window.
pub type PortReader = Arc<dyn Fn(&EndpointInfo) -> PortReading + Send + Sync>;

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

    /// Measures (source) or answers (target). Answer: `Effects` where they were looked at, then `Finished`. A target that only
    /// answers ends with [`rdmascope_model::Outcome::Served`] once the source told it that all is over; beside a source that does not
    /// tell (an older one), it stays silent unless it fails.
    fn start(&mut self, lease: LeaseId, now: Mono);

    /// Ends the probe and frees everything.
    fn close(&mut self, lease: LeaseId, now: Mono);

    /// The next event, if there is one.
    fn poll(&mut self, now: Mono) -> Option<(LeaseId, TransportEvent)>;
}
