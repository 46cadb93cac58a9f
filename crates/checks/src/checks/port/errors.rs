//! Do the port's InfiniBand error counters rise faster than a healthy link's?

use crate::check::{Check, Look, Settles};
use crate::finding::{ok, port_subject, ports, unknown};
use crate::limits::{self, Limit};
use crate::motion::{Motion, in_words, moved, port_counter};
use crate::{Policy, Source};
use rdmascope_model::{Device, Finding, Port, Status};
use std::time::Duration;

const ID: &str = "port-errors";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Do the port's error counters rise faster than those of a healthy link?",
    meaning: "Each error is a lost or repeated packet; before a link breaks for good it usually shows here.",
    causes: &[
        "a marginal cable, transceiver or connector",
        "congestion, or a peer that takes nothing (discards)",
        "a partition or routing that does not let the packets through (constraint errors)",
    ],
    next_steps: &[
        "`perfquery LID PORT` (or `grep . /sys/class/infiniband/DEVICE/ports/PORT/counters/*`) twice, ten seconds apart.",
        "`mlxlink -d DEVICE -m -c` for the signal; clean, reseat or swap the cable; compare the switch port's counters.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[
        &limits::SYMBOL_ERRORS_WARN_PER_SECOND,
        &limits::SYMBOL_ERRORS_FAIL_PER_HOUR,
        &limits::LINK_RECOVERIES_WARN_PER_MINUTE,
        &limits::RECEIVE_ERRORS_WARN_PER_SECOND,
        &limits::TRANSMIT_DISCARDS_WARN_PER_SECOND,
        &limits::MANAGEMENT_DROPS_WARN_PER_HOUR,
        &limits::REMOTE_ERRORS_WARN_PER_HOUR,
    ],
    judge,
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// How fast one counter may rise.
struct Rule {
    counter: &'static str,
    status: Status,
    /// So many per `per`; `None`: not one.
    limit: Option<&'static Limit>,
    per: Duration,
    /// Over which it is looked at.
    window: Duration,
    /// Who is to blame, and what to do.
    cause: &'static str,
}

const SIGNAL: &str = "the cable, its transceivers or connectors, at this end or the switch's";
const CONGESTED: &str =
    "the fabric or the peer: congestion, or a port behind the switch that is down or takes nothing";
const PARTITION: &str = "a setting of the fabric: the packet's partition is not allowed here";
const CREDITS: &str = "the far end sends more than it was given credit for, or this adapter is failing";
const MANAGEMENT: &str =
    "too many management packets at once: a subnet manager or monitor that sweeps too often";
const ELSEWHERE: &str =
    "another hop, not this node: a switch or host on the way marked the packets as corrupt";

const fn rule(
    counter: &'static str,
    status: Status,
    limit: Option<&'static Limit>,
    per: Duration,
    cause: &'static str,
) -> Rule {
    let window = if per.as_secs() < 60 { MINUTE } else { per };
    Rule { counter, status, limit, per, window, cause }
}

/// The worst of a counter first.
const RULES: [Rule; 11] = [
    rule("symbol_error", Status::Fail, Some(&limits::SYMBOL_ERRORS_FAIL_PER_HOUR), HOUR, SIGNAL),
    rule("symbol_error", Status::Warn, Some(&limits::SYMBOL_ERRORS_WARN_PER_SECOND), SECOND, SIGNAL),
    rule("local_link_integrity_errors", Status::Fail, None, HOUR, SIGNAL),
    rule("excessive_buffer_overrun_errors", Status::Fail, None, HOUR, CREDITS),
    rule("link_error_recovery", Status::Warn, Some(&limits::LINK_RECOVERIES_WARN_PER_MINUTE), MINUTE, SIGNAL),
    rule("port_rcv_errors", Status::Warn, Some(&limits::RECEIVE_ERRORS_WARN_PER_SECOND), SECOND, SIGNAL),
    rule(
        "port_xmit_discards",
        Status::Warn,
        Some(&limits::TRANSMIT_DISCARDS_WARN_PER_SECOND),
        SECOND,
        CONGESTED,
    ),
    rule("port_xmit_constraint_errors", Status::Warn, None, HOUR, PARTITION),
    rule("port_rcv_constraint_errors", Status::Warn, None, HOUR, PARTITION),
    rule("VL15_dropped", Status::Warn, Some(&limits::MANAGEMENT_DROPS_WARN_PER_HOUR), HOUR, MANAGEMENT),
    rule(
        "port_rcv_remote_physical_errors",
        Status::Warn,
        Some(&limits::REMOTE_ERRORS_WARN_PER_HOUR),
        HOUR,
        ELSEWHERE,
    ),
];

/// What one rule says.
enum Said {
    Nothing,
    Fine,
    Broken(String),
    /// The reason, and whether a second look would help.
    NotKnown(String, bool),
}

fn judge(look: &Look<'_>) -> Vec<Finding> {
    ports(look.now, look.policy).filter_map(|(device, port)| one(look, device, port)).collect()
}

fn one(look: &Look<'_>, device: &Device, port: &Port) -> Option<Finding> {
    let said: Vec<(&Rule, Said)> = RULES.iter().map(|rule| (rule, ask(look, device, port, rule))).collect();
    let broken: Vec<(&Rule, &String)> = said
        .iter()
        .filter_map(|(rule, said)| match said {
            Said::Broken(words) => Some((*rule, words)),
            _ => None,
        })
        .collect();
    let subject = port_subject(device, port);
    if let Some((worst, _)) = broken.iter().max_by_key(|(rule, _)| rule.status) {
        return Some(rising(look.policy, subject, port, worst, &broken));
    }
    let dark: Vec<(&str, &str, bool)> = said
        .iter()
        .filter_map(|(rule, said)| match said {
            Said::NotKnown(why, again) => Some((rule.counter, why.as_str(), *again)),
            _ => None,
        })
        .collect();
    if let Some((name, why, again)) = dark.first() {
        let mut names: Vec<&str> = dark.iter().map(|(name, ..)| *name).collect();
        names.dedup();
        let what = if *again { "how fast it rises" } else { "an error counter" };
        let mut found = unknown(ID, subject, &format!("{what} ({name})"), why);
        found.evidence = vec![format!("not known: {}", names.join(", "))];
        if *again {
            found.cause = "a single look tells how many, not when".to_owned();
            found.next_step =
                "Look again after a while (the agent does): only a second look tells how fast it rises."
                    .to_owned();
        }
        return Some(found);
    }
    let looked = said.iter().any(|(_, said)| matches!(said, Said::Fine));
    looked.then(|| ok(ID, subject, "no error counter rises beyond its limit".to_owned()))
}

fn ask(look: &Look<'_>, device: &Device, port: &Port, rule: &Rule) -> Said {
    let source = Source::Port(device.name.clone(), port.number);
    let reading = port_counter(port, rule.counter);
    match moved(look, &source, rule.counter, &reading, rule.window) {
        Motion::NotThere => Said::Nothing,
        // The check `counter-saturated` speaks of it.
        Motion::Stuck(_) => Said::Nothing,
        Motion::Unread(why) => Said::NotKnown(why, false),
        Motion::AtMost(total, why) => {
            if total as f64 >= allowed(look.policy, rule, rule.window) {
                Said::NotKnown(why, true)
            } else {
                Said::Fine
            }
        }
        Motion::By(count, within) => {
            if count as f64 >= allowed(look.policy, rule, within) {
                Said::Broken(format!("{} rose by {count} within {}", rule.counter, in_words(within)))
            } else {
                Said::Fine
            }
        }
    }
}

/// From which count on the rule is broken. What was seen for less than the rule's own unit of time is not drawn out to it: one error
/// within two seconds is no 1,800 an hour.
fn allowed(policy: &Policy, rule: &Rule, within: Duration) -> f64 {
    let units = within.max(rule.per).as_secs_f64() / rule.per.as_secs_f64();
    rule.limit.map_or(1.0, |limit| (policy.limit(limit) * units).max(1.0))
}

fn rising(
    policy: &Policy,
    subject: String,
    port: &Port,
    worst: &Rule,
    broken: &[(&Rule, &String)],
) -> Finding {
    let words: Vec<&str> = broken.iter().map(|(_, words)| words.as_str()).collect();
    let mut evidence: Vec<String> = Vec::new();
    for (rule, words) in broken {
        let limit = rule.limit.map_or_else(
            || "none is allowed".to_owned(),
            |limit| format!("limit {} = {} {}", limit.name, policy.limit(limit), limit.unit),
        );
        evidence.push(format!("{words}; {limit}"));
    }
    let netdev = port.netdev.value().map_or("NETDEV", String::as_str);
    let next_step = if worst.cause == ELSEWHERE {
        "Leave this node alone; look for the hop: `ibqueryerrors`, the switches' counters along the way."
            .to_owned()
    } else if worst.cause == SIGNAL || worst.cause == CREDITS {
        format!(
            "`mlxlink -d DEVICE -m -c` (or `ethtool -m {netdev}`), clean, reseat or swap the cable; compare the switch port: \
             `ibqueryerrors`."
        )
    } else if worst.cause == PARTITION {
        "Compare `cat /sys/class/infiniband/DEVICE/ports/PORT/pkeys/*` with the subnet manager's partitions.conf.".to_owned()
    } else {
        "`ibqueryerrors`, `perfquery` of the switch port, and the log of the subnet manager.".to_owned()
    };
    Finding {
        id: ID.into(),
        status: worst.status,
        subject,
        summary: words.join("; "),
        cause: worst.cause.to_owned(),
        next_step,
        evidence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Past;
    use rdmascope_fixtures::snapshot::infiniband;
    use rdmascope_model::{Mono, Reading, Snapshot};

    fn with(name: &str, value: Reading<u64>) -> Snapshot {
        let mut machine = infiniband(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].counters.insert(name.to_owned(), value);
        machine
    }

    /// A counter that rose by so much within so many seconds.
    fn risen(name: &str, by: u64, seconds: u64) -> Finding {
        let mut past = Past::new();
        past.observe(&with(name, Reading::Value(2)), Mono(1));
        let now = with(name, Reading::Value(2 + by));
        past.observe(&now, Mono(1 + seconds * 1_000_000_000));
        let policy = Policy::default();
        judge(&Look { past: &past, ..Look::first(&now, &policy) }).remove(0)
    }

    #[test]
    fn each_counter_has_its_limit() {
        for (name, by, seconds, status) in [
            ("symbol_error", 119, 1800, Status::Ok),
            ("symbol_error", 120, 1800, Status::Fail),
            ("symbol_error", 50, 5, Status::Warn),
            ("symbol_error", 1, 2, Status::Ok),
            ("link_error_recovery", 4, 10, Status::Ok),
            ("link_error_recovery", 5, 10, Status::Warn),
            ("port_rcv_errors", 599, 60, Status::Ok),
            ("port_rcv_errors", 600, 60, Status::Warn),
            ("port_xmit_discards", 999, 10, Status::Ok),
            ("port_xmit_discards", 1000, 10, Status::Warn),
            ("local_link_integrity_errors", 1, 60, Status::Fail),
            ("excessive_buffer_overrun_errors", 1, 60, Status::Fail),
            ("port_rcv_constraint_errors", 1, 60, Status::Warn),
            ("VL15_dropped", 99, 600, Status::Ok),
            ("VL15_dropped", 100, 600, Status::Warn),
        ] {
            let found = risen(name, by, seconds);
            assert_eq!(found.status, status, "{name} {by} {seconds}: {}", found.summary);
        }
    }

    #[test]
    fn corruption_of_another_hop_is_not_this_nodes() {
        let found = risen("port_rcv_remote_physical_errors", 500, 60);
        assert_eq!(found.status, Status::Warn);
        assert!(found.cause.contains("not this node") && found.next_step.contains("Leave this node alone"));
    }

    /// C124: 14 old receive errors on a node that was looked at once are fewer than would matter if they were all of this minute.
    #[test]
    fn c124_a_single_look_knows_what_cannot_have_been() {
        let once = |name: &str, value| judge(&Look::first(&with(name, value), &Policy::default())).remove(0);
        assert_eq!(once("port_rcv_errors", Reading::Value(14)).status, Status::Ok);
        let old = once("port_rcv_errors", Reading::Value(40_000));
        assert_eq!((old.status, old.next_step.contains("second look")), (Status::Unknown, true));
        let dark = once("symbol_error", Reading::failed("EINVAL"));
        assert_eq!((dark.status, dark.summary.contains("EINVAL")), (Status::Unknown, true));
        // At its end it is the business of `counter-saturated`.
        assert_eq!(once("excessive_buffer_overrun_errors", Reading::Value(15)).status, Status::Ok);
    }
}
