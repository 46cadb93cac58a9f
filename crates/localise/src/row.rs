//! Cells as rows of a fixed number of 32-bit words: when, what kind, and the figures or the reason why there are none.
//!
//! The first two words are the same in every row: 62 bits of milliseconds since 1970 and two bits of [`Kind`]. A row of zeros was never
//! written, so that fresh memory is a matrix of which nothing is known.

use crate::Measured;
use crate::texts::{NO_TEXT, Texts};
use rdmascope_model::{
    BandwidthStats, Cause, CounterDelta, Exclusion, Failure, LatencyStats, Side, Step, Wall,
};

/// A completed latency probe: 40 bytes, 671 MB for all pairs of 4,096 endpoints.
pub(crate) type LatencyRow = [u32; 10];
/// A completed bandwidth probe: 48 bytes.
pub(crate) type BandwidthRow = [u32; 12];

/// What a row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Never = 0,
    Known = 1,
    Failed = 2,
    Excluded = 3,
}

const KIND_SHIFT: u32 = 30;
/// Where a failed row has its cause, step and side, and the number of its text; where an excluded one has the reason.
pub(crate) const REASON: usize = 2;
pub(crate) const TEXT: usize = 3;
/// Stands for "absent" in a quantile: no latency is 0.
const ABSENT: u32 = 0;
/// Stands for "not counted" in 16 bits; larger counts stop below it.
const UNCOUNTED: u16 = u16::MAX;

/// The kind of a row.
pub(crate) fn kind<const WORDS: usize>(row: &[u32; WORDS]) -> Kind {
    match row[1] >> KIND_SHIFT {
        0 => Kind::Never,
        1 => Kind::Known,
        2 => Kind::Failed,
        _ => Kind::Excluded,
    }
}

/// When it was written.
pub(crate) fn at<const WORDS: usize>(row: &[u32; WORDS]) -> Wall {
    Wall(u64::from(row[0]) | u64::from(row[1] & !(u32::MAX << KIND_SHIFT)) << 32)
}

/// When it was written; `None` for one that never was.
pub(crate) fn written_at<const WORDS: usize>(row: &[u32; WORDS]) -> Option<Wall> {
    (kind(row) != Kind::Never).then(|| at(row))
}

/// A row that only says what it is, and when.
pub(crate) fn stamped<const WORDS: usize>(kind: Kind, at: Wall) -> [u32; WORDS] {
    let mut row = [0; WORDS];
    row[0] = at.0 as u32;
    row[1] = (at.0 >> 32) as u32 & !(u32::MAX << KIND_SHIFT) | (kind as u32) << KIND_SHIFT;
    row
}

/// Something of this time is newer than what the row holds.
pub(crate) fn is_older<const WORDS: usize>(row: &[u32; WORDS], than: Wall) -> bool {
    kind(row) == Kind::Never || at(row) < than
}

/// Cause, step and side in one word; no failure is 0, since causes begin at 1.
pub(crate) fn pack_reason(failure: &Failure) -> u32 {
    failure.cause as u32 | (failure.step as u32) << 16 | (failure.side as u32) << 24
}

/// The reverse; `None` for 0 and for what no version has written.
pub(crate) fn unpack_reason(word: u32) -> Option<(Cause, Step, Side)> {
    let step = Step::ALL.into_iter().find(|step| *step as u32 == word >> 16 & 0xFF)?;
    let side = [Side::Source, Side::Target, Side::Coordinator];
    let side = side.into_iter().find(|side| *side as u32 == word >> 24)?;
    Some((Cause::from_number(word & 0xFFFF)?, step, side))
}

/// What a failed row says; nothing but the state is left of one that no version has written.
pub(crate) fn reason<const WORDS: usize>(row: &[u32; WORDS]) -> (Cause, Step, Side) {
    unpack_reason(row[REASON]).unwrap_or((Cause::Internal, Step::Measure, Side::Coordinator))
}

/// The row of a failed probe.
pub(crate) fn failed<const WORDS: usize>(at: Wall, failure: &Failure, texts: &mut Texts) -> [u32; WORDS] {
    let mut row = stamped(Kind::Failed, at);
    row[REASON] = pack_reason(failure);
    row[TEXT] = texts.keep(&failure.evidence);
    row
}

/// The row of a probe that was not run.
pub(crate) fn excluded<const WORDS: usize>(at: Wall, why: Exclusion) -> [u32; WORDS] {
    let mut row = stamped(Kind::Excluded, at);
    row[REASON] = why as u32;
    row
}

/// Why a probe was not run.
pub(crate) fn unpack_exclusion<const WORDS: usize>(row: &[u32; WORDS]) -> Exclusion {
    Exclusion::ALL.into_iter().find(|why| *why as u32 == row[REASON]).unwrap_or(Exclusion::Policy)
}

/// The text that a row holds; [`NO_TEXT`] when it holds none.
pub(crate) fn text_of<const WORDS: usize>(row: &[u32; WORDS]) -> u32 {
    // A failure without a cause is silence, which has figures where others have a text.
    if kind(row) == Kind::Failed && row[REASON] != 0 { row[TEXT] } else { NO_TEXT }
}

fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn pack_retransmits(delta: CounterDelta) -> u32 {
    delta.retransmits.map_or(u32::MAX, |count| narrow(count).min(u32::MAX - 1))
}

fn unpack_retransmits(packed: u32) -> CounterDelta {
    CounterDelta { retransmits: (packed != u32::MAX).then_some(packed.into()) }
}

/// Times are nanoseconds and stop at 4.29 s, which is longer than any lease lets a message travel; counts of delayed samples and of
/// retransmits stop at 65,534, beyond which none says more than another.
pub(crate) fn pack_latency(at: Wall, stats: &LatencyStats, delta: CounterDelta) -> LatencyRow {
    let quantile = |ns: Option<u64>| ns.map_or(ABSENT, narrow);
    let short = |count: u64| u16::try_from(count).unwrap_or(UNCOUNTED).min(UNCOUNTED - 1);
    let retransmits = delta.retransmits.map_or(UNCOUNTED, short);
    let [t0, t1, ..]: LatencyRow = stamped(Kind::Known, at);
    [
        t0,
        t1,
        narrow(stats.min_ns),
        narrow(stats.p50_ns),
        narrow(stats.p90_ns),
        quantile(stats.p99_ns),
        quantile(stats.p999_ns),
        narrow(stats.max_ns),
        stats.count,
        u32::from(short(stats.host_delayed.into())) | u32::from(retransmits) << 16,
    ]
}

pub(crate) fn unpack_latency(row: &LatencyRow) -> Measured {
    let &[_, _, min, p50, p90, p99, p999, max, count, beside] = row;
    let quantile = |ns: u32| (ns != ABSENT).then_some(ns.into());
    let stats = LatencyStats {
        count,
        min_ns: min.into(),
        p50_ns: p50.into(),
        p90_ns: p90.into(),
        p99_ns: quantile(p99),
        p999_ns: quantile(p999),
        max_ns: max.into(),
        host_delayed: beside & 0xFFFF,
    };
    let retransmits = beside >> 16;
    let counted = retransmits != UNCOUNTED.into();
    Measured::Latency(stats, CounterDelta { retransmits: counted.then_some(retransmits.into()) })
}

/// Median, nanoseconds, without the rest.
pub(crate) fn latency_p50(row: &LatencyRow) -> u32 {
    row[3]
}

/// Median and 99th percentile, nanoseconds, without the rest.
pub(crate) fn latency_figures(row: &LatencyRow) -> (u64, Option<u64>) {
    (row[3].into(), (row[5] != ABSENT).then_some(row[5].into()))
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

fn whole(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

pub(crate) fn pack_bandwidth(at: Wall, stats: &BandwidthStats, delta: CounterDelta) -> BandwidthRow {
    let [t0, t1, ..]: BandwidthRow = stamped(Kind::Known, at);
    let [b0, b1] = halves(stats.bytes);
    let [d0, d1] = halves(stats.duration_ns);
    let [a0, a1] = halves(stats.average_bps);
    let [w0, w1] = halves(stats.worst_window_bps.unwrap_or(u64::MAX));
    [t0, t1, b0, b1, d0, d1, a0, a1, w0, w1, stats.completions, pack_retransmits(delta)]
}

pub(crate) fn unpack_bandwidth(row: &BandwidthRow) -> Measured {
    let &[_, _, b0, b1, d0, d1, a0, a1, w0, w1, completions, retransmits] = row;
    let worst = whole(w0, w1);
    let stats = BandwidthStats {
        bytes: whole(b0, b1),
        duration_ns: whole(d0, d1),
        average_bps: whole(a0, a1),
        worst_window_bps: (worst != u64::MAX).then_some(worst),
        // Not kept: a cell has room for what is compared over days.
        variation_permille: None,
        completions,
    };
    Measured::Bandwidth(stats, unpack_retransmits(retransmits))
}

/// Average, bits per second, without the rest.
pub(crate) fn bandwidth_figure(row: &BandwidthRow) -> u64 {
    whole(row[6], row[7])
}
