//! GIDs: the 128-bit addresses of RDMA ports, and which of them is which kind.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A 128-bit port address in network byte order (InfiniBand Architecture Specification, volume 1, 4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The IP address that a RoCE v2 GID stands for: IPv4 for `::ffff:a.b.c.d`, else IPv6.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        let v6 = Ipv6Addr::from(self.0);
        v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
    }

    /// All zeros: an empty slot of the GID table.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 16]
    }

    /// `fe80::/10`: reaches the same link only.
    #[must_use]
    pub fn is_link_local(&self) -> bool {
        self.0[0] == 0xfe && self.0[1] & 0xc0 == 0x80
    }
}

impl From<IpAddr> for Gid {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v4) => Self(v4.to_ipv6_mapped().octets()),
            IpAddr::V6(v6) => Self(v6.octets()),
        }
    }
}

impl From<Ipv4Addr> for Gid {
    fn from(v4: Ipv4Addr) -> Self {
        IpAddr::V4(v4).into()
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from(self.0).fmt(f)
    }
}

/// The text is not a GID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GidError(String);

impl fmt::Display for GidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a GID (eight groups of hexadecimal digits, as in an IPv6 address)", self.0)
    }
}

impl std::error::Error for GidError {}

impl FromStr for Gid {
    type Err = GidError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.trim()
            .parse::<Ipv6Addr>()
            .map(|ip| Self(ip.octets()))
            .map_err(|_| GidError(text.trim().to_owned()))
    }
}

/// What a GID table entry is for (`gid_attrs/types/N` in sysfs).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GidType {
    /// InfiniBand, or RoCE v1 on Ethernet: the kernel prints `IB/RoCE v1` for both.
    IbOrRoceV1,
    /// RoCE v2: routable, over UDP port 4791.
    RoceV2,
    /// A word that this program does not know, as the kernel printed it.
    Other(String),
}

/// One used slot of a port's GID table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// Slot number. It moves when addresses change: never keep it, choose by address.
    pub index: u32,
    /// The address itself.
    pub gid: Gid,
    /// Its type.
    pub kind: super::Reading<GidType>,
    /// The network device that it belongs to.
    pub netdev: super::Reading<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roce_gid_is_the_ip_address_of_its_netdev() {
        let gid: Gid = "0000:0000:0000:0000:0000:ffff:0a08:0001".parse().unwrap();
        assert_eq!(gid.ip(), IpAddr::from([10, 8, 0, 1]));
        assert_eq!(Gid::from(IpAddr::from([10, 8, 0, 1])), gid);
        assert_eq!(gid.to_string(), "::ffff:10.8.0.1");
    }

    #[test]
    fn link_local_and_empty_slots_are_recognised() {
        assert!("fe80::1".parse::<Gid>().unwrap().is_link_local());
        assert!(!"fec0::1".parse::<Gid>().unwrap().is_link_local());
        assert!("::".parse::<Gid>().unwrap().is_zero());
        assert_eq!(
            "no".parse::<Gid>().unwrap_err().to_string(),
            "'no' is not a GID (eight groups of hexadecimal digits, as in an IPv6 address)"
        );
    }
}
