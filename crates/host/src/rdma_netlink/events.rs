//! RDMA devices that come, go or change their name or network device, told by the kernel as it happens.

use super::{attribute, system};
use crate::HostError;
use crate::nl::Attributes;
use crate::tree::Tree;
use rtnetlink::sys::protocols::NETLINK_RDMA;
use rtnetlink::sys::{AsyncSocket as _, AsyncSocketExt as _, SocketAddr, TokioSocket};

/// `RDMA_NL_GROUP_NOTIFY` (`include/uapi/rdma/rdma_netlink.h`), since Linux 6.12.
const GROUP: u32 = 4;

/// Message type of `RDMA_NLDEV_CMD_MONITOR` (28) of the client `RDMA_NL_NLDEV` (5).
const MONITOR: u16 = (5 << 10) | 28;

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;

/// Something that changed on the RDMA devices. Port states and GID tables are not told this way; an open device tells them by
/// asynchronous events of verbs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RdmaEvent {
    /// A device came.
    DeviceCame(String),
    /// A device is gone.
    DeviceGone(String),
    /// A device has a new name: this one.
    DeviceRenamed(String),
    /// A port of a device got another network device, or lost it.
    NetdevChanged {
        /// RDMA device.
        device: String,
        /// Port.
        port: u8,
    },
    /// Something else changed, such as the name of a port's network device.
    Other,
    /// Changes came faster than they were read, and some are lost: everything must be read again.
    Overrun,
}

/// The changes of RDMA devices since it was opened.
pub struct RdmaEvents(TokioSocket);

impl RdmaEvents {
    /// Starts to listen; must be called within a tokio runtime. `None` where the kernel tells no such changes: it has no RDMA core,
    /// or is older than Linux 6.12. Devices that come and go are then seen by looking.
    ///
    /// # Errors
    /// When the kernel has such changes to tell and gives no socket for them.
    pub fn open() -> Result<Option<Self>, HostError> {
        let tree = Tree::open(std::path::Path::new("/")).map_err(HostError::Netlink)?;
        if !is_monitor(system(&tree).ok().flatten().as_deref()) {
            return Ok(None);
        }
        let mut socket = TokioSocket::new(NETLINK_RDMA).map_err(HostError::Netlink)?;
        socket.socket_mut().bind(&SocketAddr::new(0, 1 << (GROUP - 1))).map_err(HostError::Netlink)?;
        Ok(Some(Self(socket)))
    }

    /// The next change; `None` when the socket is closed for good. May be dropped and called again without loss.
    pub async fn next(&mut self) -> Option<RdmaEvent> {
        loop {
            match self.0.recv_from_full().await {
                // Nobody but the kernel has the number 0.
                Ok((datagram, from)) if from.port_number() == 0 => {
                    if let Some(event) = event(&datagram) {
                        return Some(event);
                    }
                }
                Ok(_) => {}
                Err(e) if rustix::io::Errno::from_io_error(&e) == Some(rustix::io::Errno::NOBUFS) => {
                    return Some(RdmaEvent::Overrun);
                }
                Err(_) => return None,
            }
        }
    }
}

/// Whether the settings of the subsystem say that changes are told.
pub(crate) fn is_monitor(settings: Option<&[u8]>) -> bool {
    settings.is_some_and(|answer| Attributes(answer).u8(attribute::SYS_MONITOR_MODE) == Some(1))
}

/// One message of the group (`rdma_nl_notify_event` in `drivers/infiniband/core/nldev.c`); each is a datagram of its own.
pub(crate) fn event(datagram: &[u8]) -> Option<RdmaEvent> {
    let kind = datagram.get(4..6)?.try_into().ok().map(u16::from_ne_bytes)?;
    let attributes = Attributes(datagram.get(HEADER..)?);
    let what = attributes.u8(attribute::EVENT_TYPE).filter(|_| kind == MONITOR)?;
    let device = attributes.text(attribute::DEV_NAME).map(str::to_owned);
    let port = attributes.u32(attribute::PORT_INDEX).and_then(|port| u8::try_from(port).ok());
    // The order of enum rdma_nl_notify_event_type.
    Some(match (what, device, port) {
        (0, Some(device), _) => RdmaEvent::DeviceCame(device),
        (1, Some(device), _) => RdmaEvent::DeviceGone(device),
        (2 | 3, Some(device), Some(port)) => RdmaEvent::NetdevChanged { device, port },
        (4, Some(device), _) => RdmaEvent::DeviceRenamed(device),
        _ => RdmaEvent::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nl::Writer;

    fn datagram(kind: u16, attributes: &Writer) -> Vec<u8> {
        let length = u32::try_from(HEADER + attributes.as_bytes().len()).unwrap();
        let header = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10]].concat();
        [&header, attributes.as_bytes()].concat()
    }

    #[test]
    fn each_kind_of_change_is_understood() {
        let of = |what: u8| Writer::default().u32(1, 0).text(2, "mlx5_0").u32(3, 1).u8(102, what);
        let seen = |what: u8| event(&datagram(0x141c, &of(what)));
        let name = || "mlx5_0".to_owned();
        assert_eq!(seen(0), Some(RdmaEvent::DeviceCame(name())));
        assert_eq!(seen(1), Some(RdmaEvent::DeviceGone(name())));
        assert_eq!(seen(2), Some(RdmaEvent::NetdevChanged { device: name(), port: 1 }));
        assert_eq!(seen(3), Some(RdmaEvent::NetdevChanged { device: name(), port: 1 }));
        assert_eq!(seen(4), Some(RdmaEvent::DeviceRenamed(name())));
        // A renamed network device comes without the RDMA device's name.
        let renamed = Writer::default().u32(50, 4).text(51, "eth0").u8(102, 5);
        assert_eq!(event(&datagram(0x141c, &renamed)), Some(RdmaEvent::Other));
        assert_eq!(event(&datagram(0x1401, &of(0))), None, "the answer to a question is no change");
        let whole = datagram(0x141c, &of(0));
        // The last three bytes only fill up the kind of change.
        for length in 0..whole.len() - 3 {
            assert_eq!(event(&whole[..length]), None, "{length}");
        }
    }

    #[test]
    fn only_a_kernel_that_says_so_tells_changes() {
        assert!(is_monitor(Some(Writer::default().u8(66, 1).u8(103, 1).as_bytes())));
        assert!(!is_monitor(Some(Writer::default().u8(66, 1).as_bytes())));
        assert!(!is_monitor(None));
    }

    #[test]
    fn without_them_opening_is_no_error() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // This machine may have none, or all; what must not be is an error that says neither.
            assert!(RdmaEvents::open().is_ok());
        });
    }
}
