//! What is usual in each tier, so that "slow" and "narrow" mean something: a two-way decomposition in log space.
//!
//! A figure of a pair is taken as tier + source + target + rest. The part of a source in a tier is the median of its row, and the tier is
//! the median of those (one step of Tukey's median polish; a second one moves nothing here). So half of the pairs of a tier may be slow,
//! as they are when one leaf of four is, and the tier stays where it was: most of its sources are well.

use super::count::{WINDOWS, Windows};
use super::layout::{Layout, TIERS};
use super::observe::ALONE_MIN;
use crate::row::{self, Kind};
use crate::{EndpointIndex, Matrix, ping};
use rdmascope_model::Wall;

/// Parts of an octave in which figures are compared: 0.27 % each.
pub(super) const PARTS: i32 = 256;
/// Fewer figures have no median that others could be held against.
const FIGURES_MIN: usize = 8;
/// A window of age with fewer is compared with all ages of the tier.
const WINDOW_FIGURES_MIN: usize = 32;
/// Rows that are looked at for what is usual: more sources move no median.
const SOURCES_MAX: usize = 256;
/// Slower than usual by so many scaled deviations, and by so much, is slow (matrix.md 4.3 has 3.5; medians of a few pings have heavier
/// tails than figures of whole probes, and in simulation 10 % and 3.5 found fewer faults, for more of what is usual was slow, too).
const DEVIATIONS: f64 = 4.0;
const SLOW_BY: f64 = 1.15;
/// The median of the hundred small pings that are measured again has half the noise of that of the mesh's two dozen; what differs from
/// pair to pair for good (the lengths of cables) is the same for both. Together six tenths are left, and not less than those lengths.
const SLOW_ALONE_BY: f64 = 1.10;
/// With fewer sources, what is usual and by how much they differ are guesses themselves, and limits are so many times as wide: in simulation
/// of 8 endpoints three of four false suspects were slow by hardly more than others (precision 92.0 % before and 95.7 % with this, the same
/// share of faults found).
const SOURCES_FEW: usize = 12;
const FEW_WIDER: f64 = 1.375;
/// Round trip in the network that no fabric has, nanoseconds: light goes 1,000 km of fibre and back in it.
const FAR_NS: u32 = 10_000_000;
/// A stream has less noise.
const NARROW_BY: f64 = 1.08;
/// Turns a median deviation into a standard deviation of the normal distribution.
const MAD_SCALE: f64 = 1.4826;
/// Share of the goodput ceiling that a stream must reach, wherever others are (matrix.md 3, row 8: 90 % is the field's limit).
const CEILING_SHARE: f64 = 0.90;

/// Binary logarithm in parts of an octave, by a parabola between powers of two: off by less than 0.6 %, the same way for all.
pub(crate) fn log(value: u64) -> i32 {
    let value = value.max(1);
    let octave = 63 - i32::try_from(value.leading_zeros()).unwrap_or(0);
    let mantissa = if octave >= 8 { value >> (octave - 8) } else { value << (8 - octave) };
    let part = i32::try_from(mantissa & 0xff).unwrap_or(0);
    octave * PARTS + part + part * (PARTS - part) * 88 / 65_536
}

pub(super) fn parts_of(ratio: f64) -> i32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a ratio of a few per cent up to a few fold: some hundreds"
    )]
    let parts = (ratio.log2() * f64::from(PARTS)).round() as i32;
    parts
}

/// The value below which so many hundredths lie.
pub(super) fn quantile(values: &mut [i32], hundredths: usize) -> Option<i32> {
    let at = values.len().checked_sub(1)? * hundredths / 100;
    Some(*values.select_nth_unstable(at).1)
}

/// What is usual in a tier.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usual {
    /// Parts of octaves.
    middle: i32,
    /// Distance from it that is out of the ordinary.
    limit: i32,
    known: bool,
}

/// The figures of one tier: those of each source, and what is left of them when its part is taken away.
#[derive(Clone, Debug, Default)]
struct Tier {
    /// Median of each source.
    sources: Vec<i32>,
    /// Window of age ([`WINDOWS`]: none), and figure.
    figures: Vec<(u8, i32)>,
    /// Distances from the source's median.
    rest: Vec<i32>,
    /// Of the source at hand, and the windows that it has figures of.
    row: Vec<i32>,
    in_row: [bool; WINDOWS],
    /// How many sources have figures of each window.
    sources_of: [usize; WINDOWS],
}

impl Tier {
    fn add(&mut self, window: usize, log: i32) {
        self.figures.push((u8::try_from(window).unwrap_or(0), log));
        self.row.push(log);
        if let Some(seen) = self.in_row.get_mut(window) {
            *seen = true;
        }
    }

    fn end_row(&mut self) {
        if let Some(middle) = quantile(&mut self.row, 50) {
            self.sources.push(middle);
            self.rest.extend(self.row.iter().map(|log| (log - middle).abs()));
            self.row.clear();
        }
        for (sources, seen) in self.sources_of.iter_mut().zip(std::mem::take(&mut self.in_row)) {
            *sources += usize::from(seen);
        }
    }

    fn usual(&mut self, least: f64) -> Usual {
        let (Some(middle), true) = (quantile(&mut self.sources, 50), self.figures.len() >= FIGURES_MIN)
        else {
            return Usual::default();
        };
        let mut between: Vec<i32> = self.sources.iter().map(|source| (source - middle).abs()).collect();
        let deviation = |parts: Option<i32>| f64::from(parts.unwrap_or(0)) * MAD_SCALE;
        let (within, between) =
            (deviation(quantile(&mut self.rest, 50)), deviation(quantile(&mut between, 50)));
        let wider = if self.sources.len() < SOURCES_FEW { FEW_WIDER } else { 1.0 };
        // Both ends have a part of their own.
        let spread = (within * within + between * between).sqrt() * DEVIATIONS;
        #[expect(clippy::cast_possible_truncation, reason = "at most the octaves of a figure")]
        let limit = parts_of(1.0 + (least - 1.0) * wider).max((spread * wider).round() as i32);
        Usual { middle, limit, known: true }
    }

    /// Each window by itself, since load comes and goes with time: by how far its lower quarter lies from that of all. The lower quarter
    /// and not the median, for a fault that has just begun may slow half of the newest figures. Half of the sources at least must have some:
    /// while one leaf's endpoints ping each other those of others may not, and were all that is new one slow leaf's, that would be usual.
    fn of_windows(&mut self) -> [Usual; WINDOWS] {
        let all = self.usual(SLOW_BY);
        let mut usual = [all; WINDOWS];
        let mut logs: Vec<i32> = self.figures.iter().map(|(_, log)| *log).collect();
        let Some(quarter) = quantile(&mut logs, 25) else { return usual };
        for (at, own) in usual.iter_mut().enumerate() {
            let mine = self.figures.iter().filter(|(window, _)| usize::from(*window) == at);
            let mut mine: Vec<i32> = mine.map(|(_, log)| *log).collect();
            if mine.len() >= WINDOW_FIGURES_MIN && 2 * self.sources_of[at] >= self.sources.len() {
                own.middle += quantile(&mut mine, 25).map_or(0, |own| own - quarter);
            }
        }
        usual
    }
}

/// The rows that have figures, with the number of their target and their time.
pub(super) fn known<'a, const WORDS: usize>(
    rows: impl Iterator<Item = (EndpointIndex, &'a [u32; WORDS])>,
) -> impl Iterator<Item = (usize, u64, &'a [u32; WORDS])> {
    let known = rows.filter(|(_, row)| row::kind(row) == Kind::Known);
    known.map(|(target, row)| (target.0 as usize, row::at(row).0, row))
}

/// All tiers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Yardstick {
    /// Round trips of pings by tier and clock, of each age.
    pings: Vec<[Usual; WINDOWS]>,
    latencies: Vec<Usual>,
    bandwidths: Vec<Usual>,
    /// Largest goodput of each endpoint, bits per second.
    ceilings: Vec<Option<u64>>,
}

impl Yardstick {
    /// Looks at the cells of some sources.
    pub(crate) fn new(
        matrix: &Matrix,
        layout: &Layout,
        ceilings: &[Option<u64>],
        windows: Windows,
        now: Wall,
        fresh_ms: u64,
    ) -> Self {
        let mut pings = vec![Tier::default(); 2 * TIERS];
        let (mut latencies, mut bandwidths) = (vec![Tier::default(); TIERS], vec![Tier::default(); TIERS]);
        let age = |at_ms: u64| {
            let age_ms = now.0.saturating_sub(at_ms);
            (at_ms > 0 && age_ms <= fresh_ms).then(|| windows.of(age_ms))
        };
        let every = layout.count.div_ceil(SOURCES_MAX).max(1);
        for source in layout.endpoints().step_by(every) {
            let a = source.0 as usize;
            let pair = |b: usize| b < layout.len && layout.is_pair(a, b);
            for (b, at, row) in known(matrix.ping.from(source)) {
                let figures = ping::figures_of(row);
                if let (Some(ns), Some(age), true) = (figures.network_p50_ns(), age(at), pair(b)) {
                    let tier = 2 * layout.tier(a, b) + usize::from(figures.by_hardware());
                    // Who is measured alone is suspected, and no fair sample of what is usual in a window.
                    let age = if figures.counts()[0].sent >= ALONE_MIN { WINDOWS } else { age };
                    pings[tier].add(age, log(ns.into()));
                }
            }
            for (b, at, row) in known(matrix.latency.from(source)) {
                if let (Some(age), true) = (age(at), pair(b)) {
                    latencies[layout.tier(a, b)].add(age, log(row::latency_p50(row).into()));
                }
            }
            for (b, at, row) in known(matrix.bandwidth.from(source)) {
                if let (Some(age), true) = (age(at), pair(b)) {
                    bandwidths[layout.tier(a, b)].add(age, log(row::bandwidth_figure(row)));
                }
            }
            pings.iter_mut().chain(&mut latencies).chain(&mut bandwidths).for_each(Tier::end_row);
        }
        Self {
            pings: pings.iter_mut().map(Tier::of_windows).collect(),
            latencies: latencies.iter_mut().map(|tier| tier.usual(SLOW_BY)).collect(),
            bandwidths: bandwidths.iter_mut().map(|tier| tier.usual(NARROW_BY)).collect(),
            ceilings: ceilings.to_vec(),
        }
    }

    /// `alone` for the median of many pings, measured by themselves.
    pub(crate) fn is_slow_ping(
        &self,
        (tier, hardware): (usize, bool),
        window: usize,
        alone: bool,
        ns: u32,
    ) -> bool {
        let Some(usual) = self.pings.get(2 * tier + usize::from(hardware)) else { return is_far(ns) };
        let mut usual = usual[window];
        if alone {
            usual.limit = (usual.limit * 6 / 10).max(parts_of(SLOW_ALONE_BY)).min(usual.limit);
        }
        is_far(ns) || is_above(usual, ns)
    }

    /// The usual round trip of a tier in a window, in the unit of [`log`].
    pub(crate) fn usual_ping(&self, (tier, hardware): (usize, bool), window: usize) -> Option<i32> {
        let usual = self.pings.get(2 * tier + usize::from(hardware))?[window];
        usual.known.then_some(usual.middle)
    }

    /// Slower than the longest cables make any of so many pairs.
    pub(crate) fn is_slow_pair(&self, (tier, hardware): (usize, bool), window: usize, ns: u32) -> bool {
        let usual = self.pings.get(2 * tier + usize::from(hardware)).map(|usual| usual[window]);
        is_far(ns) || usual.is_some_and(|usual| is_above(Usual { limit: usual.limit * 3 / 2, ..usual }, ns))
    }

    pub(crate) fn is_slow_latency(&self, tier: usize, ns: u32) -> bool {
        self.latencies.get(tier).is_some_and(|usual| is_above(*usual, ns))
    }

    /// Below its tier, or, where no design explains it, below the share of the ceiling.
    pub(crate) fn is_narrow(&self, tier: usize, (a, b): (usize, usize), bps: u64) -> bool {
        let usual = self.bandwidths.get(tier).copied().unwrap_or_default();
        let below = usual.known && log(bps) < usual.middle - usual.limit;
        let ceiling = |at: usize| self.ceilings.get(at).copied().flatten();
        let ceiling = ceiling(a).zip(ceiling(b)).map(|(a, b)| a.min(b));
        let share = parts_of(CEILING_SHARE);
        below || (Layout::is_near(tier) && ceiling.is_some_and(|most| log(bps) < log(most) + share))
    }
}

/// Slow wherever others are, and whatever the hosts do meanwhile.
pub(crate) fn is_far(ns: u32) -> bool {
    ns > FAR_NS
}

fn is_above(usual: Usual, ns: u32) -> bool {
    usual.known && log(ns.into()) > usual.middle + usual.limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_grow_with_their_value_and_are_right_within_a_hundredth() {
        let mut before = -1;
        for value in [1, 2, 3, 5, 9, 100, 1_000, 2_999, 3_000, 123_456, 400_000_000_000] {
            let exact = (value as f64).log2() * f64::from(PARTS);
            assert!((f64::from(log(value)) - exact).abs() < 4.0, "{value}: {} {exact}", log(value));
            assert!(log(value) > before);
            before = log(value);
        }
    }

    #[test]
    fn half_of_the_figures_of_a_tier_may_be_slow_and_it_stays_where_it_was() {
        let mut tier = Tier::default();
        for source in 0..32 {
            for target in (0..32).filter(|target| target / 8 != source / 8) {
                let slow = source / 8 == 1 || target / 8 == 1;
                tier.add(0, log(if slow { 7_500 } else { 5_000 + source + target }));
            }
            tier.end_row();
        }
        let usual = tier.of_windows()[0];
        assert!(is_above(usual, 7_500) && !is_above(usual, 5_300), "{usual:?}");
    }

    #[test]
    fn what_one_leaf_alone_shows_just_now_is_not_usual() {
        let mut tier = Tier::default();
        for source in 0..32 {
            (0..8).for_each(|target| tier.add(7, log(5_000 + source + target)));
            if source < 8 {
                (0..8).for_each(|target| tier.add(0, log(7_500 + source + target)));
            }
            tier.end_row();
        }
        assert!(is_above(tier.of_windows()[0], 7_500));
    }

    #[test]
    fn what_slows_everything_slows_nobody() {
        let mut tier = Tier::default();
        for source in 0..32 {
            (0..32).for_each(|target| tier.add(7, log(5_000 + source + target)));
            (0..2).for_each(|target| tier.add(0, log(7_500 + source + target)));
            tier.end_row();
        }
        let usual = tier.of_windows();
        assert!(is_above(usual[7], 7_500) && !is_above(usual[0], 7_500), "{usual:?}");
    }
}
