//! Completion queues, and the channels that wake a sleeper when something completes.

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rdma_sys::{
    ibv_comp_channel, ibv_cq, ibv_wc, ibv_wc_flags, ibv_wc_opcode, imm_data_invalidated_rkey_union_t,
};

use crate::context::{Context, ContextHandle};
use crate::error::{EAGAIN, EINTR, EINVAL, Verb, VerbError, check, last_errno, released};
use crate::status::CompletionStatus;

struct ChannelHandle {
    raw: NonNull<ibv_comp_channel>,
    context: Arc<ContextHandle>,
}

// SAFETY: libibverbs guards every call on a channel against other threads.
unsafe impl Send for ChannelHandle {}
// SAFETY: as above.
unsafe impl Sync for ChannelHandle {}

impl Drop for ChannelHandle {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; every queue on it holds this handle, so none is left.
        released(unsafe { (self.context.symbols.destroy_comp_channel)(self.raw.as_ptr()) });
    }
}

/// A descriptor that becomes readable when a queue of it completes something. Cloning shares it.
#[derive(Clone)]
pub struct CompletionChannel {
    handle: Arc<ChannelHandle>,
}

impl CompletionChannel {
    /// Readable when [`CompletionChannel::take_event`] has something. Non-blocking.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is alive and `fd` is part of its fixed layout.
        let fd: RawFd = unsafe { (*self.handle.raw.as_ptr()).fd };
        // SAFETY: libibverbs keeps it open until the channel is destroyed, which `self` prevents.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// Takes one event, if there is one, and acknowledges it. A queue tells once per
    /// [`CompletionQueue::request_notify`]; after that, ask again and poll once more before sleeping.
    ///
    /// # Errors
    /// [`VerbError`]; `EIO` when the device is gone.
    pub fn take_event(&self) -> Result<bool, VerbError> {
        let context = &self.handle.context;
        let mut queue: *mut ibv_cq = ptr::null_mut();
        let mut user = ptr::null_mut();
        // SAFETY: the channel is alive, both places are valid during the call.
        let code = unsafe {
            (context.symbols.get_cq_event)(self.handle.raw.as_ptr(), &raw mut queue, &raw mut user)
        };
        if code != 0 {
            return match last_errno() {
                EAGAIN | EINTR => Ok(false),
                errno => Err(VerbError::new(Verb::GetCqEvent, errno, &context.device)),
            };
        }
        // SAFETY: the event names a queue that cannot be gone: destroying it waits for this acknowledgement.
        unsafe { (context.symbols.ack_cq_events)(queue, 1) };
        Ok(true)
    }
}

/// The raw queue, which queue pairs hold too.
pub(crate) struct CqHandle {
    pub(crate) raw: NonNull<ibv_cq>,
    pub(crate) context: Arc<ContextHandle>,
    _channel: Option<CompletionChannel>,
}

// SAFETY: what is done through the shared handle (creating queue pairs on it, releasing it) libibverbs
// guards.
unsafe impl Send for CqHandle {}
// SAFETY: as above.
unsafe impl Sync for CqHandle {}

impl Drop for CqHandle {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; every queue pair on it holds this handle, and every event
        // taken was acknowledged, so the call does not wait.
        released(unsafe { (self.context.symbols.destroy_cq)(self.raw.as_ptr()) });
    }
}

type PollFn = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
type NotifyFn = unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int;

/// Where work requests report that they are done.
///
/// It may move between threads but is polled by one at a time (providers can be told to drop their locks).
pub struct CompletionQueue {
    pub(crate) handle: Arc<CqHandle>,
    poll: PollFn,
    notify: NotifyFn,
    one_thread: PhantomData<Cell<()>>,
}

impl Context {
    /// Creates a completion channel.
    ///
    /// # Errors
    /// [`VerbError`]; `EMFILE` when the process has no descriptors left.
    pub fn create_channel(&self) -> Result<CompletionChannel, VerbError> {
        let context = &self.handle;
        // SAFETY: the context is alive.
        let raw = unsafe { (context.symbols.create_comp_channel)(context.raw.as_ptr()) };
        let raw =
            NonNull::new(raw).ok_or_else(|| VerbError::last(Verb::CreateCompChannel, &context.device))?;
        let channel =
            CompletionChannel { handle: Arc::new(ChannelHandle { raw, context: Arc::clone(context) }) };
        rustix::io::ioctl_fionbio(channel.fd(), true).map_err(|errno| {
            VerbError::new(Verb::CreateCompChannel, errno.raw_os_error(), &context.device)
        })?;
        Ok(channel)
    }

    /// Creates a completion queue for at least `entries` completions, which tells `channel` where one is
    /// given.
    ///
    /// # Errors
    /// [`VerbError`]; `EINVAL` for more entries than the device can hold, or a channel of another device.
    pub fn create_completion_queue(
        &self,
        entries: u32,
        channel: Option<&CompletionChannel>,
    ) -> Result<CompletionQueue, VerbError> {
        let context = &self.handle;
        let on = self.raw_channel(channel)?;
        let entries =
            c_int::try_from(entries).map_err(|_| VerbError::new(Verb::CreateCq, EINVAL, &context.device))?;
        // SAFETY: context and channel are alive and belong together.
        let raw =
            unsafe { (context.symbols.create_cq)(context.raw.as_ptr(), entries, ptr::null_mut(), on, 0) };
        let raw = NonNull::new(raw).ok_or_else(|| VerbError::last(Verb::CreateCq, &context.device))?;
        self.adopt_queue(raw, channel)
    }

    /// The channel for the library; one of another device is refused.
    pub(crate) fn raw_channel(
        &self,
        channel: Option<&CompletionChannel>,
    ) -> Result<*mut ibv_comp_channel, VerbError> {
        let context = &self.handle;
        if channel.is_some_and(|channel| channel.handle.context.raw != context.raw) {
            return Err(VerbError::new(Verb::CreateCq, EINVAL, &context.device));
        }
        Ok(channel.map_or(ptr::null_mut(), |channel| channel.handle.raw.as_ptr()))
    }

    /// Takes over a queue that the library just made on this context and channel.
    pub(crate) fn adopt_queue(
        &self,
        raw: NonNull<ibv_cq>,
        channel: Option<&CompletionChannel>,
    ) -> Result<CompletionQueue, VerbError> {
        let context = &self.handle;
        let handle = CqHandle { raw, context: Arc::clone(context), _channel: channel.cloned() };
        // SAFETY: the context is alive and `ops` is part of its fixed layout.
        let operations = unsafe { (*context.raw.as_ptr()).ops };
        let (Some(poll), Some(notify)) = (operations.poll_cq, operations.req_notify_cq) else {
            return Err(VerbError::new(Verb::CreateCq, EINVAL, &context.device));
        };
        Ok(CompletionQueue { handle: Arc::new(handle), poll, notify, one_thread: PhantomData })
    }
}

impl CompletionQueue {
    /// Takes what is done, up to the room given. Never waits.
    ///
    /// # Errors
    /// [`VerbError`]: the queue itself failed (overrun, or the device is gone).
    #[inline]
    pub fn poll<'room>(&self, room: &'room mut [Completion]) -> Result<&'room [Completion], VerbError> {
        let most = c_int::try_from(room.len()).unwrap_or(c_int::MAX);
        // SAFETY: the queue is alive; the provider writes at most `most` completions, whose layout
        // `Completion` has.
        let found =
            unsafe { (self.poll)(self.handle.raw.as_ptr(), most, room.as_mut_ptr().cast::<ibv_wc>()) };
        match usize::try_from(found) {
            Ok(count) => Ok(room.get(..count).unwrap_or_default()),
            Err(_) => Err(self.poll_failed(found)),
        }
    }

    pub(crate) fn device(&self) -> &Arc<str> {
        &self.handle.context.device
    }

    #[cold]
    fn poll_failed(&self, code: c_int) -> VerbError {
        VerbError::new(Verb::PollCq, code.saturating_abs(), &self.handle.context.device)
    }

    /// Asks for one event on the channel at the next completion. What completed before does not count: poll
    /// after this.
    ///
    /// # Errors
    /// [`VerbError`]; `EIO` when the device is gone.
    pub fn request_notify(&self) -> Result<(), VerbError> {
        // SAFETY: the queue is alive.
        let code = unsafe { (self.notify)(self.handle.raw.as_ptr(), 0) };
        check(code, Verb::ReqNotifyCq, &self.handle.context.device)
    }
}

/// One finished work request.
#[repr(transparent)]
pub struct Completion(ibv_wc);

const _: () = assert!(size_of::<Completion>() == 48);
const _: () = assert!(std::mem::offset_of!(ibv_wc, wc_flags) == 36);

impl Default for Completion {
    fn default() -> Self {
        Self(ibv_wc {
            wr_id: 0,
            status: 0,
            opcode: 0,
            vendor_err: 0,
            byte_len: 0,
            imm_data_invalidated_rkey_union: imm_data_invalidated_rkey_union_t { imm_data: 0 },
            qp_num: 0,
            src_qp: 0,
            wc_flags: 0,
            pkey_index: 0,
            slid: 0,
            sl: 0,
            dlid_path_bits: 0,
        })
    }
}

impl Completion {
    pub(crate) fn from_raw(raw: ibv_wc) -> Self {
        Self(raw)
    }

    pub(crate) fn into_raw(self) -> ibv_wc {
        self.0
    }

    /// The number that the poster gave the request.
    #[inline]
    pub fn id(&self) -> u64 {
        self.0.wr_id
    }

    /// Whether it went well.
    #[inline]
    pub fn is_success(&self) -> bool {
        self.0.status == 0
    }

    /// How it ended.
    #[inline]
    pub fn status(&self) -> CompletionStatus {
        CompletionStatus::from_code(self.0.status)
    }

    /// The vendor's error number, for their support.
    pub fn vendor_error(&self) -> u32 {
        self.0.vendor_err
    }

    /// The queue pair it belongs to: valid in failed completions too.
    #[inline]
    pub fn queue_pair(&self) -> u32 {
        self.0.qp_num
    }

    /// Whether a receive (not a send or write) finished. Meaningful in successful completions only.
    #[inline]
    pub fn is_receive(&self) -> bool {
        self.0.opcode & ibv_wc_opcode::IBV_WC_RECV != 0
    }

    /// Bytes received; for datagrams with the 40 bytes of the global routing header before the payload.
    #[inline]
    pub fn received_bytes(&self) -> u32 {
        self.0.byte_len
    }

    /// The sender's queue pair (datagrams).
    #[inline]
    pub fn source_queue_pair(&self) -> u32 {
        self.0.src_qp
    }

    /// The sender's LID (datagrams on InfiniBand; of no meaning on Ethernet).
    #[inline]
    pub fn source_lid(&self) -> u16 {
        self.0.slid
    }

    /// Whether the 40 bytes before a datagram's payload were filled; always on RoCE.
    #[inline]
    pub fn has_global_route(&self) -> bool {
        self.0.wc_flags & ibv_wc_flags::IBV_WC_GRH.0 != 0
    }
}
