//! Conditions under which a log line is a finding: some lines mean something only beside the state of the machine.

use super::place::Place;
use crate::Policy;
use crate::log::Condition;
use rdmascope_model::{Port, PortState, Snapshot};

/// Whether a condition holds; `None` when the machine was not read far enough to say.
pub(super) fn holds(
    condition: Condition,
    place: &Place<'_>,
    line: &str,
    snapshot: &Snapshot,
    policy: &Policy,
) -> Option<bool> {
    match condition {
        Condition::PortDown => Some(port_down(place, policy)),
        Condition::BondDegraded => Some(bond_degraded(snapshot)),
        Condition::PciBelowPortRate => below_port_rate(place, line),
        // Seen from the line itself, before it was counted.
        Condition::OwnProcess => Some(true),
    }
}

/// Down now, though it was in use since the driver was loaded, and neither the manifest nor an operator wants it down. Of a port that
/// nobody knows, nothing is said: spare ports write the same lines.
fn port_down(place: &Place<'_>, policy: &Policy) -> bool {
    let meant = |device| policy.manifest.of(device, place.port).down == Some(true);
    if place.device.is_some_and(meant) {
        return false;
    }
    if let Some((_, netdev)) = place.netdev {
        let was_up = match (netdev.carrier_changes.value(), netdev.carrier_down_count.value()) {
            (Some(changes), Some(downs)) => changes > downs,
            _ => false,
        };
        return netdev.admin_up.value() == Some(&true) && netdev.carrier.value() == Some(&false) && was_up;
    }
    place.port.is_some_and(|port| {
        let down = port.state.value().is_some_and(|state| *state != PortState::Active);
        down && lost_link_before(port)
    })
}

fn lost_link_before(port: &Port) -> bool {
    port.counters.get("link_downed").and_then(|count| count.value()).is_some_and(|count| *count > 0)
}

fn bond_degraded(snapshot: &Snapshot) -> bool {
    let bonds = snapshot.netdevs.value().into_iter().flatten().filter_map(|(_, n)| n.bond.value());
    bonds.flat_map(|bond| &bond.members).any(|member| {
        member.mii_status.value().is_some_and(|status| status != "up")
            || member.aggregated.value() == Some(&false)
    })
}

/// The number in `63.008 Gb/s available PCIe bandwidth` against the rate of the port.
fn below_port_rate(place: &Place<'_>, line: &str) -> Option<bool> {
    let (before, _) = line.split_once(" Gb/s available PCIe bandwidth")?;
    let available: f64 = before.rsplit(' ').next()?.parse().ok()?;
    let from_netdev =
        place.netdev.and_then(|(_, n)| n.ethtool.speed_mbps.value().map(|m| f64::from(*m) / 1e3));
    // A rate in Gb/s has three digits: nothing is lost in a float.
    let from_port = place.port.and_then(|p| p.rate_bps.value().map(|bps| *bps as f64 / 1e9));
    Some(available < from_port.or(from_netdev)?)
}
