//! What went wrong, before it is known which side tells it; and what an errno of a socket means.

use rdmascope_model::{Cause, Failure, Role, Step};
use rustix::io::Errno;
use std::io;

/// A failure without its witness.
#[derive(Debug)]
pub(crate) struct Trouble {
    cause: Cause,
    step: Step,
    evidence: String,
}

impl Trouble {
    pub(crate) fn new(cause: Cause, step: Step, evidence: impl Into<String>) -> Self {
        Self { cause, step, evidence: evidence.into() }
    }

    /// A system call failed while `doing` something.
    pub(crate) fn io(step: Step, doing: impl std::fmt::Display, error: &io::Error) -> Self {
        Self::new(cause_of(error), step, format!("{doing}: {error}"))
    }

    pub(crate) fn seen_by(self, role: Role) -> Failure {
        Failure { cause: self.cause, step: self.step, side: role.side(), evidence: self.evidence }
    }
}

/// Meanings from tcp(7), ip(7) and connect(2).
fn cause_of(error: &io::Error) -> Cause {
    if error.kind() == io::ErrorKind::AddrInUse {
        return Cause::NoResources;
    }
    let Some(errno) = Errno::from_io_error(error) else { return Cause::Internal };
    match errno {
        Errno::CONNREFUSED => Cause::ConnectRefused,
        Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN | Errno::ADDRNOTAVAIL => Cause::NoRoute,
        Errno::TIMEDOUT => Cause::RetryExceeded,
        Errno::ACCESS | Errno::PERM => Cause::PermissionDenied,
        Errno::MSGSIZE => Cause::MessageTooLong,
        Errno::NODEV => Cause::DeviceGone,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS => Cause::NoResources,
        Errno::AFNOSUPPORT => Cause::AddressFamily,
        // connect(2) from an address that cannot reach the peer's, such as a loopback one.
        Errno::INVAL => Cause::BadParameters,
        Errno::CONNRESET | Errno::PIPE => Cause::PeerGone,
        _ => Cause::Internal,
    }
}
