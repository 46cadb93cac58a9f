//! Findings of machines that were looked at for real, judged again under other numbers: what is kept must say what the check says.

use super::*;
use crate::limits;
use crate::testing::{counters, eth0, statistics};
use crate::{Past, limits::LIMITS};
use rdmascope_fixtures::snapshot::roce;
use rdmascope_model::{Mono, Reading, Snapshot};
use std::time::Duration;

/// A machine whose counters rose within five minutes.
struct Machine {
    now: Snapshot,
    past: Past,
}

impl Machine {
    fn new(before: impl Fn(&mut Snapshot), after: impl Fn(&mut Snapshot)) -> Self {
        let (mut earlier, mut now, mut past) = (roce(1), roce(1), Past::new());
        before(&mut earlier);
        after(&mut now);
        past.observe(&earlier, Mono::default());
        past.observe(&now, Mono::default().after(Duration::from_secs(300)));
        Self { now, past }
    }

    fn look<'a>(&'a self, policy: &'a Policy) -> Look<'a> {
        Look { past: &self.past, ..Look::first(&self.now, policy) }
    }

    /// Every finding above ok, as it is kept: id, subject, status, lines.
    fn raised(&self, policy: &Policy) -> Vec<(String, String, Status, Vec<String>)> {
        let look = self.look(policy);
        let bad = crate::run(&look).into_iter().filter(|finding| finding.status != Status::Ok);
        bad.map(|finding| {
            let mut left = ASKED_MAX;
            let basis = basis(&look, &finding.id, &finding.subject, &finding.evidence, &mut left).unwrap();
            let lines = basis.lines();
            assert_eq!(Basis::from_lines(&lines), Some(basis), "{lines:?}");
            (finding.id.into_owned(), finding.subject, finding.status, lines)
        })
        .collect()
    }

    /// What the check itself says under a policy.
    fn status(&self, id: &str, subject: &str, policy: &Policy) -> Status {
        let own = crate::run(&self.look(policy)).into_iter().filter(|f| f.id == id && f.subject == subject);
        own.map(|finding| finding.status).max().unwrap_or(Status::Ok)
    }
}

/// Retransmits 320 in a million, a symbol error each second, one pause of 21.7 %, flaps, an MTU that is odd, marks and drops.
fn troubled() -> Machine {
    let set = |machine: &mut Snapshot, times: u64| {
        counters(
            machine,
            &[
                ("packet_seq_err", 3_200 * times),
                ("symbol_error", 300 * times),
                ("rnr_nak_retry_err", 90_000 * times),
            ],
        );
        counters(machine, &[("local_ack_timeout_err", 60 * times), ("roce_adp_retrans", 9_000 * times)]);
        counters(machine, &[("out_of_sequence", 900 * times), ("duplicate_request", 50 * times)]);
        statistics(machine, &[("tx_vport_rdma_unicast_packets", 10_000_000 * times)]);
        statistics(machine, &[("rx_vport_rdma_unicast_packets", 10_000_000 * times)]);
        statistics(
            machine,
            &[("rx_symbol_err_phy", 600 * times), ("rx_prio3_pause_duration", 65_100_000 * times)],
        );
        statistics(machine, &[("rx_discards_phy", 700 * times), ("rx_crc_errors_phy", 40 * times)]);
        let netdev = eth0(machine);
        netdev.mtu = Reading::Value(4_220);
        netdev.carrier_down_count = Reading::Value(u32::try_from(7 * times).unwrap());
        netdev.carrier_changes = Reading::Value(u32::try_from(14 * times).unwrap());
    };
    Machine::new(|machine| set(machine, 0), |machine| set(machine, 1))
}

fn said(again: &Again, was: Status) -> Option<Status> {
    match again {
        Again::Same => Some(was),
        Again::Silent => Some(Status::Ok),
        Again::Becomes(status) => Some(*status),
        Again::CannotSay(_) => None,
    }
}

/// The rule of the whole file: for every number that is no span of time, alone and together with each other one, at values from far below
/// to far above, what is kept says what the check says.
#[test]
fn what_is_kept_says_what_the_check_says_under_any_numbers() {
    let (machine, usual) = (troubled(), Policy::default());
    let raised = machine.raised(&usual);
    assert!(raised.len() >= 10, "{raised:?}");
    let factors = [0.0, 1e-6, 0.3, 1.001, 3.0, 1e6];
    let (mut asked, mut turned) = (0, 0);
    for (id, subject, was, lines) in &raised {
        let check = ALL.iter().find(|check| check.id == *id).unwrap();
        let numbers: Vec<&Limit> = numbers_of(check).into_iter().filter(|limit| !is_span(limit)).collect();
        for first in &numbers {
            for second in &numbers {
                for (a, b) in factors.iter().flat_map(|a| factors.iter().map(move |b| (a, b))) {
                    let mut policy = usual.clone();
                    policy.limits.set(first.name, first.default * a);
                    policy.limits.set(second.name, second.default * b);
                    let again = again(id, *was, Some(lines), &policy.limits);
                    let expected = machine.status(id, subject, &policy);
                    let numbers = (first.name, policy.limit(first), second.name, policy.limit(second));
                    assert_eq!(said(&again, *was), Some(expected), "{id} {subject} {numbers:?}: {lines:?}");
                    asked += 1;
                    turned += u32::from(expected != *was);
                }
            }
        }
    }
    assert!(asked > 500 && turned > 100, "{turned} of {asked} changed anything");
}

#[test]
fn a_number_that_must_be_met_exactly_is_found_in_the_evidence() {
    let (machine, usual) = (troubled(), Policy::default());
    let (id, _, was, lines) = machine.raised(&usual).into_iter().find(|(id, ..)| id == "netdev-mtu").unwrap();
    let under = |mtu: f64| {
        let mut limits = Limits::default();
        limits.set("netdev_mtu", mtu);
        again(&id, was, Some(&lines), &limits)
    };
    assert_eq!([under(9_000.0), under(8_896.0)], [Again::Same, Again::Same]);
    assert_eq!(under(4_220.0), Again::Silent);
    assert_eq!(under(1_500.0), Again::Becomes(Status::Warn), "larger than asked for");
}

#[test]
fn counts_turn_at_whole_numbers() {
    let (machine, usual) = (troubled(), Policy::default());
    let (id, _, was, lines) = machine.raised(&usual).into_iter().find(|(id, ..)| id == "link-flaps").unwrap();
    let under = |warn: f64, fail: f64| {
        let mut limits = Limits::default();
        limits.set(limits::FLAPS_WARN_PER_HOUR.name, warn);
        limits.set(limits::FLAPS_FAIL_PER_HOUR.name, fail);
        limits.set(limits::FLAPS_FAIL_PER_DAY.name, 100.0);
        said(&again(&id, was, Some(&lines), &limits), was)
    };
    assert_eq!(under(1.0, 7.0), Some(Status::Fail), "seven losses are seven");
    assert_eq!(under(7.0, 8.0), Some(Status::Warn));
    assert_eq!(under(8.0, 8.0), Some(Status::Ok));
}

#[test]
fn what_the_history_does_not_hold_is_not_guessed() {
    let (machine, usual) = (troubled(), Policy::default());
    let (id, _, was, lines) =
        machine.raised(&usual).into_iter().find(|(id, ..)| id == "retransmits").unwrap();
    let mut window = Limits::default();
    window.set("congestion_window_seconds", 60.0);
    let why = |again: Again| if let Again::CannotSay(why) = again { why } else { panic!("{again:?}") };
    assert!(why(again(&id, was, Some(&lines), &window)).contains("span of time"));
    assert!(why(again(&id, was, None, &window)).contains("was not kept"));
    assert!(why(again(&id, was, Some(&["= f".to_owned()]), &window)).contains("another version"));
    assert!(why(again(&id, was, Some(&["nonsense".to_owned()]), &window)).contains("another version"));
    assert_eq!(again(&id, was, Some(&lines), &Limits::default()), Again::Same, "nothing has changed for it");
    assert_eq!(
        again("firmware-version", Status::Fail, None, &window),
        Again::Same,
        "a check without numbers"
    );
    assert_eq!(again("mlx5-health", Status::Fail, None, &window), Again::Same, "a rule of the kernel log");
    let mut settling = Limits::default();
    settling.set("settle_seconds", 300.0);
    let kept = ["settle_polls 3e0 ?", "settle_seconds 3e1 ?", "boot_grace_seconds 1.2e2 ?", "= f"]
        .map(str::to_owned);
    assert!(why(again("port-state", Status::Fail, Some(&kept), &settling)).contains("settle_seconds"));
}

#[test]
fn the_checks_are_asked_a_bounded_number_of_times() {
    let (machine, usual) = (troubled(), Policy::default());
    let look = machine.look(&usual);
    let findings: Vec<_> = crate::run(&look).into_iter().filter(|f| f.status != Status::Ok).collect();
    for finding in &findings {
        let mut left = ASKED_MAX;
        assert!(basis(&look, &finding.id, &finding.subject, &finding.evidence, &mut left).is_some());
        assert!(left > ASKED_MAX / 2, "{} took {}", finding.id, ASKED_MAX - left);
    }
    let retransmits = findings.iter().find(|finding| finding.id == "retransmits").unwrap();
    let mut left = 20;
    assert_eq!(basis(&look, "retransmits", &retransmits.subject, &[], &mut left), None);
    assert_eq!(left, 0);
}

/// A number that a check uses and does not name would be missing from what is kept.
#[test]
fn every_check_names_the_numbers_that_it_judges_by() {
    let (machine, usual) = (troubled(), Policy::default());
    for check in ALL {
        let judged = |policy: &Policy| {
            let findings = (check.judge)(&machine.look(policy)).into_iter();
            findings.map(|finding| (finding.subject, finding.status)).collect::<Vec<_>>()
        };
        let now = judged(&usual);
        for limit in LIMITS.iter().filter(|limit| !check.limits.iter().any(|own| own.name == limit.name)) {
            for value in [0.0, limit.default / 2.0, limit.default * 2.0, 1e15] {
                let mut policy = usual.clone();
                policy.limits.set(limit.name, value);
                assert_eq!(judged(&policy), now, "{} does not name {}", check.id, limit.name);
            }
        }
    }
    let settling = [&SETTLE_POLLS, &SETTLE_SECONDS, &BOOT_GRACE_SECONDS, &limits::LOG_WINDOW_SECONDS];
    for limit in LIMITS {
        let named = ALL.iter().any(|check| check.limits.iter().any(|own| own.name == limit.name));
        assert!(named || settling.iter().any(|own| own.name == limit.name), "nobody names {}", limit.name);
    }
}
