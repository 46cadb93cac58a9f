//! Bandwidth over RDMA: a fixed number of messages is kept outstanding on each queue pair; what is acknowledged counts. One end sends,
//! or both do at the same time; sends need receives at the other end, which gives them back in parts.

use super::parts::{RECEIVE, RECEIVE_PARTS};
use super::sender::Sender;
use super::signals::{SIGNAL, Signals, Word};
use super::{Found, Parts, Stop, Trouble};
use rdmascope_model::{BandwidthSpec, BandwidthStats, Cause, Operation, ProbePlan, Role, Step};
use rdmascope_sys::{Completion, RemoteBuffer, SendRequest};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// Looks at an empty queue before sleeping: less than the time that waking up takes.
const LOOKS: u32 = 20;
/// A sleep that takes longer comes back to look whether the probe was closed.
const SLEEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
/// A sender that waits for receives is not woken when they come: they are written into its memory.
const SLEEP_FOR_CREDITS: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000 };
/// After so long the thread looks after its other probes.
const SLICE: Duration = Duration::from_millis(20);
/// Completions taken at once.
const BATCH: usize = 16;

/// One end of a stream that takes part in it: every source, and a target that sends too or takes in sends.
pub(super) struct Stream {
    plan: ProbePlan,
    signals: Signals,
    remote: RemoteBuffer,
    sender: Option<Sender>,
    receiver: Option<Receiver>,
    /// What was measured, once the own window is over.
    stats: Option<BandwidthStats>,
    begun: bool,
    /// When something last completed.
    moved: Instant,
    /// Looks since then.
    looks: u32,
    /// The queue was asked to tell the channel.
    armed: bool,
}

impl Stream {
    /// `receives` are those that the peer offered on each queue pair.
    pub(super) fn new(
        plan: &ProbePlan,
        spec: BandwidthSpec,
        signals: Signals,
        remote: RemoteBuffer,
        receives: u16,
    ) -> Self {
        let manner = plan.manner;
        let sends = plan.role == Role::Source || manner.both_ways;
        let takes = manner.operation == Operation::Send && (plan.role == Role::Target || manner.both_ways);
        let pairs = manner.queue_pairs as usize;
        let credits = (manner.operation == Operation::Send).then_some(u64::from(receives));
        Self {
            plan: plan.clone(),
            signals,
            remote,
            sender: sends.then(|| Sender::new(spec, pairs, credits)),
            receiver: takes.then(|| Receiver { pairs: vec![Taken::default(); pairs], any: false }),
            stats: None,
            begun: false,
            moved: Instant::now(),
            looks: 0,
            armed: false,
        }
    }

    pub(super) fn run(&mut self, parts: &Parts, stop: &Stop<'_>) -> Result<Found, Trouble> {
        if !self.begun && !self.begin(parts)? {
            return Ok(Found::Waiting);
        }
        let slice_ends = Instant::now() + SLICE;
        let mut request = self.request(parts).map_err(|e| Trouble::verb(Step::FirstByte, &e))?;
        let mut room: [Completion; BATCH] = std::array::from_fn(|_| Completion::default());
        loop {
            if let Some(sender) = &mut self.sender {
                sender.post(parts, &self.signals, &mut request, self.moved)?;
            }
            let done = parts.queue.poll(&mut room).map_err(|e| Trouble::verb(self.step(), &e))?;
            let seen = if done.is_empty() {
                if self.over(parts) {
                    return Ok(self.end());
                }
                let Some(awake) = self.wait(parts)? else { continue };
                self.may_wait(stop)?;
                awake
            } else {
                self.take(parts, done)?;
                // Only a completion can end the window: one without would hide that the path is dead.
                self.finish(parts)?;
                if self.over(parts) {
                    return Ok(self.end());
                }
                self.moved
            };
            if seen >= slice_ends {
                self.may_wait(stop)?;
                let idle = self.sender.is_none() && !self.receiver.as_ref().is_some_and(|r| r.any);
                return Ok(if idle { Found::Waiting } else { Found::Measuring });
            }
        }
    }

    /// Payload that was sent and taken in so far, bytes; `None` where the peer's writes or reads move some without us.
    pub(super) fn moved_bytes(&self) -> Option<u64> {
        let manner = self.plan.manner;
        if manner.both_ways && manner.operation != Operation::Send {
            return None;
        }
        let sent = self.sender.as_ref().map_or(0, |sender| sender.completed);
        let taken = self.receiver.as_ref().map_or(0, |r| r.pairs.iter().map(|pair| pair.taken).sum());
        Some((sent + taken) * u64::from(super::message_bytes(&self.plan.spec)))
    }

    /// What was measured until now.
    pub(super) fn so_far(&self) -> Option<BandwidthStats> {
        self.stats.or_else(|| self.sender.as_ref().and_then(Sender::stats))
    }

    /// The source begins by itself, and says so to a target that is to send too: both windows then run at the same time.
    fn begin(&mut self, parts: &Parts) -> Result<bool, Trouble> {
        self.begun = match (self.plan.role, self.plan.manner.both_ways) {
            (Role::Source, true) => {
                self.say(parts, Word::Begun)?;
                true
            }
            (Role::Target, true) => self.signals.heard(parts) != Word::Nothing,
            (_, false) => true,
        };
        if self.begun {
            self.moved = Instant::now();
            self.sender.iter_mut().for_each(|sender| sender.began = self.moved);
        }
        Ok(self.begun)
    }

    fn request<'a>(&self, parts: &'a Parts) -> Result<SendRequest<'a>, rdmascope_sys::VerbError> {
        let message = 0..super::message_bytes(&self.plan.spec) as usize;
        match self.plan.manner.operation {
            Operation::Write => SendRequest::write(&parts.region, message, self.remote),
            Operation::Read => SendRequest::read(&parts.region, message, self.remote),
            Operation::Send => SendRequest::send(&parts.region, message),
        }
    }

    fn say(&self, parts: &Parts, word: Word) -> Result<(), Trouble> {
        self.signals.say(parts, word).map_err(|e| Trouble::verb(self.step(), &e))
    }

    /// Counts what completed.
    fn take(&mut self, parts: &Parts, done: &[Completion]) -> Result<(), Trouble> {
        if let Some(failed) = done.iter().find(|completion| !completion.is_success()) {
            return Err(Trouble::completion(self.step(), failed, &self.done()));
        }
        let now = Instant::now();
        for completion in done {
            let id = completion.id();
            if id & RECEIVE != 0 {
                self.receive(parts, (id & !RECEIVE) as usize)?;
            } else if id & SIGNAL == 0
                && let Some(sender) = &mut self.sender
            {
                sender.completed(id as usize, now);
            }
        }
        self.moved = now;
        self.looks = 0;
        Ok(())
    }

    /// Offers the buffer again, and tells the sender when a part of the receives is through.
    fn receive(&mut self, parts: &Parts, at: usize) -> Result<(), Trouble> {
        let Some(receiver) = &mut self.receiver else { return Ok(()) };
        receiver.any = true;
        let taken = &mut receiver.pairs[at];
        taken.taken += 1;
        taken.since_credit += 1;
        let credit = taken.since_credit == parts.receives / RECEIVE_PARTS;
        if credit {
            taken.since_credit = 0;
            taken.credits = taken.credits.wrapping_add(1);
        }
        let credits = taken.credits;
        let failed = |e| Trouble::verb(Step::Measure, &e);
        parts.post_receive(at, &self.plan).map_err(failed)?;
        if credit { self.signals.give_credits(parts, at, credits).map_err(failed) } else { Ok(()) }
    }

    /// Ends the own window when it is over, and tells the peer.
    fn finish(&mut self, parts: &Parts) -> Result<(), Trouble> {
        let Some(sender) =
            self.sender.as_mut().filter(|sender| self.stats.is_none() && sender.over(self.moved))
        else {
            return Ok(());
        };
        sender.stop();
        let Some(stats) = sender.stats() else {
            let evidence = format!("no time passed, {}", self.done());
            return Err(Trouble::new(Cause::Internal, Step::Measure, evidence));
        };
        self.stats = Some(stats);
        self.say(parts, Word::Done)
    }

    /// Nothing is left to do: a source waits for a target that sends too, so that neither end is taken away from the other.
    fn over(&self, parts: &Parts) -> bool {
        let own = self.sender.is_none() || self.stats.is_some();
        let waits = self.plan.role == Role::Target || self.plan.manner.both_ways;
        own && (!waits || self.signals.heard(parts) == Word::Done)
    }

    fn end(&self) -> Found {
        self.stats.map_or(Found::Served, Found::Bandwidth)
    }

    /// Nothing completed just now: look some more, then ask to be woken, look once more, and sleep. Tells the
    /// time after a sleep.
    fn wait(&mut self, parts: &Parts) -> Result<Option<Instant>, Trouble> {
        self.looks += 1;
        if self.looks <= LOOKS {
            return Ok(None);
        }
        if !self.armed {
            self.armed = true;
            parts.queue.request_notify().map_err(|e| Trouble::verb(self.step(), &e))?;
            return Ok(None);
        }
        let starved = self.sender.as_ref().is_some_and(Sender::waits_for_credits);
        let most = if starved { &SLEEP_FOR_CREDITS } else { &SLEEP };
        let mut sleepers = [PollFd::from_borrowed_fd(parts.channel.fd(), PollFlags::IN)];
        match poll(&mut sleepers, Some(most)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                let evidence = format!("waiting for completions: {error}");
                return Err(Trouble::new(Cause::Internal, self.step(), evidence));
            }
        }
        if parts.channel.take_event().map_err(|e| Trouble::verb(self.step(), &e))? {
            self.armed = false;
        }
        Ok(Some(Instant::now()))
    }

    /// A sender gives up on a peer that is silent for long; who only waits for the other end does so for as long as the lease lasts.
    fn may_wait(&self, stop: &Stop<'_>) -> Result<(), Trouble> {
        let sends = self.sender.is_some() && self.stats.is_none();
        if sends {
            stop.may_wait(self.moved, self.begun(), || self.done())
        } else {
            stop.may_serve(|| self.done())
        }
    }

    fn begun(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.completed > 0)
            || self.receiver.as_ref().is_some_and(|receiver| receiver.any)
    }

    fn step(&self) -> Step {
        if self.begun() { Step::Measure } else { Step::FirstByte }
    }

    fn done(&self) -> String {
        match &self.sender {
            Some(sender) => {
                format!("after {} acknowledged messages of {} sent", sender.completed, sender.posted)
            }
            None => {
                let pairs = self.receiver.iter().flat_map(|receiver| &receiver.pairs);
                format!("after {} messages came in", pairs.map(|pair| pair.taken).sum::<u64>())
            }
        }
    }
}

/// Takes in sends.
struct Receiver {
    pairs: Vec<Taken>,
    any: bool,
}

/// What came in on one queue pair.
#[derive(Clone, Copy, Default)]
struct Taken {
    taken: u64,
    since_credit: u32,
    /// Parts of the receives that were offered again, modulo 256.
    credits: u8,
}
