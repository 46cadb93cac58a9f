//! Counters that the driver refused are left alone for a while: every refused read of a restricted function writes a line into the
//! kernel log (`ACCESS_REG(0x805) ... failed`; leptonai/gpud 1164, prometheus/node_exporter 3434).

use crate::tree::is_refused;
use rdmascope_model::Reading;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a refused file is not read again.
const REST: Duration = Duration::from_secs(600);

/// Files that were refused lately: when, and with which words.
#[derive(Debug, Default)]
pub(crate) struct Resting(Mutex<BTreeMap<String, (Instant, String)>>);

impl Resting {
    /// Reads a file, unless it was refused within the last ten minutes: then the answer is the same as last time.
    pub(crate) fn read<T>(&self, path: &str, now: Instant, read: impl FnOnce() -> Reading<T>) -> Reading<T> {
        if let Some(why) = self.refused(path, now) {
            return Reading::Failed(why);
        }
        // Not under the lock: the driver may take its time.
        let reading = read();
        if let Reading::Failed(why) = &reading
            && is_refused(why)
        {
            self.rest(path, now, why);
        }
        reading
    }

    /// Takes a file for refused without reading it.
    pub(crate) fn rest(&self, path: &str, now: Instant, why: &str) {
        let mut resting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        resting.insert(path.to_owned(), (now, why.to_owned()));
    }

    fn refused(&self, path: &str, now: Instant) -> Option<String> {
        let mut resting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, why) = resting.get(path)?;
        if now.saturating_duration_since(*since) < REST {
            return Some(why.clone());
        }
        resting.remove(path);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_refused_file_is_asked_again_after_ten_minutes_and_another_error_at_once() {
        let (resting, start, reads) = (Resting::default(), Instant::now(), Cell::new(0));
        let refusal =
            "reading x: the driver answers EINVAL (not supported on this port, or not in its present state)";
        let read = |why: &'static str, seconds: u64| {
            resting.read("x", start + Duration::from_secs(seconds), || {
                reads.set(reads.get() + 1);
                Reading::<u64>::failed(why)
            })
        };
        assert_eq!(read(refusal, 0), Reading::failed(refusal));
        assert_eq!((read(refusal, 599), reads.get()), (Reading::failed(refusal), 1));
        read("reading x: timed out", 600);
        assert_eq!(reads.get(), 2);
        read("reading x: timed out", 601);
        assert_eq!(reads.get(), 3);
    }
}
