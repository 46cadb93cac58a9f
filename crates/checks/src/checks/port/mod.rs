//! Checks of RDMA ports.

pub(super) mod errors;
pub(super) mod flaps;
pub(super) mod link_layer;
pub(super) mod phys_state;
pub(super) mod rate;
pub(super) mod saturated;
pub(super) mod state;
