//! A cluster over a whole fabric: its agents' meshes run, window by window or packet by packet.

use crate::cluster::{Cluster, Happening, Key, NOTICED_AFTER};
use crate::net::Net;
use crate::packets::{Packets, address};
use crate::pinged::Pinged;
use crate::windows::{Due, Windows};
use rdmascope_control::agent;
use rdmascope_control::coordinator::Settings;
use rdmascope_link::FindingBrief;
use rdmascope_model::{Cause, EndpointInfo, Fabric as Kind, Heard, LabelBy, Mono};
use rdmascope_probe::mesh::{MeshCommand, MeshEvent};
use std::rc::Rc;
use std::time::Duration;

/// An agent's mesh opens an endpoint within this.
const OPENS_WITHIN: Duration = Duration::from_millis(5);
/// A responder tells what it heard of a batch after so much silence.
const SILENCE_NS: u64 = 2_000_000_000;

/// How the meshes of a cluster run.
#[derive(Clone, Debug, Default)]
pub(crate) enum Meshes {
    /// Not at all: a test says what they tell.
    #[default]
    Silent,
    /// A batch at once.
    Windows(Box<Windows>),
    /// With the real engines; and when their next packet is due.
    Packets(Box<Packets>, Option<Key>),
}

impl Meshes {
    fn close(&mut self, end: usize) {
        match self {
            Self::Silent => {}
            Self::Windows(windows) => windows.close(end),
            Self::Packets(packets, _) => packets.close(end),
        }
    }
}

/// What happens in a mesh that runs.
#[derive(Clone, Debug)]
pub(crate) enum Stir {
    /// The last ping of a batch has left.
    Sent(Due),
    /// The mesh of a host says this, if its process is still the one of that run.
    Says(usize, u64, Box<MeshEvent>),
    /// A packet is due.
    Packet,
}

/// How the pings of a cluster are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinging {
    /// A batch at once: for large clusters.
    ByWindow,
    /// Packet by packet, with the real engines.
    ByPacket,
}

impl Cluster {
    /// A cluster over a fabric, in which everything was just switched on. What the fabric says of the leaves is told to the coordinator.
    #[must_use]
    pub fn over(net: Net, seed: u64, settings: Settings, pinging: Pinging) -> Self {
        let settings = Settings { leaves: net.topology().leaves(), ..settings };
        let mut cluster = Self::empty(seed, settings);
        cluster.meshes = match pinging {
            Pinging::ByWindow => Meshes::Windows(Box::new(Windows::new(&net))),
            Pinging::ByPacket => Meshes::Packets(Box::new(Packets::new(&net)), None),
        };
        let nodes = net.topology().layout.nodes;
        let clock_ms = net.parameters().hosts.clock_ms;
        let infos: Vec<Vec<EndpointInfo>> = (0..nodes)
            .map(|node| net.topology().of_node(node).map(|end| info(&net, end)).collect())
            .collect();
        cluster.fabric.borrow_mut().net = Some(Box::new(net));
        for (node, endpoints) in infos.into_iter().enumerate() {
            cluster.add_host(&crate::net::node_name(node), format!("boot-{node}"), endpoints);
            let spread = u64::try_from(2 * clock_ms + 1).unwrap_or(1);
            cluster.hosts[node].clock_ms = cluster.random.below(spread) as i64 - clock_ms;
        }
        cluster
    }

    /// Everything as it is, to go on from by another way: a copy shares nothing with this one, and what is left to chance from here on goes
    /// by another seed.
    #[must_use]
    pub fn fork(&self, seed: u64) -> Self {
        let fabric = self.fabric.borrow().fork(seed);
        let hosts = self.hosts.iter().map(|host| host.fork(&fabric)).collect();
        Self {
            hosts,
            fabric,
            coordinator: self.coordinator.clone(),
            settings: self.settings.clone(),
            connections: self.connections.clone(),
            wires: self.wires.clone(),
            queue: self.queue.clone(),
            random: crate::Random::new(seed),
            meshes: self.meshes.clone(),
            disk: self.disk.clone(),
            old_disks: self.old_disks.clone(),
            // Nobody forks a cluster with two coordinators.
            rival: None,
            audit: self.audit.clone(),
            ..*self
        }
    }

    /// Changes the fabric from now on.
    pub fn with_net<T>(&mut self, change: impl FnOnce(&mut Net) -> T) -> Option<T> {
        let mut fabric = self.fabric.borrow_mut();
        fabric.net.as_mut().map(|net| change(net))
    }

    /// A node tells what its checks find, from its next look at the machine on.
    pub fn tell_findings(&mut self, host: usize, findings: Vec<FindingBrief>) {
        self.hosts[host].findings = findings;
        self.after(NOTICED_AFTER, Happening::Look(host));
    }

    /// A node loses its power: nothing of it answers any more, and nobody is told.
    pub fn lose_power(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        (it.process, it.connection, it.stopped) = (None, None, false);
        it.waiting.clear();
        self.mesh_ends(host);
    }

    /// The port of an endpoint of the fabric goes down, and its agent sees that.
    pub fn end_down(&mut self, end: usize) {
        let Some((name, host)) =
            self.with_net(|net| (net.topology().name(end), net.topology().ends[end].node))
        else {
            return;
        };
        let now = self.now;
        self.fabric.borrow_mut().set_up(&name, false, now);
        let endpoint = self.hosts[host].endpoints.iter_mut().find(|endpoint| endpoint.name == name);
        endpoint.into_iter().for_each(|endpoint| {
            endpoint.unusable = Some(Cause::PortDown);
            endpoint.unusable_detail = "state DOWN".to_owned();
        });
        self.set_fabric_wakeup();
        self.after(NOTICED_AFTER, Happening::Look(host));
    }

    /// The second of two endpoints has the address of the first one from now on, as its agent tells.
    pub fn share_address(&mut self, first: usize, second: usize) {
        let Some((name, host)) =
            self.with_net(|net| (net.topology().name(second), net.topology().ends[second].node))
        else {
            return;
        };
        let endpoint = self.hosts[host].endpoints.iter_mut().find(|endpoint| endpoint.name == name);
        endpoint.into_iter().for_each(|endpoint| endpoint.gid = Some(address(first, 0).gid));
        self.after(NOTICED_AFTER, Happening::Look(host));
    }

    /// Nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.hosts.len()
    }

    /// Endpoints, over all nodes.
    #[must_use]
    pub fn ends(&self) -> usize {
        self.hosts.iter().map(|host| host.endpoints.len()).sum()
    }

    /// Which of its node's endpoints an endpoint of the fabric is.
    #[must_use]
    pub fn rail(&self, end: usize) -> usize {
        self.fabric.borrow().net.as_ref().map_or(0, |net| net.topology().ends[end].rail)
    }

    /// The process of a host is gone.
    pub(crate) fn mesh_ends(&mut self, host: usize) {
        let now = self.now;
        let fabric = Rc::clone(&self.fabric);
        let mut fabric = fabric.borrow_mut();
        let Some(net) = fabric.net.as_mut() else { return };
        for end in net.topology().of_node(host) {
            net.set_gone(end, Some(now.0));
            self.meshes.close(end);
        }
        if let Meshes::Windows(windows) = &mut self.meshes {
            windows.forget(host);
        }
    }

    /// An agent tells its mesh something.
    pub(crate) fn mesh_command(&mut self, host: usize, command: MeshCommand) {
        match (&self.meshes, &command) {
            (Meshes::Silent, _) => {}
            (_, MeshCommand::Endpoints(endpoints)) => self.open_endpoints(host, endpoints),
            (Meshes::Windows(_), _) => self.command_windows(host, &command),
            (Meshes::Packets(..), _) => self.command_packets(host, &command),
        }
        self.hosts[host].mesh.command(command);
    }

    fn open_endpoints(&mut self, host: usize, endpoints: &[EndpointInfo]) {
        let told = self.hosts[host].mesh.clone();
        let (now, nonce) = (self.now, self.random.draw());
        let fabric = Rc::clone(&self.fabric);
        let mut fabric = fabric.borrow_mut();
        let Some(net) = fabric.net.as_mut() else { return };
        let is_in = |list: &[EndpointInfo], info: &EndpointInfo| list.iter().any(|e| e.name == info.name);
        for info in told.endpoints.iter().filter(|info| !is_in(endpoints, info)) {
            let Some(end) = net.topology().find(&info.name) else { continue };
            net.set_gone(end, Some(now.0));
            self.meshes.close(end);
        }
        for info in endpoints.iter().filter(|info| !is_in(&told.endpoints, info)) {
            let Some(end) = net.topology().find(&info.name) else { continue };
            net.set_gone(end, None);
            self.opened += 1;
            let address = address(end, self.opened);
            match &mut self.meshes {
                Meshes::Silent => {}
                Meshes::Windows(windows) => windows.open(end, nonce, now, net),
                Meshes::Packets(packets, _) => {
                    packets.open(end, address, nonce, now, net);
                    packets.set_book(end, &told.book, now, net, &mut self.random);
                    packets.set_grant(end, told.grant, now, net, &mut self.random);
                }
            }
            self.says(now.after(OPENS_WITHIN), host, MeshEvent::Opened(info.name.clone(), address));
        }
        drop(fabric);
        self.plan_windows(host);
        self.set_packet_wakeup();
    }

    fn command_windows(&mut self, host: usize, command: &MeshCommand) {
        let fabric = Rc::clone(&self.fabric);
        let fabric = fabric.borrow();
        let (Some(net), Meshes::Windows(windows)) = (fabric.net.as_ref(), &mut self.meshes) else { return };
        match command {
            MeshCommand::Book(book) => windows.set_book(host, book, net),
            MeshCommand::Grant(grant) => windows.set_grant(host, *grant),
            MeshCommand::Endpoints(_) => {}
        }
        self.plan_windows(host);
    }

    /// Plans the next batch of every endpoint of a host that has none under way.
    fn plan_windows(&mut self, host: usize) {
        let fabric = Rc::clone(&self.fabric);
        let fabric = fabric.borrow();
        let (Some(net), Meshes::Windows(windows)) = (fabric.net.as_ref(), &mut self.meshes) else { return };
        let ends = net.topology().of_node(host);
        let due: Vec<_> = ends.filter_map(|end| windows.plan(end, self.now.0, net)).collect();
        for due in due {
            self.at(Mono(due.at), Happening::Mesh(Stir::Sent(due)));
        }
    }

    fn command_packets(&mut self, host: usize, command: &MeshCommand) {
        let fabric = Rc::clone(&self.fabric);
        let fabric = fabric.borrow();
        let (Some(net), Meshes::Packets(packets, _)) = (fabric.net.as_ref(), &mut self.meshes) else {
            return;
        };
        for end in net.topology().of_node(host) {
            match command {
                MeshCommand::Book(book) => packets.set_book(end, book, self.now, net, &mut self.random),
                MeshCommand::Grant(grant) => packets.set_grant(end, *grant, self.now, net, &mut self.random),
                MeshCommand::Endpoints(_) => {}
            }
        }
        self.set_packet_wakeup();
    }

    /// Something happens in a mesh.
    pub(crate) fn stir(&mut self, stir: Stir) {
        match stir {
            Stir::Sent(due) => self.batch_sent(due),
            Stir::Says(host, run, event) => {
                if self.hosts[host].runs == run && !self.hosts[host].stopped {
                    self.pinged.count(&event);
                    self.tell_agent(host, agent::Event::Mesh(*event));
                }
            }
            Stir::Packet => self.packets_due(),
        }
    }

    fn batch_sent(&mut self, due: Due) {
        let fabric = Rc::clone(&self.fabric);
        let fabric = fabric.borrow();
        let (Some(net), Meshes::Windows(windows)) = (fabric.net.as_ref(), &mut self.meshes) else { return };
        let sent = windows.sent(due, net, &mut self.random);
        let next = windows.plan(due.end, due.at, net);
        let nodes = |end: usize| net.topology().ends[end].node;
        if let Some(next) = next {
            self.at(Mono(next.at), Happening::Mesh(Stir::Sent(next)));
        }
        let Some((peer, drawn)) = sent else { return };
        let (local, name) = (net.topology().name(due.end), net.topology().name(peer));
        if let Some(heard) = drawn.heard {
            let told = Heard {
                local: name.clone(),
                peer: local.clone(),
                batch: drawn.stats.batch,
                small: heard.small,
                large: heard.large,
            };
            self.says(Mono(heard.last_at + SILENCE_NS), nodes(peer), MeshEvent::Heard(told));
        }
        let pings = MeshEvent::Pings(local, name, Box::new(drawn.stats));
        self.says(Mono(drawn.over_at), nodes(due.end), pings);
    }

    fn says(&mut self, at: Mono, host: usize, event: MeshEvent) {
        let run = self.hosts[host].runs;
        self.at(at, Happening::Mesh(Stir::Says(host, run, Box::new(event))));
    }

    fn packets_due(&mut self) {
        let fabric = Rc::clone(&self.fabric);
        if let Meshes::Packets(_, wakeup) = &mut self.meshes {
            *wakeup = None;
        }
        loop {
            let others = self.queue.first_key_value().map_or(u64::MAX, |(key, _)| key.0.0);
            let Meshes::Packets(packets, _) = &mut self.meshes else { return };
            let Some(next) = packets.next().filter(|&at| at <= others.min(self.horizon.0)) else { break };
            self.now = Mono(next.max(self.now.0));
            let net = fabric.borrow();
            let Some(net) = net.net.as_ref() else { return };
            let end = packets.step(net, &mut self.random).unwrap_or_default();
            let told = std::mem::take(&mut packets.told);
            self.note_packet(end);
            for (end, event) in told {
                let host = net.topology().ends[end].node;
                self.says(self.now, host, event);
            }
        }
        self.set_packet_wakeup();
    }

    fn set_packet_wakeup(&mut self) {
        let Meshes::Packets(packets, wakeup) = &mut self.meshes else { return };
        let (wanted, before) = (packets.next(), *wakeup);
        if before.map(|key| key.0.0) == wanted {
            return;
        }
        before.and_then(|key| self.queue.remove(&key));
        let key = wanted.map(|at| self.at(Mono(at), Happening::Mesh(Stir::Packet)));
        if let Meshes::Packets(_, wakeup) = &mut self.meshes {
            *wakeup = key;
        }
    }

    /// What the meshes told so far.
    #[must_use]
    pub fn pinged(&self) -> Pinged {
        self.pinged
    }
}

/// What an agent tells of an endpoint of a fabric.
fn info(net: &Net, end: usize) -> EndpointInfo {
    EndpointInfo {
        gid: Some(address(end, 0).gid),
        netdev: Some(format!("eth{}", net.topology().ends[end].rail)),
        netdev_mtu: Some(9_000),
        active_mtu: Some(4_096),
        rate_bps: Some(net.topology().ends[end].rate_bps),
        connections_labelled_by: LabelBy::FlowLabel,
        datagrams_labelled_by: LabelBy::FlowLabel,
        ..EndpointInfo::bare(net.topology().name(end), Kind::Simulated)
    }
}
