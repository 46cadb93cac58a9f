//! Does the adapter restart its sending rate again and again?

use super::each_port;
use crate::check::{Check, Look, Settles};
use crate::limits;
use crate::verdict::Verdict;
use crate::watch::{SECOND, window};
use crate::wires::roce_ports;
use rdmascope_model::Finding;

const ID: &str = "rate-restarts";

const NAMES: [&str; 3] = ["roce_slow_restart", "roce_slow_restart_cnps", "roce_slow_restart_trans"];

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Does the adapter restart its sending rate (RoCE slow restart) again and again?",
    meaning: "After a loss or idle time flows start slowly: many restarts keep the bandwidth low.",
    causes: &[
        "losses on the path (then retransmits rise too)",
        "traffic in short bursts with idle time between them",
    ],
    next_steps: &[
        "Look at retransmits and ack-timeouts of this port first; without losses it is the job's pattern.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&limits::SLOW_RESTARTS_WARN_PER_SECOND, &limits::CONGESTION_WINDOW_SECONDS],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let watched = (&NAMES[..], window(look));
    each_port(roce_ports(look), look, (ID, "restarts of the sending rate"), watched, |moved, _| {
        let rate = moved.per(SECOND);
        (rate > look.policy.limit(&limits::SLOW_RESTARTS_WARN_PER_SECOND)).then(|| {
            Verdict::warn(
                format!("the sending rate is restarted {rate:.0} times a second"),
                "the path (losses), or the job: short bursts after idle time",
                "`rdmascope explain retransmits`: with losses the path is to blame; without them it is the traffic's pattern.",
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
    fn by_rate() {
        assert_eq!(counters_rose(&CHECK, 100, &[("roce_slow_restart", 900)]).status, Status::Ok);
        assert_eq!(counters_rose(&CHECK, 100, &[("roce_slow_restart", 1_100)]).status, Status::Warn);
    }
}
