//! Reads and writes netlink attributes (type, length, value); input that is too short or wrong ends the list and never panics.

use netlink_packet_core::{NLA_F_NESTED, NLA_HEADER_SIZE, NLA_TYPE_MASK};

/// A list of attributes, one after the other, each padded to 4 bytes (`include/uapi/linux/netlink.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Attributes<'a> {
    /// Type and value of each, in their order, up to the first whose length cannot be.
    pub(crate) fn iter(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let header = rest.get(..NLA_HEADER_SIZE)?;
            let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
            let kind = u16::from_ne_bytes([header[2], header[3]]) & NLA_TYPE_MASK;
            let value = rest.get(NLA_HEADER_SIZE..length)?;
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            Some((kind, value))
        })
    }

    /// The bytes of the first attribute of this type.
    pub(crate) fn bytes(self, kind: u16) -> Option<&'a [u8]> {
        self.iter().find(|(found, _)| *found == kind).map(|(_, value)| value)
    }

    /// The bytes of an attribute that has at least `N`; newer kernels may append to a structure.
    pub(crate) fn array<const N: usize>(self, kind: u16) -> Option<[u8; N]> {
        self.bytes(kind)?.get(..N)?.try_into().ok()
    }

    /// The list in a nested attribute; an empty one when it is not there.
    pub(crate) fn nested(self, kind: u16) -> Self {
        Self(self.bytes(kind).unwrap_or_default())
    }

    /// A number of 8 bits.
    pub(crate) fn u8(self, kind: u16) -> Option<u8> {
        self.array::<1>(kind).map(|[byte]| byte)
    }

    /// A number of 16 bits.
    pub(crate) fn u16(self, kind: u16) -> Option<u16> {
        self.array(kind).map(u16::from_ne_bytes)
    }

    /// A number of 32 bits.
    pub(crate) fn u32(self, kind: u16) -> Option<u32> {
        self.array(kind).map(u32::from_ne_bytes)
    }

    /// A number of 64 bits.
    pub(crate) fn u64(self, kind: u16) -> Option<u64> {
        self.array(kind).map(u64::from_ne_bytes)
    }

    /// A text up to its 0 byte; `None` too when it is no UTF-8.
    pub(crate) fn text(self, kind: u16) -> Option<&'a str> {
        let bytes = self.bytes(kind)?;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        std::str::from_utf8(&bytes[..end]).ok()
    }
}

/// Attributes that are being written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// Appends an attribute.
    ///
    /// # Panics
    /// When the value is longer than an attribute can be (65,531 bytes): we ask with names and numbers.
    #[must_use]
    pub(crate) fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        let length =
            u16::try_from(NLA_HEADER_SIZE + value.len()).expect("an attribute has 16 bits of length");
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Appends a number of 8 bits.
    #[must_use]
    pub(crate) fn u8(self, kind: u16, value: u8) -> Self {
        self.bytes(kind, &[value])
    }

    /// Appends a number of 32 bits.
    #[must_use]
    pub(crate) fn u32(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// Appends a text with its 0 byte.
    #[must_use]
    pub(crate) fn text(self, kind: u16, value: &str) -> Self {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// Appends a list as one attribute.
    #[must_use]
    pub(crate) fn nested(self, kind: u16, inner: &Self) -> Self {
        self.bytes(kind | NLA_F_NESTED, &inner.0)
    }

    /// What was written.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let inner = Writer::default().u8(1, 7).text(2, "eth0");
        let all = Writer::default().u32(3, 0x0102_0304).nested(4, &inner).bytes(5, &9_u64.to_ne_bytes());
        let read = Attributes(all.as_bytes());
        assert_eq!((read.u32(3), read.u64(5)), (Some(0x0102_0304), Some(9)));
        assert_eq!((read.nested(4).u8(1), read.nested(4).text(2)), (Some(7), Some("eth0")));
        // The nested list is found although its type carries a flag, and its first value is padded to 4 bytes.
        assert_eq!(read.nested(4).0.len(), 8 + 12);
        assert_eq!((read.u32(9), read.nested(9).iter().count()), (None, 0));
    }

    #[test]
    fn short_and_wrong_lists_end_early() {
        let whole = Writer::default().u32(1, 5).u32(2, 6);
        for length in 0..whole.as_bytes().len() {
            let cut = Attributes(&whole.as_bytes()[..length]);
            assert_eq!(cut.iter().count(), length / 8, "{length}");
        }
        // A length below that of the header would never come to an end.
        assert_eq!(Attributes(&[0, 0, 1, 0, 9, 9, 9, 9]).iter().count(), 0);
        assert_eq!(Attributes(&[3, 0, 1, 0, 9, 9, 9, 9]).iter().count(), 0);
        // A value shorter than the number that is asked for.
        assert_eq!(Attributes(Writer::default().u8(1, 5).as_bytes()).u32(1), None);
        assert_eq!(Attributes(&[6, 0, 1, 0, 0xff, 0xfe, 0, 0]).text(1), None);
    }
}
