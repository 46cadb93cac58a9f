//! The loop of the mesh: sleeps until something comes in or is due, and gives every endpoint its turn.

use super::Clock;
use super::helper::{Done, Purpose};
use super::leases::Leases;
use super::ports::Ports;
use super::wake::Wake;
use super::watch::{Sleep, Watch, Woken};
use crate::Waker;
use crate::verbs::keeper::Registry;
use rdmascope_model::{Mono, ProbePlan};
use rdmascope_probe::TransportEvent;
use rdmascope_probe::mesh::{MeshCommand, MeshEvent, MeshHealth};
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::Duration;

/// Epoll's word for the eventfd; endpoints have the serial numbers of their openings, from 1.
const WAKE: u64 = 0;
/// Longest sleep: removed devices, failed openings and buffers that could not be posted are looked at so often.
const REST_MAX: Duration = Duration::from_secs(1);
/// Looks at endpoints where datagrams keep coming before everything else has its turn again.
const ROUNDS_MAX: u32 = 4;
/// Between two reports of how the poller does.
const HEALTH_EVERY: Duration = Duration::from_secs(5);
/// What helpers have made and the poller has not looked at; they wait when it is full.
const DONE_MAX: usize = 256;
/// A sleep that ended so much later than asked for is a gap.
const MILLISECOND: u64 = 1_000_000;

/// To the poller.
pub(super) enum Order {
    Command(MeshCommand),
    Prepare { ticket: u64, plan: Box<ProbePlan> },
    Connect { ticket: u64, offer: Vec<u8> },
    Start { ticket: u64 },
    Close { ticket: u64 },
}

/// The poller's ends of its queues.
pub(super) struct Ends {
    pub(super) orders: Receiver<Order>,
    pub(super) tell: SyncSender<MeshEvent>,
    pub(super) tell_lease: SyncSender<(u64, TransportEvent)>,
    pub(super) waker: Waker,
}

/// What is to be told, and whether it found a listener.
pub(super) struct Teller {
    tell: SyncSender<MeshEvent>,
    tell_lease: SyncSender<(u64, TransportEvent)>,
    waker: Waker,
    /// What must not be dropped: endpoints that were opened or closed, and ends of leases.
    must: VecDeque<Result<MeshEvent, (u64, TransportEvent)>>,
    dropped: u64,
    told: bool,
}

impl Teller {
    pub(super) fn tell(&mut self, event: MeshEvent) {
        if matches!(event, MeshEvent::Opened(..) | MeshEvent::Closed(..)) {
            self.must.push_back(Ok(event));
            return self.flush();
        }
        self.dropped += u64::from(self.tell.try_send(event).is_err());
        self.told = true;
    }

    pub(super) fn tell_lease(&mut self, ticket: u64, event: TransportEvent) {
        self.must.push_back(Err((ticket, event)));
        self.flush();
    }

    fn flush(&mut self) {
        while let Some(event) = self.must.pop_front() {
            let back = match event {
                Ok(event) => match self.tell.try_send(event) {
                    Err(TrySendError::Full(event)) => Some(Ok(event)),
                    _ => None,
                },
                Err(event) => match self.tell_lease.try_send(event) {
                    Err(TrySendError::Full(event)) => Some(Err(event)),
                    _ => None,
                },
            };
            self.told = true;
            if let Some(event) = back {
                return self.must.push_front(event);
            }
        }
    }
}

/// The state of the loop.
pub(super) struct Poller {
    clock: Clock,
    epoll: OwnedFd,
    wake: Wake,
    orders: Receiver<Order>,
    done: Receiver<Done>,
    teller: Teller,
    ports: Ports,
    leases: Leases,
    next_health: Mono,
    looked: Mono,
    longest_gap: (u64, Option<u64>),
}

impl Poller {
    pub(super) fn new(
        clock: Clock,
        wake: Wake,
        ends: Ends,
        registry: Arc<Registry>,
    ) -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, wake.fd(), epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        let (tell_done, done) = sync_channel(DONE_MAX);
        let now = clock();
        let Ends { orders, tell, tell_lease, waker } = ends;
        let teller = Teller { tell, tell_lease, waker, must: VecDeque::new(), dropped: 0, told: false };
        let ports = Ports::new(registry, tell_done, wake.clone(), now);
        Ok(Self {
            clock,
            epoll,
            wake,
            orders,
            done,
            teller,
            ports,
            leases: Leases::default(),
            next_health: now,
            looked: now,
            longest_gap: (0, None),
        })
    }

    /// Until the mesh is dropped.
    pub(super) fn run(&mut self) {
        let watch = Watch::new(self.clock.clone());
        let mut looked = watch.now();
        let mut events: Vec<epoll::Event> = Vec::with_capacity(16);
        loop {
            if std::mem::take(&mut self.teller.told) {
                (self.teller.waker)();
            }
            let began = watch.now();
            let due = self.ports.due(began).into_iter().chain(self.leases.due()).min();
            let rest = due.map_or(REST_MAX, |due| due.since(began)).min(REST_MAX);
            let sleep = Sleep { looked, began, rest, kept: watch.kept_before_sleep(looked, began) };
            self.sleep(&mut events, rest);
            let (mut woken, waited) = watch.woke(&sleep, events.len());
            let at = woken.at;
            self.note_gap(at.since(began).saturating_sub(rest), waited);
            if events.iter().any(|event| event_of(event) == WAKE) {
                self.wake.clear();
            }
            let readable = |serial: u64| events.iter().any(|event| event_of(event) == serial);
            // What is there is taken first of all, so that no stamp is late by anything else.
            self.ports.look(&readable);
            looked = watch.now();
            if watch.kept_since(at, looked) {
                woken.kept();
            }
            if !self.take_orders(at) {
                return self.ports.close_all(&self.epoll);
            }
            self.take_done(at);
            self.ports.turn(woken, &watch, &self.epoll, &mut self.teller);
            looked = self.go_on(looked, &watch);
            self.leases.take(&mut self.ports, &mut self.teller);
            self.look_around(at);
            self.note_gap(watch.now().since(at), None);
        }
    }

    /// Takes what came during the turn, such as the answers to what it sent, as long as there is some: a datagram that is found so costs
    /// neither an event nor a sleep. Who has nothing more is to tell again. When the last look was.
    fn go_on(&mut self, mut looked: Mono, watch: &Watch) -> Mono {
        for _ in 0..ROUNDS_MAX {
            let found = self.ports.look_again(watch);
            let now = watch.now();
            if !found {
                return now;
            }
            let stamp = watch.stamp_of_what_came_since(looked, now);
            looked = now;
            let woken = Woken { at: now, first: stamp, others: stamp };
            self.ports.turn(woken, watch, &self.epoll, &mut self.teller);
        }
        self.ports.stay_awake();
        looked
    }

    /// A signal is no reason to stop, and neither is anything else: the next turn looks at everything that is due.
    fn sleep(&self, events: &mut Vec<epoll::Event>, rest: Duration) {
        events.clear();
        // The kernel counts in milliseconds; rounded up, so that nothing is looked at before it is due.
        let milliseconds = rest.as_nanos().div_ceil(1_000_000).min(1_000);
        let timeout = Timespec {
            tv_sec: (milliseconds / 1_000) as i64,
            tv_nsec: (milliseconds % 1_000 * 1_000_000) as i64,
        };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                tracing::warn!(%error, "the mesh's thread cannot sleep in epoll");
                std::thread::sleep(rest.min(Duration::from_millis(10)));
            }
        }
    }

    fn note_gap(&mut self, gap: Duration, waited: Option<u64>) {
        let gap = u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX);
        // A sleep may always end a millisecond late: that is how the kernel counts.
        if gap > self.longest_gap.0 && gap > MILLISECOND {
            self.longest_gap = (gap, waited);
        }
    }

    /// False when nobody gives orders any more.
    fn take_orders(&mut self, now: Mono) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Command(command)) => {
                    self.ports.command(command, &self.epoll, &mut self.teller, now);
                }
                Ok(Order::Prepare { ticket, plan }) => {
                    self.leases.prepare(ticket, plan, &mut self.ports, &mut self.teller, now);
                }
                Ok(Order::Connect { ticket, offer }) => {
                    self.leases.connect(ticket, &offer, &mut self.ports, &mut self.teller);
                }
                Ok(Order::Start { ticket }) => self.leases.start(ticket, &mut self.ports, now),
                Ok(Order::Close { ticket }) => self.leases.close(ticket, &mut self.ports),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn take_done(&mut self, now: Mono) {
        while let Ok(done) = self.done.try_recv() {
            if let Done::Addresses { purpose: Purpose::Lease(ticket), made: (_, made), .. } = &done {
                self.leases.resolved(ticket.0, made, &mut self.teller);
            }
            self.ports.done(done, &self.epoll, &mut self.teller, now);
        }
    }

    /// What has time: once a second, and the health every few of them.
    fn look_around(&mut self, now: Mono) {
        self.teller.flush();
        self.leases.expire(&mut self.ports, &mut self.teller, now);
        if now.since(self.looked) >= REST_MAX {
            self.looked = now;
            self.ports.inspect(&self.epoll, &mut self.teller, now);
        }
        if now >= self.next_health {
            self.next_health = now.after(HEALTH_EVERY);
            let (longest_gap_ns, waited_ns) = std::mem::take(&mut self.longest_gap);
            let dropped = self.teller.dropped;
            let health = MeshHealth { dropped, longest_gap_ns, waited_ns, ..self.ports.health() };
            if health.endpoints > 0 {
                self.teller.tell(MeshEvent::Health(health));
            }
        }
    }
}

fn event_of(event: &epoll::Event) -> u64 {
    event.data.u64()
}
