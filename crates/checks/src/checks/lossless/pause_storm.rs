//! Does a port pause without end: a storm or a deadlock?

use crate::check::{Check, Look, Settles};
use crate::limits;
use crate::verdict::Verdict;
use crate::watch::{Moved, SECOND, by_rate, per, window};
use crate::wires::each_wire;
use rdmascope_model::Finding;

const ID: &str = "pause-storm";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is there a pause storm or a deadlock of pause frames?",
    meaning: "A host that pauses its switch without end stops one switch after the other, and in the end every job.",
    causes: &[
        "this host's adapter, driver or PCI Express does not take packets any more (sent)",
        "another host does, or switches wait for each other in a circle (received)",
    ],
    next_steps: &[
        "Take the storming node off the fabric: `ip link set dev NETDEV down`; then `dmesg | grep mlx5` and a reset of the adapter.",
        "Turn on the PFC watchdog of the switches; `ethtool --get-tunable NETDEV pfc-prevention-tout` on the hosts.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[
        &limits::PAUSE_RECEIVED_FAIL_SHARE,
        &limits::PAUSE_STORM_TRANSITIONS_PER_SECOND,
        &limits::CONGESTION_WINDOW_SECONDS,
    ],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let names = [
        "tx_pause_storm_warning_events",
        "tx_pause_storm_error_events",
        "rx_prioN_pause_duration",
        "rx_prioN_pause_transition",
    ];
    each_wire(look, ID, "pause storms", |wire| {
        let seen = wire.seen(look, &names, window(look));
        vec![by_rate(ID, wire.subject(), "signs of a pause storm", seen, |moved| {
            sent(moved, wire.name).or_else(|| received(look, moved, wire.name))
        })]
    })
}

fn sent(moved: &Moved, name: &str) -> Option<Verdict> {
    let (errors, warnings) =
        (moved.of("tx_pause_storm_error_events"), moved.of("tx_pause_storm_warning_events"));
    let next = format!(
        "Take it off the fabric while you look (`ip link set dev {name} down`); `dmesg -T | grep -i mlx5`, pci-link and pci-stalls; reset the adapter."
    );
    let cause = "this host: its adapter paused the switch without end, because nothing takes the packets (driver, PCI Express, firmware)";
    if errors > 0 {
        let summary = format!(
            "the adapter's watchdog stopped {errors} pause storms on {name}; packets of the lossless class may be dropped"
        );
        return Some(Verdict::fail(summary, cause, next));
    }
    (warnings > 0)
        .then(|| Verdict::warn(format!("{name} sent pause for long, {warnings} times"), cause, next))
}

fn received(look: &Look<'_>, moved: &Moved, name: &str) -> Option<Verdict> {
    let priority = (0..8).find(|p| {
        let changes = format!("rx_prio{p}_pause_transition");
        let share = moved.share_of_time(&format!("rx_prio{p}_pause_duration"));
        moved.rises.contains_key(&changes)
            && share > look.policy.limit(&limits::PAUSE_RECEIVED_FAIL_SHARE)
            && per(moved.of(&changes), moved.over, SECOND)
                < look.policy.limit(&limits::PAUSE_STORM_TRANSITIONS_PER_SECOND)
    })?;
    Some(Verdict::fail(
        format!("{name} is paused on priority {priority} nearly without a break"),
        "the fabric: a pause storm of another node, or switches that wait for each other; not this host",
        format!(
            "Find the node that sends pause (`ethtool -S NETDEV | grep -e tx_prio{priority}_pause -e storm` everywhere), and the switch's PFC watchdog."
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::statistics_rose;
    use rdmascope_model::Status;

    #[test]
    fn the_watchdog_of_the_adapter() {
        let seen = |name| statistics_rose(&CHECK, 60, &[(name, 1)]).status;
        assert_eq!(seen("tx_pause_storm_error_events"), Status::Fail);
        assert_eq!(seen("tx_pause_storm_warning_events"), Status::Warn);
    }

    #[test]
    fn long_pauses_with_few_changes_are_no_congestion() {
        let seen = |changes| {
            let to = [("rx_prio3_pause_duration", 90_000_000), ("rx_prio3_pause_transition", changes)];
            statistics_rose(&CHECK, 100, &to).status
        };
        assert_eq!(seen(20), Status::Fail);
        assert_eq!(seen(200_000), Status::Ok);
    }
}
