//! Checks of addresses of ports.

pub(super) mod duplicate;
pub(super) mod family;
pub(super) mod moved;
pub(super) mod usable;
pub(super) mod versions;
pub(super) mod workload_index;
