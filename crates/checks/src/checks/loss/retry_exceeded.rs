//! Did a connection die because nobody answered any more?

use super::each_port;
use crate::check::{Check, Look, Settles};
use crate::limits;
use crate::verdict::Verdict;
use crate::watch::span;
use crate::wires::traffic_ports;
use rdmascope_model::Finding;

const ID: &str = "retry-exceeded";

const NAMES: [&str; 3] = ["req_transport_retries_exceeded", "retry_exceeded_err", "max_retry_exceeded"];

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Did connections die because a peer did not answer (retry counter exceeded)?",
    meaning: "A queue pair that has used up its retries is in error for good: the job that owns it stops or falls.",
    causes: &[
        "the peer's process died (out of memory, a crash), and its queue pairs with it",
        "the peer's link went down, or no route or GID leads to it",
        "the path lost every packet for seconds: a wrong MTU, a pause deadlock, a switch that restarted",
    ],
    next_steps: &[
        "Before blaming the link look at the peer: did the process end (`dmesg -T | grep -i 'killed process'`), did its port flap?",
        "Then the path: `rdmascope check` on both ends; MTU and GID findings first.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&limits::DIED_CONNECTIONS_WINDOW_SECONDS],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let watched = (&NAMES[..], span(look, &limits::DIED_CONNECTIONS_WINDOW_SECONDS));
    each_port(
        traffic_ports(look),
        look,
        (ID, "connections that died of their retries"),
        watched,
        |moved, (device, _)| {
            (moved.total() > 0).then(|| {
            Verdict::fail(
                format!("{} connections of {} died: the peer did not answer until the retries were used up", moved.total(), device.name),
                "the peer or the path: its process ended (out of memory, a crash), its port went down, or everything on the way was lost",
                "At the peer: `dmesg -T | grep -i -e 'killed process' -e 'link down'`; if its process lives and its port is up: MTU, GID and routes of both ends (`rdmascope check`).",
            )
        })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{counters_rose, first};
    use rdmascope_model::Status;

    #[test]
    fn c038_a_dead_connection_points_to_the_peers_process_first() {
        let found = counters_rose(&CHECK, 1_200, &[("req_transport_retries_exceeded", 1)]);
        assert_eq!(found.status, Status::Fail);
        assert!(found.next_step.contains("killed process"), "{}", found.next_step);
    }

    #[test]
    fn older_drivers_do_not_count_them() {
        let found = first(&CHECK, |_| ()).remove(0);
        assert_eq!(found.status, Status::Ok);
        assert!(found.summary.contains("does not count"), "{}", found.summary);
    }
}
