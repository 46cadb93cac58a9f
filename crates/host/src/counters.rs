//! The counter catalogue: what the drivers' different names mean, so that a retransmission is one thing on every adapter.
//!
//! A loss shows at both ends of a connection. Only the end that had to send again (the requester) is summed as `retransmits`, each
//! event once; what the responder saw of the same loss has rows of its own and is never added to it.

use crate::Host;
use crate::parse;
use crate::rdma::CLASS;
use rdmascope_model::Reading;
use std::collections::BTreeMap;

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
}

/// One file of `hw_counters/`.
#[derive(Clone, Copy, Debug)]
pub struct CounterRow {
    /// File name.
    pub name: &'static str,
    /// Meaning.
    pub meaning: Meaning,
    /// Drivers that use the name, for readers of this list.
    pub drivers: &'static str,
}

const fn row(name: &'static str, meaning: Meaning, drivers: &'static str) -> CounterRow {
    CounterRow { name, meaning, drivers }
}

/// Every counter that means something here.
///
/// rxe (`drivers/infiniband/sw/rxe/rxe_comp.c`, `rxe_resp.c`): `completer_retry_err` counts each start of a retry, whether a timeout,
/// a sequence NAK or a gap in read responses brought it about; so `rcvd_seq_err` (the NAK alone) is left out.
/// mlx5 (NVIDIA's counter description): `packet_seq_err` a NAK came, `implied_nak_seq_err` an acknowledgement skipped a read response,
/// `local_ack_timeout_err` the acknowledgement timer ran out: three different triggers. `roce_adp_retrans` counts what the adaptive
/// timer sent again; a published tree has 3 of it beside no timeout at all, so it is no part of `local_ack_timeout_err`. Whether the
/// two can count one event together is not documented. `rnr_nak_retry_err` is a slow receiver, not a loss.
/// `bnxt_re` (`drivers/infiniband/hw/bnxt_re/hw_counters.c`): names only; their triggers are taken to be those of mlx5.
pub const CATALOGUE: &[CounterRow] = &[
    row("completer_retry_err", Meaning::Resent, "rxe"),
    row("packet_seq_err", Meaning::Resent, "mlx5"),
    row("implied_nak_seq_err", Meaning::Resent, "mlx5"),
    row("local_ack_timeout_err", Meaning::Resent, "mlx5"),
    row("roce_adp_retrans", Meaning::Resent, "mlx5"),
    row("to_retransmits", Meaning::Resent, "bnxt_re"),
    row("seq_err_naks_rcvd", Meaning::Resent, "bnxt_re"),
    row("missing_resp", Meaning::Resent, "bnxt_re"),
    row("out_of_seq_request", Meaning::Gap, "rxe"),
    row("out_of_sequence", Meaning::Gap, "mlx5"),
    row("oos_drop_count", Meaning::Gap, "bnxt_re"),
    row("duplicate_request", Meaning::Duplicate, "rxe, mlx5"),
    row("dup_req", Meaning::Duplicate, "bnxt_re"),
];

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
    sum(Meaning::Resent, counters)
}

fn add_up(values: impl Iterator<Item = Reading<u64>>) -> Reading<u64> {
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

/// How far a counter moved between two readings; `None` when either is missing or it went back, which is a reset or a wrap of one of
/// the 32-bit counters in the sum: then the distance is not known.
#[must_use]
pub fn moved(before: &Reading<u64>, after: &Reading<u64>) -> Option<u64> {
    after.value()?.checked_sub(*before.value()?)
}

impl Host {
    /// [`retransmits`] read now, from its own few files alone, so that it can stand before and after a probe.
    #[must_use]
    pub fn read_retransmits(&self, device: &str, port: u8) -> Reading<u64> {
        let base = format!("{CLASS}/{device}/ports/{port}/hw_counters");
        match self.tree().folder(&base) {
            Reading::Value(folder) => {
                let rows = CATALOGUE.iter().filter(|r| r.meaning == Meaning::Resent);
                add_up(rows.map(|r| folder.parsed(r.name, parse::counter)))
            }
            Reading::Absent => Reading::Absent,
            Reading::Failed(why) => Reading::Failed(why),
        }
    }
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
        assert_eq!(sum(Meaning::Gap, &responder), Reading::Value(1));
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
        assert_eq!(sum(Meaning::Gap, &port), Reading::Value(1));
        assert_eq!(sum(Meaning::Duplicate, &port), Reading::Value(41));
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
    fn a_counter_that_went_back_has_moved_by_an_unknown_distance() {
        assert_eq!(moved(&Reading::Value(3), &Reading::Value(5)), Some(2));
        assert_eq!(moved(&Reading::Value(5), &Reading::Value(3)), None);
        assert_eq!(moved(&Reading::Absent, &Reading::Value(3)), None);
        assert_eq!(moved(&Reading::Value(3), &Reading::Failed("gone".into())), None);
    }

    #[test]
    fn every_name_has_one_meaning() {
        let mut names: Vec<&str> = CATALOGUE.iter().map(|r| r.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CATALOGUE.len());
    }
}
