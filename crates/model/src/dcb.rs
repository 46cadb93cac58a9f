//! Data centre bridging of a port (IEEE 802.1Qaz): which priorities are lossless, and which traffic gets which priority.

use crate::Reading;
use std::collections::BTreeMap;

/// Settings of one port, as `RTM_GETDCB` gives them (`net/dcb/dcbnl.c`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dcb {
    /// Priorities for which priority flow control is on, bit 0 = priority 0.
    pub pfc: Reading<u8>,
    /// How many priorities can have it at once.
    pub pfc_max: Reading<u8>,
    /// Enhanced transmission selection.
    pub ets: Reading<Ets>,
    /// DSCP to priority (application entries with selector 5).
    pub dscp: Reading<BTreeMap<u8, u8>>,
    /// What decides a packet's priority.
    pub trust: Reading<Trust>,
    /// Who may change the settings: the host, or the adapter's firmware by LLDP.
    pub firmware_controlled: Reading<bool>,
    /// Receive buffers, where the driver shows them.
    pub buffers: Reading<Buffers>,
}

/// Enhanced transmission selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ets {
    /// Traffic class of each priority.
    pub class_of: [u8; 8],
    /// Bandwidth share of each traffic class, per cent; counts where `strict` is false.
    pub share: [u8; 8],
    /// Traffic classes that are served before all others (strict priority).
    pub strict: [bool; 8],
}

/// What decides a packet's priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The VLAN tag's priority bits.
    Pcp,
    /// The IP header's DSCP.
    Dscp,
}

/// Receive buffers of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Buffer of each priority.
    pub buffer_of: [u8; 8],
    /// Size of each buffer, bytes.
    pub bytes: [u32; 8],
}

/// The priorities of a mask as a list such as `3,5`, or `none`.
#[must_use]
pub fn priorities(mask: u8) -> String {
    let on: Vec<String> =
        (0..8).filter(|bit| mask & (1 << bit) != 0).map(|bit: u8| bit.to_string()).collect();
    if on.is_empty() { "none".to_owned() } else { on.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_listed() {
        assert_eq!((priorities(0b10_1000).as_str(), priorities(0).as_str()), ("3,5", "none"));
        assert_eq!(priorities(0xff), "0,1,2,3,4,5,6,7");
    }
}
