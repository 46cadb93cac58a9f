//! What is asked of a port: everything, its link alone, or that it is down; from its function, the manifest, and its own history.

use crate::Policy;
use crate::finding::{is_not_ethernet, netdev_under};
use crate::manifest::{Expectation, PortRole};
use rdmascope_model::{Device, Function, LinkLayer, PhysState, Port, PortState, Reading, Snapshot};

/// What a port is judged for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Carries RDMA traffic: judged in full.
    Traffic,
    /// Management network: its link is judged, nothing of what RDMA needs.
    LinkOnly,
    /// The manifest says that it is meant to be down.
    MeantDown,
    /// Nobody uses it: it never had a link, and another port of the card, which is named, is ACTIVE.
    Unused(String),
    /// Not judged: ignored by the manifest, a representor, or a function for management.
    NotJudged,
}

/// What is asked of the port.
pub(crate) fn duty(snapshot: &Snapshot, policy: &Policy, device: &Device, port: &Port) -> Duty {
    let expected = policy.manifest.of(device, Some(port));
    if matches!(device.function.value(), Some(Function::Representor | Function::Management)) {
        return Duty::NotJudged;
    }
    match (expected.role, expected.down) {
        (Some(PortRole::Ignore), _) => Duty::NotJudged,
        (_, Some(true)) => Duty::MeantDown,
        (Some(PortRole::Management), _) => Duty::LinkOnly,
        // Whoever named the port or its device wants it judged.
        _ if expected != Expectation::default() || !policy.devices.is_empty() => Duty::Traffic,
        _ if never_had_link(snapshot, device, port) => {
            active_sibling(snapshot, device, port).map_or(Duty::Traffic, Duty::Unused)
        }
        _ => Duty::Traffic,
    }
}

/// Every judged port of a link, with what is asked of it.
pub(crate) fn links<'a>(
    snapshot: &'a Snapshot,
    policy: &'a Policy,
) -> impl Iterator<Item = (&'a Device, &'a Port, Duty)> {
    let devices = snapshot.devices.value().into_iter().flatten().filter(|device| policy.judges(device));
    devices
        .flat_map(|device| device.ports.iter().map(move |port| (device, port)))
        .map(|(device, port)| (device, port, duty(snapshot, policy, device, port)))
        .filter(|(_, _, duty)| *duty != Duty::NotJudged)
}

/// An InfiniBand virtual function, by what the kernel says of it or by its looks: inside a virtual machine or a pod nothing else tells.
/// Without a GUID, or down over a physical link that is up, is no physical port; LID 65535 is no sign, for physical ports show it too
/// as long as no subnet manager has come by.
pub(crate) fn is_infiniband_virtual(device: &Device, port: &Port) -> bool {
    let infiniband = port.link_layer == Reading::Value(LinkLayer::InfiniBand);
    let down_over_link =
        port.state == Reading::Value(PortState::Down) && port.phys_state == Reading::Value(PhysState::LinkUp);
    let looks = has_no_guid(device) || down_over_link;
    infiniband && (matches!(device.function.value(), Some(Function::Virtual { .. })) || looks)
}

/// Its node GUID is all zeros: nobody gave it one.
pub(crate) fn has_no_guid(device: &Device) -> bool {
    device.node_guid.value().is_some_and(|guid| is_zero(guid))
}

fn is_zero(guid: &str) -> bool {
    guid.contains('0') && guid.chars().all(|c| c == '0' || c == ':')
}

/// The driver of Amazon's adapter says ACTIVE and LinkUp whatever the link does.
pub(crate) fn state_is_constant(device: &Device) -> bool {
    device.driver.value().is_some_and(|driver| driver == "efa")
}

/// Whether two devices are functions of one card.
pub(crate) fn same_card(one: &Device, other: &Device) -> bool {
    let by_guid = one.system_guid.value().zip(other.system_guid.value());
    let slot = |device: &Device| {
        device.pci_address.value().and_then(|pci| pci.rsplit_once('.')).map(|(slot, _)| slot.to_owned())
    };
    let by_slot = slot(one).is_some_and(|here| slot(other) == Some(here));
    one.name == other.name || by_slot || by_guid.is_some_and(|(one, other)| one == other && !is_zero(one))
}

fn active_sibling(snapshot: &Snapshot, device: &Device, port: &Port) -> Option<String> {
    let devices = snapshot.devices.value().into_iter().flatten();
    let card = devices.filter(|other| same_card(device, other));
    let hardware = card.filter(|other| !matches!(other.function.value(), Some(Function::Virtual { .. })));
    let mut ports = hardware.flat_map(|other| other.ports.iter().map(move |p| (other, p)));
    let active = ports.find(|(other, p)| {
        (&other.name, p.number) != (&device.name, port.number) && p.state == Reading::Value(PortState::Active)
    });
    active.map(|(other, p)| format!("{}/{}", other.name, p.number))
}

/// Proof that there was never a link since the driver was loaded; without proof the port counts as used.
fn never_had_link(snapshot: &Snapshot, device: &Device, port: &Port) -> bool {
    use PhysState::{Disabled, Polling, Sleep};
    let dark = matches!(port.phys_state.value(), Some(Disabled | Polling | Sleep));
    let physical = !matches!(device.function.value(), Some(Function::Virtual { .. }));
    if !dark || !physical || port.state != Reading::Value(PortState::Down) {
        return false;
    }
    let downed = port.counters.get("link_downed").and_then(Reading::value);
    // A LID stays after the link is lost: somebody gave it one.
    let had_lid = port.lid.value().is_some_and(|lid| *lid != 0 && *lid != u16::MAX);
    if is_not_ethernet(port) {
        return downed == Some(&0) && !had_lid;
    }
    let Ok((_, netdev)) = netdev_under(snapshot, port) else { return false };
    let lost = netdev.statistics.value().and_then(|all| all.get("link_down_events_phy"));
    // Losses of the carrier may be counted without a return: a driver that begins with the carrier off.
    let returns = netdev
        .carrier_changes
        .value()
        .map(|changes| changes.saturating_sub(netdev.carrier_down_count.value().copied().unwrap_or(0)));
    returns == Some(0) && lost.is_none_or(|lost| *lost == 0) && downed.is_none_or(|downed| *downed == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Manifest;
    use rdmascope_fixtures::snapshot::{infiniband, roce};

    /// Two InfiniBand ports of one card; the second is down and has the history that is given.
    fn second(change: impl FnOnce(&mut Device)) -> (Snapshot, Duty) {
        let mut machine = infiniband(2);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        let port = &mut devices[1].ports[0];
        port.state = Reading::Value(PortState::Down);
        port.phys_state = Reading::Value(PhysState::Polling);
        port.lid = Reading::Value(0);
        port.counters.insert("link_downed".into(), Reading::Value(0));
        change(&mut devices[1]);
        let found = duty_of(&machine, &Policy::default());
        (machine, found)
    }

    fn duty_of(machine: &Snapshot, policy: &Policy) -> Duty {
        let device = &machine.devices.value().unwrap()[1];
        duty(machine, policy, device, &device.ports[0])
    }

    #[test]
    fn a_port_that_never_had_a_link_beside_an_active_one_is_not_used() {
        assert_eq!(second(|_| {}).1, Duty::Unused("mlx5_0/1".into()));
        // Each of these is a sign of use, or no proof that there was none.
        assert_eq!(second(|d| d.ports[0].lid = Reading::Value(868)).1, Duty::Traffic);
        let counter = |value: Reading<u64>| {
            second(move |d| drop(d.ports[0].counters.insert("link_downed".into(), value))).1
        };
        assert_eq!(counter(Reading::Value(1)), Duty::Traffic);
        assert_eq!(counter(Reading::failed("EINVAL")), Duty::Traffic);
        let other_card = second(|d| {
            d.system_guid = Reading::Value("0200:00ff:fe00:0009".into());
            d.pci_address = Reading::Value("0000:5e:00.0".into());
        });
        assert_eq!(other_card.1, Duty::Traffic);
    }

    #[test]
    fn ethernet_ports_are_known_by_their_carrier() {
        let mut machine = roce(2);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[1].ports[0].state = Reading::Value(PortState::Down);
        devices[1].ports[0].phys_state = Reading::Value(PhysState::Disabled);
        assert_eq!(duty_of(&machine, &Policy::default()), Duty::Traffic);
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        netdevs.get_mut("eth1").unwrap().carrier_changes = Reading::Value(1);
        assert_eq!(duty_of(&machine, &Policy::default()), Duty::Unused("mlx5_0/1".into()));
    }

    #[test]
    fn the_manifest_and_the_function_decide_first() {
        let (machine, _) = second(|_| {});
        let of = |row: Expectation| {
            let rows = vec![Expectation { device: "mlx5_1".into(), ..row }];
            duty_of(&machine, &Policy { manifest: Manifest { rows }, ..Policy::default() })
        };
        let role = |role| Expectation { role: Some(role), ..Expectation::default() };
        assert_eq!(of(role(PortRole::Compute)), Duty::Traffic);
        assert_eq!(of(role(PortRole::Management)), Duty::LinkOnly);
        assert_eq!(of(role(PortRole::Ignore)), Duty::NotJudged);
        assert_eq!(of(Expectation { down: Some(true), ..Expectation::default() }), Duty::MeantDown);
        let named = Policy { devices: vec!["mlx5_1".into()], ..Policy::default() };
        assert_eq!(duty_of(&machine, &named), Duty::Traffic);
        for function in [Function::Representor, Function::Management] {
            assert_eq!(second(|d| d.function = Reading::Value(function)).1, Duty::NotJudged);
        }
    }

    #[test]
    fn a_physical_port_without_subnet_manager_is_no_virtual_function() {
        let looks = |state, phys| {
            let mut machine = infiniband(1);
            let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
            let port = &mut devices[0].ports[0];
            port.lid = Reading::Value(u16::MAX);
            (port.state, port.phys_state) = (Reading::Value(state), Reading::Value(phys));
            is_infiniband_virtual(&devices[0], &devices[0].ports[0])
        };
        assert!(!looks(PortState::Down, PhysState::Polling));
        assert!(!looks(PortState::Init, PhysState::LinkUp));
        assert!(looks(PortState::Down, PhysState::LinkUp));
    }
}
