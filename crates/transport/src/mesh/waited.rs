//! How long the calling thread waited for a processor: what is late because of that is the host's doing, not the network's.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The scheduler's own figures of one thread (`Documentation/scheduler/sched-stats.rst` of Linux: time on a processor, time
/// waiting for one, both in nanoseconds, and the number of time slices).
pub(super) struct Waited {
    file: Option<File>,
    last: Cell<Wait>,
}

/// Between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Nanoseconds ready to run and not running.
    pub(super) ns: u64,
    /// How often it got a processor.
    pub(super) runs: u64,
}

impl Waited {
    /// For the calling thread.
    pub(super) fn new() -> Self {
        let waited =
            Self { file: File::open("/proc/thread-self/schedstat").ok(), last: Cell::new(Wait::default()) };
        waited.since_last();
        waited
    }

    /// What came about since the reading before this one; `None` where the kernel does not tell.
    pub(super) fn since_last(&self) -> Option<Wait> {
        let mut room = [0; 96];
        let length = self.file.as_ref()?.read_at(&mut room, 0).ok()?;
        let now = parse(room.get(..length)?)?;
        let last = self.last.replace(now);
        Some(Wait { ns: now.ns.saturating_sub(last.ns), runs: now.runs.saturating_sub(last.runs) })
    }
}

pub(crate) fn parse(line: &[u8]) -> Option<Wait> {
    let mut numbers = std::str::from_utf8(line).ok()?.split_ascii_whitespace().skip(1);
    Some(Wait { ns: numbers.next()?.parse().ok()?, runs: numbers.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_the_time_spent_waiting_and_the_third_how_often_it_ran() {
        assert_eq!(parse(b"3051684 72146 13\n"), Some(Wait { ns: 72_146, runs: 13 }));
        assert_eq!(parse(b"3051684 72146"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn a_thread_that_slept_got_a_processor_since() {
        let waited = Waited::new();
        std::thread::sleep(std::time::Duration::from_millis(1));
        let Some(wait) = waited.since_last() else { return assert!(waited.file.is_none()) };
        assert!(wait.runs >= 1, "{wait:?}");
    }
}
