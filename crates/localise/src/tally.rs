//! A whole metric in few numbers: how many pairs are in which state, how old the oldest figure is, the median, and the worst pair of each
//! two nodes and leaves. A tally is made in portions of sources, so that nobody waits long for the matrix.

use crate::group::RAIL_SLOTS;
use crate::row::{self, Kind};
use crate::{CellState, EndpointIndex, Group, Light, Matrix, PairRail, Places, ping};
use rdmascope_model::{Metric, Wall};
use std::cmp::Reverse;
use std::num::NonZeroU64;
use std::ops::Range;

/// Pairs that are not ok, named at most, of each kind.
const NAMED_MAX: usize = 1_000;
/// The worst pairs that are named of each rail.
pub const WORST_PAIRS: usize = 20;
/// Bits of a figure that tell two apart.
const FIGURE_BITS: u32 = 12;

/// A source and a target.
type Pair = (EndpointIndex, EndpointIndex);

/// What is counted of a metric.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Ordered pairs by state, in the order of [`CellState::ALL`].
    pub pairs: [u64; CellState::ALL.len()],
    /// When the oldest figure was measured.
    pub oldest: Option<Wall>,
    /// Fresh figures by the host's clock are among them.
    pub software: bool,
    /// Fresh figures by the device's clock are among them.
    pub hardware: bool,
    /// The first pairs that failed, at most 1,000.
    pub failed: Vec<Pair>,
    /// The first pairs that are stale, at most 1,000.
    pub stale: Vec<Pair>,
    /// The worst fresh figure of each two groups (nodes, leaves) that were asked for.
    pub worst: Vec<Worst>,
    /// Ordered pairs by state, for each [`Group`] by its number; empty before the first pair.
    pub groups: Vec<[u64; CellState::ALL.len()]>,
    /// The pairs of each endpoint by its number: from it, and to it. Those behind the end have none.
    pub ends: Vec<[EndTally; 2]>,
    /// The fresh pairs with the worst figures of each rail, the worst first.
    top: Vec<Vec<(u64, Pair)>>,
    worst_of_all: WorstPairs,
    figures: Histogram,
}

impl Tally {
    /// Nothing counted yet; the worst figures between these groups are looked for.
    #[must_use]
    pub fn with_worst(worst: Vec<Worst>) -> Self {
        Self { worst, ..Self::default() }
    }

    /// Median of the fresh figures, the lower one of two; to 0.05 % where they are many and differ.
    #[must_use]
    pub fn median(&self) -> Option<u64> {
        self.figures.median()
    }

    /// The worst fresh pairs, at most 1,000, the worst first: of latency and pings the slowest, where one ping in a hundred that is lost
    /// counts as much as twice the time; of bandwidth the slowest.
    #[must_use]
    pub fn worst_of_all(&self) -> Vec<Pair> {
        let mut list = self.worst_of_all.list.clone();
        list.sort_unstable_by_key(|&(badness, pair)| (Reverse(badness), pair));
        list.into_iter().take(NAMED_MAX).map(|(_, pair)| pair).collect()
    }

    /// The pairs with the worst fresh figures of each rail that has some, the worst first, at most [`WORST_PAIRS`].
    pub fn worst_pairs(&self) -> impl Iterator<Item = (PairRail, &[(u64, Pair)])> {
        let rails = self.top.iter().enumerate().filter(|(_, pairs)| !pairs.is_empty());
        rails.map(|(slot, pairs)| (PairRail::of_slot(slot), pairs.as_slice()))
    }

    fn add(&mut self, state: CellState, group: Group, (source, target): Pair) {
        self.pairs[state as usize] += 1;
        let last = source.0.max(target.0) as usize;
        if self.ends.len() <= last {
            self.ends.resize(last + 1, Default::default());
        }
        self.ends[source.0 as usize][0].pairs[state as usize] += 1;
        self.ends[target.0 as usize][1].pairs[state as usize] += 1;
        if self.groups.is_empty() {
            self.groups.resize(Group::COUNT, Default::default());
        }
        self.groups[group.number()][state as usize] += 1;
    }

    /// Keeps a figure if it is among the worst of its rail.
    fn offer(&mut self, rail: PairRail, figure: u64, pair: Pair, smallest: bool) {
        if self.top.is_empty() {
            self.top.resize(RAIL_SLOTS, Vec::new());
        }
        let worst = &mut self.top[rail.slot()];
        let is_worse = |a: u64, b: u64| if smallest { a < b } else { a > b };
        if worst.len() == WORST_PAIRS && worst.last().is_none_or(|(last, _)| !is_worse(figure, *last)) {
            return;
        }
        let at = worst.partition_point(|(other, _)| !is_worse(figure, *other));
        worst.insert(at, (figure, pair));
        worst.truncate(WORST_PAIRS);
    }
}

/// The pairs of one endpoint in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndTally {
    /// By state, in the order of [`CellState::ALL`].
    pub pairs: [u32; CellState::ALL.len()],
    /// The largest fresh figure, or of bandwidth the smallest; `None` where nothing is fresh.
    pub worst: Option<NonZeroU64>,
}

impl EndTally {
    fn offer(&mut self, figure: NonZeroU64, smallest: bool) {
        let worst = self.worst.unwrap_or(figure);
        self.worst = Some(if smallest { worst.min(figure) } else { worst.max(figure) });
    }
}

/// The worst figure between each two groups of endpoints: the largest, or of bandwidth the smallest.
#[derive(Clone, Debug, Default)]
pub struct Worst {
    /// The group of each endpoint, by its number.
    groups: Vec<Option<u32>>,
    count: usize,
    /// Source by source; 0 where nothing is fresh.
    figures: Vec<u64>,
}

impl Worst {
    /// Between so many groups; `groups` says for each endpoint, by its number, in which it is.
    #[must_use]
    pub fn between(count: usize, groups: Vec<Option<u32>>) -> Self {
        Self { groups, count, figures: vec![0; count * count] }
    }

    /// (source group, target group, worst figure) where there is one.
    pub fn figures(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        let pairs = self.figures.iter().enumerate().filter(|(_, figure)| **figure > 0);
        pairs.map(|(at, &figure)| (at / self.count, at % self.count, figure))
    }

    fn add(&mut self, source: EndpointIndex, target: EndpointIndex, figure: u64, smallest: bool) {
        let group = |index: EndpointIndex| self.groups.get(index.0 as usize).copied().flatten();
        let (Some(from), Some(to)) = (group(source), group(target)) else { return };
        if let Some(worst) = self.figures.get_mut(from as usize * self.count + to as usize) {
            *worst = if smallest && *worst > 0 { figure.min(*worst) } else { figure.max(*worst) };
        }
    }
}

/// The worst pairs so far, and as many again that may turn out to be no worse.
#[derive(Clone, Debug, Default)]
struct WorstPairs {
    list: Vec<(u64, Pair)>,
    /// Who is no worse than this is not among them.
    least: u64,
}

impl WorstPairs {
    #[inline]
    fn add(&mut self, badness: u64, pair: Pair) {
        if badness > self.least {
            self.list.push((badness, pair));
            if self.list.len() == 2 * NAMED_MAX {
                self.cut();
            }
        }
    }

    fn cut(&mut self) {
        self.list.select_nth_unstable_by_key(NAMED_MAX - 1, |&(badness, pair)| (Reverse(badness), pair));
        self.list.truncate(NAMED_MAX);
        self.least = self.list.last().map_or(0, |(badness, _)| *badness);
    }
}

/// Figures by their first twelve bits: how many, and their sum. Up to 108,000 places for any figure there is, 16 bytes each.
#[derive(Clone, Debug, Default)]
struct Histogram {
    places: Vec<(u64, u64)>,
    count: u64,
}

impl Histogram {
    fn add(&mut self, figure: u64) {
        let excess = (u64::BITS - figure.leading_zeros()).saturating_sub(FIGURE_BITS);
        let place = ((excess as usize) << (FIGURE_BITS - 1)) + (figure >> excess) as usize;
        if self.places.len() <= place {
            self.places.resize(place + 1, (0, 0));
        }
        let (count, sum) = &mut self.places[place];
        *count += 1;
        *sum = sum.saturating_add(figure);
        self.count += 1;
    }

    fn median(&self) -> Option<u64> {
        let mut before = self.count.checked_sub(1)? / 2;
        for (count, sum) in &self.places {
            match before.checked_sub(*count) {
                Some(left) => before = left,
                None => return sum.checked_div(*count),
            }
        }
        None
    }
}

/// What a fresh cell counts as.
#[derive(Clone, Copy, Debug, Default)]
struct Figure {
    /// Its headline.
    value: Option<u64>,
    /// How bad that is among those of its metric.
    badness: u64,
    /// The device's clock stamped it.
    by_hardware: bool,
}

impl Figure {
    fn of(value: u64) -> Self {
        Self { value: Some(value), badness: value, by_hardware: false }
    }
}

/// What a tally needs to know beside the matrix.
struct Question<'a, L, E> {
    metric: Metric,
    places: &'a Places,
    light: L,
    expected: E,
}

impl Matrix {
    /// Adds the pairs of these sources to a tally, each as it is shown in its `light`. Of pairs that nothing is known of only those count
    /// that are `expected` to be measured. Figures between two rails say nothing about the worst of two nodes or leaves.
    pub fn tally(
        &self,
        metric: Metric,
        sources: Range<u32>,
        places: &Places,
        light: impl Fn(EndpointIndex, EndpointIndex) -> Light,
        expected: impl Fn(EndpointIndex, EndpointIndex) -> bool,
        tally: &mut Tally,
    ) {
        let question = &Question { metric, places, light, expected };
        let len = u32::try_from(self.len()).unwrap_or(u32::MAX);
        for source in (sources.start..sources.end.min(len)).map(EndpointIndex) {
            match metric {
                Metric::Latency => {
                    let figure = |row: &_| Figure::of(row::latency_figures(row).0);
                    self.tally_source(source, question, self.latency.from(source), figure, tally);
                }
                Metric::Bandwidth => {
                    let figure = |row: &_| {
                        let of = Figure::of(row::bandwidth_figure(row));
                        Figure { badness: of.value.map_or(0, |rate| u64::MAX - rate), ..of }
                    };
                    self.tally_source(source, question, self.bandwidth.from(source), figure, tally);
                }
                Metric::Ping => {
                    let figure = |row: &_| {
                        let packed = ping::figures_of(row);
                        let short = packed.in_short();
                        let of = short.network_p50_ns.map_or(Figure::default(), Figure::of);
                        let times = 1 + u64::from(short.lost * 100 / (short.answered + short.lost).max(1));
                        Figure { badness: of.badness * times, by_hardware: packed.by_hardware(), ..of }
                    };
                    self.tally_source(source, question, self.ping.from(source), figure, tally);
                }
            }
        }
    }

    /// `figure` says what a known row counts as.
    fn tally_source<'a, const WORDS: usize>(
        &'a self,
        source: EndpointIndex,
        question: &Question<
            '_,
            impl Fn(EndpointIndex, EndpointIndex) -> Light,
            impl Fn(EndpointIndex, EndpointIndex) -> bool,
        >,
        rows: impl Iterator<Item = (EndpointIndex, &'a [u32; WORDS])>,
        figure: impl Fn(&[u32; WORDS]) -> Figure,
        tally: &mut Tally,
    ) {
        let count = u32::try_from(self.len()).unwrap_or(u32::MAX);
        let from = question.places.place(source);
        let group = |target| Group::between(from, question.places.place(target));
        let never = |targets: Range<u32>, tally: &mut Tally| {
            let others = targets.map(EndpointIndex).filter(|&target| target != source);
            for target in others.filter(|&target| (question.expected)(source, target)) {
                let state = (question.light)(source, target).state(Kind::Never, Wall(0));
                tally.add(state, group(target), (source, target));
            }
        };
        let mut next = 0;
        for (target, row) in rows.take_while(|(target, _)| target.0 < count) {
            if row::kind(row) == Kind::Never || target == source {
                continue;
            }
            never(next..target.0, tally);
            next = target.0 + 1;
            let state = (question.light)(source, target).state(row::kind(row), row::at(row));
            tally.add(state, group(target), (source, target));
            if matches!(state, CellState::Fresh | CellState::Stale) {
                tally.oldest = Some(tally.oldest.map_or(row::at(row), |known| known.min(row::at(row))));
            }
            let pair = (source, target);
            match state {
                CellState::Failed if tally.failed.len() < NAMED_MAX => tally.failed.push(pair),
                CellState::Stale if tally.stale.len() < NAMED_MAX => tally.stale.push(pair),
                CellState::Fresh => tally.fresh(pair, figure(row), question.metric, group(target).rail),
                _ => {}
            }
        }
        never(next..count, tally);
    }
}

impl Tally {
    fn fresh(
        &mut self,
        (source, target): Pair,
        Figure { value, badness, by_hardware }: Figure,
        metric: Metric,
        rail: PairRail,
    ) {
        self.hardware |= by_hardware;
        self.software |= !by_hardware;
        let Some(figure) = value else { return };
        self.figures.add(figure);
        self.worst_of_all.add(badness, (source, target));
        let smallest = metric == Metric::Bandwidth;
        if let Some(figure) = NonZeroU64::new(figure) {
            self.ends[source.0 as usize][0].offer(figure, smallest);
            self.ends[target.0 as usize][1].offer(figure, smallest);
        }
        self.offer(rail, figure, (source, target), smallest);
        if rail != PairRail::Cross {
            self.worst.iter_mut().for_each(|worst| worst.add(source, target, figure, smallest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Measured, Place, PlaceIndex, median};
    use rdmascope_model::{
        BandwidthStats, Cause, CounterDelta, Exclusion, Failure, LatencyStats, PingCounts, Side, Step,
    };

    fn latency(p50_ns: u64) -> Measured {
        let stats = LatencyStats {
            count: 30,
            min_ns: p50_ns,
            p50_ns,
            p90_ns: p50_ns,
            p99_ns: None,
            p999_ns: None,
            max_ns: p50_ns,
            host_delayed: 0,
        };
        Measured::Latency(stats, CounterDelta { retransmits: None })
    }

    fn bandwidth(average_bps: u64) -> Measured {
        let stats = BandwidthStats {
            bytes: 1,
            duration_ns: 1,
            average_bps,
            worst_window_bps: None,
            variation_permille: None,
            completions: 1,
        };
        Measured::Bandwidth(stats, CounterDelta { retransmits: None })
    }

    /// So many endpoints, each on a node of its own but for the last two, which share one.
    fn matrix(count: u32) -> (Matrix, Places) {
        let mut matrix = Matrix::default();
        let of = (0..count).map(|i| {
            matrix.intern(&format!("n{i}/d/1").parse().unwrap());
            let node = PlaceIndex(i.min(count - 2));
            let rail = Some(PlaceIndex(i % 2));
            Some(Place { node, rail, leaf: None, pod: None, rate_bps: None })
        });
        let of = of.collect();
        (matrix, Places { of, ..Places::default() })
    }

    fn pair(source: u32, target: u32) -> (EndpointIndex, EndpointIndex) {
        (EndpointIndex(source), EndpointIndex(target))
    }

    /// At second 100, when figures older than a minute are stale; pairs from endpoint 0 are not expected.
    fn tally(matrix: &Matrix, places: &Places, metric: Metric, worst: Vec<Worst>) -> Tally {
        let mut tally = Tally { worst, ..Tally::default() };
        let count = matrix.len() as u32;
        for sources in [0..1, 1..count, count..count + 9] {
            let light = |_, _| Light { fresh_since: Wall(40_000), silenced: None, apart: false };
            matrix.tally(metric, sources, places, light, |source, _| source.0 > 0, &mut tally);
        }
        tally
    }

    #[test]
    fn every_pair_counts_once_in_its_state_and_what_is_not_expected_is_no_gap() {
        let (mut m, places) = matrix(70);
        let failure =
            Failure { cause: Cause::PortDown, step: Step::Open, side: Side::Source, evidence: String::new() };
        let [fresh, stale, failed, excluded] = [pair(0, 1), pair(0, 69), pair(69, 0), pair(64, 3)];
        m.record(fresh.0, fresh.1, Wall(99_000), &latency(1_000));
        m.record(stale.0, stale.1, Wall(10_000), &latency(9_000));
        m.fail(Metric::Latency, failed.0, failed.1, Wall(1), &failure);
        m.exclude(Metric::Latency, excluded.0, excluded.1, Wall(1), Exclusion::Busy);
        let seen = tally(&m, &places, Metric::Latency, Vec::new());
        assert_eq!(seen.pairs, [1, 1, 69 * 69 - 2, 1, 1]);
        assert_eq!(
            (seen.pairs[CellState::Stale as usize], seen.median(), seen.oldest),
            (1, Some(1_000), Some(Wall(10_000)))
        );
        assert_eq!(
            (seen.failed, seen.stale, seen.software, seen.hardware),
            (vec![failed], vec![stale], true, false)
        );
        let others =
            [Metric::Bandwidth, Metric::Ping].map(|metric| tally(&m, &places, metric, Vec::new()).pairs);
        assert_eq!(others, [[0, 0, 69 * 69, 0, 0]; 2]);
    }

    #[test]
    fn the_median_of_many_figures_is_that_of_a_list() {
        for scale in [1, 1_000, 25_000_000_000] {
            let mut figures = Histogram::default();
            let mut list: Vec<u64> = (1..10_000_u64).map(|i| i * i % 7_919 * scale + i).collect();
            list.iter().for_each(|&figure| figures.add(figure));
            let (seen, right) = (figures.median().unwrap(), median(&mut list).unwrap());
            assert!(seen.abs_diff(right) * 2_000 <= right, "{seen} instead of {right}");
        }
        for list in [vec![7], vec![21_001, 22_003], vec![9, 1, 5, 7], vec![400_000_000_123; 3]] {
            let mut figures = Histogram::default();
            list.iter().for_each(|&figure| figures.add(figure));
            assert_eq!(figures.median(), median(&mut list.clone()), "exact where they are few: {list:?}");
        }
        assert_eq!(Histogram::default().median(), None);
    }

    #[test]
    fn the_worst_pairs_are_the_slowest_and_those_that_lose_most_and_not_too_many() {
        let (mut m, places) = matrix(70);
        let all = (0..70).flat_map(|a| (0..70).map(move |b| pair(a, b))).filter(|(a, b)| a != b);
        for (number, (a, b)) in (0..).zip(all.clone()) {
            // In an order that is neither that of numbers nor its reverse.
            m.record(a, b, Wall(99_000), &latency(1_000 + number * 3_571 % 4_830));
        }
        let seen = tally(&m, &places, Metric::Latency, Vec::new()).worst_of_all();
        let figure = |&(a, b): &(EndpointIndex, EndpointIndex)| match m.cell(Metric::Latency, a, b) {
            crate::Cell::Known { measured, .. } => measured.headline().unwrap(),
            other => panic!("{other:?}"),
        };
        let figures: Vec<u64> = seen.iter().map(figure).collect();
        let mut right: Vec<u64> = all.map(|pair| figure(&pair)).collect();
        right.sort_unstable_by_key(|ns| Reverse(*ns));
        assert_eq!(figures, right[..NAMED_MAX]);
        let (mut m, places) = matrix(4);
        let usual = ping::tests::figures();
        let lossless = |ns| {
            let all = |c: PingCounts| PingCounts { answered: c.sent, late: 0, ..c };
            let network = Some(crate::Spread { p50_ns: ns, max_ns: ns });
            Measured::Ping(crate::PingFigures {
                small: all(usual.small),
                large: all(usual.large),
                network,
                ..usual
            })
        };
        // Two of 59 are lost: 3 %, which counts as four times the time.
        m.record(pair(0, 2).0, pair(0, 2).1, Wall(99_000), &Measured::Ping(usual));
        m.record(pair(1, 2).0, pair(1, 2).1, Wall(99_000), &lossless(11_000));
        m.record(pair(1, 3).0, pair(1, 3).1, Wall(99_000), &lossless(13_000));
        let seen = tally(&m, &places, Metric::Ping, Vec::new()).worst_of_all();
        assert_eq!(seen, [pair(1, 3), pair(0, 2), pair(1, 2)]);
        for (target, rate) in [(1, 9), (2, 3), (3, 7)] {
            m.record(EndpointIndex(0), EndpointIndex(target), Wall(99_000), &bandwidth(rate));
        }
        let seen = tally(&m, &places, Metric::Bandwidth, Vec::new()).worst_of_all();
        assert_eq!(seen, [pair(0, 2), pair(0, 3), pair(0, 1)], "of bandwidth the smallest is the worst");
    }

    #[test]
    fn pairs_are_counted_by_rail_and_distance_and_the_worst_of_each_rail_are_named() {
        let (mut m, places) = matrix(60);
        let failure =
            Failure { cause: Cause::PortDown, step: Step::Open, side: Side::Source, evidence: String::new() };
        for source in 0..60 {
            for target in (0..60).filter(|target| *target != source) {
                let (source, target) = pair(source, target);
                m.record(source, target, Wall(99_000), &latency(1_000 + u64::from(source.0)));
            }
        }
        m.fail(Metric::Latency, EndpointIndex(3), EndpointIndex(4), Wall(99_001), &failure);
        let seen = tally(&m, &places, Metric::Latency, Vec::new());
        let of = |rail, distance| seen.groups[Group { rail, distance }.number()];
        use crate::Distance::{Node, Unknown};
        // 30 endpoints on each rail, and the last two, one of each, share a node.
        assert_eq!(of(PairRail::Rail(0), Unknown), [30 * 29, 0, 0, 0, 0]);
        assert_eq!(of(PairRail::Cross, Unknown), [2 * 30 * 30 - 2 - 1, 0, 0, 1, 0]);
        assert_eq!(of(PairRail::Cross, Node), [2, 0, 0, 0, 0]);
        let counted: u64 = seen.groups.iter().flatten().sum();
        assert_eq!(counted, seen.pairs.iter().sum::<u64>(), "each once");
        let failed = |end: usize| seen.ends[end].map(|way| way.pairs[CellState::Failed as usize]);
        assert_eq!((failed(3), failed(4), failed(5)), ([1, 0], [0, 1], [0, 0]), "from it, to it");
        let way = |pairs, worst| EndTally { pairs, worst: NonZeroU64::new(worst) };
        assert_eq!(seen.ends[9], [way([59, 0, 0, 0, 0], 1_009), way([59, 0, 0, 0, 0], 1_059)]);
        let worst: Vec<_> = seen.worst_pairs().collect();
        assert_eq!(
            worst.iter().map(|(rail, _)| *rail).collect::<Vec<_>>(),
            [PairRail::Cross, PairRail::Rail(0), PairRail::Rail(1)]
        );
        for (rail, pairs) in worst {
            let first = if rail == PairRail::Rail(0) { 1_058 } else { 1_059 };
            assert_eq!((pairs.len(), pairs[0].0), (WORST_PAIRS, first), "{rail:?}");
            assert!(pairs.is_sorted_by(|a, b| a.0 >= b.0));
        }
    }

    #[test]
    fn the_worst_pair_of_two_nodes_is_one_of_a_rail() {
        let (mut m, places) = matrix(4);
        for (source, target, ns) in [(0, 2, 5), (0, 3, 99), (2, 0, 7), (3, 1, 8), (1, 3, 3)] {
            let (source, target) = pair(source, target);
            m.record(source, target, Wall(99_000), &latency(ns));
        }
        let nodes = places.of.iter().flatten().map(|place| Some(place.node.0)).collect();
        let seen = tally(&m, &places, Metric::Latency, vec![Worst::between(3, nodes)]);
        let worst: Vec<_> = seen.worst[0].figures().collect();
        assert_eq!(worst, [(0, 2, 5), (1, 2, 3), (2, 0, 7), (2, 1, 8)], "0 to 3 crosses rails");
    }
}
