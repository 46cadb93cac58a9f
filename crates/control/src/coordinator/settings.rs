//! The numbers that the coordinator works with, each with its reason.

use rdmascope_model::{BandwidthSpec, LatencySpec, ProbeSpec};
use std::collections::BTreeMap;
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
/// Sources of one incast: more than eight show nothing new, and the target's agent holds no more leases.
pub(super) const INCAST_SOURCES_MAX: usize = 8;
/// Probes that an operator may have waiting.
pub(super) const OPERATOR_PROBES_MAX: usize = 64;

/// Fewest and most samples of a background probe.
const BACKGROUND_SAMPLES: (u64, u64) = (30, 1_000);

/// Fewest and most pings of a batch, a third of them large: three large ones tell a path with a smaller MTU from chance, and more
/// than 60 would make a large mesh's pairs wait for each other.
const PINGS_PER_BATCH: (u64, u64) = (9, 60);
/// A batch is over half a second after its last ping, and its agent tells of it within 5 s.
const PINGS_TOLD_WITHIN: Duration = Duration::from_secs(6);

/// What a configuration may change.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Pings per second and endpoint of the mesh grant; 0 switches continuous sweeps off.
    pub pings_per_second: u32,
    /// Path labels that each pair's pings rotate through, at least 1.
    pub labels: u32,
    /// In this time pings and continuous sweeps should cover all pairs, as far as the rate allows.
    pub coverage: Duration,
    /// Between two continuous sweeps.
    pub pause: Duration,
    /// Services by their names.
    pub services: BTreeMap<String, Service>,
    /// Streams that may cross the uplinks of one leaf at the same time.
    pub streams_per_leaf: u32,
    /// The leaf of each node, by its name; a node that is not in it shares its uplinks with nobody who is.
    pub leaves: BTreeMap<String, String>,
}

/// A service whose endpoints are probed as it uses them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Its RDMA device; `None`: the only one of each node.
    pub device: Option<String>,
    /// Its class: a DSCP, or a service level on InfiniBand.
    pub class: Option<u8>,
    /// The nodes that it talks to.
    pub peers: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        // The rate is the default of DESIGN.md; two minutes find a slow node before a job is well under way.
        // 16 labels hit all of 4 equal paths with probability 0.96, and all of 8 within two rounds of 32.
        Self {
            pings_per_second: 10,
            labels: 16,
            coverage: Duration::from_secs(120),
            pause: Duration::from_secs(10),
            services: BTreeMap::new(),
            // Half of the uplinks of a small leaf (8 × 400 Gb/s), should each stream take another one.
            streams_per_leaf: 4,
            leaves: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// Samples of one background probe among so many endpoints: as many as the rate allows within the coverage time.
    pub(super) fn background(&self, endpoints: usize) -> LatencySpec {
        let peers = endpoints.saturating_sub(1).max(1) as u64;
        let pings = u64::from(self.pings_per_second) * self.coverage.as_secs() / peers;
        let samples = pings.clamp(BACKGROUND_SAMPLES.0, BACKGROUND_SAMPLES.1);
        LatencySpec { samples: u32::try_from(samples).unwrap_or(u32::MAX), warmup: 0, ..LatencySpec::USUAL }
    }

    /// Pings of one batch among so many endpoints that take datagrams: as many as the rate allows within the coverage time. A
    /// multiple of three, since each third one is large.
    pub(super) fn pings_per_batch(&self, endpoints: usize) -> u32 {
        let peers = endpoints.saturating_sub(1).max(1) as u64;
        let pings = u64::from(self.pings_per_second) * self.coverage.as_secs() / peers;
        let pings = pings.clamp(PINGS_PER_BATCH.0, PINGS_PER_BATCH.1);
        u32::try_from(pings / 3 * 3).unwrap_or(u32::MAX)
    }

    /// In this time pings cover all pairs of so many endpoints that take datagrams; `None` when they are off, or there are no pairs.
    pub(super) fn ping_coverage(&self, endpoints: usize) -> Option<Duration> {
        let peers = u64::try_from(endpoints.checked_sub(1)?).ok().filter(|&peers| peers > 0)?;
        let pings = peers * u64::from(self.pings_per_batch(endpoints));
        let millis = (pings * 1_000).checked_div(self.pings_per_second.into())?;
        Some(Duration::from_millis(millis) + PINGS_TOLD_WITHIN)
    }

    /// The same where some endpoints are pinged and others need connections: each kind of probe gets half of the rate, so that
    /// an endpoint that takes part in both stays within it.
    pub(super) fn halved(&self) -> Self {
        Self { pings_per_second: self.pings_per_second.div_ceil(2), ..self.clone() }
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

/// How long a lease for this may live.
pub(super) fn lease_time(spec: &ProbeSpec) -> Duration {
    match spec {
        ProbeSpec::Latency(_) => LATENCY_LEASE,
        // A window may take four times its length, and the lease has room for that of the usual one.
        ProbeSpec::Bandwidth(spec) => {
            BANDWIDTH_LEASE + 4 * spec.duration.saturating_sub(BandwidthSpec::USUAL.duration)
        }
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

    #[test]
    fn the_lease_of_a_long_stream_has_room_for_four_times_its_window() {
        let long = BandwidthSpec { duration: Duration::from_secs(1), ..BandwidthSpec::USUAL };
        assert_eq!(lease_time(&ProbeSpec::Bandwidth(BandwidthSpec::USUAL)), BANDWIDTH_LEASE);
        assert_eq!(lease_time(&ProbeSpec::Bandwidth(long)), BANDWIDTH_LEASE + Duration::from_millis(3_200));
    }

    #[test]
    fn batches_are_as_long_as_the_coverage_time_allows_and_a_third_of_them_large() {
        let settings = Settings::default();
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!((settings.pings_per_batch(4), settings.ping_coverage(4)), (60, seconds(3 * 6 + 6)));
        // 10 a second for 120 s are 1,200 pings for 63 peers: 19, of which 18 can be two thirds small.
        assert_eq!(settings.pings_per_batch(64), 18);
        assert!(settings.ping_coverage(64) <= seconds(120), "{:?}", settings.ping_coverage(64));
        assert_eq!(settings.pings_per_batch(4_096), 9, "fewer would say nothing");
        assert_eq!(settings.ping_coverage(1_001), seconds(900 + 6));
        for endpoints in [0, 1, 2, 3, 10, 100, 1_000] {
            let pings = settings.pings_per_batch(endpoints);
            assert!(pings % 3 == 0 && (9..=60).contains(&pings), "{pings}");
        }
        assert_eq!((settings.ping_coverage(0), settings.ping_coverage(1)), (None, None));
        assert_eq!(Settings { pings_per_second: 0, ..settings }.ping_coverage(4), None);
    }
}
