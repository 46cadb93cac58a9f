//! Don't-fragment datagrams over the network device of an endpoint, sent back by the peer: whether packets of the full MTU pass end to
//! end, in each direction.
//!
//! Source and target each have one UDP socket, tied to the device and connected to the other's address and port, and know a token. The
//! kernel may neither fragment (`IP_PMTUDISC_PROBE`) nor go by an earlier path MTU. When the last datagram was sent, the source asks with a
//! small one how many the target heard, so that loss has a direction where large packets do not come back.

pub(crate) mod datagram;
mod source;
mod target;

use crate::sockets::{Kind, Offer, Own, Trouble, random};
use crate::worker::{Probe, Progress, Watch, Workers};
use crate::{PortReader, Waker};
use rdmascope_model::{Cause, EchoSpec, EndpointInfo, Failure, Outcome, ProbePlan, ProbeSpec, Role, Step};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use source::Asking;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use target::Answering;

/// The echo transport.
pub type Echo = Workers<EchoProbe>;

impl Workers<EchoProbe> {
    /// Sends from `bind`; where that is `0.0.0.0` or `::`, each endpoint uses its own address (its GID) and network device.
    #[must_use]
    pub fn new(effects: PortReader, waker: Waker, bind: IpAddr) -> Self {
        Self::with_device(waker, effects, move || bind)
    }
}

/// One side of an echo probe.
pub struct EchoProbe {
    plan: ProbePlan,
    spec: EchoSpec,
    line: Line,
    /// The own token until the peer's offer is there; then the target's.
    token: [u8; 16],
    work: Work,
}

enum Work {
    NotBegun,
    Asking(Asking),
    Answering(Answering),
}

/// The socket, and what is known of the device underneath, for when a datagram does not fit.
struct Line {
    socket: UdpSocket,
    device: String,
    mtu: Option<u32>,
    /// Bytes of IP and UDP header.
    header_bytes: usize,
}

impl Probe for EchoProbe {
    type Device = IpAddr;

    fn prepare(
        bind: &mut IpAddr,
        plan: &ProbePlan,
        endpoint: &EndpointInfo,
        _watch: &Watch,
    ) -> Result<(Self, Vec<u8>), Failure> {
        Self::try_prepare(*bind, plan, endpoint).map_err(|trouble| trouble.seen_by(plan.role))
    }

    fn connect(&mut self, offer: &[u8], _watch: &Watch) -> Result<bool, Failure> {
        self.try_connect(offer).map_err(|trouble| trouble.seen_by(self.plan.role))
    }

    fn run(&mut self, watch: &Watch) -> Progress {
        if let Work::NotBegun = self.work {
            self.work = match self.plan.role {
                Role::Source => Work::Asking(Asking::new(self.spec)),
                Role::Target => Work::Answering(Answering::default()),
            };
        }
        let made = match &mut self.work {
            Work::Asking(asking) => asking.run(&self.line, &self.token, watch),
            Work::Answering(answering) => answering.run(&self.line, &self.token),
            Work::NotBegun => Ok(Progress::Waiting),
        };
        made.unwrap_or_else(|trouble| Progress::Finished(Outcome::Failed(trouble.seen_by(self.plan.role))))
    }
}

impl EchoProbe {
    fn try_prepare(
        bind: IpAddr,
        plan: &ProbePlan,
        endpoint: &EndpointInfo,
    ) -> Result<(Self, Vec<u8>), Trouble> {
        let ProbeSpec::Echo(spec) = plan.spec else {
            return Err(Trouble::new(Cause::NotAvailable, Step::Open, "only echoes go over UDP"));
        };
        let own = Own::of(bind, plan, endpoint)?;
        let socket = socket(&own).map_err(|e| Trouble::io(Step::Open, format!("a socket on {own}"), &e))?;
        let address = socket.local_addr().map_err(|e| Trouble::io(Step::Open, "the own address", &e))?;
        let token = random().map_err(|e| Trouble::io(Step::Open, "reading /dev/urandom", &e))?;
        let offer = Offer { role: plan.role, address, token }.to_bytes(Kind::Echo);
        let device = match (&endpoint.netdev, endpoint.netdev_mtu) {
            (Some(device), Some(mtu)) => format!("{device} has an MTU of {mtu}"),
            (Some(device), None) => format!("the MTU of {device} is not known"),
            (None, _) => format!("the network device of {own} is not known"),
        };
        let header_bytes = if own.address.is_ipv4() { 28 } else { 48 };
        let line = Line { socket, device, mtu: endpoint.netdev_mtu, header_bytes };
        Ok((Self { plan: plan.clone(), spec, line, token, work: Work::NotBegun }, offer))
    }

    fn try_connect(&mut self, offer: &[u8]) -> Result<bool, Trouble> {
        let peer = Offer::from_bytes(offer, Kind::Echo, self.plan.role)?;
        let own = self.line.socket.local_addr().map_err(|e| Trouble::io(Step::Rtr, "the own address", &e))?;
        if own.is_ipv4() != peer.address.is_ipv4() {
            let evidence = format!("own address {}, peer's {}", own.ip(), peer.address.ip());
            return Err(Trouble::new(Cause::AddressFamily, Step::Rtr, evidence));
        }
        let doing = format!("the way to {}", peer.address);
        self.line.socket.connect(peer.address).map_err(|e| Trouble::io(Step::Rtr, doing, &e))?;
        if self.plan.role == Role::Source {
            self.token = peer.token;
        }
        Ok(true)
    }
}

impl Line {
    /// `false`: there was no room in the queues, or the other end's socket is not there (any more); as good as lost on the way.
    fn send(&self, datagram: &[u8]) -> Result<bool, Trouble> {
        match self.socket.send(datagram) {
            Ok(_) => Ok(true),
            Err(e) if passing(&e) => Ok(false),
            Err(e) if is_too_long(&e) => Err(self.too_long(datagram.len())),
            Err(e) => Err(Trouble::io(Step::Measure, format!("sending {} bytes", datagram.len()), &e)),
        }
    }

    /// The next datagram that came in.
    fn receive<'room>(&self, room: &'room mut [u8]) -> Result<Option<&'room [u8]>, Trouble> {
        match self.socket.recv(room) {
            Ok(length) => Ok(room.get(..length)),
            Err(e) if passing(&e) => Ok(None),
            // What a router says about an earlier datagram (`__udp4_lib_err` in the kernel's net/ipv4/udp.c).
            Err(e) if is_too_long(&e) => Err(self.refused_on_the_way()),
            Err(e) => Err(Trouble::io(Step::Measure, "receiving datagrams", &e)),
        }
    }

    /// By the own device, unless its MTU has room: then it was a router that told so.
    fn too_long(&self, bytes: usize) -> Trouble {
        if self.mtu.is_some_and(|mtu| bytes + self.header_bytes <= mtu as usize) {
            return self.refused_on_the_way();
        }
        let evidence =
            format!("{bytes} bytes and {} of headers in one piece; {}", self.header_bytes, self.device);
        Trouble::new(Cause::MessageTooLong, Step::Measure, evidence)
    }

    fn refused_on_the_way(&self) -> Trouble {
        let evidence = format!("a router on the way says that the datagrams are too long; {}", self.device);
        Trouble::new(Cause::PathMtu, Step::Measure, evidence)
    }
}

fn is_too_long(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MSGSIZE)
}

fn passing(error: &io::Error) -> bool {
    let kinds = [ErrorKind::WouldBlock, ErrorKind::Interrupted, ErrorKind::ConnectionRefused];
    kinds.contains(&error.kind()) || Errno::from_io_error(error) == Some(Errno::NOBUFS)
}

/// On a port that the kernel chooses; nothing that is sent is fragmented.
fn socket(own: &Own) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddr::new(own.address, 0))?;
    own.mark(&socket)?;
    match own.address {
        IpAddr::V4(_) => sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?,
        IpAddr::V6(_) => sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE)?,
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}
