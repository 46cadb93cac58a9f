//! What a probe has on its device: queue pairs, one completion queue for all of them, and one buffer with the signals behind it.

use super::cm::{self, Called, Door};
use super::gpu;
use super::signals::SIGNAL_BYTES;
use super::{Means, Own, Trouble};
use crate::verbs::keeper::Shared;
use crate::verbs::offer::Offer;
use rdmascope_model::{Cause, Operation, ProbePlan, ProbeSpec, Step};
use rdmascope_sys::{
    Access, CompletionChannel, CompletionQueue, Context, GpuMemory, InitAttributes, MemoryRegion, QueuePair,
    QueuePairKind, QueuePairOptions, ReadyToReceiveAttributes, ReadyToSendAttributes, RemoteBuffer,
};

/// Acknowledgement timeout 4.096 µs × 2^14 = 67 ms, as perftest.
const TIMEOUT_CODE: u8 = 14;
/// One less than perftest's: rxe takes 7 as "for ever" and then never tells that the peer is out of reach.
const RETRIES: u8 = 6;
/// The same; no sender goes on without a receive buffer that it was told of.
const RECEIVER_NOT_READY_RETRIES: u8 = 6;
/// 0.64 ms, as perftest.
const RECEIVER_NOT_READY_TIMER: u8 = 12;
/// Longest message that the processor copies into the request, as perftest's default for write latency.
const INLINE_MAX: u32 = 220;
/// RDMA reads outstanding on one queue pair, where the device can: as perftest.
const READS_MAX: u8 = 16;
/// Signals that one queue pair can have under way besides its messages: one for each part of the receives, and the last one.
const SIGNALS_UNDER_WAY: u32 = RECEIVE_PARTS + 2;
/// The receives of a queue pair are given back to the sender in so many parts.
pub(super) const RECEIVE_PARTS: u32 = 4;
/// Receives of a stream in one part, at least: what comes in within 40 µs at 400 Gbit/s with 64 KiB.
const RECEIVE_PART_MIN: u32 = 32;
/// Receives of a ping-pong: one message is under way.
const PING_PONG_RECEIVES: u32 = 4;

/// What a probe has on its device.
pub(super) struct Parts {
    /// Where the connection manager connects the pairs. It lets go of them first.
    pub(super) door: Option<Door>,
    // Before what they use, though each holds it.
    pub(super) pairs: Vec<QueuePair>,
    pub(super) queue: CompletionQueue,
    pub(super) channel: CompletionChannel,
    pub(super) region: MemoryRegion,
    /// What the region lies in, where that is no memory of ours: freed after it.
    _gpu: Option<GpuMemory>,
    pub(super) context: Context,
    /// Receives that were posted on each queue pair.
    pub(super) receives: u32,
    /// RDMA reads that each queue pair answers at once, and has outstanding.
    reads: [u8; 2],
}

/// How many of everything a plan needs.
struct Needs {
    pairs: u32,
    sends: u32,
    receives: u32,
    inline: u32,
    queue_pair_access: Access,
    memory_access: Access,
}

impl Needs {
    fn of(plan: &ProbePlan) -> Result<Self, Trouble> {
        let manner = plan.manner;
        gpu::refuse_what_needs_a_view(plan)?;
        let mut access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        if manner.operation == Operation::Read {
            access = access | Access::REMOTE_READ;
        }
        let receives = |count| if manner.operation == Operation::Send { count } else { 0 };
        let plain = Self {
            pairs: 1,
            sends: 2,
            receives: 0,
            inline: 0,
            queue_pair_access: access,
            memory_access: access,
        };
        match plan.spec {
            ProbeSpec::Latency(spec) => {
                let short = spec.message_bytes <= INLINE_MAX && manner.operation != Operation::Read;
                let inline = if short { INLINE_MAX } else { 0 };
                // The last byte of a message must not overtake the others: no relaxed ordering.
                Ok(Self { inline, receives: receives(PING_PONG_RECEIVES), ..plain })
            }
            ProbeSpec::Bandwidth(spec) => Ok(Self {
                pairs: manner.queue_pairs,
                sends: spec.depth + SIGNALS_UNDER_WAY,
                receives: receives(RECEIVE_PARTS * spec.depth.max(RECEIVE_PART_MIN)),
                memory_access: access | Access::RELAXED_ORDERING,
                ..plain
            }),
            ProbeSpec::Pings(_) | ProbeSpec::Echo(_) => Err(super::no_connection_probe()),
        }
    }
}

/// Makes them, with the queue pairs in INIT.
pub(super) fn make(opened: &Shared, plan: &ProbePlan, own: &Own, means: &Means) -> Result<Parts, Trouble> {
    let needs = Needs::of(plan)?;
    let bytes = usize::try_from(plan.spec.buffer_bytes() + SIGNAL_BYTES).map_err(|_| {
        Trouble::new(Cause::LeaseRejected, Step::Admit, "the buffer exceeds the address space")
    })?;
    let failed = |e| Trouble::verb(Step::Init, &e);
    let reads = reads(&opened.context, plan)?;
    let (region, gpu) = match gpu::index(plan) {
        None => {
            let region = opened.domain.register(bytes, needs.memory_access);
            (region.map_err(|e| Trouble::verb(Step::Open, &e))?, None)
        }
        Some(index) => {
            // No room for signals: nobody could read them there.
            let bytes = bytes - SIGNAL_BYTES as usize;
            let (region, memory) = gpu::region(&opened.domain, means, index, bytes, needs.memory_access)?;
            (region, Some(memory))
        }
    };
    let channel = opened.context.create_channel().map_err(failed)?;
    let entries = needs.pairs * (needs.sends + needs.receives) + 1;
    let queue = opened.context.create_completion_queue(entries, Some(&channel)).map_err(failed)?;
    let mut pairs = Vec::with_capacity(needs.pairs as usize);
    for _ in 0..needs.pairs {
        let options = |max_inline| QueuePairOptions {
            kind: QueuePairKind::ReliableConnection,
            send_depth: needs.sends,
            receive_depth: needs.receives.max(1),
            max_inline,
        };
        let made = opened.domain.create_queue_pair(&queue, &queue, &options(needs.inline));
        // Some devices have no inline at all: the device then fetches the data itself.
        let made = made.or_else(|e| match needs.inline {
            0 => Err(e),
            _ => opened.domain.create_queue_pair(&queue, &queue, &options(0)),
        });
        let mut pair = made.map_err(failed)?;
        let init = InitAttributes {
            port: own.port,
            pkey_index: own.pkey_index,
            access: needs.queue_pair_access,
            queue_key: 0,
        };
        pair.to_init(&init).map_err(failed)?;
        pairs.push(pair);
    }
    let mut parts = Parts {
        door: None,
        pairs,
        queue,
        channel,
        region,
        _gpu: gpu,
        context: opened.context.clone(),
        receives: needs.receives,
        reads,
    };
    // The peer may send as soon as it is connected.
    for at in 0..parts.pairs.len() {
        for _ in 0..parts.receives {
            parts.post_receive(at, plan).map_err(failed)?;
        }
    }
    if cm::connects(own.fabric) {
        let numbers: Vec<u32> = parts.pairs.iter().map(QueuePair::number).collect();
        parts.door = Some(Door::open(&means.manager, plan.role, own.gid, &numbers, parts.reads)?);
    }
    Ok(parts)
}

/// How many reads each queue pair can answer and make at once; 1 where none are made, as it always was.
fn reads(context: &Context, plan: &ProbePlan) -> Result<[u8; 2], Trouble> {
    if plan.manner.operation != Operation::Read {
        return Ok([1, 1]);
    }
    let device = context.query_device().map_err(|e| Trouble::verb(Step::Open, &e))?;
    let reads = [device.max_incoming_reads, device.max_outgoing_reads];
    if reads.contains(&0) {
        let evidence = format!("{} has no RDMA reads", context.device());
        return Err(Trouble::new(Cause::NotAvailable, Step::Open, evidence));
    }
    Ok(reads.map(|most| most.min(READS_MAX)))
}

/// Marks the completion of a receive; the rest of the number is the queue pair's place.
pub(super) const RECEIVE: u64 = 1 << 32;

impl Parts {
    /// Offers the beginning of the buffer to a message that comes in: nobody reads more than its last byte.
    pub(super) fn post_receive(&self, at: usize, plan: &ProbePlan) -> Result<(), rdmascope_sys::VerbError> {
        let length = super::message_bytes(&plan.spec) as usize;
        self.pairs[at].post_receive(&self.region, 0..length, RECEIVE | at as u64)
    }

    /// What the peer needs to know of them.
    pub(super) fn offer(&self, own: &Own, plan: &ProbePlan) -> Vec<u8> {
        let offer = Offer {
            role: plan.role,
            gid: own.gid,
            lid: own.lid,
            queue_pairs: self.pairs.iter().map(QueuePair::number).collect(),
            sequence: own.sequence,
            mtu: own.mtu,
            buffer: RemoteBuffer { address: self.region.address(), key: self.region.remote_key() },
            buffer_bytes: self.region.len() as u64,
            reads: self.reads[0],
            receives: u16::try_from(self.receives).unwrap_or(u16::MAX),
        };
        let mut bytes = offer.to_bytes(super::is_plain(plan));
        bytes.extend(self.door.iter().flat_map(Door::offer));
        bytes
    }

    /// Takes all queue pairs to RTS; false when the connection manager, which the peer `called` to, is still at it.
    pub(super) fn connect(
        &mut self,
        own: &Own,
        peer: &Offer,
        called: Option<Called>,
    ) -> Result<bool, Trouble> {
        if peer.queue_pairs.len() != self.pairs.len() {
            let evidence =
                format!("the peer has {} queue pairs for our {}", peer.queue_pairs.len(), self.pairs.len());
            return Err(Trouble::new(Cause::BadPeerData, Step::Exchange, evidence));
        }
        if let (Some(door), Some(called)) = (&mut self.door, called) {
            return door.connect(&called.at(peer.gid));
        }
        let address = own.way_to(peer, &self.context)?;
        for (pair, peers) in self.pairs.iter_mut().zip(&peer.queue_pairs) {
            let ready = ReadyToReceiveAttributes {
                address,
                path_mtu: own.mtu.min(peer.mtu),
                peer_queue_pair: *peers,
                receive_sequence: peer.sequence,
                max_incoming_reads: self.reads[0],
                receiver_not_ready_timer: RECEIVER_NOT_READY_TIMER,
            };
            pair.to_ready_to_receive(&ready).map_err(|e| Trouble::verb(Step::Rtr, &e))?;
            let send = ReadyToSendAttributes {
                send_sequence: own.sequence,
                timeout: TIMEOUT_CODE,
                retries: RETRIES,
                receiver_not_ready_retries: RECEIVER_NOT_READY_RETRIES,
                // More than the peer answers would be refused on the way.
                max_outgoing_reads: self.reads[1].min(peer.reads.max(1)),
            };
            pair.to_ready_to_send(&send).map_err(|e| Trouble::verb(Step::Rts, &e))?;
        }
        Ok(true)
    }
}
