//! Which transport runs a probe, and how their worker threads wake the main loop.

use rdmascope_config::{HostPort, TransportKind};
use rdmascope_host::{Clock, Host, PortCounters};
use rdmascope_model::{
    Carrier, Effects, EndpointInfo, EndpointName, Fabric, LeaseId, Mono, ProbePlan, ProbeSpec,
};
use rdmascope_probe::TransportEvent;
use rdmascope_probe::mesh::{MeshCommand, MeshEvent};
use rdmascope_transport::echo::Echo;
use rdmascope_transport::mesh::Mesh;
use rdmascope_transport::tcp::Tcp;
use rdmascope_transport::verbs::Verbs;
use rdmascope_transport::{PortReader, PortReading, Transport, Waker};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Notify;
use tracing::warn;

/// What an agent can probe with. Each transport starts its threads when it is first needed.
pub(crate) struct Probes {
    /// The endpoints' own.
    native: Box<dyn Transport>,
    /// The baseline over the network device underneath.
    tcp: Tcp,
    echo: Echo,
    /// Datagrams between all endpoints; `None` where there is no RDMA, or no thread for it.
    mesh: Option<Mesh>,
    /// Where each lease went.
    leases: BTreeMap<LeaseId, Place>,
}

#[derive(Clone, Copy)]
enum Place {
    Native,
    Tcp,
    Echo,
    Mesh,
}

impl Place {
    /// By what is asked for.
    fn of(plan: &ProbePlan) -> Self {
        match (plan.spec, plan.manner.carrier) {
            (ProbeSpec::Echo(_), _) => Self::Echo,
            (ProbeSpec::Pings(_), _) => Self::Mesh,
            (_, Carrier::Tcp) => Self::Tcp,
            (_, Carrier::Native) => Self::Native,
        }
    }
}

impl Probes {
    /// `woken` is told when one of them has something new; `own` is the address that peers reach this machine at.
    pub(crate) fn new(
        kind: TransportKind,
        host: &Host,
        clock: Clock,
        woken: &Arc<Notify>,
        own: Option<IpAddr>,
    ) -> Self {
        let notify = Arc::clone(woken);
        let waker: Waker = Arc::new(move || notify.notify_one());
        let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let (effects, bind): (PortReader, IpAddr) = match kind {
            TransportKind::Verbs => {
                let counters = PortCounters::new(host.clone());
                let traffic = host.clone();
                let read = move |endpoint: &EndpointInfo| {
                    let (name, netdev) = (&endpoint.name, endpoint.netdev.as_deref());
                    let traffic = traffic.traffic(&name.device, name.port, netdev);
                    let bytes = traffic.value().map(|moved| moved.tx_bytes.saturating_add(moved.rx_bytes));
                    PortReading { effects: counters.read(endpoint), bytes }
                };
                (Arc::new(read), unspecified)
            }
            // No port is known there.
            TransportKind::Tcp => {
                (Arc::new(|_| PortReading::default()), own.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)))
            }
        };
        // TCP's own retransmissions are counted per machine, not per pair, and RDMA's say nothing of it.
        let counters = Arc::clone(&effects);
        let without: PortReader = Arc::new(move |endpoint| {
            let seen = counters(endpoint);
            PortReading { effects: Effects { retransmits: None, ..seen.effects }, bytes: seen.bytes }
        });
        let tcp = || Tcp::new(Arc::clone(&without), Arc::clone(&waker), bind, None);
        let native: Box<dyn Transport> = match kind {
            TransportKind::Verbs => {
                let nodes = Path::new(rdmascope_host::DEVICE_NODES);
                Box::new(Verbs::new(effects, Arc::clone(&waker), None, nodes))
            }
            TransportKind::Tcp => Box::new(tcp()),
        };
        let echo = Echo::new(Arc::clone(&without), Arc::clone(&waker), bind);
        let mesh = match kind {
            TransportKind::Verbs => mesh(clock, waker.clone()),
            TransportKind::Tcp => None,
        };
        Self { native, tcp: tcp(), echo, mesh, leases: BTreeMap::new() }
    }

    /// Tells the mesh something; never waits. Where there is none, no endpoint is ever open for datagrams, and the coordinator goes on
    /// probing connections.
    pub(crate) fn mesh(&mut self, command: MeshCommand) {
        if let Some(mesh) = &mut self.mesh {
            mesh.command(command);
        }
    }

    /// The next thing that the mesh has to tell.
    pub(crate) fn next_mesh_event(&mut self) -> Option<MeshEvent> {
        self.mesh.as_mut()?.next_event()
    }

    fn at(&mut self, place: Place) -> &mut dyn Transport {
        match place {
            Place::Native => &mut *self.native,
            Place::Tcp => &mut self.tcp,
            Place::Echo => &mut self.echo,
            // Without a mesh the native transport says that it has no datagrams.
            Place::Mesh => self.mesh.as_mut().map_or(&mut *self.native, |mesh| mesh as &mut dyn Transport),
        }
    }

    /// The transport of a lease; one that nobody prepared is the native one's to complain about.
    fn of(&mut self, lease: LeaseId) -> &mut dyn Transport {
        let place = self.leases.get(&lease).copied().unwrap_or(Place::Native);
        self.at(place)
    }
}

impl Transport for Probes {
    fn prepare(&mut self, plan: &ProbePlan, endpoint: &EndpointInfo, now: Mono) {
        let place = *self.leases.entry(plan.lease).or_insert_with(|| Place::of(plan));
        self.at(place).prepare(plan, endpoint, now);
    }

    fn connect(&mut self, lease: LeaseId, offer: &[u8], now: Mono) {
        self.of(lease).connect(lease, offer, now);
    }

    fn start(&mut self, lease: LeaseId, now: Mono) {
        self.of(lease).start(lease, now);
    }

    fn close(&mut self, lease: LeaseId, now: Mono) {
        self.of(lease).close(lease, now);
        self.leases.remove(&lease);
    }

    fn poll(&mut self, now: Mono) -> Option<(LeaseId, TransportEvent)> {
        let connected = self.native.poll(now).or_else(|| self.tcp.poll(now));
        let told = connected.or_else(|| self.echo.poll(now));
        told.or_else(|| self.mesh.as_mut().and_then(|mesh| mesh.poll(now)))
    }
}

fn mesh(clock: Clock, waker: Waker) -> Option<Mesh> {
    let nodes = Path::new(rdmascope_host::DEVICE_NODES);
    let made = Mesh::new(Arc::new(move || clock.now().mono), waker, None, nodes);
    made.inspect_err(|error| warn!(%error, "no mesh of pings: connections are probed instead")).ok()
}

/// The own address towards the coordinator: what peers can reach. No packet is sent.
pub(crate) fn own_address(coordinator: &HostPort) -> Option<IpAddr> {
    let target = coordinator.to_string().to_socket_addrs().ok()?.next()?;
    let any: IpAddr = if target.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(target).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// The one endpoint of a node that is probed over TCP.
pub(crate) fn tcp_endpoint(node: &str, address: IpAddr) -> EndpointInfo {
    let name = EndpointName { node: node.to_owned(), device: "tcp".to_owned(), port: 1 };
    EndpointInfo { gid: Some(address.into()), ..EndpointInfo::bare(name, Fabric::Tcp) }
}
