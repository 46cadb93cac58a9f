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

    /// A stamp of the device; 0 where it gave none for this datagram.
    #[must_use]
    pub fn hardware(ns: u64) -> Self {
        Self { ns, clock: StampClock::Hardware, vague: false }
    }

    /// Time from an earlier stamp to this; `None` where either is missing, they differ in clock, or time ran backwards.
    #[must_use]
    pub fn since(self, earlier: Self) -> Option<u64> {
        let usable = self.ns != 0 && earlier.ns != 0 && self.clock == earlier.clock;
        usable.then(|| self.ns.checked_sub(earlier.ns)).flatten()
    }
}

/// When one datagram came in, by each clock that there is: which of them counts is the prober's to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// The program's.
    pub software: Stamp,
    /// The device's; `None` where it has none that can be believed.
    pub hardware: Option<Stamp>,
}

impl Stamps {
    /// By that clock; a stamp of 0 where it did not tell.
    pub(super) fn by(self, clock: StampClock) -> Stamp {
        match clock {
            StampClock::Software => self.software,
            StampClock::Hardware => self.hardware.unwrap_or(Stamp::hardware(0)),
        }
    }

    /// By the clock that was asked for, or the program's where the device does not tell.
    pub(super) fn by_or_software(self, clock: StampClock) -> Stamp {
        self.hardware.filter(|_| clock == StampClock::Hardware).unwrap_or(self.software)
    }
}

impl From<Stamp> for Stamps {
    fn from(stamp: Stamp) -> Self {
        match stamp.clock {
            StampClock::Software => Self { software: stamp, hardware: None },
            StampClock::Hardware => Self { software: Stamp::software(Mono(0)), hardware: Some(stamp) },
        }
    }
}
