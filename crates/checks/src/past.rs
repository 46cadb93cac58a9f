//! What is remembered of a machine: how its counters moved within the last minutes, hours and the last day, and which slot a GID had.

mod kept;
mod track;

#[cfg(test)]
mod tests;

pub use kept::{Change, GidMove};

use crate::counters::{Place, Width, find};
use kept::States;
use rdmascope_model::{Mono, Netdev, PciFunction, Port, Reading, Snapshot};
use std::collections::BTreeMap;
use std::time::Duration;
use track::{Around, Seen, Track};

/// Whose counter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A port of an RDMA device: `counters/` and `hw_counters/`.
    Port(String, u8),
    /// A network device: `ethtool -S`, and `carrier_changes`, `carrier_down_count`, `tx_bytes`, `rx_bytes`.
    Netdev(String),
    /// A PCI function: its AER counters, such as `correctable/BadTLP`.
    Pci(String),
}

/// How far a counter rose within a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rise {
    /// So many, within so long: the window (or up to a step of the memory more: a minute, five minutes, an hour), or as much of it as
    /// is remembered. What was counted between the last look before a restart of the driver and the first one after it is not in it.
    By(u64, Duration),
    /// It stands at its largest value and cannot rise any more: what happens is not counted.
    Saturated(u64),
    /// Not known: seen once only, not there, not readable, or reset in between; the text says which.
    Unknown(String),
}

/// A source that was not seen for so long is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(25 * 3600);

/// The kernel works out the time of the boot from two clocks; it may differ by so much, in milliseconds, without a new boot.
const BOOT_JITTER_MS: u64 = 60_000;

/// The memory. It holds the counters of the catalogue alone, thinned out with their age: about 200 KiB for 8 ports.
#[derive(Clone, Debug, Default)]
pub struct Past {
    names: BTreeMap<String, u16>,
    tracks: BTreeMap<Source, Track>,
    states: States,
    last: Option<Mono>,
    booted_ms: Option<u64>,
}

impl Past {
    /// Nothing is remembered yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            names: BTreeMap::new(),
            tracks: BTreeMap::new(),
            states: States::new(),
            last: None,
            booted_ms: None,
        }
    }

    /// The memory of somebody who looked twice, for a check that is run once. Where `earlier` is not earlier by the machine's own
    /// clock, only `now` is remembered.
    #[must_use]
    pub fn from_two(earlier: &Snapshot, now: &Snapshot) -> Self {
        let at = |snapshot: &Snapshot| Mono(snapshot.taken_at.0.saturating_mul(1_000_000));
        let mut past = Self::new();
        if at(earlier) < at(now) {
            past.observe(earlier, at(earlier));
        }
        past.observe(now, at(now));
        past
    }

    /// Remembers a snapshot; one that is not later than the last is left out.
    pub fn observe(&mut self, snapshot: &Snapshot, at: Mono) {
        if self.last.is_some_and(|last| at <= last) {
            return;
        }
        let booted = snapshot.system.booted_at.value().map(|wall| wall.0);
        let restarted =
            self.booted_ms.zip(booted).is_some_and(|(before, now)| before.abs_diff(now) > BOOT_JITTER_MS);
        self.booted_ms = booted.or(self.booted_ms);
        self.last = Some(at);
        for device in snapshot.devices.value().into_iter().flatten() {
            for port in &device.ports {
                self.take_port(&device.name, port, at, restarted);
            }
        }
        for (name, netdev) in snapshot.netdevs.value().into_iter().flatten() {
            self.take_netdev(name, netdev, at, restarted);
        }
        for (address, function) in snapshot.pci.value().into_iter().flatten() {
            self.take_function(address, function, at, restarted);
        }
        self.states.observe(snapshot, at);
        self.tracks.retain(|_, track| at.since(track.last) <= FORGOTTEN_AFTER);
    }

    fn take_port(&mut self, device: &str, port: &Port, at: Mono, restarted: bool) {
        let width = |name: &str| find(Place::Port, name).or(find(Place::Hardware, name)).map(|row| row.width);
        let seen = port.counters.iter().filter_map(|(name, value)| {
            Some(Seen { width: width(name)?, id: self.id(name), value: value.clone() })
        });
        let seen: Vec<Seen> = seen.collect();
        let folders = ["counters/", "hw_counters/"].into_iter();
        let unread =
            folders.filter_map(|name| port.counters.get(name)?.why_missing().map(str::to_owned)).next();
        let around = Around { at, restarted, unread, unlisted_is_zero: false };
        self.track(Source::Port(device.to_owned(), port.number)).observe(around, &seen);
    }

    fn take_netdev(&mut self, name: &str, netdev: &Netdev, at: Mono, restarted: bool) {
        let own = [
            ("carrier_changes", netdev.carrier_changes.clone().map(u64::from)),
            ("carrier_down_count", netdev.carrier_down_count.clone().map(u64::from)),
            ("tx_bytes", netdev.tx_bytes.clone()),
            ("rx_bytes", netdev.rx_bytes.clone()),
        ];
        let mut seen: Vec<Seen> =
            own.map(|(name, value)| Seen { id: self.id(name), width: Width::Whole, value }).into();
        for (name, value) in netdev.statistics.value().into_iter().flatten() {
            if let Some(row) = find(Place::Netdev, name) {
                seen.push(Seen { id: self.id(name), width: row.width, value: Reading::Value(*value) });
            }
        }
        let unread = match &netdev.statistics {
            Reading::Failed(why) => Some(why.clone()),
            Reading::Value(_) | Reading::Absent => None,
        };
        let around = Around { at, restarted, unread, unlisted_is_zero: false };
        self.track(Source::Netdev(name.to_owned())).observe(around, &seen);
    }

    fn take_function(&mut self, address: &str, function: &PciFunction, at: Mono, restarted: bool) {
        let unread = match &function.errors {
            Reading::Absent => return,
            Reading::Failed(why) => Some(why.clone()),
            Reading::Value(_) => None,
        };
        let errors = function.errors.value().into_iter().flatten();
        let seen: Vec<Seen> = errors
            .map(|(name, value)| Seen {
                id: self.id(name),
                width: Width::Whole,
                value: Reading::Value(*value),
            })
            .collect();
        let around = Around { at, restarted, unread, unlisted_is_zero: true };
        self.track(Source::Pci(address.to_owned())).observe(around, &seen);
    }

    fn track(&mut self, source: Source) -> &mut Track {
        self.tracks.entry(source).or_default()
    }

    /// The number of a name. Only names of the catalogue and the kernel's AER names come here: a few hundred at most.
    fn id(&mut self, name: &str) -> u16 {
        let next = u16::try_from(self.names.len()).unwrap_or(u16::MAX);
        match self.names.get(name) {
            Some(id) => *id,
            None => *self.names.entry(name.to_owned()).or_insert(next),
        }
    }

    /// How far a counter rose within the last `window`. A PCI error that the kernel does not list stands at 0.
    #[must_use]
    pub fn rise(&self, source: &Source, counter: &str, window: Duration) -> Rise {
        let Some(last) = self.last else { return Rise::Unknown("nothing was seen yet".to_owned()) };
        let Some(track) = self.tracks.get(source).filter(|track| track.last == last) else {
            return Rise::Unknown(format!(
                "{counter} was not looked at, or what it belongs to is not there now"
            ));
        };
        track.rise(self.names.get(counter).copied(), counter, window)
    }

    /// What is usual for a counter: the median of its rises per second over the hours of the last day; `None` until three hours are
    /// remembered.
    #[must_use]
    pub fn median_rise(&self, source: &Source, counter: &str) -> Option<f64> {
        self.tracks.get(source)?.median(*self.names.get(counter)?)
    }

    /// RoCE v2 GIDs of a port that are, or were when last seen, in another slot than before.
    #[must_use]
    pub fn gid_moves(&self, device: &str, port: u8) -> Vec<GidMove> {
        self.states.gid_moves(device, port, self.last.unwrap_or_default())
    }

    /// The last change from one subnet manager's LID to another.
    #[must_use]
    pub fn manager_change(&self, device: &str, port: u8) -> Option<Change<u16>> {
        self.states.manager_change(device, port, self.last.unwrap_or_default())
    }

    /// The last change of a device's firmware.
    #[must_use]
    pub fn firmware_change(&self, device: &str) -> Option<Change<String>> {
        self.states.firmware_change(device, self.last.unwrap_or_default())
    }

    /// Whether the port was seen ACTIVE since it is watched.
    #[must_use]
    pub fn was_active(&self, device: &str, port: u8) -> bool {
        self.states.was_active(device, port)
    }
}
