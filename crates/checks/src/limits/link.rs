//! Numbers about links, their errors and retransmission.

use super::Limit;

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
