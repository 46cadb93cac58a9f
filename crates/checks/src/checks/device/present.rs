//! Is there any RDMA device at all, and is every device there that the operator named?

use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use rdmascope_model::{Finding, Reading, Status};

const ID: &str = "device-present";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is there any RDMA device, and is every device there that the operator named?",
    meaning: "Without its device a node cannot take part in any RDMA job; with one missing, jobs lose a rail or fall back to TCP.",
    causes: &[
        "the RDMA driver is not loaded or failed",
        "RoCE is switched off on the adapter (devlink enable_roce)",
        "the adapter dropped off the PCI bus",
        "the device has another name since the last start",
    ],
    next_steps: &[
        "See what is there: `rdma dev`, `lspci -nn | grep -Ei \"infiniband|ethernet\"`.",
        "See what is loaded and what failed: `lsmod | grep -E \"mlx5_ib|irdma|bnxt_re\"`, `dmesg`.",
    ],
    settles: Settles::AtOnce,
    hard: true,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let (snapshot, policy) = (look.now, look.policy);
    let names: Vec<&str> = match &snapshot.devices {
        Reading::Value(devices) => devices.iter().map(|device| device.name.as_str()).collect(),
        Reading::Absent => Vec::new(),
        Reading::Failed(_) => {
            return vec![unknown(
                ID,
                "machine".to_owned(),
                "the list of RDMA devices",
                why(&snapshot.devices),
            )];
        }
    };
    let missing = policy.devices.iter().filter(|wanted| !names.contains(&wanted.as_str()));
    let mut findings: Vec<Finding> = missing.map(|wanted| absent(wanted, &names)).collect();
    let pinned = policy.manifest.missing(snapshot.devices.value().map_or(&[], Vec::as_slice));
    for (wanted, unread) in
        pinned.into_iter().filter(|(wanted, _)| !policy.devices.iter().any(|d| d == wanted))
    {
        findings.push(match unread {
            None => absent(wanted, &names),
            Some(why) => unknown(ID, wanted.to_owned(), "whether the manifest's device is there", why),
        });
    }
    if names.is_empty() && findings.is_empty() {
        findings.push(none(snapshot.devices == Reading::Absent));
    }
    if findings.is_empty() {
        let plural = if names.len() == 1 { "" } else { "s" };
        let summary = format!("{} RDMA device{plural}: {}", names.len(), names.join(", "));
        findings.push(ok(ID, "machine".to_owned(), summary));
    }
    findings
}

fn none(no_subsystem: bool) -> Finding {
    let summary = if no_subsystem {
        "the kernel has no RDMA subsystem loaded (no /sys/class/infiniband)"
    } else {
        "the kernel lists no RDMA device"
    };
    Finding {
        id: ID.into(),
        status: Status::Fail,
        subject: "machine".to_owned(),
        summary: summary.to_owned(),
        cause: "the RDMA driver is not loaded (mlx5_ib, irdma, bnxt_re, rdma_rxe), RoCE is switched off on the adapter, or the \
                adapter did not come up"
            .to_owned(),
        next_step: "See what is there and what failed: `rdma dev`, `lspci -nn | grep -Ei 'infiniband|ethernet'`, \
                    `lsmod | grep -E 'mlx5_ib|irdma|bnxt_re|rdma_rxe'`, `devlink dev param show` (enable_roce), `dmesg`."
            .to_owned(),
        evidence: vec![format!("/sys/class/infiniband = {}", if no_subsystem { "not there" } else { "empty" })],
    }
}

fn absent(wanted: &str, names: &[&str]) -> Finding {
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Finding {
        id: ID.into(),
        status: Status::Fail,
        subject: wanted.to_owned(),
        summary: format!("the RDMA device {wanted} is not there"),
        cause: "the adapter dropped off the bus, its driver was removed or failed, or the device has another name since the last \
                start"
            .to_owned(),
        next_step: "See what is there: `rdma dev`, `ls -l /sys/class/infiniband`, `lspci`, and the kernel log: `dmesg | grep -i mlx5`."
            .to_owned(),
        evidence: vec![format!("RDMA devices = {there}")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::manifest::{Expectation, Manifest, PortRole};
    use rdmascope_fixtures::snapshot::roce;

    fn only(devices: &[&str]) -> Policy {
        Policy { devices: devices.iter().map(|d| (*d).to_owned()).collect(), ..Policy::default() }
    }

    #[test]
    fn devices_are_listed() {
        let found = judge(&Look::first(&roce(2), &Policy::default()));
        assert_eq!(
            (found[0].status, found[0].summary.as_str()),
            (Status::Ok, "2 RDMA devices: mlx5_0, mlx5_1")
        );
    }

    #[test]
    fn no_device_is_a_finding_and_not_silence() {
        let mut machine = roce(0);
        assert_eq!(judge(&Look::first(&machine, &Policy::default()))[0].status, Status::Fail);
        machine.devices = Reading::Absent;
        let found = judge(&Look::first(&machine, &Policy::default()));
        assert_eq!(found[0].status, Status::Fail);
        assert!(found[0].summary.contains("no RDMA subsystem"));
    }

    #[test]
    fn a_list_that_cannot_be_read_is_unknown() {
        let mut machine = roce(1);
        machine.devices = Reading::Failed("permission denied".into());
        let found = judge(&Look::first(&machine, &Policy::default()));
        assert_eq!(found[0].status, Status::Unknown);
        assert!(found[0].summary.contains("permission denied"));
    }

    #[test]
    fn a_named_device_that_is_missing_is_named() {
        let found = judge(&Look::first(&roce(1), &only(&["mlx5_0", "mlx5_7"])));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].status, found[0].subject.as_str()), (Status::Fail, "mlx5_7"));
        assert_eq!(found[0].evidence, ["RDMA devices = mlx5_0"]);
    }

    #[test]
    fn a_device_that_the_manifest_pins_by_name_or_slot_must_be_there() {
        let pin = |device: &str, role| Expectation { device: device.into(), role, ..Expectation::default() };
        let rows = vec![
            pin("mlx5_0", None),
            pin("0000:3b:00.0", None),
            pin("mlx5_*", None),
            pin("mlx5_8", Some(PortRole::Ignore)),
            pin("0000:5e:00.0", None),
        ];
        let policy = Policy { manifest: Manifest { rows }, ..Policy::default() };
        let mut machine = roce(1);
        let found = judge(&Look::first(&machine, &policy));
        let seen: Vec<_> = found.iter().map(|f| (f.subject.as_str(), f.status)).collect();
        assert_eq!(seen, [("0000:5e:00.0", Status::Fail)]);
        // A device whose slot could not be read may be the one.
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].pci_address = Reading::failed("EIO");
        let found = judge(&Look::first(&machine, &policy));
        assert!(found.iter().all(|f| f.status == Status::Unknown) && found.len() == 2, "{found:?}");
    }
}
