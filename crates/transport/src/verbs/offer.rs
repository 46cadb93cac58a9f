//! What the two sides of a probe over RDMA tell each other through the coordinator.

use super::Trouble;
use rdmascope_model::{Cause, Role, Step};
use rdmascope_probe::limits::QUEUE_PAIRS_MAX;
use rdmascope_sys::{Mtu, RemoteBuffer};

/// Names the transport and the layout that follows, all numbers big endian: role (1), GID (16), LID (2),
/// queue pair (4), sequence number (4), MTU code (1), buffer address (8), key (4), bytes (8).
/// For one queue pair and RDMA writes: agents of every version read it.
const PLAIN: [u8; 4] = *b"RDM1";
/// As above without the queue pair, then: reads answered at once (1), receives offered on each queue pair (2), number of
/// queue pairs (1), and each of them (4). All begin with the same sequence number.
const MANY: [u8; 4] = *b"RDM2";
const PLAIN_LENGTH: usize = 4 + 1 + 16 + 2 + 4 + 4 + 1 + 8 + 4 + 8;
const SOURCE: u8 = 1;
const TARGET: u8 = 2;

/// Where one side is to be found, and where it can be written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(super) role: Role,
    pub(super) gid: [u8; 16],
    pub(super) lid: u16,
    /// Their numbers, at least one.
    pub(super) queue_pairs: Vec<u32>,
    pub(super) sequence: u32,
    pub(super) mtu: Mtu,
    pub(super) buffer: RemoteBuffer,
    pub(super) buffer_bytes: u64,
    /// RDMA reads that each queue pair answers at once.
    pub(super) reads: u8,
    /// Receive buffers that wait on each queue pair.
    pub(super) receives: u16,
}

impl Offer {
    /// `plain`: in the layout that every version reads.
    pub(crate) fn to_bytes(&self, plain: bool) -> Vec<u8> {
        let mut bytes = if plain { PLAIN } else { MANY }.to_vec();
        bytes.push(if self.role == Role::Source { SOURCE } else { TARGET });
        bytes.extend(self.gid);
        bytes.extend(self.lid.to_be_bytes());
        if plain {
            bytes.extend(self.queue_pairs.first().copied().unwrap_or_default().to_be_bytes());
        }
        bytes.extend(self.sequence.to_be_bytes());
        bytes.push(self.mtu as u8);
        bytes.extend(self.buffer.address.to_be_bytes());
        bytes.extend(self.buffer.key.to_be_bytes());
        bytes.extend(self.buffer_bytes.to_be_bytes());
        if !plain {
            bytes.push(self.reads);
            bytes.extend(self.receives.to_be_bytes());
            bytes.push(self.queue_pairs.len() as u8);
            self.queue_pairs.iter().for_each(|pair| bytes.extend(pair.to_be_bytes()));
        }
        bytes
    }

    /// Reads the offer that the peer of `own` role made, in the layout that both ends use for this plan.
    pub(crate) fn from_bytes(bytes: &[u8], own: Role, plain: bool) -> Result<Self, Trouble> {
        let wrong = |why: &str| {
            let evidence = format!("the peer's offer of {} bytes is no RDMA offer: {why}", bytes.len());
            Trouble::new(Cause::BadPeerData, Step::Exchange, evidence)
        };
        if plain && bytes.len() != PLAIN_LENGTH {
            return Err(wrong("wrong length"));
        }
        let mut rest = Reader(bytes);
        let (magic, role) = match (rest.take::<4>(), rest.take::<1>()) {
            (Some(magic), Some([role])) => (magic, role),
            _ => return Err(wrong("too short")),
        };
        if magic != if plain { PLAIN } else { MANY } {
            return Err(wrong("another transport, version or way of probing"));
        }
        let role = match (role, own) {
            (SOURCE, Role::Target) => Role::Source,
            (TARGET, Role::Source) => Role::Target,
            _ => return Err(wrong("it is not from the other role")),
        };
        let offer = Self::read(&mut rest, role, plain).ok_or_else(|| wrong("a value out of range"))?;
        if rest.0.is_empty() { Ok(offer) } else { Err(wrong("too long")) }
    }

    fn read(rest: &mut Reader<'_>, role: Role, plain: bool) -> Option<Self> {
        let (gid, lid) = (rest.take()?, u16::from_be_bytes(rest.take()?));
        let only = if plain { Some(u32::from_be_bytes(rest.take()?)) } else { None };
        let mut offer = Self {
            role,
            gid,
            lid,
            queue_pairs: only.into_iter().collect(),
            sequence: u32::from_be_bytes(rest.take()?),
            mtu: Mtu::from_code(u32::from(rest.take::<1>()?[0]))?,
            buffer: RemoteBuffer {
                address: u64::from_be_bytes(rest.take()?),
                key: u32::from_be_bytes(rest.take()?),
            },
            buffer_bytes: u64::from_be_bytes(rest.take()?),
            reads: 1,
            receives: 0,
        };
        if !plain {
            offer.reads = rest.take::<1>()?[0];
            offer.receives = u16::from_be_bytes(rest.take()?);
            let count = u32::from(rest.take::<1>()?[0]);
            if !(1..=QUEUE_PAIRS_MAX).contains(&count) {
                return None;
            }
            for _ in 0..count {
                offer.queue_pairs.push(u32::from_be_bytes(rest.take()?));
            }
        }
        Some(offer)
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

    fn offer(role: Role, queue_pairs: &[u32]) -> Offer {
        Offer {
            role,
            gid: [0xfe; 16],
            lid: 0x0102,
            queue_pairs: queue_pairs.to_vec(),
            sequence: 0x0006_0708,
            mtu: Mtu::Bytes4096,
            buffer: RemoteBuffer { address: 0x0102_0304_0506_0708, key: 0x090a_0b0c },
            buffer_bytes: 65_536,
            reads: 1,
            receives: 0,
        }
    }

    #[test]
    fn offers_read_back_as_they_were_made() {
        let most: Vec<u32> = (1..=QUEUE_PAIRS_MAX).collect();
        for (made, own) in [(Role::Source, Role::Target), (Role::Target, Role::Source)] {
            for (pairs, plain) in [(&[7][..], true), (&[7], false), (&most, false)] {
                let mut made_of = offer(made, pairs);
                if !plain {
                    (made_of.reads, made_of.receives) = (16, 512);
                }
                let bytes = made_of.to_bytes(plain);
                assert!(bytes.len() <= 256, "{} bytes", bytes.len());
                assert_eq!(Offer::from_bytes(&bytes, own, plain).unwrap(), made_of);
                assert!(Offer::from_bytes(&bytes, made, plain).is_err(), "an offer from the same role");
                assert!(Offer::from_bytes(&bytes, own, !plain).is_err(), "an offer for another plan");
            }
        }
    }

    #[test]
    fn the_plain_layout_is_that_of_version_one() {
        let bytes = offer(Role::Target, &[0x0003_0405]).to_bytes(true);
        let expected = b"RDM1\x02\xfe\xfe\xfe\xfe\xfe\xfe\xfe\xfe\xfe\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x01\x02\x00\x03\x04\x05\x00\x06\x07\x08\x05\
            \x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x00\x00\x00\x00\x00\x01\x00\x00";
        assert_eq!(bytes, expected);
    }

    #[test]
    fn every_changed_length_and_any_noise_is_refused() {
        for (pairs, plain) in [(&[7][..], true), (&[7, 8, 9], false)] {
            let good = offer(Role::Target, pairs).to_bytes(plain);
            for length in (0..good.len()).chain([good.len() + 1, 256]) {
                let mut bytes = good.clone();
                bytes.resize(length, 0);
                assert!(
                    Offer::from_bytes(&bytes, Role::Source, plain).is_err(),
                    "{length} bytes were accepted"
                );
            }
            let mtu_at = if plain { 31 } else { 27 };
            for (at, value) in [(0, b'X'), (4, 9), (mtu_at, 0), (mtu_at, 6)] {
                let mut bytes = good.clone();
                bytes[at] = value;
                assert!(
                    Offer::from_bytes(&bytes, Role::Source, plain).is_err(),
                    "{value} at {at} was accepted"
                );
            }
        }
        let mut none = offer(Role::Target, &[1]).to_bytes(false);
        let count_at = none.len() - 5;
        none[count_at] = 0;
        none.truncate(count_at + 1);
        assert!(Offer::from_bytes(&none, Role::Source, false).is_err(), "no queue pair at all");
    }
}
