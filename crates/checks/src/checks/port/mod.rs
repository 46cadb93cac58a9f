//! Checks of RDMA ports.

pub(super) mod flaps;
pub(super) mod link_layer;
pub(super) mod phys_state;
pub(super) mod rate;
pub(super) mod state;
