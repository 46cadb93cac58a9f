//! Is the port a member of a partition, and a full one of at least one?

use super::infiniband_ports;
use crate::check::{Check, Look, Settles};
use crate::finding::{is_down, ok, port_subject, unknown, why};
use rdmascope_model::{Device, Finding, Port, Reading, Status};

const ID: &str = "partition-keys";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is the InfiniBand port a member of a partition, and a full one of at least one?",
    meaning: "Two ports can talk only inside a common partition, and only when at least one of them is a full member of it.",
    causes: &[
        "the port's GUID is not in the subnet manager's partition list",
        "it stands there as a limited member (meant for clients of a storage system)",
        "a new adapter has another GUID than the one in the list",
    ],
    next_steps: &[
        "`grep . /sys/class/infiniband/DEVICE/ports/PORT/pkeys/*` (or `ibv_devinfo -v`), here and on a healthy node.",
        "The subnet manager's `/etc/opensm/partitions.conf` (or UFM's partitions): is the port's GUID there, as `full`?",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

/// Bit of a P_Key that says full member (InfiniBand Architecture Specification, volume 1, 10.9.1).
const FULL: u16 = 0x8000;

fn judge(look: &Look<'_>) -> Vec<Finding> {
    infiniband_ports(look.now, look.policy)
        .filter(|(_, port)| !is_down(port))
        .filter_map(|(device, port)| one(device, port))
        .collect()
}

fn one(device: &Device, port: &Port) -> Option<Finding> {
    let subject = port_subject(device, port);
    let keys = match &port.pkeys {
        Reading::Value(keys) => keys,
        Reading::Absent => return None,
        missing => return Some(unknown(ID, subject, "the P_Key table", why(missing))),
    };
    let list: Vec<String> = keys.iter().map(|key| format!("{key:#06x}")).collect();
    let list = list.join(", ");
    let (status, summary, cause) = if keys.is_empty() {
        (
            Status::Fail,
            "the port is a member of no partition: its P_Key table is empty".to_owned(),
            "a setting of the fabric: the subnet manager took the port out of every partition, or has not configured it yet",
        )
    } else if keys.iter().all(|key| key & FULL == 0) {
        (
            Status::Warn,
            format!(
                "the port is a limited member of every partition ({list}): it reaches full members only, and no port like itself"
            ),
            "a setting of the fabric: the subnet manager's partition list has this GUID as limited, or has only the default for it",
        )
    } else {
        return Some(ok(ID, subject, format!("partitions {list}")));
    };
    Some(Finding {
        id: ID.into(),
        status,
        subject,
        summary,
        cause: cause.to_owned(),
        next_step: format!(
            "Compare with a healthy node: `grep . /sys/class/infiniband/{}/ports/{}/pkeys/* | grep -v 0x0000`; then the subnet manager's \
             `partitions.conf` for this GUID (`=full`).",
            device.name, port.number
        ),
        evidence: vec![format!("pkeys = {}", if list.is_empty() { "none" } else { &list })],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use rdmascope_fixtures::snapshot::{infiniband, roce};

    fn seen(keys: Reading<Vec<u16>>) -> Vec<Finding> {
        let mut machine = infiniband(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].pkeys = keys;
        judge(&Look::first(&machine, &Policy::default()))
    }

    #[test]
    fn membership_is_judged() {
        assert_eq!(seen(Reading::Value(vec![0xffff]))[0].status, Status::Ok);
        // A cloud's tenant: full member of its own partition, limited member of the default one.
        assert_eq!(seen(Reading::Value(vec![0x8021, 0x7fff]))[0].status, Status::Ok);
        let limited = seen(Reading::Value(vec![0x7fff])).remove(0);
        assert_eq!((limited.status, limited.summary.contains("0x7fff")), (Status::Warn, true));
        assert_eq!(seen(Reading::Value(vec![]))[0].status, Status::Fail);
        assert_eq!(seen(Reading::failed("EIO"))[0].status, Status::Unknown);
        assert!(seen(Reading::Absent).is_empty());
    }

    #[test]
    fn roce_has_a_table_that_means_nothing() {
        let mut machine = roce(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].pkeys = Reading::Value(vec![]);
        assert!(judge(&Look::first(&machine, &Policy::default())).is_empty());
    }
}
