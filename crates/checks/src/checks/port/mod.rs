//! Checks of RDMA ports.

pub(super) mod phys_state;
pub(super) mod rate;
pub(super) mod state;
