//! Where packets go: address vectors, and address handles for datagrams.

use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys::{ibv_ah, ibv_ah_attr, ibv_gid, ibv_global_route};

use crate::error::{Verb, VerbError, released};
use crate::pd_mr::{DomainHandle, ProtectionDomain};

/// The network layer of an address: always for RoCE, for InfiniBand across subnets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobalRoute {
    /// The peer's GID.
    pub destination: [u8; 16],
    /// Index of our own GID in the port's table.
    pub source_index: u8,
    /// Routers it may cross (64 as perftest does; 1 stays in the subnet).
    pub hop_limit: u8,
    /// DSCP (upper six bits) and ECN.
    pub traffic_class: u8,
    /// 20 bits; devices derive the UDP source port from it, so it moves a pair to another equal-cost path.
    pub flow_label: u32,
}

/// The way to a peer, as verbs want it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressVector {
    /// Our port, from 1.
    pub port: u8,
    /// The peer's LID; 0 for RoCE.
    pub destination_lid: u16,
    /// InfiniBand service level, or the priority where VLAN tags carry one.
    pub service_level: u8,
    /// Which of our LIDs to send from (with a LID mask).
    pub source_path_bits: u8,
    /// Rate limit code; 0 is full speed.
    pub static_rate: u8,
    /// The network layer.
    pub global: Option<GlobalRoute>,
}

impl AddressVector {
    /// A RoCE address on `port`: everything else plain.
    pub fn routed(port: u8, global: GlobalRoute) -> Self {
        Self {
            port,
            destination_lid: 0,
            service_level: 0,
            source_path_bits: 0,
            static_rate: 0,
            global: Some(global),
        }
    }

    pub(crate) fn to_raw(self) -> ibv_ah_attr {
        let route = self.global.unwrap_or(GlobalRoute {
            destination: [0; 16],
            source_index: 0,
            hop_limit: 0,
            traffic_class: 0,
            flow_label: 0,
        });
        ibv_ah_attr {
            grh: ibv_global_route {
                dgid: ibv_gid { raw: route.destination },
                flow_label: route.flow_label & 0x000F_FFFF,
                sgid_index: route.source_index,
                hop_limit: route.hop_limit,
                traffic_class: route.traffic_class,
            },
            dlid: self.destination_lid,
            sl: self.service_level,
            src_path_bits: self.source_path_bits,
            static_rate: self.static_rate,
            is_global: u8::from(self.global.is_some()),
            port_num: self.port,
        }
    }
}

/// A resolved address for datagrams.
pub struct AddressHandle {
    pub(crate) raw: NonNull<ibv_ah>,
    pub(crate) domain: Arc<DomainHandle>,
}

// SAFETY: libibverbs guards creation and release; between them the handle is only read.
unsafe impl Send for AddressHandle {}
// SAFETY: as above.
unsafe impl Sync for AddressHandle {}

impl Drop for AddressHandle {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; requests that name it borrow it while they are posted, and
        // providers copy the address then.
        released(unsafe { (self.domain.context.symbols.destroy_ah)(self.raw.as_ptr()) });
    }
}

impl ProtectionDomain {
    /// Creates an address handle. For RoCE the kernel resolves the peer's MAC address here, which may take
    /// seconds.
    ///
    /// # Errors
    /// [`VerbError`]; `ENETUNREACH`, `EHOSTUNREACH` or `ETIMEDOUT` when the peer's address cannot be
    /// resolved, `EINVAL` for a GID index that is not there or of another address family.
    pub fn create_address(&self, address: &AddressVector) -> Result<AddressHandle, VerbError> {
        let context = &self.handle.context;
        let mut attributes = address.to_raw();
        // SAFETY: the domain is alive and `attributes` is valid during the call.
        let raw = unsafe { (context.symbols.create_ah)(self.handle.raw.as_ptr(), &raw mut attributes) };
        let raw = NonNull::new(raw).ok_or_else(|| VerbError::last(Verb::CreateAh, &context.device))?;
        Ok(AddressHandle { raw, domain: Arc::clone(&self.handle) })
    }
}
