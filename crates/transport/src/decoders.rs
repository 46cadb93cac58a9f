//! Every decoder of what a peer or the kernel says here, behind one door: fuzz targets come in here, and the decoders themselves stay
//! private.

use crate::sockets::{Kind, Token};
use crate::{echo, mesh, sockets, verbs};
use rdmascope_model::Role;

/// Name and decoder.
type Decoder = (&'static str, fn(&[u8]));

/// All of them. Each takes any bytes, and panics only where the decoder, or what it promises, is broken.
pub const DECODERS: [Decoder; 3] =
    [("echo-datagrams", echo_datagrams), ("offers", offers), ("scheduler-statistics", scheduler_statistics)];

/// The probe's token, then a datagram.
fn echo_datagrams(bytes: &[u8]) {
    let Some((token, datagram)) = bytes.split_first_chunk::<{ size_of::<Token>() }>() else { return };
    let Some(header) = echo::datagram::Header::read(token, datagram) else { return };
    let mut again = [0; echo::datagram::HEADER_BYTES];
    header.write(token, &mut again);
    assert_eq!(echo::datagram::Header::read(token, &again), Some(header), "a header changes");
}

/// An offer of any transport, read by both ends; what is accepted is what it would make itself.
fn offers(bytes: &[u8]) {
    for own in [Role::Source, Role::Target] {
        for kind in [Kind::Tcp, Kind::Echo] {
            if let Ok(offer) = sockets::Offer::from_bytes(bytes, kind, own) {
                assert_eq!(offer.to_bytes(kind), bytes, "{kind:?}");
            }
        }
        if let Ok(offer) = mesh::offer::Offer::from_bytes(bytes, own) {
            assert_eq!(offer.to_bytes(), bytes);
        }
        for plain in [true, false] {
            let without_door = verbs::cm::split(bytes).map(|(offer, _)| offer);
            for bytes in [Ok(bytes), without_door].into_iter().flatten() {
                if let Ok(offer) = verbs::offer::Offer::from_bytes(bytes, own, plain) {
                    assert_eq!(offer.to_bytes(plain), bytes);
                }
            }
        }
    }
}

fn scheduler_statistics(bytes: &[u8]) {
    mesh::waited::parse(bytes);
}
