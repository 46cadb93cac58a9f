//! Shared small parts of the checks: walking over ports, and making findings.

use crate::Policy;
use crate::duty::{Duty, links};
use rdmascope_model::{Device, Finding, LinkLayer, Netdev, Port, PortState, Reading, Snapshot, Status};

/// Every port that is judged as one that carries RDMA traffic, with its device.
pub(crate) fn ports<'a>(
    snapshot: &'a Snapshot,
    policy: &'a Policy,
) -> impl Iterator<Item = (&'a Device, &'a Port)> {
    links(snapshot, policy)
        .filter(|(_, _, duty)| *duty == Duty::Traffic)
        .map(|(device, port, _)| (device, port))
}

/// `mlx5_0/1`.
pub(crate) fn port_subject(device: &Device, port: &Port) -> String {
    format!("{}/{}", device.name, port.number)
}

/// Known to be anything but Ethernet: what is asked of RoCE is not asked of it.
pub(crate) fn is_not_ethernet(port: &Port) -> bool {
    port.link_layer.value().is_some_and(|layer| *layer != LinkLayer::Ethernet)
}

/// Known to be down: what such a port says of addresses and sizes means nothing, and its state is a finding already.
pub(crate) fn is_down(port: &Port) -> bool {
    port.state.value().is_some_and(|state| *state != PortState::Active)
}

/// The network device under a port, or why it cannot be looked at.
pub(crate) fn netdev_under<'a>(
    snapshot: &'a Snapshot,
    port: &'a Port,
) -> Result<(&'a str, &'a Netdev), String> {
    let name = match &port.netdev {
        Reading::Value(name) => name,
        missing => return Err(format!("the port's network device is not known: {}", why(missing))),
    };
    match &snapshot.netdevs {
        Reading::Value(netdevs) => netdevs
            .get(name)
            .map(|netdev| (name.as_str(), netdev))
            .ok_or_else(|| format!("the network device {name} is not in this network namespace")),
        missing => Err(format!("the network devices could not be read: {}", why(missing))),
    }
}

/// Why a reading is missing.
pub(crate) fn why<T>(reading: &Reading<T>) -> &str {
    reading.why_missing().unwrap_or("read")
}

/// Looked, and it is as it should be.
pub(crate) fn ok(id: &'static str, subject: String, summary: String) -> Finding {
    Finding {
        id: id.into(),
        status: Status::Ok,
        subject,
        summary,
        cause: String::new(),
        next_step: String::new(),
        evidence: Vec::new(),
    }
}

/// Could not look. `what` is what should have been read.
pub(crate) fn unknown(id: &'static str, subject: String, what: &str, why: &str) -> Finding {
    Finding {
        id: id.into(),
        status: Status::Unknown,
        subject,
        summary: format!("{what} could not be read: {why}"),
        cause: "no permission, /sys not mounted or not the host's, another network namespace, or a driver that does not answer"
            .to_owned(),
        next_step: "Run as root in the host's namespaces; read the same file by hand and see the kernel log (`dmesg`)."
            .to_owned(),
        evidence: Vec::new(),
    }
}
