//! Are there errors on the cable that FEC cannot mend?

use crate::check::{Check, Look, Settles};
use crate::limits;
use crate::verdict::Verdict;
use crate::watch::{HOUR, MINUTE, Moved, Seen, by_rate, per, window};
use crate::wires::each_wire;
use rdmascope_model::{Finding, Status};

const ID: &str = "symbol-errors";

/// Both count errors after FEC, at two places of one path: the larger is taken, never the sum.
const NAMES: [&str; 2] = ["rx_symbol_err_phy", "rx_pcs_symbol_err_phy"];

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Are there errors on the cable that FEC cannot mend?",
    meaning: "Each one is a lost packet, and RoCE sends everything after it again.",
    causes: &[
        "dirty, bent or badly plugged cable or fibre",
        "a transceiver at its end of life or too hot",
        "FEC of the two ends does not fit",
    ],
    next_steps: &[
        "`ethtool -S NETDEV | grep -e symbol -e corrected -e lane`; `ethtool -m NETDEV` for power and temperature.",
        "Clean and reseat; swap the cable; then move it to another switch port: what the error follows is broken.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[
        &limits::CONGESTION_WINDOW_SECONDS,
        &limits::SYMBOL_ERRORS_AFTER_FEC_WARN_PER_HOUR,
        &limits::SYMBOL_ERRORS_AFTER_FEC_FAIL_PER_MINUTE,
    ],
    judge,
};

fn largest(moved: &Moved) -> u64 {
    moved.rises.values().copied().max().unwrap_or(0)
}

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let policy = look.policy;
    each_wire(look, ID, "symbol errors", |wire| {
        let lately = match wire.seen(look, &NAMES, window(look)) {
            Seen::Moved(moved) => per(largest(&moved), moved.over, MINUTE),
            Seen::NotCounted | Seen::Failed(_) | Seen::Once(_) => 0.0,
        };
        let seen = wire.seen(look, &NAMES, HOUR);
        vec![by_rate(ID, wire.subject(), "symbol errors after FEC", seen, |moved| {
            let count = largest(moved);
            let warns = policy.limit(&limits::SYMBOL_ERRORS_AFTER_FEC_WARN_PER_HOUR);
            if count == 0 || per(count, moved.over, HOUR) < warns {
                return None;
            }
            let fails = lately > policy.limit(&limits::SYMBOL_ERRORS_AFTER_FEC_FAIL_PER_MINUTE);
            let verdict = Verdict::warn(
                format!(
                    "{count} symbol errors that FEC could not mend, within {}",
                    crate::motion::in_words(moved.over)
                ),
                "the cable, a transceiver or the other end's port",
                format!(
                    "`ethtool -m {0}`; clean and reseat, then swap the cable, then the switch port; watch `ethtool -S {0} | grep symbol`.",
                    wire.name
                ),
            );
            Some(if fails { Verdict { status: Status::Fail, ..verdict } } else { verdict })
        })]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{first, statistics_rose};

    #[test]
    fn one_an_hour_warns_and_more_than_one_a_minute_fails() {
        let seen = |seconds, count| statistics_rose(&CHECK, seconds, &[("rx_symbol_err_phy", count)]).status;
        assert_eq!(seen(3_600, 0), Status::Ok);
        assert_eq!(seen(3_600, 1), Status::Warn);
        assert_eq!(seen(10, 1), Status::Warn);
        assert_eq!(seen(300, 6), Status::Fail);
        assert_eq!(first(&CHECK, |_| ())[0].status, Status::Ok);
    }
}
