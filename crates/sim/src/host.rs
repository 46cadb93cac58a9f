//! One simulated node: its process, what it stands on, and what keeps it from its coordinator.

use crate::cluster::{Happening, Key};
use crate::fabric::Shared;
use crate::mesh_told::MeshTold;
use crate::transport::SimTransport;
use rdmascope_control::agent::Agent;
use rdmascope_control::coordinator::ConnectionId;
use rdmascope_link::{FindingBrief, PROTOCOL_MAX};
use rdmascope_model::EndpointInfo;
use std::collections::VecDeque;

/// One node.
pub(crate) struct Host {
    pub(crate) node: String,
    pub(crate) machine: String,
    pub(crate) runs: u64,
    /// Absent while its process is dead.
    pub(crate) process: Option<(Agent, SimTransport)>,
    pub(crate) mesh: MeshTold,
    pub(crate) endpoints: Vec<EndpointInfo>,
    /// What its checks find.
    pub(crate) findings: Vec<FindingBrief>,
    pub(crate) connection: Option<ConnectionId>,
    /// Its process does not run, and what arrives waits in its sockets.
    pub(crate) stopped: bool,
    pub(crate) waiting: VecDeque<Happening>,
    /// Nothing gets through to it, and from it, on the way between it and the coordinator.
    pub(crate) cut: [bool; 2],
    pub(crate) held_up: VecDeque<Happening>,
    /// Milliseconds by which its clock is ahead.
    pub(crate) clock_ms: i64,
    /// The newest protocol version that it speaks.
    pub(crate) protocol: u32,
    /// Events of this run that it was told of, and how many of these it was told to forget.
    pub(crate) events: [u64; 2],
    /// Who holds its device, while somebody does.
    pub(crate) holder: Option<String>,
    pub(crate) wakeup: Option<Key>,
}

impl Host {
    /// A node whose process was not started yet.
    pub(crate) fn new(node: &str, machine: String, endpoints: Vec<EndpointInfo>) -> Self {
        Self {
            node: node.to_owned(),
            machine,
            runs: 0,
            process: None,
            mesh: MeshTold::default(),
            endpoints,
            findings: Vec::new(),
            connection: None,
            stopped: false,
            waiting: VecDeque::new(),
            cut: [false; 2],
            held_up: VecDeque::new(),
            clock_ms: 0,
            protocol: PROTOCOL_MAX,
            events: [0; 2],
            holder: None,
            wakeup: None,
        }
    }

    /// The same host on a copy of its fabric.
    pub(crate) fn fork(&self, fabric: &Shared) -> Self {
        let process = self.process.as_ref();
        Self {
            node: self.node.clone(),
            machine: self.machine.clone(),
            process: process.map(|(agent, transport)| (agent.clone(), transport.on(fabric))),
            mesh: self.mesh.clone(),
            endpoints: self.endpoints.clone(),
            findings: self.findings.clone(),
            waiting: self.waiting.clone(),
            held_up: self.held_up.clone(),
            holder: self.holder.clone(),
            ..*self
        }
    }
}
