//! Connections between agents and the coordinator: bytes that arrive later, in order, or not before a partition heals.

use crate::random::Random;
use rdmascope_control::coordinator::ConnectionId;
use rdmascope_model::Mono;
use std::collections::BTreeMap;
use std::time::Duration;

/// Fastest and slowest way of a message, microseconds.
const DELAY_MICROS: (u64, u64) = (60, 400);

/// Towards whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Towards {
    Agent,
    Coordinator,
}

/// What arrives at one end of a connection.
#[derive(Clone, Debug)]
pub(crate) enum Parcel {
    /// One frame.
    Frame(Vec<u8>),
    /// The other end closed it.
    End,
}

/// The wires, of which each delivers in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wires {
    last: BTreeMap<(ConnectionId, Towards), Mono>,
}

impl Wires {
    /// When what is sent now arrives: after everything that was sent before it.
    pub(crate) fn arrival(
        &mut self,
        connection: ConnectionId,
        towards: Towards,
        random: &mut Random,
        now: Mono,
    ) -> Mono {
        let delay = DELAY_MICROS.0 + random.below(DELAY_MICROS.1 - DELAY_MICROS.0);
        let last = self.last.entry((connection, towards)).or_default();
        *last = now.after(Duration::from_micros(delay)).max(*last);
        *last
    }

    /// Nothing more comes over a connection.
    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.last.retain(|(of, _), _| *of != connection);
    }
}
