//! Datagrams between their posting and their completion: one for each send buffer.

use super::engine::Destination;
use super::packet::Header;
use super::stamp::Stamp;
use rdmascope_model::StampClock;

/// What a datagram under way is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Flight {
    Ping {
        batch: u32,
        sequence: u32,
    },
    FirstAck {
        to: Destination,
        header: Header,
        received: Stamp,
    },
    /// Nothing depends on when it left.
    Other,
}

/// Table of send buffers.
#[derive(Clone, Debug)]
pub(super) struct Flights {
    slots: [Option<Flight>; Self::MAX],
    /// Of each slot, how often it was used: a late completion does not free the next one's buffer.
    rounds: [u32; Self::MAX],
    used: usize,
    /// Where the search begins.
    next: usize,
}

impl Flights {
    /// Small on purpose: an endpoint sends some hundred datagrams a second, each under way for microseconds.
    pub(super) const MAX: usize = 32;
    /// Buffers that own pings leave for answers, which come two for each ping heard.
    const FOR_ANSWERS: usize = Self::MAX / 2;

    pub(super) fn new() -> Self {
        Self { slots: [None; Self::MAX], rounds: [0; Self::MAX], used: 0, next: 0 }
    }

    pub(super) fn has_room(&self) -> bool {
        self.used < Self::MAX
    }

    pub(super) fn has_room_for_pings(&self) -> bool {
        self.used + Self::FOR_ANSWERS < Self::MAX
    }

    /// Is there an acknowledgement whose device is still to say when it left?
    pub(super) fn awaits_device(&self) -> bool {
        let awaits = |flight: &Option<Flight>| matches!(flight, Some(Flight::FirstAck { received, .. }) if received.clock == StampClock::Hardware);
        self.used > 0 && self.slots.iter().any(awaits)
    }

    /// The id of a new one; `None` when every buffer is in use.
    pub(super) fn add(&mut self, flight: Flight) -> Option<u64> {
        let free =
            (0..Self::MAX).map(|step| (self.next + step) % Self::MAX).find(|&at| self.slots[at].is_none())?;
        self.slots[free] = Some(flight);
        self.rounds[free] = self.rounds[free].wrapping_add(1);
        self.used += 1;
        self.next = (free + 1) % Self::MAX;
        Some(u64::from(self.rounds[free]) << 8 | free as u64)
    }

    pub(super) fn get(&self, id: u64) -> Option<Flight> {
        self.slots[self.place(id)?]
    }

    pub(super) fn take(&mut self, id: u64) -> Option<Flight> {
        let place = self.place(id)?;
        let taken = self.slots[place].take();
        self.used -= usize::from(taken.is_some());
        taken
    }

    fn place(&self, id: u64) -> Option<usize> {
        let place = usize::try_from(id & 0xff).ok().filter(|&place| place < Self::MAX)?;
        (u64::from(self.rounds[place]) == id >> 8).then_some(place)
    }
}
