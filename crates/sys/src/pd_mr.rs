//! Protection domains and memory that devices may read and write.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::BitOr;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rdma_sys::{ibv_access_flags, ibv_mr, ibv_pd};

use crate::context::{Context, ContextHandle};
use crate::error::{EINVAL, EOPNOTSUPP, Verb, VerbError, released};

/// The raw protection domain.
pub(crate) struct DomainHandle {
    pub(crate) raw: NonNull<ibv_pd>,
    pub(crate) context: Arc<ContextHandle>,
}

// SAFETY: libibverbs guards every call on a protection domain against other threads.
unsafe impl Send for DomainHandle {}
// SAFETY: as above.
unsafe impl Sync for DomainHandle {}

impl Drop for DomainHandle {
    fn drop(&mut self) {
        // SAFETY: allocated once, released once; every child holds this handle, so none is left.
        released(unsafe { (self.context.symbols.dealloc_pd)(self.raw.as_ptr()) });
    }
}

/// What ties queue pairs, memory and address handles together. Cloning shares it.
#[derive(Clone)]
pub struct ProtectionDomain {
    pub(crate) handle: Arc<DomainHandle>,
}

impl Context {
    /// Allocates a protection domain.
    ///
    /// # Errors
    /// [`VerbError`]; `ENOMEM` when the device has none left.
    pub fn alloc_protection_domain(&self) -> Result<ProtectionDomain, VerbError> {
        let context = &self.handle;
        // SAFETY: the context is alive.
        let raw = unsafe { (context.symbols.alloc_pd)(context.raw.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(|| VerbError::last(Verb::AllocPd, &context.device))?;
        Ok(ProtectionDomain { handle: Arc::new(DomainHandle { raw, context: Arc::clone(context) }) })
    }
}

impl ProtectionDomain {
    /// The device that it belongs to.
    #[must_use]
    pub fn context(&self) -> Context {
        Context { handle: Arc::clone(&self.handle.context) }
    }
}

/// What a device may do with a memory region or through a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access(pub(crate) u32);

impl Access {
    /// Our own device may write: needed for receiving, and with every remote write.
    pub const LOCAL_WRITE: Self = Self(ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0);
    /// The peer may write.
    pub const REMOTE_WRITE: Self = Self(ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0);
    /// The peer may read.
    pub const REMOTE_READ: Self = Self(ibv_access_flags::IBV_ACCESS_REMOTE_READ.0);
    /// PCIe writes may overtake each other: for bandwidth only. A library too old to know it ignores it.
    pub const RELAXED_ORDERING: Self = Self(ibv_access_flags::IBV_ACCESS_RELAXED_ORDERING.0);

    fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Zeroed pages of our own, shared with nothing else on the heap.
struct PageBuffer {
    start: NonNull<u8>,
    layout: Layout,
    /// Set when a device may still write to it: then it must never be reused.
    abandoned: bool,
}

const PAGE: usize = 4096;

impl PageBuffer {
    fn new(bytes: usize) -> Option<Self> {
        let whole_pages = bytes.checked_next_multiple_of(PAGE)?;
        let layout = Layout::from_size_align(whole_pages, PAGE).ok()?;
        if bytes == 0 {
            return None;
        }
        // SAFETY: the layout's size is not 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { start, layout, abandoned: false })
    }
}

impl Drop for PageBuffer {
    fn drop(&mut self) {
        if !self.abandoned {
            // SAFETY: allocated with this layout, freed once, and no device has access any more.
            unsafe { dealloc(self.start.as_ptr(), self.layout) }
        }
    }
}

/// What a region consists of.
enum Backing {
    /// Our own pages.
    Host(PageBuffer),
    /// A part of a dma-buf, which this process does not see; the address that requests name its first byte by.
    DmaBuf(u64),
}

/// Memory registered with a device: owned, page-aligned, zero at first; or a part of a dma-buf.
pub struct MemoryRegion {
    raw: NonNull<ibv_mr>,
    backing: Backing,
    length: usize,
    local_key: u32,
    remote_key: u32,
    domain: Arc<DomainHandle>,
}

// SAFETY: the handle may be released from any thread, and the memory is reached through atomics only.
unsafe impl Send for MemoryRegion {}
// SAFETY: as above: shared access is atomic bytes and plain numbers.
unsafe impl Sync for MemoryRegion {}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: registered once, released once. After success the device has no access to the memory.
        let code = unsafe { (self.domain.context.symbols.dereg_mr)(self.raw.as_ptr()) };
        let released = released(code);
        if let Backing::Host(buffer) = &mut self.backing {
            buffer.abandoned = !released;
        }
    }
}

impl ProtectionDomain {
    /// Allocates and registers `length` bytes.
    ///
    /// # Errors
    /// [`VerbError`]; `ENOMEM` when the limit for locked memory (`RLIMIT_MEMLOCK`, `LimitMEMLOCK=`) is too
    /// low or memory is out, `EINVAL` for 0 bytes.
    pub fn register(&self, length: usize, access: Access) -> Result<MemoryRegion, VerbError> {
        let context = &self.handle.context;
        let buffer =
            PageBuffer::new(length).ok_or_else(|| VerbError::new(Verb::RegMr, EINVAL, &context.device))?;
        let memory = buffer.start.as_ptr();
        let domain = self.handle.raw.as_ptr();
        let relaxed =
            access.contains(Access::RELAXED_ORDERING).then_some(context.symbols.reg_mr_iova2).flatten();
        let raw = match relaxed {
            // Only this function takes flags of the optional range.
            Some(register) => {
                // SAFETY: the domain is alive; the buffer is ours, `length` bytes long, and outlives the
                // registration.
                unsafe { register(domain, memory.cast(), length, memory.addr() as u64, access.0) }
            }
            None => {
                let flags = access.without(Access::RELAXED_ORDERING).0.cast_signed();
                // SAFETY: as above.
                unsafe { (context.symbols.reg_mr)(domain, memory.cast(), length, flags) }
            }
        };
        let raw = NonNull::new(raw).ok_or_else(|| VerbError::last(Verb::RegMr, &context.device))?;
        Ok(self.adopt_region(raw, Backing::Host(buffer), length))
    }

    /// Registers a part of a dma-buf, such as memory of a GPU: `length` bytes from `offset` on, a multiple of the page size. This process
    /// does not see that memory: [`MemoryRegion::bytes`] is empty. The kernel keeps the dma-buf as long as the region lives.
    ///
    /// # Errors
    /// [`VerbError`]; `EOPNOTSUPP` where the library (before rdma-core 34), the kernel (before 5.12) or the driver cannot do it, `EINVAL` for
    /// 0 bytes or what is no dma-buf.
    pub fn register_dmabuf(
        &self,
        descriptor: BorrowedFd<'_>,
        offset: u64,
        length: usize,
        access: Access,
    ) -> Result<MemoryRegion, VerbError> {
        let context = &self.handle.context;
        let failed = |errno| VerbError::new(Verb::RegDmabufMr, errno, &context.device);
        let register = context.symbols.reg_dmabuf_mr.ok_or_else(|| failed(EOPNOTSUPP))?;
        if length == 0 {
            return Err(failed(EINVAL));
        }
        let domain = self.handle.raw.as_ptr();
        // Devices want the address and the offset to agree within a page; the offset itself does.
        let address = offset;
        // SAFETY: the domain is alive and the descriptor is open during the call; the kernel holds the dma-buf from then on.
        let raw = unsafe {
            register(domain, offset, length, address, descriptor.as_raw_fd(), access.0.cast_signed())
        };
        let raw = NonNull::new(raw).ok_or_else(|| VerbError::last(Verb::RegDmabufMr, &context.device))?;
        Ok(self.adopt_region(raw, Backing::DmaBuf(address), length))
    }

    fn adopt_region(&self, raw: NonNull<ibv_mr>, backing: Backing, length: usize) -> MemoryRegion {
        // SAFETY: the registration is alive and the keys are part of its fixed layout.
        let local_key = unsafe { (*raw.as_ptr()).lkey };
        // SAFETY: as above.
        let remote_key = unsafe { (*raw.as_ptr()).rkey };
        MemoryRegion { raw, backing, length, local_key, remote_key, domain: Arc::clone(&self.handle) }
    }
}

impl MemoryRegion {
    /// The memory; empty for a dma-buf. The device may change a byte at any time, hence atomics: a load is a plain read in machine
    /// code and never hoisted out of a loop that spins on it.
    #[inline]
    pub fn bytes(&self) -> &[AtomicU8] {
        let Backing::Host(buffer) = &self.backing else { return &[] };
        // SAFETY: `length` bytes, initialised (zeroed), alive as long as `self`; AtomicU8 has the layout of
        // u8 and allows changes behind a shared reference.
        unsafe { std::slice::from_raw_parts(buffer.start.as_ptr().cast(), self.length) }
    }

    /// Copies `data` in, from `offset` on; what does not fit is left out. Returns how much was copied.
    pub fn write(&self, offset: usize, data: &[u8]) -> usize {
        let target = self.bytes().get(offset..).unwrap_or_default();
        target.iter().zip(data).map(|(cell, &byte)| cell.store(byte, Ordering::Relaxed)).count()
    }

    /// Copies out into `data`, from `offset` on. Returns how much was copied.
    pub fn read(&self, offset: usize, data: &mut [u8]) -> usize {
        let source = self.bytes().get(offset..).unwrap_or_default();
        source.iter().zip(data).map(|(cell, byte)| *byte = cell.load(Ordering::Acquire)).count()
    }

    /// Address of the first byte, as requests of ours and of a peer name it.
    pub fn address(&self) -> u64 {
        match &self.backing {
            Backing::Host(buffer) => buffer.start.as_ptr().addr() as u64,
            Backing::DmaBuf(address) => *address,
        }
    }

    /// Bytes. Never 0.
    #[expect(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// The key that our own work requests name it by.
    pub fn local_key(&self) -> u32 {
        self.local_key
    }

    /// The key that a peer needs to write here.
    pub fn remote_key(&self) -> u32 {
        self.remote_key
    }

    pub(crate) fn device(&self) -> &Arc<str> {
        &self.domain.context.device
    }
}
