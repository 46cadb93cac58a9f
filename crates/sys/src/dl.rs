//! libibverbs at run time: the table of its functions, and the way in.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use rdma_sys::{
    ibv_ah, ibv_ah_attr, ibv_comp_channel, ibv_context, ibv_cq, ibv_device, ibv_device_attr, ibv_gid,
    ibv_gid_entry, ibv_mr, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_attr, ibv_qp_init_attr,
};

use crate::error::LoadError;
use crate::event::RawAsyncEvent;

/// The library's name for the loader's search path.
pub const DEFAULT_LIBRARY: &str = "libibverbs.so.1";

/// Declares the table and its loader together: a function cannot do this, as each entry has a type of its
/// own.
macro_rules! symbols {
    (
        required { $($field:ident = $name:literal : fn($($arg:ty),*) $(-> $ret:ty)?;)* }
        optional { $($maybe:ident = $maybe_name:literal : fn($($maybe_arg:ty),*) $(-> $maybe_ret:ty)?;)* }
    ) => {
        /// Functions of the loaded library. Its pages stay mapped for the life of the process.
        pub(crate) struct Symbols {
            $(pub(crate) $field: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
            $(pub(crate) $maybe: Option<unsafe extern "C" fn($($maybe_arg),*) $(-> $maybe_ret)?>,)*
        }

        impl Symbols {
            fn resolve(library: &Library, path: &Path) -> Result<Self, LoadError> {
                Ok(Self {
                    $($field: {
                        // SAFETY: the signature is the one that <infiniband/verbs.h> of rdma-core declares for this
                        // name, and rdma-core keeps it under the same symbol version.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($arg),*) $(-> $ret)?>($name)
                        };
                        *found.map_err(|source| LoadError::Symbol {
                            library: path.to_path_buf(),
                            symbol: $name,
                            source,
                        })?
                    },)*
                    $($maybe: {
                        // SAFETY: as above.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($maybe_arg),*) $(-> $maybe_ret)?>($maybe_name)
                        };
                        found.ok().map(|symbol| *symbol)
                    },)*
                })
            }
        }
    };
}

symbols! {
    required {
        get_device_list = "ibv_get_device_list": fn(*mut c_int) -> *mut *mut ibv_device;
        free_device_list = "ibv_free_device_list": fn(*mut *mut ibv_device);
        get_device_name = "ibv_get_device_name": fn(*mut ibv_device) -> *const c_char;
        get_device_guid = "ibv_get_device_guid": fn(*mut ibv_device) -> u64;
        open_device = "ibv_open_device": fn(*mut ibv_device) -> *mut ibv_context;
        close_device = "ibv_close_device": fn(*mut ibv_context) -> c_int;
        get_async_event = "ibv_get_async_event": fn(*mut ibv_context, *mut RawAsyncEvent) -> c_int;
        ack_async_event = "ibv_ack_async_event": fn(*mut RawAsyncEvent);
        query_device = "ibv_query_device": fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
        // The exported function fills the old, shorter structure: a prefix of today's.
        query_port = "ibv_query_port": fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
        query_gid = "ibv_query_gid": fn(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int;
        query_pkey = "ibv_query_pkey": fn(*mut ibv_context, u8, c_int, *mut u16) -> c_int;
        alloc_pd = "ibv_alloc_pd": fn(*mut ibv_context) -> *mut ibv_pd;
        dealloc_pd = "ibv_dealloc_pd": fn(*mut ibv_pd) -> c_int;
        reg_mr = "ibv_reg_mr": fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
        dereg_mr = "ibv_dereg_mr": fn(*mut ibv_mr) -> c_int;
        create_comp_channel = "ibv_create_comp_channel": fn(*mut ibv_context) -> *mut ibv_comp_channel;
        destroy_comp_channel = "ibv_destroy_comp_channel": fn(*mut ibv_comp_channel) -> c_int;
        create_cq = "ibv_create_cq":
            fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
        destroy_cq = "ibv_destroy_cq": fn(*mut ibv_cq) -> c_int;
        get_cq_event = "ibv_get_cq_event": fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
        ack_cq_events = "ibv_ack_cq_events": fn(*mut ibv_cq, c_uint);
        create_qp = "ibv_create_qp": fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
        modify_qp = "ibv_modify_qp": fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
        destroy_qp = "ibv_destroy_qp": fn(*mut ibv_qp) -> c_int;
        create_ah = "ibv_create_ah": fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
        destroy_ah = "ibv_destroy_ah": fn(*mut ibv_ah) -> c_int;
    }
    optional {
        // Since rdma-core 28 (IBVERBS_1.8) and 31 (IBVERBS_1.11); in the headers both are inline functions that call
        // the names below.
        reg_mr_iova2 = "ibv_reg_mr_iova2": fn(*mut ibv_pd, *mut c_void, usize, u64, c_uint) -> *mut ibv_mr;
        // Since rdma-core 34 (IBVERBS_1.12).
        reg_dmabuf_mr = "ibv_reg_dmabuf_mr":
            fn(*mut ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ibv_mr;
        query_gid_table = "_ibv_query_gid_table": fn(*mut ibv_context, *mut ibv_gid_entry, usize, u32, usize) -> isize;
    }
}

/// The loaded library: the way to its devices.
#[derive(Clone, Copy)]
pub struct Verbs {
    pub(crate) symbols: &'static Symbols,
}

impl Verbs {
    /// Loads libibverbs: `library` where given (a path, or a name for the loader), else [`DEFAULT_LIBRARY`].
    ///
    /// Every successful call keeps the library mapped for good: its providers register themselves in it and
    /// may run threads, so it must never be unloaded. Call it once per process.
    ///
    /// # Errors
    /// [`LoadError`]: no such library, or it lacks a required function. Not a fault of the host: one without RDMA has none.
    pub fn open(library: Option<&Path>) -> Result<Self, LoadError> {
        let path = library.unwrap_or(Path::new(DEFAULT_LIBRARY));
        // SAFETY: loading runs the constructors of libibverbs (or of the library that the caller names),
        // which is what normal linking would do at start; they have no preconditions.
        let loaded = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|source| LoadError::Library { library: path.to_path_buf(), source })?;
        let symbols = Symbols::resolve(&loaded, path)?;
        // The handle is not closed, so that the functions stay valid for 'static.
        std::mem::forget(loaded);
        Ok(Self { symbols: Box::leak(Box::new(symbols)) })
    }
}
