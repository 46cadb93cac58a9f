//! What the kernel tells of links, addresses and RDMA devices as it happens.

use rdmascope_host::{LinkEvent, LinkEvents, RdmaEvents};
use rdmascope_model::Snapshot;
use tracing::{info, warn};

/// Something happened.
pub(super) enum KernelEvent {
    /// To a network device or its addresses.
    Link(LinkEvent),
    /// To an RDMA device.
    Rdma,
}

/// The sources; one that is not there is waited for in vain.
pub(super) struct Sources {
    links: Option<LinkEvents>,
    rdma: Option<RdmaEvents>,
}

impl Sources {
    /// To be opened before the first reading, so that nothing falls between them.
    pub(super) fn open() -> Self {
        let links = LinkEvents::open().map_err(|error| warn!(%error, "link events cannot be had")).ok();
        Self { links, rdma: rdma_events() }
    }

    /// The next event; may be dropped and called again without loss.
    pub(super) async fn next(&mut self) -> KernelEvent {
        loop {
            tokio::select! {
                event = next_of_links(&mut self.links) => match event {
                    Some(event) => return KernelEvent::Link(event),
                    None => {
                        warn!("link events have ended; changes are seen by looking");
                        self.links = None;
                    }
                },
                there = next_of_rdma(&mut self.rdma) => {
                    if there {
                        return KernelEvent::Rdma;
                    }
                    warn!("RDMA device events have ended; changes are seen every second");
                    self.rdma = None;
                }
            }
        }
    }
}

/// The kernel's own word when RDMA devices change, where it gives one; said once where it does not.
fn rdma_events() -> Option<RdmaEvents> {
    match RdmaEvents::open() {
        Ok(Some(events)) => Some(events),
        Ok(None) => {
            info!("this kernel tells no RDMA device events (Linux 6.12 does); changes are seen every second");
            None
        }
        Err(error) => {
            warn!(%error, "RDMA device events cannot be had; changes are seen every second");
            None
        }
    }
}

/// Whether an event is about a network device that carries RDMA, also one that stands on it.
pub(super) fn is_ours(machine: &Snapshot, event: &LinkEvent) -> bool {
    let devices = machine.devices.value().into_iter().flatten();
    let mut carries = devices.flat_map(|device| &device.ports).flat_map(|port| {
        let gids = port.gids.value().into_iter().flatten().filter_map(|gid| gid.netdev.value());
        gids.chain(port.netdev.value())
    });
    match event {
        LinkEvent::LinkChanged(name) | LinkEvent::LinkGone(name) => carries.any(|netdev| netdev == name),
        LinkEvent::AddressChanged(index) => {
            let netdevs = machine.netdevs.value();
            let has_index = |name: &String| netdevs?.get(name)?.index.value().copied();
            carries.any(|netdev| has_index(netdev) == Some(*index))
        }
        LinkEvent::Overrun => true,
    }
}

async fn next_of_links(events: &mut Option<LinkEvents>) -> Option<LinkEvent> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

async fn next_of_rdma(events: &mut Option<RdmaEvents>) -> bool {
    match events {
        Some(events) => events.next().await.is_some(),
        None => std::future::pending().await,
    }
}
