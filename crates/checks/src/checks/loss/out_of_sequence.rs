//! Do packets arrive out of sequence, and was anything lost?

use super::{each_port, of_meaning};
use crate::check::{Check, Look, Settles};
use crate::counters::Meaning;
use crate::limits;
use crate::verdict::Verdict;
use crate::watch::{Direction, Moved, packets, window};
use crate::wires::traffic_ports;
use rdmascope_model::{Device, Finding, Port};

const ID: &str = "out-of-sequence";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Do packets arrive out of sequence, and are they sent again?",
    meaning: "A gap means that a packet was lost or overtaken. With adaptive routing gaps are normal; together with packets sent again they are losses.",
    causes: &[
        "drops in the fabric on the way to this receiver",
        "adaptive routing or packet spraying (then nothing is sent again)",
    ],
    next_steps: &[
        "Look at the senders: retransmits there say whether it was loss. Then discards of the switch port of this node.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[
        &limits::RETRANSMIT_MINIMUM_PACKETS,
        &limits::OUT_OF_SEQUENCE_WARN_RATIO,
        &limits::CONGESTION_WINDOW_SECONDS,
    ],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let names: Vec<&str> =
        [Meaning::Gap, Meaning::Duplicate, Meaning::Resent].into_iter().flat_map(of_meaning).collect();
    let watched = (&names[..], window(look));
    each_port(traffic_ports(look), look, (ID, "gaps and repeats"), watched, |moved, port| {
        gaps(look, moved, port)
    })
}

fn gaps(look: &Look<'_>, moved: &Moved, port: (&Device, &Port)) -> Option<Verdict> {
    let sum = |meaning| of_meaning(meaning).into_iter().map(|name| moved.of(name)).sum::<u64>();
    let (gaps, again) = (sum(Meaning::Gap), sum(Meaning::Duplicate) + sum(Meaning::Resent));
    let (_, received) = packets(look, port, Direction::Received, window(look))?;
    let enough = received as f64 >= look.policy.limit(&limits::RETRANSMIT_MINIMUM_PACKETS);
    let ratio = gaps as f64 / received.max(1) as f64;
    // Gaps alone are what adaptive routing looks like in health.
    (enough && again > 0 && ratio > look.policy.limit(&limits::OUT_OF_SEQUENCE_WARN_RATIO)).then(|| {
        Verdict::warn(
            format!("{gaps} gaps in {received} received packets ({ratio:.1e}), and packets were sent again"),
            "the fabric: packets to this receiver were lost on the way (congestion, a lossy class, a bad link)",
            "`rdmascope check` at the senders (retransmits); discards and errors of the switch port of this node; pfc-priority and dscp-map of both ends.",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{again, counters, statistics};
    use rdmascope_model::{Snapshot, Status};

    fn seen(gaps: u64, duplicates: u64) -> Status {
        let set = |m: &mut Snapshot, gaps, duplicates, received| {
            counters(m, &[("out_of_sequence", gaps), ("duplicate_request", duplicates)]);
            statistics(m, &[("rx_vport_rdma_unicast_packets", received)]);
        };
        again(&CHECK, 300, |m| set(m, 0, 0, 0), |m| set(m, gaps, duplicates, 100_000_000))[0].status
    }

    #[test]
    fn gaps_alone_are_context() {
        assert_eq!(seen(500_000, 0), Status::Ok);
        assert_eq!(seen(500_000, 20), Status::Warn);
        assert_eq!(seen(100, 20), Status::Ok);
    }
}
