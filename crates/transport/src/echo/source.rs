//! The source of an echo probe: sends, takes in what comes back, and asks what was heard.

use super::Line;
use super::datagram::{HEADER_BYTES, Header, Kind};
use crate::sockets::{Token, Trouble};
use crate::worker::{Progress, Watch};
use rdmascope_model::{Delays, EchoSpec, EchoStats, Outcome};
use rdmascope_probe::latency_stats;
use std::time::{Duration, Instant};

/// What has not come back by then does not count as answered; far longer than any queue.
const TIME_OUT: Duration = Duration::from_millis(500);
/// Between two questions how many were heard.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Questions, of which one should pass.
const QUESTIONS_MAX: u32 = 5;
/// So long the thread sends and receives before it looks after its other probes.
const SLICE: Duration = Duration::from_millis(20);

/// What it did so far.
pub(super) struct Asking {
    spec: EchoSpec,
    datagram: Vec<u8>,
    room: Vec<u8>,
    /// When each was sent; `None` once it came back.
    sent: Vec<Option<Instant>>,
    next_at: Option<Instant>,
    last_sent: Instant,
    round_trips: Vec<u64>,
    heard: Option<u32>,
    questions: u32,
}

impl Asking {
    pub(super) fn new(spec: EchoSpec) -> Self {
        let bytes = (spec.payload_bytes as usize).max(HEADER_BYTES);
        Self {
            spec,
            datagram: vec![0; bytes],
            // One byte more shows a datagram that is longer than what was sent.
            room: vec![0; bytes + 1],
            sent: Vec::with_capacity(spec.count as usize),
            next_at: None,
            last_sent: Instant::now(),
            round_trips: Vec::with_capacity(spec.count as usize),
            heard: None,
            questions: 0,
        }
    }

    /// Sends what is due, and ends when all came back and the target told its count, or nothing more is to be expected.
    pub(super) fn run(&mut self, line: &Line, token: &Token, watch: &Watch) -> Result<Progress, Trouble> {
        let slice_ends = Instant::now() + SLICE;
        loop {
            let heard_any = self.receive(line, token)?;
            let now = Instant::now();
            if watch.cancelled() || now >= watch.deadline() || self.is_over(now) {
                let over = Header { kind: Kind::Over, number: 0, heard: 0 };
                self.send_small(line, token, over)?;
                return Ok(Progress::Finished(Outcome::Echo(self.stats())));
            }
            let sent_any = self.send_due(line, token, now)?;
            if !heard_any && !sent_any {
                return Ok(Progress::Waiting);
            }
            if now >= slice_ends {
                return Ok(Progress::Measuring);
            }
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        let all_sent = self.sent.len() >= self.spec.count as usize;
        let all_back = self.round_trips.len() == self.sent.len();
        let waited = now.duration_since(self.last_sent) >= TIME_OUT;
        let asked_in_vain = self.questions >= QUESTIONS_MAX && self.next_at.is_none_or(|at| now >= at);
        all_sent && (all_back || waited) && (self.heard.is_some() || asked_in_vain)
    }

    fn send_due(&mut self, line: &Line, token: &Token, now: Instant) -> Result<bool, Trouble> {
        if self.next_at.is_some_and(|at| now < at) {
            return Ok(false);
        }
        let number = self.sent.len() as u32;
        if number < self.spec.count {
            self.next_at = Some(now + self.spec.interval);
            Header { kind: Kind::Echo, number, heard: 0 }.write(token, &mut self.datagram);
            let at = Instant::now();
            line.send(&self.datagram)?;
            self.sent.push(Some(at));
            self.last_sent = at;
            return Ok(true);
        }
        // Whoever asks too early hears of fewer than will come in.
        let due =
            self.round_trips.len() == self.sent.len() || now.duration_since(self.last_sent) >= TIME_OUT / 2;
        if !due || self.heard.is_some() || self.questions >= QUESTIONS_MAX {
            return Ok(false);
        }
        self.questions += 1;
        self.next_at = Some(now + ASK_EVERY);
        self.send_small(line, token, Header { kind: Kind::Count, number: self.questions, heard: 0 })?;
        Ok(true)
    }

    fn send_small(&self, line: &Line, token: &Token, header: Header) -> Result<(), Trouble> {
        let mut datagram = [0; HEADER_BYTES];
        header.write(token, &mut datagram);
        line.send(&datagram).map(drop)
    }

    fn receive(&mut self, line: &Line, token: &Token) -> Result<bool, Trouble> {
        let mut any = false;
        let wanted = self.datagram.len();
        while let Some(datagram) = line.receive(&mut self.room)? {
            any = true;
            let now = Instant::now();
            let Some(header) = Header::read(token, datagram) else { continue };
            match header.kind {
                Kind::Count => self.heard = Some(header.heard),
                Kind::Echo if datagram.len() == wanted => {
                    let sent = self.sent.get_mut(header.number as usize).and_then(Option::take);
                    if let Some(sent) = sent.filter(|sent| now.duration_since(*sent) < TIME_OUT) {
                        let nanoseconds = now.duration_since(sent).as_nanos();
                        self.round_trips.push(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
                    }
                }
                Kind::Echo | Kind::Over => {}
            }
        }
        Ok(any)
    }

    fn stats(&mut self) -> EchoStats {
        let answered = self.round_trips.len() as u32;
        let round_trip = latency_stats(&mut self.round_trips, 0).map(|stats| Delays {
            count: stats.count,
            min_ns: stats.min_ns,
            p50_ns: stats.p50_ns,
            p99_ns: stats.p99_ns,
            max_ns: stats.max_ns,
        });
        EchoStats {
            payload_bytes: self.spec.payload_bytes,
            sent: self.sent.len() as u32,
            // Each that came back was heard.
            heard: self.heard.map(|heard| heard.max(answered)),
            answered,
            round_trip,
        }
    }
}
