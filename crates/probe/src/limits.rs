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
/// Pings per second and endpoint of one pass over the book, which an operator asks for on nodes that carry no job: 12 Mbit/s each way.
pub const MESH_SWEEP_PINGS_PER_SECOND_MAX: u32 = 1_000;
/// Pings to one peer in such a pass: as many as a batch has otherwise.
pub const MESH_SWEEP_BATCH_MAX: u32 = 60;
/// Leases that one endpoint holds at the same time: the target of an incast serves eight, others are being set up or closed.
pub const LEASES_PER_ENDPOINT_MAX: usize = 12;
/// Queue pairs of one stream: eight fill every port that there is; each costs the device a context.
pub const QUEUE_PAIRS_MAX: u32 = 16;
/// Pings of one lease, all sizes and labels.
pub const LEASE_PINGS_MAX: u32 = 20_000;
/// Between two pings or echoes of one lease: 5,000 a second of 4 KiB are 0.16 Gbit/s.
pub const PING_INTERVAL_MIN: Duration = Duration::from_micros(200);
/// Path labels of one lease: 255 hit 32 equal paths with probability 0.99.
pub const LABELS_MAX: u32 = 256;
/// Echoes of one lease.
pub const ECHOES_MAX: u32 = 1_000;
/// Payload of an echo: the largest UDP datagram.
pub const ECHO_BYTES_MAX: u32 = 65_507;

/// Longest stream at the port's full rate on a node that may be working. 20 ms of warm-up and 200 ms show the rate of a port; a job that
/// begins meanwhile waits no longer than for a retransmission.
pub const LIVE_STREAM_MAX: Duration = Duration::from_millis(250);
/// Share of the port's rate that such streams may take over time, one after the other, in percent.
pub const LIVE_DUTY_PERCENT: u64 = 10;
/// Such streams that the target of an incast may take at once, before its share has filled again.
pub const LIVE_TARGET_STREAMS: u64 = 8;

/// Bytes of one stream on a node that may be working, for the port's rate.
#[must_use]
pub fn live_bytes_max(rate_bps: u64) -> u64 {
    let milliseconds = u64::try_from(LIVE_STREAM_MAX.as_millis()).unwrap_or(u64::MAX);
    (rate_bps / 8_000).saturating_mul(milliseconds)
}

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
    within("queue pairs", plan.manner.queue_pairs, 1, QUEUE_PAIRS_MAX)?;
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
        ProbeSpec::Pings(spec) => {
            within("path labels", spec.labels, 1, LABELS_MAX)?;
            within("ping interval", spec.interval, PING_INTERVAL_MIN, LEASE_MAX)?;
            within("pings", spec.count.saturating_mul(2 * spec.labels), 1, LEASE_PINGS_MAX)
        }
        ProbeSpec::Echo(spec) => {
            within("echoes", spec.count, 1, ECHOES_MAX)?;
            within("echo interval", spec.interval, PING_INTERVAL_MIN, LEASE_MAX)?;
            within("echo bytes", spec.payload_bytes, 32, ECHO_BYTES_MAX)
        }
    }
}

/// Checks a plan against what is allowed beside a job, on a port of this rate.
///
/// # Errors
/// The limit that it exceeds.
pub fn admit_live(plan: &ProbePlan, rate_bps: u64) -> Result<(), LimitExceeded> {
    match plan.spec {
        ProbeSpec::Bandwidth(spec) => {
            within("bandwidth bytes beside a job", spec.bytes_max, 1, live_bytes_max(rate_bps))
        }
        ProbeSpec::Latency(_) | ProbeSpec::Pings(_) | ProbeSpec::Echo(_) => Ok(()),
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
    use rdmascope_model::{BandwidthSpec, EchoSpec, LatencySpec, LeaseId, Manner, PingSpec, Role, Urgency};

    fn plan(spec: ProbeSpec) -> ProbePlan {
        ProbePlan {
            lease: LeaseId(1),
            role: Role::Source,
            local: "a/d/1".parse().unwrap(),
            peer: "b/d/1".parse().unwrap(),
            spec,
            manner: Manner::default(),
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
        let pings = PingSpec { count: 100, labels: 1, interval: Duration::from_millis(1) };
        let echo = EchoSpec { count: 10, payload_bytes: 8_972, interval: Duration::from_millis(10) };
        let second = Duration::from_secs(1);
        let refused = [
            ProbeSpec::Latency(LatencySpec { samples: LATENCY_SAMPLES_MAX + 1, ..latency }),
            ProbeSpec::Latency(LatencySpec { samples: 0, ..latency }),
            ProbeSpec::Latency(LatencySpec { warmup: LATENCY_SAMPLES_MAX + 1, ..latency }),
            ProbeSpec::Latency(LatencySpec { message_bytes: 0, ..latency }),
            ProbeSpec::Latency(LatencySpec { message_bytes: MESSAGE_BYTES_MAX + 1, ..latency }),
            ProbeSpec::Bandwidth(BandwidthSpec { message_bytes: MESSAGE_BYTES_MAX + 1, ..bandwidth }),
            ProbeSpec::Bandwidth(BandwidthSpec { depth: DEPTH_MAX + 1, ..bandwidth }),
            ProbeSpec::Bandwidth(BandwidthSpec { depth: 0, ..bandwidth }),
            // A million messages of 64 bytes are the most.
            ProbeSpec::Bandwidth(BandwidthSpec { message_bytes: 64, bytes_max: 64_000_064, ..bandwidth }),
            ProbeSpec::Bandwidth(BandwidthSpec { bytes_max: BANDWIDTH_BYTES_MAX + 1, ..bandwidth }),
            ProbeSpec::Bandwidth(BandwidthSpec { bytes_max: 0, ..bandwidth }),
            ProbeSpec::Bandwidth(BandwidthSpec { duration: BANDWIDTH_DURATION_MAX + second, ..bandwidth }),
            ProbeSpec::Bandwidth(BandwidthSpec { duration: Duration::ZERO, ..bandwidth }),
            ProbeSpec::Bandwidth(BandwidthSpec { warmup: BANDWIDTH_DURATION_MAX + second, ..bandwidth }),
            ProbeSpec::Pings(PingSpec { labels: LABELS_MAX + 1, ..pings }),
            ProbeSpec::Pings(PingSpec { labels: 0, ..pings }),
            // Two sizes with each of ten labels.
            ProbeSpec::Pings(PingSpec { count: LEASE_PINGS_MAX / 20 + 1, labels: 10, ..pings }),
            ProbeSpec::Pings(PingSpec { count: u32::MAX, labels: LABELS_MAX, ..pings }),
            ProbeSpec::Pings(PingSpec { count: 0, ..pings }),
            ProbeSpec::Pings(PingSpec { interval: PING_INTERVAL_MIN - Duration::from_nanos(1), ..pings }),
            ProbeSpec::Echo(EchoSpec { count: ECHOES_MAX + 1, ..echo }),
            ProbeSpec::Echo(EchoSpec { count: 0, ..echo }),
            ProbeSpec::Echo(EchoSpec { payload_bytes: ECHO_BYTES_MAX + 1, ..echo }),
            ProbeSpec::Echo(EchoSpec { payload_bytes: 31, ..echo }),
            ProbeSpec::Echo(EchoSpec { interval: Duration::ZERO, ..echo }),
        ];
        for spec in [ProbeSpec::Pings(pings), ProbeSpec::Echo(echo)] {
            assert_eq!(admit(&plan(spec)), Ok(()), "{spec:?}");
        }
        for queue_pairs in [0, QUEUE_PAIRS_MAX + 1] {
            let crowd = Manner { queue_pairs, ..Manner::default() };
            let crowded = ProbePlan { manner: crowd, ..plan(ProbeSpec::Bandwidth(bandwidth)) };
            assert!(admit(&crowded).is_err(), "{queue_pairs} queue pairs");
        }
        let at_the_edge = Manner { queue_pairs: QUEUE_PAIRS_MAX, ..Manner::default() };
        let crowded = ProbePlan { manner: at_the_edge, ..plan(ProbeSpec::Bandwidth(bandwidth)) };
        assert_eq!(admit(&crowded), Ok(()));
        for spec in refused {
            assert!(admit(&plan(spec)).is_err(), "{spec:?} was admitted");
        }
        let long = ProbePlan { expires_in: Duration::from_secs(31), ..plan(ProbeSpec::Latency(latency)) };
        assert_eq!(admit(&long).unwrap_err().to_string(), "lease seconds = 31s, allowed is 1ms to 30s");
    }
    #[test]
    fn a_stream_beside_a_job_is_a_quarter_of_a_second_of_its_port() {
        let rate = 10_000_000_000;
        let bytes = |bytes_max| BandwidthSpec {
            message_bytes: 65_536,
            depth: 8,
            warmup: Duration::ZERO,
            duration: Duration::from_millis(200),
            completions_min: 100,
            bytes_max,
        };
        let stream = |bytes_max| plan(ProbeSpec::Bandwidth(bytes(bytes_max)));
        assert_eq!(live_bytes_max(rate), 312_500_000);
        assert_eq!(admit_live(&stream(312_500_000), rate), Ok(()));
        let refused = admit_live(&stream(312_500_001), rate).unwrap_err().to_string();
        assert!(refused.starts_with("bandwidth bytes beside a job = 312500001"), "{refused}");
        assert!(admit_live(&stream(1), 0).is_err(), "no rate, no share of it");
        // Warm-up and window of what an operator asks for fit in.
        let (warmup, window) = (Duration::from_millis(20), Duration::from_millis(200));
        assert!(warmup + window < LIVE_STREAM_MAX);
    }
}
