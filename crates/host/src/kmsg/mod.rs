//! The kernel log: everything that is there now for `check`, and what comes for the agent.

mod device;
mod file;
mod follow;
mod lines;

pub use follow::{LogBatch, LogEvent, LogFollower};
pub(crate) use lines::Lines;

use crate::{Clock, Host};
use device::{Batch, Device};
use file::LogFile;
use rdmascope_checks::log::{Rules, Stamp, Tally, Times, parse};
use rdmascope_model::{KernelLog, Reading, Snapshot, Wall};
use std::path::{Path, PathBuf};

const KMSG: &str = "/dev/kmsg";

/// Plain files in which distributions keep the kernel log, for machines or containers without `/dev/kmsg`.
const PLAIN: &[&str] = &["/var/log/kern.log", "/var/log/messages"];

/// Where a capture keeps them.
const CAPTURED: &str = "rdmascope/kernel-log";
const CAPTURED_PROGRAMS: &str = "rdmascope/application-log";

/// Most records of one reading: the largest buffer (`log_buf_len=`) in use is some megabytes, less than 100 bytes a record.
const RECORDS_MAX: usize = 400_000;

/// Bytes of a plain file per step.
const STEP_BYTES: usize = 64 * 1024;

/// How much later than the reading a line may be; beyond that it comes from another boot or machine.
const AHEAD_MAX_MS: u64 = 60_000;

/// Most that is read of a log in a capture, bytes.
const CAPTURED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The lines of this machine's kernel log that a rule knows, as a capture keeps them; all others are nobody's business. A capture that
/// is read itself keeps its own files. `None` where the log cannot be read.
pub(crate) fn captured_lines(host: &Host) -> Option<(String, String)> {
    if !host.is_real() {
        for name in [CAPTURED, CAPTURED_PROGRAMS] {
            // Its record is all that matters.
            drop(host.tree().beginning(name, CAPTURED_BYTES_MAX));
        }
        return None;
    }
    let mut device = Device::open(Path::new(KMSG)).ok()?;
    let (mut tally, times) = (Tally::new(&Rules::builtin(), None), times_now());
    let mut text = String::new();
    let mut each = |line: &str| {
        if tally.line(line, &times).is_some() {
            text.push_str(&as_dmesg(line));
        }
    };
    device.read(RECORDS_MAX, &mut each).ok()?;
    Some((CAPTURED.to_owned(), text))
}

/// A record of `/dev/kmsg` as `dmesg` prints it: without its sequence number, whose gaps would read as records that were lost.
fn as_dmesg(record: &str) -> String {
    let line = record.lines().next().unwrap_or_default();
    let parts = line.split_once(';').and_then(|(head, message)| {
        let micros: u64 = head.split(',').nth(2)?.parse().ok()?;
        Some(format!("[{:5}.{:06}] {message}\n", micros / 1_000_000, micros % 1_000_000))
    });
    parts.unwrap_or_else(|| format!("{line}\n"))
}

/// Knows where the kernel log is.
#[derive(Clone, Debug)]
pub struct KernelLogReader {
    file: Option<PathBuf>,
    device: PathBuf,
    plain: Vec<PathBuf>,
}

impl KernelLogReader {
    /// The kernel log of the machine; with `file` that file instead (any form of kernel log as text).
    #[must_use]
    pub fn new(file: Option<PathBuf>) -> Self {
        Self { file, device: KMSG.into(), plain: PLAIN.iter().map(PathBuf::from).collect() }
    }

    /// Everything that is there now. It never waits for more; a few tens of milliseconds for a full buffer of the kernel.
    /// `snapshot` gives the time of the reading and that of the boot. On this machine `/dev/kmsg` is read, else a plain file; of a
    /// capture its `rdmascope/kernel-log` and `rdmascope/application-log`.
    #[must_use]
    pub fn read_now(&self, host: &Host, rules: &Rules, snapshot: &Snapshot) -> Reading<KernelLog> {
        // In a capture no line is our own echo: process ids of the machine that judges mean nothing there.
        let own = host.is_real().then(std::process::id);
        let mut tally = Tally::new(rules, own);
        let times = Times { read_at: snapshot.taken_at, booted_at: snapshot.system.booted_at.clone() };
        if let Some(path) = &self.file {
            let read = LogFile::open(path).and_then(whole).map(|text| take(&mut tally, &text, &times, false));
            return read.map_or_else(Reading::Failed, |()| Reading::Value(tally.log()));
        }
        if host.is_real() { self.of_this_machine(tally) } else { captured(host, tally, &times) }
    }

    fn of_this_machine(&self, mut tally: Tally) -> Reading<KernelLog> {
        let denied = match Device::open(&self.device) {
            Ok(mut device) => {
                let times = times_now();
                let mut each = |line: &str| {
                    tally.line(line, &times);
                };
                let read = device.read(RECORDS_MAX, &mut each);
                tally.lost(device.take_lost());
                return match read {
                    Ok(Batch::Drained | Batch::Full) => Reading::Value(tally.log()),
                    Err(e) => Reading::Failed(format!("reading {}: {e}", self.device.display())),
                };
            }
            Err(e) => e,
        };
        match self.plain_file(&denied).and_then(whole) {
            Ok(text) => {
                take(&mut tally, &text, &times_now(), false);
                Reading::Value(tally.log())
            }
            Err(why) => Reading::Failed(why),
        }
    }

    /// The first plain file that can be opened; the error says why there is none and what is needed.
    fn plain_file(&self, denied: &std::io::Error) -> Result<LogFile, String> {
        let mut whys = vec![format!("opening {}: {denied}", self.device.display())];
        for path in &self.plain {
            match LogFile::open(path) {
                Ok(file) => return Ok(file),
                Err(why) => whys.push(why),
            }
        }
        Err(format!(
            "{}; it needs /dev/kmsg (CAP_SYSLOG where kernel.dmesg_restrict is 1) or a plain log file that is named",
            whys.join("; ")
        ))
    }
}

/// What a capture has.
fn captured(host: &Host, mut tally: Tally, times: &Times) -> Reading<KernelLog> {
    let mut read = |name: &str, programs: bool| {
        let text = match host.tree().beginning(name, CAPTURED_BYTES_MAX) {
            Reading::Value(text) => Ok(text.lines().map(str::to_owned).collect::<Vec<_>>()),
            Reading::Absent => Err(format!("{name} is not part of this capture")),
            Reading::Failed(why) => Err(why),
        };
        text.map(|text| take(&mut tally, &text, times, programs))
    };
    let kernel = read(CAPTURED, false);
    let programs = read(CAPTURED_PROGRAMS, true);
    match (kernel, programs) {
        (Ok(()), _) => Reading::Value(tally.log()),
        (Err(why), Ok(())) => Reading::Value(KernelLog { unread: vec![why], ..tally.log() }),
        (Err(why), Err(_)) => Reading::Failed(why),
    }
}

/// The text of a file that is not followed.
fn whole(mut file: LogFile) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    while file.read(STEP_BYTES, &mut |line, _| lines.push(line.to_owned()))? {}
    file.end(&mut |line| lines.push(line.to_owned()));
    Ok(lines)
}

/// Counts the lines. Where the boot is not known, or lines would lie in the future (another boot, another machine), the last line is
/// taken to be as old as the reading: order and distances stay right.
pub(crate) fn take(tally: &mut Tally, lines: &[String], times: &Times, programs: bool) {
    let last = lines.iter().filter_map(|line| match parse(line).stamp {
        Stamp::SinceBoot(micros) => Some(micros / 1_000),
        Stamp::None | Stamp::At(_) | Stamp::ThisYear { .. } => None,
    });
    let mut times = times.clone();
    if let Some(last) = last.max() {
        let fits = times.booted_at.value().is_some_and(|booted| {
            booted.0.saturating_add(last) <= times.read_at.0.saturating_add(AHEAD_MAX_MS)
        });
        if !fits {
            times.booted_at = Reading::Value(Wall(times.read_at.0.saturating_sub(last)));
        }
    }
    let mut number: Option<u64> = None;
    for line in lines {
        // After a kmsg record, a line that begins with a space belongs to its dictionary.
        if number.is_some() && line.starts_with(' ') {
            continue;
        }
        let sequence = kmsg_sequence(line);
        if let (Some(now), Some(before)) = (sequence, number) {
            tally.lost(now.saturating_sub(before.saturating_add(1)));
        }
        number = sequence.or(number);
        if programs {
            tally.program_line(line, &times);
        } else {
            tally.line(line, &times);
        }
    }
}

/// The sequence number of a kmsg record, also in a file.
fn kmsg_sequence(line: &str) -> Option<u64> {
    device::sequence(line).filter(|_| line.starts_with(|c: char| c.is_ascii_digit()))
}

/// The files of an operator's folder of rules (`*.yaml`) as (name, text), for [`Rules::with_folder`].
///
/// # Errors
/// Every file, or the folder, that could not be read.
pub fn rule_files(folder: &Path) -> Result<Vec<(String, String)>, Vec<String>> {
    let said = |path: &Path, e: std::io::Error| format!("reading {}: {e}", path.display());
    let entries = std::fs::read_dir(folder).map_err(|e| vec![said(folder, e)])?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "yaml"));
    paths.sort();
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match std::fs::read_to_string(&path) {
            Ok(text) => files.push((name, text)),
            Err(e) => problems.push(said(&path, e)),
        }
    }
    if problems.is_empty() { Ok(files) } else { Err(problems) }
}

/// Both clocks now: kernel records carry the time since boot (`local_clock`), which the monotonic clock is nearest to.
fn times_now() -> Times {
    let wall = Clock::new().now().wall;
    Times {
        read_at: wall,
        booted_at: Reading::Value(Wall(wall.0.saturating_sub(micros_since_boot() / 1_000))),
    }
}

fn micros_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000
}

#[cfg(test)]
mod tests;
