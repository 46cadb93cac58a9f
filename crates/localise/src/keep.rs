//! The cells of one source as bytes, to be kept over a restart: rows as they lie in memory, and the texts that they hold.
//!
//! | bytes | what |
//! | --- | --- |
//! | u32 | metric: 1 latency, 2 bandwidth, 3 pings |
//! | u32 | number of the source |
//! | u32 | how many rows |
//! | u32 + words of the row × u32, for each | number of the target, then the row |
//! | u32 + u32 + text, until the end | number of a text in those rows, its length, the text |
//!
//! All numbers are little-endian. Exclusions are not kept: they speak of the moment.

use crate::matrix::write;
use crate::row::{self, Kind, REASON, TEXT};
use crate::texts::{NO_TEXT, Texts};
use crate::{EndpointIndex, Matrix, Measured, ping};
use rdmascope_model::{Metric, Wall};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What was measured before this coordinator began is dated by another clock, or by this one before it was set. A time that lies further
/// ahead than this says nothing of an age; up to this, a cell looks newer than it is by at most as much, the shortest time one is fresh for.
pub const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(60);

/// What was kept cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptError(pub(crate) &'static str);

impl std::fmt::Display for KeptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the kept cells of a source {}", self.0)
    }
}

impl std::error::Error for KeptError {}

pub(crate) const CUT: KeptError = KeptError("are cut short");
const METRICS: [(u32, Metric); 3] = [(1, Metric::Latency), (2, Metric::Bandwidth), (3, Metric::Ping)];

impl Matrix {
    /// Appends what is known of the pairs from one source to the first `endpoints`; nothing when that is nothing.
    pub fn keep(&self, metric: Metric, source: EndpointIndex, endpoints: u32, out: &mut Vec<u8>) {
        let start = out.len();
        let number = METRICS.iter().find(|(_, of)| *of == metric).map_or(0, |(number, _)| *number);
        [number, source.0, 0].iter().for_each(|word| out.extend(word.to_le_bytes()));
        let (count, texts) = match metric {
            Metric::Latency => keep_rows(self.latency.from(source), endpoints, out),
            Metric::Bandwidth => keep_rows(self.bandwidth.from(source), endpoints, out),
            Metric::Ping => keep_rows(self.ping.from(source), endpoints, out),
        };
        if count == 0 {
            return out.truncate(start);
        }
        out[start + 8..start + 12].copy_from_slice(&count.to_le_bytes());
        for number in texts {
            let text = self.texts.get(number);
            out.extend(number.to_le_bytes());
            out.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
            out.extend(text.as_bytes());
        }
    }

    /// Takes back what [`Self::keep`] wrote, where nothing newer is there. `numbers` says who had which number then. Answers how many
    /// cells were taken; one that makes no sense is left out, and so is one from far ahead ([`CLOCK_AHEAD_MAX`]); none gets a time after `now`.
    ///
    /// # Errors
    /// The bytes are not what was written.
    pub fn take_back(
        &mut self,
        kept: &[u8],
        numbers: &[EndpointIndex],
        now: Wall,
    ) -> Result<usize, KeptError> {
        let mut rest = kept;
        let [metric, source, count] = [word(&mut rest)?, word(&mut rest)?, word(&mut rest)?];
        let metric = METRICS.iter().find(|(number, _)| *number == metric).map(|(_, metric)| *metric);
        let metric = metric.ok_or(KeptError("are of an unknown metric"))?;
        let source = *numbers.get(source as usize).ok_or(KeptError("have an unknown source"))?;
        let taking = Taking { rest, count, source, numbers, now };
        let taken = match metric {
            Metric::Latency => {
                let put = |target, row, texts: &mut _| write(self.latency.slot(source, target), row, texts);
                taking.all(&mut self.texts, sound_latency, put)?
            }
            Metric::Bandwidth => {
                let put = |target, row, texts: &mut _| write(self.bandwidth.slot(source, target), row, texts);
                taking.all(&mut self.texts, sound_bandwidth, put)?
            }
            Metric::Ping => {
                let put = |target, row, texts: &mut _| write(self.ping.slot(source, target), row, texts);
                taking.all(&mut self.texts, sound_pings, put)?
            }
        };
        self.touch();
        Ok(taken)
    }
}

fn keep_rows<'a, const WORDS: usize>(
    rows: impl Iterator<Item = (EndpointIndex, &'a [u32; WORDS])>,
    endpoints: u32,
    out: &mut Vec<u8>,
) -> (u32, BTreeSet<u32>) {
    let (mut count, mut held) = (0, BTreeSet::new());
    for (target, row) in rows.take_while(|(target, _)| target.0 < endpoints) {
        if !matches!(row::kind(row), Kind::Known | Kind::Failed) {
            continue;
        }
        count += 1;
        if row::text_of(row) != NO_TEXT {
            held.insert(row::text_of(row));
        }
        out.extend(target.0.to_le_bytes());
        row.iter().for_each(|word| out.extend(word.to_le_bytes()));
    }
    (count, held)
}

fn word(rest: &mut &[u8]) -> Result<u32, KeptError> {
    let (four, behind) = rest.split_first_chunk().ok_or(CUT)?;
    *rest = behind;
    Ok(u32::from_le_bytes(*four))
}

/// So many targets with their rows, as bytes.
fn lines<'a, const WORDS: usize>(rest: &mut &'a [u8], count: u32) -> Result<Lines<'a, WORDS>, KeptError> {
    let bytes = (count as usize).checked_mul(4 + 4 * WORDS).ok_or(CUT)?;
    let (lines, behind) = rest.split_at_checked(bytes).ok_or(CUT)?;
    *rest = behind;
    Ok(Lines(lines))
}

struct Lines<'a, const WORDS: usize>(&'a [u8]);

impl<const WORDS: usize> Iterator for Lines<'_, WORDS> {
    type Item = (u32, [u32; WORDS]);

    fn next(&mut self) -> Option<Self::Item> {
        let target = word(&mut self.0).ok()?;
        let mut row = [0; WORDS];
        for place in &mut row {
            *place = word(&mut self.0).ok()?;
        }
        Some((target, row))
    }
}

fn texts(mut rest: &[u8]) -> Result<BTreeMap<u32, &str>, KeptError> {
    let mut texts = BTreeMap::new();
    while !rest.is_empty() {
        let (number, length) = (word(&mut rest)?, word(&mut rest)?);
        let (text, behind) = rest.split_at_checked(length as usize).ok_or(CUT)?;
        texts.insert(number, std::str::from_utf8(text).map_err(|_| KeptError("have a text that is none"))?);
        rest = behind;
    }
    Ok(texts)
}

/// What is behind the head of kept cells, and whose they are.
struct Taking<'a> {
    rest: &'a [u8],
    count: u32,
    source: EndpointIndex,
    numbers: &'a [EndpointIndex],
    now: Wall,
}

impl Taking<'_> {
    fn all<const WORDS: usize>(
        mut self,
        known_texts: &mut Texts,
        sound: impl Fn(&[u32; WORDS]) -> bool,
        mut put: impl FnMut(EndpointIndex, [u32; WORDS], &mut Texts) -> bool,
    ) -> Result<usize, KeptError> {
        let lines = lines(&mut self.rest, self.count)?;
        let kept_texts = texts(self.rest)?;
        let mut taken = 0;
        for (target, mut row) in lines {
            let Some(&target) = self.numbers.get(target as usize) else { continue };
            let ageless = row::at(&row).since(self.now) > CLOCK_AHEAD_MAX;
            if target == self.source || ageless || !sound(&row) {
                continue;
            }
            let [low, high, ..] = row::stamped::<2>(row::kind(&row), row::at(&row).min(self.now));
            (row[0], row[1]) = (low, high);
            if row::text_of(&row) != NO_TEXT {
                row[TEXT] = known_texts.keep(kept_texts.get(&row[TEXT]).copied().unwrap_or_default());
            }
            taken += usize::from(put(target, row, known_texts));
        }
        Ok(taken)
    }
}

/// It is a failure with a cause, or its figures are some.
fn is_sound<const WORDS: usize>(row: &[u32; WORDS], figures: impl Fn() -> bool) -> bool {
    match row::kind(row) {
        Kind::Known => figures(),
        Kind::Failed => row::unpack_reason(row[REASON]).is_some(),
        Kind::Never | Kind::Excluded => false,
    }
}

fn sound_latency(row: &row::LatencyRow) -> bool {
    let figures = || match row::unpack_latency(row) {
        Measured::Latency(s, _) => {
            s.count > 0 && s.min_ns <= s.p50_ns && s.p50_ns <= s.p90_ns && s.p90_ns <= s.max_ns
        }
        Measured::Bandwidth(..) | Measured::Ping(_) => false,
    };
    is_sound(row, figures)
}

fn sound_bandwidth(row: &row::BandwidthRow) -> bool {
    let figures = || match row::unpack_bandwidth(row) {
        Measured::Bandwidth(s, _) => s.completions > 0 && s.duration_ns > 0 && s.average_bps > 0,
        Measured::Latency(..) | Measured::Ping(_) => false,
    };
    is_sound(row, figures)
}

fn sound_pings(row: &ping::PingRow) -> bool {
    let packed = ping::figures_of(row);
    let sent = packed.in_short().sent > 0;
    let sound = if ping::silent_batch(row).is_some() { sent } else { is_sound(row, || sent) };
    sound && packed.flaw().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cell;
    use rdmascope_model::{
        BandwidthStats, Cause, CounterDelta, Exclusion, Failure, LatencyStats, PackedPings, Side, Step,
    };

    fn matrix(names: &[&str]) -> (Matrix, Vec<EndpointIndex>) {
        let mut matrix = Matrix::default();
        let numbers = names.iter().map(|name| matrix.intern(&format!("{name}/d/1").parse().unwrap()));
        let numbers = numbers.collect();
        (matrix, numbers)
    }

    /// Something of every kind, from "a" to the others.
    fn filled() -> (Matrix, Vec<EndpointIndex>) {
        let (mut m, at) = matrix(&["a", "b", "c", "d", "e"]);
        let none = CounterDelta { retransmits: None };
        let latency = LatencyStats {
            count: 30,
            min_ns: 1,
            p50_ns: 2,
            p90_ns: 3,
            p99_ns: None,
            p999_ns: None,
            max_ns: 4,
            host_delayed: 0,
        };
        let bandwidth = BandwidthStats {
            bytes: 1 << 40,
            duration_ns: 1,
            average_bps: 5,
            worst_window_bps: Some(3),
            variation_permille: None,
            completions: 9,
        };
        let failure = |evidence: &str| Failure {
            cause: Cause::PortDown,
            step: Step::Admit,
            side: Side::Target,
            evidence: evidence.to_owned(),
        };
        m.record(at[0], at[1], Wall(10), &Measured::Latency(latency, none));
        m.record(at[0], at[1], Wall(11), &Measured::Bandwidth(bandwidth, none));
        m.record(at[0], at[1], Wall(12), &Measured::Ping(ping::tests::figures()));
        for metric in Metric::ALL {
            m.fail(metric, at[0], at[2], Wall(13), &failure("state DOWN"));
            m.fail(metric, at[0], at[3], Wall(14), &failure(""));
            m.exclude(metric, at[0], at[4], Wall(15), Exclusion::Busy);
        }
        m.record_silence(at[0], at[3], Wall(16), PackedPings::pack(&ping::tests::silent(9)), 7);
        (m, at)
    }

    fn parts(m: &Matrix, source: EndpointIndex) -> Vec<Vec<u8>> {
        let part = |metric| {
            let mut out = Vec::new();
            m.keep(metric, source, 99, &mut out);
            out
        };
        Metric::ALL.map(part).to_vec()
    }

    #[test]
    fn figures_and_failures_come_back_to_whoever_has_the_names_now() {
        let (before, at) = filled();
        // Others were known first this time, and "c" is not known any more.
        let (mut after, now) = matrix(&["x", "e", "d", "b", "a"]);
        let numbers = [now[4], now[3], now[0], now[2], now[1]];
        let taken: Vec<_> = parts(&before, at[0])
            .iter()
            .map(|part| after.take_back(part, &numbers, Wall(99)).unwrap())
            .collect();
        assert_eq!(taken, [3, 3, 3]);
        for metric in Metric::ALL {
            for other in 1..4 {
                let was = before.cell(metric, at[0], at[other]);
                assert_eq!(after.cell(metric, numbers[0], numbers[other]), was, "{metric} {other}");
                assert!(!matches!(was, Cell::Never));
            }
            assert_eq!(
                after.cell(metric, numbers[0], numbers[4]),
                Cell::Never,
                "exclusions speak of the moment"
            );
        }
        assert!(parts(&before, at[1]).iter().all(Vec::is_empty));
    }

    #[test]
    fn what_is_newer_stays_and_nothing_gets_a_time_to_come() {
        let (before, at) = filled();
        let (mut after, numbers) = filled();
        after.exclude(Metric::Latency, at[0], at[1], Wall(20), Exclusion::Busy);
        for part in parts(&before, at[0]) {
            assert_eq!(after.take_back(&part, &numbers, Wall(99)), Ok(0), "all of it is known");
        }
        let (mut early, numbers) = matrix(&["a", "b", "c", "d", "e"]);
        early.take_back(&parts(&before, at[0])[0], &numbers, Wall(5)).unwrap();
        assert_eq!(early.cell(Metric::Latency, numbers[0], numbers[1]).at(), Some(Wall(5)));
        // The clock was an hour ahead when it was kept, and has been put right: it may be of any age.
        let hour = 3_600_000;
        let (mut ahead, of) = matrix(&["a", "b"]);
        let (cause, step, side) = (Cause::PortDown, Step::Admit, Side::Target);
        let failure = Failure { cause, step, side, evidence: String::new() };
        assert!(ahead.fail(Metric::Latency, of[0], of[1], Wall(hour), &failure));
        let (mut later, numbers) = matrix(&["a", "b"]);
        assert_eq!(later.take_back(&parts(&ahead, of[0])[0], &numbers, Wall(5)), Ok(0));
        assert_eq!(later.take_back(&parts(&ahead, of[0])[0], &numbers, Wall(hour - 60_000)), Ok(1));
    }

    #[test]
    fn bytes_that_are_damaged_are_an_error_or_leave_cells_out_and_never_panic() {
        let (before, at) = filled();
        for part in parts(&before, at[0]) {
            for cut in 0..part.len() {
                let (mut after, numbers) = matrix(&["a", "b", "c", "d", "e"]);
                let _ = after.take_back(&part[..cut], &numbers, Wall(99));
                let mut bad = part.clone();
                bad[cut] ^= 0x55;
                let _ = after.take_back(&bad, &numbers, Wall(99));
                for metric in Metric::ALL {
                    numbers.iter().for_each(|&target| drop(after.cell(metric, numbers[0], target)));
                }
            }
            let (mut after, numbers) = matrix(&["a", "b"]);
            assert!(
                after.take_back(&part[..part.len() - 1], &numbers, Wall(99)).is_err()
                    || part.ends_with(b"\0")
            );
            assert!(after.take_back(&[], &numbers, Wall(99)).is_err());
        }
    }
}
