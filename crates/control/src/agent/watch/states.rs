//! What ports and their network devices are at, from look to look: every change is told at once, and a start is known as a start.

use super::{event, seconds};
use rdmascope_checks::{Look, limits};
use rdmascope_link::{EventKind, NodeEvent};
use rdmascope_model::{Device, Netdev, Now, Port, PortState, Reading, Snapshot};
use std::collections::BTreeMap;

/// The state of what is not there any more.
const GONE: &str = "gone";
/// Devices that are remembered: virtual functions come and go under ever new names.
const DEVICES_MAX: usize = 256;

/// Everything that was ever seen.
#[derive(Debug, Default)]
pub(super) struct States {
    devices: BTreeMap<String, DeviceSeen>,
    /// One look was taken: what comes after it is new.
    begun: bool,
}

#[derive(Debug, Default)]
struct DeviceSeen {
    ports: BTreeMap<u8, PortSeen>,
    pci_address: Option<String>,
    gone_since: Option<Now>,
    /// It came (again) while we watched: its driver was loaded then.
    loaded_at: Option<Now>,
}

#[derive(Debug, Default)]
struct PortSeen {
    state: String,
    /// Name of the network device, and whether it has a carrier; empty while the device is gone.
    link: Option<(String, String)>,
    was_active: bool,
}

impl States {
    /// Compares a machine with what it was. A list or a state that could not be read changes nothing: not seen is not gone.
    pub(super) fn observe(&mut self, snapshot: &Snapshot, now: Now, events: &mut Vec<NodeEvent>) {
        const NONE: &[Device] = &[];
        let devices = match &snapshot.devices {
            Reading::Value(devices) => devices.as_slice(),
            Reading::Absent => NONE,
            Reading::Failed(_) => return,
        };
        for (name, seen) in &mut self.devices {
            if seen.gone_since.is_none() && !devices.iter().any(|device| device.name == *name) {
                seen.gone(name, now, events);
            }
        }
        for device in devices {
            let known = self.devices.contains_key(&device.name);
            if !known && self.devices.len() >= DEVICES_MAX {
                let oldest = self.devices.iter().filter(|(_, seen)| seen.gone_since.is_some());
                let oldest = oldest
                    .min_by_key(|(_, seen)| seen.gone_since.map(|gone| gone.mono))
                    .map(|(name, _)| name.clone());
                oldest.and_then(|name| self.devices.remove(&name));
            }
            let seen = self.devices.entry(device.name.clone()).or_default();
            if seen.gone_since.take().is_some() || (!known && self.begun) {
                seen.loaded_at = Some(now);
            }
            seen.present(device, snapshot, now, events);
        }
        self.begun = true;
    }

    /// Why a `fail` of this subject is not one yet: the machine has just booted, or its device's driver is being (re)loaded.
    /// `state`: the finding is about a state that comes with the start, and not about a setting.
    pub(super) fn initialising(
        &self,
        look: &Look<'_>,
        subject: &str,
        state: bool,
        now: Now,
    ) -> Option<String> {
        let grace = seconds(look, &limits::BOOT_GRACE_SECONDS);
        let young = |at: &Now| now.mono.since(at.mono) < grace;
        let booted = look.now.system.booted_at.value().filter(|at| now.wall.since(**at) < grace);
        let booted = booted.map(|at| format!("booted at {at}"));
        let gone = |seen: &DeviceSeen| {
            let gone = seen.gone_since.filter(young)?;
            Some(format!("its driver went at {}", gone.wall))
        };
        if subject == "machine" {
            let none = look.now.devices.value().is_none_or(Vec::is_empty);
            return self.devices.values().find_map(gone).or(booted).filter(|_| none);
        }
        let Some((seen, port)) = self.devices.iter().find_map(|(name, seen)| seen.owns(name, subject)) else {
            // A device that was named and never seen.
            return booted.filter(|_| !subject.contains([' ', '/']));
        };
        let inactive = port.is_some_and(|port| !port.was_active) && state;
        let loaded = seen.loaded_at.filter(young).map(|at| format!("driver loaded at {}", at.wall));
        gone(seen).or_else(|| booted.or(loaded).filter(|_| inactive))
    }
}

impl DeviceSeen {
    fn gone(&mut self, name: &str, now: Now, events: &mut Vec<NodeEvent>) {
        self.gone_since = Some(now);
        for (number, port) in &mut self.ports {
            change(&mut port.state, &format!("{name}/{number}"), "state", GONE, now, events);
            port.was_active = false;
            if let Some((_, link)) = &mut port.link {
                link.clear();
            }
        }
    }

    fn present(&mut self, device: &Device, snapshot: &Snapshot, now: Now, events: &mut Vec<NodeEvent>) {
        if let Reading::Value(address) = &device.pci_address {
            self.pci_address = Some(address.clone());
        }
        for port in &device.ports {
            let Reading::Value(state) = &port.state else { continue };
            let seen = self.ports.entry(port.number).or_default();
            seen.was_active |= *state == PortState::Active;
            let subject = format!("{}/{}", device.name, port.number);
            // What was there from the start is no news; a device that comes later is.
            if seen.state.is_empty() && self.loaded_at.is_none() {
                state.as_str().clone_into(&mut seen.state);
            }
            change(&mut seen.state, &subject, "state", state.as_str(), now, events);
            seen.link(port, snapshot, now, events);
        }
    }

    /// Whether a subject belongs to this device, and to which of its ports.
    fn owns(&self, name: &str, subject: &str) -> Option<(&Self, Option<&PortSeen>)> {
        if subject == name {
            return Some((
                self,
                self.ports.first_key_value().map(|(_, port)| port).filter(|_| self.ports.len() == 1),
            ));
        }
        if let Some(number) = subject.strip_prefix(name).and_then(|rest| rest.strip_prefix('/')) {
            return Some((self, number.parse().ok().and_then(|number: u8| self.ports.get(&number))));
        }
        if let Some(netdev) = subject.strip_prefix("netdev ") {
            let port =
                self.ports.values().find(|p| p.link.as_ref().is_some_and(|(name, _)| name == netdev))?;
            return Some((self, Some(port)));
        }
        let address = subject.strip_prefix("pci ")?;
        (self.pci_address.as_deref() == Some(address)).then_some((self, None))
    }
}

impl PortSeen {
    fn link(&mut self, port: &Port, snapshot: &Snapshot, now: Now, events: &mut Vec<NodeEvent>) {
        let (Reading::Value(name), Reading::Value(netdevs)) = (&port.netdev, &snapshot.netdevs) else {
            return;
        };
        let Some(word) = netdevs.get(name).and_then(carrier) else { return };
        match &mut self.link {
            // Its coming back was told by the port's own state.
            Some((known, link)) if known == name && !link.is_empty() => {
                change(link, &format!("netdev {name}"), "link", word, now, events);
            }
            link => *link = Some((name.clone(), word.to_owned())),
        }
    }
}

fn carrier(netdev: &Netdev) -> Option<&'static str> {
    netdev.carrier.value().map(|carrier| if *carrier { "up" } else { "down" })
}

/// Keeps the new state; tells of it when it is another one.
fn change(state: &mut String, subject: &str, id: &str, now_is: &str, now: Now, events: &mut Vec<NodeEvent>) {
    if state != now_is {
        events.push(event(EventKind::StateChange, subject, id, (state, now_is), now));
        now_is.clone_into(state);
    }
}
