//! Who is there: agents by node name, their connections, and their endpoints.

use super::ConnectionId;
use super::settings::{DEAD_AFTER, ENDPOINTS_MAX};
use rdmascope_link::{FindingBrief, Hello, PauseFlags};
use rdmascope_localise::{EndpointIndex, Matrix};
use rdmascope_model::{EndpointInfo, LeaseId, Mono, Now, Wall};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// One agent, connected or not.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its connection, while there is one.
    pub connection: Option<ConnectionId>,
    /// Boot id of its machine.
    pub machine: String,
    /// Differs between two runs of the agent.
    pub instance: u64,
    /// The protocol version that is spoken with it.
    pub protocol: u32,
    /// Its program version.
    pub version: String,
    /// Where its own `/metrics` can be had.
    pub metrics: Option<SocketAddr>,
    /// When it was last heard, for people.
    pub last_seen: Wall,
    /// What the pause file on its node says.
    pub local_pause: PauseFlags,
    /// What the operator paused through the coordinator.
    pub operator_pause: PauseFlags,
    /// Its checks' findings, apart from what is fine.
    pub findings: Vec<FindingBrief>,
    /// Findings for which its frame had no room.
    pub findings_left_out: u32,
    last_heard: Mono,
    /// The count of the matrix that it knows of; 0 before the first.
    pub(super) pairs_told: u64,
    /// There was no room for events of its connection: it keeps them, and all that come after them, until it connects again.
    pub(super) keeps_events: bool,
}

/// One endpoint, present or gone.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// As the agent last described it.
    pub info: EndpointInfo,
    /// Since when the agent does not have it any more.
    pub gone_since: Option<Wall>,
    /// The leases that it is busy with: one, or those of one run that belong together.
    pub(super) leases: Vec<LeaseId>,
    /// Until when it rests between background probes.
    pub(super) rests_until: Mono,
}

/// All agents and endpoints that were ever seen in this run.
#[derive(Clone, Debug, Default)]
pub struct Members {
    agents: BTreeMap<String, Member>,
    connections: BTreeMap<ConnectionId, String>,
    endpoints: BTreeMap<EndpointIndex, Endpoint>,
    /// Grows with every change of who can be probed.
    pub(super) generation: u64,
    /// Who that was when it was worked out last.
    ready: Vec<EndpointIndex>,
    /// How many of them take datagrams.
    pinged: usize,
    /// Nodes in maintenance: nobody probes them by itself.
    silenced: BTreeSet<String>,
    /// Endpoints of the agents of each machine.
    on_machine: BTreeMap<String, Vec<EndpointIndex>>,
    /// A time until which no agent can have been silent for too long.
    silent_after: Option<Mono>,
}

impl Members {
    /// Agents by node name.
    pub fn agents(&self) -> impl Iterator<Item = (&str, &Member)> {
        self.agents.iter().map(|(name, member)| (name.as_str(), member))
    }

    /// Endpoints by their number, gone ones included.
    pub fn endpoints(&self) -> impl Iterator<Item = (EndpointIndex, &Endpoint)> {
        self.endpoints.iter().map(|(&index, endpoint)| (index, endpoint))
    }

    /// One endpoint.
    #[must_use]
    pub fn endpoint(&self, index: EndpointIndex) -> Option<&Endpoint> {
        self.endpoints.get(&index)
    }

    /// The agent of a node.
    #[must_use]
    pub fn agent(&self, node: &str) -> Option<&Member> {
        self.agents.get(node)
    }

    /// How many agents are connected.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.connections.len()
    }

    /// Endpoints that can be probed now: present, usable, their agent connected, and not in maintenance.
    pub(super) fn ready(&self) -> &[EndpointIndex] {
        &self.ready
    }

    /// How many of those take datagrams.
    pub(super) fn pinged(&self) -> usize {
        self.pinged
    }

    /// Pings cover the pair: both ends take datagrams, as far as is known.
    #[must_use]
    pub fn pings_cover(&self, source: EndpointIndex, target: EndpointIndex) -> bool {
        let takes = |index| self.endpoint(index).is_some_and(|e| e.info.datagrams.is_some());
        takes(source) && takes(target)
    }

    /// There are pairs that only connections can probe: not both ends take datagrams.
    pub(super) fn needs_connections(&self) -> bool {
        self.pinged < 2 || self.pinged < self.ready.len()
    }

    /// Who can be probed, or where, has changed.
    fn changed(&mut self) {
        self.generation += 1;
    }

    /// An endpoint can be probed now: present, usable, its agent connected, and not in maintenance.
    pub(super) fn can_be_probed(&self, endpoint: &Endpoint) -> bool {
        endpoint.gone_since.is_none()
            && endpoint.info.unusable.is_none()
            && self.connection(&endpoint.info.name.node).is_some()
            && !self.silenced.contains(&endpoint.info.name.node)
    }

    /// Works out who can be probed now. It looks at everybody, so a thousand agents that connect must not cause it a thousand times.
    pub(super) fn refresh(&mut self) {
        let ready = self.endpoints.iter().filter(|(_, endpoint)| self.can_be_probed(endpoint));
        let (ready, addresses): (Vec<_>, Vec<_>) = ready.map(|(&index, e)| (index, e.info.datagrams)).unzip();
        self.ready = ready;
        self.pinged = addresses.iter().flatten().count();
        self.on_machine.clear();
        for (&index, endpoint) in &self.endpoints {
            if let Some(agent) = self.agents.get(&endpoint.info.name.node) {
                self.on_machine.entry(agent.machine.clone()).or_default().push(index);
            }
        }
    }

    /// A node is in maintenance.
    pub(super) fn is_silenced(&self, node: &str) -> bool {
        self.silenced.contains(node)
    }

    pub(super) fn set_silenced(&mut self, nodes: BTreeSet<String>) {
        if self.silenced != nodes {
            self.silenced = nodes;
            self.changed();
        }
    }

    /// Endpoints that share a machine.
    pub(super) fn on_machine(&self, machine: &str) -> impl Iterator<Item = EndpointIndex> {
        self.on_machine.get(machine).into_iter().flatten().copied()
    }

    pub(super) fn agent_mut(&mut self, node: &str) -> Option<&mut Member> {
        self.agents.get_mut(node)
    }

    pub(super) fn endpoint_mut(&mut self, index: EndpointIndex) -> Option<&mut Endpoint> {
        self.endpoints.get_mut(&index)
    }

    /// The connection of a node's agent.
    pub(super) fn connection(&self, node: &str) -> Option<ConnectionId> {
        self.agents.get(node)?.connection
    }

    /// The node behind a connection that said a good hello.
    pub(super) fn node(&self, connection: ConnectionId) -> Option<&str> {
        self.connections.get(&connection).map(String::as_str)
    }

    /// All nodes with a connection.
    pub(super) fn nodes_connected(&self) -> impl Iterator<Item = (&str, ConnectionId)> {
        self.connections.iter().map(|(&connection, node)| (node.as_str(), connection))
    }

    /// An agent came. Answers the connection that it replaces: the same node calling again is a restarted agent, or
    /// one whose old connection is only half dead.
    pub(super) fn join(
        &mut self,
        hello: Hello,
        protocol: u32,
        connection: ConnectionId,
        now: Now,
    ) -> Option<ConnectionId> {
        let operator_pause = self.agents.get(&hello.node).map(|m| m.operator_pause).unwrap_or_default();
        let findings = self.agents.get(&hello.node).map(|m| m.findings.clone()).unwrap_or_default();
        let member = Member {
            connection: Some(connection),
            machine: hello.machine,
            instance: hello.instance,
            protocol,
            version: hello.agent_version,
            metrics: hello.metrics,
            last_seen: now.wall,
            local_pause: PauseFlags::default(),
            operator_pause,
            findings,
            findings_left_out: 0,
            last_heard: now.mono,
            pairs_told: 0,
            keeps_events: false,
        };
        let before = self.agents.insert(hello.node.clone(), member).and_then(|m| m.connection);
        before.and_then(|old| self.connections.remove(&old));
        self.connections.insert(connection, hello.node);
        self.silent_after.get_or_insert(now.mono.after(DEAD_AFTER));
        self.changed();
        before
    }

    /// A connection ended. Answers the node whose agent is gone with it.
    pub(super) fn leave(&mut self, connection: ConnectionId) -> Option<String> {
        let node = self.connections.remove(&connection)?;
        if let Some(member) = self.agents.get_mut(&node) {
            member.connection = None;
        }
        self.changed();
        Some(node)
    }

    /// Forgets a node that is not connected. Its endpoints stay as gone: the matrix's numbers are never given to others.
    pub(super) fn forget(&mut self, node: &str) {
        self.agents.remove(node);
        self.changed();
    }

    /// An agent said something.
    pub(super) fn heard(&mut self, node: &str, now: Now) {
        if let Some(member) = self.agents.get_mut(node) {
            member.last_heard = now.mono;
            member.last_seen = now.wall;
        }
    }

    /// Connections whose agent has been silent for too long; looks at all agents only when one of them may have been.
    pub(super) fn take_silent(&mut self, now: Mono) -> Vec<ConnectionId> {
        if self.silent_after.is_none_or(|at| now < at) {
            return Vec::new();
        }
        let connected =
            || self.agents.values().filter_map(|m| Some((m.last_heard.after(DEAD_AFTER), m.connection?)));
        let (silent, alive): (Vec<_>, Vec<_>) = connected().partition(|(at, _)| *at <= now);
        self.silent_after = alive.iter().map(|(at, _)| *at).min();
        silent.into_iter().map(|(_, connection)| connection).collect()
    }

    /// Before this, no agent can have been silent for too long.
    pub(super) fn next_silent(&self) -> Option<Mono> {
        self.silent_after
    }

    /// Takes an inventory.
    ///
    /// # Errors
    /// An endpoint belongs to another node, or there are too many: the text is for the agent.
    pub(super) fn inventory(
        &mut self,
        node: &str,
        endpoints: Vec<EndpointInfo>,
        (findings, left_out): (Vec<FindingBrief>, u32),
        matrix: &mut Matrix,
        now: Now,
    ) -> Result<(), String> {
        if let Some(foreign) = endpoints.iter().find(|e| e.name.node != node) {
            return Err(format!("node {node} speaks for {}, which is another node's", foreign.name));
        }
        let new = endpoints.iter().filter(|e| matrix.find(&e.name).is_none()).count();
        if matrix.len() + new > ENDPOINTS_MAX {
            return Err(format!(
                "this coordinator already knows {ENDPOINTS_MAX} endpoints; run a second one"
            ));
        }
        let usable = |endpoint: &Endpoint| endpoint.gone_since.is_none() && endpoint.info.unusable.is_none();
        let mut changed = false;
        let named: BTreeSet<_> = endpoints.iter().map(|e| e.name.clone()).collect();
        for endpoint in self.endpoints.values_mut() {
            let gone = endpoint.info.name.node == node && !named.contains(&endpoint.info.name);
            if gone && endpoint.gone_since.is_none() {
                changed |= usable(endpoint);
                endpoint.gone_since = Some(now.wall);
            }
        }
        for info in endpoints {
            let index = matrix.intern(&info.name);
            let before = self.endpoints.remove(&index);
            let endpoint = Endpoint {
                info,
                gone_since: None,
                leases: before.as_ref().map(|e| e.leases.clone()).unwrap_or_default(),
                rests_until: before.as_ref().map_or(Mono(0), |e| e.rests_until),
            };
            changed |= usable(&endpoint) != before.as_ref().is_some_and(usable);
            // A new queue pair: the address book has to say so. Another place: plans do.
            let known = |e: &Endpoint| (e.info.datagrams, e.info.rate_bps, e.info.gid);
            let place = |e: &Endpoint| {
                let EndpointInfo { pci_address, rail, switch_port, .. } = &e.info;
                (pci_address.clone(), rail.clone(), switch_port.value().map(|at| at.switch.clone()))
            };
            changed |= before.is_some_and(|e| known(&e) != known(&endpoint) || place(&e) != place(&endpoint));
            self.endpoints.insert(index, endpoint);
        }
        if let Some(member) = self.agents.get_mut(node) {
            member.findings = findings;
            member.findings_left_out = left_out;
        }
        matrix.touch();
        // Findings and figures of an endpoint change all the time; who can be probed does not.
        if changed {
            self.changed();
        }
        Ok(())
    }
}
