//! Checks of network devices under RoCE ports.

pub(super) mod link;
