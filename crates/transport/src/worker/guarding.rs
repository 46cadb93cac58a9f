//! Looks at the port while a stream runs, and ends the stream before it hurts somebody's job.
//!
//! A look takes as long as reading a few files and the driver's statistics, during which the stream's thread posts nothing: every 100 ms,
//! and not at all on nodes that are known to carry no job, where nothing would come of it.

use crate::PortReading;
use rdmascope_model::{Congestion, EndpointInfo, Load, Mono, ProbePlan, ProbeSpec, Urgency};
use rdmascope_probe::guard::{Ground, Guard, Look};
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The guard of one end of a stream.
pub(super) struct Guarding {
    guard: Guard,
    began: Instant,
    looked: Instant,
}

impl Guarding {
    /// `first`: the port right before the first byte. `None` for what is not to be guarded.
    pub(super) fn begin(plan: &ProbePlan, endpoint: &EndpointInfo, first: &PortReading) -> Option<Self> {
        let ProbeSpec::Bandwidth(spec) = plan.spec else { return None };
        if plan.spec.load() != Load::Streams || plan.urgency == Urgency::Drained {
            return None;
        }
        let in_flight = spec.depth.saturating_mul(plan.manner.queue_pairs);
        let mut guard = Guard::new(Ground {
            urgency: plan.urgency,
            rate_bps: endpoint.rate_bps,
            packet_bytes: endpoint.active_mtu.map(|mtu| mtu.min(spec.message_bytes)),
            in_flight_bytes: u64::from(in_flight) * u64::from(spec.message_bytes),
            before: None,
        });
        guard.look(look(Duration::ZERO, first.clone(), Some(0)));
        let now = Instant::now();
        Some(Self { guard, began: now, looked: now })
    }

    /// It is time to look again.
    pub(super) fn is_due(&self) -> bool {
        self.looked.elapsed() >= LOOK_EVERY
    }

    /// `moved`: payload that this end sent and took in; `None` where its device does so by itself: whether anybody else uses the port
    /// cannot be told then.
    pub(super) fn look(&mut self, port: PortReading, moved: Option<u64>) -> Option<Congestion> {
        self.looked = Instant::now();
        self.guard.look(look(self.began.elapsed(), port, moved))
    }
}

fn look(at: Duration, port: PortReading, moved: Option<u64>) -> Look {
    Look {
        at: Mono::default().after(at),
        effects: port.effects,
        port_bytes: moved.and(port.bytes),
        own_bytes: moved.unwrap_or(0),
    }
}
