//! When a datagram left or came, by the program's clock or the device's, and how far that can be believed.

use rdmascope_model::{Mono, StampClock};

/// A time on one of the two kinds of clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds; 0 where the device gave none.
    pub ns: u64,
    /// Whose.
    pub clock: StampClock,
    /// The program was kept from running when it happened: its own stamp says when it noticed, or at the earliest could have.
    /// What the host and what the network took cannot be told apart by it.
    pub vague: bool,
}

impl Stamp {
    /// A stamp of the program.
    #[must_use]
    pub fn software(at: Mono) -> Self {
        Self { ns: at.0, clock: StampClock::Software, vague: false }
    }

    /// A stamp of a program that was kept from running.
    #[must_use]
    pub fn vague(at: Mono) -> Self {
        Self { vague: true, ..Self::software(at) }
    }

    /// Time from an earlier stamp to this; `None` where either is missing, they differ in clock, or time ran backwards.
    #[must_use]
    pub fn since(self, earlier: Self) -> Option<u64> {
        let usable = self.ns != 0 && earlier.ns != 0 && self.clock == earlier.clock;
        usable.then(|| self.ns.checked_sub(earlier.ns)).flatten()
    }
}
