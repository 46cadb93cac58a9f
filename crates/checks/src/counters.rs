//! The counter catalogue: what the drivers' different names mean, and how each counter behaves at its end.
//!
//! A loss shows at both ends of a connection. Only the end that had to send again (the requester) is summed as `retransmits`, each
//! event once; what the responder saw of the same loss has rows of its own and is never added to it.

use rdmascope_model::Reading;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Where a counter is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// `/sys/class/infiniband/DEVICE/ports/PORT/counters`.
    Port,
    /// `/sys/class/infiniband/DEVICE/ports/PORT/hw_counters`.
    Hardware,
    /// `ethtool -S NETDEV`.
    Netdev,
}

/// What a counter does at the end of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Stops at this value until somebody resets it (InfiniBand PMA counters of 4, 8, 16 and 32 bits).
    StopsAt(u64),
    /// Goes back to 0 after 2^32 - 1 (mlx5 queue counters: 32 bits in hardware, shown as 64).
    Wraps32,
    /// 64 bits: never comes to its end; a smaller value than before is a reset.
    Whole,
}

/// What a counter tells about lost packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Requester: it began to send again.
    Resent,
    /// Responder: a request came that is ahead of the expected one; something before it was lost or overtaken. Rises in health
    /// where adaptive routing sprays packets.
    Gap,
    /// Responder: a request came once more; its answer was lost, or came too late.
    Duplicate,
    /// Anything else; checks ask for it by name.
    Other,
}

/// One counter.
#[derive(Clone, Copy, Debug)]
pub struct CounterRow {
    /// Name of the file or statistic; `N` in `prioN` stands for a priority, in `lane_N` for a lane.
    pub name: &'static str,
    /// Where it is.
    pub place: Place,
    /// How it ends.
    pub width: Width,
    /// Meaning.
    pub meaning: Meaning,
    /// Drivers that use the name, for readers of this list.
    pub drivers: &'static str,
}

const fn port(name: &'static str, width: Width) -> CounterRow {
    CounterRow { name, place: Place::Port, width, meaning: Other, drivers: "InfiniBand PMA" }
}

const fn hardware(name: &'static str, width: Width, meaning: Meaning, drivers: &'static str) -> CounterRow {
    CounterRow { name, place: Place::Hardware, width, meaning, drivers }
}

const fn netdev(name: &'static str) -> CounterRow {
    CounterRow { name, place: Place::Netdev, width: Whole, meaning: Other, drivers: "mlx5" }
}

use Meaning::{Duplicate, Gap, Other, Resent};
use Width::{StopsAt, Whole, Wraps32};

/// Every counter that means something here.
///
/// Port counters: widths of the InfiniBand Architecture Specification, volume 1, 16.1.3.5 (PortCounters).
/// rxe (`drivers/infiniband/sw/rxe/rxe_comp.c`, `rxe_resp.c`): `completer_retry_err` counts each start of a retry, whether a timeout,
/// a sequence NAK or a gap in read responses brought it about; so `rcvd_seq_err` (the NAK alone) is no part of the sum.
/// mlx5 (NVIDIA's counter description): `packet_seq_err` a NAK came, `implied_nak_seq_err` an acknowledgement skipped a read response,
/// `local_ack_timeout_err` the acknowledgement timer ran out: three different triggers. `roce_adp_retrans` counts what the adaptive
/// timer sent again; a published tree has 3 of it beside no timeout at all, so it is no part of `local_ack_timeout_err`. Whether the
/// two can count one event together is not documented. `rnr_nak_retry_err` is a slow receiver, not a loss.
/// `bnxt_re` (`drivers/infiniband/hw/bnxt_re/hw_counters.c`): names only; their triggers are taken to be those of mlx5.
pub const CATALOGUE: &[CounterRow] = &[
    port("port_xmit_data", Whole),
    port("port_rcv_data", Whole),
    port("port_xmit_packets", Whole),
    port("port_rcv_packets", Whole),
    port("port_xmit_wait", StopsAt(0xffff_ffff)),
    port("symbol_error", StopsAt(0xffff)),
    port("link_error_recovery", StopsAt(0xff)),
    port("link_downed", StopsAt(0xff)),
    port("port_rcv_errors", StopsAt(0xffff)),
    port("port_rcv_remote_physical_errors", StopsAt(0xffff)),
    port("port_rcv_switch_relay_errors", StopsAt(0xffff)),
    port("port_xmit_discards", StopsAt(0xffff)),
    port("port_xmit_constraint_errors", StopsAt(0xff)),
    port("port_rcv_constraint_errors", StopsAt(0xff)),
    port("local_link_integrity_errors", StopsAt(0xf)),
    port("excessive_buffer_overrun_errors", StopsAt(0xf)),
    port("VL15_dropped", StopsAt(0xffff)),
    hardware("completer_retry_err", Whole, Resent, "rxe"),
    hardware("packet_seq_err", Wraps32, Resent, "mlx5"),
    hardware("implied_nak_seq_err", Wraps32, Resent, "mlx5"),
    hardware("local_ack_timeout_err", Wraps32, Resent, "mlx5"),
    hardware("roce_adp_retrans", Wraps32, Resent, "mlx5"),
    hardware("to_retransmits", Whole, Resent, "bnxt_re"),
    hardware("seq_err_naks_rcvd", Whole, Resent, "bnxt_re"),
    hardware("missing_resp", Whole, Resent, "bnxt_re"),
    hardware("out_of_seq_request", Whole, Gap, "rxe"),
    hardware("out_of_sequence", Wraps32, Gap, "mlx5"),
    hardware("oos_drop_count", Whole, Gap, "bnxt_re"),
    hardware("duplicate_request", Wraps32, Duplicate, "rxe, mlx5"),
    hardware("dup_req", Whole, Duplicate, "bnxt_re"),
    hardware("sent_pkts", Whole, Other, "rxe"),
    hardware("rcvd_pkts", Whole, Other, "rxe"),
    hardware("retry_exceeded_err", Whole, Other, "rxe"),
    hardware("retry_rnr_exceeded_err", Whole, Other, "rxe"),
    hardware("rcvd_rnr_err", Whole, Other, "rxe"),
    hardware("req_transport_retries_exceeded", Wraps32, Other, "mlx5, kernel 6.11 and later"),
    hardware("req_rnr_retries_exceeded", Wraps32, Other, "mlx5, kernel 6.11 and later"),
    hardware("max_retry_exceeded", Whole, Other, "bnxt_re"),
    hardware("rnr_nak_retry_err", Wraps32, Other, "mlx5"),
    hardware("out_of_buffer", Wraps32, Other, "mlx5"),
    hardware("req_cqe_error", Wraps32, Other, "mlx5"),
    hardware("resp_cqe_error", Wraps32, Other, "mlx5"),
    hardware("req_cqe_flush_error", Wraps32, Other, "mlx5"),
    hardware("resp_cqe_flush_error", Wraps32, Other, "mlx5"),
    hardware("resp_local_length_error", Wraps32, Other, "mlx5"),
    hardware("resp_remote_access_errors", Wraps32, Other, "mlx5"),
    hardware("req_remote_access_errors", Wraps32, Other, "mlx5"),
    hardware("req_remote_invalid_request", Wraps32, Other, "mlx5"),
    hardware("roce_adp_retrans_to", Wraps32, Other, "mlx5"),
    hardware("roce_slow_restart", Wraps32, Other, "mlx5"),
    hardware("roce_slow_restart_cnps", Wraps32, Other, "mlx5"),
    hardware("roce_slow_restart_trans", Wraps32, Other, "mlx5"),
    hardware("rx_write_requests", Wraps32, Other, "mlx5"),
    hardware("rx_read_requests", Wraps32, Other, "mlx5"),
    hardware("rx_atomic_requests", Wraps32, Other, "mlx5"),
    hardware("np_ecn_marked_roce_packets", Whole, Other, "mlx5"),
    hardware("np_cnp_sent", Whole, Other, "mlx5"),
    hardware("rp_cnp_handled", Whole, Other, "mlx5"),
    hardware("rp_cnp_ignored", Whole, Other, "mlx5"),
    hardware("rx_icrc_encapsulated", Whole, Other, "mlx5"),
    hardware("rdma_rx_packets", Whole, Other, "mlx5, kernel 6.15 and later, optional"),
    hardware("rdma_tx_packets", Whole, Other, "mlx5, kernel 6.15 and later, optional"),
    netdev("rx_prioN_pause"),
    netdev("rx_prioN_pause_duration"),
    netdev("rx_prioN_pause_transition"),
    netdev("tx_prioN_pause"),
    netdev("tx_prioN_pause_duration"),
    netdev("rx_prioN_discards"),
    netdev("rx_prioN_buf_discard"),
    netdev("rx_prioN_cong_discard"),
    netdev("rx_prioN_marked"),
    netdev("rx_prioN_packets"),
    netdev("tx_prioN_packets"),
    netdev("rx_global_pause"),
    netdev("rx_global_pause_duration"),
    netdev("rx_global_pause_transition"),
    netdev("tx_global_pause"),
    netdev("tx_global_pause_duration"),
    netdev("rx_pause_ctrl_phy"),
    netdev("tx_pause_ctrl_phy"),
    netdev("tx_pause_storm_warning_events"),
    netdev("tx_pause_storm_error_events"),
    netdev("rx_discards_phy"),
    netdev("tx_discards_phy"),
    netdev("rx_buffer_passed_thres_phy"),
    netdev("rx_out_of_buffer"),
    netdev("rx_crc_errors_phy"),
    netdev("rx_symbol_err_phy"),
    netdev("rx_pcs_symbol_err_phy"),
    netdev("rx_corrected_bits_phy"),
    netdev("rx_err_lane_N_phy"),
    netdev("rx_bits_phy"),
    netdev("rx_bytes_phy"),
    netdev("rx_packets_phy"),
    netdev("tx_packets_phy"),
    netdev("link_down_events_phy"),
    netdev("rx_oversize_pkts_phy"),
    netdev("rx_out_of_range_len_phy"),
    netdev("module_unplug"),
    netdev("module_bus_stuck"),
    netdev("module_high_temp"),
    netdev("module_bad_shorted"),
    netdev("rx_pci_signal_integrity"),
    netdev("tx_pci_signal_integrity"),
    netdev("outbound_pci_stalled_rd"),
    netdev("outbound_pci_stalled_wr"),
    netdev("outbound_pci_stalled_rd_events"),
    netdev("outbound_pci_stalled_wr_events"),
    netdev("outbound_pci_buffer_overflow"),
    netdev("tx_vport_rdma_unicast_packets"),
    netdev("rx_vport_rdma_unicast_packets"),
    netdev("tx_vport_rdma_unicast_bytes"),
    netdev("rx_vport_rdma_unicast_bytes"),
];

/// The row of a counter. `rx_prio3_pause` is found as `rx_prioN_pause`.
#[must_use]
pub fn find(place: Place, name: &str) -> Option<&'static CounterRow> {
    // A card has hundreds of statistics, and each is looked up whenever they are read.
    static BY_NAME: LazyLock<BTreeMap<(Place, &str), &CounterRow>> =
        LazyLock::new(|| CATALOGUE.iter().map(|row| ((row.place, row.name), row)).collect());
    if name.contains('N') {
        return None;
    }
    let find = |name: &str| BY_NAME.get(&(place, name)).copied();
    let digits = name.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_digit());
    let mut numbered = digits.map(|(at, _)| format!("{}N{}", &name[..at], &name[at + 1..]));
    find(name).or_else(|| numbered.find_map(|pattern| find(&pattern)))
}

/// The sum of all counters of one meaning. `Absent` when the driver has none of them; failed when one of them, or the folder, could
/// not be read: a part of a sum is not the sum.
#[must_use]
pub fn sum(meaning: Meaning, counters: &BTreeMap<String, Reading<u64>>) -> Reading<u64> {
    if let Some(Reading::Failed(why)) = counters.get("hw_counters/") {
        return Reading::Failed(why.clone());
    }
    add_up(CATALOGUE.iter().filter(|r| r.meaning == meaning).filter_map(|r| counters.get(r.name)).cloned())
}

/// How often this port, as the sender, had to send again since the driver was loaded.
#[must_use]
pub fn retransmits(counters: &BTreeMap<String, Reading<u64>>) -> Reading<u64> {
    sum(Resent, counters)
}

/// The sum of readings; failed when one of them is, for a part of a sum is not the sum. `Absent` when there are none.
pub fn add_up(values: impl Iterator<Item = Reading<u64>>) -> Reading<u64> {
    let mut total = None;
    for value in values {
        match value {
            Reading::Value(v) => total = Some(total.unwrap_or(0_u64).wrapping_add(v)),
            Reading::Absent => {}
            Reading::Failed(why) => return Reading::Failed(why),
        }
    }
    total.map_or(Reading::Absent, Reading::Value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(values: &[(&str, u64)]) -> BTreeMap<String, Reading<u64>> {
        values.iter().map(|(name, v)| ((*name).to_owned(), Reading::Value(*v))).collect()
    }

    #[test]
    fn one_loss_is_counted_once_at_each_end() {
        // rxe after one lost request: the responder NAKs it, the requester gets the NAK and starts one retry.
        let requester =
            counters(&[("completer_retry_err", 1), ("rcvd_seq_err", 1), ("duplicate_request", 0)]);
        let responder =
            counters(&[("completer_retry_err", 0), ("out_of_seq_request", 1), ("duplicate_request", 0)]);
        assert_eq!(retransmits(&requester), Reading::Value(1));
        assert_eq!(retransmits(&responder), Reading::Value(0));
        assert_eq!(sum(Gap, &responder), Reading::Value(1));
    }

    #[test]
    fn a_published_mlx5_tree() {
        let port = counters(&[
            ("local_ack_timeout_err", 131),
            ("packet_seq_err", 1),
            ("implied_nak_seq_err", 0),
            ("roce_adp_retrans", 99),
            ("out_of_sequence", 1),
            ("duplicate_request", 41),
            ("rnr_nak_retry_err", 7),
        ]);
        assert_eq!(retransmits(&port), Reading::Value(231));
        assert_eq!(sum(Gap, &port), Reading::Value(1));
        assert_eq!(sum(Duplicate, &port), Reading::Value(41));
    }

    #[test]
    fn a_part_of_a_sum_is_not_the_sum() {
        let mut port = counters(&[("packet_seq_err", 1), ("local_ack_timeout_err", 2)]);
        assert_eq!(retransmits(&BTreeMap::new()), Reading::Absent);
        port.insert("local_ack_timeout_err".into(), Reading::Failed("EINVAL".into()));
        assert_eq!(retransmits(&port), Reading::Failed("EINVAL".into()));
        let folder = BTreeMap::from([("hw_counters/".to_owned(), Reading::Failed("denied".to_owned()))]);
        assert_eq!(retransmits(&folder), Reading::Failed("denied".into()));
    }

    #[test]
    fn every_name_has_one_meaning() {
        let mut names: Vec<_> = CATALOGUE.iter().map(|r| (r.name, r.place as u8)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CATALOGUE.len());
    }

    #[test]
    fn priorities_and_lanes_share_a_row() {
        assert_eq!(find(Place::Netdev, "rx_prio3_pause").unwrap().name, "rx_prioN_pause");
        assert_eq!(find(Place::Netdev, "rx_err_lane_2_phy").unwrap().name, "rx_err_lane_N_phy");
        assert!(
            find(Place::Netdev, "rx_prio33_pause").is_none() && find(Place::Port, "rx_prio3_pause").is_none()
        );
        assert!(find(Place::Netdev, "rx_prioN_pause").is_none(), "a number, and not its placeholder");
        assert_eq!(find(Place::Port, "VL15_dropped").unwrap().width, StopsAt(0xffff));
    }
}
