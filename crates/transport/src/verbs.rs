//! Probes over RDMA: reliable connections whose writes are measured the way `ib_write_lat` and `ib_write_bw`
//! do.
//!
//! Each endpoint's thread opens its device when it is first needed and keeps it open, since opening can take
//! 50 ms; a device that is being removed is let go within a second (`keeper`), because its removal waits
//! for that.

mod address;
mod device;
mod keeper;
mod offer;
mod pin;
mod ping_pong;
mod stream;
mod trouble;

use crate::worker::{Probe, Progress, Watch, Workers};
use crate::{RetransmitReader, Waker};
use address::{Own, own_address};
use device::Endpoint;
use keeper::Registry;
use offer::Offer;
use ping_pong::PingPong;
use rdmascope_model::{Cause, EndpointInfo, Failure, Outcome, ProbePlan, ProbeSpec, Role, Step};
use rdmascope_sys::{
    Access, CompletionChannel, CompletionQueue, Context, InitAttributes, MemoryRegion, QueuePair,
    QueuePairKind, QueuePairOptions, ReadyToReceiveAttributes, ReadyToSendAttributes,
};
use std::path::Path;
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
/// Acknowledgement timeout 4.096 µs × 2^14 = 67 ms, as perftest.
const TIMEOUT_CODE: u8 = 14;
/// One less than perftest's: rxe takes 7 as "for ever" and then never tells that the peer is out of reach.
const RETRIES: u8 = 6;
/// The same; RDMA writes need no receive buffer anyway.
const RECEIVER_NOT_READY_RETRIES: u8 = 6;
/// 0.64 ms, as perftest.
const RECEIVER_NOT_READY_TIMER: u8 = 12;
/// Longest message that the processor copies into the request, as perftest's default for write latency.
const INLINE_MAX: u32 = 220;

/// A target that only takes writes rests so long at a time: waking up every millisecond cost a tenth of the
/// bandwidth in the lab.
const PASSIVE_REST: Duration = Duration::from_millis(20);

/// The verbs transport.
pub type Verbs = Workers<VerbsProbe>;

impl Workers<VerbsProbe> {
    /// Uses `library` as libibverbs where one is given. `nodes` is the folder of the devices' nodes
    /// (`/dev/infiniband`): the disappearance of a node is how the removal of a device shows. Where there
    /// is no libibverbs, each probe fails with the cause `verbs-missing`.
    #[must_use]
    pub fn new(retransmits: RetransmitReader, waker: Waker, library: Option<&Path>, nodes: &Path) -> Self {
        let registry = Registry::new(library, nodes);
        Self::with_device(waker, move || Endpoint::new(Arc::clone(&registry), Arc::clone(&retransmits)))
    }
}

/// One side of a probe over RDMA.
pub struct VerbsProbe {
    plan: ProbePlan,
    own: Own,
    parts: Slot,
    gone: Arc<AtomicBool>,
    peer: Option<Offer>,
    counters: Counters,
    stream: Option<Stream>,
}

/// The probe's objects; emptied by the keeper when their device is removed.
type Slot = Arc<Mutex<Option<Parts>>>;

/// What a probe has on its device.
struct Parts {
    pair: QueuePair,
    queue: CompletionQueue,
    channel: CompletionChannel,
    region: MemoryRegion,
    context: Context,
}

/// Where the port's retransmissions are read.
struct Counters {
    retransmits: RetransmitReader,
    device: String,
    port: u8,
}

impl Counters {
    fn read(&self) -> Option<u64> {
        (self.retransmits)(&self.device, self.port)
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
        match self.try_connect(offer) {
            Ok(()) => Ok(true),
            Err(trouble) => Err(trouble.seen_by(self.plan.role)),
        }
    }

    fn run(&mut self, watch: &Watch) -> Progress {
        self.try_run(watch)
            .unwrap_or_else(|trouble| Progress::Finished(Outcome::Failed(trouble.seen_by(self.plan.role))))
    }
}

impl VerbsProbe {
    fn try_prepare(
        device: &mut Endpoint,
        plan: &ProbePlan,
        endpoint: &EndpointInfo,
    ) -> Result<(Self, Vec<u8>), Trouble> {
        let opened = device.open(&endpoint.name.device)?;
        let own = own_address(&opened.context, endpoint, plan)?;
        let bytes = usize::try_from(plan.spec.buffer_bytes()).map_err(|_| {
            Trouble::new(Cause::LeaseRejected, Step::Admit, "the buffer exceeds the address space")
        })?;
        let failed = |e| Trouble::verb(Step::Init, &e);
        let (depth, inline) = match plan.spec {
            ProbeSpec::Latency(spec) if spec.message_bytes <= INLINE_MAX => (2, INLINE_MAX),
            ProbeSpec::Latency(_) => (2, 0),
            ProbeSpec::Bandwidth(spec) => (spec.depth, 0),
            ProbeSpec::Pings(_) | ProbeSpec::Echo(_) => return Err(no_connection_probe()),
        };
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let memory = match plan.spec {
            // The last byte of a message must not overtake the others.
            ProbeSpec::Latency(_) => access,
            ProbeSpec::Bandwidth(_) => access | Access::RELAXED_ORDERING,
            ProbeSpec::Pings(_) | ProbeSpec::Echo(_) => access,
        };
        let region = opened.domain.register(bytes, memory).map_err(|e| Trouble::verb(Step::Open, &e))?;
        let channel = opened.context.create_channel().map_err(failed)?;
        let queue = opened.context.create_completion_queue(depth + 1, Some(&channel)).map_err(failed)?;
        let options = |max_inline| QueuePairOptions {
            kind: QueuePairKind::ReliableConnection,
            send_depth: depth,
            receive_depth: 1,
            max_inline,
        };
        let made = opened.domain.create_queue_pair(&queue, &queue, &options(inline));
        // Some devices have no inline at all: the device then fetches the data itself.
        let made = made.or_else(|e| match inline {
            0 => Err(e),
            _ => opened.domain.create_queue_pair(&queue, &queue, &options(0)),
        });
        let mut pair = made.map_err(failed)?;
        let init = InitAttributes { port: own.port, pkey_index: 0, access, queue_key: 0 };
        pair.to_init(&init).map_err(failed)?;
        let offer = own.offer(plan.role, &pair, &region);
        let parts = Parts { pair, queue, channel, region, context: opened.context.clone() };
        let parts: Slot = Arc::new(Mutex::new(Some(parts)));
        device.watch(&parts);
        let counters = Counters {
            retransmits: Arc::clone(&device.retransmits),
            device: endpoint.name.device.clone(),
            port: endpoint.name.port,
        };
        let probe =
            Self { plan: plan.clone(), own, parts, gone: opened.gone, peer: None, counters, stream: None };
        Ok((probe, offer.to_bytes()))
    }

    fn try_connect(&mut self, offer: &[u8]) -> Result<(), Trouble> {
        let peer = Offer::from_bytes(offer, self.plan.role)?;
        let needed = u64::from(message_bytes(&self.plan.spec));
        if peer.buffer_bytes < needed {
            let evidence = format!("the peer has a buffer of {} bytes for {needed}", peer.buffer_bytes);
            return Err(Trouble::new(Cause::BadPeerData, Step::Exchange, evidence));
        }
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = parts.as_mut().ok_or_else(|| removed(Step::Rtr))?;
        let address = self.own.way_to(&peer, &parts.context)?;
        let ready = ReadyToReceiveAttributes {
            address,
            path_mtu: self.own.mtu.min(peer.mtu),
            peer_queue_pair: peer.queue_pair,
            receive_sequence: peer.sequence,
            max_incoming_reads: 1,
            receiver_not_ready_timer: RECEIVER_NOT_READY_TIMER,
        };
        parts.pair.to_ready_to_receive(&ready).map_err(|e| Trouble::verb(Step::Rtr, &e))?;
        let send = ReadyToSendAttributes {
            send_sequence: self.own.sequence,
            timeout: TIMEOUT_CODE,
            retries: RETRIES,
            receiver_not_ready_retries: RECEIVER_NOT_READY_RETRIES,
            max_outgoing_reads: 1,
        };
        parts.pair.to_ready_to_send(&send).map_err(|e| Trouble::verb(Step::Rts, &e))?;
        self.peer = Some(peer);
        Ok(())
    }

    fn try_run(&mut self, watch: &Watch) -> Result<Progress, Trouble> {
        let Some(peer) = &self.peer else {
            return Err(Trouble::new(Cause::Internal, Step::FirstByte, "started without a connection"));
        };
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = parts.as_ref().ok_or_else(|| removed(Step::Measure))?;
        let silence = SILENCE_MAX.min(watch.remaining() / 2);
        let stop = Stop { watch, gone: &self.gone, silence };
        let made = match (self.plan.spec, self.plan.role) {
            (ProbeSpec::Latency(spec), role) => {
                PingPong { parts, remote: peer.buffer, spec, role, stop }.run(&self.counters)
            }
            (ProbeSpec::Bandwidth(spec), Role::Source) => {
                let stream = self.stream.get_or_insert_with(|| Stream::new(spec, &self.counters));
                stream.run(parts, peer.buffer, &stop, &self.counters)
            }
            // It has nothing to do but to be there: the device takes the writes by itself. A command wakes
            // the thread.
            (ProbeSpec::Bandwidth(_), Role::Target) => {
                std::thread::park_timeout(PASSIVE_REST);
                Ok(Progress::Waiting)
            }
            (ProbeSpec::Pings(_) | ProbeSpec::Echo(_), _) => Err(no_connection_probe()),
        };
        let oversize = message_bytes(&self.plan.spec) > self.own.mtu.min(peer.mtu).bytes();
        made.map_err(|trouble| trouble.compare_mtu(self.own.mtu, peer.mtu, oversize))
    }
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
