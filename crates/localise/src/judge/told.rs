//! What nodes tell of themselves: which of their findings explain which effect. It wins over what the matrix lets one guess.

use crate::{Component, Effect, Reason};
use rdmascope_model::Status;

/// A finding, and the part of the cluster that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// An endpoint, or a node.
    pub component: Component,
    /// The finding.
    pub reason: Reason,
}

/// What findings of one kind lead to, and their ids.
struct Row(Effect, &'static [&'static str]);

/// Settings: what is wrong with the node follows from what somebody wrote.
const ROWS: [Row; 6] = [
    Row(
        Effect::Setting,
        &[
            "pfc-priority",
            "dscp-map",
            "rdma-mtu",
            "netdev-mtu",
            "child-mtu",
            "child-mtu-too-large",
            "frame-size",
            "hardware-mtu-differs",
            "gid-usable",
            "gid-duplicate",
            "gid-moved",
            "gid-family",
            "gid-versions",
            "workload-gid-index",
            "gid-not-programmed",
            "global-pause",
            "ecn",
            "pause-priority",
            "receive-buffers",
            "partition-keys",
            "partition-key-differs",
            "link-layer",
            "route",
            "multi-nic-subnet",
            "namespace-mode",
            "drift",
        ],
    ),
    Row(
        Effect::Dead,
        &[
            "port-state",
            "port-phys-state",
            "port-down",
            "netdev-link",
            "device-present",
            "device-gone",
            "device-mapping",
            "missing-rdma-device",
            "no-usable-gid",
            "bond",
            "device-health",
            "mlx5-fatal-error",
            "mlx5-firmware-crashed",
            "mlx5-left-unusable",
            "mlx5-pci-offline",
            "port-powered-down",
            "module-unplugged",
        ],
    ),
    Row(
        Effect::Lossy,
        &[
            "crc-errors",
            "symbol-errors",
            "bit-errors",
            "port-errors",
            "icrc-errors",
            "discards",
            "lossless-discards",
            "link-flaps",
            "carrier-flapping",
            "module",
            "retransmits",
            "out-of-sequence",
            "ack-timeouts",
            "neighbours",
        ],
    ),
    Row(Effect::Slow, &["pause-storm", "pause-share", "congestion", "transmit-wait", "pci-stalls"]),
    Row(Effect::Narrow, &["pci-link", "port-rate", "fec", "pci-bandwidth-limited", "slot-power-low"]),
    Row(
        Effect::HostSlow,
        &[
            "idle-states",
            "memory",
            "slow-receiver",
            "processor-stuck-in-driver",
            "netdev-watchdog",
            "host-starved",
        ],
    ),
];

fn row(reason: &Reason) -> Option<Effect> {
    ROWS.iter().find(|Row(_, ids)| ids.contains(&reason.id.as_str())).map(|Row(effect, _)| *effect)
}

/// What a finding leads to. What is not in the table is something of the machine that is broken or missing.
pub(crate) fn effect(reason: &Reason) -> Effect {
    let hardware =
        ["mlx4-", "mlx5-", "pci-", "module-", "adapter-"].iter().any(|start| reason.id.starts_with(start));
    row(reason).unwrap_or(if hardware { Effect::Dead } else { Effect::Setting })
}

/// It is an incident by itself, whatever the matrix shows so far.
pub(crate) fn opens(reason: &Reason) -> bool {
    reason.status == Status::Fail
}

/// It may be the reason of what the matrix shows.
pub(crate) fn explains(reason: &Reason, seen: Effect) -> bool {
    let leads_to = effect(reason);
    // A warning that is not in the table (an old firmware) was there long before, and explains nothing.
    let bad = match reason.status {
        Status::Fail => true,
        Status::Warn => row(reason).is_some(),
        Status::Ok | Status::Unknown => false,
    };
    // What loses packets or pauses makes everything slower; a host that is slow is explained by its own findings only.
    bad && match seen {
        Effect::HostSlow => leads_to == Effect::HostSlow,
        Effect::Dead | Effect::LargeLost | Effect::Setting => {
            matches!(leads_to, Effect::Dead | Effect::Setting)
        }
        Effect::Lossy => matches!(leads_to, Effect::Dead | Effect::Lossy | Effect::Setting | Effect::Slow),
        Effect::Slow | Effect::Narrow => true,
    }
}

/// The reasons of a component, the most telling first.
pub(crate) fn reasons(told: &[Told], component: Component, seen: Effect) -> Vec<Reason> {
    let of = told.iter().filter(|told| told.component == component && explains(&told.reason, seen));
    let mut reasons: Vec<Reason> = of.map(|told| told.reason.clone()).collect();
    let rank = |reason: &Reason| (effect(reason) != seen, std::cmp::Reverse(reason.status), reason.since_ms);
    reasons.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.id.cmp(&b.id)));
    reasons
}
