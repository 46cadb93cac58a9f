//! Connections that the kernel's connection manager sets up (rdma_cm): iWARP cannot be connected in any other way.
//!
//! This speaks to `/dev/infiniband/rdma_cm` itself (`<rdma/rdma_user_cm.h>`, version 4 of the interface, the same since Linux 2.6.22).
//! librdmacm would open each device that it resolves a second time and keep it open for the life of the process (`ucma_init_device`,
//! `ucma_put_device` in rdma-core's `cma.c`), and a software device cannot be removed while somebody has it open. It also holds one lock
//! over all devices while it opens one, so that one that hangs would hold up all others.
//!
//! No call waits for the peer: what became of it is told by [`ConnectionManager::next_event`]. Dropping the manager ends all its
//! connections and listeners.

mod event;
pub(crate) mod wire;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

pub use event::{ConnectionEvent, ConnectionEventKind};

use crate::error::{EAGAIN, EINTR, Verb, VerbError};
use wire::Body;

/// Most bytes that travel with a request to connect over iWARP: less than any driver's limit (siw and irdma: 512; the interface has 255).
pub const PRIVATE_DATA_MAX: usize = 196;

/// What is asked of the connection manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is rdma_cm's function of the same name; Display gives it")]
pub enum CmCommand {
    Open,
    CreateId,
    DestroyId,
    Bind,
    Listen,
    Query,
    ResolveAddress,
    ResolveRoute,
    Connect,
    Accept,
    Reject,
    GetEvent,
}

impl fmt::Display for CmCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "rdma_cm: open",
            Self::CreateId => "rdma_create_id",
            Self::DestroyId => "rdma_destroy_id",
            Self::Bind => "rdma_bind_addr",
            Self::Listen => "rdma_listen",
            Self::Query => "rdma_cm: query addresses",
            Self::ResolveAddress => "rdma_resolve_addr",
            Self::ResolveRoute => "rdma_resolve_route",
            Self::Connect => "rdma_connect",
            Self::Accept => "rdma_accept",
            Self::Reject => "rdma_reject",
            Self::GetEvent => "rdma_get_cm_event",
        })
    }
}

/// One end of a connection, or a listener. The number means something to its manager only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub(crate) u32);

/// How a connection is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionParameters<'a> {
    /// The own queue pair, in INIT.
    pub queue_pair: u32,
    /// RDMA reads that we answer at once.
    pub max_incoming_reads: u8,
    /// RDMA reads that we have outstanding at once.
    pub max_outgoing_reads: u8,
    /// What the peer is told with it; at most [`PRIVATE_DATA_MAX`] bytes.
    pub private_data: &'a [u8],
}

/// Both ends' addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionAddresses {
    /// Ours.
    pub local: SocketAddr,
    /// The peer's; `None` for a listener.
    pub peer: Option<SocketAddr>,
}

/// Hands one command to the kernel: all bytes or an error.
type Call = Box<dyn FnMut(&[u8]) -> io::Result<usize> + Send>;

/// An open connection manager, with connections and listeners of its own.
pub struct ConnectionManager {
    call: Call,
}

impl ConnectionManager {
    /// Opens `node`, which is `/dev/infiniband/rdma_cm`.
    ///
    /// # Errors
    /// [`VerbError`]; `ENOENT` where the kernel's module `rdma_ucm` is not loaded or the node is not in this container, `EACCES` or
    /// `EPERM` where it may not be opened.
    pub fn open(node: &Path) -> Result<Self, VerbError> {
        const NONBLOCKING: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let opened = OpenOptions::new().read(true).write(true).custom_flags(NONBLOCKING).open(node);
        let mut file: File = opened.map_err(|error| failed(CmCommand::Open, &error))?;
        Ok(Self { call: Box::new(move |command| file.write(command)) })
    }

    /// One whose commands go to `call` instead of the kernel: for tests. It is handed what would be written to the node, and may write
    /// the answer to the address that the command names, as the kernel does, before it returns.
    pub fn over(call: impl FnMut(&[u8]) -> io::Result<usize> + Send + 'static) -> Self {
        Self { call: Box::new(call) }
    }

    /// A new end for one connection or listener.
    ///
    /// # Errors
    /// [`VerbError`]; `ENOMEM`.
    pub fn create(&mut self) -> Result<ConnectionId, VerbError> {
        let [id] = self.ask::<1>(CmCommand::CreateId, wire::create_id())?;
        Ok(ConnectionId(id))
    }

    /// Ends a connection or listener and forgets it.
    ///
    /// # Errors
    /// [`VerbError`]; `EINVAL` or `ENOENT` when it is not there.
    pub fn destroy(&mut self, id: ConnectionId) -> Result<(), VerbError> {
        self.ask::<1>(CmCommand::DestroyId, wire::destroy_id(id.0)).map(|_| ())
    }

    /// Gives an end its own address. Port 0 lets the kernel choose one.
    ///
    /// # Errors
    /// [`VerbError`]; `EADDRNOTAVAIL` or `ENODEV` when no RDMA device has this address, `EADDRINUSE` for a port in use.
    pub fn bind(&mut self, id: ConnectionId, address: SocketAddr) -> Result<(), VerbError> {
        self.tell(CmCommand::Bind, &wire::bind(id.0, address))
    }

    /// Takes requests to connect, of which `backlog` may wait.
    ///
    /// # Errors
    /// [`VerbError`]; `EINVAL` for an end without an address.
    pub fn listen(&mut self, id: ConnectionId, backlog: u32) -> Result<(), VerbError> {
        self.tell(CmCommand::Listen, &wire::listen(id.0, backlog))
    }

    /// The addresses of an end that has some: of a listener, a request or a connection.
    ///
    /// # Errors
    /// [`VerbError`]; `EINVAL` when the kernel told an address that is not IP.
    pub fn addresses(&mut self, id: ConnectionId) -> Result<ConnectionAddresses, VerbError> {
        let answer = self.ask::<{ wire::ADDRESSES_WORDS }>(CmCommand::Query, wire::query(id.0))?;
        wire::addresses(&answer).ok_or(VerbError {
            verb: Verb::ConnectionManager(CmCommand::Query),
            errno: crate::error::EINVAL,
            device: None,
        })
    }

    /// Looks for the device and the neighbour that lead from `local` to `peer`; an event tells whether they were found.
    ///
    /// # Errors
    /// [`VerbError`]; `EADDRNOTAVAIL` or `ENODEV` when no RDMA device has the local address, `ENETUNREACH` without a route.
    pub fn resolve_address(
        &mut self,
        id: ConnectionId,
        local: SocketAddr,
        peer: SocketAddr,
        limit: Duration,
    ) -> Result<(), VerbError> {
        self.tell(CmCommand::ResolveAddress, &wire::resolve_address(id.0, local, peer, limit))
    }

    /// Looks for the route to an address that was resolved; an event tells whether it was found.
    ///
    /// # Errors
    /// [`VerbError`]; `EINVAL` before the address is resolved.
    pub fn resolve_route(&mut self, id: ConnectionId, limit: Duration) -> Result<(), VerbError> {
        self.tell(CmCommand::ResolveRoute, &wire::resolve_route(id.0, limit))
    }

    /// Asks the peer for a connection; an event tells the answer. With iWARP the side that asks must also be the first to send (RFC
    /// 5044, section 7.1.2).
    ///
    /// # Errors
    /// [`VerbError`]; `EINVAL` before the route is resolved or for too much private data. Soft-iWARP waits here for the peer's host
    /// (`siw_connect`).
    pub fn connect(
        &mut self,
        id: ConnectionId,
        parameters: &ConnectionParameters<'_>,
    ) -> Result<(), VerbError> {
        self.tell(CmCommand::Connect, &wire::connect(id.0, parameters))
    }

    /// Takes a request to connect; an event tells when the connection is there.
    ///
    /// # Errors
    /// [`VerbError`]; `EINVAL` for what is no request or a queue pair that is not in INIT.
    pub fn accept(
        &mut self,
        id: ConnectionId,
        parameters: &ConnectionParameters<'_>,
    ) -> Result<(), VerbError> {
        self.tell(CmCommand::Accept, &wire::accept(id.0, parameters))
    }

    /// Refuses a request to connect. It still is to be destroyed.
    ///
    /// # Errors
    /// [`VerbError`]; `EINVAL` for what is no request.
    pub fn reject(&mut self, id: ConnectionId) -> Result<(), VerbError> {
        self.tell(CmCommand::Reject, &wire::reject(id.0))
    }

    /// What happened next, if anything did. Never waits.
    ///
    /// # Errors
    /// [`VerbError`].
    pub fn next_event(&mut self) -> Result<Option<ConnectionEvent>, VerbError> {
        match self.ask::<{ wire::EVENT_WORDS }>(CmCommand::GetEvent, wire::get_event()) {
            Ok(words) => Ok(Some(ConnectionEvent::from_words(&words))),
            Err(error) if matches!(error.errno, EAGAIN | EINTR) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn tell(&mut self, command: CmCommand, body: &Body) -> Result<(), VerbError> {
        self.write(command, &body.bytes(0))
    }

    /// A command that the kernel answers with `WORDS` 32-bit words.
    fn ask<const WORDS: usize>(
        &mut self,
        command: CmCommand,
        mut body: Body,
    ) -> Result<[u32; WORDS], VerbError> {
        let mut answer = Box::new([0_u32; WORDS]);
        let place: *mut [u32; WORDS] = &raw mut *answer;
        body.answer_at(place.expose_provenance() as u64);
        self.write(command, &body.bytes(size_of::<[u32; WORDS]>()))?;
        // SAFETY: the box is alive and unchanged by us; the kernel (to whom its address was told) wrote whole words of it or none, and
        // every bit pattern is valid. Volatile, because the compiler sees nobody write.
        Ok(unsafe { place.read_volatile() })
    }

    fn write(&mut self, command: CmCommand, bytes: &[u8]) -> Result<(), VerbError> {
        match (self.call)(bytes) {
            Ok(_) => Ok(()),
            Err(error) => Err(failed(command, &error)),
        }
    }
}

fn failed(command: CmCommand, error: &io::Error) -> VerbError {
    VerbError {
        verb: Verb::ConnectionManager(command),
        errno: error.raw_os_error().unwrap_or(0),
        device: None,
    }
}
