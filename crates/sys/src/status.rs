//! How a work request ended.

use std::fmt;

/// The status of a completion (`enum ibv_wc_status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "`name` gives the verbs name and Display the words for each")]
pub enum CompletionStatus {
    Success,
    LocalLength,
    LocalQueuePairOperation,
    LocalProtection,
    Flushed,
    LocalAccess,
    BadResponse,
    RemoteInvalidRequest,
    RemoteAccess,
    RemoteOperation,
    RetryExceeded,
    ReceiverNotReadyExceeded,
    RemoteAborted,
    Fatal,
    ResponseTimeout,
    General,
    Other(u32),
}

impl CompletionStatus {
    /// From the number in a completion.
    #[inline]
    pub fn from_code(code: u32) -> Self {
        match code {
            0 => Self::Success,
            1 => Self::LocalLength,
            2 => Self::LocalQueuePairOperation,
            4 => Self::LocalProtection,
            5 => Self::Flushed,
            7 => Self::BadResponse,
            8 => Self::LocalAccess,
            9 => Self::RemoteInvalidRequest,
            10 => Self::RemoteAccess,
            11 => Self::RemoteOperation,
            12 => Self::RetryExceeded,
            13 => Self::ReceiverNotReadyExceeded,
            16 => Self::RemoteAborted,
            19 => Self::Fatal,
            20 => Self::ResponseTimeout,
            21 => Self::General,
            other => Self::Other(other),
        }
    }

    /// The number of the verbs header.
    pub fn code(self) -> u32 {
        match self {
            Self::Success => 0,
            Self::LocalLength => 1,
            Self::LocalQueuePairOperation => 2,
            Self::LocalProtection => 4,
            Self::Flushed => 5,
            Self::BadResponse => 7,
            Self::LocalAccess => 8,
            Self::RemoteInvalidRequest => 9,
            Self::RemoteAccess => 10,
            Self::RemoteOperation => 11,
            Self::RetryExceeded => 12,
            Self::ReceiverNotReadyExceeded => 13,
            Self::RemoteAborted => 16,
            Self::Fatal => 19,
            Self::ResponseTimeout => 20,
            Self::General => 21,
            Self::Other(code) => code,
        }
    }

    /// The name in the verbs header, which people search the web for.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "IBV_WC_SUCCESS",
            Self::LocalLength => "IBV_WC_LOC_LEN_ERR",
            Self::LocalQueuePairOperation => "IBV_WC_LOC_QP_OP_ERR",
            Self::LocalProtection => "IBV_WC_LOC_PROT_ERR",
            Self::Flushed => "IBV_WC_WR_FLUSH_ERR",
            Self::BadResponse => "IBV_WC_BAD_RESP_ERR",
            Self::LocalAccess => "IBV_WC_LOC_ACCESS_ERR",
            Self::RemoteInvalidRequest => "IBV_WC_REM_INV_REQ_ERR",
            Self::RemoteAccess => "IBV_WC_REM_ACCESS_ERR",
            Self::RemoteOperation => "IBV_WC_REM_OP_ERR",
            Self::RetryExceeded => "IBV_WC_RETRY_EXC_ERR",
            Self::ReceiverNotReadyExceeded => "IBV_WC_RNR_RETRY_EXC_ERR",
            Self::RemoteAborted => "IBV_WC_REM_ABORT_ERR",
            Self::Fatal => "IBV_WC_FATAL_ERR",
            Self::ResponseTimeout => "IBV_WC_RESP_TIMEOUT_ERR",
            Self::General => "IBV_WC_GENERAL_ERR",
            Self::Other(_) => "unknown completion status",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::LocalLength => "a message was longer than the buffer for it",
            Self::LocalQueuePairOperation => "the queue pair could not carry out the request",
            Self::LocalProtection => "the request named memory that is not registered for it",
            Self::Flushed => "the queue pair had failed before, so the request was dropped",
            Self::BadResponse => "the peer answered with an unexpected packet",
            Self::LocalAccess => "a write to our memory was not permitted",
            Self::RemoteInvalidRequest => "the peer refused the request as invalid",
            Self::RemoteAccess => "the peer refused access to its memory",
            Self::RemoteOperation => "the peer failed to carry out the request",
            Self::RetryExceeded => "the peer did not acknowledge in spite of all retries",
            Self::ReceiverNotReadyExceeded => "the peer had no receive buffer in spite of all retries",
            Self::RemoteAborted => "the peer aborted the operation",
            Self::Fatal => "fatal transport error",
            Self::ResponseTimeout => "the peer did not respond in time",
            Self::General => "transport error",
            Self::Other(_) => "a status that this version does not know",
        }
    }
}

impl fmt::Display for CompletionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, status {})", self.words(), self.name(), self.code())
    }
}

#[cfg(test)]
mod tests {
    use rdma_sys::ibv_wc_status as raw;

    use super::*;

    #[test]
    fn every_code_survives_both_ways() {
        for code in 0..40 {
            assert_eq!(CompletionStatus::from_code(code).code(), code);
        }
    }

    #[test]
    fn codes_that_causes_depend_on_are_those_of_the_header() {
        let pairs = [
            (CompletionStatus::Success, raw::IBV_WC_SUCCESS),
            (CompletionStatus::LocalProtection, raw::IBV_WC_LOC_PROT_ERR),
            (CompletionStatus::Flushed, raw::IBV_WC_WR_FLUSH_ERR),
            (CompletionStatus::RemoteAccess, raw::IBV_WC_REM_ACCESS_ERR),
            (CompletionStatus::RemoteOperation, raw::IBV_WC_REM_OP_ERR),
            (CompletionStatus::RetryExceeded, raw::IBV_WC_RETRY_EXC_ERR),
            (CompletionStatus::ReceiverNotReadyExceeded, raw::IBV_WC_RNR_RETRY_EXC_ERR),
            (CompletionStatus::Fatal, raw::IBV_WC_FATAL_ERR),
            (CompletionStatus::General, raw::IBV_WC_GENERAL_ERR),
        ];
        for (status, code) in pairs {
            assert_eq!(status.code(), code, "{status}");
        }
    }
}
