//! What the two sides of a TCP probe tell each other through the coordinator.

use super::Trouble;
use rdmascope_model::{Cause, Gid, Role, Step};
use std::net::SocketAddr;

/// Names the transport and the layout that follows: role (1), address as in a GID (16), port (2, big endian), token (16).
const MAGIC: [u8; 4] = *b"TCP1";
const LENGTH: usize = 4 + 1 + 16 + 2 + 16;
const SOURCE: u8 = 1;
const TARGET: u8 = 2;

/// The secret that the source must show; new for each lease.
pub(super) type Token = [u8; 16];

/// Where one side is to be found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) role: Role,
    /// The target listens here; the source comes from here, port 0.
    pub(super) address: SocketAddr,
    /// The target's; zeros from the source.
    pub(super) token: Token,
}

impl Offer {
    pub(super) fn of_source(address: SocketAddr) -> Self {
        Self { role: Role::Source, address, token: Token::default() }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(if self.role == Role::Source { SOURCE } else { TARGET });
        bytes.extend(Gid::from(self.address.ip()).0);
        bytes.extend(self.address.port().to_be_bytes());
        bytes.extend(self.token);
        bytes
    }

    /// Reads the offer that the peer of `own` role made.
    pub(super) fn from_bytes(bytes: &[u8], own: Role) -> Result<Self, Trouble> {
        let wrong = |why: &str| {
            let evidence = format!("the peer's offer of {} bytes is no TCP offer: {why}", bytes.len());
            Trouble::new(Cause::BadPeerData, Step::Exchange, evidence)
        };
        let bytes: &[u8; LENGTH] = bytes.try_into().map_err(|_| wrong("wrong length"))?;
        let (magic, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| wrong("too short"))?;
        let (role, rest) = rest.split_first().ok_or_else(|| wrong("too short"))?;
        let (address, rest) = rest.split_first_chunk::<16>().ok_or_else(|| wrong("too short"))?;
        let (port, token) = rest.split_first_chunk::<2>().ok_or_else(|| wrong("too short"))?;
        if *magic != MAGIC {
            return Err(wrong("another transport or version"));
        }
        let role = match (*role, own) {
            (SOURCE, Role::Target) => Role::Source,
            (TARGET, Role::Source) => Role::Target,
            _ => return Err(wrong("it is not from the other role")),
        };
        let port = u16::from_be_bytes(*port);
        if role == Role::Target && port == 0 {
            return Err(wrong("the target names no port"));
        }
        let token = token.try_into().map_err(|_| wrong("too short"))?;
        Ok(Self { role, address: SocketAddr::new(Gid(*address).ip(), port), token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_target(address: &str) -> Offer {
        Offer { role: Role::Target, address: address.parse().unwrap(), token: [7; 16] }
    }

    #[test]
    fn offers_read_back_as_they_were_made() {
        for offer in [of_target("10.0.0.9:4801"), of_target("[2001:db8::9]:4801")] {
            assert_eq!(Offer::from_bytes(&offer.to_bytes(), Role::Source).unwrap(), offer);
        }
        let source = Offer::of_source("10.0.0.9:0".parse().unwrap());
        assert_eq!(Offer::from_bytes(&source.to_bytes(), Role::Target).unwrap(), source);
    }

    #[test]
    fn an_offer_from_the_same_role_is_refused() {
        assert!(Offer::from_bytes(&of_target("10.0.0.9:4801").to_bytes(), Role::Target).is_err());
        assert!(Offer::from_bytes(&of_target("10.0.0.9:0").to_bytes(), Role::Source).is_err());
    }

    #[test]
    fn every_changed_length_and_any_noise_is_refused() {
        let good = of_target("10.0.0.9:4801").to_bytes();
        for length in (0..LENGTH).chain([LENGTH + 1, 256]) {
            let mut bytes = good.clone();
            bytes.resize(length, 0);
            assert!(Offer::from_bytes(&bytes, Role::Source).is_err(), "{length} bytes were accepted");
        }
        assert!(Offer::from_bytes(&[0xa5; LENGTH], Role::Source).is_err());
    }
}
