//! Do pause frames come or go on a priority that should have none?

use super::pfc;
use crate::check::{Check, Look, Settles};
use crate::finding::unknown;
use crate::verdict::Verdict;
use crate::watch::{by_rate, window};
use crate::wires::each_wire;
use rdmascope_model::{Finding, Reading, priorities};

const ID: &str = "pause-priority";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Are there pause frames on a priority that has no PFC?",
    meaning: "The two ends of the cable do not agree which priority is lossless: the lossless class of one is lossy at the other.",
    causes: &["the switch port has PFC on another priority, or traffic is put into the wrong class"],
    next_steps: &[
        "`ethtool -S NETDEV | grep prio.*pause`; `dcb pfc show dev NETDEV` and PFC of the switch port, side by side.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&crate::limits::CONGESTION_WINDOW_SECONDS],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    each_wire(look, ID, "pause frames by priority", |wire| {
        let expected = look.policy.manifest.of(wire.device, Some(wire.port)).pfc;
        let mask = match (expected, pfc(wire)) {
            (Some(mask), _) | (None, Reading::Value(mask)) => mask,
            (None, Reading::Absent) => return Vec::new(),
            (None, Reading::Failed(why)) => {
                return vec![unknown(ID, wire.subject(), "which priorities have PFC", &why)];
            }
        };
        let names: Vec<String> = (0..8)
            .filter(|p| mask & (1 << p) == 0)
            .flat_map(|p| ["rx", "tx"].map(|way| format!("{way}_prio{p}_pause")))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let seen = wire.seen(look, &names, window(look));
        vec![by_rate(ID, wire.subject(), "pause frames on other priorities", seen, |moved| {
            (moved.total() > 0).then(|| {
                Verdict::fail(
                    format!("{} pause frames on priorities other than {}", moved.total(), priorities(mask)),
                    "a setting: this host and the switch port do not have PFC on the same priority",
                    format!(
                        "`dcb pfc show dev {0}` beside PFC of the switch port; `ethtool -S {0} | grep prio`.",
                        wire.name
                    ),
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
    fn only_priorities_outside_the_mask_are_asked() {
        assert_eq!(statistics_rose(&CHECK, 60, &[("rx_prio4_pause", 1)]).status, Status::Fail);
        assert_eq!(
            statistics_rose(&CHECK, 60, &[("rx_prio3_pause", 1), ("rx_prio4_pause", 0)]).status,
            Status::Ok
        );
    }
}
