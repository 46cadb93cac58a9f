//! Network devices and their changes by rtnetlink, for the network namespace that we run in.

use crate::HostError;
use futures_util::{StreamExt as _, TryStreamExt as _};
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage, State};
use rdmascope_model::{Address, Netdev, Reading};
use rtnetlink::MulticastGroup;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long the kernel may take for both lists. It takes milliseconds; only a lock held by a stuck driver makes it long.
const DUMP_DEADLINE: Duration = Duration::from_secs(5);

/// A connection that is served until it is dropped.
struct Served(JoinHandle<()>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// All network devices with their addresses.
pub(crate) async fn dump() -> Reading<BTreeMap<String, Netdev>> {
    let (connection, handle, _) = match rtnetlink::new_connection() {
        Ok(parts) => parts,
        Err(e) => return Reading::Failed(format!("opening a netlink socket: {e}")),
    };
    let _served = Served(tokio::spawn(connection));
    let both = async {
        let links = handle.link().get().execute().try_collect::<Vec<_>>().await;
        let addresses = handle.address().get().execute().try_collect::<Vec<_>>().await;
        (links, addresses)
    };
    match tokio::time::timeout(DUMP_DEADLINE, both).await {
        Ok((Ok(links), addresses)) => Reading::Value(joined(links, addresses.map_err(|e| e.to_string()))),
        Ok((Err(e), _)) => Reading::Failed(format!("asking rtnetlink for the network devices: {e}")),
        Err(_) => Reading::Failed(format!("rtnetlink did not answer within {} s", DUMP_DEADLINE.as_secs())),
    }
}

fn joined(
    links: Vec<LinkMessage>,
    addresses: Result<Vec<AddressMessage>, String>,
) -> BTreeMap<String, Netdev> {
    let mut by_index: BTreeMap<u32, Vec<Address>> = BTreeMap::new();
    for message in addresses.iter().flatten() {
        if let Some(ip) = address_of(message) {
            by_index.entry(message.header.index).or_default().push(ip);
        }
    }
    let failed = addresses.err().map(|e| format!("asking rtnetlink for the addresses: {e}"));
    links
        .into_iter()
        .filter_map(|link| {
            let name = name_of(&link)?;
            let found = match &failed {
                Some(why) => Reading::Failed(why.clone()),
                None => Reading::Value(by_index.remove(&link.header.index).unwrap_or_default()),
            };
            Some((name, netdev(&link, found)))
        })
        .collect()
}

/// The address of the device itself. On a point-to-point link `IFA_ADDRESS` is the peer's and `IFA_LOCAL` ours. An address whose
/// duplicate detection failed or is not over cannot be used.
fn address_of(message: &AddressMessage) -> Option<Address> {
    let unusable = AddressHeaderFlags::Dadfailed | AddressHeaderFlags::Tentative;
    let optimistic = message.header.flags.contains(AddressHeaderFlags::Optimistic);
    if message.header.flags.intersects(unusable) && !optimistic {
        return None;
    }
    let local = message.attributes.iter().find_map(|a| match a {
        AddressAttribute::Local(ip) => Some(*ip),
        _ => None,
    });
    let ip = local.or_else(|| {
        message.attributes.iter().find_map(|a| match a {
            AddressAttribute::Address(ip) => Some(*ip),
            _ => None,
        })
    })?;
    Some(Address { ip, prefix: message.header.prefix_len })
}

fn name_of(link: &LinkMessage) -> Option<String> {
    link.attributes.iter().find_map(|a| match a {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    })
}

fn netdev(link: &LinkMessage, addresses: Reading<Vec<Address>>) -> Netdev {
    let mut netdev = Netdev {
        index: Reading::Value(link.header.index),
        mtu: Reading::Absent,
        oper_state: Reading::Absent,
        admin_up: Reading::Value(link.header.flags.contains(LinkFlags::Up)),
        carrier: Reading::Value(link.header.flags.contains(LinkFlags::LowerUp)),
        carrier_changes: Reading::Absent,
        tx_bytes: Reading::Absent,
        rx_bytes: Reading::Absent,
        addresses,
        ..Netdev::unread(crate::rdma::NOT_YET)
    };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::Mtu(mtu) => netdev.mtu = Reading::Value(*mtu),
            LinkAttribute::OperState(state) => netdev.oper_state = oper_state(*state),
            LinkAttribute::CarrierChanges(n) => netdev.carrier_changes = Reading::Value(*n),
            LinkAttribute::Stats64(stats) => {
                netdev.tx_bytes = Reading::Value(stats.tx_bytes);
                netdev.rx_bytes = Reading::Value(stats.rx_bytes);
            }
            _ => {}
        }
    }
    netdev
}

/// The words of `/sys/class/net/NAME/operstate`.
fn oper_state(state: State) -> Reading<String> {
    let word = match state {
        State::Unknown => "unknown",
        State::NotPresent => "notpresent",
        State::Down => "down",
        State::LowerLayerDown => "lowerlayerdown",
        State::Testing => "testing",
        State::Dormant => "dormant",
        State::Up => "up",
        other => return Reading::Failed(format!("unknown operational state {}", u8::from(other))),
    };
    Reading::Value(word.to_owned())
}

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
        Ok(Self { messages: messages.boxed(), _served: Served(tokio::spawn(connection)) })
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

fn event_of(payload: &NetlinkPayload<RouteNetlinkMessage>) -> Option<LinkEvent> {
    match payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
            name_of(link).map(LinkEvent::LinkChanged)
        }
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => {
            name_of(link).map(LinkEvent::LinkGone)
        }
        NetlinkPayload::InnerMessage(
            RouteNetlinkMessage::NewAddress(address) | RouteNetlinkMessage::DelAddress(address),
        ) => Some(LinkEvent::AddressChanged(address.header.index)),
        // The socket's buffer was full (ENOBUFS).
        NetlinkPayload::Overrun(_) => Some(LinkEvent::Overrun),
        _ => None,
    }
}
