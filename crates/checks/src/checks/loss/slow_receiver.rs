//! Do applications post receive buffers too late?

use super::each_port;
use crate::check::{Check, Look, Settles};
use crate::limits;
use crate::verdict::Verdict;
use crate::watch::{Moved, SECOND, per, window};
use crate::wires::traffic_ports;
use rdmascope_model::Finding;

const ID: &str = "slow-receiver";

const NAKS: [&str; 2] = ["rnr_nak_retry_err", "rcvd_rnr_err"];
const DIED: [&str; 2] = ["req_rnr_retries_exceeded", "retry_rnr_exceeded_err"];

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Are messages turned away because the receiving application has no buffer ready?",
    meaning: "The sender waits and tries again; the network is fine, the application is late or its queues are too short.",
    causes: &["an application that is busy elsewhere, or with receive queues that are too short"],
    next_steps: &[
        "Find the process: `rdma resource show qp`; then its receive queue or SRQ size, and whether its threads get their processors.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[
        &limits::RNR_NAKS_WARN_PER_SECOND,
        &limits::OUT_OF_BUFFER_WARN_PER_SECOND,
        &limits::CONGESTION_WINDOW_SECONDS,
    ],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let names: Vec<&str> = NAKS.into_iter().chain(DIED).chain(["out_of_buffer"]).collect();
    let watched = (&names[..], window(look));
    each_port(traffic_ports(look), look, (ID, "receiver-not-ready events"), watched, |moved, _| {
        late(look, moved)
    })
}

fn late(look: &Look<'_>, moved: &Moved) -> Option<Verdict> {
    let rate = |names: &[&str]| per(names.iter().map(|name| moved.of(name)).sum(), moved.over, SECOND);
    let died: u64 = DIED.iter().map(|name| moved.of(name)).sum();
    let (naks, missing) = (rate(&NAKS), rate(&["out_of_buffer"]));
    let peer = "the application at the peer: it posts receive buffers too late; not the network";
    if died > 0 {
        return Some(Verdict::warn(
            format!("{died} connections ended because the peer never had a receive buffer"),
            peer,
            "At the peer: is the process stuck or stopped (`cat /proc/PID/stack`), and how long are its receive queues?",
        ));
    }
    if naks > look.policy.limit(&limits::RNR_NAKS_WARN_PER_SECOND) {
        return Some(Verdict::warn(
            format!("peers turned away {naks:.0} messages a second: receiver not ready"),
            peer,
            "At the peers: `rdma resource show qp`, receive queue sizes of the job, and the load of its threads.",
        ));
    }
    (missing > look.policy.limit(&limits::OUT_OF_BUFFER_WARN_PER_SECOND)).then(|| {
        Verdict::warn(
            format!("{missing:.0} packets a second found no receive buffer on this host"),
            "an application on this host: its receive queues are too short, or it is late",
            "`rdma resource show qp`: the process; a longer receive queue or SRQ.",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::counters_rose;
    use rdmascope_model::Status;

    #[test]
    fn the_application_is_named_and_nothing_fails() {
        assert_eq!(counters_rose(&CHECK, 100, &[("rnr_nak_retry_err", 5_000)]).status, Status::Ok);
        let found = counters_rose(&CHECK, 100, &[("rnr_nak_retry_err", 5_000_000)]);
        assert_eq!(found.status, Status::Warn);
        assert!(found.cause.contains("application"), "{}", found.cause);
        assert_eq!(counters_rose(&CHECK, 100, &[("req_rnr_retries_exceeded", 1)]).status, Status::Warn);
        assert_eq!(counters_rose(&CHECK, 100, &[("out_of_buffer", 2_000)]).status, Status::Warn);
    }
}
