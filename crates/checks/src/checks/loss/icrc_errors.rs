//! Do RoCE packets arrive with a wrong end-to-end checksum?

use super::each_port;
use crate::check::{Check, Look, Settles};
use crate::verdict::Verdict;
use crate::watch::window;
use crate::wires::roce_ports;
use rdmascope_model::Finding;

const ID: &str = "icrc-errors";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Do RoCE packets arrive with a wrong end-to-end checksum (ICRC)?",
    meaning: "The Ethernet checksum was right, the end-to-end one was not: something between the adapters changed the packet.",
    causes: &[
        "a device on the way rewrites headers that the ICRC covers (a firewall, NAT, a tunnel)",
        "bad memory in a switch or an adapter",
    ],
    next_steps: &[
        "Find what the senders have in common (`rdmascope check` there, the path's switches); take middleboxes out of the path.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&crate::limits::CONGESTION_WINDOW_SECONDS],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let watched = (&["rx_icrc_encapsulated"][..], window(look));
    each_port(roce_ports(look), look, (ID, "packets with a wrong ICRC"), watched, |moved, _| {
        (moved.total() > 0).then(|| {
            Verdict::fail(
                format!("{} RoCE packets came in with a wrong end-to-end checksum", moved.total()),
                "the fabric: a device on the way changes packets (NAT, firewall, tunnel), or has bad memory",
                "Compare the nodes below the same switches; capture with `tcpdump -i NETDEV udp port 4791` and look for rewritten headers.",
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
    fn any_rise_fails() {
        assert_eq!(counters_rose(&CHECK, 10, &[("rx_icrc_encapsulated", 1)]).status, Status::Fail);
        assert_eq!(counters_rose(&CHECK, 10, &[("rx_icrc_encapsulated", 0)]).status, Status::Ok);
    }
}
