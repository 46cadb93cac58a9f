//! Connections through the kernel's connection manager (rdma_cm), for devices that connect in no other way: iWARP.
//!
//! The target listens at its endpoint's address for as long as its lease lasts, and its offer names the port and a token. The source
//! asks to connect with that token. Whoever asks from another address or without the token is refused. In iWARP the side that asked must
//! be the first to send (RFC 5044, section 7.1.2), as sources are.

use super::Trouble;
use rdmascope_model::{Cause, Fabric, Gid, Role, Step};
use rdmascope_sys::{
    CmCommand, ConnectionEvent, ConnectionEventKind as Kind, ConnectionId, ConnectionManager,
    ConnectionParameters, VerbError,
};
use rustix::io::Errno;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Opens the connection manager.
pub type OpenManager = Arc<dyn Fn() -> Result<ConnectionManager, VerbError> + Send + Sync>;

/// The kernel's, at its node in the folder of the devices' nodes.
pub(crate) fn kernel_manager(nodes: &Path) -> OpenManager {
    let node = nodes.join("rdma_cm");
    Arc::new(move || ConnectionManager::open(&node))
}

/// Longest wait for the neighbour's and the route's answer.
const RESOLVE_WITHIN: Duration = Duration::from_secs(2);
/// The kernel tells that a connection is gone within this of the device doing so.
const WORD_WITHIN: Duration = Duration::from_millis(50);
/// Begins what travels with a request to connect: then token (8) and which of the queue pairs it is for (1).
const MAGIC: [u8; 4] = *b"RDM1";
/// What a door adds to an offer: port (2) and token (8), big endian.
const OFFER_LENGTH: usize = 10;

/// Whether queue pairs of this fabric are connected here, and not by hand.
pub(super) fn connects(fabric: Fabric) -> bool {
    fabric == Fabric::Iwarp
}

/// Where the peer is to be found, and by which word it knows us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    address: SocketAddr,
    token: u64,
}

/// What a peer's offer says of its door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Called {
    port: u16,
    token: u64,
}

impl Called {
    /// At the address that the peer's GID stands for.
    pub(super) fn at(self, gid: [u8; 16]) -> Peer {
        Peer { address: SocketAddr::new(Gid(gid).ip(), self.port), token: self.token }
    }
}

/// Takes a door off the end of the peer's offer.
pub(crate) fn split(offer: &[u8]) -> Result<(&[u8], Called), Trouble> {
    let parts = offer.split_last_chunk::<OFFER_LENGTH>().map(|(rest, [a, b, token @ ..])| {
        (rest, Called { port: u16::from_be_bytes([*a, *b]), token: u64::from_be_bytes(*token) })
    });
    parts.ok_or_else(|| {
        let evidence = format!("the peer's offer of {} bytes names no port", offer.len());
        Trouble::new(Cause::BadPeerData, Step::Exchange, evidence)
    })
}

/// One side's connections, one for each of its queue pairs.
pub(super) struct Door {
    manager: ConnectionManager,
    role: Role,
    own: SocketAddr,
    /// The target's secret: only its peer knows it.
    token: u64,
    listener: Option<ConnectionId>,
    ends: Vec<End>,
    /// RDMA reads that each queue pair answers at once, and has outstanding.
    reads: [u8; 2],
    /// Refused requests to connect, for the evidence.
    strangers: u32,
}

/// One connection.
struct End {
    queue_pair: u32,
    id: Option<ConnectionId>,
    established: bool,
}

impl Door {
    /// Opens the connection manager for queue pairs in INIT at the address that `gid` stands for; a target listens from now on.
    pub(super) fn open(
        open: &OpenManager,
        role: Role,
        gid: [u8; 16],
        queue_pairs: &[u32],
        reads: [u8; 2],
    ) -> Result<Self, Trouble> {
        let manager = open().map_err(|error| not_open(&error))?;
        let ends = queue_pairs.iter().map(|&queue_pair| End { queue_pair, id: None, established: false });
        let own = SocketAddr::new(Gid(gid).ip(), 0);
        let mut door =
            Self { manager, role, own, token: 0, listener: None, ends: ends.collect(), reads, strangers: 0 };
        if role == Role::Target {
            door.token = RandomState::new().build_hasher().finish();
            door.listen().map_err(|error| failed(Step::Init, &error, door.own))?;
        }
        Ok(door)
    }

    fn listen(&mut self) -> Result<(), VerbError> {
        let listener = self.manager.create()?;
        self.manager.bind(listener, self.own)?;
        self.manager.listen(listener, u32::try_from(self.ends.len()).unwrap_or(u32::MAX))?;
        self.own = self.manager.addresses(listener)?.local;
        self.listener = Some(listener);
        Ok(())
    }

    /// What it adds to the offer.
    pub(super) fn offer(&self) -> [u8; OFFER_LENGTH] {
        let mut bytes = [0; OFFER_LENGTH];
        bytes[..2].copy_from_slice(&self.own.port().to_be_bytes());
        bytes[2..].copy_from_slice(&self.token.to_be_bytes());
        bytes
    }

    /// Goes on connecting; true when all connections are there. Never waits for the peer.
    pub(super) fn connect(&mut self, peer: &Peer) -> Result<bool, Trouble> {
        if self.own.is_ipv4() != peer.address.is_ipv4() {
            let evidence = format!("own address {}, peer's {}", self.own.ip(), peer.address.ip());
            return Err(Trouble::new(Cause::AddressFamily, Step::Resolve, evidence));
        }
        if self.role == Role::Source && self.ends.iter().all(|end| end.id.is_none()) {
            self.resolve(peer)?;
        }
        while let Some(event) = self.manager.next_event().map_err(|e| failed(Step::Rts, &e, peer.address))? {
            self.take(&event, peer)?;
        }
        let there = self.ends.iter().all(|end| end.established);
        if there && let Some(listener) = self.listener.take() {
            self.manager.destroy(listener).map_err(|e| failed(Step::Rts, &e, peer.address))?;
        }
        Ok(there)
    }

    fn resolve(&mut self, peer: &Peer) -> Result<(), Trouble> {
        let wrong = |error: &VerbError| failed(Step::Resolve, error, peer.address);
        for end in &mut self.ends {
            let id = self.manager.create().map_err(|e| wrong(&e))?;
            end.id = Some(id);
            self.manager
                .resolve_address(id, self.own, peer.address, RESOLVE_WITHIN)
                .map_err(|e| wrong(&e))?;
        }
        Ok(())
    }

    fn take(&mut self, event: &ConnectionEvent, peer: &Peer) -> Result<(), Trouble> {
        if event.kind == Kind::ConnectRequest {
            return self.answer(event, peer);
        }
        let Some(at) = self.ends.iter().position(|end| end.id == Some(event.id)) else {
            // Of a request that was refused; of the listener only that its device goes.
            return match event.kind {
                Kind::DeviceRemoval => Err(ended(event, peer)),
                _ => Ok(()),
            };
        };
        match (event.kind, self.role) {
            (Kind::AddressResolved, Role::Source) => self
                .manager
                .resolve_route(event.id, RESOLVE_WITHIN)
                .map_err(|error| failed(Step::Resolve, &error, peer.address)),
            (Kind::RouteResolved, Role::Source) => {
                let data = request(peer.token, at);
                let parameters = parameters(self.ends[at].queue_pair, self.reads, &data);
                self.manager
                    .connect(event.id, &parameters)
                    .map_err(|error| failed(Step::Rts, &error, peer.address))
            }
            (Kind::Established, _) => {
                self.ends[at].established = true;
                Ok(())
            }
            _ => Err(ended(event, peer)),
        }
    }

    /// Takes the leased peer's request, and refuses everybody else's.
    fn answer(&mut self, event: &ConnectionEvent, peer: &Peer) -> Result<(), Trouble> {
        let wrong = |error: &VerbError| failed(Step::Rts, error, peer.address);
        let wanted = |(at, end): &(usize, &End)| {
            end.id.is_none() && event.private_data.starts_with(&request(self.token, *at))
        };
        let found = self.ends.iter().enumerate().find(wanted).map(|(at, _)| at);
        let from = self.manager.addresses(event.id).map_err(|e| wrong(&e))?.peer;
        match found.filter(|_| from.is_some_and(|from| from.ip() == peer.address.ip())) {
            Some(at) => {
                self.ends[at].id = Some(event.id);
                let parameters = parameters(self.ends[at].queue_pair, self.reads, &[]);
                self.manager.accept(event.id, &parameters).map_err(|e| wrong(&e))
            }
            None => {
                self.strangers += 1;
                tracing::warn!(from = ?from, count = self.strangers, "a request to connect that no lease allows was refused");
                // What it comes to does not matter: it may be gone by now.
                drop(self.manager.reject(event.id).and_then(|()| self.manager.destroy(event.id)));
                Ok(())
            }
        }
    }

    /// The device gave its requests back, or got no answers, because the connection under them is gone: says so.
    pub(super) fn explain(&mut self, trouble: Trouble) -> Trouble {
        if !matches!(trouble.cause, Cause::LocalFault | Cause::PathLost | Cause::RetryExceeded) {
            return trouble;
        }
        let until = Instant::now() + WORD_WITHIN;
        let mut lost = self.lost();
        while lost.is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
            lost = self.lost();
        }
        match lost {
            Some(event) => {
                let step = trouble.step();
                let cause = if step == Step::Measure { Cause::PathLost } else { Cause::NoFirstByte };
                Trouble::new(cause, step, format!("{}: {}", in_words(&event), trouble.evidence()))
            }
            None => trouble,
        }
    }

    /// What the kernel tells of one of the connections, the first of it.
    fn lost(&mut self) -> Option<ConnectionEvent> {
        let mut lost = None;
        while let Ok(Some(event)) = self.manager.next_event() {
            if self.ends.iter().any(|end| end.id == Some(event.id)) {
                lost = lost.or(Some(event));
            }
        }
        lost
    }
}

/// What travels with a request to connect.
fn request(token: u64, at: usize) -> [u8; 13] {
    let mut data = [0; 13];
    data[..4].copy_from_slice(&MAGIC);
    data[4..12].copy_from_slice(&token.to_be_bytes());
    data[12] = at as u8;
    data
}

fn parameters(queue_pair: u32, reads: [u8; 2], private_data: &[u8]) -> ConnectionParameters<'_> {
    let [max_incoming_reads, max_outgoing_reads] = reads;
    ConnectionParameters { queue_pair, max_incoming_reads, max_outgoing_reads, private_data }
}

fn not_open(error: &VerbError) -> Trouble {
    // No such node, or one whose module is gone.
    if matches!(Errno::from_raw_os_error(error.errno), Errno::NOENT | Errno::NXIO | Errno::NODEV) {
        let evidence = format!("{error}: load the kernel's module rdma_ucm and let the agent see the node");
        return Trouble::new(Cause::NotAvailable, Step::Open, evidence);
    }
    Trouble::verb(Step::Open, error)
}

fn failed(step: Step, error: &VerbError, peer: SocketAddr) -> Trouble {
    Trouble::verb(step, error).with(format!("({peer})"))
}

fn in_words(event: &ConnectionEvent) -> String {
    let status = match event.status {
        0 => String::new(),
        errno if errno < 0 => {
            let text = std::io::Error::from_raw_os_error(errno.saturating_neg()).to_string();
            format!(", {}", text.split(" (os error").next().unwrap_or_default())
        }
        reason => format!(", reason {reason}"),
    };
    format!("{} (status {}{status})", event.kind, event.status)
}

/// What an event that ends a connection before it is there means (`rdma_get_cm_event`(3), `cma_iw_handler` of the kernel).
fn ended(event: &ConnectionEvent, peer: &Peer) -> Trouble {
    let (cause, step) = match event.kind {
        Kind::AddressError | Kind::RouteError => (Cause::NoRoute, Step::Resolve),
        Kind::Unreachable => (Cause::RetryExceeded, Step::Rts),
        Kind::Rejected | Kind::Disconnected | Kind::ConnectError => (Cause::ConnectionRejected, Step::Rts),
        Kind::DeviceRemoval => (Cause::DeviceGone, Step::Rts),
        _ => (Cause::LocalFault, Step::Rts),
    };
    Trouble::new(cause, step, format!("connecting to {}: {}", peer.address, in_words(event)))
}

/// What an errno of the connection manager means, where it is not what it means everywhere.
pub(super) fn cause_of(command: CmCommand, errno: Errno) -> Option<Cause> {
    match (command, errno) {
        (CmCommand::Bind | CmCommand::ResolveAddress, Errno::NODEV | Errno::ADDRNOTAVAIL) => {
            Some(Cause::NoUsableGid)
        }
        (CmCommand::Bind, Errno::ADDRINUSE) => Some(Cause::NoResources),
        (CmCommand::Connect, Errno::CONNREFUSED | Errno::CONNRESET) => Some(Cause::ConnectionRejected),
        (CmCommand::Connect | CmCommand::Accept, Errno::INVAL) => Some(Cause::BadParameters),
        (_, Errno::NETDOWN | Errno::NETUNREACH | Errno::TIMEDOUT | Errno::HOSTDOWN | Errno::HOSTUNREACH) => {
            Some(Cause::NoRoute)
        }
        _ => None,
    }
}
