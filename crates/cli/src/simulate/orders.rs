//! What the one who asks wants of all simulated agents, and what they did.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What agents do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Heartbeats only.
    Rest,
    /// Tell what they remember, as after a restart of the coordinator.
    Fill,
    /// Ping at the granted rate.
    Paced,
    /// Tell of pings as fast as the coordinator takes them.
    Flood,
    /// End.
    Stop,
}

impl Mode {
    const ALL: [Self; 5] = [Self::Rest, Self::Fill, Self::Paced, Self::Flood, Self::Stop];
}

/// Shared by all.
#[derive(Debug, Default)]
pub(super) struct Orders {
    mode: AtomicU8,
    reports: AtomicU64,
    results: AtomicU64,
    dropped: AtomicU64,
    filled: AtomicU64,
    rounds: AtomicU64,
}

impl Orders {
    pub(super) fn mode(&self) -> Mode {
        let number = self.mode.load(Ordering::Relaxed);
        Mode::ALL.get(usize::from(number)).copied().unwrap_or(Mode::Stop)
    }

    pub(super) fn give(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    pub(super) fn count_pings(&self, reports: usize) {
        self.reports.fetch_add(reports as u64, Ordering::Relaxed);
    }

    pub(super) fn count_results(&self, results: usize) {
        self.results.fetch_add(results as u64, Ordering::Relaxed);
    }

    pub(super) fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// An agent has told all that it remembers, or of each of its pairs once.
    pub(super) fn agent_done(&self, filled: bool, round: bool) {
        self.filled.fetch_add(filled.into(), Ordering::Relaxed);
        self.rounds.fetch_add(round.into(), Ordering::Relaxed);
    }

    /// Batches of pings that were told.
    pub(super) fn reports(&self) -> u64 {
        self.reports.load(Ordering::Relaxed)
    }

    /// Results that were told.
    pub(super) fn results(&self) -> u64 {
        self.results.load(Ordering::Relaxed)
    }

    /// Frames for which a queue had no room.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Agents that have told all that they remember.
    pub(super) fn filled(&self) -> u64 {
        self.filled.load(Ordering::Relaxed)
    }

    /// Agents that have told of each of their pairs once.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }
}
