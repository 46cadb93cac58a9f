//! Queue pairs: creation, the walk through their states, and posting.

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rdma_sys::{
    ibv_qp, ibv_qp_attr, ibv_qp_attr_mask as mask, ibv_qp_cap, ibv_qp_init_attr, ibv_qp_state, ibv_qp_type,
    ibv_recv_wr, ibv_send_wr,
};

use crate::ah::AddressVector;
use crate::cq::{CompletionQueue, CqHandle};
use crate::error::{EINVAL, QueuePairState, Verb, VerbError, check, released};
use crate::pd_mr::{Access, DomainHandle, MemoryRegion, ProtectionDomain};
use crate::port::Mtu;
use crate::post::{SendRequest, Target, element};

/// The service that a queue pair gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuePairKind {
    /// RC: one peer, acknowledged, can write remote memory.
    ReliableConnection,
    /// UD: any peer, not acknowledged, one packet per message.
    Datagram,
}

/// What a queue pair is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePairOptions {
    /// The service.
    pub kind: QueuePairKind,
    /// Most outstanding sends.
    pub send_depth: u32,
    /// Most outstanding receives.
    pub receive_depth: u32,
    /// Bytes that can be sent inline.
    pub max_inline: u32,
}

/// RESET → INIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitAttributes {
    /// The port, from 1.
    pub port: u8,
    /// Index in the port's P_Key table.
    pub pkey_index: u16,
    /// What the peer may do (connections).
    pub access: Access,
    /// The key that datagrams must carry (datagrams).
    pub queue_key: u32,
}

/// INIT → RTR of a connection. Datagram queue pairs need none of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyToReceiveAttributes {
    /// The way to the peer.
    pub address: AddressVector,
    /// Payload bytes of one packet; both ends must agree.
    pub path_mtu: Mtu,
    /// The peer's queue pair number.
    pub peer_queue_pair: u32,
    /// The sequence number that the peer starts with (24 bits).
    pub receive_sequence: u32,
    /// RDMA reads that we answer at once.
    pub max_incoming_reads: u8,
    /// Code of the pause that we ask for when we have no receive buffer (12: 0.64 ms, as perftest).
    pub receiver_not_ready_timer: u8,
}

/// RTR → RTS. Datagram queue pairs use the sequence number only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyToSendAttributes {
    /// The sequence number that we start with (24 bits).
    pub send_sequence: u32,
    /// Code of the acknowledgement timeout: 4.096 µs × 2^this (14: 67 ms).
    pub timeout: u8,
    /// Retries before status 12 (0 to 7).
    pub retries: u8,
    /// Retries when the peer has no receive buffer (7: for ever).
    pub receiver_not_ready_retries: u8,
    /// RDMA reads that we have outstanding at once.
    pub max_outgoing_reads: u8,
}

type PostSendFn = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;
type PostRecvFn = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;

/// A queue pair. It may move between threads but is used by one at a time.
pub struct QueuePair {
    raw: NonNull<ibv_qp>,
    post_send: PostSendFn,
    post_recv: PostRecvFn,
    target: Target,
    number: u32,
    max_inline: u32,
    kind: QueuePairKind,
    domain: Arc<DomainHandle>,
    _queues: [Arc<CqHandle>; 2],
    one_thread: PhantomData<Cell<()>>,
}

// SAFETY: the raw handle is bound to no thread; libibverbs allows its use from any, and this type from one at
// a time.
unsafe impl Send for QueuePair {}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; nothing else holds the raw handle. Outstanding requests are
        // dropped by the device, which from then on reads and writes no memory for them.
        released(unsafe { (self.domain.context.symbols.destroy_qp)(self.raw.as_ptr()) });
    }
}

impl ProtectionDomain {
    /// Creates a queue pair that completes its sends and receives on the given queues.
    ///
    /// # Errors
    /// [`VerbError`]; `ENOMEM` when the device or the limit for locked memory is exhausted, `EINVAL` when it
    /// cannot do what the options ask for or a queue belongs to another device.
    pub fn create_queue_pair(
        &self,
        send: &CompletionQueue,
        receive: &CompletionQueue,
        options: &QueuePairOptions,
    ) -> Result<QueuePair, VerbError> {
        let context = &self.handle.context;
        let misuse = || VerbError::new(Verb::CreateQp, EINVAL, &context.device);
        if [send, receive].iter().any(|queue| queue.handle.context.raw != context.raw) {
            return Err(misuse());
        }
        let (qp_type, target) = match options.kind {
            QueuePairKind::ReliableConnection => (ibv_qp_type::IBV_QPT_RC, Target::Connected),
            QueuePairKind::Datagram => {
                (ibv_qp_type::IBV_QPT_UD, Target::Datagram(context.raw.as_ptr().addr()))
            }
        };
        let mut attributes = ibv_qp_init_attr {
            qp_context: ptr::null_mut(),
            send_cq: send.handle.raw.as_ptr(),
            recv_cq: receive.handle.raw.as_ptr(),
            srq: ptr::null_mut(),
            cap: ibv_qp_cap {
                max_send_wr: options.send_depth,
                max_recv_wr: options.receive_depth,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: options.max_inline,
            },
            qp_type,
            sq_sig_all: 0,
        };
        // SAFETY: the context is alive and `ops` is part of its fixed layout.
        let operations = unsafe { (*context.raw.as_ptr()).ops };
        let (Some(post_send), Some(post_recv)) = (operations.post_send, operations.post_recv) else {
            return Err(misuse());
        };
        // SAFETY: domain and queues are alive and of one device; `attributes` is valid during the call.
        let raw = unsafe { (context.symbols.create_qp)(self.handle.raw.as_ptr(), &raw mut attributes) };
        let raw = NonNull::new(raw).ok_or_else(|| VerbError::last(Verb::CreateQp, &context.device))?;
        // SAFETY: the queue pair is alive and `qp_num` is part of its fixed layout.
        let number = unsafe { (*raw.as_ptr()).qp_num };
        Ok(QueuePair {
            raw,
            post_send,
            post_recv,
            target,
            number,
            max_inline: attributes.cap.max_inline_data,
            kind: options.kind,
            domain: Arc::clone(&self.handle),
            _queues: [Arc::clone(&send.handle), Arc::clone(&receive.handle)],
            one_thread: PhantomData,
        })
    }
}

fn blank(state: ibv_qp_state::Type) -> ibv_qp_attr {
    // SAFETY: integers (and unions of them) only: all zero is valid.
    let mut attributes = unsafe { MaybeUninit::<ibv_qp_attr>::zeroed().assume_init() };
    attributes.qp_state = state;
    attributes
}

impl QueuePair {
    /// Its number, which the peer needs.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Bytes that can be sent inline: what was asked for, or more.
    pub fn max_inline(&self) -> u32 {
        self.max_inline
    }

    /// RESET → INIT.
    ///
    /// # Errors
    /// [`VerbError`]; `EINVAL` for a port or P_Key index that is not there.
    pub fn to_init(&mut self, init: &InitAttributes) -> Result<(), VerbError> {
        let mut attributes = blank(ibv_qp_state::IBV_QPS_INIT);
        attributes.port_num = init.port;
        attributes.pkey_index = init.pkey_index;
        let mut fields = mask::IBV_QP_STATE | mask::IBV_QP_PORT | mask::IBV_QP_PKEY_INDEX;
        match self.kind {
            QueuePairKind::ReliableConnection => {
                attributes.qp_access_flags = init.access.0;
                fields |= mask::IBV_QP_ACCESS_FLAGS;
            }
            QueuePairKind::Datagram => {
                attributes.qkey = init.queue_key;
                fields |= mask::IBV_QP_QKEY;
            }
        }
        self.modify(QueuePairState::Init, attributes, fields)
    }

    /// INIT → RTR of a connection. For RoCE the kernel resolves the peer's MAC address here, which may take
    /// seconds.
    ///
    /// # Errors
    /// [`VerbError`]; `ENETUNREACH`, `EHOSTUNREACH` or `ETIMEDOUT` when the peer's address cannot be
    /// resolved, `EINVAL` for a GID that is not there or of another address family, or a datagram queue
    /// pair.
    pub fn to_ready_to_receive(&mut self, ready: &ReadyToReceiveAttributes) -> Result<(), VerbError> {
        if self.kind == QueuePairKind::Datagram {
            return Err(self.misuse(Verb::ModifyQp(QueuePairState::ReadyToReceive)));
        }
        let mut attributes = blank(ibv_qp_state::IBV_QPS_RTR);
        attributes.ah_attr = ready.address.to_raw();
        attributes.path_mtu = ready.path_mtu.code();
        attributes.dest_qp_num = ready.peer_queue_pair;
        attributes.rq_psn = ready.receive_sequence & 0x00FF_FFFF;
        attributes.max_dest_rd_atomic = ready.max_incoming_reads;
        attributes.min_rnr_timer = ready.receiver_not_ready_timer;
        let fields = mask::IBV_QP_STATE
            | mask::IBV_QP_AV
            | mask::IBV_QP_PATH_MTU
            | mask::IBV_QP_DEST_QPN
            | mask::IBV_QP_RQ_PSN
            | mask::IBV_QP_MAX_DEST_RD_ATOMIC
            | mask::IBV_QP_MIN_RNR_TIMER;
        self.modify(QueuePairState::ReadyToReceive, attributes, fields)
    }

    /// INIT → RTR of a datagram queue pair.
    ///
    /// # Errors
    /// [`VerbError`]; `EINVAL` for a connection.
    pub fn to_ready_to_receive_datagrams(&mut self) -> Result<(), VerbError> {
        if self.kind != QueuePairKind::Datagram {
            return Err(self.misuse(Verb::ModifyQp(QueuePairState::ReadyToReceive)));
        }
        self.modify(QueuePairState::ReadyToReceive, blank(ibv_qp_state::IBV_QPS_RTR), mask::IBV_QP_STATE)
    }

    /// RTR → RTS.
    ///
    /// # Errors
    /// [`VerbError`]; `EINVAL` when it is not in RTR.
    pub fn to_ready_to_send(&mut self, ready: &ReadyToSendAttributes) -> Result<(), VerbError> {
        let mut attributes = blank(ibv_qp_state::IBV_QPS_RTS);
        attributes.sq_psn = ready.send_sequence & 0x00FF_FFFF;
        let mut fields = mask::IBV_QP_STATE | mask::IBV_QP_SQ_PSN;
        if self.kind == QueuePairKind::ReliableConnection {
            attributes.timeout = ready.timeout;
            attributes.retry_cnt = ready.retries;
            attributes.rnr_retry = ready.receiver_not_ready_retries;
            attributes.max_rd_atomic = ready.max_outgoing_reads;
            fields = fields
                | mask::IBV_QP_TIMEOUT
                | mask::IBV_QP_RETRY_CNT
                | mask::IBV_QP_RNR_RETRY
                | mask::IBV_QP_MAX_QP_RD_ATOMIC;
        }
        self.modify(QueuePairState::ReadyToSend, attributes, fields)
    }

    /// Any state → ERR: all outstanding requests complete as flushed.
    ///
    /// # Errors
    /// [`VerbError`]; `EIO` when the device is gone.
    pub fn to_error(&mut self) -> Result<(), VerbError> {
        self.modify(QueuePairState::Error, blank(ibv_qp_state::IBV_QPS_ERR), mask::IBV_QP_STATE)
    }

    fn modify(
        &mut self,
        state: QueuePairState,
        mut attributes: ibv_qp_attr,
        fields: mask,
    ) -> Result<(), VerbError> {
        let context = &self.domain.context;
        // SAFETY: the queue pair is alive; `attributes` is complete and valid during the call.
        let code = unsafe {
            (context.symbols.modify_qp)(self.raw.as_ptr(), &raw mut attributes, fields.0.cast_signed())
        };
        check(code, Verb::ModifyQp(state), &context.device)
    }

    #[cold]
    fn misuse(&self, verb: Verb) -> VerbError {
        VerbError::new(verb, EINVAL, &self.domain.context.device)
    }

    #[cold]
    fn post_failed(&self, verb: Verb, code: c_int) -> VerbError {
        VerbError::new(verb, code.saturating_abs(), &self.domain.context.device)
    }

    /// Posts a send or write.
    ///
    /// # Errors
    /// [`VerbError`]; `ENOMEM` when the send queue is full, `EINVAL` when it is not in RTS, the data is too
    /// long for inline, or the request is for another kind of queue pair or another device.
    #[inline]
    pub fn post(&self, request: &mut SendRequest<'_>) -> Result<(), VerbError> {
        if request.target != self.target {
            return Err(self.misuse(Verb::PostSend));
        }
        request.request.sg_list = &raw mut request.element;
        let mut refused = ptr::null_mut();
        // SAFETY: the queue pair is alive and of the kind that the request is for; request and element live
        // through the call, and the memory they name is held by the request's borrow of its region
        // (inline data is copied within the call; later fetches go through the region's key, which
        // the device refuses once it is released).
        let code = unsafe { (self.post_send)(self.raw.as_ptr(), &raw mut request.request, &raw mut refused) };
        if code == 0 { Ok(()) } else { Err(self.post_failed(Verb::PostSend, code)) }
    }

    /// Offers `range` of `region` to the next incoming message. Datagrams put 40 bytes of header before the
    /// payload.
    ///
    /// # Errors
    /// [`VerbError`]; `ENOMEM` when the receive queue is full, `EINVAL` for a range outside the region or
    /// before INIT.
    #[inline]
    pub fn post_receive(&self, region: &MemoryRegion, range: Range<usize>, id: u64) -> Result<(), VerbError> {
        let mut element = element(region, &range, Verb::PostRecv)?;
        let mut request =
            ibv_recv_wr { wr_id: id, next: ptr::null_mut(), sg_list: &raw mut element, num_sge: 1 };
        let mut refused = ptr::null_mut();
        // SAFETY: the queue pair is alive; request and element live through the call. The device writes only
        // while the region is registered, and a region's memory is freed only after that.
        let code = unsafe { (self.post_recv)(self.raw.as_ptr(), &raw mut request, &raw mut refused) };
        if code == 0 { Ok(()) } else { Err(self.post_failed(Verb::PostRecv, code)) }
    }
}
