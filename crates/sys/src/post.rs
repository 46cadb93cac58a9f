//! Work requests, built once and posted many times: nothing is allocated or rebuilt between two posts.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;

use rdma_sys::{
    bind_mw_tso_union_t, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wr_opcode,
    imm_data_invalidated_rkey_union_t, qp_type_t, rdma_t, tso_t, ud_t, wr_t, xrc_t,
};

use crate::ah::AddressHandle;
use crate::error::{EINVAL, Verb, VerbError};
use crate::pd_mr::MemoryRegion;

/// Memory of a peer that we may write or read, as its owner allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteBuffer {
    /// Address of the first byte in the peer's process.
    pub address: u64,
    /// The key that the peer gave us.
    pub key: u32,
}

/// What a request may be posted on: providers read the address part of a request by the queue pair's kind,
/// without checking, and follow a pointer in it for datagrams.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A connected queue pair of any device.
    Connected,
    /// A datagram queue pair of the device whose context is at this address.
    Datagram(usize),
}

/// A send, RDMA write or RDMA read between a memory region and a peer, ready to be posted any number of times.
pub struct SendRequest<'region> {
    pub(crate) request: ibv_send_wr,
    pub(crate) element: ibv_sge,
    pub(crate) target: Target,
    /// The processor sees the data, so it can be copied into the request.
    seen: bool,
    region: PhantomData<&'region MemoryRegion>,
}

// The header's layout (rdma-core since 2015).
const _: () = assert!(size_of::<ibv_send_wr>() == 128);
const _: () = assert!(std::mem::offset_of!(ibv_send_wr, wr) == 40);
const _: () = assert!(size_of::<ibv_sge>() == 16);

impl<'region> SendRequest<'region> {
    /// Writes `range` of `region` to the peer's memory; the peer is not told.
    ///
    /// # Errors
    /// [`VerbError`] with `EINVAL` for a range outside the region.
    pub fn write(
        region: &'region MemoryRegion,
        range: Range<usize>,
        remote: RemoteBuffer,
    ) -> Result<Self, VerbError> {
        let rdma = rdma_t { remote_addr: remote.address, rkey: remote.key };
        Self::new(region, range, ibv_wr_opcode::IBV_WR_RDMA_WRITE, wr_t { rdma }, Target::Connected)
    }

    /// Fetches the peer's memory into `range` of `region`, which must be registered for local writes. Completes when the data is
    /// there; the peer's program takes no part. The peer's memory must allow remote reads, and both ends' queue pairs must be set up
    /// for outstanding reads ([`crate::ReadyToReceiveAttributes::max_incoming_reads`]).
    ///
    /// # Errors
    /// [`VerbError`] with `EINVAL` for a range outside the region.
    pub fn read(
        region: &'region MemoryRegion,
        range: Range<usize>,
        remote: RemoteBuffer,
    ) -> Result<Self, VerbError> {
        let rdma = rdma_t { remote_addr: remote.address, rkey: remote.key };
        Self::new(region, range, ibv_wr_opcode::IBV_WR_RDMA_READ, wr_t { rdma }, Target::Connected)
    }

    /// Sends `range` of `region` into the connected peer's next receive buffer.
    ///
    /// # Errors
    /// [`VerbError`] with `EINVAL` for a range outside the region.
    pub fn send(region: &'region MemoryRegion, range: Range<usize>) -> Result<Self, VerbError> {
        let rdma = rdma_t { remote_addr: 0, rkey: 0 };
        Self::new(region, range, ibv_wr_opcode::IBV_WR_SEND, wr_t { rdma }, Target::Connected)
    }

    /// Sends `range` of `region` as one datagram to a queue pair behind `address`.
    ///
    /// # Errors
    /// [`VerbError`] with `EINVAL` for a range outside the region.
    pub fn datagram(
        region: &'region MemoryRegion,
        range: Range<usize>,
        address: &'region AddressHandle,
        queue_pair: u32,
        queue_key: u32,
    ) -> Result<Self, VerbError> {
        let ud = ud_t { ah: address.raw.as_ptr(), remote_qpn: queue_pair, remote_qkey: queue_key };
        let target = Target::Datagram(address.domain.context.raw.as_ptr().addr());
        Self::new(region, range, ibv_wr_opcode::IBV_WR_SEND, wr_t { ud }, target)
    }

    fn new(
        region: &'region MemoryRegion,
        range: Range<usize>,
        opcode: ibv_wr_opcode::Type,
        wr: wr_t,
        target: Target,
    ) -> Result<Self, VerbError> {
        let element = element(region, &range, Verb::PostSend)?;
        let request = ibv_send_wr {
            wr_id: 0,
            next: ptr::null_mut(),
            sg_list: ptr::null_mut(),
            num_sge: 1,
            opcode,
            send_flags: ibv_send_flags::IBV_SEND_SIGNALED.0,
            imm_data_invalidated_rkey_union: imm_data_invalidated_rkey_union_t { imm_data: 0 },
            wr,
            qp_type: qp_type_t { xrc: xrc_t { remote_srqn: 0 } },
            bind_mw_tso_union: bind_mw_tso_union_t { tso: tso_t { hdr: ptr::null_mut(), hdr_sz: 0, mss: 0 } },
        };
        Ok(Self { request, element, target, seen: !region.bytes().is_empty(), region: PhantomData })
    }

    /// Lets the processor copy the data into the request instead of having the device fetch it: one PCIe
    /// round trip less. Only up to the queue pair's `max_inline`; of a dma-buf never, since providers would read its address as one of this
    /// process.
    #[must_use]
    pub fn inline(mut self, inline: bool) -> Self {
        let seen = self.seen;
        self.set_flag(ibv_send_flags::IBV_SEND_INLINE, inline && seen);
        self
    }

    /// Whether its success is reported (failures always are). New requests are signalled.
    #[inline]
    pub fn set_signalled(&mut self, signalled: bool) {
        self.set_flag(ibv_send_flags::IBV_SEND_SIGNALED, signalled);
    }

    /// The number that its completion will carry.
    #[inline]
    pub fn set_id(&mut self, id: u64) {
        self.request.wr_id = id;
    }

    #[inline]
    fn set_flag(&mut self, flag: ibv_send_flags, on: bool) {
        if on {
            self.request.send_flags |= flag.0;
        } else {
            self.request.send_flags &= !flag.0;
        }
    }
}

/// The scatter element for a part of a region, checked against its length.
#[inline]
pub(crate) fn element(region: &MemoryRegion, range: &Range<usize>, verb: Verb) -> Result<ibv_sge, VerbError> {
    let misuse = || VerbError::new(verb, EINVAL, region.device());
    if range.start > range.end || range.end > region.len() {
        return Err(misuse());
    }
    let length = u32::try_from(range.end - range.start).map_err(|_| misuse())?;
    Ok(ibv_sge { addr: region.address() + range.start as u64, length, lkey: region.local_key() })
}
