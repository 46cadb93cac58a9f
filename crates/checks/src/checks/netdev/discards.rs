//! Does the port discard packets for want of buffer space?

use crate::check::{Check, Look, Settles};
use crate::limits;
use crate::verdict::Verdict;
use crate::watch::{SECOND, by_rate, per, window};
use crate::wires::each_wire;
use rdmascope_model::Finding;

const ID: &str = "discards";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Does the port discard packets for want of buffer space?",
    meaning: "Received packets that the host cannot take in time are lost; on a lossless fabric none should be.",
    causes: &[
        "received: PCI Express or memory is too slow, or pause does not stop the switch",
        "sent: the link went down under load, or traffic shaping",
    ],
    next_steps: &[
        "pci-link, pci-stalls and receive-buffers of this host; lossless-discards tells whether the lossless class is hit.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[
        &limits::CONGESTION_WINDOW_SECONDS,
        &limits::DISCARDS_WARN_PER_SECOND,
        &limits::DISCARDS_FAIL_TOTAL,
    ],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let policy = look.policy;
    each_wire(look, ID, "discards", |wire| {
        let seen = wire.seen(look, &["rx_discards_phy", "tx_discards_phy"], window(look));
        vec![by_rate(ID, wire.subject(), "discarded packets", seen, |moved| {
            let (received, sent) = (moved.of("rx_discards_phy"), moved.of("tx_discards_phy"));
            let rate = |count| per(count, moved.over, SECOND);
            let warns = policy.limit(&limits::DISCARDS_WARN_PER_SECOND);
            let next = format!(
                "`ethtool -S {} | grep -e discard -e pci -e buffer`; `rdmascope explain pci-link`, pause-share and receive-buffers.",
                wire.name
            );
            let summary = format!("{received} received packets were discarded for want of buffer space");
            let host = "this host: it takes packets too slowly (PCI Express, memory), and pause does not stop the switch";
            if received as f64 > policy.limit(&limits::DISCARDS_FAIL_TOTAL) {
                return Some(Verdict::fail(summary, host, next));
            }
            if rate(received) > warns {
                return Some(Verdict::warn(summary, host, next));
            }
            (rate(sent) > warns).then(|| {
                let summary = format!("{sent} packets were discarded instead of sent");
                Verdict::warn(
                    summary,
                    "this host's link: it went down under load, or its queues are shaped",
                    next,
                )
            })
        })]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::statistics_rose;
    use rdmascope_model::Status;

    #[test]
    fn received_and_sent() {
        let seen = |name, seconds, count| statistics_rose(&CHECK, seconds, &[(name, count)]).status;
        assert_eq!(seen("rx_discards_phy", 60, 20), Status::Ok);
        assert_eq!(seen("rx_discards_phy", 60, 90), Status::Warn);
        assert_eq!(seen("rx_discards_phy", 60, 101), Status::Fail);
        assert_eq!(seen("tx_discards_phy", 60, 600), Status::Warn);
    }
}
