//! The numbers that the coordinator works with, each with its reason.

use rdmascope_model::{BandwidthSpec, ProbeSpec};
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
/// While agents still come, the book waits: 2,000 that come back at once need the coordinator for being let in, and a book for each of
/// them each second, of as many entries, would keep it from that.
pub(super) const BOOK_QUIET: Duration = Duration::from_millis(500);
/// But not for longer than this.
pub(super) const BOOK_SETTLES_MAX: Duration = Duration::from_secs(5);
/// A cell is stale after three coverage times, and never before this.
pub(super) const FRESH_FOR_MIN: Duration = Duration::from_secs(60);
/// Endpoints that one coordinator knows; more belong to a second coordinator.
pub(super) const ENDPOINTS_MAX: usize = 4_096;
/// Probes of a sweep whose result is known without running them that are settled at once: a node that is down has thousands of pairs,
/// and agents must not wait for an answer meanwhile.
pub(super) const KNOWN_AT_ONCE: usize = 2_000;
/// The rest of them comes so much later.
pub(super) const KNOWN_AGAIN: Duration = Duration::from_millis(1);
/// Sources of one incast: more than eight show nothing new, and the target's agent holds no more leases.
pub(super) const INCAST_SOURCES_MAX: usize = 8;
/// Probes that an operator may have waiting.
pub(super) const OPERATOR_PROBES_MAX: usize = 64;

/// Between two looks for incidents, as long as they cost little: a fault is to be named within ten seconds, two looks and a probe.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Pings of suspects that are measured again on one endpoint at the same time: 500 a second each.
pub(super) const RETESTS_AT_ONCE: usize = 4;
/// Pairs that are measured again at the same time, and that wait for it.
pub(super) const RETESTS_RUNNING_MAX: usize = 32;
pub(super) const RETESTS_WAITING_MAX: usize = 64;

/// The history of a pair that nothing asks for any more is kept for so long: whoever is called looks within the hour.
pub(super) const TRAIL_KEPT_FOR: Duration = Duration::from_secs(3_600);

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
    /// Streams that one machine may carry at the same time.
    pub streams_per_node: u32,
    /// Pairs that a sweep may probe at the same time.
    pub pairs_at_once: u32,
    /// Bytes that one sweep of an operator may send.
    pub sweep_bytes_max: u64,
    /// Packets get from one rail to another; where they do not, pairs of two rails are not probed.
    pub rails_routed: bool,
    /// The leaf that a file gives a `NODE`, `NODE/DEVICE` or `NODE/DEVICE/PORT`; what the switch itself tells goes before it.
    pub leaves: BTreeMap<String, String>,
    /// The rail, likewise; what the node's manifest tells goes before it.
    pub rails: BTreeMap<String, String>,
    /// The pod of each leaf.
    pub pods: BTreeMap<String, String>,
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
            // Two at once were seen not to slow each other in the lab.
            streams_per_node: 2,
            // 2,048 endpoints at once: every lease has some ten frames, and a quarter of a second at most.
            pairs_at_once: 1_024,
            // All pairs of one rail of 1,024 endpoints at 400 Gb/s are 1.4 PB.
            sweep_bytes_max: 2_000_000_000_000_000,
            rails_routed: true,
            leaves: BTreeMap::new(),
            rails: BTreeMap::new(),
            pods: BTreeMap::new(),
        }
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
    fn the_lease_of_a_long_stream_has_room_for_four_times_its_window() {
        let long = BandwidthSpec { duration: Duration::from_secs(1), ..BandwidthSpec::USUAL };
        assert_eq!(lease_time(&ProbeSpec::Bandwidth(BandwidthSpec::USUAL)), BANDWIDTH_LEASE);
        assert_eq!(lease_time(&ProbeSpec::Bandwidth(long)), BANDWIDTH_LEASE + Duration::from_millis(3_200));
    }
}
