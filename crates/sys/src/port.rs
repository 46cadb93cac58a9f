//! One port's state and limits, and its P_Key table.

use std::mem::{MaybeUninit, offset_of};

use rdma_sys::{ibv_port_attr, verbs_context};

use crate::context::Context;
use crate::error::{EINVAL, Verb, VerbError, check};

/// Logical state (`enum ibv_port_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortState {
    /// No link, or the interface is down.
    Down,
    /// Link is up; an InfiniBand subnet manager has not configured the port yet.
    Init,
    /// Configured, about to become active.
    Armed,
    /// Carries traffic.
    Active,
    /// Active, link failing over.
    ActiveDefer,
    /// A number this version does not know.
    Other(u32),
}

/// Physical state (`phys_state` of `struct ibv_port_attr`; numbers of the InfiniBand specification).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhysicalState {
    /// Not searching.
    Sleep,
    /// Searching for a partner: no cable or no light.
    Polling,
    /// Switched off.
    Disabled,
    /// Training.
    Training,
    /// Link is up.
    LinkUp,
    /// Recovering from link errors.
    Recovery,
    /// Under test.
    PhysicalTest,
    /// A number this version does not know.
    Other(u8),
}

/// What the port is plugged into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand: addressed by LID.
    InfiniBand,
    /// Ethernet: RoCE or iWARP, addressed by GID.
    Ethernet,
    /// Unspecified (old drivers: InfiniBand) or unknown.
    Other(u8),
}

/// RDMA path MTU: the payload bytes of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mtu {
    /// 256 bytes.
    Bytes256 = 1,
    /// 512 bytes.
    Bytes512 = 2,
    /// 1024 bytes: what a 1500 byte Ethernet MTU leaves.
    Bytes1024 = 3,
    /// 2048 bytes.
    Bytes2048 = 4,
    /// 4096 bytes: needs an Ethernet MTU of 4200 or more.
    Bytes4096 = 5,
}

impl Mtu {
    /// From the verbs code (1 to 5).
    pub fn from_code(code: u32) -> Option<Self> {
        [Self::Bytes256, Self::Bytes512, Self::Bytes1024, Self::Bytes2048, Self::Bytes4096]
            .into_iter()
            .find(|mtu| mtu.code() == code)
    }

    /// From a size in bytes, if it is one of the five.
    pub fn from_bytes(bytes: u32) -> Option<Self> {
        (1..=5).filter_map(Self::from_code).find(|mtu| mtu.bytes() == bytes)
    }

    /// The verbs code (1 to 5).
    pub fn code(self) -> u32 {
        self as u32
    }

    /// Payload bytes of one packet.
    pub fn bytes(self) -> u32 {
        128 << self.code()
    }
}

/// What a port reports about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortAttributes {
    /// Logical state.
    pub state: PortState,
    /// Physical state.
    pub physical_state: PhysicalState,
    /// InfiniBand or Ethernet.
    pub link_layer: LinkLayer,
    /// MTU in use; `None` for a code this version does not know (a port that is down may report 0).
    pub active_mtu: Option<Mtu>,
    /// MTU that the hardware could use.
    pub max_mtu: Option<Mtu>,
    /// Local identifier that the subnet manager assigned; 0 on Ethernet.
    pub lid: u16,
    /// The subnet manager's LID.
    pub subnet_manager_lid: u16,
    /// The subnet manager's service level.
    pub subnet_manager_service_level: u8,
    /// LID mask control: 2^this LIDs lead here.
    pub lid_mask_control: u8,
    /// Lane count code (1: 1X, 2: 4X, 4: 8X, 8: 12X, 16: 2X).
    pub width_code: u8,
    /// Lane speed code (1 SDR, 2 DDR, 4 QDR, 8 FDR10, 16 FDR, 32 EDR, 64 HDR, 128 NDR).
    pub speed_code: u8,
    /// Entries of the GID table.
    pub gid_entries: u32,
    /// Entries of the P_Key table.
    pub pkey_entries: u16,
    /// Largest message in bytes.
    pub max_message_bytes: u32,
}

impl PortAttributes {
    /// Lanes, by the width code.
    pub fn lanes(&self) -> Option<u32> {
        match self.width_code {
            1 => Some(1),
            2 => Some(4),
            4 => Some(8),
            8 => Some(12),
            16 => Some(2),
            _ => None,
        }
    }

    /// Signalling rate of the port in Mbit/s, as the kernel computes it for sysfs `rate`. Speeds beyond 8
    /// bits (XDR) are not visible here: sysfs has them.
    pub fn rate_mbps(&self) -> Option<u64> {
        let lane: u64 = match self.speed_code {
            1 => 2_500,
            2 => 5_000,
            4 | 8 => 10_000,
            16 => 14_000,
            32 => 25_000,
            64 => 50_000,
            128 => 100_000,
            _ => return None,
        };
        Some(lane * u64::from(self.lanes()?))
    }

    fn from_raw(raw: &ibv_port_attr) -> Self {
        Self {
            state: match raw.state {
                1 => PortState::Down,
                2 => PortState::Init,
                3 => PortState::Armed,
                4 => PortState::Active,
                5 => PortState::ActiveDefer,
                other => PortState::Other(other),
            },
            physical_state: match raw.phys_state {
                1 => PhysicalState::Sleep,
                2 => PhysicalState::Polling,
                3 => PhysicalState::Disabled,
                4 => PhysicalState::Training,
                5 => PhysicalState::LinkUp,
                6 => PhysicalState::Recovery,
                7 => PhysicalState::PhysicalTest,
                other => PhysicalState::Other(other),
            },
            link_layer: match raw.link_layer {
                1 => LinkLayer::InfiniBand,
                2 => LinkLayer::Ethernet,
                other => LinkLayer::Other(other),
            },
            active_mtu: Mtu::from_code(raw.active_mtu),
            max_mtu: Mtu::from_code(raw.max_mtu),
            lid: raw.lid,
            subnet_manager_lid: raw.sm_lid,
            subnet_manager_service_level: raw.sm_sl,
            lid_mask_control: raw.lmc,
            width_code: raw.active_width,
            speed_code: raw.active_speed,
            gid_entries: u32::try_from(raw.gid_tbl_len).unwrap_or(0),
            pkey_entries: raw.pkey_tbl_len,
            max_message_bytes: raw.max_msg_sz,
        }
    }
}

impl Context {
    /// Asks for the attributes of a port (numbered from 1).
    ///
    /// # Errors
    /// [`VerbError`]; `EINVAL` for a port that is not there, `EIO` when the device is gone.
    pub fn query_port(&self, port: u8) -> Result<PortAttributes, VerbError> {
        let handle = &*self.handle;
        let mut attributes = MaybeUninit::<ibv_port_attr>::zeroed();
        let raw = handle.raw.as_ptr();
        let mut extended = None;
        if let Some(outer) = handle.extended(offset_of!(verbs_context, query_port)) {
            // SAFETY: `extended` checked that the structure reaches to this field.
            extended = unsafe { (*outer.as_ptr()).query_port };
        }
        let code = match extended {
            Some(query) => {
                let size = size_of::<ibv_port_attr>();
                // SAFETY: the context is alive, and the library writes at most `size` bytes.
                unsafe { query(raw, port, attributes.as_mut_ptr(), size) }
            }
            // SAFETY: the context is alive; the exported function writes a prefix of the structure.
            None => unsafe { (handle.symbols.query_port)(raw, port, attributes.as_mut_ptr()) },
        };
        check(code, Verb::QueryPort, &handle.device)?;
        // SAFETY: integers only, zeroed before the call: every bit pattern is valid.
        let found = unsafe { attributes.assume_init() };
        Ok(PortAttributes::from_raw(&found))
    }

    /// Reads one entry of a port's P_Key table, in host byte order.
    ///
    /// # Errors
    /// [`VerbError`]; `EINVAL` for an index beyond the table.
    pub fn query_pkey(&self, port: u8, index: u16) -> Result<u16, VerbError> {
        let handle = &*self.handle;
        let mut key = 0_u16;
        // SAFETY: the context is alive and `key` is a valid place for 16 bits.
        let code =
            unsafe { (handle.symbols.query_pkey)(handle.raw.as_ptr(), port, i32::from(index), &raw mut key) };
        match code {
            0 => Ok(u16::from_be(key)),
            // Providers that read sysfs leave no errno for a missing entry.
            -1 => Err(VerbError::new(Verb::QueryPkey, EINVAL, &handle.device)),
            code => Err(VerbError::new(Verb::QueryPkey, code.saturating_abs(), &handle.device)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtu_codes_and_bytes_agree_with_the_specification() {
        let sizes: Vec<u32> = (1..=5).filter_map(Mtu::from_code).map(Mtu::bytes).collect();
        assert_eq!(sizes, [256, 512, 1024, 2048, 4096]);
        assert_eq!(Mtu::from_code(0), None);
        assert_eq!(Mtu::from_code(6), None);
        assert_eq!(Mtu::from_bytes(1024), Some(Mtu::Bytes1024));
        assert_eq!(Mtu::from_bytes(1500), None);
    }
}
