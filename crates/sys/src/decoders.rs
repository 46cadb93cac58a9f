//! Every decoder of what the kernel writes into our memory, behind one door: fuzz targets come in here, and the decoders themselves stay
//! private.

use crate::cm::ConnectionEvent;
use crate::cm::wire::{ADDRESSES_WORDS, EVENT_WORDS, addresses};
use crate::ethtool::texts;

/// Name and decoder.
type Decoder = (&'static str, fn(&[u8]));

/// All of them. Each takes any bytes, and panics only where the decoder is broken.
pub const DECODERS: [Decoder; 2] =
    [("connection-manager", connection_manager), ("statistic-names", statistic_names)];

/// An event and the addresses of a connection; what is missing is 0.
fn connection_manager(bytes: &[u8]) {
    let event = ConnectionEvent::from_words(&words::<EVENT_WORDS>(bytes));
    drop((event.kind.to_string(), event.private_data));
    addresses(&words::<ADDRESSES_WORDS>(bytes));
}

fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let (words, _) = bytes.as_chunks();
    std::array::from_fn(|at| words.get(at).map_or(0, |word| u32::from_ne_bytes(*word)))
}

/// The number of names (4 bytes, which the kernel's answer has at its front), then the answer.
fn statistic_names(bytes: &[u8]) {
    let Some((count, raw)) = bytes.split_first_chunk() else { return };
    let (words, _) = raw.as_chunks();
    let raw: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    let names = texts(&raw, u32::from_ne_bytes(*count));
    assert!(names.len() <= raw.len() / 4 + 1, "more names than there is room for");
}
