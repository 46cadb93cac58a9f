//! Latency over RDMA: a message goes to the peer and one comes back; half of the time from one to the next is one sample, as in
//! `ib_write_lat` and `ib_send_lat`. Writes are awaited by spinning on their last byte, sends by their completion.

use super::parts::RECEIVE;
use super::pin::Pinned;
use super::{Found, Parts, Stop, Trouble};
use crate::worker::preemptions;
use rdmascope_model::{Cause, LatencySpec, Operation, ProbePlan, Role, Step};
use rdmascope_probe::latency_stats;
use rdmascope_sys::{Completion, RemoteBuffer, SendRequest, TickScale, ticks};
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Looks at memory between two looks around: 10 µs on a fast processor, so that healthy round trips see none
/// of them.
const SPINS: u32 = 20_000;
/// The same for the completion queue, where one look costs more.
const POLLS: u32 = 1_000;
/// Looks around between two looks at the clock, which can cost 5 µs in a virtual machine.
const CLOCK_EVERY: u32 = 8;
/// A wait that is longer than any healthy round trip gives the processor back in between.
const NAP_AFTER: Duration = Duration::from_millis(20);
/// Adds at most one per cent to a sample of that length.
const NAP: Duration = Duration::from_micros(200);

/// Rounds between two looks at whether the probe was closed: a healthy one never waits long enough to look around.
const CANCEL_EVERY: u32 = 32;
/// Samples that are worth telling when time runs out: as many as a background probe takes.
const SAMPLES_ENOUGH: usize = 30;

/// One side of a ping-pong.
pub(super) struct PingPong<'a> {
    pub(super) parts: &'a Parts,
    pub(super) remote: RemoteBuffer,
    pub(super) plan: &'a ProbePlan,
    pub(super) spec: LatencySpec,
    pub(super) role: Role,
    pub(super) stop: Stop<'a>,
}

/// What completed so far.
#[derive(Default)]
struct Seen {
    /// Own messages that were acknowledged.
    acknowledged: u32,
    /// The peer's messages (sends).
    received: u32,
}

impl PingPong<'_> {
    /// The target waits, without spinning, until the first message is there; then the whole window runs
    /// through.
    pub(super) fn run(&self) -> Result<Found, Trouble> {
        if self.role == Role::Target && self.incoming().load(Ordering::Acquire) == 0 {
            return Ok(Found::Waiting);
        }
        let _pinned = Pinned::new(self.role);
        let preempted = preemptions();
        let scale = TickScale::new();
        let mut stamps = Vec::with_capacity(self.rounds() as usize);
        let ended = self.exchange(&mut stamps);
        let scale = scale.nanoseconds_per_tick();
        let lost = preemptions().zip(preempted).map_or(0, |(now, before)| now.saturating_sub(before));
        let clock = || Trouble::new(Cause::Internal, Step::Measure, "the processors' time counters disagree");
        let scale = scale.ok_or_else(clock)? / 2.0;
        // The first gap holds the time in which the target woke up.
        let first = self.spec.warmup as usize + 1;
        // A starved host is slow, and so is a bad path: what was measured says so better than a failure would.
        ended.or_else(|trouble| {
            let enough = trouble.going && stamps.len() > first + SAMPLES_ENOUGH;
            if enough { Ok(()) } else { Err(trouble) }
        })?;
        let gaps = stamps.windows(2).skip(first).map(|pair| pair[1].saturating_sub(pair[0]));
        let mut halves: Vec<u64> = gaps.map(|gap| (gap as f64 * scale) as u64).collect();
        let delayed = u32::try_from(lost).unwrap_or(u32::MAX).min(self.spec.samples);
        match latency_stats(&mut halves, delayed) {
            Some(stats) => Ok(Found::Latency(stats)),
            None => Err(Trouble::new(Cause::Internal, Step::Measure, "no sample was asked for")),
        }
    }

    /// The last byte of the peer's message.
    fn incoming(&self) -> &AtomicU8 {
        &self.parts.region.bytes()[self.spec.message_bytes as usize - 1]
    }

    /// Warm-up, samples, and one at each end that gives no sample.
    fn rounds(&self) -> u32 {
        self.spec.warmup + self.spec.samples + 2
    }

    /// Does all rounds; `stamps` gets the ticks at which each of ours was sent.
    fn exchange(&self, stamps: &mut Vec<u64>) -> Result<(), Trouble> {
        let length = self.spec.message_bytes as usize;
        let pair = &self.parts.pairs[0];
        let inline = self.spec.message_bytes <= pair.max_inline();
        let outgoing = &self.parts.region.bytes()[2 * length - 1];
        let sends = self.plan.manner.operation == Operation::Send;
        let request = if sends {
            SendRequest::send(&self.parts.region, length..2 * length)
        } else {
            SendRequest::write(&self.parts.region, length..2 * length, self.remote)
        };
        let mut request = request.map_err(|e| Trouble::verb(Step::FirstByte, &e))?.inline(inline);
        let rounds = self.rounds();
        let mut seen = Seen::default();
        // The target answers a mark with the same one. A new buffer holds 0: the first mark is 1.
        let (answer, first) = match self.role {
            Role::Source => (0, 1),
            Role::Target => (1, 0),
        };
        for round in 0..rounds {
            if round.is_multiple_of(CANCEL_EVERY) {
                self.stop.may_go_on(step(round))?;
            }
            if round >= first {
                self.await_message(&mut seen, (round + answer) as u8, round)?;
            }
            stamps.push(ticks());
            outgoing.store((round + 1) as u8, Ordering::Release);
            pair.post(&mut request).map_err(|e| Trouble::verb(step(round), &e))?;
            self.await_completions(&mut seen, round, |seen| seen.acknowledged > round)?;
        }
        if self.role == Role::Source {
            self.await_message(&mut seen, rounds as u8, rounds)?;
        }
        Ok(())
    }

    /// The peer's next message. `mark` is its last byte; of sends, it is the one after those that came.
    #[inline]
    fn await_message(&self, seen: &mut Seen, mark: u8, round: u32) -> Result<(), Trouble> {
        if self.plan.manner.operation != Operation::Send {
            return self.await_mark(self.incoming(), mark, round);
        }
        let wanted = if self.role == Role::Source { round } else { round + 1 };
        self.await_completions(seen, round, |seen| seen.received >= wanted)
    }

    #[inline]
    fn await_mark(&self, incoming: &AtomicU8, mark: u8, round: u32) -> Result<(), Trouble> {
        let mut waiting = Waiting::default();
        loop {
            for _ in 0..SPINS {
                if incoming.load(Ordering::Acquire) == mark {
                    return Ok(());
                }
            }
            let done = || format!("{}: our last message was acknowledged, no answer came", self.done(round));
            waiting.look_around(&self.stop, self.begun(round), &done)?;
        }
    }

    #[inline]
    fn await_completions(
        &self,
        seen: &mut Seen,
        round: u32,
        there: impl Fn(&Seen) -> bool,
    ) -> Result<(), Trouble> {
        let mut room = [Completion::default()];
        let mut waiting = Waiting::default();
        while !there(seen) {
            for _ in 0..POLLS {
                match self.parts.queue.poll(&mut room).map_err(|e| Trouble::verb(step(round), &e))? {
                    [] => continue,
                    [done, ..] if done.is_success() => {
                        if done.id() & RECEIVE == 0 {
                            seen.acknowledged += 1;
                        } else {
                            seen.received += 1;
                            self.parts
                                .post_receive(0, self.plan)
                                .map_err(|e| Trouble::verb(step(round), &e))?;
                        }
                    }
                    [failed, ..] => {
                        return Err(Trouble::completion(step(round), failed, &self.done(round)));
                    }
                }
                if there(seen) {
                    return Ok(());
                }
            }
            let words = if seen.acknowledged > round {
                "our last message was acknowledged, no answer came"
            } else {
                "our last message was not acknowledged"
            };
            let done = || format!("{}: {words}", self.done(round));
            waiting.look_around(&self.stop, self.begun(round), &done)?;
        }
        Ok(())
    }

    fn begun(&self, round: u32) -> bool {
        round > 1 || self.role == Role::Target
    }

    #[cold]
    fn done(&self, round: u32) -> String {
        format!("after {round} of {} round trips", self.rounds())
    }
}

/// One wait for the peer or the device.
#[derive(Default)]
pub(super) struct Waiting {
    since: Option<Instant>,
    looks: u32,
}

impl Waiting {
    /// A wait takes longer than it should. Others may run on this processor: a software device's packets are
    /// handled by a kernel thread when there are many, and it would get no turn for some milliseconds
    /// beside a thread that spins.
    #[cold]
    pub(super) fn look_around(
        &mut self,
        stop: &Stop<'_>,
        begun: bool,
        done: &dyn Fn() -> String,
    ) -> Result<(), Trouble> {
        thread::yield_now();
        let since = *self.since.get_or_insert_with(Instant::now);
        self.looks += 1;
        if !self.looks.is_multiple_of(CLOCK_EVERY) {
            return Ok(());
        }
        stop.may_wait(since, begun, done)?;
        if since.elapsed() >= NAP_AFTER {
            thread::sleep(NAP);
        }
        Ok(())
    }
}

pub(super) fn step(round: u32) -> Step {
    if round == 0 { Step::FirstByte } else { Step::Measure }
}
