//! What the two sides of a lease's pings tell each other through the coordinator.

use rdmascope_model::{DatagramAddress, Gid, Role};

/// Names the layout that follows, all numbers big endian: role (1), GID (16), LID (2), queue pair (4), queue key (4), MTU in
/// bytes (4), the batch that the source's pings will be of (4).
const MAGIC: [u8; 4] = *b"RDU1";
const LENGTH: usize = 4 + 1 + 16 + 2 + 4 + 4 + 4 + 4;

/// Where one side takes datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(super) role: Role,
    pub(super) address: DatagramAddress,
    pub(super) batch: u32,
}

fn role_code(role: Role) -> u8 {
    match role {
        Role::Source => 1,
        Role::Target => 2,
    }
}

impl Offer {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(role_code(self.role));
        bytes.extend(self.address.gid.0);
        bytes.extend(self.address.lid.to_be_bytes());
        for number in [self.address.queue_pair, self.address.queue_key, self.address.mtu_bytes, self.batch] {
            bytes.extend(number.to_be_bytes());
        }
        bytes
    }

    /// Reads the offer that the peer of `own` role made; in words, what is wrong with it.
    pub(crate) fn from_bytes(bytes: &[u8], own: Role) -> Result<Self, &'static str> {
        let bytes: &[u8; LENGTH] = bytes.try_into().map_err(|_| "wrong length")?;
        if bytes[..4] != MAGIC {
            return Err("another transport or version");
        }
        let role = if own == Role::Source { Role::Target } else { Role::Source };
        if bytes[4] != role_code(role) {
            return Err("it is not from the other role");
        }
        let number = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let mut gid = [0; 16];
        gid.copy_from_slice(&bytes[5..21]);
        let address = DatagramAddress {
            gid: Gid(gid),
            lid: u16::from_be_bytes([bytes[21], bytes[22]]),
            queue_pair: number(23),
            queue_key: number(27),
            mtu_bytes: number(31),
        };
        if address.queue_pair >> 24 != 0 || address.queue_key >> 31 != 0 {
            return Err("a value out of range");
        }
        Ok(Self { role, address, batch: number(35) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(role: Role) -> Offer {
        let address = DatagramAddress {
            gid: Gid([7; 16]),
            lid: 0x0102,
            queue_pair: 0x0003_0405,
            queue_key: 0x0607_0809,
            mtu_bytes: 4096,
        };
        Offer { role, address, batch: 0x0a0b_0c0d }
    }

    #[test]
    fn offers_read_back_as_they_were_made_by_the_other_role_only() {
        for (made, own) in [(Role::Source, Role::Target), (Role::Target, Role::Source)] {
            let bytes = offer(made).to_bytes();
            assert_eq!(Offer::from_bytes(&bytes, own), Ok(offer(made)));
            assert!(Offer::from_bytes(&bytes, made).is_err());
        }
    }

    #[test]
    fn wrong_lengths_other_transports_and_impossible_numbers_are_refused() {
        let good = offer(Role::Target).to_bytes();
        for length in (0..LENGTH).chain([LENGTH + 1, 256]) {
            let mut bytes = good.clone();
            bytes.resize(length, 0);
            assert!(Offer::from_bytes(&bytes, Role::Source).is_err(), "{length} bytes");
        }
        for at in [0, 4, 23, 27] {
            let mut bytes = good.clone();
            bytes[at] = 0xff;
            assert!(Offer::from_bytes(&bytes, Role::Source).is_err(), "byte {at}");
        }
    }
}
