//! Is global pause (802.3x) off where priority flow control is meant to do its work?

use super::pfc;
use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use crate::verdict::{Verdict, shown};
use crate::watch::{Seen, window};
use crate::wires::{Wire, each_wire};
use rdmascope_model::{Finding, Reading, priorities};

const ID: &str = "global-pause";

const MOVING: [&str; 4] = ["rx_global_pause", "tx_global_pause", "rx_pause_ctrl_phy", "tx_pause_ctrl_phy"];

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is global pause (802.3x) off where priority flow control is used?",
    meaning: "Global pause stops all traffic of the port at once, also what PFC would let pass; one slow receiver stops everybody.",
    causes: &["the driver's default, or `ethtool -A`; PFC and global pause exclude each other"],
    next_steps: &["`ethtool -a NETDEV`; `ethtool -A NETDEV rx off tx off`, and the same at the switch port."],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&crate::limits::CONGESTION_WINDOW_SECONDS],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    each_wire(look, ID, "global pause", |wire| vec![one(look, wire)])
}

fn one(look: &Look<'_>, wire: &Wire<'_>) -> Finding {
    let (rx, tx) = (&wire.netdev.ethtool.pause_rx, &wire.netdev.ethtool.pause_tx);
    let mask = pfc(wire).value().copied().unwrap_or(0);
    let on = [rx, tx].into_iter().any(|r| r.value() == Some(&true));
    let mut evidence =
        vec![shown("pause rx", rx), shown("pause tx", tx), format!("pfc = {}", priorities(mask))];
    // On mlx5 rx_pause_ctrl_phy counts PFC frames too, so it tells of global pause only where that is on.
    let names = if on { &MOVING[..] } else { &MOVING[..2] };
    let moved = match wire.seen(look, names, window(look)) {
        Seen::Moved(moved) if moved.total() > 0 => Some(moved),
        _ => None,
    };
    evidence.extend(moved.iter().flat_map(|m| m.evidence()));
    let next = format!(
        "`ethtool -A {0} rx off tx off`, in the network manager's files too, and at the switch port; watch `ethtool -S {0} | grep pause`.",
        wire.name
    );
    let name = wire.name;
    if mask != 0 && (on || moved.is_some()) {
        let seen = if on { "is on" } else { "frames are counted" };
        let verdict = Verdict::fail(
            format!("global pause {seen} on {name} while PFC is on for priority {}", priorities(mask)),
            "a setting of this host or of the switch port: both kinds of flow control at once",
            next,
        );
        return wire.finding(ID, verdict, evidence);
    }
    if on {
        let verdict = Verdict::warn(
            format!("global pause is on and PFC is off on {name}"),
            "a setting of this host, often the driver's default: RoCE is lossless, but each pause stops all traffic of the port",
            next,
        );
        return wire.finding(ID, verdict, evidence);
    }
    match [rx, tx].into_iter().find(|r| matches!(r, Reading::Failed(_))) {
        Some(failed) => unknown(ID, wire.subject(), "global pause", why(failed)),
        None => ok(ID, wire.subject(), format!("global pause is off on {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{dcb, eth0, first, statistics_rose};
    use rdmascope_model::Status;

    #[test]
    fn beside_pfc_it_fails_and_alone_it_warns() {
        assert_eq!(first(&CHECK, |_| ())[0].status, Status::Ok);
        assert_eq!(
            first(&CHECK, |m| eth0(m).ethtool.pause_tx = Reading::Value(true))[0].status,
            Status::Fail
        );
        let alone = first(&CHECK, |m| {
            eth0(m).ethtool.pause_rx = Reading::Value(true);
            dcb(m).pfc = Reading::Value(0);
        });
        assert_eq!(alone[0].status, Status::Warn);
    }

    #[test]
    fn frames_tell_of_the_switch() {
        let found = statistics_rose(&CHECK, 60, &[("rx_global_pause", 12)]);
        assert_eq!(found.status, Status::Fail);
        assert!(found.evidence.contains(&"rx_global_pause = +12 in 60 s".to_owned()), "{:?}", found.evidence);
    }

    #[test]
    fn unread_is_unknown() {
        let found = first(&CHECK, |m| eth0(m).ethtool.pause_rx = Reading::failed("EPERM"));
        assert_eq!(found[0].status, Status::Unknown);
    }
}
