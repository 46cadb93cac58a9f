//! What went wrong, before it is known which side tells it; and what an errno of a verb or a completion
//! status means.

use super::cm;
use rdmascope_model::{Cause, Failure, Role, Step};
use rdmascope_sys::{Completion, CompletionStatus, Mtu, QueuePairState, Verb, VerbError};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// A failure without its witness.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) cause: Cause,
    step: Step,
    evidence: String,
    /// Time ran out while messages still went to and fro: slow, not stuck.
    pub(crate) going: bool,
}

impl Trouble {
    pub(crate) fn new(cause: Cause, step: Step, evidence: impl Into<String>) -> Self {
        Self { cause, step, evidence: evidence.into(), going: false }
    }

    /// A verb failed.
    pub(crate) fn verb(step: Step, error: &VerbError) -> Self {
        let limit = getrlimit(Resource::Memlock).current;
        let errno = Errno::from_raw_os_error(error.errno);
        let cause = cause_of(error.verb, errno, limit.is_some());
        let evidence = match (cause, limit) {
            (Cause::MemoryLock, Some(bytes)) => format!("{error}; locked memory is limited to {bytes} bytes"),
            _ => error.to_string(),
        };
        Self::new(cause, step, evidence)
    }

    /// With more words at the end of its evidence.
    pub(crate) fn with(mut self, words: impl std::fmt::Display) -> Self {
        self.evidence = format!("{} {words}", self.evidence);
        self
    }

    pub(crate) fn step(&self) -> Step {
        self.step
    }

    pub(crate) fn evidence(&self) -> &str {
        &self.evidence
    }

    /// A write failed; `done` says how far the probe was.
    pub(crate) fn completion(step: Step, failed: &Completion, done: &str) -> Self {
        let status = failed.status();
        let cause = cause_of_status(status, step);
        let evidence = format!("{status}, vendor error {:#x}, {done}", failed.vendor_error());
        Self::new(cause, step, evidence)
    }

    /// When nothing was acknowledged of messages that need full packets, and the ends' MTUs differ, that is
    /// the likely reason.
    pub(crate) fn compare_mtu(mut self, own: Mtu, peer: Mtu, full_packets: bool) -> Self {
        if own != peer && matches!(self.cause, Cause::RetryExceeded | Cause::NoFirstByte | Cause::Stalled) {
            self.evidence = format!("{}; own MTU {}, peer's {}", self.evidence, own.bytes(), peer.bytes());
            if full_packets && self.cause == Cause::RetryExceeded {
                self.cause = Cause::MtuMismatch;
            }
        }
        self
    }

    pub(crate) fn seen_by(self, role: Role) -> Failure {
        Failure { cause: self.cause, step: self.step, side: role.side(), evidence: self.evidence }
    }
}

/// Meanings from the verbs manual pages, `ib_umem_get` (locked memory) and `rdma_addr_find_l2_eth_by_grh`
/// (addresses).
fn cause_of(verb: Verb, errno: Errno, memory_limited: bool) -> Cause {
    if let Verb::ConnectionManager(command) = verb
        && let Some(cause) = cm::cause_of(command, errno)
    {
        return cause;
    }
    match (verb, errno) {
        (_, Errno::IO | Errno::NODEV | Errno::NXIO) | (Verb::OpenDevice, Errno::NOENT) => Cause::DeviceGone,
        (Verb::GetDeviceList, Errno::NOSYS) => Cause::VerbsMissing,
        (Verb::RegMr, Errno::NOMEM | Errno::AGAIN | Errno::PERM) if memory_limited => Cause::MemoryLock,
        (_, Errno::PERM | Errno::ACCESS) => Cause::PermissionDenied,
        (
            Verb::ModifyQp(QueuePairState::ReadyToReceive) | Verb::CreateAh,
            Errno::NETUNREACH
            | Errno::HOSTUNREACH
            | Errno::HOSTDOWN
            | Errno::NETDOWN
            | Errno::TIMEDOUT
            | Errno::ADDRNOTAVAIL
            | Errno::NODATA
            | Errno::NOENT,
        ) => Cause::NoRoute,
        (_, Errno::NOMEM | Errno::NOSPC | Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOBUFS) => {
            Cause::NoResources
        }
        (Verb::ModifyQp(_) | Verb::CreateQp | Verb::CreateCq | Verb::CreateAh, _) => Cause::BadParameters,
        _ => Cause::LocalFault,
    }
}

/// Meanings from the manual page of `ibv_poll_cq`. A path that never carried anything and one that was lost on the way are looked for in
/// different places.
fn cause_of_status(status: CompletionStatus, step: Step) -> Cause {
    match status {
        CompletionStatus::RetryExceeded | CompletionStatus::ResponseTimeout if step == Step::Measure => {
            Cause::PathLost
        }
        CompletionStatus::RetryExceeded | CompletionStatus::ResponseTimeout => Cause::RetryExceeded,
        CompletionStatus::ReceiverNotReadyExceeded => Cause::ReceiverNotReady,
        CompletionStatus::RemoteAccess => Cause::RemoteAccess,
        CompletionStatus::RemoteInvalidRequest
        | CompletionStatus::RemoteOperation
        | CompletionStatus::RemoteAborted
        | CompletionStatus::BadResponse => Cause::RemoteFault,
        _ => Cause::LocalFault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_12_at_the_start_and_in_the_middle_are_different_causes() {
        for status in [CompletionStatus::RetryExceeded, CompletionStatus::ResponseTimeout] {
            assert_eq!(cause_of_status(status, Step::FirstByte), Cause::RetryExceeded);
            assert_eq!(cause_of_status(status, Step::Measure), Cause::PathLost);
        }
        assert_eq!(cause_of_status(CompletionStatus::RemoteAccess, Step::Measure), Cause::RemoteAccess);
    }

    #[test]
    fn each_step_and_errno_has_the_cause_that_an_operator_can_act_on() {
        let rtr = Verb::ModifyQp(QueuePairState::ReadyToReceive);
        let rts = Verb::ModifyQp(QueuePairState::ReadyToSend);
        let cases = [
            (Verb::OpenDevice, Errno::ACCESS, Cause::PermissionDenied),
            (Verb::OpenDevice, Errno::NODEV, Cause::DeviceGone),
            (Verb::GetDeviceList, Errno::NOSYS, Cause::VerbsMissing),
            (Verb::RegMr, Errno::NOMEM, Cause::MemoryLock),
            (Verb::CreateQp, Errno::NOMEM, Cause::NoResources),
            (Verb::CreateCompChannel, Errno::MFILE, Cause::NoResources),
            (Verb::CreateQp, Errno::INVAL, Cause::BadParameters),
            (rtr, Errno::HOSTUNREACH, Cause::NoRoute),
            (rtr, Errno::TIMEDOUT, Cause::NoRoute),
            (rtr, Errno::INVAL, Cause::BadParameters),
            (rts, Errno::TIMEDOUT, Cause::BadParameters),
            (rts, Errno::IO, Cause::DeviceGone),
            (Verb::PollCq, Errno::INVAL, Cause::LocalFault),
        ];
        for (verb, errno, expected) in cases {
            assert_eq!(cause_of(verb, errno, true), expected, "{verb}: {errno}");
        }
        assert_eq!(cause_of(Verb::RegMr, Errno::NOMEM, false), Cause::NoResources, "no limit to raise");
    }

    #[test]
    fn different_mtus_are_blamed_only_for_messages_that_need_full_packets() {
        let lost = || Trouble::new(Cause::RetryExceeded, Step::Measure, "lost");
        let (large, small) = (Mtu::Bytes4096, Mtu::Bytes1024);
        assert_eq!(lost().compare_mtu(large, small, true).cause, Cause::MtuMismatch);
        assert_eq!(lost().compare_mtu(large, small, false).cause, Cause::RetryExceeded);
        assert_eq!(lost().compare_mtu(large, large, true).cause, Cause::RetryExceeded);
        let evidence = lost().compare_mtu(large, small, false).evidence;
        assert_eq!(evidence, "lost; own MTU 4096, peer's 1024");
    }
}
