//! The loop of one endpoint's thread, and the handle to it.

use super::guarding::Guarding;
use super::meter::Meter;
use super::{Probe, Progress, Told, Watch};
use crate::{PortReader, Waker};
use rdmascope_model::{
    Cause, CounterDelta, EndpointInfo, EndpointName, Failure, Load, Outcome, ProbePlan, Step, Urgency,
};
use rdmascope_probe::TransportEvent;
use rdmascope_probe::limits::LEASES_PER_ENDPOINT_MAX;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, park, park_timeout};
use std::time::{Duration, Instant};

/// Three commands each for as many leases as an endpoint may hold, twice over.
const COMMANDS_MAX: usize = 6 * LEASES_PER_ENDPOINT_MAX;
/// How often a probe that waits for its peer is looked at: the delay that the first message can have.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long the end of the program waits for a thread: `close` asks for 100 ms, this allows for a busy host.
const END_WAIT: Duration = Duration::from_millis(500);

/// Reading a port's counters may wait so long for the kernel's one lock over network devices, behind whoever asks a slow driver, before
/// the device counts as stuck.
const COUNTERS_WAIT: Duration = Duration::from_secs(8);

pub(super) enum Command {
    Prepare { ticket: u64, plan: Box<ProbePlan>, endpoint: Box<EndpointInfo>, watch: Watch },
    Connect { ticket: u64, offer: Vec<u8> },
    Start { ticket: u64 },
}

/// The call that the thread is in.
#[derive(Clone, Copy)]
struct Call {
    what: &'static str,
    since: Instant,
    /// A measured window may take as long as its lease; set-up calls may not.
    window_until: Option<Instant>,
}

type Doing = Arc<Mutex<Option<Call>>>;

/// Handle to the thread of one endpoint.
pub(super) struct Worker {
    commands: SyncSender<Command>,
    doing: Doing,
    thread: JoinHandle<()>,
    /// Disconnected when the thread has ended.
    alive: Receiver<()>,
}

impl Worker {
    pub(super) fn send(&self, command: Command) -> Result<(), TrySendError<Command>> {
        self.commands.try_send(command)?;
        self.wake();
        Ok(())
    }

    pub(super) fn wake(&self) {
        self.thread.thread().unpark();
    }

    /// In words, what the thread hangs in; `None` when it works.
    pub(super) fn stuck(&self, after: Duration) -> Option<String> {
        let call = (*self.doing.lock().unwrap_or_else(PoisonError::into_inner))?;
        let late = call.window_until.unwrap_or(call.since) + after;
        let hangs = Instant::now() > late;
        hangs.then(|| {
            format!("device is stuck since {:.1} s in: {}", call.since.elapsed().as_secs_f64(), call.what)
        })
    }

    /// Ends the thread, or leaves it to itself when it hangs.
    pub(super) fn end(self, endpoint: &EndpointName) {
        let Self { commands, thread, alive, .. } = self;
        drop(commands);
        thread.thread().unpark();
        match alive.recv_timeout(END_WAIT) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => drop(thread.join()),
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!(%endpoint, "its thread hangs in the kernel and was left behind");
            }
        }
    }
}

/// How a thread tells what happened.
pub(super) struct Teller {
    pub(super) tell: SyncSender<Told>,
    pub(super) waker: Waker,
}

impl Teller {
    fn tell(&self, ticket: u64, event: TransportEvent) {
        if self.tell.try_send((ticket, event)).is_err() {
            tracing::warn!("an event of a probe was lost: nobody polls the transport");
        }
        (self.waker)();
    }
}

/// Starts the thread of one endpoint.
pub(super) fn spawn<P: Probe>(
    endpoint: &EndpointName,
    make_device: Arc<dyn Fn() -> P::Device + Send + Sync>,
    port: PortReader,
    teller: Teller,
) -> std::io::Result<Worker> {
    let (commands, inbox) = sync_channel(COMMANDS_MAX);
    let (living, alive) = sync_channel(1);
    let doing = Doing::default();
    let watched = Arc::clone(&doing);
    // The kernel shows 15 characters of it.
    let name = format!("probe {}", endpoint.device);
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let _living: SyncSender<()> = living;
        let mut crew =
            Crew::<P> { device: make_device(), members: BTreeMap::new(), doing: watched, port, teller };
        while crew.turn(&inbox).is_continue() {}
    })?;
    Ok(Worker { commands, doing, thread, alive })
}

enum Stage {
    Prepared,
    Connecting(Vec<u8>),
    Connected,
    Running,
    Finished,
}

struct Member<P> {
    probe: P,
    plan: Box<ProbePlan>,
    endpoint: Box<EndpointInfo>,
    watch: Watch,
    stage: Stage,
    measuring: bool,
    /// Since it was connected.
    meter: Option<Meter>,
    guarding: Option<Guarding>,
}

/// The probes of one endpoint, on its thread.
struct Crew<P: Probe> {
    // Before the device: a probe uses it until it is dropped.
    members: BTreeMap<u64, Member<P>>,
    device: P::Device,
    doing: Doing,
    port: PortReader,
    teller: Teller,
}

impl<P: Probe> Crew<P> {
    /// Handles what came in, gives each probe its turn, and rests when there is nothing to do.
    fn turn(&mut self, inbox: &Receiver<Command>) -> ControlFlow<()> {
        loop {
            match inbox.try_recv() {
                Ok(command) => {
                    // What was closed before this command may hold what it needs, such as the only port of the range.
                    self.free_closed();
                    self.obey(command);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return ControlFlow::Break(()),
            }
        }
        self.free_closed();
        self.end_overdue();
        let measuring = self.members.iter().find(|(_, m)| m.measuring).map(|(ticket, _)| *ticket);
        let tickets: Vec<u64> = measuring.map_or_else(|| self.members.keys().copied().collect(), |t| vec![t]);
        for ticket in tickets {
            self.go_on(ticket);
            if self.members.get(&ticket).is_some_and(|member| member.measuring) {
                return ControlFlow::Continue(());
            }
        }
        self.rest();
        ControlFlow::Continue(())
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Prepare { watch, .. } if watch.cancelled() => {}
            Command::Prepare { ticket, plan, endpoint, watch } => {
                self.enter("preparing a probe", None);
                let made = P::prepare(&mut self.device, &plan, &endpoint, &watch);
                self.leave();
                match made {
                    Ok((probe, offer)) => {
                        let (stage, measuring) = (Stage::Prepared, false);
                        let (meter, guarding, endpoint) = (None, None, looked_at(&plan, endpoint));
                        let member =
                            Member { probe, plan, endpoint, watch, stage, measuring, meter, guarding };
                        self.members.insert(ticket, member);
                        self.tell(ticket, TransportEvent::Prepared { offer });
                    }
                    Err(failure) => self.tell(ticket, TransportEvent::Finished(Outcome::Failed(failure))),
                }
            }
            Command::Connect { ticket, offer } => {
                if let Some(member) = self.members.get_mut(&ticket)
                    && matches!(member.stage, Stage::Prepared)
                {
                    member.stage = Stage::Connecting(offer);
                }
            }
            Command::Start { ticket } => {
                if let Some(member) = self.members.get_mut(&ticket)
                    && matches!(member.stage, Stage::Connected)
                {
                    member.stage = Stage::Running;
                }
            }
        }
    }

    fn free_closed(&mut self) {
        if self.members.values().any(|member| member.watch.cancelled()) {
            self.enter("closing a probe", None);
            self.members.retain(|_, member| !member.watch.cancelled());
            self.leave();
        }
    }

    /// Ends probes whose lease runs out, so that they do so even when nobody closes them.
    fn end_overdue(&mut self) {
        let now = Instant::now();
        let overdue: Vec<u64> = self
            .members
            .iter()
            .filter(|(_, m)| now >= m.watch.deadline())
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in overdue {
            self.enter("closing a probe", None);
            let failure = self.members.remove(&ticket).and_then(|member| overdue_failure(&member));
            self.leave();
            if let Some(failure) = failure {
                self.tell(ticket, TransportEvent::Finished(Outcome::Failed(failure)));
            }
        }
    }

    /// Gives one probe its turn.
    fn go_on(&mut self, ticket: u64) {
        let Some(mut member) = self.members.remove(&ticket) else { return };
        let event = match &member.stage {
            Stage::Prepared | Stage::Connected | Stage::Finished => None,
            Stage::Connecting(offer) => {
                self.enter("connecting a probe", None);
                let connected = member.probe.connect(offer, &member.watch);
                self.leave();
                match connected {
                    Ok(false) => None,
                    Ok(true) => {
                        // The other end may send as soon as it hears that this one is ready, whenever this one is told to start.
                        self.enter("reading counters", Some(Instant::now() + COUNTERS_WAIT));
                        let port = (self.port)(&member.endpoint);
                        self.leave();
                        member.meter = Some(Meter::begin(&port));
                        member.guarding = Guarding::begin(&member.plan, &member.endpoint, &port);
                        member.stage = Stage::Connected;
                        Some(TransportEvent::Connected)
                    }
                    Err(failure) => Some(TransportEvent::Finished(Outcome::Failed(failure))),
                }
            }
            Stage::Running => {
                self.enter("measuring", Some(member.watch.deadline()));
                let progress = member.probe.run(&member.watch);
                self.leave();
                let progress = self.guarded(&mut member, progress);
                member.measuring = matches!(progress, Progress::Measuring);
                match progress {
                    Progress::Waiting | Progress::Measuring => None,
                    Progress::Finished(outcome) => Some(self.finished(ticket, &member, outcome)),
                }
            }
        };
        if matches!(event, Some(TransportEvent::Finished(_))) {
            member.stage = Stage::Finished;
        }
        self.members.insert(ticket, member);
        if let Some(event) = event {
            self.tell(ticket, event);
        }
    }

    /// Ends a stream that hurts somebody.
    fn guarded(&self, member: &mut Member<P>, progress: Progress) -> Progress {
        let Some(guarding) = member.guarding.as_mut().filter(|guarding| guarding.is_due()) else {
            return progress;
        };
        if matches!(progress, Progress::Finished(_)) {
            return progress;
        }
        self.enter("reading counters", Some(Instant::now() + COUNTERS_WAIT));
        let why = guarding.look((self.port)(&member.endpoint), member.probe.moved_bytes());
        self.leave();
        let Some(why) = why else { return progress };
        let delta = CounterDelta { retransmits: None };
        Progress::Finished(Outcome::Aborted(member.probe.so_far(), delta, why))
    }

    /// Tells what the probe moved, and gives its end with that in it.
    fn finished(&self, ticket: u64, member: &Member<P>, outcome: Outcome) -> TransportEvent {
        let Some(meter) = &member.meter else { return TransportEvent::Finished(outcome) };
        self.enter("reading counters", Some(Instant::now() + COUNTERS_WAIT));
        let effects = meter.moved(|| (self.port)(&member.endpoint));
        self.leave();
        let delta = CounterDelta { retransmits: effects.retransmits };
        self.tell(ticket, TransportEvent::Effects(Box::new(effects)));
        TransportEvent::Finished(match outcome {
            Outcome::Latency(stats, _) => Outcome::Latency(stats, delta),
            Outcome::Bandwidth(stats, _) => Outcome::Bandwidth(stats, delta),
            Outcome::Aborted(stats, _, why) => Outcome::Aborted(stats, delta, why),
            other => other,
        })
    }

    fn rest(&self) {
        let waits = |m: &Member<P>| matches!(m.stage, Stage::Connecting(_) | Stage::Running);
        if self.members.values().any(waits) {
            park_timeout(LOOK_EVERY);
        } else if let Some(first) = self.members.values().map(|member| member.watch.remaining()).min() {
            park_timeout(first);
        } else {
            park();
        }
    }

    fn enter(&self, what: &'static str, window_until: Option<Instant>) {
        let call = Call { what, since: Instant::now(), window_until };
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = Some(call);
    }

    fn leave(&self) {
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn tell(&self, ticket: u64, event: TransportEvent) {
        self.teller.tell(ticket, event);
    }
}

/// The endpoint as its port is read for a probe. The driver's statistics take the kernel's lock of network devices, and on adapters a firmware
/// command: too much for pings that go on all day, which read the port's few files alone.
fn looked_at(plan: &ProbePlan, mut endpoint: Box<EndpointInfo>) -> Box<EndpointInfo> {
    if plan.urgency == Urgency::Background && plan.spec.load() != Load::Streams {
        endpoint.netdev = None;
    }
    endpoint
}

/// What a probe whose time is up has to tell; `None` when its end was told, or when it only answers.
fn overdue_failure<P>(member: &Member<P>) -> Option<Failure> {
    let plan = &member.plan;
    let (cause, step, evidence) = match member.stage {
        Stage::Finished => return None,
        Stage::Running if plan.only_answers() => return None,
        Stage::Prepared => {
            (Cause::PeerSilent, Step::Exchange, "the lease ran out before the peer sent its address")
        }
        Stage::Connecting(_) => (Cause::NoRoute, Step::Rtr, "the lease ran out while connecting to the peer"),
        Stage::Connected => (Cause::PeerSilent, Step::Rts, "the lease ran out before the peer was ready"),
        Stage::Running if member.measuring => {
            (Cause::Stalled, Step::Measure, "the lease ran out while measuring")
        }
        Stage::Running => {
            (Cause::NoFirstByte, Step::FirstByte, "the lease ran out before anything came from the peer")
        }
    };
    Some(Failure { cause, step, side: plan.role.side(), evidence: evidence.to_owned() })
}
