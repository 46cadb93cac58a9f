//! Batches of pings told by numbers: records of fixed size, since a coordinator reads millions of them and nothing else as often.
//!
//! The numbers are those that the address book of the same connection gave ([`crate::ToAgent::Book`]), so that neither names nor the many
//! small fields of a batch are read one by one. All words are little-endian. A report: local, peer, time (8 bytes), batch, then the twelve
//! words of [`PackedPings`]. What was heard: local, peer, batch, small, large (a byte each), two bytes of 0.

use crate::FrameError;
use crate::from_wire::bad;
use rdmascope_model::{PackedPings, Wall};

const REPORT_BYTES: usize = 20 + 4 * PackedPings::WORDS;
const HEARD_BYTES: usize = 16;

/// One batch of an agent's own pings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedReport {
    /// Number of the endpoint that pinged, which is the agent's own.
    pub local: u32,
    /// Number of the pinged endpoint.
    pub peer: u32,
    /// End of the batch, on the agent's clock.
    pub measured_at: Wall,
    /// Number of the batch, for matching it with what the peer heard.
    pub batch: u32,
    /// What it found.
    pub figures: PackedPings,
}

/// What an endpoint heard of a batch of somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedHeard {
    /// Number of the endpoint that was pinged, which is the agent's own.
    pub local: u32,
    /// Number of the endpoint that pinged.
    pub peer: u32,
    /// The prober's number of its batch.
    pub batch: u32,
    /// Small pings that came.
    pub small: u8,
    /// Large pings that came.
    pub large: u8,
}

pub(crate) fn encode_reports(reports: &[NumberedReport]) -> Vec<u8> {
    let mut out = Vec::with_capacity(reports.len() * REPORT_BYTES);
    for report in reports {
        let mut record = [0; REPORT_BYTES];
        let at = report.measured_at.0;
        let head = [report.local, report.peer, at as u32, (at >> 32) as u32, report.batch];
        let words = head.iter().chain(&report.figures.0);
        for (four, word) in record.as_chunks_mut().0.iter_mut().zip(words) {
            *four = word.to_le_bytes();
        }
        out.extend_from_slice(&record);
    }
    out
}

pub(crate) fn encode_heard(heard: &[NumberedHeard]) -> Vec<u8> {
    let mut out = Vec::with_capacity(heard.len() * HEARD_BYTES);
    for heard in heard {
        let mut record = [0; HEARD_BYTES];
        record[..4].copy_from_slice(&heard.local.to_le_bytes());
        record[4..8].copy_from_slice(&heard.peer.to_le_bytes());
        record[8..12].copy_from_slice(&heard.batch.to_le_bytes());
        (record[12], record[13]) = (heard.small, heard.large);
        out.extend_from_slice(&record);
    }
    out
}

/// Records of a size, at most so many.
fn records<'a, const BYTES: usize>(
    field: &'static str,
    bytes: &'a [u8],
    max: usize,
) -> Result<&'a [[u8; BYTES]], FrameError> {
    let (records, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err(bad(field, format!("{} bytes long, which is no number of whole ones", bytes.len())));
    }
    if records.len() > max {
        return Err(bad(field, format!("{} items long; at most {max} are accepted", records.len())));
    }
    Ok(records)
}

pub(crate) fn decode_reports(bytes: &[u8], max: usize) -> Result<Vec<NumberedReport>, FrameError> {
    let records = records::<REPORT_BYTES>("numbered pings", bytes, max)?;
    let mut reports = Vec::with_capacity(records.len());
    for record in records {
        let (words, _) = record.as_chunks();
        let word = |at: usize| u32::from_le_bytes(words[at]);
        let figures = PackedPings(std::array::from_fn(|at| word(5 + at)));
        if let Some(what) = figures.flaw() {
            return Err(bad("numbered pings", what));
        }
        reports.push(NumberedReport {
            local: word(0),
            peer: word(1),
            measured_at: Wall(u64::from(word(2)) | u64::from(word(3)) << 32),
            batch: word(4),
            figures,
        });
    }
    Ok(reports)
}

pub(crate) fn decode_heard(bytes: &[u8], max: usize) -> Result<Vec<NumberedHeard>, FrameError> {
    let read = |record: &[u8; HEARD_BYTES]| {
        let (words, _) = record.as_chunks();
        let word = |at: usize| u32::from_le_bytes(words[at]);
        let [small, large, ..] = words[3];
        NumberedHeard { local: word(0), peer: word(1), batch: word(2), small, large }
    };
    Ok(records("numbered heard pings", bytes, max)?.iter().map(read).collect())
}
