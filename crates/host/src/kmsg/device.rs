//! Reads `/dev/kmsg` (`Documentation/ABI/testing/dev-kmsg`) without ever waiting.

use super::lines::Lines;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

/// Room for one record with its dictionary; a smaller buffer makes the kernel answer EINVAL.
const RECORD_MAX: usize = 8 * 1024;

/// The open device, at the record that comes next.
#[derive(Debug)]
pub(super) struct Device {
    fd: OwnedFd,
    buffer: Vec<u8>,
    lines: Lines,
    /// Sequence number of the last record; the first one that is seen may have any.
    last: Option<u64>,
    lost: u64,
}

/// How a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Batch {
    /// Nothing is left at present.
    Drained,
    /// As many records as were allowed; more may be there.
    Full,
}

impl Device {
    /// Opens it at the oldest record that the kernel still has.
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty())?;
        Ok(Self { fd, buffer: vec![0; RECORD_MAX], lines: Lines::default(), last: None, lost: 0 })
    }

    /// Gives at most `most` records to `each`, without their dictionaries.
    pub(super) fn read(&mut self, most: usize, each: &mut dyn FnMut(&str)) -> std::io::Result<Batch> {
        let mut seen = 0;
        // A read that gives no record (overwritten meanwhile) counts as well: the loop always ends.
        for _ in 0..most.saturating_mul(2) {
            let length = match rustix::io::read(&self.fd, &mut self.buffer) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(Batch::Drained),
                Ok(length) => length,
                // EPIPE: the record was overwritten before it was read; EINVAL: it is larger than any that is documented. The
                // kernel has gone on to the next one, and the gap in the numbers tells how many are missing.
                Err(Errno::INTR | Errno::PIPE | Errno::INVAL) => continue,
                Err(e) => return Err(e.into()),
            };
            let (last, lost) = (&mut self.last, &mut self.lost);
            self.lines.feed(&self.buffer[..length], &mut |line| {
                // A line that begins with a space belongs to the dictionary of the record before it.
                if line.starts_with(' ') || line.is_empty() {
                    return;
                }
                if let Some(number) = sequence(line) {
                    *lost += last.map_or(0, |last| number.saturating_sub(last.saturating_add(1)));
                    *last = Some(number);
                }
                seen += 1;
                each(line);
            });
            if seen >= most {
                return Ok(Batch::Full);
            }
        }
        Ok(Batch::Full)
    }

    /// Records that are missing since the last call.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Device {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// The number in `6,3973,227996636,-;text`.
pub(super) fn sequence(line: &str) -> Option<u64> {
    line.split_once(';')?.0.split(',').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::Folder;

    #[test]
    fn records_come_without_dictionary_and_gaps_are_counted() {
        let folder = Folder::new();
        let record = |n: u64| format!("6,{n},5,-;line {n}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n");
        folder.write("kmsg", &[record(100), record(101), record(105)].concat());
        let mut device = Device::open(&folder.path().join("kmsg")).unwrap();
        let mut seen = Vec::new();
        let end = device.read(1_000, &mut |line| seen.push(line.to_owned())).unwrap();
        assert_eq!(end, Batch::Drained);
        assert_eq!(seen, ["6,100,5,-;line 100", "6,101,5,-;line 101", "6,105,5,-;line 105"]);
        assert_eq!((device.take_lost(), device.take_lost()), (3, 0), "102, 103 and 104");
    }

    #[test]
    fn a_flood_is_read_in_batches() {
        let folder = Folder::new();
        let flood: String = (0..5_000).map(|n| format!("6,{n},5,-;{}\n", "x".repeat(200))).collect();
        folder.write("kmsg", &flood);
        let mut device = Device::open(&folder.path().join("kmsg")).unwrap();
        let (mut lines, mut batches) = (0, 0);
        while device.read(500, &mut |_| lines += 1).unwrap() == Batch::Full {
            batches += 1;
            assert!(lines <= batches * 540, "a batch exceeds its size by one buffer at most");
        }
        assert_eq!((lines, device.take_lost()), (5_000, 0));
    }
}
