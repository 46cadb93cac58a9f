//! Checks of addresses of ports.

pub(super) mod usable;
