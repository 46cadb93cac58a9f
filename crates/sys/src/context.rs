//! An open device: the root of all its objects.

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys::{ibv_context, ibv_device_attr, verbs_context};

use crate::dl::Symbols;
use crate::error::{Verb, VerbError, check, released};

/// The raw context; closed when the last object of the device is gone.
pub(crate) struct ContextHandle {
    pub(crate) raw: NonNull<ibv_context>,
    pub(crate) symbols: &'static Symbols,
    pub(crate) device: Arc<str>,
}

// SAFETY: libibverbs guards every call on a context against other threads.
unsafe impl Send for ContextHandle {}
// SAFETY: as above.
unsafe impl Sync for ContextHandle {}

impl Drop for ContextHandle {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once; every child holds this handle, so none is left.
        released(unsafe { (self.symbols.close_device)(self.raw.as_ptr()) });
    }
}

impl ContextHandle {
    /// The extended context around this one, if the library made one that is large enough to hold `offset`.
    ///
    /// (rdma-sys has this as an inline function too, but compares with a 32-bit marker and so never finds
    /// it.)
    pub(crate) fn extended(&self, offset: usize) -> Option<NonNull<verbs_context>> {
        // SAFETY: the context is alive and `abi_compat` is part of its fixed layout.
        let marker = unsafe { (*self.raw.as_ptr()).abi_compat };
        if marker.addr() != usize::MAX {
            return None;
        }
        let before = std::mem::offset_of!(verbs_context, context);
        // SAFETY: the marker says that this context is the last field of a verbs_context, so the bytes before
        // it belong to the same allocation, at least back to `sz`.
        let outer = unsafe { self.raw.as_ptr().byte_sub(before) }.cast::<verbs_context>();
        // SAFETY: `sz` stands immediately before the context in every version of the structure.
        let size = unsafe { (*outer).sz };
        (size >= size_of::<verbs_context>() - offset).then(|| NonNull::new(outer)).flatten()
    }
}

/// An open device. Cloning shares it; it closes when the last clone and the last child are dropped.
#[derive(Clone)]
pub struct Context {
    pub(crate) handle: Arc<ContextHandle>,
}

/// What a device can do, as far as the probes care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAttributes {
    /// Firmware version as the driver words it; empty for software devices.
    pub firmware: String,
    /// Node GUID in host byte order.
    pub node_guid: u64,
    /// PCI vendor.
    pub vendor_id: u32,
    /// The vendor's part number.
    pub vendor_part_id: u32,
    /// Ports, numbered from 1.
    pub ports: u8,
    /// Most queue pairs.
    pub max_queue_pairs: u32,
    /// Most outstanding work requests per queue.
    pub max_work_requests: u32,
    /// Most entries of one completion queue.
    pub max_completions: u32,
    /// Largest memory region in bytes.
    pub max_region_bytes: u64,
    /// RDMA reads that one queue pair answers at once (`max_qp_rd_atom`).
    pub max_incoming_reads: u8,
    /// RDMA reads that one queue pair may have outstanding (`max_qp_init_rd_atom`).
    pub max_outgoing_reads: u8,
}

impl Context {
    pub(crate) fn adopt(
        raw: NonNull<ibv_context>,
        symbols: &'static Symbols,
        device: Arc<str>,
    ) -> Result<Self, VerbError> {
        let context = Self { handle: Arc::new(ContextHandle { raw, symbols, device }) };
        let nonblocking = rustix::io::ioctl_fionbio(context.async_fd(), true);
        nonblocking.map_err(|errno| {
            VerbError::new(Verb::OpenDevice, errno.raw_os_error(), &context.handle.device)
        })?;
        Ok(context)
    }

    /// The device's name at the time it was opened.
    pub fn device(&self) -> &str {
        &self.handle.device
    }

    /// Readable when [`Context::next_event`] has something. Non-blocking.
    pub fn async_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is alive and `async_fd` is part of its fixed layout.
        let fd: RawFd = unsafe { (*self.handle.raw.as_ptr()).async_fd };
        // SAFETY: libibverbs keeps this descriptor open until the context is closed, which `self` prevents.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// Asks the device what it can do.
    ///
    /// # Errors
    /// [`VerbError`]; `EIO` when the device is gone.
    pub fn query_device(&self) -> Result<DeviceAttributes, VerbError> {
        let handle = &*self.handle;
        let mut attributes = MaybeUninit::<ibv_device_attr>::zeroed();
        // SAFETY: the context is alive and the structure is as large as the library expects.
        let code = unsafe { (handle.symbols.query_device)(handle.raw.as_ptr(), attributes.as_mut_ptr()) };
        check(code, Verb::QueryDevice, &handle.device)?;
        // SAFETY: integers only, zeroed before the call: every bit pattern is valid.
        let found = unsafe { attributes.assume_init() };
        let firmware: Vec<u8> = found
            .fw_ver
            .iter()
            .map(|&c| u8::from_ne_bytes(c.to_ne_bytes()))
            .take_while(|&b| b != 0)
            .collect();
        Ok(DeviceAttributes {
            firmware: String::from_utf8_lossy(&firmware).into_owned(),
            node_guid: u64::from_be(found.node_guid),
            vendor_id: found.vendor_id,
            vendor_part_id: found.vendor_part_id,
            ports: found.phys_port_cnt,
            max_queue_pairs: u32::try_from(found.max_qp).unwrap_or(0),
            max_work_requests: u32::try_from(found.max_qp_wr).unwrap_or(0),
            max_completions: u32::try_from(found.max_cqe).unwrap_or(0),
            max_region_bytes: found.max_mr_size,
            // The queue pair's own fields have 8 bits.
            max_incoming_reads: u8::try_from(found.max_qp_rd_atom.clamp(0, 255)).unwrap_or(0),
            max_outgoing_reads: u8::try_from(found.max_qp_init_rd_atom.clamp(0, 255)).unwrap_or(0),
        })
    }
}
