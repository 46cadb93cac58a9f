//! Who sent a datagram: the 40 bytes that a receive of a datagram queue pair puts before the payload.

use rdmascope_model::Gid;
use std::net::Ipv4Addr;

/// Bytes before the payload, filled or not.
pub const GRH_BYTES: usize = 40;

/// The sender's GID from the area before the payload; `None` when neither layout is there.
///
/// InfiniBand and RoCE v2 over IPv6 fill it from byte 0 (version 6, the source at 8..24); RoCE v2 over IPv4 leaves 20
/// bytes and then puts the IPv4 header (`union rdma_network_hdr` in Linux's `include/rdma/ib_verbs.h`; rxe and mlx5 do
/// the same). What stands in the 20 bytes is not defined, so the IPv4 header is believed only when its checksum fits.
#[must_use]
pub fn source_gid(area: &[u8; GRH_BYTES]) -> Option<Gid> {
    let v4: [u8; 20] = area[20..].try_into().ok()?;
    if v4[0] == 0x45 && ipv4_sum(&v4) == 0xffff {
        return Some(Gid::from(std::net::IpAddr::V4(Ipv4Addr::new(v4[12], v4[13], v4[14], v4[15]))));
    }
    if area[0] >> 4 == 6 {
        return Some(Gid(area[8..24].try_into().ok()?));
    }
    // A device may hand the header over without its checksum: then all else must fit.
    let plain = area[..20] == [0; 20] && v4[0] == 0x45 && v4[9] == UDP;
    plain.then(|| Gid::from(std::net::IpAddr::V4(Ipv4Addr::new(v4[12], v4[13], v4[14], v4[15]))))
}

const UDP: u8 = 17;

/// One's complement sum of an IPv4 header (RFC 1071): 0xffff when its checksum fits.
fn ipv4_sum(header: &[u8; 20]) -> u16 {
    let words = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 header: 10.8.0.1 to 10.8.0.2, UDP, with its checksum.
    fn ipv4() -> [u8; 20] {
        let mut header = [0x45, 0, 0, 0x74, 0, 0, 0x40, 0, 64, UDP, 0, 0, 10, 8, 0, 1, 10, 8, 0, 2];
        let sum = !ipv4_sum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    }

    fn area(front: [u8; 20], back: [u8; 20]) -> [u8; GRH_BYTES] {
        let mut area = [0; GRH_BYTES];
        area[..20].copy_from_slice(&front);
        area[20..].copy_from_slice(&back);
        area
    }

    #[test]
    fn both_layouts_name_the_sender() {
        let v4: Gid = "::ffff:10.8.0.1".parse().unwrap();
        assert_eq!(source_gid(&area([0; 20], ipv4())), Some(v4), "zeros first");
        assert_eq!(source_gid(&area([0xa5; 20], ipv4())), Some(v4), "whatever was there before");
        let mut v6 = [0_u8; GRH_BYTES];
        let (source, target): (Gid, Gid) = ("fe80::1:2".parse().unwrap(), "fe80::3:4".parse().unwrap());
        v6[0] = 0x60;
        v6[8..24].copy_from_slice(&source.0);
        v6[24..].copy_from_slice(&target.0);
        assert_eq!(source_gid(&v6), Some(source));
    }

    #[test]
    fn an_ipv6_header_left_from_before_does_not_hide_an_ipv4_header() {
        let mut front = [0; 20];
        front[0] = 0x60;
        assert_eq!(source_gid(&area(front, ipv4())), Some("::ffff:10.8.0.1".parse().unwrap()));
    }

    #[test]
    fn a_header_without_its_checksum_is_believed_only_behind_zeros() {
        let mut bare = ipv4();
        bare[10..12].copy_from_slice(&[0, 0]);
        assert!(source_gid(&area([0; 20], bare)).is_some());
        assert_eq!(source_gid(&area([0xa5; 20], bare)), None);
        let mut tcp = bare;
        tcp[9] = 6;
        assert_eq!(source_gid(&area([0; 20], tcp)), None);
    }

    #[test]
    fn an_area_that_nobody_filled_names_nobody() {
        assert_eq!(source_gid(&[0; GRH_BYTES]), None);
        assert_eq!(source_gid(&[0xff; GRH_BYTES]), None);
    }
}
