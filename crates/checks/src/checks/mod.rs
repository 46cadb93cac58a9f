//! The list of checks: one file each, one line here.

mod device;
mod gid;
mod infiniband;
mod mtu;
mod netdev;
mod port;

use crate::check::Check;

/// All checks, in the order of judgement: the link first, then addresses and sizes, then performance, then the application.
pub const ALL: &[Check] = &[
    device::present::CHECK,
    device::mapping::CHECK,
    port::state::CHECK,
    port::phys_state::CHECK,
    device::virtual_function::CHECK,
    port::link_layer::CHECK,
    port::rate::CHECK,
    netdev::link::CHECK,
    port::flaps::CHECK,
    port::saturated::CHECK,
    port::errors::CHECK,
    infiniband::subnet_manager::CHECK,
    infiniband::partition_keys::CHECK,
    gid::usable::CHECK,
    mtu::netdev::CHECK,
    mtu::rdma::CHECK,
    infiniband::transmit_wait::CHECK,
];
