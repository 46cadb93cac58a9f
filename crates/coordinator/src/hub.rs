//! The one place that holds the coordinator's state and its connections.

use crate::access::Access;
use crate::incidents;
use crate::maintenance::MaintenanceFile;
use crate::store::{self, Notes, Store};
use crate::stream::{Stream, Told};
use crate::views;
use axum::body::Bytes;
use prometheus::Registry;
use rdmascope_control::coordinator::{
    Action, ConnectionId, Coordinator, Event, EventRow, Probed, Refusal, RowKind, Settings, Taken,
};
use rdmascope_expose::api::IncidentView;
use rdmascope_expose::metrics::CoordinatorOwn;
use rdmascope_host::Clock;
use rdmascope_host::service_manager::Heartbeat;
use rdmascope_link::{ToAgent, ToCoordinator};
use rdmascope_localise::{Incident, IncidentState};
use rdmascope_model::{Now, Peer};
use rdmascope_secure::Tls;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, broadcast, mpsc};
use tracing::{debug, info, warn};

/// Frames that wait for one agent; an agent that lets so many pile up does not read, and its connection is closed.
/// A full address book of 4,096 endpoints is 21 frames.
pub(crate) const FRAMES_QUEUED_MAX: usize = 256;

/// What a connection's task is told.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// One encoded frame, which other connections may hold too.
    Frame(Bytes),
    /// Send what is before it, then close.
    Close,
}

/// State, connections and what both need.
pub(crate) struct Hub {
    inner: Mutex<Inner>,
    /// Told whenever the next wake-up may have changed.
    changed: Notify,
    clock: Clock,
    access: Mutex<Arc<Access>>,
    /// What is shown and trusted where the port speaks TLS.
    pub(crate) tls: OnceLock<Arc<Tls>>,
    /// Other machines reach it.
    exposed: bool,
    pub(crate) pairs_max: u32,
    pub(crate) own: CoordinatorOwn,
    pub(crate) registry: Registry,
    /// Where history is kept over a restart; empty without a folder for it.
    pub(crate) store: OnceLock<Store>,
    stream: Stream,
    /// Where nodes in maintenance are listed; empty without such a file.
    pub(crate) maintenance: OnceLock<Arc<MaintenanceFile>>,
}

struct Inner {
    state: Coordinator,
    connections: BTreeMap<ConnectionId, mpsc::Sender<Outgoing>>,
    connections_made: u64,
    /// Parts of address books that were encoded last, oldest first: thousands of connections get the same.
    books: VecDeque<EncodedBook>,
    /// Incidents by their number, as readers of the stream know them.
    told: BTreeMap<u64, IncidentState>,
    /// When somebody looked last, as the state was told.
    last: Now,
}

/// A part of an address book: its peers, generation and base, and the frame.
struct EncodedBook {
    peers: Arc<[Peer]>,
    of: (u64, u64),
    frame: Bytes,
}

/// A clock that is set back by more than this is told of.
const CLOCK_BACK_SAID: Duration = Duration::from_secs(1);
/// A whole book of 4,096 endpoints has 21 parts.
const BOOKS_ENCODED_MAX: usize = 32;

impl Hub {
    pub(crate) fn new(
        settings: Settings,
        epoch: u64,
        clock: Clock,
        access: Access,
        exposed: bool,
        pairs_max: u32,
    ) -> prometheus::Result<Self> {
        let registry = Registry::new();
        let own = CoordinatorOwn::new(&registry, &RowKind::ALL.map(RowKind::as_str))?;
        let inner = Inner {
            state: Coordinator::new(settings, epoch),
            connections: BTreeMap::new(),
            connections_made: 0,
            books: VecDeque::new(),
            told: BTreeMap::new(),
            last: clock.now(),
        };
        let inner = Mutex::new(inner);
        Ok(Self {
            inner,
            changed: Notify::new(),
            clock,
            access: Mutex::new(Arc::new(access)),
            tls: OnceLock::new(),
            exposed,
            pairs_max,
            own,
            registry,
            store: OnceLock::new(),
            stream: Stream::default(),
            maintenance: OnceLock::new(),
        })
    }

    /// Who may do what, as it is now.
    pub(crate) fn access(&self) -> Arc<Access> {
        Arc::clone(&self.access.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Anybody on other machines may write.
    pub(crate) fn insecure(&self) -> bool {
        self.exposed && self.access().is_open()
    }

    /// Who comes from now on must show these tokens; false when they are the same as before. Whether certificates count does not change.
    pub(crate) fn change_tokens(&self, access: &Access) -> bool {
        let mut own = self.access.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Access { certificates: own.certificates, ..access.clone() };
        let changed = **own != new;
        *own = Arc::new(new);
        changed
    }

    /// Looks at the state.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Coordinator, Now) -> T) -> T {
        let mut inner = self.lock();
        let now = self.now(&mut inner);
        look(&inner.state, now)
    }

    /// The time as the state knows it: its wall clock never goes back while it runs.
    fn now(&self, inner: &mut Inner) -> Now {
        let seen = self.clock.now();
        let now = seen.going_on_from(inner.last);
        let (was, is) = (inner.last.wall.since(seen.wall), now.wall.since(seen.wall));
        if is > CLOCK_BACK_SAID && was <= CLOCK_BACK_SAID {
            warn!(
                "the machine's clock was set back by {} s; times are told as before until the coordinator is started again",
                is.as_secs()
            );
        }
        inner.last = now;
        now
    }

    /// Changes the state and does what comes of it.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Coordinator, Now) -> T) -> T {
        let mut inner = self.lock();
        let now = self.now(&mut inner);
        let result = change(&mut inner.state, now);
        self.act(&mut inner);
        drop(inner);
        self.changed.notify_one();
        result
    }

    /// A new connection, not yet known to be an agent, and the queue of what is to be sent on it.
    pub(crate) fn connect(&self) -> (ConnectionId, mpsc::Receiver<Outgoing>) {
        let (sender, receiver) = mpsc::channel(FRAMES_QUEUED_MAX);
        let mut inner = self.lock();
        inner.connections_made += 1;
        let id = ConnectionId(inner.connections_made);
        inner.connections.insert(id, sender);
        (id, receiver)
    }

    /// How many connections there are.
    pub(crate) fn connections(&self) -> usize {
        self.lock().connections.len()
    }

    /// An agent said something.
    pub(crate) fn frame(&self, connection: ConnectionId, frame: ToCoordinator) {
        if let ToCoordinator::Hello(hello) = &frame {
            info!(node = hello.node, version = hello.agent_version, "agent says hello");
        }
        if let (ToCoordinator::Events(events), Some(store)) = (&frame, self.store.get())
            && !store.has_room(events.len())
        {
            let news = self.write(|state, _| state.leave_events(connection));
            store.left(news);
            return;
        }
        self.write(|state, now| state.handle(Event::Frame(connection, frame), now));
    }

    /// A connection ended, whoever ended it.
    pub(crate) fn disconnect(&self, connection: ConnectionId) {
        self.lock().connections.remove(&connection);
        self.write(|state, now| state.handle(Event::Closed(connection), now));
    }

    /// How full the fullest queue to an agent is.
    pub(crate) fn fullest_queue(&self) -> usize {
        let inner = self.lock();
        inner.connections.values().map(|c| FRAMES_QUEUED_MAX - c.capacity()).max().unwrap_or(0)
    }

    /// Begins to listen to what happens, and gives what is in memory newer than `after`, the oldest first: nothing falls in between.
    /// `None` when there are too many readers.
    pub(crate) fn listen(&self, after: Option<u64>) -> Option<(Vec<Told>, broadcast::Receiver<Told>)> {
        let inner = self.lock();
        let receiver = self.stream.listen()?;
        let missed =
            inner.state.health().events().take_while(|row| after.is_some_and(|after| row.number > after));
        let mut missed: Vec<Told> = missed.map(Told::row).collect();
        missed.reverse();
        Some((missed, receiver))
    }

    /// Incidents come back from an earlier run: readers of the stream are not told of them again.
    pub(crate) fn restore_incidents(&self, views: &[IncidentView]) {
        let mut inner = self.lock();
        let rows = views.iter().filter_map(|view| incidents::row(&mut inner.state, view)).collect();
        inner.state.restore_incidents(rows);
        inner.told = inner.state.incidents().iter().map(|incident| (incident.id, incident.state)).collect();
    }

    /// Has the incidents written down as they are now, where there is a disk.
    pub(crate) fn keep_incidents(&self) {
        self.write_incidents(&self.lock());
    }

    fn write_incidents(&self, inner: &Inner) {
        let Some(store) = self.store.get() else { return };
        let state = &inner.state;
        let views = state.incidents().iter().map(|incident| incidents::incident(state, incident)).collect();
        if !store.incidents(views) {
            warn!("incidents could not be written down");
        }
    }

    /// Incidents have opened or closed: tells readers, and writes down.
    fn incidents_changed(&self, inner: &mut Inner) {
        let Inner { state, told, .. } = inner;
        let is_news = |incident: &&Incident| {
            incident.state != IncidentState::Suspected && told.get(&incident.id) != Some(&incident.state)
        };
        for incident in state.incidents().iter().filter(is_news) {
            self.stream.tell(|| Told::incident(&incidents::incident(state, incident)));
        }
        *told = state.incidents().iter().map(|incident| (incident.id, incident.state)).collect();
        self.write_incidents(inner);
    }

    /// Ends every connection, so that agents look for the next coordinator at once.
    pub(crate) fn close_all(&self) {
        self.stream.close();
        for connection in self.lock().connections.values() {
            // A full queue ends with the process anyway.
            let _ = connection.try_send(Outgoing::Close);
        }
    }

    /// Ticks the state when it asks for it.
    pub(crate) async fn tick_forever(self: Arc<Self>) {
        /// Without any deadline the state is looked at from time to time all the same.
        const LONGEST: Duration = Duration::from_secs(60);
        // From here and nowhere else: when this task or whoever holds the state hangs, it must stop.
        let mut heartbeat = Heartbeat::new();
        loop {
            heartbeat.beat(self.clock.now().mono, || self.read(|state, _| views::status_line(state)));
            let due = heartbeat.due();
            let wait = self.read(|state, now| {
                let at = state.next_wakeup().into_iter().chain(due).min();
                at.map(|at| at.since(now.mono))
            });
            let wait = wait.unwrap_or(LONGEST).min(LONGEST);
            tokio::select! {
                () = tokio::time::sleep(wait) => self.write(|state, now| state.handle(Event::Tick, now)),
                () = self.changed.notified() => {}
            }
        }
    }

    /// Counts a large matrix all the time, in portions, so that who asks for numbers need not wait for them.
    pub(crate) async fn count_forever(self: Arc<Self>) {
        /// A small matrix is counted when somebody asks; it may grow.
        const SMALL: Duration = Duration::from_secs(1);
        /// Of the time that counting takes: it is to take a fiftieth of a processor.
        const RESTS: u32 = 49;
        loop {
            let began = Instant::now();
            let large = {
                let mut inner = self.lock();
                let now = self.now(&mut inner);
                inner.state.count_on(now)
            };
            tokio::time::sleep(if large { began.elapsed() * RESTS } else { SMALL }).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while the lock was held left a state that is at worst incomplete; serving goes on.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn act(&self, inner: &mut Inner) {
        while let Some(action) = inner.state.poll_action() {
            match action {
                Action::Send(to, frame) => {
                    let frame = inner.encode(&frame);
                    inner.send(to, Outgoing::Frame(frame));
                }
                Action::Close(connection, why) => {
                    info!(connection = connection.0, why, "connection is closed");
                    inner.send(connection, Outgoing::Close);
                }
                Action::Probed(probed) => self.count(probed),
                Action::Refused(Refusal::Version) => self.own.refused("version"),
                Action::Refused(Refusal::Conduct) => self.own.refused("conduct"),
                Action::Keep(rows, then) => self.keep(inner, &rows, then),
                Action::KeepNotes => {
                    let notes = Notes::of(&inner.state);
                    if self.store.get().is_some_and(|store| !store.notes(notes)) {
                        warn!("acknowledgements, maintenances and pinned pairs could not be written down");
                    }
                }
            }
        }
    }

    fn keep(&self, inner: &mut Inner, rows: &[EventRow], then: Option<(ConnectionId, Taken)>) {
        rows.iter().for_each(|row| self.own.event(row.kind.as_str()));
        rows.iter().for_each(|row| self.stream.tell(|| Told::row(row)));
        if rows.iter().any(|row| matches!(row.kind, RowKind::IncidentOpened | RowKind::IncidentClosed)) {
            self.incidents_changed(inner);
        }
        match (self.store.get(), then) {
            (Some(store), then) => {
                if !store.events(store::shown(rows), then) {
                    let events = rows.len();
                    warn!(events, "the history does not come to be written; some of it is lost");
                }
            }
            (None, Some((connection, taken))) => inner.state.kept(connection, taken.number),
            (None, None) => {}
        }
    }

    fn count(&self, probed: Probed) {
        match probed {
            Probed::Measured(metric) => self.own.measured(metric),
            Probed::Pings(batches) => self.own.pinged(batches),
            Probed::Failed(metric, cause) => self.own.failed(metric, cause),
            Probed::Excluded(metric) => self.own.excluded(metric),
        }
    }
}

impl Inner {
    /// The bytes of a frame; a part of a book that many connections get is made once, and all of them hold the same.
    fn encode(&mut self, frame: &ToAgent) -> Bytes {
        let ToAgent::Book { generation, base, peers, .. } = frame else { return frame.encode().into() };
        let of = (*generation, *base);
        // Parts without peers are all the same one.
        let known =
            |book: &&EncodedBook| book.of == of && Arc::ptr_eq(&book.peers, peers) && !peers.is_empty();
        if let Some(book) = self.books.iter().find(known) {
            return book.frame.clone();
        }
        let frame = Bytes::from(frame.encode());
        self.books.push_back(EncodedBook { peers: Arc::clone(peers), of, frame: frame.clone() });
        self.books.drain(..self.books.len().saturating_sub(BOOKS_ENCODED_MAX));
        frame
    }

    fn send(&mut self, to: ConnectionId, outgoing: Outgoing) {
        let Some(sender) = self.connections.get(&to) else {
            debug!(connection = to.0, "nothing is sent on a connection that is gone");
            return;
        };
        if sender.try_send(outgoing).is_err() {
            warn!(
                connection = to.0,
                "an agent does not read its {FRAMES_QUEUED_MAX} waiting frames; it is disconnected"
            );
            // Dropping the sender ends the connection's task, which reports the end.
            self.connections.remove(&to);
        }
    }
}
