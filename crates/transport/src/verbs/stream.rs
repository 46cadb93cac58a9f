//! Bandwidth over RDMA: a fixed number of writes is kept outstanding; what is acknowledged counts.

use super::{Counters, Parts, Stop, Trouble};
use crate::worker::{Progress, counter_delta};
use rdmascope_model::{BandwidthSpec, Cause, Outcome, Step};
use rdmascope_probe::BandwidthMeter;
use rdmascope_sys::{Completion, RemoteBuffer, SendRequest};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// Looks at an empty queue before sleeping: less than the time that waking up takes.
const LOOKS: u32 = 20;
/// A sleep that takes longer comes back to look whether the probe was closed.
const SLEEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
/// After so long the thread looks after its other probes.
const SLICE: Duration = Duration::from_millis(20);
/// Completions taken at once.
const BATCH: usize = 16;

/// The source of a stream.
pub(super) struct Stream {
    spec: BandwidthSpec,
    /// Messages that fit below the byte cap.
    messages: u64,
    posted: u64,
    completed: u64,
    began: Instant,
    window: Option<(Instant, BandwidthMeter)>,
    /// When something last completed.
    moved: Instant,
    /// Looks since then.
    looks: u32,
    /// The queue was asked to tell the channel.
    armed: bool,
    retransmits: Option<u64>,
}

impl Stream {
    pub(super) fn new(spec: BandwidthSpec, counters: &Counters) -> Self {
        let retransmits = counters.read();
        let now = Instant::now();
        Self {
            spec,
            messages: (spec.bytes_max / u64::from(spec.message_bytes)).max(1),
            posted: 0,
            completed: 0,
            began: now,
            window: None,
            moved: now,
            looks: 0,
            armed: false,
            retransmits,
        }
    }

    pub(super) fn run(
        &mut self,
        parts: &Parts,
        remote: RemoteBuffer,
        stop: &Stop<'_>,
        counters: &Counters,
    ) -> Result<Progress, Trouble> {
        let slice_ends = Instant::now() + SLICE;
        let mut request = SendRequest::write(&parts.region, 0..self.spec.message_bytes as usize, remote)
            .map_err(|e| Trouble::verb(Step::FirstByte, &e))?;
        let mut room: [Completion; BATCH] = std::array::from_fn(|_| Completion::default());
        loop {
            self.open_window();
            self.post(parts, &mut request)?;
            let done = parts.queue.poll(&mut room).map_err(|e| Trouble::verb(self.step(), &e))?;
            let seen = if done.is_empty() {
                let Some(awake) = self.wait(parts)? else { continue };
                stop.may_wait(self.moved, self.completed > 0, || self.done())?;
                awake
            } else {
                self.take(done)?;
                // Only a completion can end the window: one without would hide that the path is dead.
                if self.over() {
                    return self.finish(counters);
                }
                self.moved
            };
            if seen >= slice_ends {
                stop.may_wait(self.moved, self.completed > 0, || self.done())?;
                return Ok(Progress::Measuring);
            }
        }
    }

    /// Opens the measured window when the warm-up is over: by time, or because half of what may be sent went
    /// into it.
    fn open_window(&mut self) {
        let half = self.completed >= self.messages / 2;
        if self.window.is_none() && (half || self.moved.duration_since(self.began) >= self.spec.warmup) {
            let expected = usize::try_from(self.messages - self.completed).unwrap_or(0);
            self.window = Some((self.moved, BandwidthMeter::new(0, self.spec.message_bytes, expected)));
        }
    }

    /// Keeps as many writes outstanding as are asked for; the warm-up takes no more than its half.
    fn post(&mut self, parts: &Parts, request: &mut SendRequest<'_>) -> Result<(), Trouble> {
        let most = if self.window.is_some() { self.messages } else { self.messages / 2 };
        while self.posted - self.completed < u64::from(self.spec.depth) && self.posted < most {
            parts.pair.post(request).map_err(|e| Trouble::verb(self.step(), &e))?;
            self.posted += 1;
        }
        Ok(())
    }

    /// Counts what completed.
    fn take(&mut self, done: &[Completion]) -> Result<(), Trouble> {
        if let Some(failed) = done.iter().find(|completion| !completion.is_success()) {
            return Err(Trouble::completion(self.step(), failed, &self.done()));
        }
        let now = Instant::now();
        if let Some((began, meter)) = &mut self.window {
            let at = u64::try_from(now.duration_since(*began).as_nanos()).unwrap_or(u64::MAX);
            done.iter().for_each(|_| meter.completed(at));
        }
        self.completed += done.len() as u64;
        self.moved = now;
        self.looks = 0;
        Ok(())
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
        let mut sleepers = [PollFd::from_borrowed_fd(parts.channel.fd(), PollFlags::IN)];
        match poll(&mut sleepers, Some(&SLEEP)) {
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

    fn over(&self) -> bool {
        let Some((window_began, meter)) = &self.window else { return false };
        let elapsed = self.moved.duration_since(*window_began);
        let enough = meter.count() >= self.spec.completions_min as usize;
        self.completed >= self.messages
            || (elapsed >= self.spec.duration && enough)
            || elapsed >= self.spec.duration * 4
    }

    fn finish(&self, counters: &Counters) -> Result<Progress, Trouble> {
        let stats = self.window.as_ref().and_then(|(_, meter)| meter.stats());
        let delta = counter_delta(self.retransmits, counters.read());
        match stats {
            Some(stats) => Ok(Progress::Finished(Outcome::Bandwidth(stats, delta))),
            None => {
                Err(Trouble::new(Cause::Internal, Step::Measure, format!("no time passed, {}", self.done())))
            }
        }
    }

    fn step(&self) -> Step {
        if self.completed == 0 { Step::FirstByte } else { Step::Measure }
    }

    fn done(&self) -> String {
        format!("after {} acknowledged messages of {} sent", self.completed, self.posted)
    }
}
