//! Completion queues whose device says when each message passed it, where it can.

use std::mem::{MaybeUninit, offset_of};
use std::ptr::{self, NonNull};

use rdma_sys::{
    ibv_cq, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_create_cq_wc_flags as fields, ibv_device_attr_ex,
    ibv_poll_cq_attr, verbs_context,
};

use crate::context::Context;
use crate::cq::{Completion, CompletionChannel, CompletionQueue};
use crate::error::{EINVAL, EOPNOTSUPP, Verb, VerbError, check, last_errno};

const ENOENT: i32 = rustix::io::Errno::NOENT.raw_os_error();
const ENOSYS: i32 = rustix::io::Errno::NOSYS.raw_os_error();

/// What the stamps of a device count: to be handed to whoever turns them into time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StampUnit {
    /// The bits that count; after the largest value comes 0 again.
    pub mask: u64,
    /// Steps per millisecond (`hca_core_clock` of `struct ibv_device_attr_ex` is in kHz).
    pub kilohertz: u64,
}

/// Stamps that the provider has already turned into nanoseconds (`read_completion_wallclock_ns`).
const NANOSECONDS: StampUnit = StampUnit { mask: u64::MAX, kilohertz: 1_000_000 };

/// A finished work request and when the device saw its message.
#[derive(Default)]
pub struct StampedCompletion {
    /// The completion.
    pub completion: Completion,
    /// The device's clock then, in the queue's [`StampUnit`]. Drivers have been seen to leave it 0.
    pub stamp: u64,
}

/// A completion queue with stamps. It may move between threads but is polled by one at a time.
pub struct StampedQueue {
    queue: CompletionQueue,
    raw: NonNull<ibv_cq_ex>,
    calls: Calls,
    unit: StampUnit,
}

// SAFETY: `raw` is the queue that `queue` owns, which may move between threads; the rest are functions and numbers.
unsafe impl Send for StampedQueue {}

/// The provider's functions that this crate calls, all present.
#[derive(Clone, Copy)]
struct Calls {
    start: unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> i32,
    next: unsafe extern "C" fn(*mut ibv_cq_ex) -> i32,
    end: unsafe extern "C" fn(*mut ibv_cq_ex),
    opcode: unsafe extern "C" fn(*mut ibv_cq_ex) -> u32,
    vendor_error: unsafe extern "C" fn(*mut ibv_cq_ex) -> u32,
    bytes: unsafe extern "C" fn(*mut ibv_cq_ex) -> u32,
    queue_pair: unsafe extern "C" fn(*mut ibv_cq_ex) -> u32,
    source: unsafe extern "C" fn(*mut ibv_cq_ex) -> u32,
    source_lid: unsafe extern "C" fn(*mut ibv_cq_ex) -> u32,
    flags: unsafe extern "C" fn(*mut ibv_cq_ex) -> u32,
    stamp: unsafe extern "C" fn(*mut ibv_cq_ex) -> u64,
}

impl Calls {
    fn of(queue: &ibv_cq_ex, wallclock: bool) -> Option<Self> {
        Some(Self {
            start: queue.start_poll?,
            next: queue.next_poll?,
            end: queue.end_poll?,
            opcode: queue.read_opcode?,
            vendor_error: queue.read_vendor_err?,
            bytes: queue.read_byte_len?,
            queue_pair: queue.read_qp_num?,
            source: queue.read_src_qp?,
            source_lid: queue.read_slid?,
            flags: queue.read_wc_flags?,
            stamp: if wallclock { queue.read_completion_wallclock_ns } else { queue.read_completion_ts }?,
        })
    }
}

impl Context {
    /// Creates a completion queue with stamps; `None` where the device, its driver or the library has none: Soft-RoCE, Soft-iWARP, many
    /// virtual functions. Stamps in nanoseconds are preferred, because firmware can be set to count in another format than the clock
    /// rate that it reports. Whether to believe either is the caller's to test.
    ///
    /// # Errors
    /// [`VerbError`] as for [`Context::create_completion_queue`].
    pub fn create_stamped_queue(
        &self,
        entries: u32,
        channel: Option<&CompletionChannel>,
    ) -> Result<Option<StampedQueue>, VerbError> {
        if let Some(queue) = self.extended_queue(entries, channel, true, NANOSECONDS)? {
            return Ok(Some(queue));
        }
        match self.stamp_unit()? {
            Some(unit) => self.extended_queue(entries, channel, false, unit),
            None => Ok(None),
        }
    }

    /// What raw stamps count, by `ibv_query_device_ex`; `None` where the device reports no clock.
    fn stamp_unit(&self) -> Result<Option<StampUnit>, VerbError> {
        let handle = &*self.handle;
        let Some(query) = handle
            .extended(offset_of!(verbs_context, query_device_ex))
            // SAFETY: `extended` checked that the structure reaches to this field.
            .and_then(|outer| unsafe { (*outer.as_ptr()).query_device_ex })
        else {
            return Ok(None);
        };
        let mut attributes = MaybeUninit::<ibv_device_attr_ex>::zeroed();
        // SAFETY: the context is alive, no input is given (the header allows that), and the library writes at most the size given.
        let code = unsafe {
            query(handle.raw.as_ptr(), ptr::null(), attributes.as_mut_ptr(), size_of::<ibv_device_attr_ex>())
        };
        if matches!(code.saturating_abs(), EOPNOTSUPP | ENOSYS) {
            return Ok(None);
        }
        check(code, Verb::QueryDevice, &handle.device)?;
        // SAFETY: integers only, zeroed before the call: every bit pattern is valid.
        let found = unsafe { attributes.assume_init() };
        let unit = StampUnit { mask: found.completion_timestamp_mask, kilohertz: found.hca_core_clock };
        Ok((unit.mask != 0 && unit.kilohertz != 0).then_some(unit))
    }

    fn extended_queue(
        &self,
        entries: u32,
        channel: Option<&CompletionChannel>,
        wallclock: bool,
        unit: StampUnit,
    ) -> Result<Option<StampedQueue>, VerbError> {
        let handle = &*self.handle;
        let Some(create) = handle
            .extended(offset_of!(verbs_context, create_cq_ex))
            // SAFETY: `extended` checked that the structure reaches to this field.
            .and_then(|outer| unsafe { (*outer.as_ptr()).create_cq_ex })
        else {
            return Ok(None);
        };
        let on = self.raw_channel(channel)?;
        let stamp = if wallclock {
            fields::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
        } else {
            fields::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
        };
        let told = fields::IBV_WC_EX_WITH_BYTE_LEN
            | fields::IBV_WC_EX_WITH_QP_NUM
            | fields::IBV_WC_EX_WITH_SRC_QP
            | fields::IBV_WC_EX_WITH_SLID
            | stamp;
        let mut attributes = ibv_cq_init_attr_ex {
            cqe: entries,
            cq_context: ptr::null_mut(),
            channel: on,
            comp_vector: 0,
            wc_flags: u64::from(told.0),
            comp_mask: 0,
            flags: 0,
            parent_domain: ptr::null_mut(),
        };
        // SAFETY: context and channel are alive and belong together; `attributes` is complete and valid during the call.
        let raw = unsafe { create(handle.raw.as_ptr(), &raw mut attributes) };
        let Some(raw) = NonNull::new(raw) else {
            return match last_errno() {
                // What providers without stamps answer to flags that they do not know; mlx4 answers EINVAL where the port has none.
                EOPNOTSUPP | ENOSYS | EINVAL => Ok(None),
                errno => Err(VerbError::new(Verb::CreateCq, errno, &handle.device)),
            };
        };
        // The header's own conversion: an extended queue begins with the fields of a plain one.
        let queue = self.adopt_queue(raw.cast::<ibv_cq>(), channel)?;
        // SAFETY: the queue is alive: `queue` owns it.
        let Some(calls) = Calls::of(unsafe { raw.as_ref() }, wallclock) else { return Ok(None) };
        Ok(Some(StampedQueue { queue, raw, calls, unit }))
    }
}

impl StampedQueue {
    /// The queue itself, for making queue pairs on it and for asking to be woken. Poll it here only: a provider may lose the stamps of
    /// what is polled the plain way.
    pub fn queue(&self) -> &CompletionQueue {
        &self.queue
    }

    /// What the stamps count.
    pub fn unit(&self) -> StampUnit {
        self.unit
    }

    /// Takes what is done, up to the room given. Never waits.
    ///
    /// # Errors
    /// [`VerbError`]: the queue itself failed (overrun, or the device is gone).
    pub fn poll<'room>(
        &self,
        room: &'room mut [StampedCompletion],
    ) -> Result<&'room [StampedCompletion], VerbError> {
        if room.is_empty() {
            return Ok(room);
        }
        let raw = self.raw.as_ptr();
        let mut nothing_asked = ibv_poll_cq_attr { comp_mask: 0 };
        // SAFETY: the queue is alive and polled by one thread; the attributes are valid during the call.
        let mut code = unsafe { (self.calls.start)(raw, &raw mut nothing_asked) };
        if code == ENOENT {
            return Ok(&[]);
        }
        // After any other failure of the first call there is nothing to end (manual page of ibv_create_cq_ex).
        check(code, Verb::PollCq, self.queue.device())?;
        let mut taken = 0;
        while code == 0 {
            if let Some(place) = room.get_mut(taken) {
                *place = self.current();
                taken += 1;
            }
            if taken == room.len() {
                break;
            }
            // SAFETY: as above, between start and end.
            code = unsafe { (self.calls.next)(raw) };
        }
        // SAFETY: as above; it ends what the first call began.
        unsafe { (self.calls.end)(raw) };
        match code {
            0 | ENOENT => Ok(room.get(..taken).unwrap_or_default()),
            failed => Err(VerbError::new(Verb::PollCq, failed.saturating_abs(), self.queue.device())),
        }
    }

    /// The completion that the queue stands at.
    fn current(&self) -> StampedCompletion {
        let (raw, calls) = (self.raw.as_ptr(), &self.calls);
        // SAFETY: the queue is alive and stands at a completion.
        let read = |call: unsafe extern "C" fn(*mut ibv_cq_ex) -> u32| unsafe { call(raw) };
        let mut work = Completion::default().into_raw();
        // SAFETY: as above; a plain field.
        work.wr_id = unsafe { (*raw).wr_id };
        // SAFETY: as above; a plain field.
        work.status = unsafe { (*raw).status };
        work.qp_num = read(calls.queue_pair);
        work.vendor_err = read(calls.vendor_error);
        // The rest of a failed completion means nothing (manual page of ibv_create_cq_ex).
        let mut stamp = 0;
        if work.status == 0 {
            work.opcode = read(calls.opcode);
            work.wc_flags = read(calls.flags);
            work.byte_len = read(calls.bytes);
            work.src_qp = read(calls.source);
            // A LID has 16 bits; what an extended one has above them is not for datagrams.
            work.slid = read(calls.source_lid) as u16;
            // SAFETY: as above; stamps were asked for when the queue was made.
            stamp = unsafe { (calls.stamp)(raw) };
        }
        StampedCompletion { completion: Completion::from_raw(work), stamp }
    }
}
