//! Do applications ask for what they may not have?

use super::each_port;
use crate::check::{Check, Look, Settles};
use crate::verdict::Verdict;
use crate::watch::window;
use crate::wires::traffic_ports;
use rdmascope_model::Finding;

const ID: &str = "application-errors";

const NAMES: [&str; 4] = [
    "resp_local_length_error",
    "resp_remote_access_errors",
    "req_remote_access_errors",
    "req_remote_invalid_request",
];

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Are requests refused because applications made them wrongly?",
    meaning: "A wrong key, address or length: a fault of the application or of how two versions of it fit. The network did its work.",
    causes: &[
        "memory was deregistered while the peer still wrote to it (often: one side ended first)",
        "two versions of a library, or a receive buffer shorter than the message",
    ],
    next_steps: &[
        "`rdma resource show qp` names the processes; look into the job's own log at the same time.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&crate::limits::CONGESTION_WINDOW_SECONDS],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let watched = (&NAMES[..], window(look));
    each_port(traffic_ports(look), look, (ID, "refused requests"), watched, |moved, (device, port)| {
        (moved.total() > 0).then(|| {
            Verdict::warn(
                format!("{} requests were refused: wrong access or length", moved.total()),
                "the application: a key, an address or a length was wrong, or one side ended before the other; not the network",
                format!("`rdma resource show qp link {}/{}` for the processes, and the job's log.", device.name, port.number),
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::counters_rose;
    use rdmascope_model::Status;

    #[test]
    fn any_rise_warns_and_blames_the_application() {
        let found = counters_rose(&CHECK, 10, &[("resp_remote_access_errors", 2)]);
        assert_eq!(found.status, Status::Warn);
        assert!(found.cause.starts_with("the application"), "{}", found.cause);
    }
}
