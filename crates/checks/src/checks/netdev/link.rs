//! Is the network device under a RoCE port up, and has it a carrier?

use crate::check::{Check, Look, Settles};
use crate::finding::{is_not_ethernet, netdev_under, ok, port_subject, ports, unknown, why};
use rdmascope_model::{Finding, Netdev, Reading, Status};

const ID: &str = "netdev-link";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is the network device under the port up and has it a carrier?",
    meaning: "RoCE and iWARP ports follow their network device: without it they are down.",
    causes: &["switched off by an operator or a network manager", "no cable, or the other end is off"],
    next_steps: &[
        "`ip -d link show dev NETDEV`; `ip link set dev NETDEV up` where it is off.",
        "`ethtool NETDEV`, `ethtool -m NETDEV`, and the switch port.",
    ],
    settles: Settles::AfterDebounce,
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let (snapshot, policy) = (look.now, look.policy);
    ports(snapshot, policy)
        // An IPoIB device may be down while its port works.
        .filter(|(_, port)| !is_not_ethernet(port))
        .map(|(device, port)| match netdev_under(snapshot, port) {
            Ok((name, netdev)) => one(name, netdev),
            Err(why) => unknown(ID, port_subject(device, port), "the network device under the port", &why),
        })
        .collect()
}

fn one(name: &str, netdev: &Netdev) -> Finding {
    let subject = format!("netdev {name}");
    let (summary, cause, next_step) = match (&netdev.admin_up, &netdev.carrier) {
        (Reading::Value(true), Reading::Value(true)) => {
            return ok(ID, subject, format!("{name} is up and has a carrier"));
        }
        (Reading::Value(false), _) => (
            format!("{name} is switched off"),
            "somebody or a network manager set it down, or nothing brought it up at start".to_owned(),
            format!(
                "`ip link set dev {name} up`, then see who manages it: `networkctl status {name}`, `nmcli device show {name}`."
            ),
        ),
        (_, Reading::Value(false)) => (
            format!("{name} is up and has no carrier"),
            "cable, transceiver or switch port; or the two ends do not agree on speed or FEC".to_owned(),
            format!(
                "Check the cable and the switch port: `ethtool {name}`, `ethtool -m {name}`, `ip -s -s link show dev {name}`."
            ),
        ),
        (missing, _) if missing.value().is_none() => {
            return unknown(ID, subject, "whether the device is up", why(missing));
        }
        (_, missing) => return unknown(ID, subject, "the device's carrier", why(missing)),
    };
    let oper_state = netdev.oper_state.value().map_or_else(|| why(&netdev.oper_state), String::as_str);
    let evidence = vec![format!("operstate = {oper_state}")];
    Finding { id: ID.into(), status: Status::Fail, subject, summary, cause, next_step, evidence }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use rdmascope_fixtures::snapshot::{infiniband, roce};

    fn seen(change: impl FnOnce(&mut Netdev)) -> Finding {
        let mut machine = roce(1);
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        change(netdevs.get_mut("eth0").unwrap());
        judge(&Look::first(&machine, &Policy::default())).remove(0)
    }

    #[test]
    fn switched_off_and_no_carrier_are_two_things() {
        assert_eq!(seen(|_| {}).status, Status::Ok);
        let off = seen(|n| n.admin_up = Reading::Value(false));
        assert_eq!((off.status, off.summary.as_str()), (Status::Fail, "eth0 is switched off"));
        let dark = seen(|n| n.carrier = Reading::Value(false));
        assert_eq!((dark.status, dark.summary.as_str()), (Status::Fail, "eth0 is up and has no carrier"));
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        assert_eq!(seen(|n| n.admin_up = Reading::Failed("EIO".into())).status, Status::Unknown);
        assert_eq!(seen(|n| n.carrier = Reading::Failed("EIO".into())).status, Status::Unknown);
        let mut machine = roce(1);
        machine.netdevs = Reading::Failed("no netlink".into());
        let found = judge(&Look::first(&machine, &Policy::default()));
        assert_eq!((found[0].status, found[0].subject.as_str()), (Status::Unknown, "mlx5_0/1"));
        assert!(found[0].summary.contains("no netlink"));
    }

    #[test]
    fn infiniband_ports_are_not_asked() {
        assert!(judge(&Look::first(&infiniband(1), &Policy::default())).is_empty());
    }
}
