//! A second coordinator, started by mistake: agents reach one or the other, whichever answers first.

use crate::cluster::{Cluster, Key};
use crate::disk::Disk;
use crate::wires::{Parcel, Towards};
use rdmascope_control::coordinator::{ConnectionId, Coordinator};
use std::collections::BTreeMap;

/// It, with all that is its own.
pub(crate) struct Rival {
    coordinator: Option<Coordinator>,
    connections: BTreeMap<ConnectionId, usize>,
    wakeup: Option<Key>,
    disk: Option<Disk>,
}

impl Cluster {
    /// Starts a second coordinator beside the one that runs; it has the newer epoch, unless it is to be the older one. It has a disk of its own
    /// where the first has one.
    pub fn start_rival(&mut self, older: bool) {
        let first = self.coordinator.as_ref().map_or(self.epoch, Coordinator::epoch);
        let epoch = if older { first.saturating_sub(1) } else { self.epoch + 1 };
        self.epoch = self.epoch.max(epoch);
        self.rival = Some(Rival {
            coordinator: Some(Coordinator::new(self.settings.clone(), epoch)),
            connections: BTreeMap::new(),
            wakeup: None,
            disk: self.disk.as_ref().map(|_| Disk::default()),
        });
        self.as_rival(Self::obey_coordinator);
    }

    /// Kills the second coordinator. What is on its disk counts on.
    pub fn stop_rival(&mut self) {
        let Some(rival) = self.rival.take() else { return };
        rival.wakeup.and_then(|key| self.queue.remove(&key));
        for (connection, host) in rival.connections {
            self.send(connection, Towards::Agent, host, Parcel::End);
        }
        self.old_disks.extend(rival.disk);
    }

    /// The second coordinator, while there is one.
    #[must_use]
    pub fn rival(&self) -> Option<&Coordinator> {
        self.rival.as_ref()?.coordinator.as_ref()
    }

    /// Every disk that a coordinator ever wrote to.
    pub fn disks(&self) -> impl Iterator<Item = &Disk> {
        let rival = self.rival.iter().filter_map(|rival| rival.disk.as_ref());
        self.disk.iter().chain(rival).chain(&self.old_disks)
    }

    pub(crate) fn is_rivals(&self, connection: ConnectionId) -> bool {
        self.rival.as_ref().is_some_and(|rival| rival.connections.contains_key(&connection))
    }

    /// Does something as if the second coordinator were the only one.
    pub(crate) fn as_rival(&mut self, act: impl FnOnce(&mut Self)) {
        let Some(mut rival) = self.rival.take() else { return };
        self.trade_places(&mut rival);
        self.rivals_turn = true;
        act(self);
        self.rivals_turn = false;
        self.trade_places(&mut rival);
        self.rival = Some(rival);
    }

    fn trade_places(&mut self, rival: &mut Rival) {
        std::mem::swap(&mut self.coordinator, &mut rival.coordinator);
        std::mem::swap(&mut self.connections, &mut rival.connections);
        std::mem::swap(&mut self.coordinator_wakeup, &mut rival.wakeup);
        std::mem::swap(&mut self.disk, &mut rival.disk);
    }
}
