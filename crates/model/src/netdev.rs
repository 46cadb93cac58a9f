//! A network device and its settings as they were read at one instant.

use crate::{Dcb, Reading};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A network device, as rtnetlink, ethtool and sysfs show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Netdev {
    /// Kernel index.
    pub index: Reading<u32>,
    /// MTU in bytes.
    pub mtu: Reading<u32>,
    /// Operational state word of RFC 2863, such as `up` or `lowerlayerdown`.
    pub oper_state: Reading<String>,
    /// Administratively up (IFF_UP).
    pub admin_up: Reading<bool>,
    /// Carrier present while up (IFF_LOWER_UP).
    pub carrier: Reading<bool>,
    /// How often the carrier changed since the device was made (each loss and each return counts).
    pub carrier_changes: Reading<u32>,
    /// How often the carrier was lost since the device was made.
    pub carrier_down_count: Reading<u32>,
    /// Bytes sent since the device was made.
    pub tx_bytes: Reading<u64>,
    /// Bytes received since the device was made.
    pub rx_bytes: Reading<u64>,
    /// Its IP addresses, the primary one of each family first, as the kernel lists them.
    pub addresses: Reading<Vec<Address>>,
    /// Hardware kind (`ARPHRD_*`, `include/uapi/linux/if_arp.h`): 1 Ethernet, 32 InfiniBand.
    pub hardware: Reading<u16>,
    /// Kind of a made device (`IFLA_INFO_KIND`), such as `vlan`, `bond`, `macvlan`; `Absent` on real ones.
    pub kind: Reading<String>,
    /// The bond or bridge that it is a member of.
    pub master: Reading<String>,
    /// The device that it is stacked on (VLAN, macvlan).
    pub parent: Reading<String>,
    /// PCI function that it belongs to; absent on made devices.
    pub pci_address: Reading<String>,
    /// Kernel driver of that function.
    pub driver: Reading<String>,
    /// Name of the physical port as the driver gives it, such as `p0` or `pf0vf1` (a representor).
    pub phys_port_name: Reading<String>,
    /// Port of a PCI function with several ports, counted from 0 (`dev_port`): the physical port is this, not the name's number.
    pub dev_port: Reading<u32>,
    /// A bond's members and mode; `Absent` on all others.
    pub bond: Reading<Bond>,
    /// `net.ipv4.conf.NAME.arp_ignore`.
    pub arp_ignore: Reading<u32>,
    /// `net.ipv4.conf.NAME.arp_announce`.
    pub arp_announce: Reading<u32>,
    /// `net.ipv4.conf.NAME.rp_filter`.
    pub rp_filter: Reading<u32>,
    /// What `ethtool NAME`, `ethtool -a` and `ethtool --show-fec` say.
    pub ethtool: Ethtool,
    /// `ethtool -S`: name and value of every statistic that the counter catalogue knows. Names come and go: priority pause counters
    /// exist only while PFC is on for the priority.
    pub statistics: Reading<BTreeMap<String, u64>>,
    /// Transceiver or cable.
    pub module: Reading<Module>,
    /// Data centre bridging; `Absent` where the driver has none.
    pub dcb: Reading<Dcb>,
    /// ECN for RoCE per priority and the DSCP of CNPs.
    pub ecn: Ecn,
    /// The neighbour at the other end of the cable, where it says so by LLDP.
    pub lldp: Reading<Lldp>,
}

/// An IP address with the length of its network prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Bits of the prefix.
    pub prefix: u8,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

/// The text is not an IP address with a prefix length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError(String);

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not an IP address with the length of its prefix, such as 192.0.2.1/24", self.0)
    }
}

impl std::error::Error for AddressError {}

impl FromStr for Address {
    type Err = AddressError;

    /// `192.0.2.1/24`; without a length the address stands for itself alone.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || AddressError(text.to_owned());
        let (ip, length) = text.split_once('/').map_or((text, None), |(ip, length)| (ip, Some(length)));
        let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
        let whole = if ip.is_ipv4() { 32 } else { 128 };
        let prefix = length.map_or(Ok(whole), str::parse).map_err(|_| wrong())?;
        if prefix > whole { Err(wrong()) } else { Ok(Self { ip, prefix }) }
    }
}

/// A bond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bond {
    /// Such as `802.3ad` or `active-backup`.
    pub mode: Reading<String>,
    /// Its members in their order.
    pub members: Vec<BondMember>,
}

/// One member of a bond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BondMember {
    /// Network device.
    pub name: String,
    /// MII status word: `up`, `down`, `going back` ...
    pub mii_status: Reading<String>,
    /// Losses of its link since it joined.
    pub link_failures: Reading<u64>,
    /// 802.3ad: it is in the active aggregator (same aggregator id as the bond).
    pub aggregated: Reading<bool>,
}

/// Link settings and state by ethtool netlink (`Documentation/networking/ethtool-netlink.rst`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ethtool {
    /// Speed in Mbit/s; `Absent` when the link is down or the driver does not say (-1).
    pub speed_mbps: Reading<u32>,
    /// Autonegotiation is on.
    pub autonegotiation: Reading<bool>,
    /// Physical link is there.
    pub link: Reading<bool>,
    /// Why there is none (`ETHTOOL_A_LINKSTATE_EXT_STATE` in words), such as `no cable`.
    pub link_down_reason: Reading<String>,
    /// FEC in use, such as `RS`, `LLRS`, `BaseR`, `off`.
    pub fec: Reading<String>,
    /// Global pause frames are honoured (802.3x).
    pub pause_rx: Reading<bool>,
    /// Global pause frames are sent (802.3x).
    pub pause_tx: Reading<bool>,
}

/// A transceiver or cable (SFF-8636, SFF-8472, CMIS).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// SFF-8024 identifier in words, such as `QSFP28`, `QSFP-DD`, `OSFP`.
    pub identifier: String,
    /// Vendor's name and part number.
    pub vendor: String,
    /// Serial number; empty where it has none. Captures do not keep it.
    pub serial: String,
    /// Temperature in thousandths of a degree Celsius.
    pub temperature_mc: Reading<i32>,
    /// High alarm threshold of the temperature, thousandths of a degree Celsius.
    pub temperature_alarm_mc: Reading<i32>,
    /// Received power of each lane in nanowatt.
    pub rx_power_nw: Reading<Vec<u64>>,
    /// Low alarm threshold of the received power, nanowatt.
    pub rx_power_alarm_nw: Reading<u64>,
}

/// ECN for RoCE, per priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ecn {
    /// Priorities for which the notification point (the receiver, which sends CNPs) is on, bit 0 = priority 0.
    pub notification_point: Reading<u8>,
    /// Priorities for which the reaction point (the sender, which slows down) is on.
    pub reaction_point: Reading<u8>,
    /// DSCP of the CNPs that this port sends.
    pub cnp_dscp: Reading<u8>,
}

/// What the neighbour at the other end of the cable says of itself (IEEE 802.1AB).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lldp {
    /// System name of the switch.
    pub system: Reading<String>,
    /// Its port.
    pub port: Reading<String>,
    /// Largest frame that the port takes, bytes (802.3 TLV).
    pub frame_bytes_max: Reading<u32>,
    /// Priorities for which PFC is on at the port (DCBX TLV).
    pub pfc: Reading<u8>,
    /// How old the answer is, seconds.
    pub age_seconds: u32,
}

impl Netdev {
    /// A network device of which nothing could be read, for one reason.
    #[must_use]
    pub fn unread(why: &str) -> Self {
        Self {
            index: Reading::failed(why),
            mtu: Reading::failed(why),
            oper_state: Reading::failed(why),
            admin_up: Reading::failed(why),
            carrier: Reading::failed(why),
            carrier_changes: Reading::failed(why),
            carrier_down_count: Reading::failed(why),
            tx_bytes: Reading::failed(why),
            rx_bytes: Reading::failed(why),
            addresses: Reading::failed(why),
            hardware: Reading::failed(why),
            kind: Reading::failed(why),
            master: Reading::failed(why),
            parent: Reading::failed(why),
            pci_address: Reading::failed(why),
            driver: Reading::failed(why),
            phys_port_name: Reading::failed(why),
            dev_port: Reading::failed(why),
            bond: Reading::failed(why),
            arp_ignore: Reading::failed(why),
            arp_announce: Reading::failed(why),
            rp_filter: Reading::failed(why),
            ethtool: Ethtool::unread(why),
            statistics: Reading::failed(why),
            module: Reading::failed(why),
            dcb: Reading::failed(why),
            ecn: Ecn::unread(why),
            lldp: Reading::failed(why),
        }
    }
}

impl Ethtool {
    /// Nothing of it could be read, for one reason.
    #[must_use]
    pub fn unread(why: &str) -> Self {
        Self {
            speed_mbps: Reading::failed(why),
            autonegotiation: Reading::failed(why),
            link: Reading::failed(why),
            link_down_reason: Reading::failed(why),
            fec: Reading::failed(why),
            pause_rx: Reading::failed(why),
            pause_tx: Reading::failed(why),
        }
    }
}

impl Ecn {
    /// Nothing of it could be read, for one reason.
    #[must_use]
    pub fn unread(why: &str) -> Self {
        Self {
            notification_point: Reading::failed(why),
            reaction_point: Reading::failed(why),
            cnp_dscp: Reading::failed(why),
        }
    }
}
