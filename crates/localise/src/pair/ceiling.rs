//! How much payload a port can carry at most: its rate less the headers of every packet.

use rdmascope_model::{EndpointInfo, Fabric};

/// RDMA MTU of a port that is set up well, bytes: the largest that the InfiniBand architecture has. RoCE has it from a network device's MTU
/// of about 4,200 on.
pub const EXPECTED_MTU: u32 = 4_096;

/// Preamble and start delimiter 8, header 14, check sequence 4, gap 12 (IEEE 802.3).
const ETHERNET: u32 = 38;
const IPV4: u32 = 20;
const IPV6: u32 = 40;
const UDP: u32 = 8;
/// With the time-stamp option, which Linux uses by default.
const TCP: u32 = 32;
/// Base transport header 12 and invariant check 4 (InfiniBand architecture, volume 1, chapter 9).
const TRANSPORT: u32 = 16;
/// Local routing header 8, base transport header 12, invariant check 4, variant check 2.
const INFINIBAND: u32 = 26;
/// iWARP: length 2, DDP header of a tagged message 14, check 4 (RFC 5041, RFC 5044).
const IWARP: u32 = 20;

/// MTU to judge by, bytes: the RDMA MTU that is expected, or that of the network device where the bytes travel over TCP.
#[must_use]
pub fn expected_mtu(ends: [&EndpointInfo; 2]) -> u32 {
    match ends[0].fabric {
        Fabric::Roce | Fabric::InfiniBand | Fabric::Simulated => EXPECTED_MTU,
        Fabric::Iwarp | Fabric::Tcp => ends.iter().filter_map(|end| end.netdev_mtu).min().unwrap_or(1_500),
    }
}

/// Largest goodput from one end to the other at this MTU, bits per second; `None` where a port's rate is not known.
#[must_use]
pub fn ceiling_bps(ends: [&EndpointInfo; 2], mtu: u32) -> Option<u64> {
    let rate = ends[0].rate_bps?.min(ends[1].rate_bps?);
    let ipv6 = ends[0].gid.is_some_and(|gid| gid.ip().is_ipv6());
    let ip = if ipv6 { IPV6 } else { IPV4 };
    let (payload, on_the_wire) = match ends[0].fabric {
        Fabric::Roce | Fabric::Simulated => (mtu, mtu + TRANSPORT + UDP + ip + ETHERNET),
        // The rate of InfiniBand is that of data already: the line coding is not in it.
        Fabric::InfiniBand => (mtu, mtu + INFINIBAND),
        Fabric::Iwarp => (mtu.saturating_sub(ip + TCP + IWARP), mtu + ETHERNET),
        Fabric::Tcp => (mtu.saturating_sub(ip + TCP), mtu + ETHERNET),
    };
    let bps = u128::from(rate) * u128::from(payload) / u128::from(on_the_wire.max(1));
    u64::try_from(bps).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(fabric: Fabric, gid: &str) -> EndpointInfo {
        let name = "n0/d0/1".parse().unwrap();
        EndpointInfo {
            rate_bps: Some(100_000_000_000),
            netdev_mtu: Some(9_000),
            gid: Some(gid.parse().unwrap()),
            ..EndpointInfo::bare(name, fabric)
        }
    }

    fn per_mille(fabric: Fabric, gid: &str, mtu: u32) -> u64 {
        let end = end(fabric, gid);
        ceiling_bps([&end, &end], mtu).unwrap() / 100_000_000
    }

    #[test]
    fn the_published_shares_of_the_line_rate_come_out() {
        let v4 = "::ffff:10.0.0.1";
        assert_eq!(per_mille(Fabric::Roce, v4, 4_096), 980, "98.0 %");
        assert_eq!(per_mille(Fabric::Roce, v4, 1_024), 925, "92.6 %, cut off");
        assert_eq!(per_mille(Fabric::Roce, "fd00::1", 4_096), 975, "IPv6 costs 20 bytes more");
        assert_eq!(per_mille(Fabric::InfiniBand, "fe80::1", 4_096), 993);
        assert_eq!(per_mille(Fabric::Tcp, v4, 9_000), 990, "8,948 of 9,038 bytes");
        assert_eq!(per_mille(Fabric::Tcp, v4, 1_500), 941, "the 94.1 % that everybody knows of 1500");
    }

    #[test]
    fn the_slower_port_limits_and_an_unknown_rate_is_no_ceiling() {
        let fast = end(Fabric::Roce, "::ffff:10.0.0.1");
        let slow = EndpointInfo { rate_bps: Some(25_000_000_000), ..fast.clone() };
        assert_eq!(ceiling_bps([&fast, &slow], 4_096), ceiling_bps([&slow, &slow], 4_096));
        let unknown = EndpointInfo { rate_bps: None, ..fast.clone() };
        assert_eq!(ceiling_bps([&fast, &unknown], 4_096), None);
    }

    #[test]
    fn tcp_is_judged_by_the_network_device() {
        let end = end(Fabric::Tcp, "::ffff:10.0.0.1");
        let small = EndpointInfo { netdev_mtu: Some(1_500), ..end.clone() };
        assert_eq!(expected_mtu([&end, &small]), 1_500);
        assert_eq!(expected_mtu([&EndpointInfo { fabric: Fabric::Roce, ..end.clone() }, &small]), 4_096);
    }
}
