//! The port counters worth a time series: one row per meaning, with the file names that drivers give it.

use super::Family;
use super::catalogue::port_counter;

/// One exported counter.
pub(super) struct Counter {
    /// Its family.
    pub(super) family: Family,
    /// Files of `counters/` and `hw_counters/` that have it; the first that is there counts.
    pub(super) files: &'static [&'static str],
    /// What one count stands for.
    pub(super) scale: u64,
}

const fn row(name: &'static str, files: &'static [&'static str], help: &'static str) -> Counter {
    Counter { family: port_counter(name, help), files, scale: 1 }
}

/// `port_rcv_data` and `port_xmit_data` count words of 4 bytes (kernel: `Documentation/ABI/stable/sysfs-class-infiniband`).
const fn words(name: &'static str, files: &'static [&'static str], help: &'static str) -> Counter {
    Counter { family: port_counter(name, help), files, scale: 4 }
}

/// Names follow node_exporter's where it has one, so that people find them. File names: InfiniBand's port counters, mlx5
/// (NVIDIA's counter description), rxe (`drivers/infiniband/sw/rxe/rxe_hw_counters.c`), bnxt_re (`.../bnxt_re/hw_counters.c`).
pub(super) static COUNTERS: &[Counter] = &[
    words("rdmascope_port_data_received_bytes_total", &["port_rcv_data"], "Bytes received."),
    words("rdmascope_port_data_transmitted_bytes_total", &["port_xmit_data"], "Bytes sent."),
    row(
        "rdmascope_port_packets_received_total",
        &["port_rcv_packets", "rcvd_pkts", "rx_pkts"],
        "Packets received.",
    ),
    row(
        "rdmascope_port_packets_transmitted_total",
        &["port_xmit_packets", "sent_pkts", "tx_pkts"],
        "Packets sent.",
    ),
    row(
        "rdmascope_port_transmit_wait_total",
        &["port_xmit_wait"],
        "Ticks during which data waited and could not be sent: congestion.",
    ),
    row(
        "rdmascope_port_discards_transmitted_total",
        &["port_xmit_discards"],
        "Packets dropped instead of sent, because the port was down or congested.",
    ),
    row("rdmascope_port_errors_received_total", &["port_rcv_errors"], "Damaged packets received."),
    row(
        "rdmascope_port_receive_remote_physical_errors_total",
        &["port_rcv_remote_physical_errors"],
        "Packets received that another hop had marked as damaged.",
    ),
    row(
        "rdmascope_port_symbol_errors_total",
        &["symbol_error"],
        "Symbol errors: a bad lane, cable or transceiver.",
    ),
    row(
        "rdmascope_port_link_downed_total",
        &["link_downed"],
        "Times that the link went down; some devices stop at 255.",
    ),
    row(
        "rdmascope_port_link_error_recoveries_total",
        &["link_error_recovery"],
        "Times that the link was won back after an error.",
    ),
    row(
        "rdmascope_port_local_link_integrity_errors_total",
        &["local_link_integrity_errors"],
        "Times that local physical errors went over their limit.",
    ),
    row(
        "rdmascope_port_excessive_buffer_overrun_errors_total",
        &["excessive_buffer_overrun_errors"],
        "Times that a buffer overran in spite of flow control.",
    ),
    row(
        "rdmascope_port_packet_sequence_errors_total",
        &["packet_seq_err", "rcvd_seq_err", "seq_err_naks_rcvd"],
        "Sequence NAKs received as the sender: a packet was lost and is sent again.",
    ),
    row(
        "rdmascope_port_implied_nak_seq_errors_total",
        &["implied_nak_seq_err"],
        "Acknowledgements received that skipped a read response.",
    ),
    row(
        "rdmascope_port_local_ack_timeout_errors_total",
        &["local_ack_timeout_err", "to_retransmits"],
        "Acknowledgement timers that ran out as the sender: loss, or a peer that is gone.",
    ),
    row("rdmascope_port_roce_adp_retransmits_total", &["roce_adp_retrans"], "Adaptive retransmissions."),
    row(
        "rdmascope_port_transport_retries_exceeded_total",
        &["req_transport_retries_exceeded", "retry_exceeded_err", "max_retry_exceeded"],
        "Connections that died because nothing was acknowledged after all retries.",
    ),
    row(
        "rdmascope_port_out_of_sequence_packets_received_total",
        &["out_of_sequence", "out_of_seq_request", "oos_drop_count"],
        "Packets received ahead of the expected one: loss before this port, or reordering.",
    ),
    row(
        "rdmascope_port_duplicate_requests_packets_total",
        &["duplicate_request", "dup_req"],
        "Requests received once more: their answer was lost or late.",
    ),
    row(
        "rdmascope_port_rnr_nak_retry_packets_received_total",
        &["rnr_nak_retry_err", "rcvd_rnr_err", "rnr_naks_rcvd"],
        "Receiver-not-ready NAKs received: a slow receiver.",
    ),
    row(
        "rdmascope_port_out_of_buffer_drops_total",
        &["out_of_buffer", "rx_out_of_buffer"],
        "Packets dropped because the application had posted no buffer.",
    ),
    row(
        "rdmascope_port_np_cnp_packets_sent_total",
        &["np_cnp_sent"],
        "Congestion notifications sent: senders were told to slow down.",
    ),
    row(
        "rdmascope_port_np_ecn_marked_roce_packets_received_total",
        &["np_ecn_marked_roce_packets"],
        "RoCE packets received with a congestion mark.",
    ),
    row(
        "rdmascope_port_rp_cnp_packets_handled_total",
        &["rp_cnp_handled"],
        "Congestion notifications received and acted on.",
    ),
    row(
        "rdmascope_port_rp_cnp_ignored_packets_received_total",
        &["rp_cnp_ignored"],
        "Congestion notifications received and not acted on: a setting is wrong.",
    ),
    row(
        "rdmascope_port_rx_icrc_encapsulated_errors_total",
        &["rx_icrc_encapsulated"],
        "RoCE packets with a wrong invariant checksum: corruption on the way.",
    ),
];
