//! What happened on the node, until the coordinator has it for good: a bounded queue that is sent again after each reconnect.

use rdmascope_link::{EVENTS_PER_FRAME_MAX, NodeEvent, ToCoordinator};
use std::collections::VecDeque;

/// Events that wait; about 300 bytes each. A node has a few a day, and a machine in trouble some hundred an hour.
const EVENTS_MAX: usize = 1_000;

/// The queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    waiting: VecDeque<NodeEvent>,
    /// Number of the last event that happened.
    last: u64,
    /// Number of the last event that was sent on this connection.
    sent: u64,
    dropped: u64,
}

impl Journal {
    /// Numbers and keeps events. When there is no room the oldest one goes: the coordinator sees the gap by the numbers.
    pub(super) fn add(&mut self, events: Vec<NodeEvent>) {
        for event in events {
            self.last += 1;
            if self.waiting.len() >= EVENTS_MAX {
                self.waiting.pop_front();
                self.dropped += 1;
            }
            self.waiting.push_back(NodeEvent { number: self.last, ..event });
        }
    }

    /// A new connection: nothing was sent on it yet.
    pub(super) fn rewind(&mut self) {
        self.sent = 0;
    }

    /// The coordinator has kept everything up to this number.
    pub(super) fn seen(&mut self, number: u64) {
        while self.waiting.front().is_some_and(|event| event.number <= number) {
            self.waiting.pop_front();
        }
    }

    /// The next frame of events that were not sent on this connection.
    pub(super) fn next_frame(&mut self) -> Option<ToCoordinator> {
        let sent = self.sent;
        let unsent = self.waiting.iter().filter(|event| event.number > sent).take(EVENTS_PER_FRAME_MAX);
        let ToCoordinator::Events(events) = ToCoordinator::events(unsent) else { return None };
        self.sent = events.last()?.number;
        Some(ToCoordinator::Events(events))
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}
