//! Runs the blocking calls and measured windows of probes on one thread per endpoint, so that no caller ever waits.
//!
//! A thread that hangs in the kernel is left alone: its endpoint refuses new probes until it comes back, and no second
//! thread is made for it.

mod guarding;
mod meter;
mod thread;
mod watch;

pub(crate) use watch::{Watch, preemptions};

use crate::{PortReader, Transport, Waker};
use rdmascope_model::{
    BandwidthStats, Cause, EndpointInfo, EndpointName, Failure, LeaseId, Mono, Outcome, ProbePlan, Side, Step,
};
use rdmascope_probe::TransportEvent;
use rdmascope_probe::limits::LEASES_PER_ENDPOINT_MAX;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use thread::{Command, Worker};

/// Events of one lease are at most four (prepared, connected, effects, finished): room for 64 leases that nobody polled yet.
const EVENTS_MAX: usize = 256;
/// A set-up call that takes longer is a device that hangs: on working ones it takes less than 0.1 s.
const STUCK_AFTER: Duration = Duration::from_secs(2);

/// What a step of a running probe came to.
pub enum Progress {
    /// Nothing is there yet: look again within about a millisecond, others may be served meanwhile.
    Waiting,
    /// In the measured window: no other probe of this endpoint runs until this one is through. Say so every few 10 ms, so
    /// that others can be prepared and closed, or stay in the window for all of it where that would spoil the figures.
    Measuring,
    /// Over; it is not run again, and freed when it is closed. How far the counters moved is filled in by the thread.
    Finished(Outcome),
}

/// One side of one probe; made, used and dropped on the thread of its endpoint. Dropping it frees everything.
pub trait Probe: Sized + 'static {
    /// What all probes of one endpoint share on its thread, such as settings and an open device.
    type Device: 'static;

    /// Makes what the probe needs and the offer for the peer. May block in the kernel.
    ///
    /// # Errors
    /// What could not be made.
    fn prepare(
        device: &mut Self::Device,
        plan: &ProbePlan,
        endpoint: &EndpointInfo,
        watch: &Watch,
    ) -> Result<(Self, Vec<u8>), Failure>;

    /// Connects to the peer's offer; `false` when that takes longer: it is called again every millisecond with the same offer.
    ///
    /// # Errors
    /// Why there is no connection.
    fn connect(&mut self, offer: &[u8], watch: &Watch) -> Result<bool, Failure>;

    /// Called again and again once started, until it has finished. Looks at `watch` at least every few milliseconds.
    fn run(&mut self, watch: &Watch) -> Progress;

    /// Payload that this end of a stream sent and took in so far, bytes; `None` where the device moves it without the program.
    fn moved_bytes(&self) -> Option<u64> {
        None
    }

    /// What a stream has measured until now; it is given up, and not run again.
    fn so_far(&self) -> Option<BandwidthStats> {
        None
    }
}

/// The ticket of a probe that no thread knows.
const NO_TICKET: u64 = 0;

/// An event of the probe with this ticket. Tickets are never used twice, lease numbers may be.
type Told = (u64, TransportEvent);

struct Lease {
    ticket: u64,
    endpoint: EndpointName,
    side: Side,
    watch: Watch,
}

/// A transport whose probes are `P`: its endpoints' threads and what they told.
pub struct Workers<P: Probe> {
    make_device: Arc<dyn Fn() -> P::Device + Send + Sync>,
    port: PortReader,
    waker: Waker,
    stuck_after: Duration,
    threads: BTreeMap<EndpointName, Worker>,
    leases: BTreeMap<LeaseId, Lease>,
    tickets: u64,
    refused: VecDeque<(LeaseId, TransportEvent)>,
    told: Receiver<Told>,
    tell: SyncSender<Told>,
}

impl<P: Probe> Workers<P> {
    /// `make_device` runs on each endpoint's thread when that starts.
    pub(crate) fn with_device(
        waker: Waker,
        port: PortReader,
        make_device: impl Fn() -> P::Device + Send + Sync + 'static,
    ) -> Self {
        let (tell, told) = sync_channel(EVENTS_MAX);
        Self {
            make_device: Arc::new(make_device),
            port,
            waker,
            stuck_after: STUCK_AFTER,
            threads: BTreeMap::new(),
            leases: BTreeMap::new(),
            tickets: 0,
            refused: VecDeque::new(),
            told,
            tell,
        }
    }

    /// Answers a command that no thread will. What the thread may still tell of this probe is dropped.
    fn refuse(&mut self, lease: LeaseId, failure: Failure) {
        if let Some(known) = self.leases.get_mut(&lease) {
            known.ticket = NO_TICKET;
            known.watch.cancel();
        }
        self.refused.push_back((lease, TransportEvent::Finished(Outcome::Failed(failure))));
        (self.waker)();
    }

    /// The thread of an endpoint; made when it is first needed.
    fn worker(&mut self, endpoint: &EndpointName) -> Result<&Worker, (Cause, String)> {
        if !self.threads.contains_key(endpoint) {
            let teller = thread::Teller { tell: self.tell.clone(), waker: Arc::clone(&self.waker) };
            let (make_device, port) = (Arc::clone(&self.make_device), Arc::clone(&self.port));
            let worker = thread::spawn::<P>(endpoint, make_device, port, teller)
                .map_err(|error| (Cause::NoResources, format!("no thread for {endpoint}: {error}")))?;
            self.threads.insert(endpoint.clone(), worker);
        }
        let worker = &self.threads[endpoint];
        match worker.stuck(self.stuck_after) {
            Some(words) => Err((Cause::NoResources, words)),
            None => Ok(worker),
        }
    }

    fn send(&mut self, lease: LeaseId, step: Step, command: impl FnOnce(u64) -> Command) {
        let Some(known) = self.leases.get(&lease) else {
            tracing::warn!(%lease, step = step.as_str(), "a command for a probe that is not there was ignored");
            return;
        };
        let (ticket, side, endpoint) = (known.ticket, known.side, known.endpoint.clone());
        let sent = self.worker(&endpoint).and_then(|worker| match worker.send(command(ticket)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => {
                Err((Cause::NoResources, format!("{endpoint} is behind with its commands")))
            }
            Err(TrySendError::Disconnected(_)) => {
                Err((Cause::Internal, format!("the thread of {endpoint} ended by itself")))
            }
        });
        if let Err((cause, evidence)) = sent {
            self.refuse(lease, Failure { cause, step, side, evidence });
        }
    }
}

impl<P: Probe> Transport for Workers<P> {
    fn prepare(&mut self, plan: &ProbePlan, endpoint: &EndpointInfo, _now: Mono) {
        if self.leases.contains_key(&plan.lease) {
            tracing::warn!(lease = %plan.lease, "it is there already: the second request to prepare it was ignored");
            return;
        }
        self.tickets += 1;
        let held = self.leases.values().filter(|lease| lease.endpoint == endpoint.name).count();
        let watch = Watch::new(Instant::now() + plan.expires_in);
        let side = plan.role.side();
        let lease =
            Lease { ticket: self.tickets, endpoint: endpoint.name.clone(), side, watch: watch.clone() };
        self.leases.insert(plan.lease, lease);
        if held >= LEASES_PER_ENDPOINT_MAX {
            let evidence = format!("{} holds {held} probes already", endpoint.name);
            return self.refuse(
                plan.lease,
                Failure { cause: Cause::LeaseRejected, step: Step::Admit, side, evidence },
            );
        }
        let (plan, endpoint) = (Box::new(plan.clone()), Box::new(endpoint.clone()));
        self.send(plan.lease, Step::Open, |ticket| Command::Prepare { ticket, plan, endpoint, watch });
    }

    fn connect(&mut self, lease: LeaseId, offer: &[u8], _now: Mono) {
        self.send(lease, Step::Rtr, |ticket| Command::Connect { ticket, offer: offer.to_vec() });
    }

    fn start(&mut self, lease: LeaseId, _now: Mono) {
        self.send(lease, Step::FirstByte, |ticket| Command::Start { ticket });
    }

    fn close(&mut self, lease: LeaseId, _now: Mono) {
        self.refused.retain(|(other, _)| *other != lease);
        if let Some(gone) = self.leases.remove(&lease) {
            gone.watch.cancel();
            if let Some(worker) = self.threads.get(&gone.endpoint) {
                worker.wake();
            }
        }
    }

    fn poll(&mut self, _now: Mono) -> Option<(LeaseId, TransportEvent)> {
        if let Some(event) = self.refused.pop_front() {
            return Some(event);
        }
        while let Ok((ticket, event)) = self.told.try_recv() {
            if let Some((lease, _)) = self.leases.iter().find(|(_, lease)| lease.ticket == ticket) {
                return Some((*lease, event));
            }
        }
        None
    }
}

impl<P: Probe> Drop for Workers<P> {
    fn drop(&mut self) {
        for lease in self.leases.values() {
            lease.watch.cancel();
        }
        for (endpoint, worker) in std::mem::take(&mut self.threads) {
            worker.end(&endpoint);
        }
    }
}

#[cfg(test)]
mod tests;
