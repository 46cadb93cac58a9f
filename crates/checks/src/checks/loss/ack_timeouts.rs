//! Do acknowledgements come too late?

use super::each_port;
use crate::check::{Check, Look, Settles};
use crate::limits;
use crate::verdict::Verdict;
use crate::watch::{MINUTE, Moved, SECOND, per, window};
use crate::wires::traffic_ports;
use rdmascope_model::Finding;

const ID: &str = "ack-timeouts";

const TIMEOUTS: [&str; 3] = ["local_ack_timeout_err", "roce_adp_retrans_to", "to_retransmits"];

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Do acknowledgement timers run out?",
    meaning: "Each timeout stalls a queue pair for its whole timeout, from milliseconds to seconds, and the job waits with it.",
    causes: &[
        "the last packets of messages or their acknowledgements are lost: nothing comes after them that would show the gap",
        "the peer is dead, restarting, or paused for long",
    ],
    next_steps: &[
        "Which peers? Look for the same rise, or for duplicate_request, on other nodes; then discards on the path and pause-share.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[
        &limits::ACK_TIMEOUTS_WARN_PER_MINUTE,
        &limits::ADAPTIVE_RETRANSMITS_WARN_PER_SECOND,
        &limits::CONGESTION_WINDOW_SECONDS,
    ],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let names: Vec<&str> = TIMEOUTS.into_iter().chain(["roce_adp_retrans"]).collect();
    let watched = (&names[..], window(look));
    each_port(traffic_ports(look), look, (ID, "acknowledgement timeouts"), watched, |moved, _| {
        late(look, moved)
    })
}

fn late(look: &Look<'_>, moved: &Moved) -> Option<Verdict> {
    let timeouts: u64 = TIMEOUTS.iter().map(|name| moved.of(name)).sum();
    let rate = per(timeouts, moved.over, MINUTE);
    let adaptive = per(moved.of("roce_adp_retrans"), moved.over, SECOND);
    let next = "`rdmascope check` at the peers: is a port down, a process dead? Then discards of the switch ports, and pause-share at both ends.";
    if rate > look.policy.limit(&limits::ACK_TIMEOUTS_WARN_PER_MINUTE) {
        return Some(Verdict::warn(
            format!("acknowledgements did not come in time, {timeouts} times ({rate:.1} a minute)"),
            "the path or the peer: packets or acknowledgements are lost, or a peer does not answer",
            next,
        ));
    }
    (adaptive > look.policy.limit(&limits::ADAPTIVE_RETRANSMITS_WARN_PER_SECOND)).then(|| {
        Verdict::warn(
            format!("adaptive retransmission sends again {adaptive:.0} times a second"),
            "the path: packets are lost, and the adapter's short timer finds it",
            next,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::counters_rose;
    use rdmascope_model::Status;

    #[test]
    fn more_than_one_a_minute() {
        assert_eq!(counters_rose(&CHECK, 300, &[("local_ack_timeout_err", 5)]).status, Status::Ok);
        assert_eq!(counters_rose(&CHECK, 300, &[("local_ack_timeout_err", 6)]).status, Status::Warn);
        assert_eq!(counters_rose(&CHECK, 10, &[("local_ack_timeout_err", 1)]).status, Status::Ok);
        assert_eq!(counters_rose(&CHECK, 100, &[("roce_adp_retrans", 2_000)]).status, Status::Warn);
    }
}
