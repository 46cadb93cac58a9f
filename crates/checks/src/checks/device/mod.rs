//! Checks of RDMA devices.

pub(super) mod present;
