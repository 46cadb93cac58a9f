//! Checks of InfiniBand ports: what a fabric without subnet manager, partition or credits does to them.

pub(super) mod partition_keys;
pub(super) mod subnet_manager;
pub(super) mod transmit_wait;

use crate::Policy;
use crate::addressing::is_iwarp;
use crate::finding::ports;
use rdmascope_model::{Device, LinkLayer, Port, Reading, Snapshot};

/// Every judged port that speaks InfiniBand. The link layer alone tells; LIDs and rate texts do not, and old iWARP drivers say
/// InfiniBand too.
fn infiniband_ports<'a>(
    snapshot: &'a Snapshot,
    policy: &'a Policy,
) -> impl Iterator<Item = (&'a Device, &'a Port)> {
    let speaks = |port: &Port| port.link_layer == Reading::Value(LinkLayer::InfiniBand);
    ports(snapshot, policy).filter(move |(device, port)| speaks(port) && !is_iwarp(device))
}
