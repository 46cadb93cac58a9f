//! Asynchronous events of a device: ports that go up or down, GIDs that change, fatal errors.

use std::fmt;
use std::mem::{MaybeUninit, offset_of};

use rdma_sys::ibv_qp;

use crate::context::Context;
use crate::error::{EAGAIN, EINTR, Verb, VerbError, last_errno};

/// `struct ibv_async_event`, with the kind as a plain number: a Rust enum would be undefined for the kinds
/// that newer libraries add.
#[repr(C)]
pub(crate) struct RawAsyncEvent {
    /// A pointer to the queue (pair), or in its lower half the port's number.
    element: u64,
    kind: i32,
}

const _: () = assert!(size_of::<RawAsyncEvent>() == size_of::<rdma_sys::ibv_async_event>());
const _: () = assert!(offset_of!(RawAsyncEvent, kind) == offset_of!(rdma_sys::ibv_async_event, event_type));

/// What happened (`enum ibv_event_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "Display gives the words for each")]
pub enum EventKind {
    CompletionQueueError,
    QueuePairFatal,
    QueuePairRequestError,
    QueuePairAccessError,
    ConnectionEstablished,
    SendQueueDrained,
    PathMigrated,
    PathMigrationError,
    DeviceFatal,
    PortActive,
    PortError,
    LidChange,
    PkeyChange,
    SubnetManagerChange,
    SharedReceiveQueueError,
    SharedReceiveQueueLimit,
    LastRequestReached,
    ClientReregister,
    GidChange,
    WorkQueueFatal,
    Other(i32),
}

impl EventKind {
    fn from_code(code: i32) -> Self {
        match code {
            0 => Self::CompletionQueueError,
            1 => Self::QueuePairFatal,
            2 => Self::QueuePairRequestError,
            3 => Self::QueuePairAccessError,
            4 => Self::ConnectionEstablished,
            5 => Self::SendQueueDrained,
            6 => Self::PathMigrated,
            7 => Self::PathMigrationError,
            8 => Self::DeviceFatal,
            9 => Self::PortActive,
            10 => Self::PortError,
            11 => Self::LidChange,
            12 => Self::PkeyChange,
            13 => Self::SubnetManagerChange,
            14 => Self::SharedReceiveQueueError,
            15 => Self::SharedReceiveQueueLimit,
            16 => Self::LastRequestReached,
            17 => Self::ClientReregister,
            18 => Self::GidChange,
            19 => Self::WorkQueueFatal,
            other => Self::Other(other),
        }
    }

    fn names_port(self) -> bool {
        matches!(
            self,
            Self::PortActive
                | Self::PortError
                | Self::LidChange
                | Self::PkeyChange
                | Self::SubnetManagerChange
                | Self::ClientReregister
                | Self::GidChange
        )
    }

    fn names_queue_pair(self) -> bool {
        matches!(
            self,
            Self::QueuePairFatal
                | Self::QueuePairRequestError
                | Self::QueuePairAccessError
                | Self::ConnectionEstablished
                | Self::SendQueueDrained
                | Self::PathMigrated
                | Self::PathMigrationError
                | Self::LastRequestReached
        )
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CompletionQueueError => "completion queue error",
            Self::QueuePairFatal => "queue pair failed",
            Self::QueuePairRequestError => "queue pair: invalid request",
            Self::QueuePairAccessError => "queue pair: access violation",
            Self::ConnectionEstablished => "queue pair: first packet before RTS",
            Self::SendQueueDrained => "send queue drained",
            Self::PathMigrated => "path migrated",
            Self::PathMigrationError => "path migration failed",
            Self::DeviceFatal => "device failed",
            Self::PortActive => "port active",
            Self::PortError => "port down",
            Self::LidChange => "LID changed",
            Self::PkeyChange => "P_Key table changed",
            Self::SubnetManagerChange => "subnet manager changed",
            Self::SharedReceiveQueueError => "shared receive queue error",
            Self::SharedReceiveQueueLimit => "shared receive queue low",
            Self::LastRequestReached => "last request reached",
            Self::ClientReregister => "subnet manager asks to register again",
            Self::GidChange => "GID table changed",
            Self::WorkQueueFatal => "work queue failed",
            Self::Other(code) => return write!(f, "event {code} (not known to this version)"),
        })
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsyncEvent {
    /// What happened.
    pub kind: EventKind,
    /// The port, for events of ports.
    pub port: Option<u8>,
    /// The queue pair's number, for events of queue pairs.
    pub queue_pair: Option<u32>,
}

impl Context {
    /// Takes the next event, if there is one, and acknowledges it. Never waits.
    ///
    /// # Errors
    /// [`VerbError`]; `EIO` when the device is gone.
    pub fn next_event(&self) -> Result<Option<AsyncEvent>, VerbError> {
        let handle = &*self.handle;
        let mut event = MaybeUninit::<RawAsyncEvent>::zeroed();
        // SAFETY: the context is alive and `event` has the size of the structure that the library fills.
        let code = unsafe { (handle.symbols.get_async_event)(handle.raw.as_ptr(), event.as_mut_ptr()) };
        if code != 0 {
            return match last_errno() {
                EAGAIN | EINTR => Ok(None),
                errno => Err(VerbError::new(Verb::GetAsyncEvent, errno, &handle.device)),
            };
        }
        // SAFETY: integers only, zeroed before the call: every bit pattern is valid.
        let mut event = unsafe { event.assume_init() };
        let kind = EventKind::from_code(event.kind);
        let port = kind.names_port().then(|| event.element.to_ne_bytes()).map(port_of);
        let queue_pair = kind.names_queue_pair().then(|| {
            let pair = std::ptr::with_exposed_provenance::<ibv_qp>(event.element as usize);
            // SAFETY: the event names a queue pair that cannot be gone: destroying it waits for the
            // acknowledgement below.
            unsafe { (*pair).qp_num }
        });
        // SAFETY: `event` came from ibv_get_async_event and is acknowledged once.
        unsafe { (handle.symbols.ack_async_event)(&raw mut event) };
        Ok(Some(AsyncEvent { kind, port, queue_pair }))
    }
}

/// The union's first four bytes, in memory order, are the port's number as an int.
fn port_of(element: [u8; 8]) -> u8 {
    let [a, b, c, d, ..] = element;
    u8::try_from(i32::from_ne_bytes([a, b, c, d])).unwrap_or(0)
}
