//! The first bytes of each datagram: token (16), kind (1), reserved (3), number (4), and how many the target heard (4), big endian.

use crate::sockets::Token;

/// The shortest datagram.
pub(crate) const HEADER_BYTES: usize = 28;
const KIND_AT: usize = 16;
const NUMBER_AT: usize = 20;
const HEARD_AT: usize = 24;

/// What a datagram is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// To be sent back as it is.
    Echo = 1,
    /// How many were heard? Sent back too.
    Count = 2,
    /// The source knows all that it needs.
    Over = 3,
}

/// What a datagram of the own probe says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(super) kind: Kind,
    pub(super) number: u32,
    pub(super) heard: u32,
}

impl Header {
    pub(crate) fn write(&self, token: &Token, datagram: &mut [u8]) {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..KIND_AT].copy_from_slice(token);
        bytes[KIND_AT] = self.kind as u8;
        bytes[NUMBER_AT..HEARD_AT].copy_from_slice(&self.number.to_be_bytes());
        bytes[HEARD_AT..].copy_from_slice(&self.heard.to_be_bytes());
        datagram.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    }

    /// `None` for what is not of this probe.
    pub(crate) fn read(token: &Token, datagram: &[u8]) -> Option<Self> {
        let header = datagram.first_chunk::<HEADER_BYTES>()?;
        let number = |at: usize| Some(u32::from_be_bytes(*header.get(at..)?.first_chunk()?));
        let kind = [Kind::Echo, Kind::Count, Kind::Over].into_iter().find(|k| *k as u8 == header[KIND_AT])?;
        header.starts_with(token).then_some(())?;
        Some(Self { kind, number: number(NUMBER_AT)?, heard: number(HEARD_AT)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_and_strangers_are_not_heard() {
        let header = Header { kind: Kind::Count, number: 0x0102_0304, heard: 5 };
        let mut datagram = [0xff; 64];
        header.write(&[7; 16], &mut datagram);
        assert_eq!(Header::read(&[7; 16], &datagram), Some(header));
        assert_eq!(Header::read(&[8; 16], &datagram), None);
        assert_eq!(Header::read(&[7; 16], &datagram[..HEADER_BYTES - 1]), None);
        datagram[KIND_AT] = 4;
        assert_eq!(Header::read(&[7; 16], &datagram), None);
    }
}
