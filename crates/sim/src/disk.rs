//! A coordinator's disk: what it was told to keep, what of that was written, and what a coordinator finds that was killed.

use crate::cluster::{Cluster, Happening};
use rdmascope_control::coordinator::{ConnectionId, Coordinator, Event, EventRow, Taken};
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{EndpointName, Metric};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A commit with its fsync.
const WRITE_TAKES: Duration = Duration::from_millis(7);
/// Events that a coordinator reads at its start, as the product does.
const RESTORED_MAX: usize = 5_000;

type Order = (Vec<EventRow>, Option<(ConnectionId, Taken)>);

/// What is on it.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    rows: Vec<EventRow>,
    taken: BTreeMap<String, Taken>,
    /// Orders that are not written yet, the oldest first.
    under_way: VecDeque<Order>,
    /// It takes nothing.
    full: bool,
    /// The matrix as it was written last: names, and the cells of each source and metric.
    matrix: (Vec<EndpointName>, Vec<Vec<u8>>),
}

impl Disk {
    /// The history, the oldest first.
    #[must_use]
    pub fn rows(&self) -> &[EventRow] {
        &self.rows
    }

    fn write(&mut self, (rows, then): Order) -> Option<(ConnectionId, u64)> {
        self.rows.extend(rows);
        let (connection, taken) = then?;
        let number = taken.number;
        self.taken.insert(taken.node.clone(), taken);
        Some((connection, number))
    }

    /// The coordinator is killed: the first orders under way have just been written, and nobody was told.
    pub(crate) fn killed(&mut self, written: usize) {
        let orders = std::mem::take(&mut self.under_way);
        let written = if self.full { 0 } else { written };
        for order in orders.into_iter().take(written) {
            self.write(order);
        }
    }

    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    fn restore(&self, coordinator: &mut Coordinator, now: rdmascope_model::Now) {
        let last = self.rows.last().map_or(0, |row| row.number);
        let rows = self.rows[self.rows.len().saturating_sub(RESTORED_MAX)..].to_vec();
        coordinator.restore_health(rows, last, Vec::new(), Vec::new());
        coordinator.restore_taken(self.taken.values().cloned().collect());
        let (names, parts) = &self.matrix;
        let numbers = coordinator.restore_names(names);
        for part in parts {
            // Endpoints that are too many for the coordinator are none here.
            assert!(coordinator.restore(part, &numbers, now).is_ok(), "what was kept can be read");
        }
    }
}

impl Cluster {
    /// From now on coordinators write to a disk, and one that starts reads it.
    pub fn give_disk(&mut self) {
        self.disk.get_or_insert_default();
    }

    /// The disk is lost and replaced by an empty one, and the coordinator does not know.
    pub fn give_new_disk(&mut self) {
        self.disk = Some(Disk::default());
    }

    /// The disk of the coordinator.
    #[must_use]
    pub fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// The disk takes nothing more, or again.
    pub fn set_disk_full(&mut self, full: bool) {
        self.disk.iter_mut().for_each(|disk| disk.full = full);
        if !full {
            self.written();
        }
    }

    /// The coordinator writes its matrix down, as it does every half minute.
    pub fn keep_matrix(&mut self) {
        let (Some(disk), Some(coordinator)) = (&mut self.disk, &self.coordinator) else { return };
        if disk.full {
            return;
        }
        let names = coordinator.kept_names();
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let mut parts = Vec::new();
        for source in (0..count).map(EndpointIndex) {
            for metric in Metric::ALL {
                let mut part = Vec::new();
                coordinator.keep(metric, source, count, &mut part);
                parts.extend((!part.is_empty()).then_some(part));
            }
        }
        disk.matrix = (names, parts);
    }

    /// The coordinator wants this kept: without a disk it is safe at once.
    pub(crate) fn keep(&mut self, order: Order) {
        match &mut self.disk {
            Some(disk) => {
                disk.under_way.push_back(order);
                self.after(WRITE_TAKES, Happening::Written);
            }
            None => {
                if let (Some((connection, taken)), Some(coordinator)) = (order.1, &mut self.coordinator) {
                    coordinator.kept(connection, taken.number);
                }
            }
        }
    }

    /// Everything that waits for the disk is written, unless it is full.
    pub(crate) fn written(&mut self) {
        let Some(disk) = self.disk.as_mut().filter(|disk| !disk.full) else { return };
        let orders = std::mem::take(&mut disk.under_way);
        let safe: Vec<_> = orders.into_iter().filter_map(|order| disk.write(order)).collect();
        if let Some(coordinator) = &mut self.coordinator {
            safe.into_iter().for_each(|(connection, number)| coordinator.kept(connection, number));
        }
        // As the shell does: whatever was changed, the state is asked again.
        self.tell_coordinator(Event::Tick);
    }

    /// A coordinator that has just started reads what is on its disk.
    pub(crate) fn read_disk(&mut self) {
        let now = self.now();
        if let (Some(disk), Some(coordinator)) = (&self.disk, &mut self.coordinator) {
            disk.restore(coordinator, now);
            self.tell_coordinator(Event::Tick);
        }
    }
}
