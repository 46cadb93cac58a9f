//! The 64 bytes that every datagram of the mesh begins with; larger ones are padded with bytes that nobody reads.
//!
//! All numbers are big endian:
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..4 | magic `RDMP` |
//! | 4, 5, 6, 7 | version, kind, size class, clock of the responder's delay; in pings the one asked for (0: software) |
//! | 8..12, 12..16 | batch, sequence number in it |
//! | 16..24 | nonce of the prober's run |
//! | 24..28, 28..30 | queue key for the answer, index of the path label |
//! | 30 | not 0: the responder was kept from running, its delay is vague |
//! | 32..36, 36..40 | pings of this batch that the responder heard: small, large |
//! | 40..44, 44..48 | first acknowledgements that it sent: small, large |
//! | 48..56 | the responder's delay, nanoseconds |
//! | 60..64 | FNV-1a of the bytes before |

use rdmascope_model::StampClock;

/// Bytes of the header, and of a small ping.
pub const HEADER_BYTES: usize = 64;
const CHECKED_BYTES: usize = HEADER_BYTES - 4;
const MAGIC: [u8; 4] = *b"RDMP";
const VERSION: u8 = 1;
const SOFTWARE: u8 = 1;
const HARDWARE: u8 = 2;

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From the prober.
    Ping = 1,
    /// From the prober after its last ping, when it cannot tell in which direction pings were lost: answered, not counted.
    Question = 2,
    /// From the responder, at once, as large as the ping.
    FirstAck = 3,
    /// From the responder when the first acknowledgement was sent: carries its delay. Always small.
    SecondAck = 4,
}

/// One number for each size of pings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// 64 bytes.
    pub small: u32,
    /// The full path MTU.
    pub large: u32,
}

impl Sizes {
    /// The number of one size.
    #[must_use]
    pub fn of(self, large: bool) -> u32 {
        if large { self.large } else { self.small }
    }

    /// Counts one more.
    pub fn count(&mut self, large: bool) {
        let field = if large { &mut self.large } else { &mut self.small };
        *field = field.saturating_add(1);
    }

    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { small: self.small.max(other.small), large: self.large.max(other.large) }
    }
}

/// The header of one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// The ping was, or is, of the full path MTU.
    pub large: bool,
    /// The prober's batch, never 0.
    pub batch: u32,
    /// The ping's number in its batch, from 0.
    pub sequence: u32,
    /// Chosen anew at each start of the prober: answers to an earlier run are not its own.
    pub nonce: u64,
    /// What answers to the prober must carry.
    pub queue_key: u32,
    /// Which of the batch's path labels the ping went with.
    pub label: u16,
    /// Pings of this batch that the responder heard until now; duplicates are not counted.
    pub heard: Sizes,
    /// First acknowledgements that it sent for them.
    pub acked: Sizes,
    /// Time inside the responder, nanoseconds, and which clock took it; in second acknowledgements, where known. In pings 0 and
    /// the clock that it is to be taken by; older agents, which have the program's only, name none.
    pub delay: Option<(u64, StampClock)>,
    /// The responder was kept from running meanwhile: its delay may contain time of the network, and the other way round.
    pub vague: bool,
}

impl Header {
    /// The bytes of it.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        let (delay_ns, clock) = match self.delay {
            None => (0, 0),
            Some((delay_ns, StampClock::Software)) => (delay_ns, SOFTWARE),
            Some((delay_ns, StampClock::Hardware)) => (delay_ns, HARDWARE),
        };
        put(0, &MAGIC);
        put(4, &[VERSION, self.kind as u8, u8::from(self.large), clock]);
        put(8, &self.batch.to_be_bytes());
        put(12, &self.sequence.to_be_bytes());
        put(16, &self.nonce.to_be_bytes());
        put(24, &self.queue_key.to_be_bytes());
        put(28, &self.label.to_be_bytes());
        put(30, &[u8::from(self.vague)]);
        put(32, &self.heard.small.to_be_bytes());
        put(36, &self.heard.large.to_be_bytes());
        put(40, &self.acked.small.to_be_bytes());
        put(44, &self.acked.large.to_be_bytes());
        put(48, &delay_ns.to_be_bytes());
        let sum = checksum(&bytes);
        bytes[CHECKED_BYTES..].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// Reads the first bytes of a datagram; `None` when they are not a header of this version.
    #[must_use]
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = payload.first_chunk()?;
        if bytes[..4] != MAGIC || bytes[4] != VERSION || number(bytes, CHECKED_BYTES) != checksum(bytes) {
            return None;
        }
        let kind = match bytes[5] {
            1 => Kind::Ping,
            2 => Kind::Question,
            3 => Kind::FirstAck,
            4 => Kind::SecondAck,
            _ => return None,
        };
        let delay_ns = wide(bytes, 48);
        let delay = match bytes[7] {
            0 => None,
            SOFTWARE => Some((delay_ns, StampClock::Software)),
            HARDWARE => Some((delay_ns, StampClock::Hardware)),
            _ => return None,
        };
        let large = match bytes[6] {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Self {
            kind,
            large,
            batch: number(bytes, 8),
            sequence: number(bytes, 12),
            nonce: wide(bytes, 16),
            queue_key: number(bytes, 24),
            label: u16::from_be_bytes([bytes[28], bytes[29]]),
            heard: Sizes { small: number(bytes, 32), large: number(bytes, 36) },
            acked: Sizes { small: number(bytes, 40), large: number(bytes, 44) },
            delay,
            vague: bytes[30] != 0,
        })
    }
}

fn number(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn wide(bytes: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from(number(bytes, at)) << 32 | u64::from(number(bytes, at + 4))
}

/// FNV-1a, 32 bits, as its authors publish it. The fabric's own checksum guards against damage; this one against
/// datagrams of somebody else.
fn checksum(bytes: &[u8; HEADER_BYTES]) -> u32 {
    bytes[..CHECKED_BYTES]
        .iter()
        .fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn header(kind: Kind, large: bool, delay: Option<(u64, StampClock)>) -> Header {
        Header {
            kind,
            large,
            batch: 0x0102_0304,
            sequence: 0x0506_0708,
            nonce: 0x090a_0b0c_0d0e_0f10,
            queue_key: 0x1112_1314,
            label: 0x1516,
            heard: Sizes { small: 0x1718_191a, large: 0x1b1c_1d1e },
            acked: Sizes { small: 0x1f20_2122, large: 0x2324_2526 },
            delay,
            vague: kind == Kind::SecondAck,
        }
    }

    #[test]
    fn headers_read_back_as_they_were_written_padding_or_not() {
        let delays = [None, Some((7, StampClock::Software)), Some((u64::MAX, StampClock::Hardware))];
        for kind in [Kind::Ping, Kind::Question, Kind::FirstAck, Kind::SecondAck] {
            for (large, delay) in [(false, delays[0]), (true, delays[1]), (false, delays[2])] {
                let written = header(kind, large, delay);
                let mut datagram = written.encode().to_vec();
                assert_eq!(Header::decode(&datagram), Some(written));
                datagram.resize(4096, 0xee);
                assert_eq!(Header::decode(&datagram), Some(written));
            }
        }
    }

    #[test]
    fn every_changed_bit_and_every_shorter_datagram_is_refused() {
        let good = header(Kind::FirstAck, true, None).encode();
        for bit in 0..8 * HEADER_BYTES {
            let mut bytes = good;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&bytes), None, "bit {bit} changed");
        }
        for length in 0..HEADER_BYTES {
            assert_eq!(Header::decode(&good[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn other_versions_and_unknown_values_are_refused_although_their_checksum_fits() {
        for (at, value) in [(0, b'X'), (4, 0), (4, 2), (5, 0), (5, 5), (6, 2), (7, 3)] {
            let mut bytes = header(Kind::Ping, false, None).encode();
            bytes[at] = value;
            let sum = checksum(&bytes);
            bytes[CHECKED_BYTES..].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(Header::decode(&bytes), None, "{value} at {at}");
        }
    }

    #[test]
    fn noise_is_refused_and_harmless() {
        // xorshift64 (Marsaglia, "Xorshift RNGs", 2003) from a fixed seed.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut noise = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..20_000 {
            let length = usize::try_from(noise() % 129).unwrap();
            let mut bytes: Vec<u8> = (0..length).map(|_| noise().to_be_bytes()[0]).collect();
            assert_eq!(Header::decode(&bytes), None);
            if length >= 8 {
                // Past the first look: only the rest is noise.
                bytes[..5].copy_from_slice(&[b'R', b'D', b'M', b'P', VERSION]);
                assert_eq!(Header::decode(&bytes), None);
            }
        }
    }
}
