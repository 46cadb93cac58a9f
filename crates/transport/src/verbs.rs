//! Probes over RDMA: reliable connections whose writes, reads and sends are measured the way perftest's programs do.
//!
//! Each endpoint's thread opens its device when it is first needed and keeps it open, since opening can take
//! 50 ms; a device that is being removed is let go within a second (`keeper`), because its removal waits
//! for that.

pub(crate) mod address;
pub(crate) mod cm;
pub(crate) mod device;
mod gpu;
pub(crate) mod keeper;
pub(crate) mod offer;
mod parts;
mod pin;
mod ping_pong;
mod reads;
mod sender;
mod signals;
mod stream;
pub(crate) mod trouble;

use crate::worker::{Probe, Progress, Watch, Workers};
use crate::{PortReader, Waker};
use address::{Own, own_address};
pub use cm::OpenManager;
use cm::kernel_manager;
use device::Endpoint;
use keeper::Registry;
use offer::Offer;
use parts::Parts;
use ping_pong::PingPong;
use rdmascope_model::{
    BandwidthStats, Cause, CounterDelta, EndpointInfo, Failure, LatencySpec, LatencyStats, Operation,
    Outcome, ProbePlan, ProbeSpec, Step,
};
use reads::Reads;
use signals::{Signals, Word};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stream::Stream;
use trouble::Trouble;

/// Longest wait for a sign of the peer: six times what the hardware retries for (7 × 67 ms by the codes
/// below, which some devices stretch). Half of what is left of the lease where that is less.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// A wait shorter than this is slow and not stuck: both ends' leases run out within some milliseconds of each other, and
/// what a host steals from a probe at once is far less.
const GOING: Duration = Duration::from_secs(1);
/// Shortest and longest rest of a target that only answers.
const REST_MIN: Duration = Duration::from_millis(1);
const REST_MAX: Duration = Duration::from_millis(20);

/// What probes over RDMA use beside libibverbs.
#[derive(Clone)]
pub struct Means {
    /// Opens the connection manager, which iWARP needs.
    pub manager: OpenManager,
    /// NVIDIA's driver library, which buffers in GPUs need; `None`: the loader finds it.
    pub cuda: Option<PathBuf>,
}

impl Means {
    /// Those of this machine, whose device nodes are in the folder `nodes`.
    pub(crate) fn of_this_machine(nodes: &Path) -> Self {
        Self { manager: kernel_manager(nodes), cuda: None }
    }
}

/// The verbs transport.
pub type Verbs = Workers<VerbsProbe>;

impl Workers<VerbsProbe> {
    /// Uses `library` as libibverbs where one is given. `nodes` is the folder of the devices' nodes
    /// (`/dev/infiniband`): the disappearance of a node is how the removal of a device shows. Where there
    /// is no libibverbs, each probe fails with the cause `verbs-missing`.
    #[must_use]
    pub fn new(port: PortReader, waker: Waker, library: Option<&Path>, nodes: &Path) -> Self {
        Self::with_means(port, waker, library, nodes, Means::of_this_machine(nodes))
    }

    /// As [`Self::new`], with other means than this machine's: for tests.
    #[must_use]
    pub fn with_means(
        port: PortReader,
        waker: Waker,
        library: Option<&Path>,
        nodes: &Path,
        means: Means,
    ) -> Self {
        let registry = Registry::new(library, nodes);
        Self::with_device(waker, port, move || Endpoint::new(Arc::clone(&registry), means.clone()))
    }
}

/// One side of a probe over RDMA.
pub struct VerbsProbe {
    plan: ProbePlan,
    own: Own,
    parts: Slot,
    gone: Arc<AtomicBool>,
    peer: Option<Offer>,
    work: Work,
}

/// The probe's objects; emptied by the keeper when their device is removed.
type Slot = Arc<Mutex<Option<Parts>>>;

/// What a step of a running probe came to.
enum Found {
    Waiting,
    Measuring,
    Latency(LatencyStats),
    Bandwidth(BandwidthStats),
    Served,
}

/// How far counters moved is filled in by the thread, which reads them.
const NOT_READ: CounterDelta = CounterDelta { retransmits: None };

impl From<Found> for Progress {
    fn from(found: Found) -> Self {
        match found {
            Found::Waiting => Self::Waiting,
            Found::Measuring => Self::Measuring,
            Found::Latency(stats) => Self::Finished(Outcome::Latency(stats, NOT_READ)),
            Found::Bandwidth(stats) => Self::Finished(Outcome::Bandwidth(stats, NOT_READ)),
            Found::Served => Self::Finished(Outcome::Served),
        }
    }
}

/// Whether to go on, as a measuring loop asks every few microseconds.
struct Stop<'a> {
    watch: &'a Watch,
    gone: &'a AtomicBool,
    silence: Duration,
}

impl Stop<'_> {
    /// Was the probe not closed meanwhile?
    fn may_go_on(&self, step: Step) -> Result<(), Trouble> {
        if self.watch.cancelled() {
            return Err(Trouble::new(Cause::Internal, step, "the probe was closed"));
        }
        Ok(())
    }

    /// May an end go on that waits for the other one, for as long as the lease lasts?
    fn may_serve(&self, done: impl Fn() -> String) -> Result<(), Trouble> {
        self.may_go_on(Step::Measure)?;
        if self.gone.load(Ordering::Acquire) {
            let evidence = format!("the device was removed, {}", done());
            return Err(Trouble::new(Cause::DeviceGone, Step::Measure, evidence));
        }
        if Instant::now() >= self.watch.deadline() {
            let evidence = format!("the lease ran out before the peer was through, {}", done());
            return Err(Trouble::new(Cause::Stalled, Step::Measure, evidence));
        }
        Ok(())
    }

    /// Nothing came for some time: may it go on waiting? `begun`: the peer answered before.
    fn may_wait(
        &self,
        waiting_since: Instant,
        begun: bool,
        done: impl Fn() -> String,
    ) -> Result<(), Trouble> {
        let (silent, step) =
            if begun { (Cause::Stalled, Step::Measure) } else { (Cause::NoFirstByte, Step::FirstByte) };
        self.may_go_on(step)?;
        if self.gone.load(Ordering::Acquire) {
            return Err(Trouble::new(Cause::DeviceGone, step, format!("the device was removed, {}", done())));
        }
        if Instant::now() >= self.watch.deadline() {
            let going = begun && waiting_since.elapsed() < GOING;
            let mut trouble = Trouble::new(silent, step, format!("the lease ran out, {}", done()));
            trouble.going = going;
            return Err(trouble);
        }
        let waited = waiting_since.elapsed();
        if waited >= self.silence {
            let evidence = format!("nothing from the peer for {:.1} s, {}", waited.as_secs_f64(), done());
            return Err(Trouble::new(silent, step, evidence));
        }
        Ok(())
    }
}

impl Probe for VerbsProbe {
    type Device = Endpoint;

    fn prepare(
        device: &mut Endpoint,
        plan: &ProbePlan,
        endpoint: &EndpointInfo,
        _watch: &Watch,
    ) -> Result<(Self, Vec<u8>), Failure> {
        let made = Self::try_prepare(device, plan, endpoint);
        made.map_err(|trouble| device.failed(trouble).seen_by(plan.role))
    }

    fn connect(&mut self, offer: &[u8], _watch: &Watch) -> Result<bool, Failure> {
        self.try_connect(offer).map_err(|trouble| trouble.seen_by(self.plan.role))
    }

    fn moved_bytes(&self) -> Option<u64> {
        self.stream().and_then(Stream::moved_bytes)
    }

    fn so_far(&self) -> Option<BandwidthStats> {
        self.stream().and_then(Stream::so_far)
    }

    fn run(&mut self, watch: &Watch) -> Progress {
        self.try_run(watch)
            .map(Progress::from)
            .unwrap_or_else(|trouble| Progress::Finished(Outcome::Failed(trouble.seen_by(self.plan.role))))
    }
}

impl VerbsProbe {
    fn stream(&self) -> Option<&Stream> {
        match &self.work {
            Work::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    fn try_prepare(
        device: &mut Endpoint,
        plan: &ProbePlan,
        endpoint: &EndpointInfo,
    ) -> Result<(Self, Vec<u8>), Trouble> {
        let opened = device.open(&endpoint.name.device)?;
        let own = own_address(&opened.context, endpoint, plan.manner.marks)?;
        let parts = parts::make(&opened, plan, &own, &device.means)?;
        let offer = parts.offer(&own, plan);
        let parts: Slot = Arc::new(Mutex::new(Some(parts)));
        device.watch(&parts);
        let (peer, work) = (None, Work::NotBegun);
        Ok((Self { plan: plan.clone(), own, parts, gone: opened.gone, peer, work }, offer))
    }

    /// False when the connection manager is still at it.
    fn try_connect(&mut self, offer: &[u8]) -> Result<bool, Trouble> {
        let (offer, called) = match cm::connects(self.own.fabric) {
            true => cm::split(offer).map(|(offer, called)| (offer, Some(called)))?,
            false => (offer, None),
        };
        let peer = Offer::from_bytes(offer, self.plan.role, is_plain(&self.plan))?;
        let needed = u64::from(message_bytes(&self.plan.spec));
        if peer.buffer_bytes < needed {
            let evidence = format!("the peer has a buffer of {} bytes for {needed}", peer.buffer_bytes);
            return Err(Trouble::new(Cause::BadPeerData, Step::Exchange, evidence));
        }
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let connected =
            parts.as_mut().ok_or_else(|| removed(Step::Rtr))?.connect(&self.own, &peer, called)?;
        self.peer = connected.then_some(peer);
        Ok(connected)
    }

    fn try_run(&mut self, watch: &Watch) -> Result<Found, Trouble> {
        let Some(peer) = &self.peer else {
            return Err(Trouble::new(Cause::Internal, Step::FirstByte, "started without a connection"));
        };
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = parts.as_mut().ok_or_else(|| removed(Step::Measure))?;
        let silence = SILENCE_MAX.min(watch.remaining() / 2);
        let stop = Stop { watch, gone: &self.gone, silence };
        let (plan, remote) = (&self.plan, peer.buffer);
        let signals = Signals::new(plan.spec.buffer_bytes(), remote, peer.buffer_bytes);
        if let Work::NotBegun = self.work {
            self.work = Work::of(plan, signals, peer)?;
        }
        let made = match &mut self.work {
            Work::Stream(stream) => stream.run(parts, &stop),
            Work::Reads(spec) => Reads { parts, remote, signals, spec: *spec, stop }.run(),
            Work::PingPong(spec) => {
                PingPong { parts, remote, plan, spec: *spec, role: plan.role, stop }.run()
            }
            Work::Answers(rest) => Ok(match signals.heard(parts) {
                Word::Done => Found::Served,
                _ => {
                    // The device does the work by itself. A command wakes the thread.
                    std::thread::park_timeout(rest.next());
                    Found::Waiting
                }
            }),
            Work::NotBegun => Err(no_connection_probe()),
        };
        let oversize = message_bytes(&plan.spec) > self.own.mtu.min(peer.mtu).bytes();
        made.map_err(|trouble| {
            let trouble = trouble.compare_mtu(self.own.mtu, peer.mtu, oversize);
            match &mut parts.door {
                Some(door) => door.explain(trouble),
                None => trouble,
            }
        })
    }
}

/// What an end does once it was started.
enum Work {
    NotBegun,
    PingPong(LatencySpec),
    Reads(LatencySpec),
    Stream(Box<Stream>),
    /// Nothing but to be there until the source is through.
    Answers(Rest),
}

impl Work {
    fn of(plan: &ProbePlan, signals: Signals, peer: &Offer) -> Result<Self, Trouble> {
        let manner = plan.manner;
        match plan.spec {
            ProbeSpec::Latency(_) if plan.only_answers() => Ok(Self::Answers(Rest::new(Duration::ZERO))),
            ProbeSpec::Latency(spec) if manner.operation == Operation::Read => Ok(Self::Reads(spec)),
            ProbeSpec::Latency(spec) => Ok(Self::PingPong(spec)),
            ProbeSpec::Bandwidth(spec) if plan.only_answers() && manner.operation != Operation::Send => {
                Ok(Self::Answers(Rest::new(spec.warmup + spec.duration)))
            }
            ProbeSpec::Bandwidth(spec) => {
                Ok(Self::Stream(Box::new(Stream::new(plan, spec, signals, peer.buffer, peer.receives))))
            }
            ProbeSpec::Pings(_) | ProbeSpec::Echo(_) => Err(no_connection_probe()),
        }
    }
}

/// How long a target that has nothing to do rests between two looks: seldom in the middle of a stream, since waking up every
/// millisecond cost a tenth of the bandwidth in the lab, and often around its end, since the source's report waits for it.
struct Rest {
    began: Instant,
    expected: Duration,
}

impl Rest {
    fn new(expected: Duration) -> Self {
        Self { began: Instant::now(), expected }
    }

    fn next(&self) -> Duration {
        (self.began.elapsed().abs_diff(self.expected) / 4).clamp(REST_MIN, REST_MAX)
    }
}

/// What agents of every version can do: one queue pair, and RDMA writes from the source.
fn is_plain(plan: &ProbePlan) -> bool {
    let manner = plan.manner;
    manner.operation == Operation::Write && manner.queue_pairs == 1 && !manner.both_ways
}

fn removed(step: Step) -> Trouble {
    Trouble::new(Cause::DeviceGone, step, "the device was removed while the probe was being set up")
}

fn no_connection_probe() -> Trouble {
    Trouble::new(Cause::NotAvailable, Step::Init, "datagrams are not sent over a connection")
}

fn message_bytes(spec: &ProbeSpec) -> u32 {
    match spec {
        ProbeSpec::Latency(spec) => spec.message_bytes,
        ProbeSpec::Bandwidth(spec) => spec.message_bytes,
        ProbeSpec::Pings(_) | ProbeSpec::Echo(_) => 0,
    }
}
