//! Is the firmware the expected one, the same on equal cards, and alive?

use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use crate::verdict::Verdict;
use rdmascope_model::{Device, Finding, Function, Reading};
use std::collections::BTreeMap;

const ID: &str = "firmware-version";

/// What a card that does not answer on PCI Express reads as: all bits set, three times 16.
const DEAD: &str = "65535.65535.65535";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is the firmware the expected one, and the same on equal cards?",
    meaning: "Different firmware means different congestion control and different faults; a version of 65535 means that the card is gone.",
    causes: &[
        "an update that reached some cards only, or waits for a reset",
        "a card that was replaced",
        "a card that fell off PCI Express",
    ],
    next_steps: &[
        "`devlink dev info pci/ADDRESS` (running and stored); `cat /sys/class/infiniband/DEVICE/fw_ver`.",
        "Update: `flint` or `mlxfwmanager`, then `mlxfwreset -d ADDRESS reset` or a cold start, with the node drained.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let judged: Vec<&Device> = look
        .now
        .devices
        .value()
        .into_iter()
        .flatten()
        .filter(|device| look.policy.judges(device))
        .filter(|device| {
            !matches!(device.function, Reading::Value(Function::Representor | Function::Software))
        })
        .collect();
    let mut versions: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for device in &judged {
        if let (Reading::Value(board), Reading::Value(version)) = (&device.board, &device.firmware) {
            *versions.entry(board).or_default().entry(version).or_default() += 1;
        }
    }
    judged.iter().filter_map(|device| one(look, device, &versions)).collect()
}

fn one(
    look: &Look<'_>,
    device: &Device,
    versions: &BTreeMap<&str, BTreeMap<&str, usize>>,
) -> Option<Finding> {
    let subject = device.name.clone();
    let version = match &device.firmware {
        Reading::Value(version) => version.as_str(),
        Reading::Absent => return None,
        failed => return Some(unknown(ID, subject, "the firmware version", why(failed))),
    };
    let board = device.board.value().map_or("", String::as_str);
    let address = device.pci_address.value().map_or("ADDRESS", String::as_str);
    let mut evidence = vec![format!("firmware = {version}"), format!("board = {board}")];
    let next = format!(
        "`devlink dev info pci/{address}`; update with `mlxfwmanager`, then `mlxfwreset -d {address} reset` on the drained node."
    );
    let expected = look.policy.manifest.of(device, None).firmware.filter(|expected| expected != version);
    let unlike = versions.get(board).filter(|_| !board.is_empty()).and_then(|all| {
        let own = all.get(version).copied().unwrap_or(0);
        all.iter().find(|(other, count)| **other != version && **count >= own).map(|(other, _)| *other)
    });
    let verdict = if version == DEAD {
        Verdict::fail(
            format!("{} reads firmware {DEAD}: the card does not answer", device.name),
            "the card: it fell off PCI Express, or its firmware stopped",
            format!(
                "`dmesg -T | grep {address}`; `lspci -s {address} -xxx | head -3` (all ff?); cold start of the node; then replace the card."
            ),
        )
    } else if let Some(expected) = expected {
        Verdict::fail(
            format!("firmware {version}, {expected} expected"),
            "an update that did not reach this card, or a replaced card",
            next,
        )
    } else if let Some((running, stored)) = pending(device) {
        evidence.push(format!("stored = {stored}"));
        Verdict::warn(
            format!("firmware {running} runs, {stored} is stored and waits for a reset"),
            "an update without the reset that it needs",
            next,
        )
    } else if let Some(other) = unlike {
        Verdict::warn(
            format!("firmware {version} here, {other} on an equal card of this host"),
            "an update that reached some cards only, or a replaced card",
            next,
        )
    } else {
        return Some(Finding { evidence, ..ok(ID, subject, format!("firmware {version}")) });
    };
    Some(verdict.finding(ID, subject, evidence))
}

/// A stored version that is not the running one.
fn pending(device: &Device) -> Option<(&str, &str)> {
    let devlink = device.devlink.value()?;
    let differs = |(name, stored): (&String, &'_ String)| {
        devlink.running.get(name).is_some_and(|running| running != stored)
    };
    let (name, stored) = devlink.stored.iter().find(|(name, stored)| differs((name, stored)))?;
    Some((devlink.running.get(name)?, stored))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::manifest::{Expectation, Manifest};
    use crate::testing::{device, first, with};
    use rdmascope_fixtures::snapshot::roce;
    use rdmascope_model::Status;

    #[test]
    fn a_dead_card_and_another_version_than_the_manifests() {
        let found = first(&CHECK, |m| device(m).firmware = Reading::Value(DEAD.into())).remove(0);
        assert_eq!(found.status, Status::Fail);
        let row =
            Expectation { device: "*".into(), firmware: Some("28.43.1014".into()), ..Expectation::default() };
        let policy = Policy { manifest: Manifest { rows: vec![row] }, ..Policy::default() };
        assert_eq!(with(&CHECK, &policy, |_| ())[0].status, Status::Fail);
    }

    #[test]
    fn an_update_that_waits_for_its_reset() {
        let found = first(&CHECK, |m| {
            let Reading::Value(devlink) = &mut device(m).devlink else { panic!("no devlink") };
            devlink.stored.insert("fw.version".into(), "28.43.1014".into());
        })
        .remove(0);
        assert_eq!((found.status, found.summary.contains("28.43.1014 is stored")), (Status::Warn, true));
    }

    #[test]
    fn equal_cards_with_two_versions() {
        let mut machine = roce(3);
        device(&mut machine).firmware = Reading::Value("28.39.1002".into());
        let found = judge(&Look::first(&machine, &Policy::default()));
        let seen: Vec<_> = found.iter().map(|f| f.status).collect();
        assert_eq!(seen, [Status::Warn, Status::Ok, Status::Ok]);
        assert_eq!(first(&CHECK, |m| device(m).firmware = Reading::failed("EIO"))[0].status, Status::Unknown);
    }
}
