//! How much of what a RoCE port receives was marked as congested on its way?

use crate::check::{Check, Look, Settles};
use crate::finding::port_subject;
use crate::limits;
use crate::verdict::Verdict;
use crate::watch::{Direction, Seen, by_rate, packets, seen_at_port, window};
use crate::wires::roce_ports;
use rdmascope_model::Finding;

const ID: &str = "congestion";

const MARKED: &str = "np_ecn_marked_roce_packets";
const GAPS: &str = "out_of_sequence";
const NEXT: &str = "Find the senders: compare rp_cnp_handled on the other nodes; look at the queues, ECN marks and buffer discards of the switch port.";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is the path towards this receiver congested?",
    meaning: "Marked packets make their senders slow down: many of them mean that the job waits for this receiver's link.",
    causes: &[
        "incast: many senders to one receiver, by the job's pattern or by its placement",
        "a slow link or a missing uplink on the way, or uneven load over the uplinks",
    ],
    next_steps: &[
        "Compare np_cnp_sent of this node with rp_cnp_handled of the others: that names the senders.",
        "On the switch: queue depth, ECN marks and discards of the port of this node and of the uplinks.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[
        &limits::ECN_MARKED_WARN_SHARE,
        &limits::CONGESTION_WINDOW_SECONDS,
        &limits::ECN_MARKED_WARN_TOTAL,
    ],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    roce_ports(look)
        .map(|(device, port)| {
            let subject = port_subject(device, port);
            let seen = seen_at_port(look, (device, port), &[MARKED, "np_cnp_sent", GAPS], window(look));
            if let Seen::Once(totals) = &seen
                && let Some(verdict) = huge(look, totals)
            {
                let evidence = totals.iter().map(|(name, v)| format!("{name} = {v}")).collect();
                return verdict.finding(ID, subject, evidence);
            }
            by_rate(ID, subject, "congestion marks", seen, |moved| {
                let (of, received) = packets(look, (device, port), Direction::Received, window(look))?;
                let marked = moved.of(MARKED);
                let share = marked as f64 / received.max(1) as f64;
                (marked > 0 && share > look.policy.limit(&limits::ECN_MARKED_WARN_SHARE)).then(|| {
                    let lost = if moved.of(GAPS) > 0 { ", and packets were lost or overtaken" } else { "" };
                    Verdict::warn(
                        format!(
                            "{:.1} % of the received packets carried a congestion mark ({marked} of {received} {of}){lost}",
                            100.0 * share
                        ),
                        "the fabric: congestion on the way to this receiver, mostly incast",
                        NEXT,
                    )
                })
            })
        })
        .collect()
}

/// Totals that can only come from persistent congestion, at some time.
fn huge(look: &Look<'_>, totals: &std::collections::BTreeMap<String, u64>) -> Option<Verdict> {
    let of = |name: &str| totals.get(name).copied().unwrap_or(0);
    let (marked, gaps) = (of(MARKED), of(GAPS));
    (marked as f64 >= look.policy.limit(&limits::ECN_MARKED_WARN_TOTAL) && gaps > 0).then(|| {
        Verdict::warn(
            format!("since the counters began {marked} packets with a congestion mark came in and {gaps} out of sequence: these are totals, whether it goes on is not known after one look"),
            "the fabric: at some time the way to this receiver was congested for long, and packets were lost despite ECN",
            format!("Look a second time, some seconds later, for the rate. {NEXT}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{again, counters, first, statistics};
    use rdmascope_model::{Snapshot, Status};

    fn storage_node(m: &mut Snapshot) {
        counters(m, &[(MARKED, 21_278_189_006), ("np_cnp_sent", 1_052_612_505), (GAPS, 1_811_101)]);
    }

    #[test]
    fn c032_totals_are_called_totals_and_then_judged_by_rate() {
        let found = first(&CHECK, storage_node).remove(0);
        assert_eq!(found.status, Status::Warn);
        assert!(found.summary.contains("totals"), "{}", found.summary);
        assert_eq!(again(&CHECK, 300, storage_node, storage_node)[0].status, Status::Ok);
    }

    #[test]
    fn the_share_of_marked_packets() {
        let share = |marked| {
            let seen = |m: &mut Snapshot, marked, received| {
                counters(m, &[(MARKED, marked)]);
                statistics(m, &[("rx_vport_rdma_unicast_packets", received)]);
            };
            again(&CHECK, 300, |m| seen(m, 0, 0), |m| seen(m, marked, 1_000_000)).remove(0)
        };
        assert_eq!(share(9_000).status, Status::Ok);
        let found = share(50_000);
        assert_eq!(found.status, Status::Warn);
        assert!(found.summary.starts_with("5.0 %"), "{}", found.summary);
    }
}
