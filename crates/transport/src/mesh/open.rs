//! One open endpoint's turn: takes what came in, lets its engine do what is due, and posts what that wants to send.

use super::helper::Purpose;
use super::poller::Teller;
use super::port::{Key, Own, Parts, RECEIVES, Slot, Way, removed};
use super::watch::{Watch, Woken};
use crate::verbs::trouble::Trouble;
use rdmascope_model::{Failure, Heard, LeaseId, Mono, PingStats, Step};
use rdmascope_probe::ClockTrust;
use rdmascope_probe::mesh::{Datagram, Destination, Engine, MeshEvent, Output, Stamps};
use rdmascope_sys::{AddressHandle, ProtectionDomain};
use std::sync::PoisonError;
use std::time::Duration;

/// Answers that wait for their address.
const PENDING_MAX: usize = Engine::SENDS_MAX / 2;
/// A device that stamps is asked again after this when an acknowledgement left that it has not told of: the second one waits for it.
const LEFT_SOON: Duration = Duration::from_millis(1);
/// No longer than this after the last datagram was posted: nobody waits for a second acknowledgement any more.
const LEFT_WITHIN: Duration = Duration::from_millis(100);
/// The send queue is full: that is no fault.
const ENOMEM: i32 = 12;

/// Addresses to be made.
pub(super) struct Want {
    pub(super) keys: Vec<Key>,
    pub(super) purpose: Purpose,
    pub(super) domain: ProtectionDomain,
}

/// News for leases.
pub(super) enum News {
    Leased(LeaseId, Result<Box<PingStats>, Failure>),
    Heard(Heard),
    Closed(u64, Failure),
}

/// Where an endpoint's results go.
pub(super) struct Outlet<'a> {
    pub(super) teller: &'a mut Teller,
    pub(super) news: &'a mut Vec<News>,
    pub(super) wants: &'a mut Vec<Want>,
}

/// An open endpoint.
pub(super) struct Open {
    pub(super) engine: Engine,
    pub(super) own: Own,
    pub(super) slot: Slot,
    /// Answers that wait for their address.
    pending: Vec<Datagram>,
    /// Addresses that were asked for on behalf of answers.
    asked: Vec<Key>,
    /// It is to have a turn whether anything came in or not.
    pub(super) fresh: bool,
    /// When its engine has something to do by itself, as it was after the last turn; of no meaning while `fresh`.
    pub(super) due: Option<Mono>,
    /// What the last look found.
    found: Result<usize, Trouble>,
    /// When the last datagram was posted.
    posted: Mono,
    /// Not known yet whether the device's stamps can be believed.
    testing: bool,
    /// The channel tells when something comes in.
    armed: bool,
}

impl Open {
    pub(super) fn new(engine: Engine, own: Own, slot: Slot) -> Self {
        let (pending, asked) = (Vec::with_capacity(PENDING_MAX), Vec::with_capacity(PENDING_MAX));
        Self {
            engine,
            own,
            slot,
            pending,
            asked,
            fresh: true,
            due: None,
            found: Ok(0),
            posted: Mono(0),
            testing: true,
            armed: true,
        }
    }

    /// Takes what has come in, without doing anything about it: the channel has told, or nobody knows.
    pub(super) fn look(&mut self) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        self.found = slot.as_mut().ok_or_else(removed).and_then(|parts| {
            self.armed &= !parts.told()?;
            parts.look()
        });
    }

    /// The same for one whose channel does not tell; where nothing has come it is to tell again, and what it sent may have left by now. Is
    /// there anything to do?
    pub(super) fn look_again(&mut self, watch: &Watch) -> bool {
        if self.armed {
            return false;
        }
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        self.found = slot.as_mut().ok_or_else(removed).and_then(|parts| {
            let found = parts.look()?;
            if found > 0 {
                return Ok(found);
            }
            parts.arm()?;
            self.armed = true;
            if self.engine.awaits_device() {
                free_buffers(&mut self.engine, parts, watch)?;
                self.fresh |= !self.engine.awaits_device();
            }
            // What came in before that is not told.
            parts.look()
        });
        drop(slot);
        self.fresh || self.has_found()
    }

    /// It has to be looked at in the next turn, since nobody will tell.
    pub(super) fn stays_awake(&mut self) {
        self.fresh |= !self.armed;
    }

    /// Is there anything to do about what the last look found?
    pub(super) fn has_found(&self) -> bool {
        !matches!(self.found, Ok(0))
    }

    /// One turn.
    ///
    /// # Errors
    /// The queue pair takes or sends nothing any more, or the device is gone.
    pub(super) fn serve(
        &mut self,
        woken: Woken,
        watch: &Watch,
        outlet: &mut Outlet<'_>,
    ) -> Result<(), Trouble> {
        let mut count = std::mem::replace(&mut self.found, Ok(0))?;
        let slot = self.slot.clone();
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = slot.as_mut().ok_or_else(removed)?;
        free_buffers(&mut self.engine, parts, watch)?;
        let (mut stamp, mut others, mut looked) = (woken.first, woken.others, woken.at);
        while count > 0 {
            parts.take(
                count,
                || watch.now(),
                |it| {
                    let stamps = Stamps { software: stamp, hardware: it.stamp };
                    self.engine.received(it.source, &it.payload, it.payload_bytes, stamps, it.handled);
                    stamp = others;
                },
            )?;
            self.drain(parts, watch, outlet)?;
            if count < RECEIVES as usize {
                break;
            }
            count = parts.look()?;
            // What was posted again since the look before may have been filled at any time since.
            let now = watch.now();
            others = watch.stamp_of_what_came_since(looked, now);
            (stamp, looked) = (others, now);
            free_buffers(&mut self.engine, parts, watch)?;
        }
        self.send_pending(parts, watch)?;
        self.drain(parts, watch, outlet)?;
        let now = watch.now();
        self.due = self.engine.due(now);
        if self.due.is_some_and(|due| due <= now) {
            self.engine.tick(now);
            self.drain(parts, watch, outlet)?;
            self.due = self.engine.due(now);
        }
        if self.engine.awaits_device() && now.since(self.posted) < LEFT_WITHIN {
            let soon = now.after(LEFT_SOON);
            self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
        }
        self.judge_clock(parts);
        Ok(())
    }

    /// Is the device to be believed? Says once what came of the test.
    fn judge_clock(&mut self, parts: &mut Parts) {
        if !self.testing {
            return;
        }
        let endpoint = self.engine.local();
        match parts.trust() {
            Some(ClockTrust::Testing) => return,
            Some(ClockTrust::Trusted) => {
                tracing::info!(%endpoint, "datagrams are stamped by the device: its clock runs as the machine's");
                self.engine.trust_device();
            }
            Some(ClockTrust::Refused(fault)) => {
                tracing::warn!(%endpoint, "the device's stamps are not used but the program's: {fault}");
            }
            None => {}
        }
        self.testing = false;
    }

    fn drain(&mut self, parts: &mut Parts, watch: &Watch, outlet: &mut Outlet<'_>) -> Result<(), Trouble> {
        while let Some(output) = self.engine.pop() {
            let local = || self.engine.local().clone();
            match output {
                Output::Send(datagram) => self.send(&datagram, parts, watch, outlet)?,
                Output::Resolve { batch, to } => self.resolve(batch, &to, parts, watch, outlet),
                Output::Pings(peer, stats) => outlet.teller.tell(MeshEvent::Pings(local(), peer, stats)),
                Output::Unreachable(peer, why) => {
                    outlet.teller.tell(MeshEvent::Unreachable(local(), peer, why));
                }
                Output::Leased(lease, result) => outlet.news.push(News::Leased(lease, result)),
                Output::Heard(heard) => {
                    outlet.news.push(News::Heard(heard.clone()));
                    outlet.teller.tell(MeshEvent::Heard(heard));
                }
            }
        }
        Ok(())
    }

    fn send(
        &mut self,
        datagram: &Datagram,
        parts: &mut Parts,
        watch: &Watch,
        outlet: &mut Outlet<'_>,
    ) -> Result<(), Trouble> {
        let key = self.own.key(&datagram.to);
        let way = self.post(datagram, &key, parts, watch)?;
        if way != Way::Fresh && !self.asked.contains(&key) && self.asked.len() < PENDING_MAX {
            self.asked.push(key);
            let (purpose, domain) = (Purpose::Answers, parts.domain.clone());
            outlet.wants.push(Want { keys: vec![key], purpose, domain });
        }
        if way != Way::Unknown {
            return Ok(());
        }
        if self.pending.len() < PENDING_MAX {
            self.pending.push(*datagram);
        } else {
            self.engine.failed(datagram.id);
        }
        Ok(())
    }

    /// By the program's stamps a datagram has left when it is posted: its completion would be stamped when somebody looks. A device that
    /// stamps tells its own time with the completion.
    fn post(
        &mut self,
        datagram: &Datagram,
        key: &Key,
        parts: &mut Parts,
        watch: &Watch,
    ) -> Result<Way, Trouble> {
        let now = watch.now();
        let (way, posted) = parts.send(datagram, key, now);
        match posted {
            Ok(()) if way == Way::Unknown => {}
            Ok(()) => {
                self.posted = now;
                self.engine.sent(datagram.id, watch.stamp_since(now));
            }
            Err(error) => {
                self.engine.failed(datagram.id);
                if error.errno != ENOMEM {
                    return Err(Trouble::verb(Step::Measure, &error));
                }
            }
        }
        Ok(way)
    }

    fn send_pending(&mut self, parts: &mut Parts, watch: &Watch) -> Result<(), Trouble> {
        let mut at = 0;
        while let Some(datagram) = self.pending.get(at).copied() {
            let key = self.own.key(&datagram.to);
            if self.post(&datagram, &key, parts, watch)? == Way::Unknown {
                at += 1;
            } else {
                self.pending.swap_remove(at);
            }
        }
        Ok(())
    }

    fn resolve(
        &mut self,
        batch: u32,
        to: &[Destination],
        parts: &mut Parts,
        watch: &Watch,
        outlet: &mut Outlet<'_>,
    ) {
        let now = watch.now();
        let mut keys: Vec<Key> = to.iter().map(|to| self.own.key(to)).collect();
        keys.retain(|key| !parts.knows(key, now) || parts.needs(key, now));
        if keys.is_empty() {
            return self.engine.resolved(batch, Ok(()), now);
        }
        let (purpose, domain) = (Purpose::Batch(batch), parts.domain.clone());
        outlet.wants.push(Want { keys, purpose, domain });
    }

    /// Takes new addresses in; answers whose address could not be made are given up. What is replaced comes back.
    pub(super) fn learn(
        &mut self,
        made: Vec<(Key, AddressHandle)>,
        keys: &[Key],
        now: Mono,
    ) -> Vec<AddressHandle> {
        self.asked.retain(|key| !keys.contains(key));
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(parts) = slot.as_mut() else { return made.into_iter().map(|(_, handle)| handle).collect() };
        let old = parts.learn(made, now);
        let (own, engine) = (&self.own, &mut self.engine);
        self.pending.retain(|datagram| {
            let key = own.key(&datagram.to);
            let hopeless = keys.contains(&key) && !parts.knows(&key, now);
            if hopeless {
                engine.failed(datagram.id);
            }
            !hopeless
        });
        self.fresh = true;
        old
    }
}

/// Takes the completions of sends, and with each what the device says of when the datagram left.
fn free_buffers(engine: &mut Engine, parts: &mut Parts, watch: &Watch) -> Result<(), Trouble> {
    let mut broken = Ok(());
    parts.sent(
        || watch.now(),
        |id, stamp, made| match made {
            Ok(()) => {
                stamp.into_iter().for_each(|stamp| engine.sent(id, stamp));
                engine.completed(id);
            }
            Err(trouble) => {
                engine.failed(id);
                broken = Err(trouble);
            }
        },
    )?;
    broken
}
