//! The matrix in few numbers, for metrics and medians: small ones are counted when somebody asks, large ones all the time and in portions,
//! so that no question waits for millions of cells.

use super::Coordinator;
use rdmascope_link::PairsBrief;
use rdmascope_localise::{CellState, EndpointIndex, Place, Places, Tally, WORST_PAIRS, Worst};
use rdmascope_model::{Metric, Mono, Now};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Up to so many pairs (256 endpoints) everything is counted at once, which takes a millisecond.
pub const COUNTED_AT_ONCE_MAX: usize = 65_536;
/// Pairs in a portion otherwise: two milliseconds.
const PORTION: usize = 262_144;
/// Between more pairs of nodes, or of leaves, nobody is told which is the worst.
const WORST_MAX: usize = 10_000;
/// Who is once among the worst pairs stays so long: each pair that comes is a new series for whoever keeps them.
const HELD_FOR: Duration = Duration::from_secs(600);
/// So often the worst pairs of a small matrix are looked for.
const HELD_EVERY: Duration = Duration::from_secs(15);

/// What was counted of a metric.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// The numbers. [`Tally::worst`] is between nodes, then between leaves, each only where they are few.
    pub tally: Tally,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Names of the leaves.
    pub leaves: Vec<String>,
}

/// What was counted last, and how far the next count is.
#[derive(Clone, Debug, Default)]
pub(super) struct Tallies {
    last: BTreeMap<Metric, Arc<Counted>>,
    /// Grows with each count that is put into `last`.
    made: u64,
    /// The metric, the first source that is not counted yet, and what is counted so far.
    under_way: Option<(Metric, u32, Counted)>,
    held: Vec<WorstPairs>,
    held_at: Option<Mono>,
}

/// Pairs of one rail that are the worst, or were so lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorstPairs {
    /// What was measured.
    pub metric: Metric,
    /// Rail, as [`rdmascope_localise::PairRail::name`].
    pub rail: String,
    /// The pairs, and since when each is here; at most [`WORST_PAIRS`].
    pub pairs: Vec<((EndpointIndex, EndpointIndex), Mono)>,
}

impl Tallies {
    fn keep(&mut self, metric: Metric, counted: Arc<Counted>, places: &Places, now: Mono) {
        self.hold(metric, &counted.tally, places, now);
        self.last.insert(metric, counted);
        self.made += 1;
    }

    /// Takes the worst pairs of a count over, each into a place that is free or whose pair has had it for long enough.
    fn hold(&mut self, metric: Metric, tally: &Tally, places: &Places, now: Mono) {
        let rails: Vec<_> = tally.worst_pairs().map(|(rail, pairs)| (rail.name(places), pairs)).collect();
        self.held.retain(|held| held.metric != metric || rails.iter().any(|(rail, _)| *rail == held.rail));
        for (rail, pairs) in rails {
            let of = |held: &WorstPairs| held.metric == metric && held.rail == rail;
            let at = self.held.iter().position(of).unwrap_or(self.held.len());
            if at == self.held.len() {
                self.held.push(WorstPairs { metric, rail: rail.to_owned(), pairs: Vec::new() });
            }
            let held = &mut self.held[at].pairs;
            let is_worst = |pair: &_| pairs.iter().any(|(_, worst)| worst == pair);
            held.retain(|(pair, since)| now.since(*since) < HELD_FOR || is_worst(pair));
            for (_, pair) in pairs {
                if held.len() < WORST_PAIRS && !held.iter().any(|(other, _)| other == pair) {
                    held.push((*pair, now));
                }
            }
        }
    }
}

impl Coordinator {
    /// The matrix of a metric in few numbers: as it is now where it is small, else as it was when it was last counted.
    #[must_use]
    pub fn counted(&self, metric: Metric, now: Now) -> Arc<Counted> {
        match self.tallies.last.get(&metric) {
            Some(last) if !self.is_counted_at_once() => Arc::clone(last),
            // A large one that nobody has counted yet has just begun to be one.
            _ if !self.is_counted_at_once() => Arc::default(),
            _ => {
                let mut counted = self.begin_count();
                self.count(metric, 0..u32::MAX, &mut counted.tally, now);
                Arc::new(counted)
            }
        }
    }

    /// The worst pairs of each rail, as they were last looked for.
    #[must_use]
    pub fn worst_pairs(&self) -> &[WorstPairs] {
        &self.tallies.held
    }

    fn is_counted_at_once(&self) -> bool {
        self.matrix.len() * self.matrix.len() <= COUNTED_AT_ONCE_MAX
    }

    /// Counts a portion of a large matrix. True when there is always more to count.
    pub fn count_on(&mut self, now: Now) -> bool {
        if self.is_counted_at_once() {
            self.tallies.under_way = None;
            if self.tallies.held_at.is_none_or(|at| now.mono.since(at) >= HELD_EVERY) {
                self.tallies.held_at = Some(now.mono);
                for metric in Metric::ALL {
                    let counted = self.counted(metric, now);
                    self.tallies.keep(metric, counted, &self.standing.places, now.mono);
                }
            }
            return false;
        }
        let under_way = self.tallies.under_way.take();
        let (metric, first, mut counted) =
            under_way.unwrap_or_else(|| (Metric::ALL[0], 0, self.begin_count()));
        let len = self.matrix.len();
        let end = first.saturating_add(u32::try_from((PORTION / len).max(1)).unwrap_or(u32::MAX));
        self.count(metric, first..end, &mut counted.tally, now);
        self.tallies.under_way = Some(if (end as usize) < len {
            (metric, end, counted)
        } else {
            self.tallies.keep(metric, Arc::new(counted), &self.standing.places, now.mono);
            let place = Metric::ALL.iter().position(|of| *of == metric).unwrap_or(0);
            (Metric::ALL[(place + 1) % Metric::ALL.len()], 0, self.begin_count())
        });
        true
    }

    /// How the pairs of a node's endpoints do, as they were counted last; nothing when its agent knows that count already.
    pub(super) fn pairs_of(&mut self, node: &str) -> Vec<PairsBrief> {
        let made = self.tallies.made;
        let Some(member) = self.members.agent_mut(node).filter(|member| member.pairs_told != made) else {
            return Vec::new();
        };
        member.pairs_told = made;
        let machine = member.machine.clone();
        let mut briefs = Vec::new();
        for index in self.members.on_machine(&machine) {
            let Some(endpoint) = self.members.endpoint(index).filter(|e| e.gone_since.is_none()) else {
                continue;
            };
            let name = &endpoint.info.name;
            if name.node != node {
                continue;
            }
            for (metric, counted) in &self.tallies.last {
                let ways = counted.tally.ends.get(index.0 as usize);
                for (outgoing, way) in [true, false].into_iter().zip(ways.into_iter().flatten()) {
                    let of = |state: CellState| way.pairs[state as usize];
                    let (fresh, stale, failed) =
                        (of(CellState::Fresh), of(CellState::Stale), of(CellState::Failed));
                    let worst = way.worst.map(NonZeroU64::get);
                    let (device, port, metric) = (name.device.clone(), name.port, *metric);
                    briefs.push(PairsBrief { device, port, metric, outgoing, fresh, stale, failed, worst });
                }
            }
        }
        briefs
    }

    fn begin_count(&self) -> Counted {
        let places = self.places();
        let groups = |of: fn(&Place) -> Option<u32>| places.of.iter().map(move |place| of(place.as_ref()?));
        let worst = |count: usize, of: fn(&Place) -> Option<u32>| {
            let few = count * count <= WORST_MAX;
            if few { Worst::between(count, groups(of).collect()) } else { Worst::default() }
        };
        let nodes = worst(places.nodes.len(), |place| Some(place.node.0));
        let leaves = worst(places.leaves.len(), |place| Some(place.leaf?.0));
        Counted {
            tally: Tally::with_worst(vec![nodes, leaves]),
            nodes: places.nodes.clone(),
            leaves: places.leaves.clone(),
        }
    }

    fn count(&self, metric: Metric, sources: Range<u32>, tally: &mut Tally, now: Now) {
        let shown = self.shown(now.wall);
        let expected = |source, target| shown.is_expected(metric, source, target);
        self.matrix.tally(metric, sources, self.places(), shown.lights(), expected, tally);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_localise::{Light, Matrix, Measured};
    use rdmascope_model::{CounterDelta, LatencyStats, Wall};

    /// The pairs from endpoint 0, of which those to `slow` are the slowest.
    fn tally(slow: Range<u32>) -> Tally {
        let mut matrix = Matrix::default();
        for number in 0..100 {
            matrix.intern(&format!("n{number}/d/1").parse().unwrap());
        }
        for target in 1..100 {
            let p50_ns = u64::from(target) + if slow.contains(&target) { 1_000_000 } else { 1_000 };
            let (p90_ns, max_ns, min_ns) = (p50_ns, p50_ns, p50_ns);
            let stats = LatencyStats {
                count: 9,
                min_ns,
                p50_ns,
                p90_ns,
                p99_ns: None,
                p999_ns: None,
                max_ns,
                host_delayed: 0,
            };
            let measured = Measured::Latency(stats, CounterDelta { retransmits: None });
            matrix.record(EndpointIndex(0), EndpointIndex(target), Wall(1), &measured);
        }
        let mut tally = Tally::default();
        let light = |_, _| Light { fresh_since: Wall(0), silenced: None, apart: false };
        matrix.tally(Metric::Latency, 0..100, &Places::default(), light, |_, _| false, &mut tally);
        tally
    }

    #[test]
    fn a_pair_among_the_worst_keeps_its_place_for_ten_minutes_and_their_number_ends() {
        let mut tallies = Tallies::default();
        let mut hold = |slow: Range<u32>, seconds: u64| {
            let now = Mono(0).after(Duration::from_secs(seconds));
            tallies.hold(Metric::Latency, &tally(slow), &Places::default(), now);
            let [held] = &tallies.held[..] else { panic!("{:?}", tallies.held) };
            let mut targets: Vec<u32> = held.pairs.iter().map(|((_, target), _)| target.0).collect();
            targets.sort_unstable();
            targets
        };
        let (first, second): (Vec<u32>, Vec<u32>) = ((1..21).collect(), (40..60).collect());
        assert_eq!(hold(1..21, 0), first);
        assert_eq!(hold(40..60, 599), first, "others are worse, and have to wait");
        assert_eq!(hold(40..60, 600), second);
        assert_eq!(hold(40..60, 9_000), second, "who still is the worst stays");
    }
}
