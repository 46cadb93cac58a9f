//! The cells of a few nodes' pairs in short: how many are fresh, who loses, who is slow against its tier.
//!
//! Row by row, so that whoever holds the matrix can let others at it in between.

use crate::{
    Cell, CellState, EndpointIndex, Matrix, Measured, PairEnds, Places, Tier, median, ping_verdicts,
};
use rdmascope_model::{Cause, Metric, Wall};
use std::collections::BTreeMap;
use std::time::Duration;

/// Cells that tiers' medians are made from: enough for a steady median, and milliseconds of work.
const SAMPLES_MAX: usize = 200_000;
/// Fewer fresh pairs than this in a tier are no yardstick.
const COMPARED_MIN: u64 = 8;
/// A pair is slow beyond its tier's median by so many deviations (a normal distribution has 1 in 2,000 there), ...
const DEVIATIONS: f64 = 3.5;
/// ... as told by the median of the deviations (1.4826 makes a standard deviation of it), ...
const OF_MEDIAN_DEVIATION: f64 = 1.4826;
/// ... and by this factor at least: the median of one batch of pings moves by so much in a quiet fabric with jobs.
const FACTOR_MIN: f64 = 1.25;
/// Pings that a pair must lose in one batch before it counts as lossy: one lost ping in thousands of pairs is the usual noise.
const LOST_MIN: u32 = 2;
/// Failed pairs that are named.
const FAILURES_MAX: usize = 3;

/// What is looked at.
#[derive(Clone, Copy)]
pub struct Sight<'a> {
    /// All cells.
    pub matrix: &'a Matrix,
    /// Where endpoints stand.
    pub places: &'a Places,
    /// How a pair's way through the network is measured continuously: pings, latency over connections, or not at all.
    pub metric_of: &'a dyn Fn(EndpointIndex, EndpointIndex) -> Option<Metric>,
    /// The time of the question.
    pub now: Wall,
    /// Figures older than this are stale.
    pub fresh_for: Duration,
}

/// The pair that is slowest against its tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorstPair {
    /// Source.
    pub source: EndpointIndex,
    /// Target.
    pub target: EndpointIndex,
    /// Its figure: nanoseconds, or bits per second.
    pub value: u64,
    /// The tier's median, in the same unit.
    pub median: u64,
    /// How many times slower than the median; below 1 where it is faster.
    pub slower: f64,
    /// Its tier.
    pub tier: Tier,
    /// Fresh pairs of the tier that the median is made from.
    pub compared: u64,
}

/// The pairs of one metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairFigures {
    /// Ordered pairs that are measured in this way.
    pub pairs: u64,
    /// Of these by state, in the order of [`CellState::ALL`].
    pub states: [u64; CellState::ALL.len()],
    /// When the oldest fresh one was measured.
    pub oldest: Option<Wall>,
    /// Fresh pairs that lose pings.
    pub lossy: u64,
    /// Pings lost, and pings that were answered or lost, of all fresh pairs.
    pub lost: (u64, u64),
    /// The pair that loses most, and the share.
    pub lossiest: Option<(EndpointIndex, EndpointIndex, f64)>,
    /// Fresh pairs whose time is spent inside a host.
    pub host_slow: u64,
    /// Fresh pairs that are slow against their tier.
    pub slow: u64,
    /// Fresh pairs of tiers that are large enough to compare.
    pub comparable: u64,
    /// The slowest of these.
    pub worst: Option<WorstPair>,
    /// Failed pairs for which the network can be to blame.
    pub no_way: u64,
    /// The first of them, else the first of the other failed ones.
    pub failures: Vec<(EndpointIndex, EndpointIndex, Cause)>,
}

impl PairFigures {
    /// Pairs in a state.
    #[must_use]
    pub fn count(&self, state: CellState) -> u64 {
        CellState::ALL.iter().zip(self.states).filter(|(of, _)| **of == state).map(|(_, count)| count).sum()
    }

    /// Share of pings that the fresh pairs lost; `None` where none were sent.
    #[must_use]
    pub fn loss_ratio(&self) -> Option<f64> {
        (self.lost.1 > 0).then(|| self.lost.0 as f64 / self.lost.1 as f64)
    }
}

#[derive(Clone, Copy, Debug)]
struct Yardstick {
    median: u64,
    /// Slower than the median by this factor is slow.
    factor: f64,
    compared: u64,
}

/// The pairs of a few nodes, being looked at: first [`Self::sample`] for every row, then [`Self::count`] for every row.
#[derive(Debug)]
pub struct JobPairs {
    own: Vec<EndpointIndex>,
    /// Where all are of one node: everybody else.
    others: Vec<EndpointIndex>,
    samples: BTreeMap<(Metric, Tier), Vec<u64>>,
    yardsticks: BTreeMap<(Metric, Tier), Yardstick>,
    figures: BTreeMap<Metric, PairFigures>,
}

impl JobPairs {
    /// The pairs among `own`; where `others` are given, the pairs between these and `own` instead.
    #[must_use]
    pub fn new(own: Vec<EndpointIndex>, others: Vec<EndpointIndex>) -> Self {
        let figures = Metric::ALL.map(|metric| (metric, PairFigures::default())).into();
        Self { own, others, samples: BTreeMap::new(), yardsticks: BTreeMap::new(), figures }
    }

    /// Rows that there are to look at.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.own.len() + self.others.len()
    }

    /// Takes figures of all pairs from one source into the medians of their tiers.
    pub fn sample(&mut self, sight: &Sight<'_>, row: usize) {
        let Some(&source) = self.own.get(row) else { return };
        let all = sight.matrix.len();
        let step = (all * self.own.len()).div_ceil(SAMPLES_MAX).max(1);
        for target in (row % step..all).step_by(step) {
            let target = EndpointIndex(u32::try_from(target).unwrap_or(u32::MAX));
            for metric in metrics(sight, source, target).into_iter().flatten() {
                let Some(tier) = sight.places.tier(source, target) else { continue };
                let Some(value) = fresh(sight, metric, source, target).and_then(|m| m.headline()) else {
                    continue;
                };
                self.samples.entry((metric, tier)).or_default().push(value);
            }
        }
    }

    /// Looks at the pairs of one row.
    pub fn count(&mut self, sight: &Sight<'_>, row: usize) {
        for (tier, mut values) in std::mem::take(&mut self.samples) {
            if let Some(yardstick) = yardstick(&mut values) {
                self.yardsticks.insert(tier, yardstick);
            }
        }
        let (source, targets) = match row.checked_sub(self.own.len()) {
            None if self.others.is_empty() => (self.own.get(row), &self.own),
            None => (self.own.get(row), &self.others),
            Some(row) => (self.others.get(row), &self.own),
        };
        let Some(&source) = source else { return };
        for &target in targets {
            for metric in metrics(sight, source, target).into_iter().flatten() {
                let figures = self.figures.entry(metric).or_default();
                pair(sight, &self.yardsticks, figures, (metric, source, target));
            }
        }
    }

    /// What was seen, by metric.
    #[must_use]
    pub fn figures(&self) -> &BTreeMap<Metric, PairFigures> {
        &self.figures
    }
}

/// The metrics that a pair is measured by; none for what is no pair.
fn metrics(sight: &Sight<'_>, source: EndpointIndex, target: EndpointIndex) -> [Option<Metric>; 2] {
    let network = (sight.metric_of)(source, target);
    [network, network.map(|_| Metric::Bandwidth)]
}

fn fresh(
    sight: &Sight<'_>,
    metric: Metric,
    source: EndpointIndex,
    target: EndpointIndex,
) -> Option<Measured> {
    let cell = sight.matrix.cell(metric, source, target);
    let is_fresh = cell.state(sight.now, sight.fresh_for) == CellState::Fresh;
    match cell {
        Cell::Known { measured, .. } if is_fresh => Some(measured),
        _ => None,
    }
}

fn yardstick(values: &mut [u64]) -> Option<Yardstick> {
    let compared = values.len() as u64;
    let median = median(values).filter(|median| *median > 0 && compared >= COMPARED_MIN)?;
    let mut apart: Vec<f64> =
        values.iter().map(|value| (*value.max(&1) as f64 / median as f64).ln().abs()).collect();
    apart.sort_by(f64::total_cmp);
    let deviation = apart.get(apart.len() / 2).copied().unwrap_or_default();
    let factor = (DEVIATIONS * OF_MEDIAN_DEVIATION * deviation).exp().max(FACTOR_MIN);
    Some(Yardstick { median, factor, compared })
}

fn pair(
    sight: &Sight<'_>,
    yardsticks: &BTreeMap<(Metric, Tier), Yardstick>,
    figures: &mut PairFigures,
    (metric, source, target): (Metric, EndpointIndex, EndpointIndex),
) {
    let cell = sight.matrix.cell(metric, source, target);
    let tier = sight.places.tier(source, target);
    // Between rails a few pairs are sampled: what was never measured there is no gap.
    if cell == Cell::Never && tier.is_some_and(|tier| !tier.same_rail) {
        return;
    }
    let state = cell.state(sight.now, sight.fresh_for);
    figures.pairs += 1;
    CellState::ALL.iter().zip(&mut figures.states).filter(|(of, _)| **of == state).for_each(|(_, n)| *n += 1);
    match cell {
        Cell::Known { at, measured } if state == CellState::Fresh => {
            figures.oldest = Some(figures.oldest.map_or(at, |oldest| oldest.min(at)));
            if let Measured::Ping(pings) = &measured {
                ping(figures, pings, source, target);
            }
            let yardstick = tier.and_then(|tier| Some((tier, yardsticks.get(&(metric, tier))?)));
            if let Some(((tier, yardstick), value)) = yardstick.zip(measured.headline()) {
                compare(figures, *yardstick, (metric, source, target), (tier, value));
            }
        }
        Cell::Failed { failure, .. } => failed(figures, source, target, failure.cause),
        Cell::Known { .. } | Cell::Never | Cell::Excluded { .. } => {}
    }
}

fn ping(figures: &mut PairFigures, pings: &crate::PingFigures, source: EndpointIndex, target: EndpointIndex) {
    let (lost, answered) = (pings.lost(), pings.answered());
    figures.lost.0 += u64::from(lost);
    figures.lost.1 += u64::from(lost) + u64::from(answered);
    if lost >= LOST_MIN {
        figures.lossy += 1;
        let share = f64::from(lost) / f64::from(lost + answered);
        if figures.lossiest.is_none_or(|(.., most)| most < share) {
            figures.lossiest = Some((source, target, share));
        }
    }
    let nobody = PairEnds { source: "", target: "", source_mtu: None, target_mtu: None };
    figures.host_slow +=
        u64::from(ping_verdicts(pings, &nobody).iter().any(|verdict| verdict.id == "host-delayed"));
}

fn compare(
    figures: &mut PairFigures,
    yardstick: Yardstick,
    (metric, source, target): (Metric, EndpointIndex, EndpointIndex),
    (tier, value): (Tier, u64),
) {
    let (value_of, median) = (value.max(1) as f64, yardstick.median as f64);
    let slower = if metric == Metric::Bandwidth { median / value_of } else { value_of / median };
    figures.comparable += 1;
    figures.slow += u64::from(slower > yardstick.factor);
    if figures.worst.is_none_or(|worst| worst.slower < slower) {
        let Yardstick { median, compared, .. } = yardstick;
        figures.worst = Some(WorstPair { source, target, value, median, slower, tier, compared });
    }
}

fn failed(figures: &mut PairFigures, source: EndpointIndex, target: EndpointIndex, cause: Cause) {
    let no_way = is_the_networks(cause);
    figures.no_way += u64::from(no_way);
    let known_first = figures.failures.iter().filter(|(.., known)| is_the_networks(*known)).count();
    if no_way {
        figures.failures.insert(known_first, (source, target, cause));
        figures.failures.truncate(FAILURES_MAX);
    } else if figures.failures.len() < FAILURES_MAX {
        figures.failures.push((source, target, cause));
    }
}

/// Causes for which something between the two ends can be to blame; all others lie with a host, an agent or the question.
fn is_the_networks(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::NoRoute
            | Cause::MtuMismatch
            | Cause::PathMtu
            | Cause::RetryExceeded
            | Cause::NoFirstByte
            | Cause::Stalled
            | Cause::PathLost
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ping::tests::figures as ping_figures;
    use crate::{PingFigures, Place, PlaceIndex, Spread};
    use rdmascope_model::{Failure, PingCounts, Side, Step};

    const NOW: Wall = Wall(1_000_000);

    /// Endpoints, one on each node, all on one leaf.
    fn cluster(count: u32) -> (Matrix, Places) {
        let mut matrix = Matrix::default();
        let mut places = Places::default();
        for number in 0..count {
            matrix.intern(&format!("n{number}/d/1").parse().unwrap());
            let leaf = Some(PlaceIndex(0));
            places.of.push(Some(Place {
                node: PlaceIndex(number),
                rail: None,
                leaf,
                pod: None,
                rate_bps: Some(100),
            }));
        }
        (matrix, places)
    }

    fn pings(p50_ns: u64, lost: u32) -> PingFigures {
        let counts = PingCounts { payload_bytes: 64, sent: 40, answered: 40 - lost, ..PingCounts::default() };
        PingFigures {
            small: counts,
            large: PingCounts::default(),
            network: Some(Spread { p50_ns, max_ns: p50_ns }),
            host_delayed: 0,
            ..ping_figures()
        }
    }

    fn fill(matrix: &mut Matrix, count: u32, of: impl Fn(u32, u32) -> Option<PingFigures>) {
        for (source, target) in
            (0..count).flat_map(|a| (0..count).map(move |b| (a, b))).filter(|(a, b)| a != b)
        {
            if let Some(figures) = of(source, target) {
                matrix.record(EndpointIndex(source), EndpointIndex(target), NOW, &Measured::Ping(figures));
            }
        }
    }

    fn look(matrix: &Matrix, places: &Places, own: &[u32], others: &[u32], now: Wall) -> PairFigures {
        let metric_of = |a: EndpointIndex, b: EndpointIndex| (a != b).then_some(Metric::Ping);
        let fresh_for = Duration::from_secs(60);
        let sight = Sight { matrix, places, metric_of: &metric_of, now, fresh_for };
        let indices = |of: &[u32]| of.iter().copied().map(EndpointIndex).collect();
        let mut job = JobPairs::new(indices(own), indices(others));
        (0..job.rows()).for_each(|row| job.sample(&sight, row));
        (0..job.rows()).for_each(|row| job.count(&sight, row));
        job.figures()[&Metric::Ping].clone()
    }

    #[test]
    fn only_the_pairs_among_the_nodes_count_and_the_whole_tier_is_the_yardstick() {
        let (mut matrix, places) = cluster(16);
        // Everybody else is at 3 µs; the two that are asked for are at 6 µs towards each other.
        fill(&mut matrix, 16, |a, b| Some(pings(if a < 2 && b < 2 { 6_000 } else { 3_000 }, 0)));
        let seen = look(&matrix, &places, &[0, 1], &[], NOW);
        assert_eq!((seen.pairs, seen.count(CellState::Fresh), seen.slow, seen.lossy), (2, 2, 2, 0));
        let worst = seen.worst.unwrap();
        assert_eq!((worst.value, worst.median, worst.compared), (6_000, 3_000, 30));
        assert!((worst.slower - 2.0).abs() < 1e-9);
        let fine = look(&matrix, &places, &[2, 3, 4], &[], NOW);
        assert_eq!((fine.pairs, fine.slow), (6, 0));
        let alone = look(&matrix, &places, &[0], &(1..16).collect::<Vec<_>>(), NOW);
        assert_eq!((alone.pairs, alone.slow), (30, 2), "one node is looked at towards everybody, both ways");
    }

    #[test]
    fn what_is_old_or_was_never_measured_is_no_health() {
        let (mut matrix, places) = cluster(4);
        fill(&mut matrix, 4, |a, _| (a < 2).then(|| pings(3_000, 0)));
        let seen = look(&matrix, &places, &[0, 1, 2, 3], &[], NOW);
        assert_eq!((seen.count(CellState::Fresh), seen.count(CellState::Never)), (6, 6));
        assert_eq!((seen.comparable, seen.worst), (0, None), "six pairs are no yardstick");
        let later = look(&matrix, &places, &[0, 1, 2, 3], &[], Wall(NOW.0 + 61_000));
        assert_eq!((later.count(CellState::Fresh), later.count(CellState::Stale)), (0, 6));
        assert_eq!(later.oldest, None);
    }

    #[test]
    fn one_lost_ping_is_noise_and_two_of_a_pair_are_a_loss() {
        let (mut matrix, places) = cluster(8);
        fill(&mut matrix, 8, |a, b| {
            Some(pings(3_000, if (a, b) == (0, 1) { 10 } else { u32::from(a == 2) }))
        });
        let seen = look(&matrix, &places, &(0..8).collect::<Vec<_>>(), &[], NOW);
        assert_eq!((seen.lossy, seen.lost), (1, (17, 56 * 40)));
        assert_eq!(seen.lossiest, Some((EndpointIndex(0), EndpointIndex(1), 0.25)));
    }

    #[test]
    fn a_pair_without_an_answer_is_the_networks_and_one_whose_agent_is_gone_is_not() {
        let (mut matrix, places) = cluster(3);
        let failure =
            |cause| Failure { cause, step: Step::FirstByte, side: Side::Source, evidence: String::new() };
        let mut fail = |a, b, cause| {
            assert!(matrix.fail(Metric::Ping, EndpointIndex(a), EndpointIndex(b), NOW, &failure(cause)));
        };
        fail(0, 1, Cause::AgentGone);
        fail(0, 2, Cause::NoFirstByte);
        let seen = look(&matrix, &places, &[0, 1, 2], &[], NOW);
        assert_eq!((seen.count(CellState::Failed), seen.no_way), (2, 1));
        let named: Vec<_> = seen.failures.iter().map(|(_, target, cause)| (target.0, *cause)).collect();
        assert_eq!(named, [(2, Cause::NoFirstByte), (1, Cause::AgentGone)]);
    }

    #[test]
    fn pairs_between_rails_that_nobody_measures_are_no_gap() {
        let (mut matrix, mut places) = cluster(4);
        for (number, place) in places.of.iter_mut().enumerate() {
            place.as_mut().unwrap().rail = Some(PlaceIndex(number as u32 % 2));
        }
        fill(&mut matrix, 4, |a, b| (a % 2 == b % 2).then(|| pings(3_000, 0)));
        let seen = look(&matrix, &places, &[0, 1, 2, 3], &[], NOW);
        assert_eq!((seen.pairs, seen.count(CellState::Fresh)), (4, 4));
    }
}
