//! Does a lossless priority lose packets at this host?

use super::pfc;
use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown};
use crate::verdict::Verdict;
use crate::watch::{by_rate, window};
use crate::wires::each_wire;
use rdmascope_model::{Finding, Reading, priorities};

const ID: &str = "lossless-discards";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Are packets of a lossless priority discarded at this port?",
    meaning: "PFC does not hold what it promises: RoCE loses packets in the class that should lose none.",
    causes: &[
        "the switch does not obey pause on that priority: PFC is off there, or on another priority",
        "the receive buffer of the priority is too small for the length of the cable",
    ],
    next_steps: &[
        "`ethtool -S NETDEV | grep -e discard -e pause`; PFC of the switch port for the same priority.",
        "`dcb buffer show dev NETDEV` (vendor tool: `mlnx_qos -i NETDEV`): buffer of the priority, and the cable length.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&crate::limits::CONGESTION_WINDOW_SECONDS],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    each_wire(look, ID, "discards of lossless priorities", |wire| {
        let mask = match pfc(wire) {
            Reading::Value(0) => {
                return vec![ok(ID, wire.subject(), "no priority is lossless: PFC is off".to_owned())];
            }
            Reading::Value(mask) => mask,
            Reading::Absent => return Vec::new(),
            Reading::Failed(why) => {
                return vec![unknown(ID, wire.subject(), "which priorities are lossless", &why)];
            }
        };
        let names: Vec<String> = (0..8)
            .filter(|p| mask & (1 << p) != 0)
            .flat_map(|p| {
                ["discards", "buf_discard", "cong_discard"].map(|kind| format!("rx_prio{p}_{kind}"))
            })
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let seen = wire.seen(look, &names, window(look));
        vec![by_rate(ID, wire.subject(), "discards of lossless priorities", seen, |moved| {
            (moved.total() > 0).then(|| {
                Verdict::fail(
                    format!("{} packets of lossless priority {} were discarded", moved.total(), priorities(mask)),
                    "a setting: the switch port does not obey this host's pause frames, or the receive buffer is too small",
                    format!("`ethtool -S {0} | grep prio`; compare PFC at the switch port; `dcb buffer show dev {0}`.", wire.name),
                )
            })
        })]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{dcb, first, statistics_rose};
    use rdmascope_model::Status;

    #[test]
    fn only_lossless_priorities_are_asked() {
        assert_eq!(statistics_rose(&CHECK, 60, &[("rx_prio3_discards", 1)]).status, Status::Fail);
        assert_eq!(statistics_rose(&CHECK, 60, &[("rx_prio0_discards", 900)]).status, Status::Ok);
    }

    #[test]
    fn without_a_known_mask_nothing_is_said() {
        let found = first(&CHECK, |m| dcb(m).pfc = Reading::failed("EPERM"));
        assert_eq!(found[0].status, Status::Unknown);
    }
}
