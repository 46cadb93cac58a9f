//! Settings and versions of a machine as facts that can be compared with other machines', and their changes as events.

use super::event;
use rdmascope_checks::usable_gid;
use rdmascope_link::{EventKind, Fact, NodeEvent};
use rdmascope_model::{
    Dcb, Device, Ecn, Ets, Lldp, Module, Netdev, Now, Port, PortState, Reading, Snapshot, Trust, priorities,
};
use std::collections::BTreeMap;

/// Facts that are remembered: 64 ports with 21 each, and room for devices that went.
const KNOWN_MAX: usize = 2_000;

/// What was read last of each setting.
#[derive(Debug, Default)]
pub(super) struct Settings {
    known: BTreeMap<(String, String), Known>,
}

#[derive(Debug)]
struct Known {
    value: String,
    /// Its subject is there; a device that went keeps its settings here, so that a change over a reload is seen.
    here: bool,
}

impl Settings {
    pub(super) fn facts(&self) -> Vec<Fact> {
        let here = self.known.iter().filter(|(_, known)| known.here && !known.value.is_empty());
        here.map(|((subject, key), known)| Fact {
            subject: subject.clone(),
            key: key.clone(),
            value: known.value.clone(),
        })
        .collect()
    }

    pub(super) fn observe(&mut self, snapshot: &Snapshot, now: Now, events: &mut Vec<NodeEvent>) {
        const NONE: &[Device] = &[];
        let devices = match &snapshot.devices {
            Reading::Value(devices) => devices.as_slice(),
            Reading::Absent => NONE,
            Reading::Failed(_) => return,
        };
        if self.known.len() >= KNOWN_MAX {
            // Virtual functions come and go under ever new names: what was not there at the last look goes first.
            self.known.retain(|_, known| known.here);
        }
        self.known.values_mut().for_each(|known| known.here = false);
        let mut take = |subject: &str, key: &str, reading: Reading<String>| {
            self.take(subject, key, reading, now, events);
        };
        take("machine", "kernel", snapshot.system.kernel.clone());
        for device in devices {
            of_device(device, &snapshot.system.modules, &mut take);
            for port in &device.ports {
                of_port(device, port, snapshot, &mut take);
            }
        }
    }

    fn take(
        &mut self,
        subject: &str,
        key: &str,
        reading: Reading<String>,
        now: Now,
        events: &mut Vec<NodeEvent>,
    ) {
        let place = (subject.to_owned(), key.to_owned());
        let value = match reading {
            Reading::Value(value) => value,
            Reading::Absent => String::new(),
            Reading::Failed(_) => {
                if let Some(known) = self.known.get_mut(&place) {
                    known.here = true;
                }
                return;
            }
        };
        if let Some(known) = self.known.get_mut(&place) {
            known.here = true;
            if known.value != value {
                let change = (known.value.as_str(), value.as_str());
                events.push(event(EventKind::SettingChange, subject, key, change, now));
                known.value = value;
            }
            return;
        }
        if self.known.len() < KNOWN_MAX {
            self.known.insert(place, Known { value, here: true });
        }
    }
}

type Take<'a> = &'a mut dyn FnMut(&str, &str, Reading<String>);

/// Settings and versions are compared and followed; serial numbers and what a port is plugged into are for the ticket, and to see that
/// somebody changed them.
fn of_device(device: &Device, modules: &Reading<BTreeMap<String, String>>, take: Take<'_>) {
    let name = &device.name;
    take(name, "card", device.card.clone());
    take(name, "board", device.board.clone());
    take(name, "firmware", device.firmware.clone());
    take(name, "driver", device.driver.clone());
    take(name, "driver_version", driver_version(&device.driver, modules));
    take(name, "serial", device.serial.clone());
    take(name, "numa", text(&device.numa_node));
}

/// The version that a driver has of its own; `Absent` where it is the kernel's.
fn driver_version(driver: &Reading<String>, modules: &Reading<BTreeMap<String, String>>) -> Reading<String> {
    match (driver, modules) {
        (Reading::Value(driver), Reading::Value(modules)) => {
            let version = modules.get(driver).filter(|version| !version.is_empty());
            version.map_or(Reading::Absent, |version| Reading::Value(version.clone()))
        }
        (Reading::Failed(why), _) | (_, Reading::Failed(why)) => Reading::Failed(why.clone()),
        (Reading::Absent, _) | (_, Reading::Absent) => Reading::Absent,
    }
}

fn of_port(device: &Device, port: &Port, snapshot: &Snapshot, take: Take<'_>) {
    let subject = format!("{}/{}", device.name, port.number);
    take(&subject, "link_layer", map(&port.link_layer, |layer| layer.as_str().to_owned()));
    // A port that is down shows some rate and no addresses: that is its state, and no setting.
    if port.state == Reading::Value(PortState::Active) {
        take(&subject, "rate", map(&port.rate_bps, |bps| format!("{} Gb/s", bps / 1_000_000_000)));
        take(&subject, "rdma_mtu", text(&port.active_mtu));
        if let Ok(gid) = usable_gid(&snapshot.netdevs, port) {
            take(&subject, "gid_index", Reading::Value(gid.index.to_string()));
        } else {
            take(&subject, "gid_index", Reading::failed("no usable GID"));
        }
    } else {
        for key in ["rate", "rdma_mtu", "gid_index"] {
            take(&subject, key, Reading::failed("the port is not ACTIVE"));
        }
    }
    match (&port.netdev, &snapshot.netdevs) {
        (Reading::Value(name), Reading::Value(all)) => {
            if let Some(netdev) = all.get(name) {
                of_netdev(&subject, netdev, take);
            }
        }
        // Not seen is not gone: the settings stay as they were.
        (Reading::Failed(why), _) | (_, Reading::Failed(why)) => {
            for key in OF_NETDEV {
                take(&subject, key, Reading::Failed(why.clone()));
            }
        }
        (Reading::Absent, _) | (_, Reading::Absent) => {}
    }
}

/// What [`of_netdev`] takes.
const OF_NETDEV: [&str; 10] =
    ["netdev_mtu", "ecn", "pfc", "ets", "dscp", "trust", "module", "module_serial", "switch", "switch_port"];

fn of_netdev(subject: &str, netdev: &Netdev, take: Take<'_>) {
    plugged_in(subject, netdev, take);
    take(subject, "netdev_mtu", text(&netdev.mtu));
    take(subject, "ecn", ecn(&netdev.ecn));
    let dcb = |of: fn(&Dcb) -> Reading<String>| match &netdev.dcb {
        Reading::Value(dcb) => of(dcb),
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why.clone()),
    };
    take(subject, "pfc", dcb(|dcb| map(&dcb.pfc, |mask| priorities(*mask))));
    take(subject, "ets", dcb(|dcb| map(&dcb.ets, ets)));
    take(subject, "dscp", dcb(|dcb| map(&dcb.dscp, dscp)));
    let trust = |trust: &Trust| if *trust == Trust::Dscp { "dscp" } else { "pcp" }.to_owned();
    take(
        subject,
        "trust",
        match &netdev.dcb {
            Reading::Value(dcb) => map(&dcb.trust, trust),
            Reading::Absent => Reading::Absent,
            Reading::Failed(why) => Reading::Failed(why.clone()),
        },
    );
}

/// Transceiver or cable, and the switch port behind it.
fn plugged_in(subject: &str, netdev: &Netdev, take: Take<'_>) {
    let named = |module: &Module| format!("{} {}", module.identifier, module.vendor).trim().to_owned();
    take(subject, "module", map(&netdev.module, named));
    take(subject, "module_serial", map(&netdev.module, |module| module.serial.clone()));
    // A neighbour falls silent with its link, and that is when its name is asked for: the last one heard stays.
    let heard = |of: fn(&Lldp) -> &Reading<String>| match &netdev.lldp {
        Reading::Value(lldp) => match of(lldp) {
            Reading::Absent => Reading::failed("the neighbour does not say"),
            told => told.clone(),
        },
        Reading::Absent => Reading::failed("no neighbour is heard"),
        Reading::Failed(why) => Reading::Failed(why.clone()),
    };
    take(subject, "switch", heard(|lldp| &lldp.system));
    take(subject, "switch_port", heard(|lldp| &lldp.port));
}

fn map<T>(reading: &Reading<T>, words: impl Fn(&T) -> String) -> Reading<String> {
    reading.as_ref().map(words)
}

fn text<T: ToString>(reading: &Reading<T>) -> Reading<String> {
    map(reading, T::to_string)
}

/// Class and share of each priority: `0:1 strict, 1:0 50 %`.
fn ets(ets: &Ets) -> String {
    let one = |(priority, class): (usize, &u8)| {
        let class = usize::from(*class).min(7);
        if ets.strict[class] {
            format!("{priority}:{class} strict")
        } else {
            format!("{priority}:{class} {}%", ets.share[class])
        }
    };
    ets.class_of.iter().enumerate().map(one).collect::<Vec<_>>().join(" ")
}

/// What differs from the usual map, in which the three upper bits of the DSCP are the priority.
fn dscp(map: &BTreeMap<u8, u8>) -> String {
    let unusual = map.iter().filter(|(dscp, priority)| **dscp / 8 != **priority);
    let unusual: Vec<String> = unusual.map(|(dscp, priority)| format!("{dscp}:{priority}")).collect();
    match (map.is_empty(), unusual.is_empty()) {
        (true, _) => "none".to_owned(),
        (false, true) => "usual".to_owned(),
        (false, false) => unusual.join(" "),
    }
}

fn ecn(ecn: &Ecn) -> Reading<String> {
    match (&ecn.notification_point, &ecn.reaction_point) {
        (Reading::Value(notification), Reading::Value(reaction)) => Reading::Value(format!(
            "notification {} reaction {}",
            priorities(*notification),
            priorities(*reaction)
        )),
        (Reading::Failed(why), _) | (_, Reading::Failed(why)) => Reading::Failed(why.clone()),
        (Reading::Absent, _) | (_, Reading::Absent) => Reading::Absent,
    }
}
