//! Everything that is ever asked through these sockets. A message that sets something has no name here, so that none can be sent.

use rtnetlink::sys::protocols::{NETLINK_GENERIC, NETLINK_RDMA, NETLINK_ROUTE};

/// `RTM_GETDCB` (`include/uapi/linux/rtnetlink.h`).
const RTM_GETDCB: u16 = 78;

/// Message type of the generic netlink controller, its command `CTRL_CMD_GETFAMILY` and its attributes
/// `CTRL_ATTR_FAMILY_ID` and `CTRL_ATTR_FAMILY_NAME` (`include/uapi/linux/genetlink.h`).
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
pub(super) const FAMILY_ID: u16 = 1;
pub(super) const FAMILY_NAME: u16 = 2;

/// `RDMA_NL_NLDEV`: the client whose messages tell of devices and their resources (`include/uapi/rdma/rdma_netlink.h`); the
/// message type is this, shifted by 10 bits, and the command.
const RDMA_NLDEV: u16 = 5;

/// Part of the kernel that a socket speaks with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subsystem {
    Dcb,
    Ethtool,
    Devlink,
    Rdma,
}

impl Subsystem {
    /// Netlink protocol.
    pub(super) fn protocol(self) -> isize {
        match self {
            Self::Dcb => NETLINK_ROUTE,
            Self::Ethtool | Self::Devlink => NETLINK_GENERIC,
            Self::Rdma => NETLINK_RDMA,
        }
    }
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Which number a generic netlink family has.
    Family,
    /// Data centre bridging.
    Dcb(DcbQuestion),
    /// ethtool.
    Ethtool(EthtoolQuestion),
    /// devlink.
    Devlink(DevlinkQuestion),
    /// RDMA devices.
    Rdma(RdmaQuestion),
}

/// Commands of `include/uapi/linux/dcbnl.h` that only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum DcbQuestion {
    /// `DCB_CMD_IEEE_GET`: PFC, ETS, application table, buffers.
    Ieee = 21,
    /// `DCB_CMD_GDCBX`: who controls the settings.
    Dcbx = 22,
}

/// Commands of `include/uapi/linux/ethtool_netlink.h` that only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EthtoolQuestion {
    /// `ETHTOOL_MSG_LINKMODES_GET`.
    LinkModes = 4,
    /// `ETHTOOL_MSG_LINKSTATE_GET`.
    LinkState = 6,
    /// `ETHTOOL_MSG_PAUSE_GET`.
    Pause = 21,
    /// `ETHTOOL_MSG_FEC_GET`.
    Fec = 29,
    /// `ETHTOOL_MSG_MODULE_EEPROM_GET`.
    ModuleEeprom = 31,
}

/// Commands of `include/uapi/linux/devlink.h` that only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum DevlinkQuestion {
    /// `DEVLINK_CMD_GET`.
    Devices = 1,
    /// `DEVLINK_CMD_PARAM_GET`.
    Parameters = 38,
    /// `DEVLINK_CMD_INFO_GET`.
    Info = 51,
    /// `DEVLINK_CMD_HEALTH_REPORTER_GET`.
    HealthReporters = 52,
}

/// Commands of `include/uapi/rdma/rdma_netlink.h` that only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RdmaQuestion {
    /// `RDMA_NLDEV_CMD_GET`.
    Devices = 1,
    /// `RDMA_NLDEV_CMD_PORT_GET`.
    Ports = 5,
    /// `RDMA_NLDEV_CMD_SYS_GET`.
    System = 6,
    /// `RDMA_NLDEV_CMD_RES_GET`.
    Resources = 9,
    /// `RDMA_NLDEV_CMD_RES_QP_GET`.
    QueuePairs = 10,
    /// `RDMA_NLDEV_CMD_STAT_GET`.
    Statistics = 17,
}

impl Question {
    pub(super) fn belongs_to(self, subsystem: Subsystem) -> bool {
        match self {
            Self::Family => subsystem.protocol() == NETLINK_GENERIC,
            Self::Dcb(_) => subsystem == Subsystem::Dcb,
            Self::Ethtool(_) => subsystem == Subsystem::Ethtool,
            Self::Devlink(_) => subsystem == Subsystem::Devlink,
            Self::Rdma(_) => subsystem == Subsystem::Rdma,
        }
    }

    /// Message type and what stands between the netlink header and the attributes.
    pub(super) fn message(self, family: u16) -> (u16, Vec<u8>) {
        // struct genlmsghdr: command, version, 16 bits reserved.
        let generic = |command: u8| vec![command, 1, 0, 0];
        match self {
            Self::Family => (CONTROLLER, generic(GET_FAMILY)),
            // struct dcbmsg: address family, command, 16 bits reserved.
            Self::Dcb(question) => (RTM_GETDCB, vec![0, question as u8, 0, 0]),
            Self::Ethtool(question) => (family, generic(question as u8)),
            Self::Devlink(question) => (family, generic(question as u8)),
            Self::Rdma(question) => ((RDMA_NLDEV << 10) | u16::from(question as u8), Vec::new()),
        }
    }

    /// How many bytes stand before the attributes, in the answer too.
    pub(super) fn header_bytes(self) -> usize {
        if matches!(self, Self::Rdma(_)) { 0 } else { 4 }
    }
}
