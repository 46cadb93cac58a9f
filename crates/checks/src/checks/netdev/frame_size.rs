//! Does the neighbour send larger frames than this port takes?

use crate::check::{Check, Look, Settles};
use crate::verdict::{Verdict, shown};
use crate::watch::{by_rate, window};
use crate::wires::each_wire;
use rdmascope_model::Finding;

const ID: &str = "frame-size";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Does the neighbour send larger frames than this port takes?",
    meaning: "They are dropped without a word: small messages pass, large ones hang.",
    causes: &["the MTU of this host is smaller than that of its peers or of the switch"],
    next_steps: &["`ip link show dev NETDEV` and the MTU of the peers; `ping -M do -s 8972 PEER`."],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&crate::limits::CONGESTION_WINDOW_SECONDS],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    each_wire(look, ID, "frame sizes", |wire| {
        let seen = wire.seen(look, &["rx_oversize_pkts_phy", "rx_out_of_range_len_phy"], window(look));
        let mut found = by_rate(ID, wire.subject(), "frames that are too large", seen, |moved| {
            (moved.total() > 0).then(|| {
                Verdict::fail(
                    format!("{} frames were larger than this port takes", moved.total()),
                    "a setting: the MTU of this host is smaller than that of its peers",
                    format!("`ip link show dev {0}`; the same MTU on all nodes and the switch: `ip link set dev {0} mtu 9000`; test: `ping -M do -s 8972 PEER`.", wire.name),
                )
            })
        });
        found.evidence.push(shown("mtu", &wire.netdev.mtu));
        vec![found]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::statistics_rose;
    use rdmascope_model::Status;

    #[test]
    fn any_rise_fails() {
        let found = statistics_rose(&CHECK, 10, &[("rx_oversize_pkts_phy", 1)]);
        assert_eq!(found.status, Status::Fail);
        assert!(found.evidence.contains(&"mtu = 9000".to_owned()));
    }
}
