//! The row that holds the last batch of pings of a pair: 56 bytes, 940 MB when all pairs of 4,096 endpoints ping each other.
//!
//! A batch without any answer keeps its counts too, and its number: its responder may tell later what it heard. Such a row is a failure
//! whose cause follows from the counts. A failure with a cause of its own may have counts, too; without any it was no batch that failed.

use crate::row::{self, Kind, REASON, TEXT, at, kind, stamped};
use crate::verdict::silence;
use rdmascope_model::{Cause, PackedPings, PingFigures, Side, Step, Wall};

/// The stamp, then the packed figures.
pub(crate) type PingRow = [u32; FIGURES + PackedPings::WORDS];

const FIGURES: usize = 2;
/// What the words hold that silence has other uses for: there is no round trip of a batch without any answer.
const NO_ROUND_TRIP: u32 = u32::MAX;

fn packed(kind: Kind, at: Wall, figures: PackedPings) -> PingRow {
    let mut row: PingRow = stamped(kind, at);
    row[FIGURES..].copy_from_slice(&figures.0);
    row
}

/// The row of a batch that was answered.
pub(crate) fn pack(at: Wall, figures: PackedPings) -> PingRow {
    packed(Kind::Known, at, figures)
}

/// The row of a batch without any answer, which needs its number to be explained later.
pub(crate) fn pack_silence(at: Wall, figures: PackedPings, batch: u32) -> PingRow {
    let mut row = packed(Kind::Failed, at, figures);
    row[REASON] = 0;
    row[TEXT] = batch;
    row
}

/// The row of a failure that has another reason than its counts, with these: what has no room beside the reason is left out.
pub(crate) fn pack_failure(failed: PingRow, figures: PackedPings) -> PingRow {
    let mut row = packed(Kind::Failed, at(&failed), figures);
    (row[REASON], row[TEXT]) = (failed[REASON], failed[TEXT]);
    row
}

/// The number of the batch without any answer that a row holds.
pub(crate) fn silent_batch(row: &PingRow) -> Option<u32> {
    (kind(row) == Kind::Failed && row[REASON] == 0).then_some(row[TEXT])
}

/// Why the batch of a failed row failed.
pub(crate) fn reason(row: &PingRow) -> (Cause, Step, Side) {
    if silent_batch(row).is_none() {
        return row::reason(row);
    }
    let packed = figures_of(row);
    silence(packed.stale(), packed.counts().iter().map(|counts| counts.late).sum())
}

/// The packed figures of a row that holds some.
#[inline]
pub(crate) fn figures_of(row: &PingRow) -> PackedPings {
    let &[_, _, mut words @ ..] = row;
    if kind(row) == Kind::Failed {
        let [p50, max, ..] = &mut words;
        (*p50, *max) = (NO_ROUND_TRIP, NO_ROUND_TRIP);
    }
    PackedPings(words)
}

/// The figures of a row that holds some.
pub(crate) fn unpack(row: &PingRow) -> PingFigures {
    figures_of(row).figures()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rdmascope_model::{LabelResult, PingCounts, Spread, StampClock};

    /// 40 small and 20 large pings, of which each direction lost one small one.
    pub(crate) fn figures() -> PingFigures {
        let small = PingCounts {
            payload_bytes: 64,
            sent: 40,
            answered: 37,
            lost_forward: Some(1),
            lost_backward: Some(1),
            late: 1,
            duplicate: 2,
            reordered: 3,
        };
        let large = PingCounts {
            payload_bytes: 4_096,
            sent: 20,
            answered: 20,
            lost_forward: Some(0),
            lost_backward: Some(0),
            ..PingCounts::default()
        };
        PingFigures {
            clock: StampClock::Hardware,
            small,
            large,
            network: Some(Spread { p50_ns: 3_000, max_ns: 9_000 }),
            large_p50_ns: Some(5_000),
            responder: Some(Spread { p50_ns: 2_000, max_ns: 30_000 }),
            prober: Some(Spread { p50_ns: 4_000, max_ns: 5_000 }),
            host_delayed: 5,
            invalid_stamps: 6,
            stale: 0,
            worst_label: Some(LabelResult {
                flow_label: 0xF_FFFF,
                sent: 4,
                answered: 2,
                p50_ns: Some(3_500),
            }),
        }
    }

    /// So many small pings without an answer.
    pub(crate) fn silent(sent: u32) -> PingFigures {
        PingFigures {
            small: PingCounts { payload_bytes: 64, sent, ..PingCounts::default() },
            large: PingCounts::default(),
            network: None,
            large_p50_ns: None,
            responder: None,
            prober: None,
            worst_label: None,
            ..figures()
        }
    }

    #[test]
    fn a_row_gives_back_what_it_was_given() {
        let row = pack(Wall(77), PackedPings::pack(&figures()));
        assert_eq!((kind(&row), at(&row), unpack(&row)), (Kind::Known, Wall(77), figures()));
        assert_eq!(silent_batch(&row), None);
    }

    #[test]
    fn a_failure_with_a_cause_keeps_the_counts_of_its_batch() {
        let failure = stamped(Kind::Failed, Wall(79));
        let row = pack_failure(PingRow::map(failure, |word| word.max(5)), PackedPings::pack(&figures()));
        assert_eq!((row[REASON], row[TEXT], silent_batch(&row)), (5, 5, None));
        let back = unpack(&row);
        assert_eq!((back.small, back.large, back.network), (figures().small, figures().large, None));
        let bare: PingRow = stamped(Kind::Failed, Wall(79));
        assert_eq!(figures_of(&bare).in_short().sent, 0, "no batch");
    }

    #[test]
    fn a_batch_without_any_answer_keeps_its_counts_and_its_number() {
        let given = silent(40);
        let row = pack_silence(Wall(78), PackedPings::pack(&given), u32::MAX);
        assert_eq!((kind(&row), silent_batch(&row), unpack(&row)), (Kind::Failed, Some(u32::MAX), given));
    }
}
