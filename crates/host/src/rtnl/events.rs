//! Changes of network devices and addresses, told by the kernel as they happen.

use super::{Served, link};
use crate::HostError;
use futures_util::StreamExt as _;
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use rtnetlink::MulticastGroup;

/// Something that changed on the network devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// A device came, or its state, MTU, flags or counters of carrier changes did.
    LinkChanged(String),
    /// A device is gone.
    LinkGone(String),
    /// An address of the device with this index came or went.
    AddressChanged(u32),
    /// Changes came faster than they were read, and some are lost: everything must be read again.
    Overrun,
}

/// The changes of network devices and addresses since it was opened.
pub struct LinkEvents {
    messages: Messages,
    _served: Served,
}

type Messages = futures_util::stream::BoxStream<
    'static,
    (NetlinkMessage<RouteNetlinkMessage>, rtnetlink::sys::SocketAddr),
>;

impl LinkEvents {
    /// Starts to listen; must be called within a tokio runtime. What was before is not told: open first, then read.
    ///
    /// # Errors
    /// When the kernel gives no netlink socket.
    pub fn open() -> Result<Self, HostError> {
        let groups = [MulticastGroup::Link, MulticastGroup::Ipv4Ifaddr, MulticastGroup::Ipv6Ifaddr];
        let (connection, _, messages) =
            rtnetlink::new_multicast_connection(&groups).map_err(HostError::Netlink)?;
        Ok(Self { messages: messages.boxed(), _served: Served::start(connection) })
    }

    /// The next change; `None` when the socket is closed for good. May be dropped and called again without loss.
    pub async fn next(&mut self) -> Option<LinkEvent> {
        loop {
            let (message, _) = self.messages.next().await?;
            if let Some(event) = event_of(&message.payload) {
                return Some(event);
            }
        }
    }
}

pub(crate) fn event_of(payload: &NetlinkPayload<RouteNetlinkMessage>) -> Option<LinkEvent> {
    match payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
            link::name(link).map(LinkEvent::LinkChanged)
        }
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => {
            link::name(link).map(LinkEvent::LinkGone)
        }
        NetlinkPayload::InnerMessage(
            RouteNetlinkMessage::NewAddress(address) | RouteNetlinkMessage::DelAddress(address),
        ) => Some(LinkEvent::AddressChanged(address.header.index)),
        // The socket's buffer was full (ENOBUFS).
        NetlinkPayload::Overrun(_) => Some(LinkEvent::Overrun),
        _ => None,
    }
}
