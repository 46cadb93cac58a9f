//! What a measuring loop looks at: whether it was told to stop, how much time it has, and whether it was disturbed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A failure must reach the coordinator before the lease ends: that takes some milliseconds, more on a busy node.
const EXPIRY_MARGIN: Duration = Duration::from_millis(50);

/// Tells a probe on its thread when to stop.
#[derive(Clone, Debug)]
pub struct Watch {
    cancelled: Arc<AtomicBool>,
    deadline: Instant,
}

impl Watch {
    /// For a lease that ends at `expiry`.
    pub(super) fn new(expiry: Instant) -> Self {
        Self { cancelled: Arc::default(), deadline: expiry.checked_sub(EXPIRY_MARGIN).unwrap_or(expiry) }
    }

    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// The probe was closed: come back at once, whatever is returned is not told to anybody.
    #[must_use]
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// When the probe must have told its end: a little before its lease is over.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Time left until the deadline.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// How often the calling thread lost its CPU to another one since it began (`nonvoluntary_ctxt_switches` of
/// `/proc/thread-self/status`); `None` where that cannot be read. The difference over a measured window is the largest
/// number of samples that the host can have delayed. Takes some 10 µs: read it outside the window.
pub(crate) fn preemptions() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let count = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    count.trim().parse().ok()
}
