//! Single bytes behind the buffers, written by the peer over RDMA: that it has begun, that it is through, and how many receives it
//! has offered again.

use super::Parts;
use rdmascope_sys::{RemoteBuffer, SendRequest, VerbError};
use std::sync::atomic::Ordering;

/// Layout: what the peer says of the probe as a whole; its credits, one byte for each queue pair; from the middle on, the same as it is
/// sent from here.
pub(super) const SIGNAL_BYTES: u64 = 64;
const SAID: usize = 0;
const CREDITS: usize = 1;
const OUTBOX: usize = 32;

/// The number of a signal's completion.
pub(super) const SIGNAL: u64 = 1 << 33;

/// What one end says of the probe as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Word {
    Nothing = 0,
    /// Its stream begins.
    Begun = 1,
    /// Its last message was acknowledged.
    Done = 2,
}

/// Where the signals of both ends are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signals {
    /// Behind the own buffer.
    at: usize,
    /// Behind the peer's; `None` for a peer that has no room for them (an older version).
    remote: Option<RemoteBuffer>,
}

impl Signals {
    /// `buffer_bytes` is the length of both buffers; the peer's memory has `room` bytes from `remote` on.
    pub(super) fn new(buffer_bytes: u64, remote: RemoteBuffer, room: u64) -> Self {
        let enough = room >= buffer_bytes + SIGNAL_BYTES;
        let behind = RemoteBuffer { address: remote.address.wrapping_add(buffer_bytes), ..remote };
        Self { at: buffer_bytes as usize, remote: enough.then_some(behind) }
    }

    /// What the peer said.
    pub(super) fn heard(&self, parts: &Parts) -> Word {
        match self.load(parts, SAID) {
            0 => Word::Nothing,
            1 => Word::Begun,
            _ => Word::Done,
        }
    }

    /// How many parts of a queue pair's receives the peer offered again, modulo 256.
    pub(super) fn credits(&self, parts: &Parts, pair: usize) -> u8 {
        self.load(parts, CREDITS + pair)
    }

    pub(super) fn say(&self, parts: &Parts, word: Word) -> Result<(), VerbError> {
        self.send(parts, 0, SAID, word as u8)
    }

    pub(super) fn give_credits(&self, parts: &Parts, pair: usize, count: u8) -> Result<(), VerbError> {
        self.send(parts, pair, CREDITS + pair, count)
    }

    fn load(&self, parts: &Parts, place: usize) -> u8 {
        // Nothing is heard in a buffer that the processor does not see.
        parts.region.bytes().get(self.at + place).map_or(0, |byte| byte.load(Ordering::Acquire))
    }

    /// One byte cannot be torn. That a later one may overtake it in the outbox does no harm: both only grow.
    fn send(&self, parts: &Parts, pair: usize, place: usize, value: u8) -> Result<(), VerbError> {
        let Some(remote) = self.remote else { return Ok(()) };
        let from = self.at + OUTBOX + place;
        let Some(outbox) = parts.region.bytes().get(from) else { return Ok(()) };
        outbox.store(value, Ordering::Release);
        let to = RemoteBuffer { address: remote.address + place as u64, ..remote };
        let mut request = SendRequest::write(&parts.region, from..from + 1, to)?;
        request.set_id(SIGNAL);
        parts.pairs[pair].post(&mut request)
    }
}
