//! What the two sides of a probe over sockets tell each other through the coordinator.

use super::{Token, Trouble};
use rdmascope_model::{Cause, Gid, Role, Step};
use std::net::SocketAddr;

/// Length of every offer. After the magic number: role (1), address as in a GID (16), port (2, big endian), token (16).
const LENGTH: usize = 4 + 1 + 16 + 2 + 16;
const SOURCE: u8 = 1;
const TARGET: u8 = 2;

/// Which transport an offer is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Connections; a source comes from any port, and names 0.
    Tcp,
    /// Datagrams.
    Echo,
}

impl Kind {
    /// Names the transport and the layout that follows.
    const fn magic(self) -> [u8; 4] {
        match self {
            Self::Tcp => *b"TCP1",
            Self::Echo => *b"ECH1",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Echo => "echo",
        }
    }
}

/// Where one side is to be found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) role: Role,
    /// A target listens here; datagrams come from here.
    pub(crate) address: SocketAddr,
    /// What shows that a peer is the one of this lease: the target's counts, and a TCP source gives zeros.
    pub(crate) token: Token,
}

impl Offer {
    pub(crate) fn to_bytes(&self, kind: Kind) -> Vec<u8> {
        let mut bytes = kind.magic().to_vec();
        bytes.push(if self.role == Role::Source { SOURCE } else { TARGET });
        bytes.extend(Gid::from(self.address.ip()).0);
        bytes.extend(self.address.port().to_be_bytes());
        bytes.extend(self.token);
        bytes
    }

    /// Reads the offer that the peer of `own` role made.
    pub(crate) fn from_bytes(bytes: &[u8], kind: Kind, own: Role) -> Result<Self, Trouble> {
        let wrong = |why: &str| {
            let (length, name) = (bytes.len(), kind.name());
            let evidence = format!("the peer's offer of {length} bytes is no {name} offer: {why}");
            Trouble::new(Cause::BadPeerData, Step::Exchange, evidence)
        };
        let bytes: &[u8; LENGTH] = bytes.try_into().map_err(|_| wrong("wrong length"))?;
        let (magic, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| wrong("too short"))?;
        let (role, rest) = rest.split_first().ok_or_else(|| wrong("too short"))?;
        let (address, rest) = rest.split_first_chunk::<16>().ok_or_else(|| wrong("too short"))?;
        let (port, token) = rest.split_first_chunk::<2>().ok_or_else(|| wrong("too short"))?;
        if *magic != kind.magic() {
            return Err(wrong("another transport or version"));
        }
        let role = match (*role, own) {
            (SOURCE, Role::Target) => Role::Source,
            (TARGET, Role::Source) => Role::Target,
            _ => return Err(wrong("it is not from the other role")),
        };
        let port = u16::from_be_bytes(*port);
        if port == 0 && (kind, role) != (Kind::Tcp, Role::Source) {
            return Err(wrong("it names no port"));
        }
        let token = token.try_into().map_err(|_| wrong("too short"))?;
        Ok(Self { role, address: SocketAddr::new(Gid(*address).ip(), port), token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: [(Role, Role); 2] = [(Role::Source, Role::Target), (Role::Target, Role::Source)];

    fn offer(role: Role, address: &str) -> Offer {
        Offer { role, address: address.parse().unwrap(), token: [7; 16] }
    }

    #[test]
    fn offers_read_back_as_they_were_made() {
        for kind in [Kind::Tcp, Kind::Echo] {
            for (role, own) in ENDS {
                for address in ["10.0.0.9:4801", "[2001:db8::9]:4801"] {
                    let offer = offer(role, address);
                    assert_eq!(Offer::from_bytes(&offer.to_bytes(kind), kind, own).unwrap(), offer);
                }
            }
        }
    }

    #[test]
    fn an_offer_of_the_same_role_or_of_another_transport_is_refused() {
        for (role, own) in ENDS {
            let bytes = offer(role, "10.0.0.9:4801").to_bytes(Kind::Echo);
            assert!(Offer::from_bytes(&bytes, Kind::Echo, role).is_err());
            assert!(Offer::from_bytes(&bytes, Kind::Tcp, own).is_err());
        }
    }

    #[test]
    fn only_the_source_of_a_connection_needs_no_port() {
        for kind in [Kind::Tcp, Kind::Echo] {
            for (role, own) in ENDS {
                let bytes = offer(role, "10.0.0.9:0").to_bytes(kind);
                let free = kind == Kind::Tcp && role == Role::Source;
                assert_eq!(Offer::from_bytes(&bytes, kind, own).is_ok(), free, "{kind:?} {role:?}");
            }
        }
    }

    #[test]
    fn every_changed_length_and_any_noise_is_refused() {
        let good = offer(Role::Target, "10.0.0.9:4801").to_bytes(Kind::Tcp);
        for length in (0..LENGTH).chain([LENGTH + 1, 256]) {
            let mut bytes = good.clone();
            bytes.resize(length, 0);
            assert!(
                Offer::from_bytes(&bytes, Kind::Tcp, Role::Source).is_err(),
                "{length} bytes were accepted"
            );
        }
        assert!(Offer::from_bytes(&[0xa5; LENGTH], Kind::Tcp, Role::Source).is_err());
    }
}
