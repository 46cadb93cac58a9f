//! Is the network device under a RoCE port up, and has it a carrier?

use crate::check::{Check, Look, Settles};
use crate::duty::{Duty, links};
use crate::finding::{is_not_ethernet, netdev_under, ok, port_subject, unknown, why};
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
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let snapshot = look.now;
    links(snapshot, look.policy)
        // An IPoIB device may be down while its port works.
        .filter(|(_, port, _)| !is_not_ethernet(port))
        .map(|(device, port, duty)| {
            let used = look.past.was_active(&device.name, port.number);
            let spare = match duty {
                Duty::MeantDown => Some("meant to be down"),
                Duty::Unused(_) if !used => Some("not in use: it never had a link"),
                _ => None,
            };
            match netdev_under(snapshot, port) {
                Ok((name, netdev)) => one(name, netdev, spare),
                Err(why) => {
                    unknown(ID, port_subject(device, port), "the network device under the port", &why)
                }
            }
        })
        .collect()
}

/// `spare` says why the device may be down.
fn one(name: &str, netdev: &Netdev, spare: Option<&str>) -> Finding {
    let subject = format!("netdev {name}");
    let (summary, cause, next_step) = match (&netdev.admin_up, &netdev.carrier) {
        (Reading::Value(true), Reading::Value(true)) => {
            return ok(ID, subject, format!("{name} is up and has a carrier"));
        }
        (Reading::Value(up), carrier) if spare.is_some() && !(*up && carrier.value().is_none()) => {
            return ok(ID, subject, format!("{name} is down, and {}", spare.unwrap_or_default()));
        }
        (Reading::Value(false), _) => (
            format!("{name} is switched off"),
            "somebody or a network manager set it down, or nothing brought it up at start".to_owned(),
            format!(
                "`ip link set dev {name} up`, then see who manages it: `networkctl status {name}`, `nmcli device show {name}`."
            ),
        ),
        (_, Reading::Value(false)) => (
            format!("{name} is up and has no carrier{}", reason(netdev)),
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
    let mut evidence = vec![format!("operstate = {oper_state}")];
    if let Reading::Value(reason) = &netdev.ethtool.link_down_reason {
        evidence.push(format!("reason of the driver = {reason}"));
    }
    Finding { id: ID.into(), status: Status::Fail, subject, summary, cause, next_step, evidence }
}

/// What the driver says of a missing link, as the end of a sentence.
fn reason(netdev: &Netdev) -> String {
    match (&netdev.ethtool.link_down_reason, &netdev.module) {
        (Reading::Value(reason), _) => format!(": {reason}"),
        (_, Reading::Absent) => ": no module or cable is plugged in".to_owned(),
        _ => String::new(),
    }
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

    /// C089: no module is plugged in; the driver may say so, and where it does not, the missing module does.
    #[test]
    fn c089_a_missing_module_is_named() {
        let dark = |reason: Reading<String>| {
            seen(move |netdev| {
                netdev.carrier = Reading::Value(false);
                netdev.module = Reading::Absent;
                netdev.ethtool.speed_mbps = Reading::Absent;
                netdev.ethtool.link_down_reason = reason;
            })
        };
        let found = dark(Reading::Absent);
        assert_eq!(found.status, Status::Fail);
        assert_eq!(found.summary, "eth0 is up and has no carrier: no module or cable is plugged in");
        assert!(dark(Reading::Value("no cable".into())).summary.ends_with(": no cable"));
    }

    #[test]
    fn a_port_that_is_meant_to_be_down_may_be() {
        use crate::manifest::{Expectation, Manifest};
        let mut machine = roce(1);
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        netdevs.get_mut("eth0").unwrap().carrier = Reading::Value(false);
        let row = Expectation { device: "mlx5_0".into(), down: Some(true), ..Expectation::default() };
        let policy = Policy { manifest: Manifest { rows: vec![row] }, ..Policy::default() };
        let found = judge(&Look::first(&machine, &policy)).remove(0);
        assert_eq!(
            (found.status, found.summary.as_str()),
            (Status::Ok, "eth0 is down, and meant to be down")
        );
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        netdevs.get_mut("eth0").unwrap().carrier = Reading::failed("EIO");
        assert_eq!(judge(&Look::first(&machine, &policy))[0].status, Status::Unknown);
    }
}
