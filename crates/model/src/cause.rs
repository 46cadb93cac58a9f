//! Why a probe failed or was not run: one row per cause with its text and next step.

use crate::{Side, Step};
use std::fmt;

/// Why a probe failed. The numbers travel between versions and never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The peer's agent lost its connection during the probe.
    PeerGone = 1,
    /// The peer's agent is connected but did not do its part in time.
    PeerSilent = 2,
    /// The agent that should have measured lost its connection during the probe.
    AgentGone = 3,
    /// The agent that should have measured is connected but said nothing in time.
    AgentSilent = 4,
    /// The port is not ACTIVE.
    PortDown = 5,
    /// The port has no RoCE v2 GID for an address of its network device.
    NoUsableGid = 6,
    /// The RDMA device was removed.
    DeviceGone = 7,
    /// The verbs library could not be loaded.
    VerbsMissing = 8,
    /// The kernel refused access to the RDMA device.
    PermissionDenied = 9,
    /// Memory could not be registered: the limit on locked memory is too low.
    MemoryLock = 10,
    /// The device has no resources left for a queue pair, completion queue or memory region.
    NoResources = 11,
    /// The peer's address could not be resolved: no route or no neighbour entry.
    NoRoute = 12,
    /// The two endpoints have addresses of different families (IPv4 and IPv6).
    AddressFamily = 13,
    /// The two endpoints' RDMA MTU differ and the larger packets do not arrive.
    MtuMismatch = 14,
    /// The driver refused the queue pair's parameters.
    BadParameters = 15,
    /// Packets were sent and sent again, and none was acknowledged.
    RetryExceeded = 16,
    /// The peer had no receive buffer in time.
    ReceiverNotReady = 17,
    /// The peer's device refused access to its memory.
    RemoteAccess = 18,
    /// The peer's device reported a fault.
    RemoteFault = 19,
    /// The own device reported a fault.
    LocalFault = 20,
    /// Both ends were set up, but the first message never arrived.
    NoFirstByte = 21,
    /// The measurement began and then stopped making progress.
    Stalled = 22,
    /// The peer's probe port refused the TCP connection.
    ConnectRefused = 23,
    /// The peer's set-up data could not be understood.
    BadPeerData = 24,
    /// The agent refused the probe: it is outside the limits built into it.
    LeaseRejected = 25,
    /// rdmascope itself failed.
    Internal = 26,
    /// The message is longer than the own network device or port lets through.
    MessageTooLong = 27,
    /// Small packets arrive and large ones do not, although both ends' MTU allow them.
    PathMtu = 28,
    /// The device, driver or build cannot do what was asked for.
    NotAvailable = 29,
    /// The peer's queue pair is not the one that the address named: its agent or its port started anew.
    StaleAddress = 30,
    /// The path worked, and then packets were sent again and again without an acknowledgement.
    PathLost = 31,
    /// The peer's connection manager refused the connection.
    ConnectionRejected = 32,
    /// The agent had no processor time for the probe.
    HostStarved = 33,
}

/// One cause, told to people and programs.
struct Row(Cause, &'static str, &'static str, &'static str);

/// Every cause once, in the order of its number: id, what happened, what to do next.
const ROWS: &[Row] = &[
    Row(
        Cause::PeerGone,
        "peer-gone",
        "The peer's agent lost its connection during the probe.",
        "See whether the peer's node and its agent run; the pair is probed again when the agent is back.",
    ),
    Row(
        Cause::PeerSilent,
        "peer-silent",
        "The peer's agent is connected but did not do its part in time.",
        "Look at the peer's node: a stopped or starved agent, a hung driver, a host without CPU time.",
    ),
    Row(
        Cause::AgentGone,
        "agent-gone",
        "The agent that should have measured lost its connection during the probe.",
        "See whether its node and the agent run; the pair is probed again when the agent is back.",
    ),
    Row(
        Cause::AgentSilent,
        "agent-silent",
        "The agent that should have measured is connected but said nothing in time.",
        "Look at its node: a stopped or starved agent, a hung driver, a host without CPU time.",
    ),
    Row(
        Cause::PortDown,
        "port-down",
        "The port is not ACTIVE.",
        "Check cable, transceiver and switch port; `rdma link` shows the state, `ip link` the netdev.",
    ),
    Row(
        Cause::NoUsableGid,
        "no-usable-gid",
        "The port has no RoCE v2 GID for an address of its network device.",
        "Give the network device an IP address; `rdmascope check` lists the GID table.",
    ),
    Row(
        Cause::DeviceGone,
        "device-gone",
        "The RDMA device was removed.",
        "See the kernel log of the node for a driver reload, a PCI error or a removal by hand.",
    ),
    Row(
        Cause::VerbsMissing,
        "verbs-missing",
        "The verbs library could not be loaded.",
        "Install the package libibverbs1 (rdma-core) on the node.",
    ),
    Row(
        Cause::PermissionDenied,
        "permission-denied",
        "The kernel refused access to the RDMA device.",
        "Give the agent access to /dev/infiniband (group, container device, CAP_IPC_LOCK).",
    ),
    Row(
        Cause::MemoryLock,
        "memory-lock",
        "Memory could not be registered: the limit on locked memory is too low.",
        "Raise LimitMEMLOCK of the agent's unit or container to infinity.",
    ),
    Row(
        Cause::NoResources,
        "no-resources",
        "The device has no resources left for a queue pair, completion queue or memory region.",
        "See what holds them: `rdma resource show`.",
    ),
    Row(
        Cause::NoRoute,
        "no-route",
        "The peer's address could not be resolved: no route or no neighbour entry.",
        "Check that the peer's address answers on this network device: `ip route get ADDRESS oif NETDEV`, `ip neigh`.",
    ),
    Row(
        Cause::AddressFamily,
        "address-family",
        "The two endpoints have addresses of different families (IPv4 and IPv6).",
        "Give both ports addresses of one family.",
    ),
    Row(
        Cause::MtuMismatch,
        "mtu-mismatch",
        "The two endpoints' RDMA MTU differ and the larger packets do not arrive.",
        "Set the same MTU on both network devices and on the switch ports between them.",
    ),
    Row(
        Cause::BadParameters,
        "bad-parameters",
        "The driver refused the queue pair's parameters.",
        "Compare driver and firmware versions of the two nodes; see the kernel log.",
    ),
    Row(
        Cause::RetryExceeded,
        "retry-exceeded",
        "Packets were sent and sent again, and none was acknowledged.",
        "Check the path: the peer's port state, MTU on both ends, VLAN, firewall on UDP port 4791, the switch ports.",
    ),
    Row(
        Cause::ReceiverNotReady,
        "receiver-not-ready",
        "The peer had no receive buffer in time.",
        "Look at the peer's node for a starved agent.",
    ),
    Row(
        Cause::RemoteAccess,
        "remote-access",
        "The peer's device refused access to its memory.",
        "The peer restarted or its memory region was closed during the probe: probe again.",
    ),
    Row(
        Cause::RemoteFault,
        "remote-fault",
        "The peer's device reported a fault.",
        "See the peer's kernel log for errors of its RDMA device.",
    ),
    Row(
        Cause::LocalFault,
        "local-fault",
        "The own device reported a fault.",
        "See the kernel log of this node for errors of its RDMA device.",
    ),
    Row(
        Cause::NoFirstByte,
        "no-first-byte",
        "Both ends were set up, but the first message never arrived.",
        "Check the path in this direction: MTU, VLAN, firewall on UDP port 4791, the switch ports.",
    ),
    Row(
        Cause::Stalled,
        "stalled",
        "The measurement began and then stopped making progress.",
        "Look for loss or a flap on the path at this time: port counters, kernel logs of both nodes.",
    ),
    Row(
        Cause::ConnectRefused,
        "connect-refused",
        "The peer's probe port refused the TCP connection.",
        "See whether the peer's agent runs and its port range is open between the nodes.",
    ),
    Row(
        Cause::BadPeerData,
        "bad-peer-data",
        "The peer's set-up data could not be understood.",
        "Run the same rdmascope version on both nodes.",
    ),
    Row(
        Cause::LeaseRejected,
        "lease-rejected",
        "The agent refused the probe: it is outside the limits built into it.",
        "Ask for less (samples, bytes, time), or update the agent.",
    ),
    Row(
        Cause::Internal,
        "internal",
        "rdmascope itself failed.",
        "Report it with the agent's log of this minute.",
    ),
    Row(
        Cause::MessageTooLong,
        "message-too-long",
        "The message is longer than the own network device or port lets through.",
        "Set the MTU of the network device to 9000 on this node: `ip link show dev NETDEV`; the RDMA MTU follows it.",
    ),
    Row(
        Cause::PathMtu,
        "path-mtu",
        "Small packets arrive and large ones do not, although both ends' MTU allow them.",
        "Compare the MTU of every switch port between the two nodes (9216 is usual); one of them drops large packets.",
    ),
    Row(
        Cause::NotAvailable,
        "not-available",
        "The device, driver or build cannot do what was asked for.",
        "Nothing is wrong with the pair: see the evidence for what is missing, and probe without it.",
    ),
    Row(
        Cause::StaleAddress,
        "stale-address",
        "The peer's queue pair is not the one that the address named: its agent or its port started anew.",
        "Nothing to do: the new address is handed out within seconds. If it goes on, look why the peer's agent restarts.",
    ),
    Row(
        Cause::PathLost,
        "path-lost",
        "The path worked, and then packets were sent again and again without an acknowledgement.",
        "Look for a flap or a dying cable at this time: link events and error counters of both ports; if they are clean, whether the peer's process or host went away.",
    ),
    Row(
        Cause::ConnectionRejected,
        "connection-rejected",
        "The peer's connection manager refused the connection.",
        "See whether the peer's agent still held the lease; compare rdma_cm modules and device types of the two nodes.",
    ),
    Row(
        Cause::HostStarved,
        "host-starved",
        "The agent had no processor time for the probe.",
        "Look at the node's load and the agent's cgroup limits: `top`, `cat /proc/pressure/cpu`; the network is not to blame.",
    ),
];

impl Cause {
    /// All of them, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.0)
    }

    /// The cause of that number; `None` for a number of a newer version.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::all().find(|cause| cause.number() == number)
    }

    /// Its number on the wire.
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Stable kebab-case id.
    #[must_use]
    pub fn id(self) -> &'static str {
        self.row().1
    }

    /// What happened, in words.
    #[must_use]
    pub fn text(self) -> &'static str {
        self.row().2
    }

    /// What to do next.
    #[must_use]
    pub fn next_step(self) -> &'static str {
        self.row().3
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize - 1]
    }
}

/// A probe that failed: never a number, always a cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why.
    pub cause: Cause,
    /// At which step.
    pub step: Step,
    /// Who saw it.
    pub side: Side,
    /// What was seen, such as the verb and its errno or the completion status and vendor code.
    pub evidence: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at step {} ({}", self.cause.id(), self.step.as_str(), self.side.as_str())?;
        if self.evidence.is_empty() { f.write_str(")") } else { write!(f, ": {})", self.evidence) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_stands_at_its_number_with_an_id_of_its_own() {
        for (at, row) in ROWS.iter().enumerate() {
            assert_eq!(row.0.number() as usize, at + 1, "{} is out of place", row.1);
            assert_eq!(Cause::from_number(row.0.number()), Some(row.0));
            assert!(row.1.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{} is not kebab-case", row.1);
            assert!(row.2.ends_with('.') && row.3.ends_with('.'), "{} lacks a sentence", row.1);
        }
        let ids: BTreeSet<_> = Cause::all().map(Cause::id).collect();
        assert_eq!(ids.len(), ROWS.len());
        assert_eq!(Cause::from_number(0), None);
    }
}
