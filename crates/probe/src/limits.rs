//! The limits that no coordinator and no configuration can lift: an agent refuses what exceeds them.

use rdmascope_model::{ProbePlan, ProbeSpec};
use std::fmt;
use std::time::Duration;

/// Round trips of one latency probe: 3 ms of spinning at 3 µs each allows 1,000; ten times that for 99.9th percentiles.
pub const LATENCY_SAMPLES_MAX: u32 = 10_000;
/// One message: the largest size that perftest's users compare with (8 MiB).
pub const MESSAGE_BYTES_MAX: u32 = 8 << 20;
/// Outstanding writes: perftest's default depth; more only fills the switch's buffer.
pub const DEPTH_MAX: u32 = 128;
/// Bytes of one bandwidth probe: 1 s at 400 Gbit/s.
pub const BANDWIDTH_BYTES_MAX: u64 = 50_000_000_000;
/// Messages of one bandwidth probe: 1 s at 400 Gbit/s with 64 KiB is 763,000; each costs 8 bytes of memory while it runs.
pub const BANDWIDTH_MESSAGES_MAX: u64 = 1_000_000;
/// Measured window of one bandwidth probe.
pub const BANDWIDTH_DURATION_MAX: Duration = Duration::from_secs(5);
/// A lease that lives longer could spin on a machine whose coordinator is gone.
pub const LEASE_MAX: Duration = Duration::from_secs(30);
/// Pings per second and endpoint of a mesh grant; a grant that asks for more is obeyed at this rate.
pub const MESH_PINGS_PER_SECOND_MAX: u32 = 100;
/// Leases that one endpoint holds at the same time: one runs, one is being closed, one is being set up, one spare.
pub const LEASES_PER_ENDPOINT_MAX: usize = 4;

/// A plan asks for more than is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitExceeded {
    what: &'static str,
    asked: String,
    allowed: String,
}

impl fmt::Display for LimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}, allowed is {}", self.what, self.asked, self.allowed)
    }
}

impl std::error::Error for LimitExceeded {}

/// Checks a plan against the limits.
///
/// # Errors
/// The first limit that it exceeds.
pub fn admit(plan: &ProbePlan) -> Result<(), LimitExceeded> {
    within("lease seconds", plan.expires_in, Duration::from_millis(1), LEASE_MAX)?;
    match plan.spec {
        ProbeSpec::Latency(spec) => {
            within("latency samples", spec.samples, 1, LATENCY_SAMPLES_MAX)?;
            within("latency warm-up samples", spec.warmup, 0, LATENCY_SAMPLES_MAX)?;
            within("message bytes", spec.message_bytes, 1, MESSAGE_BYTES_MAX)
        }
        ProbeSpec::Bandwidth(spec) => {
            within("message bytes", spec.message_bytes, 1, MESSAGE_BYTES_MAX)?;
            within("depth", spec.depth, 1, DEPTH_MAX)?;
            within("bandwidth bytes", spec.bytes_max, 1, BANDWIDTH_BYTES_MAX)?;
            let messages = spec.bytes_max.div_ceil(u64::from(spec.message_bytes));
            within("bandwidth messages", messages, 1, BANDWIDTH_MESSAGES_MAX)?;
            within("bandwidth warm-up", spec.warmup, Duration::ZERO, BANDWIDTH_DURATION_MAX)?;
            within("bandwidth seconds", spec.duration, Duration::from_millis(1), BANDWIDTH_DURATION_MAX)
        }
    }
}

fn within<T: PartialOrd + fmt::Debug>(
    what: &'static str,
    asked: T,
    min: T,
    max: T,
) -> Result<(), LimitExceeded> {
    if (&min..=&max).contains(&&asked) {
        return Ok(());
    }
    Err(LimitExceeded { what, asked: format!("{asked:?}"), allowed: format!("{min:?} to {max:?}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_model::{BandwidthSpec, LatencySpec, LeaseId, Role, Urgency};

    fn plan(spec: ProbeSpec) -> ProbePlan {
        ProbePlan {
            lease: LeaseId(1),
            role: Role::Source,
            local: "a/d/1".parse().unwrap(),
            peer: "b/d/1".parse().unwrap(),
            spec,
            urgency: Urgency::Operator,
            expires_in: Duration::from_secs(5),
        }
    }

    #[test]
    fn what_a_coordinator_normally_asks_for_is_admitted() {
        let latency = LatencySpec { samples: 1_000, warmup: 100, message_bytes: 8 };
        assert_eq!(admit(&plan(ProbeSpec::Latency(latency))), Ok(()));
    }

    #[test]
    fn each_limit_holds_whoever_asks() {
        let latency = LatencySpec { samples: 1_000, warmup: 100, message_bytes: 8 };
        let bandwidth = BandwidthSpec {
            message_bytes: 65_536,
            depth: 8,
            warmup: Duration::ZERO,
            duration: Duration::from_millis(200),
            completions_min: 100,
            bytes_max: 1 << 30,
        };
        let refused = [
            ProbeSpec::Latency(LatencySpec { samples: 10_001, ..latency }),
            ProbeSpec::Latency(LatencySpec { samples: 0, ..latency }),
            ProbeSpec::Latency(LatencySpec { warmup: 10_001, ..latency }),
            ProbeSpec::Latency(LatencySpec { message_bytes: 0, ..latency }),
            ProbeSpec::Bandwidth(BandwidthSpec { message_bytes: (8 << 20) + 1, ..bandwidth }),
            ProbeSpec::Bandwidth(BandwidthSpec { depth: 129, ..bandwidth }),
            ProbeSpec::Bandwidth(BandwidthSpec { message_bytes: 64, ..bandwidth }),
            ProbeSpec::Bandwidth(BandwidthSpec { bytes_max: u64::MAX, ..bandwidth }),
            ProbeSpec::Bandwidth(BandwidthSpec { duration: Duration::from_secs(6), ..bandwidth }),
            ProbeSpec::Bandwidth(BandwidthSpec { warmup: Duration::from_secs(6), ..bandwidth }),
        ];
        for spec in refused {
            assert!(admit(&plan(spec)).is_err(), "{spec:?} was admitted");
        }
        let long = ProbePlan { expires_in: Duration::from_secs(31), ..plan(ProbeSpec::Latency(latency)) };
        assert_eq!(admit(&long).unwrap_err().to_string(), "lease seconds = 31s, allowed is 1ms to 30s");
    }
}
