//! Every number that a judgement depends on, once: name, default, unit and the reason for it.
//!
//! `config/policy.yaml` is made from this list; a config may give other values under the same names. Checks and, through the checks'
//! own metric, the alerts use no other numbers.

use std::collections::BTreeMap;

/// One number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Its name in the config.
    pub name: &'static str,
    /// Value where nobody has said otherwise.
    pub default: f64,
    /// Unit, for people.
    pub unit: &'static str,
    /// Why this value.
    pub reason: &'static str,
    /// Heading under which it stands in `config/policy.yaml`.
    pub group: &'static str,
}

impl Limit {
    const fn new(
        group: &'static str,
        name: &'static str,
        default: f64,
        unit: &'static str,
        reason: &'static str,
    ) -> Self {
        Self { name, default, unit, reason, group }
    }
}

/// See its reason.
pub const NETDEV_MTU: Limit = Limit::new(
    "General",
    "netdev_mtu",
    9000.0,
    "bytes",
    "MTU of a network device that carries RoCE. 9000 is what operators set for jumbo frames; clouds use other values (4220, 8896), so it is a matter of policy and not of health.",
);
/// See its reason.
pub const RDMA_MTU: Limit = Limit::new(
    "General",
    "rdma_mtu",
    4096.0,
    "bytes",
    "RDMA MTU. 4096 is the largest there is, and every current adapter does it; at 1024 the headers take 5 % of the line rate more.",
);
/// See its reason.
pub const SETTLE_POLLS: Limit = Limit::new(
    "Settling and flapping",
    "settle_polls",
    3.0,
    "looks",
    "A state that comes and goes counts as failed after so many looks in a row (NVIDIA/NVSentinel #1701: 214 nodes flagged by one look).",
);
/// See its reason.
pub const SETTLE_SECONDS: Limit = Limit::new(
    "Settling and flapping",
    "settle_seconds",
    10.0,
    "seconds",
    "... and after so long; a link that trains again is back within a few seconds.",
);
/// See its reason.
pub const BOOT_GRACE_SECONDS: Limit = Limit::new(
    "Settling and flapping",
    "boot_grace_seconds",
    300.0,
    "seconds",
    "After a boot or a reload of the driver links may take minutes; until then they settle.",
);
/// See its reason.
pub const FLAPS_WARN_PER_HOUR: Limit = Limit::new(
    "Settling and flapping",
    "flaps_warn_per_hour",
    3.0,
    "losses",
    "Losses of the link within an hour that warn (gpud: 3 returns).",
);
/// See its reason.
pub const FLAPS_FAIL_PER_HOUR: Limit = Limit::new(
    "Settling and flapping",
    "flaps_fail_per_hour",
    5.0,
    "losses",
    "... that fail (Azure: 5 a day; an hour is stricter on purpose, see the next row).",
);
/// See its reason.
pub const FLAPS_FAIL_PER_DAY: Limit = Limit::new(
    "Settling and flapping",
    "flaps_fail_per_day",
    10.0,
    "losses",
    "Losses of the link within a day that fail (soperator: 10).",
);
/// See its reason.
pub const LOG_WINDOW_SECONDS: Limit = Limit::new(
    "Settling and flapping",
    "log_window_seconds",
    86400.0,
    "seconds",
    "Kernel-log lines older than that are history, not findings.",
);
/// See its reason.
pub const RECENT_CHANGE_SECONDS: Limit = Limit::new(
    "Settling and flapping",
    "recent_change_seconds",
    3600.0,
    "seconds",
    "A change that breaks running jobs once (a GID in another slot, another subnet manager) is a finding for so long, then history.",
);
/// See its reason.
pub const SYMBOL_ERRORS_WARN_PER_SECOND: Limit = Limit::new(
    "Errors of a port (InfiniBand counters)",
    "symbol_errors_warn_per_second",
    10.0,
    "errors/s",
    "Symbol errors that warn (NVSentinel, non-fatal).",
);
/// See its reason.
pub const SYMBOL_ERRORS_FAIL_PER_HOUR: Limit = Limit::new(
    "Errors of a port (InfiniBand counters)",
    "symbol_errors_fail_per_hour",
    120.0,
    "errors/h",
    "Symbol errors that fail: the InfiniBand specification's bit error rate of 1e-12 gives about 120 an hour (NVSentinel, fatal).",
);
/// See its reason.
pub const LINK_RECOVERIES_WARN_PER_MINUTE: Limit = Limit::new(
    "Errors of a port (InfiniBand counters)",
    "link_recoveries_warn_per_minute",
    5.0,
    "recoveries/min",
    "Link error recoveries that warn (NVSentinel).",
);
/// See its reason.
pub const RECEIVE_ERRORS_WARN_PER_SECOND: Limit = Limit::new(
    "Errors of a port (InfiniBand counters)",
    "receive_errors_warn_per_second",
    10.0,
    "packets/s",
    "Corrupt packets received that warn (NVSentinel).",
);
/// See its reason.
pub const TRANSMIT_DISCARDS_WARN_PER_SECOND: Limit = Limit::new(
    "Errors of a port (InfiniBand counters)",
    "transmit_discards_warn_per_second",
    100.0,
    "packets/s",
    "Packets discarded on sending that warn (NVSentinel).",
);
/// See its reason.
pub const MANAGEMENT_DROPS_WARN_PER_HOUR: Limit = Limit::new(
    "Errors of a port (InfiniBand counters)",
    "management_drops_warn_per_hour",
    100.0,
    "packets/h",
    "Management packets dropped for want of a buffer (VL15_dropped): single ones come with every sweep of the fabric.",
);
/// See its reason.
pub const REMOTE_ERRORS_WARN_PER_HOUR: Limit = Limit::new(
    "Errors of a port (InfiniBand counters)",
    "remote_errors_warn_per_hour",
    100.0,
    "packets/h",
    "Packets that came already marked as corrupt by another hop (infiniband-diags: 100 in all).",
);
/// See its reason.
pub const TRANSMIT_WAIT_WARN_SHARE: Limit = Limit::new(
    "Errors of a port (InfiniBand counters)",
    "transmit_wait_warn_share",
    0.1,
    "share",
    "Share of the time that data waited for credits (port_xmit_wait). No public limit exists; a tenth of the time is plainly congested.",
);
/// See its reason.
pub const RETRANSMIT_MINIMUM_PACKETS: Limit = Limit::new(
    "Retransmission",
    "retransmit_minimum_packets",
    1000000.0,
    "packets",
    "Fewer packets than that within the window say nothing about a ratio: 1e-6 of them is one packet.",
);
/// See its reason.
pub const RETRANSMITS_WARN_RATIO: Limit = Limit::new(
    "Retransmission",
    "retransmits_warn_ratio",
    0.000001,
    "ratio",
    "Packets sent again per packet sent that warn. No public limit exists: one in a million costs go-back-N nothing, and a healthy lossless fabric has none.",
);
/// See its reason.
pub const RETRANSMITS_FAIL_RATIO: Limit = Limit::new(
    "Retransmission",
    "retransmits_fail_ratio",
    0.0001,
    "ratio",
    "... that fail: at one in ten thousand go-back-N costs a tenth of the throughput of a 200 Gb/s flow.",
);
/// See its reason.
pub const RETRANSMITS_BASELINE_FACTOR: Limit = Limit::new(
    "Retransmission",
    "retransmits_baseline_factor",
    10.0,
    "times",
    "... and so many times the port's own median of a day.",
);
/// See its reason.
pub const ACK_TIMEOUTS_WARN_PER_MINUTE: Limit = Limit::new(
    "Retransmission",
    "ack_timeouts_warn_per_minute",
    1.0,
    "timeouts/min",
    "Acknowledgement timeouts over five minutes: each one stalls a queue pair for its whole timeout.",
);
/// See its reason.
pub const OUT_OF_SEQUENCE_WARN_RATIO: Limit = Limit::new(
    "Retransmission",
    "out_of_sequence_warn_ratio",
    0.00001,
    "ratio",
    "Packets out of sequence per packet received; adaptive routing raises them in health, so alone they never fail.",
);
/// See its reason.
pub const RNR_NAKS_WARN_PER_SECOND: Limit = Limit::new(
    "Retransmission",
    "rnr_naks_warn_per_second",
    100.0,
    "NAKs/s",
    "Receiver-not-ready NAKs: a slow receiver, not a fault of the network.",
);
/// See its reason.
pub const ADAPTIVE_RETRANSMITS_WARN_PER_SECOND: Limit = Limit::new(
    "Retransmission",
    "adaptive_retransmits_warn_per_second",
    10.0,
    "events/s",
    "Adaptive retransmissions.",
);
/// See its reason.
pub const SLOW_RESTARTS_WARN_PER_SECOND: Limit = Limit::new(
    "Retransmission",
    "slow_restarts_warn_per_second",
    10.0,
    "events/s",
    "Restarts of the rate after loss (NVSentinel).",
);
/// See its reason.
pub const OUT_OF_BUFFER_WARN_PER_SECOND: Limit = Limit::new(
    "Retransmission",
    "out_of_buffer_warn_per_second",
    10.0,
    "packets/s",
    "Packets for which no receive buffer was posted: sizing of the application.",
);
/// See its reason.
pub const DIED_CONNECTIONS_WINDOW_SECONDS: Limit = Limit::new(
    "Retransmission",
    "died_connections_window_seconds",
    3600.0,
    "seconds",
    "A connection that died of its retries is a failure for so long: a job that lost one has stopped.",
);
/// See its reason.
pub const PAUSE_RECEIVED_WARN_SHARE: Limit = Limit::new(
    "Congestion",
    "pause_received_warn_share",
    0.05,
    "share",
    "Share of the time that the switch stopped this port on a priority (pause duration).",
);
/// See its reason.
pub const PAUSE_RECEIVED_FAIL_SHARE: Limit = Limit::new(
    "Congestion",
    "pause_received_fail_share",
    0.2,
    "share",
    "... that fails: 21.7 % took a 400 Gb/s port to 308 Gb/s (NVIDIA/daqiri #250).",
);
/// See its reason.
pub const PAUSE_SENT_WARN_SHARE: Limit = Limit::new(
    "Congestion",
    "pause_sent_warn_share",
    0.01,
    "share",
    "Share of the time that this host stopped the switch: it is a slow receiver.",
);
/// See its reason.
pub const PAUSE_SENT_FAIL_SHARE: Limit = Limit::new(
    "Congestion",
    "pause_sent_fail_share",
    0.1,
    "share",
    "... that fails: one such host can stop a whole fabric.",
);
/// See its reason.
pub const PAUSE_STORM_TRANSITIONS_PER_SECOND: Limit = Limit::new(
    "Congestion",
    "pause_storm_transitions_per_second",
    1.0,
    "changes/s",
    "Paused for long with fewer changes than that: a storm or a deadlock, not congestion.",
);
/// See its reason.
pub const ECN_MARKED_WARN_SHARE: Limit = Limit::new(
    "Congestion",
    "ecn_marked_warn_share",
    0.01,
    "share",
    "Share of received RoCE packets with a congestion mark.",
);
/// See its reason.
pub const CONGESTION_WINDOW_SECONDS: Limit = Limit::new(
    "Congestion",
    "congestion_window_seconds",
    300.0,
    "seconds",
    "Window over which shares of congestion are judged.",
);
/// See its reason.
pub const ECN_MARKED_WARN_TOTAL: Limit = Limit::new(
    "Congestion",
    "ecn_marked_warn_total",
    1_000_000_000.0,
    "packets",
    "Packets with a congestion mark since the counters began that warn at the first look, together with packets out of sequence: so many do not come from bursts. From the second look on the share decides.",
);
/// See its reason.
pub const SYMBOL_ERRORS_AFTER_FEC_WARN_PER_HOUR: Limit = Limit::new(
    "Physical layer",
    "symbol_errors_after_fec_warn_per_hour",
    1.0,
    "errors/h",
    "Errors that FEC could not mend are lost packets.",
);
/// See its reason.
pub const SYMBOL_ERRORS_AFTER_FEC_FAIL_PER_MINUTE: Limit = Limit::new(
    "Physical layer",
    "symbol_errors_after_fec_fail_per_minute",
    1.0,
    "errors/min",
    "... that fail.",
);
/// See its reason.
pub const CRC_ERRORS_WARN_PER_MINUTE: Limit = Limit::new(
    "Physical layer",
    "crc_errors_warn_per_minute",
    1.0,
    "frames/min",
    "Frames with a wrong checksum.",
);
/// See its reason.
pub const BIT_ERROR_RATIO_WARN: Limit = Limit::new(
    "Physical layer",
    "bit_error_ratio_warn",
    0.000001,
    "ratio",
    "Bits that FEC mended per bit received.",
);
/// See its reason.
pub const BIT_ERROR_RATIO_FAIL: Limit = Limit::new(
    "Physical layer",
    "bit_error_ratio_fail",
    0.00001,
    "ratio",
    "... that fail (Oracle's limit for the raw bit error ratio).",
);
/// See its reason.
pub const DISCARDS_WARN_PER_SECOND: Limit = Limit::new(
    "Physical layer",
    "discards_warn_per_second",
    1.0,
    "packets/s",
    "Packets that the port's buffer could not hold (rx_discards_phy), sustained.",
);
/// See its reason.
pub const DISCARDS_FAIL_TOTAL: Limit = Limit::new(
    "Physical layer",
    "discards_fail_total",
    100.0,
    "packets",
    "... within five minutes that fail (Oracle).",
);
/// See its reason.
pub const MODULE_TEMPERATURE_MARGIN_MC: Limit = Limit::new(
    "Physical layer",
    "module_temperature_margin_mc",
    5000.0,
    "m°C",
    "Distance to the module's own high alarm that warns.",
);
/// See its reason.
pub const MODULE_POWER_MARGIN_RATIO: Limit = Limit::new(
    "Physical layer",
    "module_power_margin_ratio",
    1.26,
    "ratio",
    "Received power below the low alarm times this warns: 1 dB (sichek).",
);
/// See its reason.
pub const FEC_WARN_FROM_MBPS: Limit = Limit::new(
    "Physical layer",
    "fec_warn_from_mbps",
    100000.0,
    "Mb/s",
    "From this speed on lanes run at 25 Gb/s or more, where IEEE 802.3 asks for forward error correction on all but the best short cables.",
);
/// See its reason.
pub const PCI_REPLAYS_WARN_PER_MINUTE: Limit = Limit::new(
    "PCI Express",
    "pci_replays_warn_per_minute",
    10.0,
    "errors/min",
    "Corrected PCI Express errors (BadTLP, Rollover, RxErr ...).",
);
/// See its reason.
pub const PCI_STALLED_WARN_PER_5MIN: Limit = Limit::new(
    "PCI Express",
    "pci_stalled_warn_per_5min",
    30.0,
    "seconds",
    "Seconds of five minutes in which PCI Express held back more than 30 % of the time.",
);
/// See its reason.
pub const PCI_SIGNAL_WARN_PER_MINUTE: Limit = Limit::new(
    "PCI Express",
    "pci_signal_warn_per_minute",
    1.0,
    "events/min",
    "Recoveries of the PCI Express link.",
);
/// See its reason.
pub const MEMLOCK_BYTES: Limit = Limit::new(
    "Workload",
    "memlock_bytes",
    18_446_744_073_709_551_615.0,
    "bytes",
    "Memory that a process must be able to lock: without a limit. 64 MiB is not enough for the queues of one large job (NVIDIA/cudf-spark PR#7632).",
);
/// See its reason.
pub const IDLE_EXIT_WARN_US: Limit = Limit::new(
    "Workload",
    "idle_exit_warn_us",
    100.0,
    "µs",
    "Exit latency of the deepest idle state: above that the first packet after a pause is late.",
);
/// See its reason.
pub const MEMORY_WARN_BYTES: Limit = Limit::new(
    "Workload",
    "memory_warn_bytes",
    1_073_741_824.0,
    "bytes",
    "Memory that is left to register: below it a registration fails though locking is not limited (ut-osa/assise #12).",
);
/// See its reason.
pub const ISSM_NODES_EXPECTED: Limit = Limit::new(
    "Workload",
    "issm_nodes_expected",
    1.0,
    "nodes",
    "issm nodes of an InfiniBand port below which is warned: device plugins refuse a port without. 0 for machines that never make one (GB300: NVIDIA/NVSentinel #1663).",
);

/// All of them, in the order of the policy file.
pub const LIMITS: &[Limit] = &[
    NETDEV_MTU,
    RDMA_MTU,
    SETTLE_POLLS,
    SETTLE_SECONDS,
    BOOT_GRACE_SECONDS,
    FLAPS_WARN_PER_HOUR,
    FLAPS_FAIL_PER_HOUR,
    FLAPS_FAIL_PER_DAY,
    LOG_WINDOW_SECONDS,
    RECENT_CHANGE_SECONDS,
    SYMBOL_ERRORS_WARN_PER_SECOND,
    SYMBOL_ERRORS_FAIL_PER_HOUR,
    LINK_RECOVERIES_WARN_PER_MINUTE,
    RECEIVE_ERRORS_WARN_PER_SECOND,
    TRANSMIT_DISCARDS_WARN_PER_SECOND,
    MANAGEMENT_DROPS_WARN_PER_HOUR,
    REMOTE_ERRORS_WARN_PER_HOUR,
    TRANSMIT_WAIT_WARN_SHARE,
    RETRANSMIT_MINIMUM_PACKETS,
    RETRANSMITS_WARN_RATIO,
    RETRANSMITS_FAIL_RATIO,
    RETRANSMITS_BASELINE_FACTOR,
    ACK_TIMEOUTS_WARN_PER_MINUTE,
    OUT_OF_SEQUENCE_WARN_RATIO,
    RNR_NAKS_WARN_PER_SECOND,
    ADAPTIVE_RETRANSMITS_WARN_PER_SECOND,
    SLOW_RESTARTS_WARN_PER_SECOND,
    OUT_OF_BUFFER_WARN_PER_SECOND,
    DIED_CONNECTIONS_WINDOW_SECONDS,
    PAUSE_RECEIVED_WARN_SHARE,
    PAUSE_RECEIVED_FAIL_SHARE,
    PAUSE_SENT_WARN_SHARE,
    PAUSE_SENT_FAIL_SHARE,
    PAUSE_STORM_TRANSITIONS_PER_SECOND,
    ECN_MARKED_WARN_SHARE,
    CONGESTION_WINDOW_SECONDS,
    ECN_MARKED_WARN_TOTAL,
    SYMBOL_ERRORS_AFTER_FEC_WARN_PER_HOUR,
    SYMBOL_ERRORS_AFTER_FEC_FAIL_PER_MINUTE,
    CRC_ERRORS_WARN_PER_MINUTE,
    BIT_ERROR_RATIO_WARN,
    BIT_ERROR_RATIO_FAIL,
    DISCARDS_WARN_PER_SECOND,
    DISCARDS_FAIL_TOTAL,
    MODULE_TEMPERATURE_MARGIN_MC,
    MODULE_POWER_MARGIN_RATIO,
    FEC_WARN_FROM_MBPS,
    PCI_REPLAYS_WARN_PER_MINUTE,
    PCI_STALLED_WARN_PER_5MIN,
    PCI_SIGNAL_WARN_PER_MINUTE,
    MEMLOCK_BYTES,
    IDLE_EXIT_WARN_US,
    MEMORY_WARN_BYTES,
    ISSM_NODES_EXPECTED,
];

/// The values that are in force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    given: BTreeMap<&'static str, f64>,
}

impl Limits {
    /// The value in force.
    #[must_use]
    pub fn get(&self, limit: &Limit) -> f64 {
        self.given.get(limit.name).copied().unwrap_or(limit.default)
    }

    /// Sets a value; false when there is no limit of that name, or the value is no number that is zero or more.
    pub fn set(&mut self, name: &str, value: f64) -> bool {
        let known =
            LIMITS.iter().find(|limit| limit.name == name).filter(|_| value.is_finite() && value >= 0.0);
        if let Some(limit) = known {
            self.given.insert(limit.name, value);
        }
        known.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_values_can_be_given() {
        let names: std::collections::BTreeSet<_> = LIMITS.iter().map(|limit| limit.name).collect();
        assert_eq!(names.len(), LIMITS.len());
        let mut limits = Limits::default();
        assert!((limits.get(&NETDEV_MTU) - 9000.0).abs() < f64::EPSILON);
        assert!(limits.set("netdev_mtu", 4220.0));
        assert!((limits.get(&NETDEV_MTU) - 4220.0).abs() < f64::EPSILON);
        assert!(
            !limits.set("netdev_mtus", 1.0)
                && !limits.set("rdma_mtu", -1.0)
                && !limits.set("rdma_mtu", f64::NAN)
        );
    }
}
