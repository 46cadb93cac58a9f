//! Latency over TCP: one message there, one back, half of the time between.

use super::{NOT_READ, Patience};
use crate::sockets::Trouble;
use crate::worker::{Progress, preemptions};
use rdmascope_model::{LatencySpec, Outcome, Role};
use rdmascope_probe::latency_stats;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A read that waits longer comes back to look whether the probe was closed.
const READ_WAIT: Duration = Duration::from_millis(5);
/// After so long the thread looks after its other probes.
const SLICE: Duration = Duration::from_millis(20);

/// One side of a ping-pong. The source makes one round more than is asked for, since the target sees only the gaps
/// between them: from its answer to the next ping. Each side's first rounds are warm-up.
pub(super) struct PingPong {
    stream: TcpStream,
    role: Role,
    rounds: u32,
    samples_wanted: usize,
    message: Vec<u8>,
    /// Bytes of the message under way that are through.
    through: usize,
    receiving: bool,
    /// When the last own message was sent.
    sent_at: Option<Instant>,
    round: u32,
    halves: Vec<u64>,
    patience: Patience,
    preempted: Option<u64>,
}

impl PingPong {
    pub(super) fn new(
        stream: TcpStream,
        spec: LatencySpec,
        role: Role,
        patience: Patience,
    ) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(READ_WAIT))?;
        stream.set_write_timeout(Some(READ_WAIT))?;
        Ok(Self {
            stream,
            role,
            rounds: spec.warmup + spec.samples + 1,
            samples_wanted: spec.samples as usize,
            message: vec![0; spec.message_bytes as usize],
            through: 0,
            receiving: role == Role::Target,
            sent_at: None,
            round: 0,
            halves: Vec::with_capacity((spec.warmup + spec.samples) as usize + 1),
            patience,
            preempted: preemptions(),
        })
    }

    pub(super) fn run(&mut self) -> Result<Progress, Trouble> {
        let until = Instant::now() + SLICE;
        while self.round < self.rounds {
            match self.transfer() {
                Ok(0) => {
                    return Err(self.patience.broken(&io::ErrorKind::UnexpectedEof.into(), &self.done()));
                }
                Ok(n) => {
                    self.through += n;
                    self.patience.moved();
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.patience.check(&self.done())?;
                    break;
                }
                Err(e) => return Err(self.patience.broken(&e, &self.done())),
            }
            if self.through == self.message.len() && self.turn() && Instant::now() >= until {
                break;
            }
        }
        if self.round < self.rounds {
            return Ok(if self.patience.begun { Progress::Measuring } else { Progress::Waiting });
        }
        let lost = preemptions().zip(self.preempted).map_or(0, |(now, before)| now.saturating_sub(before));
        let delayed = u32::try_from(lost.min(self.samples_wanted as u64)).unwrap_or(u32::MAX);
        let warmup = self.halves.len() - self.samples_wanted;
        let Some(stats) = latency_stats(&mut self.halves[warmup..], delayed) else {
            return Err(self.patience.broken(&io::ErrorKind::InvalidData.into(), &self.done()));
        };
        Ok(Progress::Finished(Outcome::Latency(stats, NOT_READ)))
    }

    fn transfer(&mut self) -> io::Result<usize> {
        if self.receiving {
            return self.stream.read(&mut self.message[self.through..]);
        }
        if self.through == 0 {
            self.sent_at = Some(Instant::now());
        }
        self.stream.write(&self.message[self.through..])
    }

    /// A message is through: the other direction is next. Tells whether that ends a round.
    fn turn(&mut self) -> bool {
        if self.receiving {
            self.patience.begun = true;
            if let Some(sent_at) = self.sent_at {
                self.halves.push(u64::try_from(sent_at.elapsed().as_nanos() / 2).unwrap_or(u64::MAX));
            }
        }
        self.through = 0;
        self.receiving = !self.receiving;
        let ends = self.receiving == (self.role == Role::Target);
        self.round += u32::from(ends);
        ends
    }

    fn done(&self) -> String {
        format!("after {} of {} round trips", self.round, self.rounds)
    }
}
