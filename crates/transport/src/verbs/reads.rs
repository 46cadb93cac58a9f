//! Latency of RDMA reads: one after the other, and the whole time of each is one sample, as in `ib_read_lat`. The target's device
//! answers without its program.

use super::pin::Pinned;
use super::ping_pong::{Waiting, step};
use super::signals::{Signals, Word};
use super::{Found, Parts, Stop, Trouble};
use crate::worker::preemptions;
use rdmascope_model::{Cause, LatencySpec, Role, Step};
use rdmascope_probe::latency_stats;
use rdmascope_sys::{Completion, RemoteBuffer, SendRequest, TickScale, ticks};

/// Reads between two looks at whether the probe was closed.
const CANCEL_EVERY: u32 = 32;
/// Looks at the queue between two looks around. A whole round trip is spent here, and looking around gives the processor away: a slow
/// device's answer would be seen late (0.2 ms on a fast processor, as `ib_read_lat` never looks around).
const POLLS: u32 = 10_000;

/// The source of a read latency probe.
pub(super) struct Reads<'a> {
    pub(super) parts: &'a Parts,
    pub(super) remote: RemoteBuffer,
    pub(super) signals: Signals,
    pub(super) spec: LatencySpec,
    pub(super) stop: Stop<'a>,
}

impl Reads<'_> {
    pub(super) fn run(&self) -> Result<Found, Trouble> {
        let _pinned = Pinned::new(Role::Source);
        let preempted = preemptions();
        let scale = TickScale::new();
        let mut stamps = Vec::with_capacity(self.rounds() as usize + 1);
        let ended = self.read_all(&mut stamps);
        let scale = scale.nanoseconds_per_tick();
        let lost = preemptions().zip(preempted).map_or(0, |(now, before)| now.saturating_sub(before));
        ended?;
        let clock = || Trouble::new(Cause::Internal, Step::Measure, "the processors' time counters disagree");
        let scale = scale.ok_or_else(clock)?;
        self.signals.say(self.parts, Word::Done).map_err(|e| Trouble::verb(Step::Measure, &e))?;
        let gaps = stamps.windows(2).skip(self.spec.warmup as usize);
        let mut samples: Vec<u64> =
            gaps.map(|pair| (pair[1].saturating_sub(pair[0]) as f64 * scale) as u64).collect();
        let delayed = u32::try_from(lost).unwrap_or(u32::MAX).min(self.spec.samples);
        latency_stats(&mut samples, delayed)
            .map(Found::Latency)
            .ok_or_else(|| Trouble::new(Cause::Internal, Step::Measure, "no sample was asked for"))
    }

    fn rounds(&self) -> u32 {
        self.spec.warmup + self.spec.samples
    }

    /// `stamps` gets the ticks at which each read began, and the end of the last.
    fn read_all(&self, stamps: &mut Vec<u64>) -> Result<(), Trouble> {
        let length = self.spec.message_bytes as usize;
        let mut request = SendRequest::read(&self.parts.region, 0..length, self.remote)
            .map_err(|e| Trouble::verb(Step::FirstByte, &e))?;
        for round in 0..self.rounds() {
            if round.is_multiple_of(CANCEL_EVERY) {
                self.stop.may_go_on(step(round))?;
            }
            stamps.push(ticks());
            self.parts.pairs[0].post(&mut request).map_err(|e| Trouble::verb(step(round), &e))?;
            self.await_data(round)?;
        }
        stamps.push(ticks());
        Ok(())
    }

    #[inline]
    fn await_data(&self, round: u32) -> Result<(), Trouble> {
        let done = || format!("after {round} of {} reads", self.rounds());
        let mut room = [Completion::default()];
        let mut waiting = Waiting::default();
        loop {
            for _ in 0..POLLS {
                match self.parts.queue.poll(&mut room).map_err(|e| Trouble::verb(step(round), &e))? {
                    [] => {}
                    [read, ..] if read.is_success() => return Ok(()),
                    [failed, ..] => return Err(Trouble::completion(step(round), failed, &done())),
                }
            }
            waiting.look_around(&self.stop, round > 0, &done)?;
        }
    }
}
