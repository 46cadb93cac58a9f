//! Finds the device, port and network device that a log line is about.

use crate::Policy;
use crate::finding::port_subject;
use rdmascope_model::{Device, Netdev, Port, Snapshot};

/// What is known of the thing that a line names.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    /// Subject of the finding.
    pub(super) subject: String,
    /// PCI function.
    pub(super) pci: Option<String>,
    /// RDMA device.
    pub(super) device: Option<&'a Device>,
    /// Its port, where the line or the device leaves no doubt which.
    pub(super) port: Option<&'a Port>,
    /// Network device.
    pub(super) netdev: Option<(&'a str, &'a Netdev)>,
}

/// Looks up a hit's subject in the snapshot; `None` when it belongs to a device that is not judged.
pub(super) fn find<'a>(snapshot: &'a Snapshot, policy: &Policy, subject: Option<&str>) -> Option<Place<'a>> {
    let mut place =
        Place { subject: "machine".to_owned(), pci: None, device: None, port: None, netdev: None };
    let Some(subject) = subject else { return Some(place) };
    subject.clone_into(&mut place.subject);
    if let Some(address) = subject.strip_prefix("pci ") {
        place.pci = Some(address.to_owned());
        place.device = devices(snapshot).find(|d| d.pci_address.value().is_some_and(|a| same(a, address)));
        place.netdev =
            netdevs(snapshot).find(|(_, n)| n.pci_address.value().is_some_and(|a| same(a, address)));
    } else if let Some(name) = subject.strip_prefix("netdev ") {
        place.netdev = netdevs(snapshot).find(|(known, _)| *known == name);
        let over = |port: &&Port| port.netdev.value().is_some_and(|netdev| netdev == name);
        let found = devices(snapshot).find_map(|d| Some((d, d.ports.iter().find(over)?)));
        (place.device, place.port) = (found.map(|(d, _)| d), found.map(|(_, p)| p));
    } else {
        let (name, port) = subject.split_once('/').map_or((subject, None), |(n, p)| (n, p.parse().ok()));
        place.device = devices(snapshot).find(|device| device.name == name);
        place.port = place.device.and_then(|d| d.ports.iter().find(|p| Some(p.number) == port));
    }
    complete(&mut place, snapshot);
    let judged = place.device.is_none_or(|device| policy.judges(device));
    judged.then_some(place)
}

fn complete<'a>(place: &mut Place<'a>, snapshot: &'a Snapshot) {
    let own = |pci: &rdmascope_model::Reading<String>| pci.value().cloned();
    place.pci = place.pci.take().or_else(|| place.device.and_then(|d| own(&d.pci_address)));
    place.pci = place.pci.take().or_else(|| place.netdev.and_then(|(_, n)| own(&n.pci_address)));
    let Some(device) = place.device else { return };
    if let (None, [port]) = (place.port, device.ports.as_slice()) {
        place.port = Some(port);
    }
    place.subject = place.port.map_or_else(|| device.name.clone(), |port| port_subject(device, port));
    if place.netdev.is_none() {
        let name = place.port.and_then(|port| port.netdev.value());
        place.netdev = netdevs(snapshot).find(|(known, _)| name.is_some_and(|name| name == known));
    }
}

fn devices(snapshot: &Snapshot) -> impl Iterator<Item = &Device> {
    snapshot.devices.value().into_iter().flatten()
}

fn netdevs(snapshot: &Snapshot) -> impl Iterator<Item = (&str, &Netdev)> {
    snapshot.netdevs.value().into_iter().flatten().map(|(name, netdev)| (name.as_str(), netdev))
}

fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}
