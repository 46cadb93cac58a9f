//! Errors that name the verb, the device and the errno, so that a caller can turn them into causes.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cm::CmCommand;

/// Why libibverbs is not usable on this host. Everything but verbs goes on working.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The dynamic loader found no such library, or could not load it.
    #[error(
        "{} cannot be loaded: RDMA verbs are unavailable here. Install rdma-core's library \
         (Debian: libibverbs1 and ibverbs-providers; RHEL: libibverbs)",
        library.display()
    )]
    Library {
        /// What was asked for: a name for the loader's search path, or a path.
        library: PathBuf,
        /// The loader's own words.
        #[source]
        source: libloading::Error,
    },
    /// The library is there but lacks a function that every rdma-core since 2018 exports.
    #[error("{} has no function {symbol}: it is not rdma-core's libibverbs, or too old", library.display())]
    Symbol {
        /// What was loaded.
        library: PathBuf,
        /// The missing function.
        symbol: &'static str,
        /// The loader's own words.
        #[source]
        source: libloading::Error,
    },
}

/// The state that a queue pair was to be moved to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuePairState {
    /// INIT: bound to a port.
    Init,
    /// RTR: knows its peer; for RoCE the kernel resolves the peer's MAC address in this step.
    ReadyToReceive,
    /// RTS: may send.
    ReadyToSend,
    /// ERR: all outstanding work is flushed.
    Error,
}

impl fmt::Display for QueuePairState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Init => "INIT",
            Self::ReadyToReceive => "RTR",
            Self::ReadyToSend => "RTS",
            Self::Error => "ERR",
        })
    }
}

/// The call that failed, by its name in the verbs manual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the verb of the same name")]
pub enum Verb {
    GetDeviceList,
    OpenDevice,
    QueryDevice,
    QueryPort,
    QueryGid,
    QueryGidTable,
    QueryPkey,
    AllocPd,
    RegMr,
    RegDmabufMr,
    CreateCompChannel,
    CreateCq,
    ReqNotifyCq,
    PollCq,
    GetCqEvent,
    CreateQp,
    ModifyQp(QueuePairState),
    CreateAh,
    PostSend,
    PostRecv,
    GetAsyncEvent,
    ConnectionManager(CmCommand),
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GetDeviceList => "ibv_get_device_list",
            Self::OpenDevice => "ibv_open_device",
            Self::QueryDevice => "ibv_query_device",
            Self::QueryPort => "ibv_query_port",
            Self::QueryGid => "ibv_query_gid",
            Self::QueryGidTable => "ibv_query_gid_table",
            Self::QueryPkey => "ibv_query_pkey",
            Self::AllocPd => "ibv_alloc_pd",
            Self::RegMr => "ibv_reg_mr",
            Self::RegDmabufMr => "ibv_reg_dmabuf_mr",
            Self::CreateCompChannel => "ibv_create_comp_channel",
            Self::CreateCq => "ibv_create_cq",
            Self::ReqNotifyCq => "ibv_req_notify_cq",
            Self::PollCq => "ibv_poll_cq",
            Self::GetCqEvent => "ibv_get_cq_event",
            Self::CreateQp => "ibv_create_qp",
            Self::ModifyQp(state) => return write!(f, "ibv_modify_qp({state})"),
            Self::CreateAh => "ibv_create_ah",
            Self::PostSend => "ibv_post_send",
            Self::PostRecv => "ibv_post_recv",
            Self::GetAsyncEvent => "ibv_get_async_event",
            Self::ConnectionManager(command) => return command.fmt(f),
        })
    }
}

/// A verb that failed on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerbError {
    /// The call.
    pub verb: Verb,
    /// The kernel's or provider's errno; `EINVAL` also where this crate refused misuse before the call.
    pub errno: i32,
    /// The device's name; `None` where no device was involved yet.
    pub device: Option<Arc<str>>,
}

impl fmt::Display for VerbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(device) = &self.device {
            write!(f, "{device}: ")?;
        }
        let text = io::Error::from_raw_os_error(self.errno).to_string();
        let words = text.split(" (os error").next().unwrap_or_default();
        write!(f, "{}: {words} (errno {})", self.verb, self.errno)
    }
}

impl std::error::Error for VerbError {}

impl VerbError {
    #[cold]
    pub(crate) fn new(verb: Verb, errno: i32, device: &Arc<str>) -> Self {
        Self { verb, errno, device: Some(Arc::clone(device)) }
    }

    /// For calls that return a null pointer or -1 and leave the reason in `errno`.
    #[cold]
    pub(crate) fn last(verb: Verb, device: &Arc<str>) -> Self {
        Self::new(verb, last_errno(), device)
    }
}

pub(crate) const EINVAL: i32 = rustix::io::Errno::INVAL.raw_os_error();
pub(crate) const EOPNOTSUPP: i32 = rustix::io::Errno::OPNOTSUPP.raw_os_error();
pub(crate) const EAGAIN: i32 = rustix::io::Errno::AGAIN.raw_os_error();
pub(crate) const EINTR: i32 = rustix::io::Errno::INTR.raw_os_error();

pub(crate) fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Verbs that return an int are not of one mind: 0, the errno, its negative, or -1 with `errno` set.
pub(crate) fn check(code: i32, verb: Verb, device: &Arc<str>) -> Result<(), VerbError> {
    match code {
        0 => Ok(()),
        -1 => Err(VerbError::last(verb, device)),
        code => Err(VerbError::new(verb, code.saturating_abs(), device)),
    }
}

static FAILED_RELEASES: AtomicU64 = AtomicU64::new(0);

/// Handles that the library refused to release since the start of the process: each one keeps its device
/// busy. A drop cannot return an error, so it counts here; anything but 0 is a defect or a device that
/// stopped answering.
pub fn failed_releases() -> u64 {
    FAILED_RELEASES.load(Ordering::Relaxed)
}

/// Counts a release that failed; true when it went well.
pub(crate) fn released(code: i32) -> bool {
    if code != 0 {
        FAILED_RELEASES.fetch_add(1, Ordering::Relaxed);
    }
    code == 0
}
