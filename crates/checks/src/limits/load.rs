//! Numbers about congestion, the physical layer, PCI Express and workloads.

use super::Limit;

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
