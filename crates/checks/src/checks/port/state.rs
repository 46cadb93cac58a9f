//! Is the port ACTIVE?

use crate::check::{Check, Look, Settles};
use crate::finding::{is_not_ethernet, ok, port_subject, ports, unknown, why};
use rdmascope_model::{Device, Finding, Port, PortState, Reading, Status};

const ID: &str = "port-state";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is the port ACTIVE?",
    meaning: "A port that is not ACTIVE carries no RDMA traffic: every connection over it fails or hangs.",
    causes: &[
        "cable, transceiver or switch port",
        "the network device is switched off",
        "InfiniBand: no subnet manager reaches the port",
    ],
    next_steps: &[
        "See both ends: `rdma link`, `ip -s link show dev NETDEV`, `ethtool NETDEV`, and the switch port.",
        "InfiniBand: `sminfo`, `ibstat`, and the log of the subnet manager.",
    ],
    settles: Settles::AfterDebounce,
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let (snapshot, policy) = (look.now, look.policy);
    ports(snapshot, policy).map(|(device, port)| one(device, port)).collect()
}

fn one(device: &Device, port: &Port) -> Finding {
    let subject = port_subject(device, port);
    let state = match &port.state {
        Reading::Value(PortState::Active) => return ok(ID, subject, "the port is ACTIVE".to_owned()),
        Reading::Value(PortState::Other(word)) => {
            return unknown(
                ID,
                subject,
                "the port's state",
                &format!("the kernel says '{word}', which is not known here"),
            );
        }
        Reading::Value(state) => state,
        Reading::Absent | Reading::Failed(_) => {
            return unknown(ID, subject, "the port's state", why(&port.state));
        }
    };
    let netdev = port.netdev.value().map_or("NETDEV", String::as_str);
    let (status, cause, next_step) = match state {
        PortState::Init | PortState::Armed if !is_not_ethernet(port) => (
            Status::Fail,
            "the link is up but the driver has not brought the port up".to_owned(),
            format!("See the kernel log for the driver (`dmesg | grep {}`), and `rdma link`.", device.name),
        ),
        PortState::Init | PortState::Armed => (
            Status::Fail,
            "the subnet manager does not run, or does not reach this port".to_owned(),
            "Ask who answers: `sminfo`, `ibstat`; look at the subnet manager's log (opensm, UFM).".to_owned(),
        ),
        PortState::ActiveDefer => (
            Status::Warn,
            "the link failed a moment ago and the port waits for it to come back".to_owned(),
            "Look again in a minute; if it stays, check cable and transceiver: `rdma link`.".to_owned(),
        ),
        _ => (
            Status::Fail,
            "no link: cable, transceiver or switch port, or the network device is switched off".to_owned(),
            format!(
                "See both ends: `rdma link`, `ip -s link show dev {netdev}`, `ethtool {netdev}`, `ethtool -m {netdev}`, and the \
                 switch port. If the port is meant to be unused, name the devices in use with --device."
            ),
        ),
    };
    let summary = format!("the port is {}, not ACTIVE", state.as_str());
    let evidence = vec![
        format!("state = {}", state.as_str()),
        format!(
            "phys_state = {}",
            port.phys_state.value().map_or_else(|| why(&port.phys_state), |s| s.as_str())
        ),
    ];
    Finding { id: ID.into(), status, subject, summary, cause, next_step, evidence }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use rdmascope_fixtures::snapshot::{infiniband, roce};
    use rdmascope_model::Snapshot;

    fn seen(mut machine: Snapshot, state: Reading<PortState>) -> Finding {
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].state = state;
        judge(&Look::first(&machine, &Policy::default())).remove(0)
    }

    #[test]
    fn each_state_has_its_own_words() {
        assert_eq!(seen(roce(1), Reading::Value(PortState::Active)).status, Status::Ok);
        let down = seen(roce(1), Reading::Value(PortState::Down));
        assert_eq!((down.status, down.summary.as_str()), (Status::Fail, "the port is DOWN, not ACTIVE"));
        assert!(down.next_step.contains("ethtool eth0"));
        let init = seen(infiniband(1), Reading::Value(PortState::Init));
        assert_eq!(init.status, Status::Fail);
        assert!(init.cause.contains("subnet manager"));
        assert!(!seen(roce(1), Reading::Value(PortState::Init)).cause.contains("subnet manager"));
        assert_eq!(seen(roce(1), Reading::Value(PortState::ActiveDefer)).status, Status::Warn);
    }

    #[test]
    fn what_is_not_understood_is_unknown() {
        assert_eq!(seen(roce(1), Reading::Failed("EINVAL".into())).status, Status::Unknown);
        assert_eq!(seen(roce(1), Reading::Absent).status, Status::Unknown);
        let strange = seen(roce(1), Reading::Value(PortState::Other("FROZEN".into())));
        assert_eq!(strange.status, Status::Unknown);
        assert!(strange.summary.contains("FROZEN"));
    }
}
