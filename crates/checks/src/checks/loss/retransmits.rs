//! How many of its packets does a port have to send again?

use super::{each_port, of_meaning};
use crate::check::{Check, Look, Settles};
use crate::counters::Meaning;
use crate::limits;
use crate::past::Source;
use crate::verdict::Verdict;
use crate::watch::{Direction, Moved, packets, window};
use crate::wires::traffic_ports;
use rdmascope_model::{Device, Finding, Port, Status};

const ID: &str = "retransmits";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "How many of its packets does this port have to send again?",
    meaning: "RDMA sends everything again from the lost packet on (go-back-N): a few losses in a million already cost bandwidth, and each timeout stalls the job.",
    causes: &[
        "packets dropped in the fabric: congestion without a working lossless class, or a bad cable on the way",
        "the peer is down, slow or restarting: its acknowledgements do not come",
        "packets that overtake each other (adaptive routing) and adapters that do not expect it",
    ],
    next_steps: &[
        "See which counter rises: `rdma statistic show link DEVICE/PORT`; timeouts point to the peer or the path, sequence errors to drops.",
        "Compare nodes: rises on several nodes below one switch blame the fabric; on one node its cable (symbol-errors, bit-errors).",
        "Check pfc-priority, dscp-map and lossless-discards of both ends.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[
        &limits::RETRANSMIT_MINIMUM_PACKETS,
        &limits::RETRANSMITS_WARN_RATIO,
        &limits::RETRANSMITS_FAIL_RATIO,
        &limits::RETRANSMITS_BASELINE_FACTOR,
        &limits::CONGESTION_WINDOW_SECONDS,
    ],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let watched = (&of_meaning(Meaning::Resent)[..], window(look));
    each_port(traffic_ports(look), look, (ID, "packets sent again"), watched, |moved, port| {
        ratio(look, moved, port)
    })
}

fn ratio(look: &Look<'_>, moved: &Moved, (device, port): (&Device, &Port)) -> Option<Verdict> {
    let policy = look.policy;
    let (counter, sent) = packets(look, (device, port), Direction::Sent, window(look))?;
    if (sent as f64) < policy.limit(&limits::RETRANSMIT_MINIMUM_PACKETS) {
        return None;
    }
    let ratio = moved.total() as f64 / sent as f64;
    if ratio <= policy.limit(&limits::RETRANSMITS_WARN_RATIO) {
        return None;
    }
    // As it is on this port every day: known, and not what a job suffers from today. Beyond the limit that fails it stays a warning.
    let usual = usual(look, moved, (device, port));
    let as_usual = usual.is_some_and(|usual| {
        let now = moved.total() as f64 / moved.over.as_secs_f64().max(1.0);
        now < usual * policy.limit(&limits::RETRANSMITS_BASELINE_FACTOR)
    });
    let fails = ratio > policy.limit(&limits::RETRANSMITS_FAIL_RATIO);
    if as_usual && !fails {
        return None;
    }
    let most = moved.rises.iter().max_by_key(|(_, v)| **v).map_or("", |(name, _)| name.as_str());
    let cause = match most {
        "local_ack_timeout_err" | "to_retransmits" | "roce_adp_retrans" => {
            "the path or the peer: acknowledgements did not come in time (loss, a peer that is down, or a long pause)"
        }
        _ => {
            "the fabric: packets were dropped or overtaken on the way (congestion, a lossy class, a bad cable)"
        }
    };
    let status = if fails && !as_usual { Status::Fail } else { Status::Warn };
    let verdict = Verdict::warn(
        format!(
            "sent again {} times for {sent} packets sent ({ratio:.1e} of them; {counter})",
            moved.total()
        ),
        cause,
        format!(
            "`rdma statistic show link {}/{}` here and at the peers; `rdmascope explain lossless-discards`, dscp-map, symbol-errors; discards of the switch ports on the way.",
            device.name, port.number
        ),
    );
    Some(Verdict { status, ..verdict })
}

/// Median of a day of what this port sends again per second; `None` until it is known, or where it is nothing.
fn usual(look: &Look<'_>, moved: &Moved, (device, port): (&Device, &Port)) -> Option<f64> {
    let source = Source::Port(device.name.clone(), port.number);
    let medians = moved.rises.keys().map(|name| look.past.median_rise(&source, name));
    medians.sum::<Option<f64>>().filter(|usual| *usual > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{again, counters, first, statistics};
    use rdmascope_model::{Reading, Snapshot};

    fn seen(resent: u64, sent: u64) -> Finding {
        let set = |m: &mut Snapshot, resent, sent| {
            counters(m, &[("packet_seq_err", resent), ("local_ack_timeout_err", 0)]);
            statistics(m, &[("tx_vport_rdma_unicast_packets", sent)]);
        };
        again(&CHECK, 300, |m| set(m, 0, 0), |m| set(m, resent, sent)).remove(0)
    }

    #[test]
    fn judged_by_the_share_of_what_was_sent() {
        assert_eq!(seen(9, 10_000_000).status, Status::Ok);
        assert_eq!(seen(50, 10_000_000).status, Status::Warn);
        let found = seen(5_000, 10_000_000);
        assert_eq!(found.status, Status::Fail);
        assert!(found.summary.contains("5.0e-4"), "{}", found.summary);
        // Too few packets for a ratio.
        assert_eq!(seen(50, 100_000).status, Status::Ok);
    }

    #[test]
    fn a_counter_that_cannot_be_read_is_unknown() {
        let folder = ("hw_counters/".to_owned(), Reading::failed("EACCES"));
        let found = first(&CHECK, |m| {
            crate::testing::device(m).ports[0].counters.extend([folder.clone()]);
        });
        assert_eq!(found[0].status, Status::Unknown);
    }

    #[test]
    fn c119_a_driver_with_other_names() {
        let set = |m: &mut Snapshot, resent| {
            crate::testing::device(m).ports[0].counters.clear();
            counters(m, &[("seq_err_naks_rcvd", resent), ("port_xmit_packets", resent * 1_000)]);
            crate::testing::eth0(m).statistics = Reading::Absent;
        };
        let found = again(&CHECK, 300, |m| set(m, 0), |m| set(m, 2_000)).remove(0);
        assert_eq!(found.status, Status::Fail);
        assert!(found.summary.contains("port_xmit_packets"), "{}", found.summary);
    }

    /// Five hours of one loss in ten thousand packets and a half, then so many times that for five minutes.
    fn after_hours_of_loss(factor: u64) -> Status {
        let set = |m: &mut Snapshot, resent, sent| {
            counters(m, &[("packet_seq_err", resent), ("local_ack_timeout_err", 0)]);
            statistics(m, &[("tx_vport_rdma_unicast_packets", sent)]);
        };
        let mut machine = rdmascope_fixtures::snapshot::roce(1);
        let mut past = crate::Past::new();
        let (mut resent, mut sent) = (0, 0);
        for minute in 0..=305_u64 {
            set(&mut machine, resent, sent);
            past.observe(&machine, rdmascope_model::Mono(minute * 60_000_000_000));
            sent += 2_000_000;
            resent += if minute < 300 { 300 } else { 300 * factor };
        }
        let policy = crate::Policy::default();
        let look = Look { past: &past, ..Look::first(&machine, &policy) };
        judge(&look).remove(0).status
    }

    #[test]
    fn what_is_usual_on_a_port_steps_down_and_ten_times_that_does_not() {
        assert_eq!(after_hours_of_loss(1), Status::Warn, "beyond the limit that fails, but as every day");
        assert_eq!(after_hours_of_loss(30), Status::Fail);
    }
}
