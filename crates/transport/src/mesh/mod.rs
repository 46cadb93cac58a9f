//! The UD mesh over verbs: one thread sleeps in epoll, drives the engines of all endpoints and never calls what may block in
//! the kernel; opening devices and resolving addresses happen on one helper thread for each endpoint.
//!
//! ```text
//!   agent's loop ── commands, leases ──▶ poller ── open, addresses, close ──▶ helper of each endpoint
//!        ▲                                │ ▲ epoll: eventfd, completion channels     │
//!        └──── events (try_send) ◀────────┘ └──────────────── done ◀──────────────────┘
//! ```

mod helper;
mod leases;
pub(crate) mod offer;
mod open;
mod poller;
mod port;
mod ports;
mod queue;
pub(crate) mod waited;
mod wake;
mod watch;

use crate::{Transport, Waker};
use poller::{Ends, Order, Poller};
use rdmascope_model::{Cause, EndpointInfo, Failure, LeaseId, Mono, Outcome, ProbePlan, Step};
use rdmascope_probe::TransportEvent;
use rdmascope_probe::mesh::{MeshCommand, MeshEvent};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;
use wake::Wake;

/// The agent's own clock, read on the poller's thread: stamps, grants and leases are of the same time.
pub type Clock = Arc<dyn Fn() -> Mono + Send + Sync>;

/// Orders that the poller has not taken yet: four for each lease that eight endpoints may hold, with room.
const ORDERS_MAX: usize = 512;
/// Results that the agent has not taken yet: some seconds' worth of batches.
const EVENTS_MAX: usize = 512;
/// How long the end of the program waits for the poller.
const END_WAIT: Duration = Duration::from_millis(500);

/// The mesh of an agent: all its endpoints. Give it commands, and take events whenever the waker was called.
pub struct Mesh {
    orders: Option<SyncSender<Order>>,
    wake: Wake,
    /// Commands that found no room: the newest of each kind.
    waiting: Vec<MeshCommand>,
    events: Receiver<MeshEvent>,
    lease_events: Receiver<(u64, TransportEvent)>,
    leases: BTreeMap<LeaseId, u64>,
    tickets: u64,
    refused: VecDeque<(LeaseId, TransportEvent)>,
    waker: Waker,
    /// Disconnected when the poller has ended.
    alive: Receiver<()>,
}

impl Mesh {
    /// Starts the poller. Uses `library` as libibverbs where one is given; `nodes` is the folder of the devices' nodes
    /// (`/dev/infiniband`). Where there is no libibverbs, every endpoint is closed with the cause `verbs-missing`.
    ///
    /// # Errors
    /// No thread, epoll or eventfd to be had.
    pub fn new(clock: Clock, waker: Waker, library: Option<&Path>, nodes: &Path) -> std::io::Result<Self> {
        let wake = Wake::new()?;
        let (orders, inbox) = sync_channel(ORDERS_MAX);
        let (tell, events) = sync_channel(EVENTS_MAX);
        let (tell_lease, lease_events) = sync_channel(EVENTS_MAX);
        let (living, alive) = sync_channel(1);
        let ends = Ends { orders: inbox, tell, tell_lease, waker: Arc::clone(&waker) };
        let registry = crate::verbs::keeper::Registry::new(library, nodes);
        let mut poller = Poller::new(clock, wake.clone(), ends, registry)?;
        std::thread::Builder::new().name("mesh poller".to_owned()).spawn(move || {
            let _living: SyncSender<()> = living;
            poller.run();
        })?;
        Ok(Self {
            orders: Some(orders),
            wake,
            waiting: Vec::new(),
            events,
            lease_events,
            leases: BTreeMap::new(),
            tickets: 0,
            refused: VecDeque::new(),
            waker,
            alive,
        })
    }

    /// Tells the mesh something. Never blocks; what finds no room is kept and told with the next call of anything here.
    pub fn command(&mut self, command: MeshCommand) {
        let kind = std::mem::discriminant(&command);
        self.waiting.retain(|waiting| std::mem::discriminant(waiting) != kind);
        self.waiting.push(command);
        self.flush();
    }

    /// The next event, if there is one. What was not taken in time was dropped, and counted in the health.
    pub fn next_event(&mut self) -> Option<MeshEvent> {
        self.flush();
        self.events.try_recv().ok()
    }

    fn flush(&mut self) {
        while !self.waiting.is_empty() {
            let command = self.waiting.remove(0);
            if let Some(Order::Command(command)) = self.order(Order::Command(command)) {
                self.waiting.insert(0, command);
                return;
            }
        }
    }

    /// Gives the order back when there is no room for it.
    fn order(&self, order: Order) -> Option<Order> {
        use std::sync::mpsc::TrySendError::{Disconnected, Full};
        let sent = self.orders.as_ref()?.try_send(order);
        self.wake.wake();
        match sent {
            Ok(()) => None,
            Err(Full(order) | Disconnected(order)) => Some(order),
        }
    }

    fn lease_order(&mut self, lease: LeaseId, step: Step, side: rdmascope_model::Side, order: Order) {
        if self.order(order).is_none() {
            return;
        }
        let evidence = "the mesh's thread is behind with its orders".to_owned();
        let failure = Failure { cause: Cause::NoResources, step, side, evidence };
        self.refused.push_back((lease, TransportEvent::Finished(Outcome::Failed(failure))));
        (self.waker)();
    }

    fn ticket(&self, lease: LeaseId) -> Option<u64> {
        self.leases.get(&lease).copied()
    }
}

impl Transport for Mesh {
    fn prepare(&mut self, plan: &ProbePlan, _endpoint: &EndpointInfo, _now: Mono) {
        if self.leases.contains_key(&plan.lease) {
            return;
        }
        self.tickets += 1;
        self.leases.insert(plan.lease, self.tickets);
        let order = Order::Prepare { ticket: self.tickets, plan: Box::new(plan.clone()) };
        self.lease_order(plan.lease, Step::Open, plan.role.side(), order);
    }

    fn connect(&mut self, lease: LeaseId, offer: &[u8], _now: Mono) {
        let Some(ticket) = self.ticket(lease) else { return };
        let order = Order::Connect { ticket, offer: offer.to_vec() };
        self.lease_order(lease, Step::Exchange, rdmascope_model::Side::Source, order);
    }

    fn start(&mut self, lease: LeaseId, _now: Mono) {
        let Some(ticket) = self.ticket(lease) else { return };
        self.lease_order(lease, Step::FirstByte, rdmascope_model::Side::Source, Order::Start { ticket });
    }

    fn close(&mut self, lease: LeaseId, _now: Mono) {
        self.refused.retain(|(other, _)| *other != lease);
        if let Some(ticket) = self.leases.remove(&lease) {
            // No room: the lease's own time ends it.
            self.order(Order::Close { ticket });
        }
    }

    fn poll(&mut self, _now: Mono) -> Option<(LeaseId, TransportEvent)> {
        self.flush();
        if let Some(event) = self.refused.pop_front() {
            return Some(event);
        }
        while let Ok((ticket, event)) = self.lease_events.try_recv() {
            if let Some((lease, _)) = self.leases.iter().find(|(_, known)| **known == ticket) {
                return Some((*lease, event));
            }
        }
        None
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.orders = None;
        self.wake.wake();
        if self.alive.recv_timeout(END_WAIT) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the mesh's thread did not end in time and was left behind");
        }
    }
}
