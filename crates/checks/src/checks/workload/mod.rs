//! Can the processes of a job use RDMA on this machine?

pub(super) mod device_nodes;
pub(super) mod gpudirect;
pub(super) mod idle_states;
pub(super) mod memlock;
pub(super) mod memory;
pub(super) mod namespace_mode;
pub(super) mod tcp_fallback;
pub(super) mod verbs_library;

use crate::check::Look;
use rdmascope_model::{Reading, Workload};

/// `process 4711 (python3)`.
fn subject(workload: &Workload) -> String {
    format!("process {} ({})", workload.pid, workload.name)
}

/// Whether we see what a container sees: devices of others are visible below `/sys` and may be closed to us.
fn in_container(look: &Look<'_>) -> bool {
    look.policy.in_container || look.now.system.container == Reading::Value(true)
}

/// A size for people; without a limit for the largest.
fn size(bytes: u64) -> String {
    match bytes {
        u64::MAX => "no limit".to_owned(),
        _ if bytes >= 1 << 30 => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
        _ if bytes >= 1 << 20 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{} KiB", bytes >> 10),
    }
}
