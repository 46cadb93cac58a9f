//! One RDMA port that can be probed, and its name.

use crate::{Cause, DatagramAddress, Gid, LabelBy, Reading};
use std::fmt;
use std::str::FromStr;

/// Longest node or device name that is accepted: a DNS name has at most 253 characters.
const NAME_LENGTH_MAX: usize = 253;

/// The name of an endpoint, written `NODE/DEVICE/PORT`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointName {
    /// Node, as the agent calls itself.
    pub node: String,
    /// RDMA device, such as `mlx5_0`.
    pub device: String,
    /// Port number, from 1.
    pub port: u8,
}

impl fmt::Display for EndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.node, self.device, self.port)
    }
}

/// The text is not an endpoint name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointNameError(String);

impl fmt::Display for EndpointNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not an endpoint name: write NODE/DEVICE/PORT, such as node7/mlx5_0/1", self.0)
    }
}

impl std::error::Error for EndpointNameError {}

impl FromStr for EndpointName {
    type Err = EndpointNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || EndpointNameError(text.chars().take(80).collect());
        let parts: Vec<&str> = text.split('/').collect();
        let [node, device, port] = parts[..] else { return Err(wrong()) };
        let good = |s: &str| !s.is_empty() && s.len() <= NAME_LENGTH_MAX && s.chars().all(is_name_char);
        let port: u8 = port.parse().map_err(|_| wrong())?;
        if !good(node) || !good(device) || port == 0 {
            return Err(wrong());
        }
        Ok(Self { node: node.to_owned(), device: device.to_owned(), port })
    }
}

/// Letters, digits and the marks that host and device names use: nothing that a terminal, a label or a URL could trip over.
fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '@')
}

/// How an endpoint is addressed and probed: only endpoints of the same fabric kind are paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fabric {
    /// RDMA over Ethernet, RoCE v2.
    Roce,
    /// InfiniBand.
    InfiniBand,
    /// RDMA over TCP, iWARP: connected through rdma_cm, no datagrams.
    Iwarp,
    /// Plain TCP: no RDMA is measured.
    Tcp,
    /// The simulated fabric of tests and `rdmascope simulate`.
    Simulated,
}

impl Fabric {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Roce, Self::InfiniBand, Self::Iwarp, Self::Tcp, Self::Simulated];

    /// The word used on the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Roce => "roce",
            Self::InfiniBand => "infiniband",
            Self::Iwarp => "iwarp",
            Self::Tcp => "tcp",
            Self::Simulated => "simulated",
        }
    }
}

/// The port of a switch that an endpoint's cable ends in, as the switch says itself by LLDP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SwitchPort {
    /// Name of the switch. A bond over two switches has both, `leaf1+leaf2`: they are one leaf to whoever is behind it.
    pub switch: String,
    /// Its port, in its own words; `None` where it does not say.
    pub port: Option<String>,
}

/// What an agent tells about one of its endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointInfo {
    /// Its name.
    pub name: EndpointName,
    /// Fabric kind.
    pub fabric: Fabric,
    /// Chosen address: the RoCE v2 GID of the netdev's IP, or the InfiniBand GID; of iWARP the netdev's IP, written as a GID.
    pub gid: Option<Gid>,
    /// Network device underneath, where there is one.
    pub netdev: Option<String>,
    /// MTU of that network device, bytes.
    pub netdev_mtu: Option<u32>,
    /// RDMA MTU in use, bytes.
    pub active_mtu: Option<u32>,
    /// Signalling rate, bits per second.
    pub rate_bps: Option<u64>,
    /// Where its datagrams go; `None` when it takes none, or is not open yet.
    pub datagrams: Option<DatagramAddress>,
    /// PCI address of its device; `None` on software devices, and where it could not be read.
    pub pci_address: Option<String>,
    /// The rail that the manifest of its node gives it.
    pub rail: Option<String>,
    /// The switch port that it hangs on; `Absent` where no switch says so.
    pub switch_port: Reading<SwitchPort>,
    /// What moves its connections onto another path.
    pub connections_labelled_by: LabelBy,
    /// What moves its datagrams onto another path.
    pub datagrams_labelled_by: LabelBy,
    /// Why it cannot be probed now; `None` when it can.
    pub unusable: Option<Cause>,
    /// In words, what makes it unusable (state read, address looked for).
    pub unusable_detail: String,
}

impl EndpointInfo {
    /// An endpoint that can be probed and of which nothing else is known.
    #[must_use]
    pub fn bare(name: EndpointName, fabric: Fabric) -> Self {
        Self {
            name,
            fabric,
            gid: None,
            netdev: None,
            netdev_mtu: None,
            active_mtu: None,
            rate_bps: None,
            datagrams: None,
            pci_address: None,
            rail: None,
            switch_port: Reading::Absent,
            connections_labelled_by: LabelBy::Unknown,
            datagrams_labelled_by: LabelBy::Unknown,
            unusable: None,
            unusable_detail: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_they_are_written() {
        let name: EndpointName = "node-7.rack1/mlx5_bond_0/1".parse().unwrap();
        assert_eq!((name.node.as_str(), name.device.as_str(), name.port), ("node-7.rack1", "mlx5_bond_0", 1));
        assert_eq!(name.to_string(), "node-7.rack1/mlx5_bond_0/1");
    }

    #[test]
    fn names_that_would_break_a_label_or_a_terminal_are_refused() {
        for bad in ["", "a/b", "a/b/0", "a/b/x", "a b/c/1", "a/\u{1b}[2J/1", "a/b/1/2", "/b/1", "a\"/b/1"] {
            assert!(bad.parse::<EndpointName>().is_err(), "{bad:?} was accepted");
        }
    }
}
