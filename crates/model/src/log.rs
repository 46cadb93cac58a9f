//! Kernel-log messages that a rule knows.

use crate::{Reading, Wall};

/// What was seen of the kernel log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelLog {
    /// Lines that a rule knows, one entry for each rule and subject, the latest first.
    pub hits: Vec<LogHit>,
    /// Lines that were looked at.
    pub lines: u64,
    /// Records that the kernel dropped before they could be read (gaps of the sequence number).
    pub lost: u64,
    /// Logs that should have been read beside it and could not, each with the reason.
    pub unread: Vec<String>,
}

/// All lines of one rule about one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHit {
    /// Id of the rule.
    pub rule: String,
    /// What the line names: `pci ADDRESS`, `netdev NAME`, an RDMA device, or a port of one as `DEVICE/PORT`; `None` where it names
    /// nothing.
    pub subject: Option<String>,
    /// How many lines.
    pub count: u64,
    /// When the first one was written; failed where the line has no time.
    pub first: Reading<Wall>,
    /// When the last one was written.
    pub last: Reading<Wall>,
    /// Times of the last lines (at most 16, the latest last), for rules that count within a window.
    pub recent: Vec<Wall>,
    /// The last line, control characters removed, at most 240 characters.
    pub line: String,
}
