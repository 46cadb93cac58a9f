//! The endpoints of the mesh: which are open, and what each turn does with them.

mod looks;

use super::helper::{Done, Purpose, Task, spawn};
use super::open::{News, Open, Outlet, Want};
use super::poller::Teller;
use super::port::{Key, Parts, RECEIVES, empty, removed, watch};
use super::wake::Wake;
use super::watch::{Watch, Woken};
use crate::verbs::keeper::Registry;
use crate::verbs::trouble::Trouble;
use rdmascope_model::{Cause, EndpointInfo, EndpointName, Fabric, Failure, Mono, Peer, Role, Side, Step};
use rdmascope_probe::mesh::{Destination, Engine, MeshCommand, MeshEvent, MeshGrant, MeshHealth};
use rdmascope_sys::ProtectionDomain;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// An endpoint that could not be opened is tried again after this.
const RETRY: Duration = Duration::from_secs(10);
/// One that failed while it was open is tried again after this: a device that is gone shows then.
const RETRY_SOON: Duration = Duration::from_secs(1);
enum State {
    Closed { retry: Mono },
    Opening,
    Open(Box<Open>),
}

struct Port {
    info: EndpointInfo,
    /// Of its opening: answers to an earlier one are not for this.
    serial: u64,
    state: State,
    /// Why it is closed, as it was told.
    failure: Option<Failure>,
}

/// All endpoints.
pub(super) struct Ports {
    registry: Arc<Registry>,
    tell_done: SyncSender<Done>,
    wake: Wake,
    helpers: BTreeMap<EndpointName, SyncSender<Task>>,
    list: Vec<Port>,
    serial: u64,
    nonce: u64,
    book: Arc<[Peer]>,
    grant: Option<MeshGrant>,
    pub(super) news: Vec<News>,
    refused: u64,
}

fn gone() -> Failure {
    removed().seen_by(Role::Source)
}

fn behind() -> Failure {
    let words = "the endpoint's thread for calls into the kernel is behind or stuck";
    Trouble::new(Cause::NoResources, Step::Resolve, words).seen_by(Role::Source)
}

impl Ports {
    pub(super) fn new(registry: Arc<Registry>, tell_done: SyncSender<Done>, wake: Wake, now: Mono) -> Self {
        // Differs between starts and machines; nobody is kept out by it.
        let wall = std::time::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_nanos() as u64);
        let nonce = wall.rotate_left(32) ^ u64::from(std::process::id()) << 20 ^ now.0;
        Self {
            registry,
            tell_done,
            wake,
            helpers: BTreeMap::new(),
            list: Vec::new(),
            serial: 0,
            nonce,
            book: Arc::new([]),
            grant: None,
            news: Vec::new(),
            refused: 0,
        }
    }

    pub(super) fn command(&mut self, command: MeshCommand, epoll: &OwnedFd, teller: &mut Teller, now: Mono) {
        match command {
            MeshCommand::Endpoints(endpoints) => self.set_endpoints(endpoints, epoll, teller, now),
            MeshCommand::Book(book) => {
                self.book = Arc::clone(&book);
                self.open().for_each(|open| open.engine.set_book(Arc::clone(&book), now));
            }
            MeshCommand::Grant(grant) => {
                self.grant = grant;
                self.open().for_each(|open| open.engine.set_grant(grant, now));
            }
        }
    }

    fn open(&mut self) -> impl Iterator<Item = &mut Open> {
        self.list.iter_mut().filter_map(|port| match &mut port.state {
            State::Open(open) => {
                open.fresh = true;
                Some(&mut **open)
            }
            _ => None,
        })
    }

    /// The open endpoint of that opening.
    pub(super) fn by_serial(&mut self, serial: u64) -> Option<&mut Open> {
        let port = self.list.iter_mut().find(|port| port.serial == serial)?;
        match &mut port.state {
            State::Open(open) => {
                open.fresh = true;
                Some(open)
            }
            _ => None,
        }
    }

    /// An endpoint's opening, or why it takes no datagrams.
    pub(super) fn by_name(&mut self, name: &EndpointName) -> Result<(u64, &mut Open), Failure> {
        let missing = |cause, words: &str| Failure {
            cause,
            step: Step::Open,
            side: Side::Source,
            evidence: format!("{name}: {words}"),
        };
        let port = self.list.iter_mut().find(|port| port.info.name == *name);
        let port = port.ok_or_else(|| missing(Cause::NotAvailable, "takes no datagrams"))?;
        match &mut port.state {
            State::Open(open) => {
                open.fresh = true;
                Ok((port.serial, open))
            }
            State::Opening => Err(missing(Cause::NoResources, "is still being opened for datagrams")),
            State::Closed { .. } => {
                let failure = port.failure.clone();
                Err(failure.unwrap_or_else(|| missing(Cause::NotAvailable, "is not open for datagrams")))
            }
        }
    }

    fn set_endpoints(
        &mut self,
        endpoints: Vec<EndpointInfo>,
        epoll: &OwnedFd,
        teller: &mut Teller,
        now: Mono,
    ) {
        let carries = |info: &&EndpointInfo| matches!(info.fabric, Fabric::Roce | Fabric::InfiniBand);
        let wanted: Vec<&EndpointInfo> = endpoints.iter().filter(carries).collect();
        let same = |a: &EndpointInfo, b: &EndpointInfo| {
            a.name == b.name && a.fabric == b.fabric && a.gid == b.gid && a.active_mtu == b.active_mtu
        };
        let mut at = 0;
        while let Some(port) = self.list.get(at) {
            if wanted.iter().any(|info| same(info, &port.info)) {
                at += 1;
                continue;
            }
            let words = "the endpoint is not to take part any more";
            let failure = Trouble::new(Cause::PortDown, Step::Measure, words).seen_by(Role::Source);
            self.shut(at, &failure, epoll);
            let port = self.list.swap_remove(at);
            teller.tell(MeshEvent::Closed(port.info.name, None));
        }
        for info in wanted {
            if !self.list.iter().any(|port| port.info.name == info.name) {
                let state = State::Closed { retry: now };
                self.list.push(Port { info: info.clone(), serial: 0, state, failure: None });
            }
        }
        self.open_closed(now);
    }

    /// Opens what is to be open and is not.
    fn open_closed(&mut self, now: Mono) {
        for at in 0..self.list.len() {
            if !matches!(self.list[at].state, State::Closed { retry } if now >= retry) {
                continue;
            }
            self.serial += 1;
            let queue_key = (self.nonce.rotate_left(7) ^ self.serial.wrapping_mul(0x9e37_79b9)) as u32 >> 1;
            let info = Box::new(self.list[at].info.clone());
            let name = info.name.clone();
            let asked = self.ask(&name, Task::Open { serial: self.serial, info, queue_key });
            self.list[at].serial = self.serial;
            self.list[at].state =
                if asked { State::Opening } else { State::Closed { retry: now.after(RETRY) } };
        }
    }

    /// Gives a task to an endpoint's helper; false when it is not to be had.
    fn ask(&mut self, name: &EndpointName, task: Task) -> bool {
        if !self.helpers.contains_key(name) {
            match spawn(name, &self.registry, self.tell_done.clone(), self.wake.clone()) {
                Ok(helper) => self.helpers.insert(name.clone(), helper),
                Err(error) => {
                    tracing::warn!(%error, endpoint = %name, "no thread to open it for datagrams");
                    return false;
                }
            };
        }
        self.helpers.get(name).is_some_and(|helper| helper.try_send(task).is_ok())
    }

    /// Asks for the addresses of answers, on behalf of a lease.
    pub(super) fn resolve(&mut self, serial: u64, to: &Destination, purpose: Purpose) -> Result<(), Failure> {
        let open = self.by_serial(serial).ok_or_else(gone)?;
        let (key, own) = (open.own.key(to), Box::new(open.own.clone()));
        let slot = open.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let domain = slot.as_ref().map(|parts| parts.domain.clone()).ok_or_else(gone)?;
        drop(slot);
        let name = open.engine.local().clone();
        let task = Task::Addresses { serial, own, domain, keys: vec![key], purpose };
        if self.ask(&name, task) { Ok(()) } else { Err(behind()) }
    }

    pub(super) fn done(&mut self, done: Done, epoll: &OwnedFd, teller: &mut Teller, now: Mono) {
        match done {
            Done::Opened { name, serial, made } => {
                let opening =
                    |port: &&mut Port| port.serial == serial && matches!(port.state, State::Opening);
                let Some(port) = self.list.iter_mut().find(opening) else {
                    let parts = made.ok().and_then(|(_, slot)| empty(&slot));
                    self.ask(&name, Task::Close(parts));
                    return;
                };
                let added = made.and_then(|(own, slot)| watch(&slot, serial, epoll).map(|()| (own, slot)));
                match added {
                    Ok((own, slot)) => {
                        let mut engine = Engine::new(name.clone(), own.address, self.nonce, now);
                        engine.set_book(Arc::clone(&self.book), now);
                        engine.set_grant(self.grant, now);
                        port.failure = None;
                        teller.tell(MeshEvent::Opened(name, own.address));
                        port.state = State::Open(Box::new(Open::new(engine, own, slot)));
                    }
                    Err(failure) => {
                        port.state = State::Closed { retry: now.after(RETRY) };
                        if port.failure.as_ref() != Some(&failure) {
                            port.failure = Some(failure.clone());
                            teller.tell(MeshEvent::Closed(name, Some(failure)));
                        }
                    }
                }
            }
            Done::Addresses { serial, keys, purpose, made: (made, result) } => {
                let Some(open) = self.by_serial(serial) else { return };
                let name = open.engine.local().clone();
                let old = open.learn(made, &keys, now);
                if let Purpose::Batch(batch) = purpose {
                    open.engine.resolved(batch, result, now);
                }
                if !old.is_empty() {
                    self.ask(&name, Task::Drop(old));
                }
            }
        }
    }

    /// Gives every endpoint that has something to do its turn. Those that failed are closed, and opened again later.
    pub(super) fn turn(&mut self, woken: Woken, watch: &Watch, epoll: &OwnedFd, teller: &mut Teller) {
        for at in 0..self.list.len() {
            let State::Open(open) = &mut self.list[at].state else { continue };
            let wanted = std::mem::take(&mut open.fresh) || open.has_found();
            if !wanted && open.due.is_none_or(|due| due > woken.at) {
                continue;
            }
            let mut wants = Vec::new();
            let mut outlet = Outlet { teller, news: &mut self.news, wants: &mut wants };
            let served = open.serve(woken, watch, &mut outlet);
            for Want { keys, purpose, domain } in wants {
                self.make_addresses(at, keys, purpose, domain, woken.at);
            }
            if let Err(trouble) = served {
                self.fail(at, trouble.seen_by(Role::Source), epoll, teller, woken.at);
            }
        }
    }

    fn make_addresses(
        &mut self,
        at: usize,
        keys: Vec<Key>,
        purpose: Purpose,
        domain: ProtectionDomain,
        now: Mono,
    ) {
        let port = &mut self.list[at];
        let (serial, State::Open(open)) = (port.serial, &mut port.state) else { return };
        let (own, name) = (Box::new(open.own.clone()), port.info.name.clone());
        if self.ask(&name, Task::Addresses { serial, own, domain, keys: keys.clone(), purpose }) {
            return;
        }
        if let Some(open) = self.by_serial(serial) {
            open.learn(Vec::new(), &keys, now);
            if let Purpose::Batch(batch) = purpose {
                open.engine.resolved(batch, Err(behind()), now);
            }
        }
    }

    /// Closes an endpoint that failed.
    fn fail(&mut self, at: usize, failure: Failure, epoll: &OwnedFd, teller: &mut Teller, now: Mono) {
        self.shut(at, &failure, epoll);
        let port = &mut self.list[at];
        tracing::warn!(endpoint = %port.info.name, %failure, "it takes no datagrams any more");
        port.state = State::Closed { retry: now.after(RETRY_SOON) };
        port.failure = Some(failure.clone());
        teller.tell(MeshEvent::Closed(port.info.name.clone(), Some(failure)));
    }

    /// Lets go of what an endpoint has on its device.
    fn shut(&mut self, at: usize, failure: &Failure, epoll: &OwnedFd) {
        let port = &mut self.list[at];
        let State::Open(open) = std::mem::replace(&mut port.state, State::Opening) else { return };
        self.news.push(News::Closed(port.serial, failure.clone()));
        self.refused += open.engine.refused();
        let name = port.info.name.clone();
        let parts = empty(&open.slot);
        if let Some(parts) = &parts {
            // An epoll that does not know it has nothing to forget.
            let _deleted = epoll::delete(epoll, parts.channel.fd());
        }
        self.ask(&name, Task::Close(parts));
    }

    pub(super) fn close_all(&mut self, epoll: &OwnedFd) {
        for at in 0..self.list.len() {
            self.shut(at, &gone(), epoll);
        }
    }

    /// Looks for removed devices, buffers that are not posted and endpoints that are closed.
    pub(super) fn inspect(&mut self, epoll: &OwnedFd, teller: &mut Teller, now: Mono) {
        for at in 0..self.list.len() {
            let port = &mut self.list[at];
            let State::Open(open) = &mut port.state else { continue };
            let name = port.info.name.clone();
            let mut slot = open.slot.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(parts) = slot.as_mut() else {
                drop(slot);
                self.fail(at, gone(), epoll, teller, now);
                continue;
            };
            parts.post_receives();
            let old = parts.forget(now);
            drop(slot);
            if !old.is_empty() {
                self.ask(&name, Task::Drop(old));
            }
        }
        self.open_closed(now);
    }

    /// When an endpoint has something to do by itself.
    pub(super) fn due(&self, now: Mono) -> Option<Mono> {
        let due = |port: &Port| match &port.state {
            State::Open(open) if open.fresh => Some(now),
            State::Open(open) => open.due,
            _ => None,
        };
        self.list.iter().filter_map(due).min()
    }

    pub(super) fn health(&self) -> MeshHealth {
        let mut health = MeshHealth { refused: self.refused, ..MeshHealth::default() };
        for port in &self.list {
            let State::Open(open) = &port.state else { continue };
            let slot = open.slot.lock().unwrap_or_else(PoisonError::into_inner);
            health.endpoints += 1;
            health.receives_wanted += RECEIVES;
            health.receives_posted += slot.as_ref().map_or(0, Parts::posted);
            health.refused += open.engine.refused();
        }
        health
    }
}
