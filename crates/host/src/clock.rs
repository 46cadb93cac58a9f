//! The real clocks, the only place where they are read for the states of agent and coordinator.

use rdmascope_model::{Mono, Now, Wall};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Gives both clocks; its zero point is its own making.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: Instant,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a default that reads the time would hide that it does")]
    pub fn new() -> Self {
        Self { began: Instant::now() }
    }

    /// The time now. A machine clock before 1970 counts as 1970.
    #[must_use]
    pub fn now(&self) -> Now {
        let mono = self.began.elapsed().as_nanos();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        Now {
            mono: Mono(u64::try_from(mono).unwrap_or(u64::MAX)),
            wall: Wall(u64::try_from(wall).unwrap_or(u64::MAX)),
        }
    }
}
