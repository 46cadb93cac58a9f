//! The RDMA devices that libibverbs sees now.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys::{ibv_context, ibv_device};

use crate::context::Context;
use crate::dl::{Symbols, Verbs};
use crate::error::{Verb, VerbError, last_errno};

/// The array that `ibv_get_device_list` gave; its devices stay valid until it is freed.
struct DeviceList {
    raw: NonNull<*mut ibv_device>,
    symbols: &'static Symbols,
}

// SAFETY: the array is only read after its creation; libibverbs guards its own reference counts.
unsafe impl Send for DeviceList {}
// SAFETY: as above.
unsafe impl Sync for DeviceList {}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: the array came from ibv_get_device_list and is freed once; every `Device` that points into
        // it holds this list, and an open context holds its own reference to its device.
        unsafe { (self.symbols.free_device_list)(self.raw.as_ptr()) }
    }
}

/// An RDMA device of this host, not opened.
#[derive(Clone)]
pub struct Device {
    raw: NonNull<ibv_device>,
    list: Arc<DeviceList>,
    name: Arc<str>,
}

// SAFETY: libibverbs does not change a device after listing it; opening it is thread-safe.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Verbs {
    /// Lists the devices. Each call looks afresh; an empty list is a host without RDMA devices.
    ///
    /// # Errors
    /// [`VerbError`] with `ENOSYS` when the kernel has no `ib_uverbs` module loaded, `EPERM` when it forbids
    /// it.
    pub fn devices(&self) -> Result<Vec<Device>, VerbError> {
        let mut count = 0;
        // SAFETY: `count` is a valid place for an int during the call.
        let raw = unsafe { (self.symbols.get_device_list)(&raw mut count) };
        let Some(raw) = NonNull::new(raw) else {
            return Err(VerbError { verb: Verb::GetDeviceList, errno: last_errno(), device: None });
        };
        let list = Arc::new(DeviceList { raw, symbols: self.symbols });
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: libibverbs returned an array of `count` pointers (and a null after them), alive while
        // `list` is.
        let pointers = unsafe { std::slice::from_raw_parts(raw.as_ptr().cast_const(), count) };
        Ok(pointers.iter().filter_map(|&device| Device::from_list(device, &list)).collect())
    }
}

impl Device {
    fn from_list(raw: *mut ibv_device, list: &Arc<DeviceList>) -> Option<Self> {
        let raw = NonNull::new(raw)?;
        // SAFETY: the device is alive: `list` holds it.
        let name = unsafe { (list.symbols.get_device_name)(raw.as_ptr()) };
        if name.is_null() {
            return None;
        }
        // SAFETY: libibverbs returns a C string inside the device, which lives as long as `list`.
        let name = unsafe { CStr::from_ptr(name) };
        Some(Self { raw, list: Arc::clone(list), name: Arc::from(name.to_string_lossy().as_ref()) })
    }

    /// The device's name, such as `mlx5_0`. An administrator can change it (`rdma dev set`).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The node GUID in host byte order.
    pub fn guid(&self) -> u64 {
        // SAFETY: the device is alive: `self.list` holds it.
        u64::from_be(unsafe { (self.list.symbols.get_device_guid)(self.raw.as_ptr()) })
    }

    /// The name of its character device below `/dev/infiniband`, such as `uverbs0`. When that node
    /// disappears, the device is being removed and waits for us to close it.
    pub fn uverbs_name(&self) -> String {
        // SAFETY: `struct ibv_device` is public and fixed; libibverbs fills `dev_name` when it lists the
        // device.
        let field = unsafe { &(*self.raw.as_ptr()).dev_name };
        let bytes: Vec<u8> =
            field.iter().map(|&c| u8::from_ne_bytes(c.to_ne_bytes())).take_while(|&b| b != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Opens the device. An open context keeps a software device (rxe, siw) from being removed.
    ///
    /// # Errors
    /// [`VerbError`] with `EACCES` or `EPERM` when the device node is not accessible, `ENODEV` or `ENOENT`
    /// when the device went away.
    pub fn open(&self) -> Result<Context, VerbError> {
        // SAFETY: the device is alive: `self.list` holds it.
        let raw: *mut ibv_context = unsafe { (self.list.symbols.open_device)(self.raw.as_ptr()) };
        let Some(raw) = NonNull::new(raw) else {
            return Err(VerbError::last(Verb::OpenDevice, &self.name));
        };
        Context::adopt(raw, self.list.symbols, Arc::clone(&self.name))
    }
}
