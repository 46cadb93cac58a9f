//! Memory of a GPU as a dma-buf, which RDMA devices can register: through NVIDIA's driver library, loaded at run time.
//!
//! No feature of the build: a host without the library only cannot do this one thing, and says so. The functions are those of `cuda.h`
//! (CUDA 11.7 and newer; `cuMemGetHandleForAddressRange` came with it).

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// The library's name for the loader's search path.
pub const DEFAULT_CUDA_LIBRARY: &str = "libcuda.so.1";
/// Allocations of this size and alignment are whole pages, which handing them out needs.
const GRANULE: usize = 2 << 20;
/// `CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED`.
const DMA_BUF_SUPPORTED: c_int = 124;
/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`.
const DMA_BUF_DESCRIPTOR: c_uint = 1;

/// Why there is no GPU memory to be had, with what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    /// No such library.
    #[error("{} cannot be loaded: this host has no NVIDIA driver, or the container does not see it", library.display())]
    Library {
        /// What was asked for.
        library: PathBuf,
        /// The loader's own words.
        #[source]
        source: libloading::Error,
    },
    /// The library is too old.
    #[error("{} has no function {symbol}: dma-bufs need the driver of CUDA 11.7 (series 515) or newer", library.display())]
    Symbol {
        /// What was loaded.
        library: PathBuf,
        /// The missing function.
        symbol: &'static str,
    },
    /// The driver answered with an error.
    #[error("GPU {gpu}: {call}: {name} (CUDA error {code})")]
    Call {
        /// Index of the GPU.
        gpu: u8,
        /// The function.
        call: &'static str,
        /// The driver's error number.
        code: c_int,
        /// Its name in `cuda.h`.
        name: String,
    },
    /// The GPU or its kernel driver cannot hand out memory.
    #[error(
        "GPU {gpu} cannot hand out its memory as a dma-buf: NVIDIA's open kernel modules and Linux 5.12 are needed"
    )]
    NoDmaBuf {
        /// Index of the GPU.
        gpu: u8,
    },
}

type Code = c_int;

/// Functions of the loaded library, whose pages stay mapped for the life of the process.
#[derive(Clone, Copy)]
struct Symbols {
    init: unsafe extern "C" fn(c_uint) -> Code,
    device_get: unsafe extern "C" fn(*mut c_int, c_int) -> Code,
    device_attribute: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> Code,
    retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> Code,
    release: unsafe extern "C" fn(c_int) -> Code,
    push: unsafe extern "C" fn(*mut c_void) -> Code,
    pop: unsafe extern "C" fn(*mut *mut c_void) -> Code,
    allocate: unsafe extern "C" fn(*mut u64, usize) -> Code,
    free: unsafe extern "C" fn(u64) -> Code,
    hand_out: unsafe extern "C" fn(*mut c_void, u64, usize, c_uint, c_ulonglong) -> Code,
    error_name: unsafe extern "C" fn(Code, *mut *const c_char) -> Code,
}

/// NVIDIA's driver library.
#[derive(Clone, Copy)]
pub struct Cuda {
    symbols: Symbols,
}

/// Memory of a GPU, handed out as a dma-buf. Dropping it frees it: release what is registered over it first.
pub struct GpuMemory {
    cuda: Cuda,
    gpu: u8,
    device: c_int,
    context: *mut c_void,
    address: u64,
    descriptor: Option<OwnedFd>,
}

// SAFETY: the driver's functions may be called from any thread; the context is made current around each use.
unsafe impl Send for GpuMemory {}

/// The function of this name, with the type that `cuda.h` gives it.
fn symbol<T: Copy>(library: &Library, path: &Path, name: &'static str) -> Result<T, GpuError> {
    // SAFETY: each caller names the type that cuda.h declares for this name; the driver keeps it.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    found.map(|symbol| *symbol).map_err(|_| GpuError::Symbol { library: path.to_path_buf(), symbol: name })
}

impl Cuda {
    /// Loads the driver's library: `library` where given, else [`DEFAULT_CUDA_LIBRARY`]. It is never unloaded.
    ///
    /// # Errors
    /// [`GpuError`]: no such library, or too old.
    pub fn open(library: Option<&Path>) -> Result<Self, GpuError> {
        let path = library.unwrap_or(Path::new(DEFAULT_CUDA_LIBRARY));
        // SAFETY: loading runs the library's constructors, as normal linking would; they have no preconditions.
        let loaded = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|source| GpuError::Library { library: path.to_path_buf(), source })?;
        let symbols = Symbols {
            init: symbol(&loaded, path, "cuInit")?,
            device_get: symbol(&loaded, path, "cuDeviceGet")?,
            device_attribute: symbol(&loaded, path, "cuDeviceGetAttribute")?,
            retain: symbol(&loaded, path, "cuDevicePrimaryCtxRetain")?,
            release: symbol(&loaded, path, "cuDevicePrimaryCtxRelease_v2")?,
            push: symbol(&loaded, path, "cuCtxPushCurrent_v2")?,
            pop: symbol(&loaded, path, "cuCtxPopCurrent_v2")?,
            allocate: symbol(&loaded, path, "cuMemAlloc_v2")?,
            free: symbol(&loaded, path, "cuMemFree_v2")?,
            hand_out: symbol(&loaded, path, "cuMemGetHandleForAddressRange")?,
            error_name: symbol(&loaded, path, "cuGetErrorName")?,
        };
        std::mem::forget(loaded);
        Ok(Self { symbols })
    }

    /// Allocates at least `bytes` of a GPU's memory. The first call of a process may take seconds.
    ///
    /// # Errors
    /// [`GpuError`]: no such GPU, none of its memory left, or it cannot be handed out.
    pub fn allocate(&self, gpu: u8, bytes: usize) -> Result<GpuMemory, GpuError> {
        let calls = &self.symbols;
        // SAFETY: plain numbers; calling it again is allowed.
        self.check(gpu, "cuInit", unsafe { (calls.init)(0) })?;
        let mut device = 0;
        // SAFETY: `device` is a valid place for an int during the call.
        self.check(gpu, "cuDeviceGet", unsafe { (calls.device_get)(&raw mut device, gpu.into()) })?;
        let mut can = 0;
        // SAFETY: as above; a driver that does not know the attribute answers with an error.
        let asked = unsafe { (calls.device_attribute)(&raw mut can, DMA_BUF_SUPPORTED, device) };
        if asked != 0 || can == 0 {
            return Err(GpuError::NoDmaBuf { gpu });
        }
        let mut context = ptr::null_mut();
        // SAFETY: `context` is a valid place for a pointer during the call.
        let retained = unsafe { (calls.retain)(&raw mut context, device) };
        self.check(gpu, "cuDevicePrimaryCtxRetain", retained)?;
        // From here on dropping it gives back what was taken.
        let mut memory = GpuMemory { cuda: *self, gpu, device, context, address: 0, descriptor: None };
        memory.fill(bytes.next_multiple_of(GRANULE))?;
        Ok(memory)
    }

    fn check(&self, gpu: u8, call: &'static str, code: Code) -> Result<(), GpuError> {
        if code == 0 {
            return Ok(());
        }
        let mut name: *const c_char = ptr::null();
        // SAFETY: `name` is a valid place for a pointer during the call.
        let told = unsafe { (self.symbols.error_name)(code, &raw mut name) };
        let name = if told == 0 && !name.is_null() {
            // SAFETY: the driver gives a static C string.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        } else {
            "unknown".to_owned()
        };
        Err(GpuError::Call { gpu, call, code, name })
    }
}

impl GpuMemory {
    /// Runs `work` with the GPU's context current on this thread.
    fn with_context<T>(&self, work: impl FnOnce(&Symbols) -> Result<T, GpuError>) -> Result<T, GpuError> {
        let calls = &self.cuda.symbols;
        // SAFETY: the context is retained as long as `self` lives.
        self.cuda.check(self.gpu, "cuCtxPushCurrent", unsafe { (calls.push)(self.context) })?;
        let done = work(calls);
        let mut popped = ptr::null_mut();
        // SAFETY: `popped` is a valid place for a pointer; it takes off what was put on above.
        unsafe { (calls.pop)(&raw mut popped) };
        done
    }

    fn fill(&mut self, bytes: usize) -> Result<(), GpuError> {
        let (mut address, mut descriptor) = (0_u64, -1_i32);
        let made = self.with_context(|calls| {
            // SAFETY: `address` is a valid place for a device pointer during the call.
            self.cuda.check(self.gpu, "cuMemAlloc", unsafe { (calls.allocate)(&raw mut address, bytes) })?;
            let place = (&raw mut descriptor).cast();
            // SAFETY: for a dma-buf the driver writes an int, for which there is room.
            let code = unsafe { (calls.hand_out)(place, address, bytes, DMA_BUF_DESCRIPTOR, 0) };
            self.cuda.check(self.gpu, "cuMemGetHandleForAddressRange", code)
        });
        self.address = address;
        made?;
        // SAFETY: the driver made this descriptor for us, and nobody else closes it.
        self.descriptor = (descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) });
        if self.descriptor.is_none() { Err(GpuError::NoDmaBuf { gpu: self.gpu }) } else { Ok(()) }
    }

    /// The dma-buf; its first byte is that of the memory.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }
}

impl Drop for GpuMemory {
    fn drop(&mut self) {
        self.descriptor = None;
        if self.address != 0 {
            // A drop cannot return an error; the driver frees what is left when the process ends.
            drop(self.with_context(|calls| {
                // SAFETY: allocated once, freed once.
                self.cuda.check(self.gpu, "cuMemFree", unsafe { (calls.free)(self.address) })
            }));
        }
        // SAFETY: retained once, released once, after its last use.
        unsafe { (self.cuda.symbols.release)(self.device) };
    }
}
