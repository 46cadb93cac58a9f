//! Do frames arrive with a wrong Ethernet checksum?

use crate::check::{Check, Look, Settles};
use crate::limits;
use crate::verdict::Verdict;
use crate::watch::{MINUTE, by_rate, window};
use crate::wires::each_wire;
use rdmascope_model::Finding;

const ID: &str = "crc-errors";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Do frames arrive with a wrong Ethernet checksum?",
    meaning: "Corrupt frames are dropped; RoCE sends everything after them again.",
    causes: &[
        "the cable or a transceiver of this link",
        "a cut-through switch that passes on what another link broke",
    ],
    next_steps: &[
        "With symbol-errors on the same port: this link. Without them: another link behind the switch; look at CRC counters of its ports.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&limits::CONGESTION_WINDOW_SECONDS, &limits::CRC_ERRORS_WARN_PER_MINUTE],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    each_wire(look, ID, "checksum errors", |wire| {
        let seen = wire.seen(look, &["rx_crc_errors_phy"], window(look));
        vec![by_rate(ID, wire.subject(), "frames with a wrong checksum", seen, |moved| {
            let rate = moved.per(MINUTE);
            (rate > look.policy.limit(&limits::CRC_ERRORS_WARN_PER_MINUTE)).then(|| {
                Verdict::warn(
                    format!("{rate:.1} frames a minute have a wrong checksum"),
                    "the cable of this link; or another link, whose broken frames a cut-through switch passes on",
                    format!("`ethtool -S {} | grep -e crc -e symbol`: with symbol errors swap this cable; without, find the port with CRC errors on the switch.", wire.name),
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
    fn more_than_one_a_minute() {
        assert_eq!(statistics_rose(&CHECK, 300, &[("rx_crc_errors_phy", 5)]).status, Status::Ok);
        assert_eq!(statistics_rose(&CHECK, 300, &[("rx_crc_errors_phy", 6)]).status, Status::Warn);
    }
}
