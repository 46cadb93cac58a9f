//! The numbers that the coordinator works with, each with its reason.

use rdmascope_model::{BandwidthSpec, LatencySpec, Metric, ProbeSpec};
use std::time::Duration;

/// Heartbeat interval of agents.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(5);
/// An agent that said nothing for three heartbeats is dead.
pub(super) const DEAD_AFTER: Duration = Duration::from_secs(15);
/// Both sides connect within milliseconds; a loaded host or a slow firmware call may take a second.
pub(super) const SETUP_WITHIN: Duration = Duration::from_secs(3);
/// A latency probe: 1,000 round trips that each wait for one retransmission (4 ms, seen at 1 % loss) would take 4 s.
pub(super) const LATENCY_LEASE: Duration = Duration::from_secs(6);
/// A bandwidth probe: set-up, warm-up and at most four times the window.
pub(super) const BANDWIDTH_LEASE: Duration = Duration::from_secs(6);
/// After the last datagram of a lease: time-out, and time to tell.
pub(super) const DATAGRAM_WAIT: Duration = Duration::from_secs(2);
/// After its lease an agent still has to say how it ended.
pub(super) const REPORT_WITHIN: Duration = Duration::from_millis(700);
/// A grant outlives two renewals that are lost.
pub(super) const GRANT_FOR: Duration = Duration::from_secs(60);
/// How often grants are renewed.
pub(super) const GRANT_RENEWAL: Duration = Duration::from_secs(20);
/// Changes of membership are collected for so long before a new address book goes out, so that N agents that come
/// together cause one book and not N.
pub(super) const BOOK_SETTLES: Duration = Duration::from_secs(1);
/// Bandwidth probes on one machine at the same time; two at once were seen not to slow each other in the lab.
pub(super) const MACHINE_BANDWIDTH_MAX: u32 = 2;
/// A cell is stale after three coverage times, and never before this.
pub(super) const FRESH_FOR_MIN: Duration = Duration::from_secs(60);
/// Endpoints that one coordinator knows; more belong to a second coordinator.
pub(super) const ENDPOINTS_MAX: usize = 4_096;
/// Jobs at the head of a queue that are tried for free endpoints at each step: two full rounds of 512 endpoints.
pub(super) const LOOK_AHEAD: usize = 512;
/// Probes that an operator may have waiting.
pub(super) const OPERATOR_PROBES_MAX: usize = 64;

/// What an operator's sweep or probe measures.
pub(super) const LATENCY: LatencySpec = LatencySpec { samples: 1_000, warmup: 100, message_bytes: 8 };
/// 200 ms show a port's steady rate; 100 completions make its average and worst window mean something on slow ones.
pub(super) const BANDWIDTH: BandwidthSpec = BandwidthSpec {
    message_bytes: 65_536,
    depth: 8,
    warmup: Duration::from_millis(20),
    duration: Duration::from_millis(200),
    completions_min: 100,
    // A fifth of a second at 400 Gbit/s.
    bytes_max: 10_000_000_000,
};

/// Fewest and most samples of a background probe.
const BACKGROUND_SAMPLES: (u64, u64) = (30, 1_000);

/// What a configuration may change.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Pings per second and endpoint of the mesh grant; 0 switches continuous sweeps off.
    pub pings_per_second: u32,
    /// In this time continuous sweeps should cover all pairs, as far as the rate allows.
    pub coverage: Duration,
    /// Between two continuous sweeps.
    pub pause: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        // The rate is the default of DESIGN.md; two minutes find a slow node before a job is well under way.
        Self { pings_per_second: 10, coverage: Duration::from_secs(120), pause: Duration::from_secs(10) }
    }
}

impl Settings {
    /// Samples of one background probe among so many endpoints: as many as the rate allows within the coverage time.
    pub(super) fn background(&self, endpoints: usize) -> LatencySpec {
        let peers = endpoints.saturating_sub(1).max(1) as u64;
        let pings = u64::from(self.pings_per_second) * self.coverage.as_secs() / peers;
        let samples = pings.clamp(BACKGROUND_SAMPLES.0, BACKGROUND_SAMPLES.1);
        LatencySpec { samples: u32::try_from(samples).unwrap_or(u32::MAX), warmup: 0, ..LATENCY }
    }

    /// How long an endpoint rests after such a background probe to stay within the rate.
    pub(super) fn rest(&self, probe: &LatencySpec) -> Duration {
        let pings = u64::from(probe.samples) + u64::from(probe.warmup);
        Duration::from_millis(pings * 1_000 / u64::from(self.pings_per_second.max(1)))
    }

    /// In this time continuous sweeps cover all pairs of so many endpoints; `None` when they are off.
    pub(super) fn coverage(&self, endpoints: usize) -> Option<Duration> {
        let peers = u32::try_from(endpoints.saturating_sub(1)).unwrap_or(u32::MAX);
        let rest = || self.rest(&self.background(endpoints));
        (self.pings_per_second > 0).then(|| rest() * peers + self.pause)
    }
}

/// What an operator's probe of a metric does.
pub(super) fn operator_spec(metric: Metric) -> ProbeSpec {
    match metric {
        Metric::Latency => ProbeSpec::Latency(LATENCY),
        Metric::Bandwidth => ProbeSpec::Bandwidth(BANDWIDTH),
    }
}

/// How long a lease for this may live.
pub(super) fn lease_time(spec: &ProbeSpec) -> Duration {
    match spec {
        ProbeSpec::Latency(_) => LATENCY_LEASE,
        ProbeSpec::Bandwidth(_) => BANDWIDTH_LEASE,
        // Set-up, the datagrams, and the time in which a late answer may come.
        ProbeSpec::Pings(spec) => {
            SETUP_WITHIN + spec.interval * (2 * spec.count * spec.labels) + DATAGRAM_WAIT
        }
        ProbeSpec::Echo(spec) => SETUP_WITHIN + spec.interval * spec.count + DATAGRAM_WAIT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_clusters_get_tails_and_large_ones_stay_within_the_rate() {
        let settings = Settings::default();
        assert_eq!(settings.background(4).samples, 400);
        assert_eq!(settings.rest(&settings.background(4)), Duration::from_secs(40));
        assert_eq!(settings.coverage(4), Some(Duration::from_secs(130)));
        assert_eq!(settings.background(1_000).samples, 30, "fewer would say nothing");
        assert_eq!(settings.coverage(1_000), Some(Duration::from_secs(3 * 999 + 10)));
        assert_eq!(Settings { pings_per_second: 0, ..settings }.coverage(4), None);
    }
}
