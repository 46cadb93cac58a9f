//! The list of checks: one file each, one line here.

mod device;
mod gid;
mod log;
mod mtu;
mod netdev;
mod port;

use crate::check::Check;

/// All checks, in the order of judgement: the link first, then addresses and sizes, then performance, then the application.
pub const ALL: &[Check] = &[
    device::present::CHECK,
    port::state::CHECK,
    port::phys_state::CHECK,
    port::rate::CHECK,
    netdev::link::CHECK,
    gid::usable::CHECK,
    mtu::netdev::CHECK,
    mtu::rdma::CHECK,
    log::events::CHECK,
    log::lost::CHECK,
];
