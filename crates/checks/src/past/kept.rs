//! States that are remembered with their last change: slots of GIDs, the subnet manager's LID, firmware, ports that once were ACTIVE.

use rdmascope_model::{Gid, GidType, Mono, Port, PortState, Reading, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A value that is another one than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<T> {
    /// What it was.
    pub from: T,
    /// What it is.
    pub to: T,
    /// How long ago the change was seen.
    pub age: Duration,
}

/// A RoCE v2 GID that is in another slot than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GidMove {
    /// Which.
    pub gid: Gid,
    /// From slot to slot.
    pub slots: Change<u32>,
}

/// GIDs that are gone are remembered so long: they may come back in another slot.
const GONE_KEPT: Duration = Duration::from_secs(25 * 3600);

type PortKey = (String, u8);

/// The memory of states.
#[derive(Clone, Debug, Default)]
pub(super) struct States {
    gids: BTreeMap<(String, u8, Gid), Held<u32>>,
    managers: BTreeMap<PortKey, Held<u16>>,
    firmware: BTreeMap<String, Held<String>>,
    active: BTreeSet<PortKey>,
}

#[derive(Clone, Debug)]
struct Held<T> {
    value: T,
    seen: Mono,
    before: Option<(T, Mono)>,
}

impl States {
    pub(super) const fn new() -> Self {
        Self {
            gids: BTreeMap::new(),
            managers: BTreeMap::new(),
            firmware: BTreeMap::new(),
            active: BTreeSet::new(),
        }
    }

    pub(super) fn observe(&mut self, snapshot: &Snapshot, at: Mono) {
        for device in snapshot.devices.value().into_iter().flatten() {
            if let Reading::Value(firmware) = &device.firmware {
                hold(&mut self.firmware, device.name.clone(), firmware.clone(), at);
            }
            for port in &device.ports {
                self.port(&device.name, port, at);
            }
        }
        self.gids.retain(|_, held| at.since(held.seen) <= GONE_KEPT);
    }

    fn port(&mut self, device: &str, port: &Port, at: Mono) {
        let key = (device.to_owned(), port.number);
        // Without a subnet manager the LID is 0; that is a state of its own and no other manager.
        if let Some(lid) = port.sm_lid.value().filter(|lid| **lid != 0) {
            hold(&mut self.managers, key.clone(), *lid, at);
        }
        if port.state == Reading::Value(PortState::Active) {
            self.active.insert(key);
        }
        let mut slots: BTreeMap<Gid, Vec<u32>> = BTreeMap::new();
        let version_2 = |kind: &Reading<GidType>| kind.value() == Some(&GidType::RoceV2);
        for entry in port.gids.value().into_iter().flatten().filter(|entry| version_2(&entry.kind)) {
            slots.entry(entry.gid).or_default().push(entry.index);
        }
        for (gid, slots) in slots {
            let key = (device.to_owned(), port.number, gid);
            // The same address on a device and a VLAN above it has two slots: it moved when its old one is none of them.
            let stays = self.gids.get(&key).map(|held| held.value).filter(|slot| slots.contains(slot));
            if let Some(slot) = stays.or(slots.first().copied()) {
                hold(&mut self.gids, key, slot, at);
            }
        }
    }

    pub(super) fn gid_moves(&self, device: &str, port: u8, now: Mono) -> Vec<GidMove> {
        let here = self.gids.iter().filter(|((d, p, _), _)| d == device && *p == port);
        here.filter_map(|((_, _, gid), held)| Some(GidMove { gid: *gid, slots: held.change(now)? })).collect()
    }

    pub(super) fn manager_change(&self, device: &str, port: u8, now: Mono) -> Option<Change<u16>> {
        self.managers.get(&(device.to_owned(), port))?.change(now)
    }

    pub(super) fn firmware_change(&self, device: &str, now: Mono) -> Option<Change<String>> {
        self.firmware.get(device)?.change(now)
    }

    pub(super) fn was_active(&self, device: &str, port: u8) -> bool {
        self.active.contains(&(device.to_owned(), port))
    }
}

impl<T: Clone> Held<T> {
    fn change(&self, now: Mono) -> Option<Change<T>> {
        let (from, at) = self.before.clone()?;
        Some(Change { from, to: self.value.clone(), age: now.since(at) })
    }
}

fn hold<K: Ord, T: PartialEq>(all: &mut BTreeMap<K, Held<T>>, key: K, value: T, at: Mono) {
    match all.get_mut(&key) {
        Some(held) => {
            held.seen = at;
            if held.value != value {
                held.before = Some((std::mem::replace(&mut held.value, value), at));
            }
        }
        None => {
            all.insert(key, Held { value, seen: at, before: None });
        }
    }
}
