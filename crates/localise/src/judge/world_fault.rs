//! What is broken in the made-up cluster of the tests.

use crate::{Component, Way};

/// What is broken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) at: Component,
    pub(super) way: Way,
    /// Share of packets that are lost.
    pub(super) loss: f64,
    pub(super) large_only: bool,
    /// What round trips are multiplied by.
    pub(super) slower: f64,
    /// What streams are multiplied by.
    pub(super) narrower: f64,
    /// Time inside the host, nanoseconds.
    pub(super) host_ns: u64,
    /// One of so many paths only.
    pub(super) of_paths: u64,
    /// From when to when, milliseconds.
    pub(super) from_ms: u64,
    pub(super) until_ms: u64,
    /// There for so long of each second, milliseconds.
    pub(super) of_second_ms: u64,
}

impl Fault {
    pub(super) fn new(at: Component) -> Self {
        Self {
            at,
            way: Way::Both,
            loss: 0.0,
            large_only: false,
            slower: 1.0,
            narrower: 1.0,
            host_ns: 0,
            of_paths: 1,
            from_ms: 0,
            until_ms: u64::MAX,
            of_second_ms: 1_000,
        }
    }

    pub(super) fn is_there(&self, now_ms: u64) -> bool {
        (self.from_ms..self.until_ms).contains(&now_ms) && now_ms % 1_000 < self.of_second_ms
    }

    pub(super) fn lossy(at: Component, loss: f64) -> Self {
        Self { loss, ..Self::new(at) }
    }

    pub(super) fn slow(at: Component, slower: f64) -> Self {
        Self { slower, ..Self::new(at) }
    }
}
