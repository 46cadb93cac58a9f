//! The sending side of a stream: what is outstanding on each queue pair, its warm-up, and its measured window.

use super::parts::RECEIVE_PARTS;
use super::signals::Signals;
use super::{Parts, Trouble};
use rdmascope_model::{BandwidthSpec, BandwidthStats, Step};
use rdmascope_probe::BandwidthMeter;
use rdmascope_sys::SendRequest;
use std::time::{Duration, Instant};

/// Most time's worth of messages that is under way. More gains nothing, and comes near the acknowledgement timeout (67 ms), after which
/// a slow path gets everything once more: at 100 Mbit/s, eight messages of 64 KiB take 42 ms.
const UNDER_WAY_MAX: Duration = Duration::from_millis(30);
/// Fewer would let a path idle between two messages.
const DEPTH_MIN: u64 = 2;

/// Keeps messages outstanding.
pub(super) struct Sender {
    spec: BandwidthSpec,
    /// Messages that fit below the byte cap.
    messages: u64,
    pub(super) posted: u64,
    pub(super) completed: u64,
    pub(super) began: Instant,
    window: Option<(Instant, BandwidthMeter)>,
    lanes: Vec<Lane>,
    /// Receives in one part, where the peer must have one for each message.
    credit: Option<u64>,
    stopped: bool,
}

/// One queue pair.
struct Lane {
    posted: u64,
    completed: u64,
    /// Messages that the peer has had a receive for so far.
    allowed: u64,
    /// The last number of parts that the peer told, modulo 256.
    credits: u8,
}

impl Sender {
    /// `receives` wait on each of the peer's queue pairs; `None` where none are needed.
    pub(super) fn new(spec: BandwidthSpec, pairs: usize, receives: Option<u64>) -> Self {
        let lane = || Lane { posted: 0, completed: 0, allowed: receives.unwrap_or(u64::MAX), credits: 0 };
        Self {
            spec,
            messages: (spec.bytes_max / u64::from(spec.message_bytes)).max(1),
            posted: 0,
            completed: 0,
            began: Instant::now(),
            window: None,
            lanes: (0..pairs).map(|_| lane()).collect(),
            credit: receives.map(|receives| receives / u64::from(RECEIVE_PARTS)),
            stopped: false,
        }
    }

    /// Keeps as many messages outstanding as are asked for; the warm-up takes no more than its half. `now`: when something last
    /// completed.
    pub(super) fn post(
        &mut self,
        parts: &Parts,
        signals: &Signals,
        request: &mut SendRequest<'_>,
        now: Instant,
    ) -> Result<(), Trouble> {
        if self.stopped {
            return Ok(());
        }
        self.open_window(now);
        if let Some(credit) = self.credit {
            for (at, lane) in self.lanes.iter_mut().enumerate() {
                let told = signals.credits(parts, at);
                lane.allowed += u64::from(told.wrapping_sub(lane.credits)) * credit;
                lane.credits = told;
            }
        }
        let most = if self.window.is_some() { self.messages } else { self.messages / 2 };
        let depth = self.depth(now);
        let step = if self.completed == 0 { Step::FirstByte } else { Step::Measure };
        // One on each queue pair in turn, so that they share what is left before the cap.
        let mut moved = true;
        while moved {
            moved = false;
            for (at, lane) in self.lanes.iter_mut().enumerate() {
                if lane.posted - lane.completed < depth && lane.posted < lane.allowed && self.posted < most {
                    request.set_id(at as u64);
                    parts.pairs[at].post(request).map_err(|e| Trouble::verb(step, &e))?;
                    lane.posted += 1;
                    self.posted += 1;
                    moved = true;
                }
            }
        }
        Ok(())
    }

    /// Messages that may be outstanding on each queue pair: fewer than asked for where each takes long.
    fn depth(&self, now: Instant) -> u64 {
        let asked = u64::from(self.spec.depth);
        let each = now.duration_since(self.began).as_nanos() / u128::from(self.completed.max(1));
        if self.completed == 0 || each == 0 {
            return asked;
        }
        let together = u64::try_from(UNDER_WAY_MAX.as_nanos() / each).unwrap_or(u64::MAX);
        let lanes = self.lanes.len().max(1) as u64;
        asked.min((together / lanes).max(DEPTH_MIN))
    }

    /// A message on one queue pair was acknowledged.
    pub(super) fn completed(&mut self, lane: usize, now: Instant) {
        self.completed += 1;
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.completed += 1;
        }
        // What completes after the end would make the window longer.
        if let Some((began, meter)) = self.window.as_mut().filter(|_| !self.stopped) {
            meter.completed(u64::try_from(now.duration_since(*began).as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// It could send, had the peer receives for it: nothing is outstanding that would wake it.
    pub(super) fn waits_for_credits(&self) -> bool {
        self.lanes.iter().any(|lane| lane.posted == lane.allowed && !self.stopped)
    }

    /// Opens the measured window when the warm-up is over: by time, or because half of what may be sent went
    /// into it.
    fn open_window(&mut self, now: Instant) {
        let half = self.completed >= self.messages / 2;
        if self.window.is_none() && (half || now.duration_since(self.began) >= self.spec.warmup) {
            let expected = usize::try_from(self.messages - self.completed).unwrap_or(0);
            self.window = Some((now, BandwidthMeter::new(0, self.spec.message_bytes, expected)));
        }
    }

    pub(super) fn over(&self, now: Instant) -> bool {
        let Some((window_began, meter)) = &self.window else { return false };
        let elapsed = now.duration_since(*window_began);
        let enough = meter.count() >= self.spec.completions_min as usize;
        self.completed >= self.messages
            || (elapsed >= self.spec.duration && enough)
            || elapsed >= self.spec.duration * 4
    }

    /// Sends no more.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    pub(super) fn stats(&self) -> Option<BandwidthStats> {
        self.window.as_ref().and_then(|(_, meter)| meter.stats())
    }
}
