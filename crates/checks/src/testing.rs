//! Machines that are looked at once or twice, for the tests of checks.

use crate::Look;
use crate::{Check, Past, Policy};
use rdmascope_fixtures::snapshot::roce;
use rdmascope_model::{Device, Finding, Mono, Netdev, Reading, Snapshot};
use std::time::Duration;

/// What a check says of a machine with one RoCE port.
pub(crate) fn first(check: &Check, edit: impl Fn(&mut Snapshot)) -> Vec<Finding> {
    with(check, &Policy::default(), edit)
}

/// The same with a policy.
pub(crate) fn with(check: &Check, policy: &Policy, edit: impl Fn(&mut Snapshot)) -> Vec<Finding> {
    let mut machine = roce(1);
    edit(&mut machine);
    (check.judge)(&Look::first(&machine, policy))
}

/// What it says at a second look, `seconds` later.
pub(crate) fn again(
    check: &Check,
    seconds: u64,
    before: impl Fn(&mut Snapshot),
    after: impl Fn(&mut Snapshot),
) -> Vec<Finding> {
    let (mut earlier, mut now, mut past) = (roce(1), roce(1), Past::new());
    before(&mut earlier);
    after(&mut now);
    past.observe(&earlier, Mono::default());
    past.observe(&now, Mono::default().after(Duration::from_secs(seconds)));
    (check.judge)(&Look { past: &past, ..Look::first(&now, &Policy::default()) })
}

/// Statistics that stood at 0, `seconds` ago.
pub(crate) fn statistics_rose(check: &Check, seconds: u64, to: &[(&str, u64)]) -> Finding {
    let zeros: Vec<_> = to.iter().map(|(name, _)| (*name, 0)).collect();
    again(check, seconds, |m| statistics(m, &zeros), |m| statistics(m, to)).remove(0)
}

/// Port counters that stood at 0, `seconds` ago.
pub(crate) fn counters_rose(check: &Check, seconds: u64, to: &[(&str, u64)]) -> Finding {
    let zeros: Vec<_> = to.iter().map(|(name, _)| (*name, 0)).collect();
    again(check, seconds, |m| counters(m, &zeros), |m| counters(m, to)).remove(0)
}

pub(crate) fn statistics(machine: &mut Snapshot, values: &[(&str, u64)]) {
    let Reading::Value(all) = &mut eth0(machine).statistics else { panic!("no statistics") };
    all.extend(values.iter().map(|(name, v)| ((*name).to_owned(), *v)));
}

pub(crate) fn counters(machine: &mut Snapshot, values: &[(&str, u64)]) {
    let all = values.iter().map(|(name, v)| ((*name).to_owned(), Reading::Value(*v)));
    device(machine).ports[0].counters.extend(all);
}

pub(crate) fn device(machine: &mut Snapshot) -> &mut Device {
    let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
    &mut devices[0]
}

pub(crate) fn eth0(machine: &mut Snapshot) -> &mut Netdev {
    netdev(machine, "eth0")
}

pub(crate) fn netdev<'a>(machine: &'a mut Snapshot, name: &str) -> &'a mut Netdev {
    let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
    netdevs.get_mut(name).expect("the machine has it")
}

pub(crate) fn dcb(machine: &mut Snapshot) -> &mut rdmascope_model::Dcb {
    let Reading::Value(dcb) = &mut eth0(machine).dcb else { panic!("no DCB") };
    dcb
}
