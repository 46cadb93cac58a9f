//! At which rate does the port signal? It is said and not yet judged: nothing says what it should be.

use crate::check::{Check, Look, Settles};
use crate::finding::{is_down, ok, port_subject, ports, unknown, why};
use rdmascope_model::{Finding, Reading};

const ID: &str = "port-rate";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Does the port run at the rate that is expected of it?",
    meaning: "A slow port slows down every job that uses it to its own rate.",
    causes: &[
        "the cable or transceiver cannot do more",
        "the switch port is set to a lower speed",
        "lanes are broken",
    ],
    next_steps: &[
        "Compare both ends: `ethtool NETDEV`, `rdma link`, and the switch port; try another cable.",
    ],
    settles: Settles::AtOnce,
    judge,
};

/// A port that is down prints a default rate (40 Gb/s on RoCE, 10 while an InfiniBand port polls), so only an active one is asked.
fn judge(look: &Look<'_>) -> Vec<Finding> {
    let (snapshot, policy) = (look.now, look.policy);
    ports(snapshot, policy)
        .filter(|(_, port)| !is_down(port))
        .map(|(device, port)| {
            let subject = port_subject(device, port);
            match &port.rate_bps {
                Reading::Value(bps) => {
                    ok(ID, subject, format!("the port signals at {} Gb/s", gigabits(*bps)))
                }
                missing => unknown(ID, subject, "the port's rate", why(missing)),
            }
        })
        .collect()
}

/// At most three digits after the point: `100`, `2.5`, `25.781`.
fn gigabits(bps: u64) -> String {
    let text = format!("{}.{:03}", bps / 1_000_000_000, bps / 1_000_000 % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use rdmascope_fixtures::snapshot::roce;
    use rdmascope_model::{PortState, Status};

    fn seen(rate: Reading<u64>, state: PortState) -> Vec<Finding> {
        let mut machine = roce(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].rate_bps = rate;
        devices[0].ports[0].state = Reading::Value(state);
        judge(&Look::first(&machine, &Policy::default()))
    }

    #[test]
    fn the_rate_is_said() {
        let found = seen(Reading::Value(2_500_000_000), PortState::Active);
        assert_eq!(found[0].summary, "the port signals at 2.5 Gb/s");
        assert_eq!(gigabits(100_000_000_000), "100");
        assert_eq!(gigabits(25_781_250_000), "25.781");
    }

    #[test]
    fn a_rate_that_cannot_be_read_is_unknown_not_fine() {
        assert_eq!(seen(Reading::Failed("EINVAL".into()), PortState::Active)[0].status, Status::Unknown);
        assert_eq!(seen(Reading::Absent, PortState::Active)[0].status, Status::Unknown);
    }

    #[test]
    fn the_default_rate_of_a_port_that_is_down_is_not_quoted() {
        assert!(seen(Reading::Value(40_000_000_000), PortState::Down).is_empty());
    }
}
