//! Follows the kernel log for the agent: in batches, with a pause between them, so that a flood costs a bounded share of a processor.

use super::device::{Batch, Device};
use super::file::LogFile;
use super::{KernelLogReader, STEP_BYTES, micros_since_boot, times_now};
use rdmascope_checks::log::{Rules, Seen, Stamp, Tally, parse};
use rdmascope_model::KernelLog;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// Most records of one batch: at a few microseconds each, some milliseconds.
const BATCH_RECORDS: usize = 500;

/// Pause between batches: 5,000 lines a second at most are read, and ten wake-ups a second cost nothing that could be seen.
const PAUSE: Duration = Duration::from_millis(100);

/// How often a plain file is looked at.
const FILE_PERIOD: Duration = Duration::from_secs(1);

/// Follows the kernel log.
#[derive(Debug)]
pub struct LogFollower {
    source: Source,
    tally: Tally,
    /// Records written before that moment are history, microseconds since boot.
    opened_at: u64,
    not_before: Instant,
}

#[derive(Debug)]
enum Source {
    Device(AsyncFd<Device>),
    File(LogFile),
}

/// What came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogBatch {
    /// Lines that a rule knows, in their order.
    pub events: Vec<LogEvent>,
    /// Records that the kernel dropped before they could be read.
    pub lost: u64,
}

/// One line that a rule knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// Rule, subject, time and line.
    pub seen: Seen,
    /// It was there before we looked: counted, but no new event.
    pub historic: bool,
}

impl KernelLogReader {
    /// Begins to follow: `/dev/kmsg`, else a plain file. Must be called inside a runtime.
    ///
    /// # Errors
    /// What was tried, why it did not work, and what is needed.
    pub fn follow(&self, rules: &Rules) -> Result<LogFollower, String> {
        let source = match &self.file {
            Some(path) => Source::File(LogFile::open(path)?),
            None => match Device::open(&self.device).and_then(watched) {
                Ok(device) => Source::Device(device),
                Err(denied) => Source::File(self.plain_file(&denied)?),
            },
        };
        Ok(LogFollower {
            source,
            tally: Tally::new(rules, Some(std::process::id())),
            opened_at: micros_since_boot(),
            not_before: Instant::now(),
        })
    }
}

#[expect(
    deprecated,
    reason = "the new form is unsafe for types that may give away their descriptor; ours owns it and keeps it"
)]
fn watched(device: Device) -> std::io::Result<AsyncFd<Device>> {
    AsyncFd::new(device)
}

impl LogFollower {
    /// Waits until lines come that a rule knows, or records are lost. It may be dropped at any time without losing a line.
    ///
    /// # Errors
    /// When the log cannot be read any more; the text says why.
    pub async fn next(&mut self) -> Result<LogBatch, String> {
        loop {
            tokio::time::sleep_until(self.not_before).await;
            let mut batch = LogBatch::default();
            let (tally, opened_at) = (&mut self.tally, self.opened_at);
            // From here to the end of the batch nothing waits: a caller that drops this future loses no line.
            let pause = match &mut self.source {
                Source::Device(device) => {
                    let said = |e: std::io::Error| format!("reading the kernel log: {e}");
                    let mut ready = device.readable_mut().await.map_err(said)?;
                    let (times, device) = (times_now(), ready.get_inner_mut());
                    let read = device.read(BATCH_RECORDS, &mut |line| {
                        let before = |micros| micros < opened_at;
                        let historic = matches!(parse(line).stamp, Stamp::SinceBoot(at) if before(at));
                        batch.events.extend(tally.line(line, &times).map(|seen| LogEvent { seen, historic }));
                    });
                    batch.lost = device.take_lost();
                    tally.lost(batch.lost);
                    if read.map_err(said)? == Batch::Drained {
                        ready.clear_ready();
                    }
                    PAUSE
                }
                Source::File(file) => {
                    let times = times_now();
                    let more = file.read(STEP_BYTES, &mut |line, historic| {
                        batch.events.extend(tally.line(line, &times).map(|seen| LogEvent { seen, historic }));
                    })?;
                    if more { PAUSE } else { FILE_PERIOD }
                }
            };
            self.not_before = Instant::now() + pause;
            if !batch.events.is_empty() || batch.lost > 0 {
                return Ok(batch);
            }
        }
    }

    /// All that was counted since the start, the history included.
    #[must_use]
    pub fn log(&self) -> KernelLog {
        self.tally.log()
    }
}
