//! The transport that this agent was told to use, and how its worker threads wake the main loop.

use rdmascope_config::{HostPort, TransportKind};
use rdmascope_host::Host;
use rdmascope_model::{EndpointInfo, EndpointName, Fabric};
use rdmascope_transport::tcp::Tcp;
use rdmascope_transport::verbs::Verbs;
use rdmascope_transport::{RetransmitReader, Transport, Waker};
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Notify;

/// Makes the transport; `woken` is told when it has something new.
pub(crate) fn transport(
    kind: TransportKind,
    host: &Host,
    woken: &Arc<Notify>,
    own: Option<IpAddr>,
) -> Box<dyn Transport> {
    let notify = Arc::clone(woken);
    let waker: Waker = Arc::new(move || notify.notify_one());
    let host = host.clone();
    match kind {
        TransportKind::Verbs => {
            let retransmits: RetransmitReader =
                Arc::new(move |device, port| host.read_retransmits(device, port).value().copied());
            Box::new(Verbs::new(retransmits, waker, None, Path::new(rdmascope_host::DEVICE_NODES)))
        }
        TransportKind::Tcp => {
            // TCP's own retransmissions are counted per machine, not per pair: they would say nothing here.
            let retransmits: RetransmitReader = Arc::new(|_, _| None);
            let bind = own.unwrap_or(IpAddr::from([127, 0, 0, 1]));
            Box::new(Tcp::new(retransmits, waker, bind, None))
        }
    }
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
