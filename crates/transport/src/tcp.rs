//! The probe plans over plain TCP: the baseline that RDMA is compared with, and a way to run where there is no RDMA.
//!
//! The target listens for the life of its lease and lets in who comes from the source's address and knows the token of
//! the offer. Latency is a ping-pong with `TCP_NODELAY`, bandwidth a stream in which the target answers each message that
//! it has read completely with one byte; only those count, since a write into a socket buffer proves nothing.

mod connect;
mod door;
mod ping_pong;
mod stream;

use crate::sockets::{Kind, Offer, Own, Token, Trouble};
use crate::worker::{Probe, Progress, Watch, Workers};
use crate::{PortReader, Waker};
use connect::Connecting;
use door::Door;
use ping_pong::PingPong;
use rdmascope_model::{
    BandwidthStats, Cause, CounterDelta, EndpointInfo, Failure, Outcome, ProbePlan, ProbeSpec, Role, Step,
};
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};
use stream::{Receiver, Sender};

/// Longest wait for a connection, for the first answer, and for any byte after it: three retransmissions of Linux's
/// TCP (200 + 400 + 800 ms), with room. Half of what is left of the lease where that is less.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// The tcp transport.
pub type Tcp = Workers<TcpProbe>;

impl Workers<TcpProbe> {
    /// Listens on and connects from `bind`; where that is `0.0.0.0` or `::`, each endpoint uses its own address (its GID). An endpoint
    /// of another fabric is probed through its network device alone, so that two of one machine do not talk over loopback.
    /// Targets listen on a port of `ports`, or on one that the kernel chooses.
    #[must_use]
    pub fn new(effects: PortReader, waker: Waker, bind: IpAddr, ports: Option<RangeInclusive<u16>>) -> Self {
        let settings = Settings { bind, ports };
        Self::with_device(waker, effects, move || settings.clone())
    }
}

/// What all TCP probes of an endpoint share.
#[derive(Clone)]
pub struct Settings {
    bind: IpAddr,
    ports: Option<RangeInclusive<u16>>,
}

/// One side of a TCP probe.
pub struct TcpProbe {
    plan: ProbePlan,
    state: State,
}

enum State {
    /// The target, until the leased peer came in.
    Listening(Door),
    /// The source, until it is connected.
    Connecting(Connecting),
    /// The source, connected and not started.
    Connected(TcpStream),
    PingPong(PingPong),
    Sending(Sender),
    Receiving(Receiver),
    /// Given up; nothing is open.
    Failed,
}

/// How far counters moved is filled in by the thread, which reads them.
const NOT_READ: CounterDelta = CounterDelta { retransmits: None };

impl Probe for TcpProbe {
    type Device = Settings;

    fn prepare(
        settings: &mut Settings,
        plan: &ProbePlan,
        endpoint: &EndpointInfo,
        _watch: &Watch,
    ) -> Result<(Self, Vec<u8>), Failure> {
        let own = possible(plan).and_then(|()| Own::of(settings.bind, plan, endpoint));
        let made = own.and_then(|own| match plan.role {
            Role::Target => {
                Door::open(&own, settings.ports.clone()).map(|(door, offer)| (State::Listening(door), offer))
            }
            Role::Source => {
                let address = SocketAddr::new(own.address, 0);
                let offer = Offer { role: Role::Source, address, token: Token::default() };
                Connecting::bind(&own).map(|socket| (State::Connecting(socket), offer))
            }
        });
        let (state, offer) = made.map_err(|trouble| trouble.seen_by(plan.role))?;
        Ok((Self { plan: plan.clone(), state }, offer.to_bytes(Kind::Tcp)))
    }

    fn connect(&mut self, offer: &[u8], watch: &Watch) -> Result<bool, Failure> {
        self.try_connect(offer, watch).map_err(|trouble| {
            self.state = State::Failed;
            trouble.seen_by(self.plan.role)
        })
    }

    fn moved_bytes(&self) -> Option<u64> {
        match &self.state {
            State::Sending(sender) => Some(sender.sent_bytes()),
            State::Receiving(receiver) => Some(receiver.received_bytes()),
            _ => None,
        }
    }

    fn so_far(&self) -> Option<BandwidthStats> {
        match &self.state {
            State::Sending(sender) => sender.stats(),
            _ => None,
        }
    }

    fn run(&mut self, watch: &Watch) -> Progress {
        self.try_run(watch).unwrap_or_else(|trouble| {
            self.state = State::Failed;
            Progress::Finished(Outcome::Failed(trouble.seen_by(self.plan.role)))
        })
    }
}

impl TcpProbe {
    fn try_connect(&mut self, offer: &[u8], watch: &Watch) -> Result<bool, Trouble> {
        let offer = Offer::from_bytes(offer, Kind::Tcp, self.plan.role)?;
        match &mut self.state {
            State::Listening(door) => {
                door.expect(offer.address.ip())?;
                Ok(true)
            }
            State::Connecting(connecting) => {
                let Some(mut stream) = connecting.go_on(offer.address, silence_max(watch))? else {
                    return Ok(false);
                };
                // The buffer of a new socket holds far more than these 16 bytes.
                stream
                    .write_all(&offer.token)
                    .map_err(|e| Trouble::io(Step::Rtr, "sending the token", &e))?;
                self.state = State::Connected(stream);
                Ok(true)
            }
            _ => Err(Trouble::new(Cause::Internal, Step::Rtr, "connected twice")),
        }
    }

    fn try_run(&mut self, watch: &Watch) -> Result<Progress, Trouble> {
        match &mut self.state {
            State::Listening(door) => {
                if let Some(stream) = door.admit()? {
                    self.state = self.begin(stream, watch)?;
                }
                Ok(Progress::Waiting)
            }
            State::Connected(_) => {
                if let State::Connected(stream) = std::mem::replace(&mut self.state, State::Failed) {
                    self.state = self.begin(stream, watch)?;
                }
                self.step()
            }
            _ => self.step(),
        }
    }

    fn step(&mut self) -> Result<Progress, Trouble> {
        match &mut self.state {
            State::PingPong(ping_pong) => ping_pong.run(),
            State::Sending(sender) => sender.run(),
            State::Receiving(receiver) => receiver.run(),
            State::Listening(_) | State::Connecting(_) | State::Connected(_) | State::Failed => {
                Err(Trouble::new(Cause::Internal, Step::FirstByte, "started without a connection"))
            }
        }
    }

    /// What follows on a connection that stands.
    fn begin(&self, stream: TcpStream, watch: &Watch) -> Result<State, Trouble> {
        let silence = silence_max(watch);
        // The target waits for its source as long as its lease lasts: only the source knows when it starts.
        let first = if self.plan.role == Role::Source { silence } else { watch.remaining() };
        let patience = Patience { first, silence, moved: Instant::now(), begun: false };
        let set = |e| Trouble::io(Step::Init, "setting up the socket", &e);
        Ok(match (self.plan.spec, self.plan.role) {
            (ProbeSpec::Latency(spec), role) => {
                State::PingPong(PingPong::new(stream, spec, role, patience).map_err(set)?)
            }
            (ProbeSpec::Bandwidth(spec), Role::Source) => {
                State::Sending(Sender::new(stream, spec, patience).map_err(set)?)
            }
            (ProbeSpec::Bandwidth(spec), Role::Target) => {
                State::Receiving(Receiver::new(stream, spec.message_bytes).map_err(set)?)
            }
            (ProbeSpec::Pings(_) | ProbeSpec::Echo(_), _) => {
                return Err(Trouble::new(Cause::NotAvailable, Step::Init, "no such probe over TCP"));
            }
        })
    }
}

/// Gives up on a peer that sends nothing.
struct Patience {
    first: Duration,
    silence: Duration,
    moved: Instant,
    /// The peer answered at least once.
    begun: bool,
}

impl Patience {
    /// Bytes moved.
    fn moved(&mut self) {
        self.moved = Instant::now();
    }

    /// Nothing moved just now.
    fn check(&self, done: &str) -> Result<(), Trouble> {
        let (limit, cause, step) = if self.begun {
            (self.silence, Cause::Stalled, Step::Measure)
        } else {
            (self.first, Cause::NoFirstByte, Step::FirstByte)
        };
        if self.moved.elapsed() < limit {
            return Ok(());
        }
        Err(Trouble::new(
            cause,
            step,
            format!("nothing from the peer for {:.1} s, {done}", limit.as_secs_f64()),
        ))
    }

    /// The connection broke.
    fn broken(&self, error: &std::io::Error, done: &str) -> Trouble {
        let (cause, step) =
            if self.begun { (Cause::Stalled, Step::Measure) } else { (Cause::NoFirstByte, Step::FirstByte) };
        Trouble::new(cause, step, format!("the connection broke, {done}: {error}"))
    }
}

fn silence_max(watch: &Watch) -> Duration {
    SILENCE_MAX.min(watch.remaining() / 2)
}

/// What TCP cannot do is refused, and not measured in some other way.
fn possible(plan: &ProbePlan) -> Result<(), Trouble> {
    let (manner, refuse) =
        (plan.manner, |words: &str| Err(Trouble::new(Cause::NotAvailable, Step::Open, words)));
    match plan.spec {
        ProbeSpec::Pings(_) | ProbeSpec::Echo(_) => refuse("there is no such probe over TCP"),
        _ if manner.both_ways => refuse("TCP is measured one way at a time"),
        _ if manner.queue_pairs != 1 => refuse("TCP is measured on one connection"),
        _ => Ok(()),
    }
}
