//! Which network device, RDMA port, PCI function and physical port belong together? The numbers in their names do not tell.

use crate::check::{Check, Look, Settles};
use crate::duty::{Duty, duty, state_is_constant};
use crate::finding::{is_not_ethernet, ok, unknown, why};
use rdmascope_model::{Device, Finding, Function, Netdev, Port, Reading, Snapshot, Status};

const ID: &str = "device-mapping";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Which network device, RDMA port, PCI function and physical port belong together?",
    meaning: "mlx5_0 and eth0 need not be the same port: whoever takes the number for it tests, cables or configures the wrong one.",
    causes: &[
        "names were given in another order than slots are counted",
        "a software device (rdma_rxe, siw) stands on the network device of an adapter",
        "a driver that counts its ports in another order",
    ],
    next_steps: &[
        "`rdma link show` names the network device of each port; `ethtool -p NETDEV 5` blinks its light.",
        "`ls -l /sys/class/net/NETDEV/device /sys/class/infiniband/DEVICE/device` shows the PCI function of both.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let snapshot = look.now;
    let devices = snapshot.devices.value().into_iter().flatten().filter(|d| look.policy.judges(d));
    devices
        .filter(|d| !d.ports.iter().all(|p| duty(snapshot, look.policy, d, p) == Duty::NotJudged))
        .map(|device| one(snapshot, device))
        .collect()
}

fn one(snapshot: &Snapshot, device: &Device) -> Finding {
    let subject = device.name.clone();
    let unread = device.ports.iter().find_map(|port| match &port.netdev {
        Reading::Failed(why) if !is_not_ethernet(port) && !state_is_constant(device) => Some(why),
        _ => None,
    });
    if let Some(why) = unread {
        return unknown(ID, subject, "the network device under a port", why);
    }
    let parts: Vec<String> = device.ports.iter().map(|port| in_words(snapshot, port)).collect();
    let function = match &device.pci_address {
        Reading::Value(address) => format!("PCI function {address}"),
        Reading::Absent => "no PCI function".to_owned(),
        missing => format!("PCI function not known ({})", why(missing)),
    };
    let mapping = format!("{function}: {}", parts.join("; "));
    let odd: Vec<(String, &str)> =
        device.ports.iter().filter_map(|port| mismatch(snapshot, device, port)).collect();
    let Some((_, cause)) = odd.first() else { return ok(ID, subject, mapping) };
    let netdev = device.ports.iter().find_map(|port| port.netdev.value()).map_or("NETDEV", String::as_str);
    Finding {
        id: ID.into(),
        status: Status::Warn,
        subject,
        summary: odd.iter().map(|(words, _)| words.as_str()).collect::<Vec<_>>().join("; "),
        cause: (*cause).to_owned(),
        next_step: format!(
            "`rdma link show`, `ls -l /sys/class/net/{netdev}/device`, `ethtool -p {netdev} 5` (its light blinks); name devices by PCI \
             address or GUID in job settings and in the manifest."
        ),
        evidence: vec![mapping],
    }
}

fn in_words(snapshot: &Snapshot, port: &Port) -> String {
    let Reading::Value(name) = &port.netdev else {
        return format!("port {} without a network device", port.number);
    };
    let netdev = snapshot.netdevs.value().and_then(|all| all.get(name));
    let detail = |netdev: &Netdev| {
        let names = [
            netdev.phys_port_name.value().map(|p| format!("physical port {p}")),
            netdev.dev_port.value().map(|p| format!("dev_port {p}")),
            netdev.kind.value().cloned(),
        ];
        names.into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    match netdev.map(detail).filter(|detail| !detail.is_empty()) {
        Some(detail) => format!("port {} is {name} ({detail})", port.number),
        None => format!("port {} is {name}", port.number),
    }
}

/// What does not fit together, and why that comes about.
fn mismatch(snapshot: &Snapshot, device: &Device, port: &Port) -> Option<(String, &'static str)> {
    let name = port.netdev.value()?;
    let netdev = snapshot.netdevs.value()?.get(name)?;
    let software = |device: &Device| matches!(device.function.value(), Some(Function::Software));
    let devices = snapshot.devices.value().into_iter().flatten();
    let claims = |other: &&Device| other.ports.iter().any(|p| p.netdev.value() == Some(name));
    let mut others = devices.filter(|other| other.name != device.name).filter(claims);
    // Two software devices on one network device are somebody's test.
    if let Some(other) = others.find(|other| !(software(other) && software(device))) {
        return Some((
            format!("{} and {} both stand on {name}", device.name, other.name),
            "a software device stands on an adapter's network device, or the kernel maps two devices to one port: a job that picks by \
             network device may get the slow one",
        ));
    }
    // Where a device has one port only, dev_port counts the card's ports and not the device's.
    let dev_port = netdev.dev_port.value().filter(|_| device.ports.len() > 1 && is_plain(netdev));
    if let Some(dev_port) = dev_port.filter(|p| **p + 1 != u32::from(port.number)) {
        return Some((
            format!(
                "RDMA port {} is {name}, which is dev_port {dev_port} (port {})",
                port.number,
                dev_port + 1
            ),
            "the driver counts RDMA ports and network ports in another order, or a network device was moved",
        ));
    }
    let slot = |address: &str| address.rsplit_once('.').map(|(slot, _)| slot.to_owned());
    let (here, there) = (device.pci_address.value()?, netdev.pci_address.value()?);
    (is_plain(netdev) && slot(here) != slot(there)).then(|| {
        (
            format!("{} is PCI function {here}, but {name} belongs to {there}", device.name),
            "the kernel maps the RDMA port to a network device of another card",
        )
    })
}

/// A port of an adapter, not a bond, VLAN or the like on top of some.
fn is_plain(netdev: &Netdev) -> bool {
    netdev.kind == Reading::Absent
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use rdmascope_fixtures::snapshot::{infiniband, roce};

    fn judged(machine: &Snapshot) -> Vec<Finding> {
        judge(&Look::first(machine, &Policy::default()))
    }

    #[test]
    fn each_device_has_its_mapping_as_text() {
        let found = judged(&roce(2));
        let words: Vec<_> =
            found.iter().map(|f| (f.subject.as_str(), f.status, f.summary.as_str())).collect();
        assert_eq!(
            words,
            [
                (
                    "mlx5_0",
                    Status::Ok,
                    "PCI function 0000:3b:00.0: port 1 is eth0 (physical port p0, dev_port 0)"
                ),
                (
                    "mlx5_1",
                    Status::Ok,
                    "PCI function 0000:3b:00.1: port 1 is eth1 (physical port p0, dev_port 0)"
                ),
            ]
        );
        assert!(judged(&infiniband(1))[0].summary.ends_with("port 1 without a network device"));
    }

    #[test]
    fn ports_that_are_crossed_warn() {
        let mut machine = roce(2);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        // One device with two ports whose network devices are crossed.
        let mut second = devices.pop().unwrap().ports.remove(0);
        second.number = 2;
        second.netdev = Reading::Value("eth0".into());
        devices[0].ports[0].netdev = Reading::Value("eth1".into());
        devices[0].ports.push(second);
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        netdevs.get_mut("eth1").unwrap().dev_port = Reading::Value(1);
        let found = judged(&machine).remove(0);
        assert_eq!(found.status, Status::Warn);
        assert!(
            found.summary.starts_with("RDMA port 1 is eth1, which is dev_port 1 (port 2)"),
            "{}",
            found.summary
        );
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].netdev = Reading::Value("eth0".into());
        devices[0].ports[1].netdev = Reading::Value("eth1".into());
        assert_eq!(judged(&machine)[0].status, Status::Ok);
    }

    #[test]
    fn a_device_with_one_port_may_be_the_cards_second() {
        let mut machine = roce(1);
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        netdevs.get_mut("eth0").unwrap().dev_port = Reading::Value(1);
        assert_eq!(judged(&machine)[0].status, Status::Ok);
    }

    #[test]
    fn two_devices_on_one_network_device_and_another_cards_network_device() {
        let mut machine = roce(2);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[1].name = "rxe0".into();
        devices[1].function = Reading::Value(Function::Software);
        devices[1].pci_address = Reading::Absent;
        devices[1].ports[0].netdev = Reading::Value("eth0".into());
        let found = judged(&machine);
        assert_eq!(found[0].summary, "mlx5_0 and rxe0 both stand on eth0");
        assert_eq!((found[0].status, found[1].status), (Status::Warn, Status::Warn));
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].function = Reading::Value(Function::Software);
        assert_eq!(judged(&machine)[0].status, Status::Ok);

        let mut machine = roce(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].pci_address = Reading::Value("0000:5e:00.0".into());
        let found = judged(&machine).remove(0);
        assert_eq!(
            (found.status, found.summary.contains("eth0 belongs to 0000:3b:00.0")),
            (Status::Warn, true)
        );
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        netdevs.get_mut("eth0").unwrap().kind = Reading::Value("bond".into());
        assert_eq!(judged(&machine)[0].status, Status::Ok);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].netdev = Reading::failed("EIO");
        assert_eq!(judged(&machine)[0].status, Status::Unknown);
    }
}
