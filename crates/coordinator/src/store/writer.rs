//! The thread that writes the history down: what a disk does not take waits, and is acknowledged when it is written. How much may wait is
//! decided before anything is taken (`store.rs`), so nothing that waits is ever thrown away.

use super::{EVENTS, INCIDENTS, NOTES, Notes, Order, Result, Room, Shelf, TAKEN, WAITING_MAX};
use crate::hub::Hub;
use rdmascope_control::coordinator::{ConnectionId, Taken};
use rdmascope_expose::api::{EventView, IncidentView};
use redb::{Database, ReadableTable, ReadableTableMetadata, Table};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tracing::{error, info};

/// Events that are kept: a thousand nodes with a hundred events each, about 40 MB.
const EVENTS_MAX: u64 = 100_000;
/// How long events are kept.
const DAYS_MAX: u64 = 30;
/// Without an order it is tried again after so long.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Orders that are written together.
const TOGETHER_MAX: usize = 1_024;

/// What is to be written.
#[derive(Default)]
struct Waiting {
    events: Vec<EventView>,
    /// By node: whom to tell when its events are written, and up to where.
    taken: BTreeMap<String, (ConnectionId, Taken)>,
    notes: Option<Notes>,
    incidents: Option<Vec<IncidentView>>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.taken.is_empty() && self.notes.is_none() && self.incidents.is_none()
    }

    fn add(&mut self, order: Order) {
        match order {
            Order::Events(events, then) => {
                self.events.extend(events);
                self.taken.extend(then.map(|(to, taken)| (taken.node.clone(), (to, taken))));
            }
            Order::Notes(notes) => self.notes = Some(notes),
            Order::Incidents(incidents) => self.incidents = Some(incidents),
        }
    }
}

/// The writer.
pub(super) struct Writer {
    shelf: Shelf,
    room: Arc<Room>,
    hub: Weak<Hub>,
    waiting: Waiting,
    /// The disk takes nothing, and that was said.
    failing: bool,
}

impl Writer {
    pub(super) fn new(shelf: Shelf, room: Arc<Room>, hub: Weak<Hub>) -> Self {
        Self { shelf, room, hub, waiting: Waiting::default(), failing: false }
    }

    /// Writes as long as somebody gives orders; orders that wait are written together.
    pub(super) fn write_all(mut self, orders: &Receiver<Order>) {
        loop {
            let wait = if self.waiting.is_empty() { Duration::MAX } else { AGAIN_AFTER };
            let first = match orders.recv_timeout(wait) {
                Ok(order) => Some(order),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            for order in first.into_iter().chain(orders.try_iter().take(TOGETHER_MAX)) {
                self.room.orders.fetch_sub(1, Relaxed);
                self.waiting.add(order);
            }
            let written = self.shelf.open().and_then(|()| self.shelf.with(|file| write(file, &self.waiting)));
            let Some(hub) = self.hub.upgrade() else { return };
            match written {
                Ok(()) => self.written(&hub),
                Err(error) => {
                    // After an error of the disk the database takes nothing more until it is opened again.
                    self.shelf.close();
                    hub.own.write_failed("history");
                    if !self.failing {
                        let seconds = AGAIN_AFTER.as_secs();
                        error!(%error, "the history cannot be written: is the disk full? It is tried again every {seconds} s; \
                               until then {WAITING_MAX} events are kept in memory, and agents keep what comes after them");
                        self.failing = true;
                    }
                }
            }
        }
    }

    /// Everything that waited is on the disk.
    fn written(&mut self, hub: &Hub) {
        let Waiting { events, taken, .. } = std::mem::take(&mut self.waiting);
        for (connection, taken) in taken.into_values() {
            hub.write(|state, _| state.kept(connection, taken.number));
        }
        self.room.events.fetch_sub(events.len(), Relaxed);
        if self.room.left.swap(false, Relaxed) {
            hub.write(|state, _| state.ask_for_events());
        }
        let lost = self.room.lost.swap(0, Relaxed);
        if lost > 0 {
            error!(
                lost,
                "the history is written again; so many events of the coordinator's own did not fit into memory and are lost"
            );
        } else if self.failing {
            info!(events = events.len(), "the history is written again, and nothing of it was lost");
        }
        self.failing = false;
    }
}

fn write(database: &Database, waiting: &Waiting) -> Result<()> {
    let write = database.begin_write()?;
    {
        let mut events = write.open_table(EVENTS)?;
        let mut newest = 0;
        for row in &waiting.events {
            // These types always have a JSON form.
            let bytes = serde_json::to_vec(row).unwrap_or_default();
            events.insert(row.number, bytes.as_slice())?;
            newest = newest.max(row.at_ms);
        }
        prune(&mut events, newest)?;
        let mut marks = write.open_table(TAKEN)?;
        for (_, taken) in waiting.taken.values() {
            marks.insert(taken.node.as_str(), (taken.run, taken.number))?;
        }
        if let Some(notes) = &waiting.notes {
            let bytes = serde_json::to_vec(notes).unwrap_or_default();
            write.open_table(NOTES)?.insert("all", bytes.as_slice())?;
        }
        if let Some(incidents) = &waiting.incidents {
            replace(&mut write.open_table(INCIDENTS)?, incidents)?;
        }
    }
    write.commit()?;
    Ok(())
}

/// Puts these incidents in the place of those that are there; one that has not changed costs nothing.
fn replace(table: &mut Table<'_, u64, &[u8]>, incidents: &[IncidentView]) -> Result<()> {
    for incident in incidents {
        let bytes = serde_json::to_vec(incident).unwrap_or_default();
        let same = table.get(incident.id)?.is_some_and(|known| known.value() == bytes);
        if !same {
            table.insert(incident.id, bytes.as_slice())?;
        }
    }
    table.retain(|id, _| incidents.iter().any(|incident| incident.id == id))?;
    Ok(())
}

/// Removes the oldest events while there are too many, or while they are too old.
fn prune(events: &mut Table<'_, u64, &[u8]>, newest_ms: u64) -> Result<()> {
    let oldest_ms = newest_ms.saturating_sub(DAYS_MAX * 24 * 3600 * 1000);
    loop {
        let Some((number, at_ms)) = oldest(events)? else { return Ok(()) };
        if events.len()? <= EVENTS_MAX && at_ms >= oldest_ms {
            return Ok(());
        }
        events.remove(number)?;
    }
}

/// Number and time of the oldest event; one that cannot be read counts as old.
fn oldest(events: &Table<'_, u64, &[u8]>) -> Result<Option<(u64, u64)>> {
    let first = events.first()?;
    Ok(first.map(|(number, bytes)| {
        let at_ms = serde_json::from_slice::<EventView>(bytes.value()).map_or(0, |event| event.at_ms);
        (number.value(), at_ms)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64) -> EventView {
        serde_json::from_value(serde_json::json!({
            "number": number, "at": "2026-11-30T00:53:20.123Z", "at_ms": number, "node": "n1", "kind": "state-change",
            "subject": "mlx5_0/1", "id": "state", "before": "ACTIVE", "after": "DOWN", "text": "the port went down",
        }))
        .unwrap()
    }

    fn told(number: u64) -> Order {
        let taken = Taken { node: "n1".to_owned(), run: 1, number };
        Order::Events(vec![event(number)], Some((ConnectionId(number), taken)))
    }

    #[test]
    fn the_last_word_of_a_node_is_the_one_that_counts() {
        let mut waiting = Waiting::default();
        assert!(waiting.is_empty());
        (1..=7).for_each(|number| waiting.add(told(number)));
        assert_eq!((waiting.events.len(), waiting.taken.len()), (7, 1));
        assert_eq!(waiting.taken["n1"].0, ConnectionId(7));
        assert_eq!(waiting.taken["n1"].1.number, 7);
    }
}
