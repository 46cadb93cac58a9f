//! Has the network device under a RoCE port the MTU that policy asks for?

use crate::check::{Check, Look, Settles};
use crate::finding::{is_not_ethernet, netdev_under, ok, port_subject, ports, unknown, why};
use crate::limits;
use rdmascope_model::{Finding, Netdev, Reading, Status};

const ID: &str = "netdev-mtu";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Has the network device under a RoCE port the MTU that policy asks for?",
    meaning: "One node with a small MTU makes large messages of its pairs slow, or lost without a word.",
    causes: &["never set, or set back by a network manager, a driver reload, or a new bond or VLAN"],
    next_steps: &[
        "`ip link set dev NETDEV mtu 9000`, and on the bond or VLAN above it, on the switch port, and in the network manager's files.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&limits::NETDEV_MTU],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let (snapshot, policy) = (look.now, look.policy);
    ports(snapshot, policy)
        .filter(|(_, port)| !is_not_ethernet(port))
        .map(|(device, port)| match netdev_under(snapshot, port) {
            Ok((name, netdev)) => {
                let expected = policy.manifest.of(device, Some(port)).netdev_mtu;
                one(name, netdev, expected.unwrap_or_else(|| policy.whole(&limits::NETDEV_MTU)))
            }
            Err(why) => unknown(ID, port_subject(device, port), "the network device's MTU", &why),
        })
        .collect()
}

fn one(name: &str, netdev: &Netdev, expected: u32) -> Finding {
    let subject = format!("netdev {name}");
    let mtu = match &netdev.mtu {
        Reading::Value(mtu) if *mtu == expected => return ok(ID, subject, format!("MTU {mtu}, as expected")),
        Reading::Value(mtu) => *mtu,
        missing => return unknown(ID, subject, "the device's MTU", why(missing)),
    };
    let (status, cause) = if mtu < expected {
        (Status::Fail, "never set, or set back by a network manager, a driver reload or a new bond or VLAN")
    } else {
        (
            Status::Warn,
            "set by hand or by another policy; peers and switches with less drop its largest packets in silence",
        )
    };
    Finding {
        id: ID.into(),
        status,
        subject,
        summary: format!("MTU {mtu}, {expected} expected"),
        cause: cause.to_owned(),
        next_step: format!(
            "`ip link set dev {name} mtu {expected}` (and on the bond or VLAN above it), in the network manager's files too, and \
             on the switch port; where {mtu} is right, set the expected MTU in the manifest or the policy."
        ),
        evidence: vec![format!("mtu = {mtu}")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::manifest::{Expectation, Manifest};
    use rdmascope_fixtures::snapshot::{infiniband, roce};

    fn seen(mtu: Reading<u32>, policy: &Policy) -> Finding {
        let mut machine = roce(1);
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        netdevs.get_mut("eth0").unwrap().mtu = mtu;
        judge(&Look::first(&machine, policy)).remove(0)
    }

    #[test]
    fn judged_by_policy() {
        let default = Policy::default();
        assert_eq!(seen(Reading::Value(9000), &default).status, Status::Ok);
        let low = seen(Reading::Value(1500), &default);
        assert_eq!((low.status, low.summary.as_str()), (Status::Fail, "MTU 1500, 9000 expected"));
        assert!(low.next_step.contains("ip link set dev eth0 mtu 9000"));
        assert_eq!(seen(Reading::Value(9216), &default).status, Status::Warn);
        let mut cloud = Policy::default();
        assert!(cloud.limits.set("netdev_mtu", 4220.0));
        assert_eq!(seen(Reading::Value(4220), &cloud).status, Status::Ok);
        // A row of the manifest is more exact than the policy.
        let row = Expectation { device: "mlx5_0".into(), netdev_mtu: Some(8896), ..Expectation::default() };
        cloud.manifest = Manifest { rows: vec![row] };
        assert_eq!(seen(Reading::Value(8896), &cloud).status, Status::Ok);
        assert_eq!(seen(Reading::Value(4220), &cloud).summary, "MTU 4220, 8896 expected");
    }

    #[test]
    fn unread_is_unknown_and_infiniband_is_never_judged() {
        assert_eq!(seen(Reading::Failed("EIO".into()), &Policy::default()).status, Status::Unknown);
        assert!(judge(&Look::first(&infiniband(1), &Policy::default())).is_empty());
    }
}
