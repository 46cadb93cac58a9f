//! Is the lossless class of RoCE set up as one piece, and does it hold?

pub(super) mod congestion;
pub(super) mod dscp_map;
pub(super) mod ecn;
pub(super) mod global_pause;
pub(super) mod lossless_discards;
pub(super) mod pause_priority;
pub(super) mod pause_share;
pub(super) mod pause_storm;
pub(super) mod pfc_priority;
pub(super) mod receive_buffers;

use crate::wires::Wire;
use rdmascope_model::{Dcb, Reading};

/// A part of the data centre bridging settings of a device.
fn setting<T: Clone>(wire: &Wire<'_>, part: impl Fn(&Dcb) -> &Reading<T>) -> Reading<T> {
    match &wire.netdev.dcb {
        Reading::Value(dcb) => part(dcb).clone(),
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why.clone()),
    }
}

/// Priorities with PFC, bit 0 = priority 0.
fn pfc(wire: &Wire<'_>) -> Reading<u8> {
    setting(wire, |dcb| &dcb.pfc)
}
