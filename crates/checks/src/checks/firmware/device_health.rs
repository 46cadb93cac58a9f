//! What do the driver's own health reporters say?

use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use crate::verdict::Verdict;
use rdmascope_model::{Device, Devlink, Finding, HealthReporter, Reading};

const ID: &str = "device-health";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Are the driver's health reporters (devlink) free of errors?",
    meaning: "The driver itself says that firmware, a send queue or a receive queue is stuck, and whether it could recover.",
    causes: &[
        "firmware that stopped (fw_fatal)",
        "queues that hang (tx, rx), often after PCI Express errors",
    ],
    next_steps: &[
        "`devlink health show pci/ADDRESS`; `dmesg -T | grep ADDRESS`; with the node drained: `devlink health recover pci/ADDRESS reporter NAME`.",
    ],
    settles: Settles::AtOnce,
    hard: true,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let devices = look.now.devices.value().into_iter().flatten();
    devices
        .filter(|device| look.policy.judges(device))
        .filter_map(|device| match &device.devlink {
            Reading::Value(devlink) => Some(one(device, devlink)),
            Reading::Absent => None,
            failed => Some(unknown(ID, device.name.clone(), "the health reporters", why(failed))),
        })
        .collect()
}

fn one(device: &Device, devlink: &Devlink) -> Finding {
    let address = device.pci_address.value().map_or("ADDRESS", String::as_str);
    let told = |r: &HealthReporter| format!("{} = {} errors, {} recovered", r.name, r.errors, r.recoveries);
    let evidence: Vec<String> =
        devlink.reporters.iter().filter(|r| r.errors > 0 || r.in_error).map(told).collect();
    let next = format!(
        "`devlink health show pci/{address}`; `dmesg -T | grep {address}`; drain the node, then `devlink dev reload pci/{address}` or a cold start."
    );
    let in_error = devlink.reporters.iter().find(|r| r.in_error);
    let unrecovered = devlink.reporters.iter().find(|r| r.errors > r.recoveries);
    let verdict = if let Some(reporter) = in_error {
        Verdict::fail(format!("health reporter {} is in error", reporter.name), cause(&reporter.name), next)
    } else if let Some(reporter) = unrecovered {
        Verdict::warn(
            format!(
                "health reporter {} counted {} errors and recovered from {}",
                reporter.name, reporter.errors, reporter.recoveries
            ),
            cause(&reporter.name),
            next,
        )
    } else {
        let summary = format!("{} health reporters are healthy", devlink.reporters.len());
        return Finding { evidence, ..ok(ID, device.name.clone(), summary) };
    };
    verdict.finding(ID, device.name.clone(), evidence)
}

fn cause(reporter: &str) -> &'static str {
    if reporter.starts_with("fw") {
        "the card: its firmware met an internal error"
    } else {
        "this host: a queue of the adapter hangs (driver, firmware or PCI Express)"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{device, first};
    use rdmascope_model::{Snapshot, Status};

    fn reporter(m: &mut Snapshot) -> &mut HealthReporter {
        let Reading::Value(devlink) = &mut device(m).devlink else { panic!("no devlink") };
        &mut devlink.reporters[1]
    }

    #[test]
    fn in_error_unrecovered_and_recovered() {
        let found = first(&CHECK, |m| reporter(m).in_error = true).remove(0);
        assert_eq!(found.status, Status::Fail);
        assert!(found.summary.contains("fw_fatal") && found.cause.starts_with("the card"));
        assert_eq!(first(&CHECK, |m| reporter(m).errors = 2)[0].status, Status::Warn);
        let recovered = first(&CHECK, |m| {
            reporter(m).errors = 2;
            reporter(m).recoveries = 2;
        });
        assert_eq!(recovered[0].status, Status::Ok);
        assert_eq!(
            first(&CHECK, |m| device(m).devlink = Reading::failed("EPERM"))[0].status,
            Status::Unknown
        );
    }
}
