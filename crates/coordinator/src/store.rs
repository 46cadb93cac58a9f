//! History and notes on disk, in one file, written by a thread of its own: an agent is told that its events are safe when they are.
//!
//! The file is bounded in entries and in age. One of another form (a newer version's), and one that is damaged, is moved aside, never
//! changed.

mod writer;

use crate::findings;
use crate::hub::Hub;
use rdmascope_control::coordinator::{
    Acknowledgement, ConnectionId, Coordinator, EventRow, FindingKey, Maintenance, Taken,
};
use rdmascope_expose::api::{EventView, IncidentView};
use rdmascope_model::EndpointName;
use redb::{Builder, Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use tracing::{error, info, warn};
use writer::Writer;

/// Version of the file's form.
const FORM: u64 = 1;
const EVENTS: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("events");
const NOTES: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("notes");
const INCIDENTS: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("incidents");
const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");
/// By node: the run of its agent, and the number of its last event that is among [`EVENTS`].
const TAKEN: TableDefinition<'static, &str, (u64, u64)> = TableDefinition::new("taken");

/// Memory that the database may use for its pages, bytes.
const CACHE_BYTES: usize = 16 * 1024 * 1024;
/// Orders that may wait; the disk of a coordinator that has so many is broken. Half of them are for what comes from agents.
const ORDERS_MAX: usize = 1_024;
/// Events that wait for a disk that takes nothing, about 4 MB. Agents keep what they tell beyond that: it is not taken, so it is not acknowledged.
const WAITING_MAX: usize = 10_000;
/// Besides, events of the coordinator's own, which nobody else keeps; beyond that they are lost, and how many is said.
const OWN_WAITING_MAX: usize = 1_000;
/// Events that are brought back at the start.
const RESTORED_MAX: usize = 5_000;
const FILE: &str = "history.redb";

type Result<T> = std::result::Result<T, redb::Error>;

enum Order {
    Events(Vec<EventView>, Option<(ConnectionId, Taken)>),
    Notes(Notes),
    Incidents(Vec<IncidentView>),
}

/// What waits to be written. Only the hub adds, one at a time, and only the writer takes away; so room that was there stays.
#[derive(Default)]
struct Room {
    orders: AtomicUsize,
    events: AtomicUsize,
    /// Events of the coordinator's own for which there was none.
    lost: AtomicUsize,
    /// There was none for what agents told.
    left: AtomicBool,
}

/// Acknowledgements, maintenances and pinned pairs as they are written down.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notes {
    acknowledged: Vec<(FindingKey, u64, String)>,
    maintenance: Vec<(String, u64, u64, String)>,
    /// Pairs whose history is to be kept; an older version wrote none.
    #[serde(default)]
    pins: Vec<(String, String)>,
}

/// The file, while it is open: after an error of the disk it is closed, and opened again before the next try.
#[derive(Clone)]
struct Shelf {
    folder: PathBuf,
    database: Arc<RwLock<Option<Database>>>,
}

impl Shelf {
    fn new(folder: &Path, database: Database) -> Self {
        Self { folder: folder.to_owned(), database: Arc::new(RwLock::new(Some(database))) }
    }

    /// Does something with the file.
    fn with<T>(&self, act: impl FnOnce(&Database) -> Result<T>) -> Result<T> {
        let read = self.database.read().unwrap_or_else(PoisonError::into_inner);
        match &*read {
            Some(database) => act(database),
            None => Err(redb::Error::DatabaseClosed),
        }
    }

    /// Opens it where it is not open.
    fn open(&self) -> Result<()> {
        let mut slot = self.database.write().unwrap_or_else(PoisonError::into_inner);
        if slot.is_none() {
            *slot = Some(open_or_begin_anew(&self.folder)?);
        }
        Ok(())
    }

    /// The database takes nothing more after an error of the disk.
    fn close(&self) {
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The file, and who writes it.
pub(crate) struct Store {
    shelf: Shelf,
    orders: SyncSender<Order>,
    room: Arc<Room>,
}

impl Store {
    /// Opens or makes the file in `folder`, gives the state what is in it, and starts the writer.
    pub(crate) fn open(hub: &Arc<Hub>, folder: &Path) -> Option<Self> {
        match open_or_begin_anew(folder) {
            Ok(database) => {
                if let Err(error) = restore(hub, &database) {
                    error!(%error, "the kept history cannot be read; it is left as it is, and nothing is added");
                    return None;
                }
                let (orders, waiting) = sync_channel(ORDERS_MAX);
                let shelf = Shelf::new(folder, database);
                let room = Arc::new(Room::default());
                let writer = Writer::new(shelf.clone(), Arc::clone(&room), Arc::downgrade(hub));
                let thread = std::thread::Builder::new().name("history".to_owned());
                match thread.spawn(move || writer.write_all(&waiting)) {
                    Ok(_) => Some(Self { shelf, orders, room }),
                    Err(error) => {
                        error!(%error, "the history cannot be kept: no thread for it");
                        None
                    }
                }
            }
            Err(error) => {
                error!(folder = %folder.display(), %error, "the history cannot be kept: is the folder there, writable and not full?");
                None
            }
        }
    }

    /// So many events of an agent can wait to be written: they may be taken from it.
    pub(crate) fn has_room(&self, events: usize) -> bool {
        // One more says that some are missing.
        let waiting = self.room.events.load(Relaxed) + events + 1;
        waiting <= WAITING_MAX && self.room.orders.load(Relaxed) < ORDERS_MAX / 2
    }

    /// An agent was left with its events; they are asked for when there is room.
    pub(crate) fn left(&self, news: bool) {
        if !self.room.left.swap(true, Relaxed) && news {
            warn!(
                "10,000 events wait to be written: agents keep theirs (1,000 each) until there is room, and tell them then"
            );
        }
    }

    /// Writes events down; false when they cannot even wait for it. Those of agents can, where there was room for them.
    pub(crate) fn events(&self, events: Vec<EventView>, then: Option<(ConnectionId, Taken)>) -> bool {
        let count = events.len();
        let own_have_room = self.room.events.load(Relaxed) + count <= WAITING_MAX + OWN_WAITING_MAX;
        let waits = (then.is_some() || own_have_room) && self.order(Order::Events(events, then), count);
        if !waits {
            self.room.lost.fetch_add(count, Relaxed);
        }
        waits
    }

    /// Writes all notes down, in place of those before.
    pub(crate) fn notes(&self, notes: Notes) -> bool {
        self.order(Order::Notes(notes), 0)
    }

    /// Writes all incidents down that are held, in place of those before.
    pub(crate) fn incidents(&self, incidents: Vec<IncidentView>) -> bool {
        self.order(Order::Incidents(incidents), 0)
    }

    fn order(&self, order: Order, events: usize) -> bool {
        // Counted first: the writer may have it before the next line.
        self.room.orders.fetch_add(1, Relaxed);
        self.room.events.fetch_add(events, Relaxed);
        let waits = self.orders.try_send(order).is_ok();
        if !waits {
            self.room.orders.fetch_sub(1, Relaxed);
            self.room.events.fetch_sub(events, Relaxed);
        }
        waits
    }

    /// Events older than `before` that are wanted, the newest first, at most `limit`.
    pub(crate) fn older(
        &self,
        before: u64,
        limit: usize,
        wanted: impl Fn(&EventView) -> bool,
    ) -> Result<Vec<EventView>> {
        self.shelf.with(|database| {
            let read = database.begin_read()?;
            let table = read.open_table(EVENTS)?;
            let mut found = Vec::new();
            for entry in table.range(..before)?.rev() {
                let (_, bytes) = entry?;
                if let Ok(event) = serde_json::from_slice::<EventView>(bytes.value())
                    && wanted(&event)
                {
                    found.push(event);
                    if found.len() == limit {
                        break;
                    }
                }
            }
            Ok(found)
        })
    }
}

/// Opens the file; one that is damaged is moved aside first, for whoever wants to look into it, and in place of one before it.
fn open_or_begin_anew(folder: &Path) -> Result<Database> {
    match open(folder) {
        Err(error) if is_damaged(&error) => {
            let aside = folder.join(format!("{FILE}.damaged"));
            error!(%error, aside = %aside.display(), "the kept history is damaged; it is moved aside, and a new one begins");
            std::fs::rename(folder.join(FILE), &aside).map_err(redb::Error::Io)?;
            open(folder)
        }
        other => other,
    }
}

/// The file is not what it should be; a folder that cannot be written, a full disk or another process that has it is something else.
fn is_damaged(error: &redb::Error) -> bool {
    match error {
        redb::Error::Corrupted(_)
        | redb::Error::UpgradeRequired(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::RepairAborted => true,
        redb::Error::Io(error) => matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof),
        _ => false,
    }
}

fn open(folder: &Path) -> Result<Database> {
    let path = folder.join(FILE);
    // Unchecked, a file that something else has changed may end the whole program later.
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
    let database = builder.create(&path)?;
    let form = {
        let write = database.begin_write()?;
        let form = {
            let mut meta = write.open_table(META)?;
            let found = meta.get("form")?.map(|form| form.value());
            if found.is_none() {
                meta.insert("form", FORM)?;
            }
            write.open_table(EVENTS)?;
            write.open_table(NOTES)?;
            write.open_table(INCIDENTS)?;
            write.open_table(TAKEN)?;
            found.unwrap_or(FORM)
        };
        write.commit()?;
        form
    };
    if form == FORM {
        return Ok(database);
    }
    drop(database);
    let aside = folder.join(format!("{FILE}.form-{form}"));
    warn!(form, aside = %aside.display(), "the history was written by another version; it is moved aside, and a new one begins: see the page about backups");
    std::fs::rename(&path, &aside).map_err(redb::Error::Io)?;
    open(folder)
}

fn restore(hub: &Hub, database: &Database) -> Result<()> {
    let read = database.begin_read()?;
    let table = read.open_table(EVENTS)?;
    let (mut events, mut rows) = (Vec::new(), 0_usize);
    let last_number = table.last()?.map_or(0, |(number, _)| number.value());
    for entry in table.iter()?.rev().take(RESTORED_MAX) {
        let (_, bytes) = entry?;
        let event = serde_json::from_slice::<EventView>(bytes.value()).ok();
        match event.as_ref().and_then(findings::event_row) {
            Some(event) => events.push(event),
            None => rows += 1,
        }
    }
    events.reverse();
    let notes = read.open_table(NOTES)?;
    let notes = notes.get("all")?.map(|bytes| serde_json::from_slice::<Notes>(bytes.value()));
    rows += usize::from(matches!(notes, Some(Err(_))));
    let notes = notes.and_then(std::result::Result::ok).unwrap_or_default();
    let pins = notes.pins();
    let (acknowledged, maintenance) = notes.into_parts();
    let mut incidents = Vec::new();
    for entry in read.open_table(INCIDENTS)?.iter()? {
        match serde_json::from_slice::<IncidentView>(entry?.1.value()) {
            Ok(incident) => incidents.push(incident),
            Err(_) => rows += 1,
        }
    }
    let mut taken = Vec::new();
    for entry in read.open_table(TAKEN)?.iter()? {
        let (node, mark) = entry?;
        let (run, number) = mark.value();
        taken.push(Taken { node: node.value().to_owned(), run, number });
    }
    if rows > 0 {
        warn!(rows, "some rows of the history are of another version, and are left out");
    }
    info!(
        events = events.len(),
        acknowledged = acknowledged.len(),
        incidents = incidents.len(),
        "the history of earlier runs is back"
    );
    hub.write(|state, _| {
        state.restore_health(events, last_number, acknowledged, maintenance);
        state.restore_taken(taken);
        state.restore_pins(pins);
    });
    hub.restore_incidents(&incidents);
    Ok(())
}

impl Notes {
    /// What the state holds.
    pub(crate) fn of(state: &Coordinator) -> Self {
        let health = state.health();
        let note = |(key, note): (&FindingKey, &Acknowledgement)| (key.clone(), note.at.0, note.note.clone());
        let work = |m: &Maintenance| (m.nodes.clone(), m.since.0, m.until.0, m.note.clone());
        Self {
            acknowledged: health.acknowledgements().map(note).collect(),
            maintenance: health.maintenances().iter().map(work).collect(),
            pins: state.pins().map(|(source, target)| (source.to_string(), target.to_string())).collect(),
        }
    }

    fn pins(&self) -> Vec<(EndpointName, EndpointName)> {
        let pair = |(source, target): &(String, String)| Some((source.parse().ok()?, target.parse().ok()?));
        self.pins.iter().filter_map(pair).collect()
    }

    fn into_parts(self) -> (Vec<(FindingKey, Acknowledgement)>, Vec<Maintenance>) {
        use rdmascope_model::Wall;
        let note = |(key, at, note)| (key, Acknowledgement { at: Wall(at), note });
        let work =
            |(nodes, since, until, note)| Maintenance { nodes, since: Wall(since), until: Wall(until), note };
        (self.acknowledged.into_iter().map(note).collect(), self.maintenance.into_iter().map(work).collect())
    }
}

/// Events as they are written and shown.
pub(crate) fn shown(rows: &[EventRow]) -> Vec<EventView> {
    rows.iter().map(findings::event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use rdmascope_control::coordinator::{RowKind, Settings};
    use rdmascope_expose::api::ComponentView;
    use rdmascope_host::Clock;
    use rdmascope_link::EventKind;
    use rdmascope_model::Wall;
    use std::time::{Duration, Instant};

    fn hub() -> Arc<Hub> {
        Arc::new(Hub::new(Settings::default(), 1, Clock::new(), Access::default(), false, 100).unwrap())
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("rdmascope-store-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn row(number: u64, at: u64) -> EventRow {
        EventRow {
            number,
            at: Wall(at),
            node: "n1".to_owned(),
            kind: RowKind::Node(EventKind::StateChange),
            subject: "mlx5_0/1".to_owned(),
            id: "state".to_owned(),
            before: "ACTIVE".to_owned(),
            after: "DOWN".to_owned(),
            text: "the port went down".to_owned(),
            basis: Some(vec!["netdev_mtu 9e3 4.22e3".to_owned(), "= of".to_owned()]),
        }
    }

    fn wait_for(store: &Store, count: usize) -> Vec<EventView> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let found = store.older(u64::MAX, 1_000, |_| true).unwrap();
            if found.len() == count {
                return found;
            }
            assert!(Instant::now() < deadline, "{} of {count} events were written", found.len());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn history_and_notes_come_back_and_numbers_go_on() {
        let folder = folder("back");
        let first = hub();
        let store = Store::open(&first, &folder).unwrap();
        assert!(store.events(shown(&[row(1, 1_000), row(2, 2_000)]), None));
        let maintenance = vec![("n*".to_owned(), 5, 9, "moving".to_owned())];
        let acknowledged =
            vec![(("n1".to_owned(), "port-state".to_owned(), "m/1".to_owned()), 7, "known".to_owned())];
        let pins = vec![("n1/m/1".to_owned(), "n2/m/1".to_owned())];
        assert!(store.notes(Notes { acknowledged, maintenance, pins }));
        let found = wait_for(&store, 2);
        assert_eq!(found.iter().map(|e| e.number).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(store.older(2, 9, |_| true).unwrap().len(), 1);
        assert_eq!(store.older(9, 9, |event| event.node == "other").unwrap(), []);
        drop((store, first));
        let second = reopened(&folder);
        second.read(|state, _| {
            let health = state.health();
            assert_eq!(health.events().cloned().collect::<Vec<_>>(), [row(2, 2_000), row(1, 1_000)]);
            assert_eq!(health.maintenance_of("n7").unwrap().note, "moving");
            assert_eq!(health.acknowledgements().count(), 1);
            assert_eq!(state.pins().map(|(a, b)| format!("{a} {b}")).collect::<Vec<_>>(), ["n1/m/1 n2/m/1"]);
        });
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// The writer of the store before may still hold the file for a moment.
    fn reopened(folder: &Path) -> Arc<Hub> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let hub = hub();
            if Store::open(&hub, folder).is_some() {
                return hub;
            }
            assert!(Instant::now() < deadline, "the file stays locked");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn incident(id: u64, state: &str, title: &str) -> IncidentView {
        IncidentView {
            id,
            state: state.to_owned(),
            status: "fail".to_owned(),
            title: title.to_owned(),
            who: "the spines".to_owned(),
            components: vec![ComponentView { kind: "spines".to_owned(), name: "the spines".to_owned() }],
            effect: "slow".to_owned(),
            way: "both".to_owned(),
            share: "all".to_owned(),
            confidence: "high".to_owned(),
            evidence: Vec::new(),
            figures: Vec::new(),
            reasons: Vec::new(),
            next_step: String::new(),
            bad_pairs: 1,
            pairs: 2,
            bad_peers: 3,
            peers: 4,
            worst: None,
            fine: None,
            nodes: Vec::new(),
            since: "2026-11-30T00:53:20.123Z".to_owned(),
            opened_at: None,
            seen_at: "2026-11-30T00:53:20.123Z".to_owned(),
            closed_at: None,
            acknowledged: None,
            maintenance: false,
        }
    }

    #[test]
    fn incidents_open_and_closed_come_back_and_those_that_nobody_holds_any_more_do_not() {
        let folder = folder("incidents");
        let first = hub();
        let store = Store::open(&first, &folder).unwrap();
        assert!(store.incidents(vec![
            incident(1, "closed", "old"),
            incident(2, "closed", "x"),
            incident(3, "open", "x")
        ]));
        assert!(store.incidents(vec![incident(2, "closed", "x"), incident(3, "open", "narrower now")]));
        // In one queue: when this is written, they are.
        assert!(store.events(shown(&[row(1, 1_000)]), None));
        wait_for(&store, 1);
        drop((store, first));
        let second = reopened(&folder);
        let back = second.read(|state, _| {
            state.incidents().iter().map(|i| (i.id, i.state.as_str(), i.title.clone())).collect::<Vec<_>>()
        });
        assert_eq!(back, [(2, "closed", "x".to_owned()), (3, "open", "narrower now".to_owned())]);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_too_old_is_forgotten() {
        let folder = folder("old");
        let hub = hub();
        let store = Store::open(&hub, &folder).unwrap();
        let day = 24 * 3600 * 1000;
        assert!(store.events(shown(&[row(1, day), row(2, 2 * day), row(3, 31 * day + day / 2)]), None));
        assert_eq!(wait_for(&store, 2).last().unwrap().number, 2);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn up_to_where_an_agent_has_told_comes_back_with_what_it_told() {
        let folder = folder("taken");
        let first = hub();
        let store = Store::open(&first, &folder).unwrap();
        let taken = Taken { node: "n1".to_owned(), run: 7, number: 3 };
        assert!(store.events(shown(&[row(1, 1_000)]), Some((ConnectionId(1), taken.clone()))));
        wait_for(&store, 1);
        drop((store, first));
        drop(reopened(&folder));
        let database = opened(&folder);
        let read = database.begin_read().unwrap();
        let mark = read.open_table(TAKEN).unwrap().get("n1").unwrap().map(|mark| mark.value());
        assert_eq!(mark, Some((7, 3)));
        drop((read, database));
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// The same for the file alone.
    fn opened(folder: &Path) -> Database {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match open(folder) {
                Ok(database) => return database,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_file_that_is_cut_short_or_changed_anywhere_is_moved_aside_or_read_and_never_ends_the_program() {
        let folder = folder("damaged");
        let path = folder.join(FILE);
        drop(open(&folder).unwrap());
        let whole = std::fs::read(&path).unwrap();
        let mut aside = 0;
        for at in 0..40_usize {
            let place = at * whole.len() / 40;
            for cut in [true, false] {
                let mut bytes = whole.clone();
                if cut {
                    bytes.truncate(place);
                } else {
                    let end = bytes.len().min(place + 512);
                    bytes[place..end].fill(0xa5);
                }
                std::fs::write(&path, &bytes).unwrap();
                let _ = std::fs::remove_file(folder.join("history.redb.damaged"));
                let database = open_or_begin_anew(&folder).unwrap_or_else(|e| panic!("{place} {cut}: {e}"));
                database.begin_read().unwrap().open_table(EVENTS).unwrap();
                if let Ok(kept) = std::fs::read(folder.join("history.redb.damaged")) {
                    aside += 1;
                    assert!(kept == bytes, "what is moved aside is not changed");
                }
            }
        }
        assert!(aside >= 40, "every file that is cut short, but for the empty one: {aside}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_of_another_form_is_moved_aside_and_not_changed() {
        let folder = folder("form");
        let database = open(&folder).unwrap();
        let write = database.begin_write().unwrap();
        write.open_table(META).unwrap().insert("form", 99).unwrap();
        write.commit().unwrap();
        drop(database);
        drop(open(&folder).unwrap());
        assert!(folder.join("history.redb.form-99").exists());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
