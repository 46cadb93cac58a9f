//! Does PCI Express report errors on the way to an adapter?

use super::bridges;
use crate::check::{Check, Look, Settles};
use crate::finding::{unknown, why};
use crate::verdict::{Verdict, or_none};
use crate::watch::{HOUR, MINUTE, Moved, by_rate, per, seen};
use crate::{Source, limits};
use rdmascope_model::{Finding, PciFunction, Reading};
use std::collections::BTreeMap;

const ID: &str = "pci-errors";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Does PCI Express report errors on the way to an RDMA adapter?",
    meaning: "Corrected errors cost bandwidth, for packets are sent again; uncorrected ones lose data or the card.",
    causes: &[
        "the card does not sit well in its slot, a bad riser or retimer",
        "a card or slot that is about to fail",
    ],
    next_steps: &[
        "`grep . /sys/bus/pci/devices/ADDRESS/aer_dev_*`; `dmesg -T | grep -i aer`; reseat the card, then another slot.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&limits::PCI_REPLAYS_WARN_PER_MINUTE],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let all = match &look.now.pci {
        Reading::Value(all) => all,
        Reading::Absent => return Vec::new(),
        failed => return vec![unknown(ID, "machine".to_owned(), "the PCI functions", why(failed))],
    };
    let judged = look.now.devices.value().into_iter().flatten().filter(|device| look.policy.judges(device));
    let mut path: BTreeMap<&str, &PciFunction> = BTreeMap::new();
    for address in judged.filter_map(|device| device.pci_address.value()) {
        path.extend(all.get_key_value(address).map(|(address, function)| (address.as_str(), function)));
        path.extend(bridges(all, address));
    }
    or_none(
        path.into_iter().filter_map(|(address, function)| one(look, address, function)).collect(),
        ID,
        "no RDMA adapter on PCI Express that reports errors",
    )
}

fn one(look: &Look<'_>, address: &str, function: &PciFunction) -> Option<Finding> {
    let subject = format!("pci {address}");
    let errors = match &function.errors {
        Reading::Value(errors) => errors,
        Reading::Absent => return None,
        failed => return Some(unknown(ID, subject, "the PCI Express errors", why(failed))),
    };
    if errors.is_empty() {
        return Some(crate::finding::ok(ID, subject, "no PCI Express error since boot".to_owned()));
    }
    let counters = errors.iter().map(|(name, count)| (name.clone(), Reading::Value(*count))).collect();
    let watched = seen(look, &Source::Pci(address.to_owned()), counters, HOUR);
    Some(by_rate(ID, subject, "PCI Express errors", watched, |moved| verdict(look, moved, address)))
}

fn verdict(look: &Look<'_>, moved: &Moved, address: &str) -> Option<Verdict> {
    let rose = |kind: &str| {
        let of_kind =
            moved.rises.iter().filter(|(name, _)| name.starts_with(kind) && !name.contains("TOTAL"));
        of_kind.map(|(_, count)| *count).sum::<u64>()
    };
    let next = format!(
        "`grep . /sys/bus/pci/devices/{address}/aer_dev_*`; `dmesg -T | grep -i -e aer -e {address}`; reseat the card, then another slot or riser."
    );
    let cause = "this host: how the card sits, its slot or riser, or the card itself";
    let uncorrected = rose("fatal/") + rose("nonfatal/");
    if uncorrected > 0 {
        return Some(Verdict::fail(
            format!("{uncorrected} uncorrected PCI Express errors within the last hour"),
            cause,
            next,
        ));
    }
    let rate = per(rose("correctable/"), moved.over, MINUTE);
    (rate > look.policy.limit(&limits::PCI_REPLAYS_WARN_PER_MINUTE))
        .then(|| Verdict::warn(format!("{rate:.0} corrected PCI Express errors a minute"), cause, next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{again, first};
    use rdmascope_model::{Snapshot, Status};

    fn set(m: &mut Snapshot, address: &str, name: &str, count: u64) {
        let Reading::Value(all) = &mut m.pci else { panic!("no PCI") };
        all.get_mut(address).unwrap().errors = Reading::Value(BTreeMap::from([(name.to_owned(), count)]));
    }

    #[test]
    fn by_kind_and_rate() {
        let seen = |name, count: u64| {
            let found = again(
                &CHECK,
                60,
                |m| set(m, "0000:3a:00.0", name, 7),
                |m| set(m, "0000:3a:00.0", name, 7 + count),
            );
            found.into_iter().find(|f| f.subject == "pci 0000:3a:00.0").unwrap().status
        };
        assert_eq!(seen("correctable/BadTLP", 0), Status::Ok);
        assert_eq!(seen("correctable/BadTLP", 10), Status::Ok);
        assert_eq!(seen("correctable/BadTLP", 11), Status::Warn);
        assert_eq!(seen("nonfatal/CmpltTO", 1), Status::Fail);
    }

    #[test]
    fn old_errors_are_history_and_unread_ones_unknown() {
        let found = first(&CHECK, |m| set(m, "0000:3b:00.0", "fatal/DLP", 3));
        assert!(found.iter().all(|f| f.status == Status::Ok));
        assert_eq!(first(&CHECK, |m| m.pci = Reading::failed("EIO"))[0].status, Status::Unknown);
    }
}
