//! What a probe is, apart from the wire: limits, one side's session, and the statistics of its samples.
//!
//! A [`Session`] is fed with what the peer and the transport say and answers with what to do; it does no I/O and has no clock.

mod bandwidth;
mod device_clock;
pub mod guard;
mod labels;
mod latency;
pub mod limits;
pub mod mesh;
mod session;

pub use bandwidth::BandwidthMeter;
pub use device_clock::{ClockFault, ClockTrust, DeviceClock};
pub use labels::labels_needed;
pub use latency::latency_stats;
pub use limits::{LimitExceeded, admit};
pub use session::{Input, Output, Session, TransportEvent};
