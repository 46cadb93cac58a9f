//! The GID table with each entry's kind: which addresses a port answers to, and how packets are wrapped.

use std::mem::MaybeUninit;

use rdma_sys::{ibv_gid, ibv_gid_entry};

use crate::context::Context;
use crate::error::{Verb, VerbError, check};

/// How packets to and from this address are wrapped (`enum ibv_gid_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GidKind {
    /// InfiniBand (and iWARP, whose one GID has this kind).
    InfiniBand,
    /// RoCE v1: not routable.
    RoceV1,
    /// RoCE v2: over UDP port 4791.
    RoceV2,
    /// A number this version does not know.
    Other(u32),
}

/// One used entry of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GidEntry {
    /// Port, from 1.
    pub port: u32,
    /// Index in the port's table. It moves when addresses come and go: choose by address, never by index.
    pub index: u32,
    /// The address; an IPv4 address appears as `::ffff:a.b.c.d`.
    pub gid: [u8; 16],
    /// Wrapping.
    pub kind: GidKind,
    /// Index of the network interface that carries it; `None` for InfiniBand.
    pub netdev_index: Option<u32>,
}

// The table is filled by the library with entries of the size that we name: it must be the public one.
const _: () = assert!(size_of::<ibv_gid_entry>() == 32);
const _: () = assert!(size_of::<ibv_gid>() == 16);

impl Context {
    /// Reads all used entries of all ports. `None` when the library is older than the call (rdma-core 31):
    /// sysfs has the same facts.
    ///
    /// # Errors
    /// [`VerbError`]; `EIO` when the device is gone.
    pub fn gid_table(&self) -> Result<Option<Vec<GidEntry>>, VerbError> {
        let handle = &*self.handle;
        let Some(query) = handle.symbols.query_gid_table else { return Ok(None) };
        let mut room = 0_usize;
        for port in 1..=self.query_device()?.ports {
            room += usize::try_from(self.query_port(port)?.gid_entries).unwrap_or(0);
        }
        let mut entries: Vec<ibv_gid_entry> = Vec::with_capacity(room);
        let size = size_of::<ibv_gid_entry>();
        // SAFETY: the context is alive; the library writes at most `room` entries of `size` bytes into the
        // vector's spare room.
        let found = unsafe { query(handle.raw.as_ptr(), entries.as_mut_ptr(), room, 0, size) };
        let Ok(count) = usize::try_from(found) else {
            let errno = i32::try_from(found.saturating_neg()).unwrap_or(0);
            return Err(VerbError::new(Verb::QueryGidTable, errno, &handle.device));
        };
        // SAFETY: the library says that it filled this many entries; never more than there is room for.
        unsafe { entries.set_len(count.min(room)) };
        Ok(Some(entries.iter().map(GidEntry::from_raw).collect()))
    }

    /// Reads one entry of a port's table, without its kind. An unused entry is all zero.
    ///
    /// # Errors
    /// [`VerbError`]; an index beyond the table is an error.
    pub fn query_gid(&self, port: u8, index: u8) -> Result<[u8; 16], VerbError> {
        let handle = &*self.handle;
        let mut gid = MaybeUninit::<ibv_gid>::zeroed();
        // SAFETY: the context is alive and `gid` has room for 16 bytes.
        let code = unsafe {
            (handle.symbols.query_gid)(handle.raw.as_ptr(), port, i32::from(index), gid.as_mut_ptr())
        };
        check(code, Verb::QueryGid, &handle.device)?;
        // SAFETY: 16 bytes, zeroed before the call: every bit pattern is valid.
        let gid = unsafe { gid.assume_init() };
        Ok(gid_bytes(&gid))
    }
}

impl GidEntry {
    fn from_raw(raw: &ibv_gid_entry) -> Self {
        Self {
            port: raw.port_num,
            index: raw.gid_index,
            gid: gid_bytes(&raw.gid),
            kind: match raw.gid_type {
                0 => GidKind::InfiniBand,
                1 => GidKind::RoceV1,
                2 => GidKind::RoceV2,
                other => GidKind::Other(other),
            },
            netdev_index: (raw.ndev_ifindex != 0).then_some(raw.ndev_ifindex),
        }
    }
}

pub(crate) fn gid_bytes(gid: &ibv_gid) -> [u8; 16] {
    // SAFETY: both views of the union are 16 plain bytes.
    unsafe { gid.raw }
}
