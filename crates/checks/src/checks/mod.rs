//! The list of checks: one file each, one line here.

mod device;
mod gid;
mod mtu;
mod netdev;
mod port;

use crate::Policy;
use rdmascope_model::{Finding, Snapshot};

/// One check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Its stable id, and that of its findings.
    pub id: &'static str,
    /// Judges every part of the machine that it applies to. A part that it does not apply to gets no finding.
    pub judge: fn(&Snapshot, &Policy) -> Vec<Finding>,
}

/// All checks, in the order of judgement.
pub const ALL: &[Check] = &[
    Check { id: device::present::ID, judge: device::present::judge },
    Check { id: port::state::ID, judge: port::state::judge },
    Check { id: port::phys_state::ID, judge: port::phys_state::judge },
    Check { id: port::rate::ID, judge: port::rate::judge },
    Check { id: netdev::link::ID, judge: netdev::link::judge },
    Check { id: gid::usable::ID, judge: gid::usable::judge },
    Check { id: mtu::netdev::ID, judge: mtu::netdev::judge },
    Check { id: mtu::rdma::ID, judge: mtu::rdma::judge },
];
