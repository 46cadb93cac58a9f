//! Bandwidth over TCP: messages one after the other, each acknowledged by the process that read it.

use super::{NOT_READ, Patience};
use crate::sockets::Trouble;
use crate::worker::Progress;
use rdmascope_model::{BandwidthSpec, BandwidthStats, Cause, Outcome, Step};
use rdmascope_probe::BandwidthMeter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// One system call moves at most so much: larger ones gain nothing, and come back too late to look at the clock.
const PIECE: usize = 256 << 10;
/// A wait that takes longer comes back to look whether the probe was closed.
const WAIT: Duration = Duration::from_millis(5);
/// After so long the thread looks after its other probes.
const SLICE: Duration = Duration::from_millis(20);

/// The source: sends, and counts what the target acknowledges.
pub(super) struct Sender {
    stream: TcpStream,
    spec: BandwidthSpec,
    piece: Vec<u8>,
    /// Messages that fit below the byte cap; at most half of them go into the warm-up.
    messages: u64,
    sent_bytes: u64,
    acknowledged: u64,
    began: Option<Instant>,
    window: Option<Window>,
    patience: Patience,
}

impl Sender {
    pub(super) fn new(stream: TcpStream, spec: BandwidthSpec, patience: Patience) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            spec,
            piece: vec![0; PIECE.min(spec.message_bytes as usize)],
            messages: (spec.bytes_max / u64::from(spec.message_bytes)).max(1),
            sent_bytes: 0,
            acknowledged: 0,
            began: None,
            window: None,
            patience,
        })
    }

    pub(super) fn run(&mut self) -> Result<Progress, Trouble> {
        let slice_ends = Instant::now() + SLICE;
        loop {
            let now = Instant::now();
            let began = *self.began.get_or_insert(now);
            if self.window.is_none() && self.warm(now.duration_since(began)) {
                self.window = Some(self.open_window(now));
            }
            if self.over(now) {
                return self.finish();
            }
            let moved = self.hear()? | self.send()?;
            if moved {
                self.patience.moved();
            } else {
                self.patience.check(&self.done())?;
            }
            if now >= slice_ends {
                return Ok(if self.patience.begun { Progress::Measuring } else { Progress::Waiting });
            }
            if !moved {
                self.wait()?;
            }
        }
    }

    /// The warm-up is over: by time, or because half of what may be sent went into it.
    fn warm(&self, elapsed: Duration) -> bool {
        elapsed >= self.spec.warmup || self.acknowledged >= self.messages / 2
    }

    fn open_window(&self, now: Instant) -> Window {
        let under_way = self.sent_bytes / u64::from(self.spec.message_bytes) - self.acknowledged;
        let ends_at = self.messages - under_way;
        let expected = usize::try_from(ends_at - self.acknowledged).unwrap_or(0);
        Window { began: now, meter: BandwidthMeter::new(0, self.spec.message_bytes, expected), ends_at }
    }

    fn over(&self, now: Instant) -> bool {
        let Some(window) = &self.window else { return false };
        let elapsed = now.duration_since(window.began);
        let enough = window.meter.count() >= self.spec.completions_min as usize;
        self.acknowledged >= window.ends_at
            || (elapsed >= self.spec.duration && enough)
            || elapsed >= self.spec.duration * 4
    }

    /// What was measured until now.
    pub(super) fn stats(&self) -> Option<BandwidthStats> {
        self.window.as_ref().and_then(|window| window.meter.stats())
    }

    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    fn finish(&self) -> Result<Progress, Trouble> {
        let stats = self.stats();
        // The target reads the end of the stream and knows that all is over. Where that fails, the connection is gone.
        drop(self.stream.shutdown(Shutdown::Write));
        match stats {
            Some(stats) => Ok(Progress::Finished(Outcome::Bandwidth(stats, NOT_READ))),
            None if self.acknowledged == 0 => {
                Err(Trouble::new(Cause::NoFirstByte, Step::FirstByte, self.done()))
            }
            None => Err(Trouble::new(Cause::Stalled, Step::Measure, self.done())),
        }
    }

    /// Takes in acknowledgements.
    fn hear(&mut self) -> Result<bool, Trouble> {
        let mut acknowledgements = [0; 4096];
        match (&self.stream).read(&mut acknowledgements) {
            Ok(0) => Err(self.patience.broken(&ErrorKind::UnexpectedEof.into(), &self.done())),
            Ok(n) => {
                self.patience.begun = true;
                self.acknowledged += n as u64;
                if self.acknowledged > self.sent_bytes / u64::from(self.spec.message_bytes) {
                    let evidence = format!("more was acknowledged than sent, {}", self.done());
                    return Err(Trouble::new(Cause::BadPeerData, Step::Measure, evidence));
                }
                if let Some(window) = &mut self.window {
                    let at = u64::try_from(window.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                    (0..n).for_each(|_| window.meter.completed(at));
                }
                Ok(true)
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
            Err(e) => Err(self.patience.broken(&e, &self.done())),
        }
    }

    /// Bytes that may be sent now.
    fn unsent(&self) -> u64 {
        let messages = if self.window.is_some() { self.messages } else { self.messages / 2 };
        messages * u64::from(self.spec.message_bytes) - self.sent_bytes
    }

    fn send(&mut self) -> Result<bool, Trouble> {
        if self.unsent() == 0 {
            return Ok(false);
        }
        let message = u64::from(self.spec.message_bytes);
        let rest =
            usize::try_from(message - self.sent_bytes % message).unwrap_or(PIECE).min(self.piece.len());
        match (&self.stream).write(&self.piece[..rest]) {
            Ok(n) => {
                self.sent_bytes += n as u64;
                Ok(n > 0)
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
            Err(e) => Err(self.patience.broken(&e, &self.done())),
        }
    }

    fn wait(&self) -> Result<(), Trouble> {
        let flags = if self.unsent() > 0 { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        wait_for(&self.stream, flags).map_err(|e| self.patience.broken(&e, &self.done()))
    }

    fn done(&self) -> String {
        format!("after {} acknowledged messages", self.acknowledged)
    }
}

/// The measured part.
struct Window {
    began: Instant,
    meter: BandwidthMeter,
    /// It ends with as many messages under way as at its beginning: those that were sent before count, those that are
    /// acknowledged after do not.
    ends_at: u64,
}

/// The target: reads, and acknowledges each message that is complete.
pub(super) struct Receiver {
    stream: TcpStream,
    message_bytes: u64,
    buffer: Vec<u8>,
    received: u64,
    acknowledged: u64,
    ended: bool,
    /// The source ended the stream, rather than left.
    served: bool,
}

impl Receiver {
    pub(super) fn new(stream: TcpStream, message_bytes: u32) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let buffer = vec![0; PIECE];
        let message_bytes = u64::from(message_bytes);
        Ok(Self { stream, message_bytes, buffer, received: 0, acknowledged: 0, ended: false, served: false })
    }

    pub(super) fn received_bytes(&self) -> u64 {
        self.received
    }

    /// Says no more than that it was there until the end: the source tells how it went. A source that left is no failure of the
    /// target.
    pub(super) fn run(&mut self) -> Result<Progress, Trouble> {
        let slice_ends = Instant::now() + SLICE;
        let before = self.received;
        while !self.ended && Instant::now() < slice_ends {
            match (&self.stream).read(&mut self.buffer) {
                Ok(0) => (self.ended, self.served) = (true, true),
                Ok(n) => self.received += n as u64,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    wait_for(&self.stream, PollFlags::IN)
                        .map_err(|e| Trouble::io(Step::Measure, "waiting for messages", &e))?;
                }
                Err(e) if e.kind() == ErrorKind::ConnectionReset => self.ended = true,
                Err(e) => {
                    return Err(Trouble::new(
                        Cause::Stalled,
                        Step::Measure,
                        format!("reading messages: {e}"),
                    ));
                }
            }
            self.acknowledge()?;
        }
        if self.served {
            return Ok(Progress::Finished(Outcome::Served));
        }
        Ok(if self.received > before && !self.ended { Progress::Measuring } else { Progress::Waiting })
    }

    fn acknowledge(&mut self) -> Result<(), Trouble> {
        let complete = self.received / self.message_bytes;
        while self.acknowledged < complete && !self.ended {
            let due = usize::try_from(complete - self.acknowledged).unwrap_or(PIECE).min(PIECE);
            match (&self.stream).write(&self.buffer[..due]) {
                Ok(n) => self.acknowledged += n as u64,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // The source is behind with reading them: they are sent with the next.
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                    self.ended = true
                }
                Err(e) => return Err(Trouble::io(Step::Measure, "acknowledging", &e)),
            }
        }
        Ok(())
    }
}

/// Waits a few milliseconds for a socket.
fn wait_for(stream: &TcpStream, flags: PollFlags) -> io::Result<()> {
    let time = Timespec { tv_sec: 0, tv_nsec: i64::try_from(WAIT.as_nanos()).unwrap_or(0) };
    match poll(&mut [PollFd::new(stream, flags)], Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}
