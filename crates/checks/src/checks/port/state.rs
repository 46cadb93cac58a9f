//! Is the port ACTIVE?

use crate::check::{Check, Look, Settles};
use crate::duty::{Duty, is_infiniband_virtual, links, state_is_constant};
use crate::finding::{is_not_ethernet, netdev_under, ok, port_subject, unknown, why};
use rdmascope_model::{Device, Finding, Port, PortState, Reading, Snapshot, Status};

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
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    links(look.now, look.policy)
        // What becomes of an InfiniBand virtual function is the subnet manager's doing: check `virtual-function`.
        .filter(|(device, port, _)| !is_infiniband_virtual(device, port))
        .filter_map(|(device, port, duty)| one(look, device, port, &duty))
        .collect()
}

fn one(look: &Look<'_>, device: &Device, port: &Port, duty: &Duty) -> Option<Finding> {
    let subject = port_subject(device, port);
    let told =
        if state_is_constant(device) { by_carrier(look.now, device, port)? } else { port.state.clone() };
    let state = match (&told, duty) {
        (Reading::Value(PortState::Active), Duty::MeantDown) => return Some(up_although_meant_down(subject)),
        (Reading::Value(PortState::Active), _) => {
            return Some(ok(ID, subject, "the port is ACTIVE".to_owned()));
        }
        (Reading::Value(state), Duty::MeantDown) => {
            return Some(ok(ID, subject, format!("the port is {}, and meant to be down", state.as_str())));
        }
        (Reading::Value(state), Duty::Unused(sibling))
            if !look.past.was_active(&device.name, port.number) =>
        {
            let summary = format!(
                "the port is {} and not in use: it never had a link, and {sibling} of the same card is ACTIVE; pin it in the \
                 manifest to have it judged",
                state.as_str()
            );
            return Some(ok(ID, subject, summary));
        }
        (Reading::Value(PortState::Other(word)), _) => {
            let why = format!("the kernel says '{word}', which is not known here");
            return Some(unknown(ID, subject, "the port's state", &why));
        }
        (Reading::Value(state), _) => state,
        (missing, _) => return Some(unknown(ID, subject, "the port's state", why(missing))),
    };
    Some(not_active(subject, device, port, state))
}

/// The state of a port whose driver always says ACTIVE, by the carrier of its network device; `None` where it has no such device:
/// then nothing tells.
fn by_carrier(snapshot: &Snapshot, device: &Device, port: &Port) -> Option<Reading<PortState>> {
    let netdevs = snapshot.netdevs.value();
    let of_function = || {
        let address = device.pci_address.value()?;
        netdevs?.values().find(|netdev| netdev.pci_address.value() == Some(address))
    };
    let netdev = match (netdev_under(snapshot, port), of_function()) {
        (Ok((_, netdev)), _) | (Err(_), Some(netdev)) => netdev,
        (Err(_), None) if port.netdev == Reading::Absent => return None,
        (Err(why), None) => return Some(Reading::Failed(why)),
    };
    let state = |carrier| if carrier { PortState::Active } else { PortState::Down };
    Some(netdev.carrier.clone().map(state))
}

fn up_although_meant_down(subject: String) -> Finding {
    Finding {
        id: ID.into(),
        status: Status::Warn,
        subject,
        summary: "the port is ACTIVE although it is meant to be down".to_owned(),
        cause: "somebody plugged in a cable or switched on the far end, or the manifest is out of date".to_owned(),
        next_step: "See what is at the other end (`lldpcli show neighbors`, `iblinkinfo`); where the port is to be used, take `down` \
                    out of its row in the manifest."
            .to_owned(),
        evidence: vec!["state = ACTIVE".to_owned(), "manifest: down = true".to_owned()],
    }
}

fn not_active(subject: String, device: &Device, port: &Port, state: &PortState) -> Finding {
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
                 switch port. If the port is meant to be unused, say so in the manifest (`down: true`), or name the devices in use \
                 with --device."
            ),
        ),
    };
    let summary = format!("the port is {}, not ACTIVE", state.as_str());
    let mut evidence = vec![
        format!("state = {}", state.as_str()),
        format!(
            "phys_state = {}",
            port.phys_state.value().map_or_else(|| why(&port.phys_state), |s| s.as_str())
        ),
    ];
    if state_is_constant(device) {
        evidence.push("by the network device's carrier: this driver always says ACTIVE".to_owned());
    }
    Finding { id: ID.into(), status, subject, summary, cause, next_step, evidence }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Past;
    use crate::Policy;
    use crate::manifest::{Expectation, Manifest};
    use rdmascope_fixtures::snapshot::{infiniband, roce};
    use rdmascope_model::{LinkLayer, Mono, PhysState};

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

    fn change(machine: &mut Snapshot, device: usize, change: impl FnOnce(&mut Port)) {
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        change(&mut devices[device].ports[0]);
    }

    fn statuses(machine: &Snapshot, policy: &Policy) -> Vec<(String, Status)> {
        judge(&Look::first(machine, policy)).into_iter().map(|f| (f.subject, f.status)).collect()
    }

    /// C077: one NDR port of several cards is lost; its LID is stale and its rate has fallen back.
    #[test]
    fn c077_a_lost_port_fails_although_others_are_active() {
        let mut machine = infiniband(2);
        change(&mut machine, 1, |port| {
            port.state = Reading::Value(PortState::Down);
            port.phys_state = Reading::Value(PhysState::Polling);
            port.rate_bps = Reading::Value(10_000_000_000);
            port.lid = Reading::Value(868);
            port.counters.insert("link_downed".into(), Reading::Value(0));
        });
        let expected = [("mlx5_0/1".into(), Status::Ok), ("mlx5_1/1".into(), Status::Fail)];
        assert_eq!(statuses(&machine, &Policy::default()), expected);
    }

    /// C061: the sibling is in INIT and so does not excuse the port that is down.
    #[test]
    fn c061_down_beside_init_are_both_broken() {
        let mut machine = infiniband(2);
        change(&mut machine, 0, |port| {
            port.state = Reading::Value(PortState::Down);
            port.phys_state = Reading::Value(PhysState::Polling);
            port.lid = Reading::Value(0);
            port.counters.insert("link_downed".into(), Reading::Value(0));
        });
        change(&mut machine, 1, |port| port.state = Reading::Value(PortState::Init));
        let expected = [("mlx5_0/1".into(), Status::Fail), ("mlx5_1/1".into(), Status::Fail)];
        assert_eq!(statuses(&machine, &Policy::default()), expected);
    }

    /// C087: port 2 of a card is Ethernet and lost its link; port 1 carries the job and is not touched by it.
    #[test]
    fn c087_each_port_stands_for_itself() {
        let mut machine = roce(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        let mut second = devices[0].ports[0].clone();
        second.number = 2;
        second.state = Reading::Value(PortState::Down);
        second.phys_state = Reading::Value(PhysState::Disabled);
        devices[0].ports[0].link_layer = Reading::Value(LinkLayer::InfiniBand);
        devices[0].ports.push(second);
        let expected = [("mlx5_0/1".into(), Status::Ok), ("mlx5_0/2".into(), Status::Fail)];
        assert_eq!(statuses(&machine, &Policy::default()), expected);
        // Never plugged in, it is a spare.
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        netdevs.get_mut("eth0").unwrap().carrier_changes = Reading::Value(1);
        let found = judge(&Look::first(&machine, &Policy::default()));
        assert_eq!((found[1].status, found[1].subject.as_str()), (Status::Ok, "mlx5_0/2"));
        assert!(found[1].summary.contains("not in use") && found[1].summary.contains("mlx5_0/1"));
        // A port that was seen ACTIVE is in use, whatever its counters say.
        let mut past = Past::new();
        let mut before = machine.clone();
        let Reading::Value(devices) = &mut before.devices else { panic!("no devices") };
        devices[0].ports[1].state = Reading::Value(PortState::Active);
        past.observe(&before, Mono(1));
        let policy = Policy::default();
        let look = Look { past: &past, ..Look::first(&machine, &policy) };
        assert_eq!(judge(&look)[1].status, Status::Fail);
    }

    /// C089: no module is plugged in.
    #[test]
    fn c089_a_port_without_a_module_is_down() {
        let mut machine = roce(1);
        change(&mut machine, 0, |port| {
            port.state = Reading::Value(PortState::Down);
            port.phys_state = Reading::Value(PhysState::Disabled);
        });
        assert_eq!(statuses(&machine, &Policy::default()), [("mlx5_0/1".into(), Status::Fail)]);
    }

    /// C130: the driver `efa` says ACTIVE for ever.
    #[test]
    fn c130_a_constant_state_is_not_believed() {
        let mut machine = roce(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].driver = Reading::Value("efa".into());
        assert_eq!(statuses(&machine, &Policy::default())[0].1, Status::Ok);
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        netdevs.get_mut("eth0").unwrap().carrier = Reading::Value(false);
        let found = judge(&Look::first(&machine, &Policy::default())).remove(0);
        assert_eq!(found.status, Status::Fail);
        assert!(found.evidence.iter().any(|line| line.contains("carrier")));
        // Known by the PCI function alone.
        change(&mut machine, 0, |port| port.netdev = Reading::Absent);
        assert_eq!(statuses(&machine, &Policy::default())[0].1, Status::Fail);
        machine.netdevs = Reading::failed("no netlink");
        assert!(statuses(&machine, &Policy::default()).is_empty());
        change(&mut machine, 0, |port| port.netdev = Reading::failed("EIO"));
        assert_eq!(statuses(&machine, &Policy::default())[0].1, Status::Unknown);
    }

    #[test]
    fn meant_to_be_down_is_held_to_it() {
        let row = Expectation { device: "mlx5_0".into(), down: Some(true), ..Expectation::default() };
        let policy = Policy { manifest: Manifest { rows: vec![row] }, ..Policy::default() };
        let mut machine = roce(1);
        let up = judge(&Look::first(&machine, &policy)).remove(0);
        assert_eq!((up.status, up.summary.contains("meant to be down")), (Status::Warn, true));
        change(&mut machine, 0, |port| port.state = Reading::Value(PortState::Down));
        let down = judge(&Look::first(&machine, &policy)).remove(0);
        assert_eq!((down.status, down.summary.contains("meant to be down")), (Status::Ok, true));
    }
}
