//! Latency over RDMA: write, wait for the acknowledgement, spin on the last byte that the peer writes back;
//! half of the time from one write to the next is one sample, as in `ib_write_lat`.

use super::pin::Pinned;
use super::{Counters, Parts, Stop, Trouble};
use crate::worker::{Progress, counter_delta, preemptions};
use rdmascope_model::{Cause, LatencySpec, Outcome, Role, Step};
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
    pub(super) spec: LatencySpec,
    pub(super) role: Role,
    pub(super) stop: Stop<'a>,
}

impl PingPong<'_> {
    /// The target waits, without spinning, until the first message is there; then the whole window runs
    /// through.
    pub(super) fn run(&self, counters: &Counters) -> Result<Progress, Trouble> {
        if self.role == Role::Target && self.incoming().load(Ordering::Acquire) == 0 {
            return Ok(Progress::Waiting);
        }
        let _pinned = Pinned::new(self.role);
        let (retransmits, preempted) = (counters.read(), preemptions());
        let scale = TickScale::new();
        let mut stamps = Vec::with_capacity(self.rounds() as usize);
        let ended = self.exchange(&mut stamps);
        let scale = scale.nanoseconds_per_tick();
        let lost = preemptions().zip(preempted).map_or(0, |(now, before)| now.saturating_sub(before));
        let delta = counter_delta(retransmits, counters.read());
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
            Some(stats) => Ok(Progress::Finished(Outcome::Latency(stats, delta))),
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
        let inline = self.spec.message_bytes <= self.parts.pair.max_inline();
        let (incoming, outgoing) = (self.incoming(), &self.parts.region.bytes()[2 * length - 1]);
        let mut request = SendRequest::write(&self.parts.region, length..2 * length, self.remote)
            .map_err(|e| Trouble::verb(Step::FirstByte, &e))?
            .inline(inline);
        let rounds = self.rounds();
        let mut room = [Completion::default()];
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
                self.await_mark(incoming, (round + answer) as u8, round)?;
            }
            stamps.push(ticks());
            outgoing.store((round + 1) as u8, Ordering::Release);
            self.parts.pair.post(&mut request).map_err(|e| Trouble::verb(step(round), &e))?;
            self.await_acknowledgement(&mut room, round)?;
        }
        if self.role == Role::Source {
            self.await_mark(incoming, rounds as u8, rounds)?;
        }
        Ok(())
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
            self.look_around(&mut waiting, round, "our last message was acknowledged, no answer came")?;
        }
    }

    #[inline]
    fn await_acknowledgement(&self, room: &mut [Completion; 1], round: u32) -> Result<(), Trouble> {
        let mut waiting = Waiting::default();
        loop {
            for _ in 0..POLLS {
                match self.parts.queue.poll(room).map_err(|e| Trouble::verb(step(round), &e))? {
                    [] => {}
                    [done, ..] if done.is_success() => return Ok(()),
                    [failed, ..] => {
                        return Err(Trouble::completion(step(round), failed, &self.done(round)));
                    }
                }
            }
            self.look_around(&mut waiting, round, "our last message was not acknowledged")?;
        }
    }

    /// A wait takes longer than it should. Others may run on this processor: a software device's packets are
    /// handled by a kernel thread when there are many, and it would get no turn for some milliseconds
    /// beside a thread that spins.
    #[cold]
    fn look_around(&self, waiting: &mut Waiting, round: u32, words: &str) -> Result<(), Trouble> {
        thread::yield_now();
        let since = *waiting.since.get_or_insert_with(Instant::now);
        waiting.looks += 1;
        if !waiting.looks.is_multiple_of(CLOCK_EVERY) {
            return Ok(());
        }
        let begun = round > 1 || self.role == Role::Target;
        self.stop.may_wait(since, begun, || format!("{}: {words}", self.done(round)))?;
        if since.elapsed() >= NAP_AFTER {
            thread::sleep(NAP);
        }
        Ok(())
    }

    #[cold]
    fn done(&self, round: u32) -> String {
        format!("after {round} of {} round trips", self.rounds())
    }
}

/// One wait for the peer or the device.
#[derive(Default)]
struct Waiting {
    since: Option<Instant>,
    looks: u32,
}

fn step(round: u32) -> Step {
    if round == 0 { Step::FirstByte } else { Step::Measure }
}
