//! Which faults count as hard and local, and when: nothing that settles, heals, could not be looked at, or is a setting.

use super::*;
use crate::agent::{Part, faults_now};
use rdmascope_checks::{DRIFT, is_hard};
use rdmascope_model::PhysState;

impl Machine {
    fn link_is(&mut self, state: PortState, phys_state: Reading<PhysState>) {
        self.port_is(state);
        self.devices()[0].ports[0].phys_state = phys_state;
    }

    fn hard(&self) -> Vec<String> {
        self.watch.hard_faults(&self.policy.rules).into_iter().map(|f| f.finding.id.into_owned()).collect()
    }

    fn says(&mut self, id: &'static str, status: Status) {
        let text = String::new;
        let (subject, summary) = ("0000:3b:00.0".to_owned(), "a line".to_owned());
        let rest = (text(), text(), Vec::new());
        self.extra = Some(Finding {
            id: id.into(),
            status,
            subject,
            summary,
            cause: rest.0,
            next_step: rest.1,
            evidence: rest.2,
        });
    }
}

fn settle() -> Duration {
    Duration::from_secs(Policy::default().whole(&limits::SETTLE_SECONDS).into())
}

#[test]
fn a_link_that_stays_down_is_a_hard_fault_until_it_is_back() {
    let mut machine = Machine::new(2);
    machine.look();
    machine.link_is(PortState::Down, Reading::Value(PhysState::Disabled));
    machine.look();
    assert_eq!(machine.hard(), [""; 0], "it may be back in a moment");
    machine.pass(settle().as_secs() + 60);
    assert_eq!(machine.hard(), ["port-phys-state"], "the logical state may be the fabric's fault");
    machine.link_is(PortState::Active, Reading::Value(PhysState::LinkUp));
    machine.look();
    assert_eq!(machine.hard(), [""; 0]);
}

#[test]
fn a_port_that_no_subnet_manager_reaches_is_not_this_nodes_fault() {
    let mut machine = Machine::new(1);
    machine.link_is(PortState::Init, Reading::Value(PhysState::LinkUp));
    machine.pass(settle().as_secs() + 60);
    assert_eq!(machine.worst(), Status::Fail);
    assert_eq!(machine.hard(), [""; 0]);
}

#[test]
fn what_cannot_be_looked_at_any_more_is_no_fault() {
    let mut machine = Machine::new(1);
    machine.link_is(PortState::Down, Reading::Value(PhysState::Disabled));
    machine.pass(settle().as_secs() + 60);
    assert_eq!(machine.hard(), ["port-phys-state"]);
    machine.link_is(PortState::Down, Reading::failed("EIO"));
    machine.look();
    assert_eq!(machine.hard(), [""; 0], "it failed, and now nobody knows");
    machine.snapshot.devices = Reading::failed("EIO");
    machine.pass(3);
    assert_eq!(machine.hard(), [""; 0]);
}

#[test]
fn settings_thresholds_and_comparisons_are_never_hard() {
    let mut machine = Machine::new(1);
    let Reading::Value(netdevs) = &mut machine.snapshot.netdevs else { panic!("no netdevs") };
    netdevs.values_mut().for_each(|netdev| netdev.mtu = Reading::Value(1_500));
    machine.pass(settle().as_secs() + 60);
    assert_eq!((machine.worst(), machine.hard()), (Status::Fail, Vec::new()));
    assert!(!is_hard(DRIFT, &machine.policy.rules));
    let by_numbers: Vec<_> = ALL.iter().filter(|check| check.hard && !check.limits.is_empty()).collect();
    assert!(by_numbers.is_empty(), "{by_numbers:?}");
}

#[test]
fn the_kernels_word_counts_where_its_rule_says_why() {
    let mut machine = Machine::new(1);
    machine.says("mlx5-fatal-error", Status::Fail);
    machine.look();
    assert_eq!(machine.hard(), ["mlx5-fatal-error"]);
    machine.says("mlx5-fatal-error", Status::Warn);
    machine.look();
    assert_eq!(machine.hard(), [""; 0], "its rule says that this once it is less");
    machine.says("pci-contained", Status::Fail);
    machine.look();
    assert_eq!(machine.hard(), [""; 0], "a page to somebody, and mostly over by itself");
    machine.says("module-bus-stuck", Status::Fail);
    machine.look();
    assert_eq!(machine.hard(), [""; 0], "an error, but not one to take the node out for");
}

/// Loading a driver again takes its devices away for a while.
#[test]
fn a_device_that_is_gone_counts_when_it_stays_away() {
    let mut machine = Machine::new(1);
    machine.pass(600);
    machine.devices().clear();
    machine.look();
    assert_eq!(machine.hard(), [""; 0]);
    machine.pass(600);
    assert!(machine.hard().contains(&"device-present".to_owned()), "{:?}", machine.watch.standing());
}

#[test]
fn a_fault_counts_when_it_has_stood_for_its_time() {
    let mut machine = Machine::new(1);
    machine.says("mlx5-fatal-error", Status::Fail);
    machine.ms = 5_000;
    machine.look();
    let faults = machine.watch.hard_faults(&machine.policy.rules);
    let after = |seconds: u64| machine.now().mono.after(Duration::from_secs(seconds));
    let count = |seconds: u64| faults_now(&faults, settle(), &[], after(seconds)).unwrap().len();
    assert_eq!(settle(), Duration::from_secs(10));
    assert_eq!((count(0), count(9), count(10)), (0, 0, 1));
}

#[test]
fn by_what_was_read_too_long_ago_nothing_is_said() {
    let second = |s: u64| Mono(s * 1_000_000_000);
    let part = |name, every, read_at| Part { name, every: Duration::from_secs(every), read_at };
    let parts = [part("state", 1, Some(second(100))), part("slow", 60, Some(second(10)))];
    let said =
        |parts: &[Part], at| faults_now(&[], Duration::ZERO, parts, second(at)).map(|faults| faults.len());
    assert_eq!(said(&parts, 130), Ok(0));
    let why = said(&parts, 131).unwrap_err();
    assert!(why.contains("state") && why.contains("31 s"), "{why}");
    let why = said(&[parts[1]], 191).unwrap_err();
    assert!(why.contains("slow") && why.contains("181 s"), "{why}");
    assert!(said(&[part("state", 1, None)], 1).unwrap_err().contains("not looked at yet"));
}
