//! Checks of RDMA devices.

pub(super) mod mapping;
pub(super) mod present;
pub(super) mod virtual_function;
