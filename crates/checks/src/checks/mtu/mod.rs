//! Checks of packet sizes.

pub(super) mod netdev;
pub(super) mod rdma;
