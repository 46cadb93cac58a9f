//! For how much of the time is a RoCE port stopped by pause frames, and who stops whom?

use crate::check::{Check, Look, Settles};
use crate::limits;
use crate::verdict::Verdict;
use crate::watch::{Moved, by_rate, window};
use crate::wires::each_wire;
use rdmascope_model::{Finding, Status};

const ID: &str = "pause-share";

const COUNTERS: [&str; 4] = [
    "rx_prioN_pause_duration",
    "tx_prioN_pause_duration",
    "rx_global_pause_duration",
    "tx_global_pause_duration",
];

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "For how much of the time is the port stopped by pause frames, and by whom?",
    meaning: "While it is paused a port sends nothing of that priority: bandwidth is lost though no packet is.",
    causes: &[
        "received: the switch is congested behind this port, or a slow peer holds it up",
        "sent: this host takes packets too slowly (PCI Express, memory, NUMA, small buffers)",
    ],
    next_steps: &[
        "`ethtool -S NETDEV | grep pause`, twice, ten seconds apart.",
        "Received: look for the node that *sends* pause on the same switch. Sent: see pci-link, pci-stalls and receive-buffers of this host.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[
        &limits::PAUSE_RECEIVED_WARN_SHARE,
        &limits::PAUSE_RECEIVED_FAIL_SHARE,
        &limits::PAUSE_SENT_WARN_SHARE,
        &limits::PAUSE_SENT_FAIL_SHARE,
        &limits::CONGESTION_WINDOW_SECONDS,
    ],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    each_wire(look, ID, "the time in pause", |wire| {
        let seen = wire.seen(look, &COUNTERS, window(look));
        vec![by_rate(ID, wire.subject(), "microseconds in pause", seen, |moved| {
            let sides = [Side::Sent, Side::Received];
            sides.into_iter().filter_map(|side| side.judge(look, moved, wire.name)).max_by_key(|v| v.status)
        })]
    })
}

#[derive(Clone, Copy)]
enum Side {
    Received,
    Sent,
}

impl Side {
    fn judge(self, look: &Look<'_>, moved: &Moved, netdev: &str) -> Option<Verdict> {
        let (prefix, warn, fail) = match self {
            Self::Received => ("rx_", &limits::PAUSE_RECEIVED_WARN_SHARE, &limits::PAUSE_RECEIVED_FAIL_SHARE),
            Self::Sent => ("tx_", &limits::PAUSE_SENT_WARN_SHARE, &limits::PAUSE_SENT_FAIL_SHARE),
        };
        let names = moved.rises.keys().filter(|name| name.starts_with(prefix));
        let (share, name) = names
            .map(|name| (moved.share_of_time(name), name))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(share, _)| *share > look.policy.limit(warn))?;
        let percent = 100.0 * share;
        let class = name.trim_start_matches(prefix).trim_end_matches("_pause_duration");
        let status = if share > look.policy.limit(fail) { Status::Fail } else { Status::Warn };
        let verdict = match self {
            Self::Received => Verdict::warn(
                format!("the switch stopped this port for {percent:.1} % of the time ({class})"),
                "the fabric or a peer: congestion on the way, or a slow receiver behind the switch; not this host",
                "On the switch: which port holds its queue up; on the other nodes: who sends pause (`ethtool -S NETDEV | grep tx_.*pause_duration`).",
            ),
            Self::Sent => Verdict::warn(
                format!("this host stopped the switch for {percent:.1} % of the time ({class})"),
                "this host: it is a slow receiver (PCI Express link, stalls, memory, receive buffers)",
                format!(
                    "`rdmascope explain pci-link` and `pci-stalls`; `ethtool -S {netdev} | grep -e pci -e discard`; drain the node if it stops others."
                ),
            ),
        };
        Some(Verdict { status, ..verdict })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{first, statistics_rose};

    #[test]
    fn received_pause_blames_the_fabric_and_sent_pause_this_host() {
        // 21.7 % of 100 s.
        let stopped = statistics_rose(&CHECK, 100, &[("rx_prio3_pause_duration", 21_700_000)]);
        assert_eq!(stopped.status, Status::Fail);
        assert!(stopped.summary.contains("the switch stopped this port for 21.7 %"), "{}", stopped.summary);
        let slow = statistics_rose(&CHECK, 100, &[("tx_prio3_pause_duration", 2_000_000)]);
        assert_eq!(slow.status, Status::Warn);
        assert!(slow.cause.starts_with("this host"), "{}", slow.cause);
        let little = statistics_rose(&CHECK, 100, &[("rx_prio3_pause_duration", 4_000_000)]);
        assert_eq!(little.status, Status::Ok);
    }

    #[test]
    fn the_worse_side_is_told() {
        let both = [("tx_prio3_pause_duration", 2_000_000), ("rx_prio3_pause_duration", 30_000_000)];
        assert_eq!(statistics_rose(&CHECK, 100, &both).status, Status::Fail);
    }

    #[test]
    fn one_look_is_not_judged() {
        let found = first(&CHECK, |_| ()).remove(0);
        assert_eq!(found.status, Status::Ok);
        assert!(found.summary.contains("not known after one look"), "{}", found.summary);
    }
}
