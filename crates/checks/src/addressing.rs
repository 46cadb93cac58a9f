//! Which GID of a RoCE port can be used: the one rule, for the check and for the probes.

use rdmascope_model::{Device, GidEntry, GidType, Netdev, Port, Reading};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// There is no GID to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoGid {
    /// Everything was read, and none is there; in words, what was looked for.
    Missing(String),
    /// Something could not be read; in words, what and why.
    Unread(String),
}

impl NoGid {
    /// The words.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Missing(words) | Self::Unread(words) => words,
        }
    }
}

/// iWARP runs over TCP connections: it has no RoCE GID and needs none.
#[must_use]
pub fn is_iwarp(device: &Device) -> bool {
    device.node_type.value().is_some_and(|kind| kind == "RNIC")
}

/// The RoCE v2 entry whose address is one of its network device's: the port's own device before those stacked on it (VLAN), IPv4
/// before IPv6, the primary address before the others. The slot number plays no part, because it moves when addresses do; a
/// link-local address is never used, because it reaches one link only and is the same on several ports.
///
/// # Errors
/// When there is none, or when that cannot be told.
pub fn usable_gid<'a>(
    netdevs: &Reading<BTreeMap<String, Netdev>>,
    port: &'a Port,
) -> Result<&'a GidEntry, NoGid> {
    let unread =
        |what: &str, why: Option<&str>| NoGid::Unread(format!("{what}: {}", why.unwrap_or_default()));
    let Reading::Value(gids) = &port.gids else {
        return Err(unread("the GID table could not be read", port.gids.why_missing()));
    };
    let Reading::Value(netdevs) = netdevs else {
        return Err(unread("the network devices' addresses could not be read", netdevs.why_missing()));
    };
    let rank = |entry: &GidEntry| {
        let name = entry.netdev.value()?;
        let place =
            netdevs.get(name)?.addresses.value()?.iter().position(|address| address.ip == entry.gid.ip())?;
        let stacked = port.netdev.value() != Some(name);
        Some((stacked, matches!(entry.gid.ip(), IpAddr::V6(_)), place))
    };
    gids.iter()
        .filter(|entry| entry.kind.value() == Some(&GidType::RoceV2) && !entry.gid.is_link_local())
        .filter_map(|entry| Some((rank(entry)?, entry)))
        .min_by_key(|(rank, _)| *rank)
        .map(|(_, entry)| entry)
        .ok_or_else(|| nothing_found(netdevs, port, gids))
}

fn nothing_found(netdevs: &BTreeMap<String, Netdev>, port: &Port, gids: &[GidEntry]) -> NoGid {
    let odd_attribute = gids.iter().find_map(|e| e.kind.why_missing().or(e.netdev.why_missing()));
    if let Some(why) = port.gids_unread.first().map(String::as_str).or(odd_attribute) {
        return NoGid::Unread(format!("a part of the GID table could not be read: {why}"));
    }
    let Reading::Value(name) = &port.netdev else {
        let why = port.netdev.why_missing().unwrap_or_default();
        return NoGid::Unread(format!("the port's network device is not known: {why}"));
    };
    match netdevs.get(name).map(|netdev| &netdev.addresses) {
        None => NoGid::Unread(format!("the network device {name} is not in this network namespace")),
        Some(Reading::Value(addresses)) if addresses.is_empty() => {
            NoGid::Missing(format!("{name} has no IP address"))
        }
        Some(Reading::Value(addresses)) => {
            let list: Vec<String> = addresses.iter().map(|address| address.ip.to_string()).collect();
            NoGid::Missing(format!(
                "no RoCE v2 GID for an address of {name} that is not link-local ({name} has {})",
                list.join(", ")
            ))
        }
        Some(missing) => NoGid::Unread(format!(
            "the addresses of {name} could not be read: {}",
            missing.why_missing().unwrap_or_default()
        )),
    }
}
