//! What the two sides of a probe over RDMA tell each other through the coordinator.

use super::Trouble;
use rdmascope_model::{Cause, Role, Step};
use rdmascope_sys::{Mtu, RemoteBuffer};

/// Names the transport and the layout that follows, all numbers big endian: role (1), GID (16), LID (2),
/// queue pair (4), sequence number (4), MTU code (1), buffer address (8), key (4), bytes (8).
const MAGIC: [u8; 4] = *b"RDM1";
const LENGTH: usize = 4 + 1 + 16 + 2 + 4 + 4 + 1 + 8 + 4 + 8;
const SOURCE: u8 = 1;
const TARGET: u8 = 2;

/// Where one side is to be found, and where it can be written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) role: Role,
    pub(super) gid: [u8; 16],
    pub(super) lid: u16,
    pub(super) queue_pair: u32,
    pub(super) sequence: u32,
    pub(super) mtu: Mtu,
    pub(super) buffer: RemoteBuffer,
    pub(super) buffer_bytes: u64,
}

impl Offer {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(if self.role == Role::Source { SOURCE } else { TARGET });
        bytes.extend(self.gid);
        bytes.extend(self.lid.to_be_bytes());
        bytes.extend(self.queue_pair.to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        bytes.push(self.mtu as u8);
        bytes.extend(self.buffer.address.to_be_bytes());
        bytes.extend(self.buffer.key.to_be_bytes());
        bytes.extend(self.buffer_bytes.to_be_bytes());
        bytes
    }

    /// Reads the offer that the peer of `own` role made.
    pub(super) fn from_bytes(bytes: &[u8], own: Role) -> Result<Self, Trouble> {
        let wrong = |why: &str| {
            let evidence = format!("the peer's offer of {} bytes is no RDMA offer: {why}", bytes.len());
            Trouble::new(Cause::BadPeerData, Step::Exchange, evidence)
        };
        if bytes.len() != LENGTH {
            return Err(wrong("wrong length"));
        }
        let mut rest = Reader(bytes);
        let offer = (|| {
            let (magic, role) = (rest.take::<4>()?, rest.take::<1>()?[0]);
            Some((
                magic,
                role,
                Self {
                    role: if role == SOURCE { Role::Source } else { Role::Target },
                    gid: rest.take()?,
                    lid: u16::from_be_bytes(rest.take()?),
                    queue_pair: u32::from_be_bytes(rest.take()?),
                    sequence: u32::from_be_bytes(rest.take()?),
                    mtu: Mtu::from_code(u32::from(rest.take::<1>()?[0]))?,
                    buffer: RemoteBuffer {
                        address: u64::from_be_bytes(rest.take()?),
                        key: u32::from_be_bytes(rest.take()?),
                    },
                    buffer_bytes: u64::from_be_bytes(rest.take()?),
                },
            ))
        })();
        match offer {
            None => Err(wrong("a value out of range")),
            Some((magic, ..)) if magic != MAGIC => Err(wrong("another transport or version")),
            Some((_, SOURCE, offer)) if own == Role::Target => Ok(offer),
            Some((_, TARGET, offer)) if own == Role::Source => Ok(offer),
            Some(_) => Err(wrong("it is not from the other role")),
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(role: Role) -> Offer {
        Offer {
            role,
            gid: [0xfe; 16],
            lid: 0x0102,
            queue_pair: 0x0003_0405,
            sequence: 0x0006_0708,
            mtu: Mtu::Bytes4096,
            buffer: RemoteBuffer { address: 0x0102_0304_0506_0708, key: 0x090a_0b0c },
            buffer_bytes: 65_536,
        }
    }

    #[test]
    fn offers_read_back_as_they_were_made() {
        for (made, own) in [(Role::Source, Role::Target), (Role::Target, Role::Source)] {
            let bytes = offer(made).to_bytes();
            assert_eq!(Offer::from_bytes(&bytes, own).unwrap(), offer(made));
            assert!(Offer::from_bytes(&bytes, made).is_err(), "an offer from the same role");
        }
    }

    #[test]
    fn every_changed_length_and_any_noise_is_refused() {
        let good = offer(Role::Target).to_bytes();
        for length in (0..LENGTH).chain([LENGTH + 1, 256]) {
            let mut bytes = good.clone();
            bytes.resize(length, 0);
            assert!(Offer::from_bytes(&bytes, Role::Source).is_err(), "{length} bytes were accepted");
        }
        for (at, value) in [(0, b'X'), (4, 9), (31, 0), (31, 6)] {
            let mut bytes = good.clone();
            bytes[at] = value;
            assert!(Offer::from_bytes(&bytes, Role::Source).is_err(), "{value} at {at} was accepted");
        }
    }
}
