//! The matrix in few numbers, for metrics and medians: small ones are counted when somebody asks, large ones all the time and in portions,
//! so that no question waits for millions of cells.

use super::Coordinator;
use rdmascope_localise::{EndpointIndex, Tally, Worst};
use rdmascope_model::{Fabric, Metric, Now};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Up to so many pairs (256 endpoints) everything is counted at once, which takes a millisecond.
pub const COUNTED_AT_ONCE_MAX: usize = 65_536;
/// Pairs in a portion otherwise: two milliseconds.
const PORTION: usize = 262_144;
/// Between more pairs of nodes, or of leaves, nobody is told which is the worst.
const WORST_MAX: usize = 10_000;

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

/// What decides whether a pair is expected to be measured.
#[derive(Clone, Copy, Debug)]
struct End {
    fabric: Fabric,
    node: u32,
    datagrams: bool,
}

/// Who is there, by the numbers of the matrix.
#[derive(Clone, Debug, Default)]
struct Ends {
    /// Of this membership and so many endpoints.
    seen: (u64, usize),
    of: Vec<Option<End>>,
    nodes: Vec<String>,
}

/// What was counted last, and how far the next count is.
#[derive(Clone, Debug, Default)]
pub(super) struct Tallies {
    last: BTreeMap<Metric, Arc<Counted>>,
    /// The metric, the first source that is not counted yet, and what is counted so far.
    under_way: Option<(Metric, u32, Counted)>,
    ends: Ends,
}

/// Pings are for the pairs that they cover, and for these nobody probes latency by itself: a pair that is never measured in one way
/// because the other has it is no gap. Nor is a pair within a node, or between different fabrics.
fn is_expected(metric: Metric, ends: (Option<End>, Option<End>)) -> bool {
    let (paired, pinged) = match ends {
        (Some(a), Some(b)) => (a.fabric == b.fabric && a.node != b.node, a.datagrams && b.datagrams),
        _ => (true, false),
    };
    match metric {
        Metric::Latency => paired && !pinged,
        Metric::Bandwidth => true,
        Metric::Ping => paired && pinged,
    }
}

impl Coordinator {
    /// A pair that was never measured in this way is a gap.
    #[must_use]
    pub fn is_expected(&self, metric: Metric, source: EndpointIndex, target: EndpointIndex) -> bool {
        let end = |index| {
            let info = &self.members.endpoint(index)?.info;
            Some((info.fabric, info.name.node.as_str(), info.datagrams.is_some()))
        };
        let ends = (end(source), end(target));
        let same_node = matches!(ends, (Some(a), Some(b)) if a.1 == b.1);
        let numbered = |end: Option<(Fabric, &str, bool)>, other: u32| {
            end.map(|(fabric, _, datagrams)| End {
                fabric,
                node: if same_node { 0 } else { other },
                datagrams,
            })
        };
        is_expected(metric, (numbered(ends.0, 0), numbered(ends.1, 1)))
    }

    /// The matrix of a metric in few numbers: as it is now where it is small, else as it was when it was last counted.
    #[must_use]
    pub fn counted(&self, metric: Metric, now: Now) -> Arc<Counted> {
        match self.tallies.last.get(&metric) {
            Some(last) if !self.is_counted_at_once() => Arc::clone(last),
            // A large one that nobody has counted yet has just begun to be one.
            _ if !self.is_counted_at_once() => Arc::default(),
            _ => {
                let ends = self.numbered_ends();
                let mut counted = Counted::default();
                let all = 0..u32::try_from(self.matrix.len()).unwrap_or(u32::MAX);
                self.count(metric, all, &ends, &mut counted, now);
                Arc::new(counted)
            }
        }
    }

    fn is_counted_at_once(&self) -> bool {
        self.matrix.len() * self.matrix.len() <= COUNTED_AT_ONCE_MAX
    }

    /// Counts a portion of a large matrix. True when there is always more to count.
    pub fn count_on(&mut self, now: Now) -> bool {
        if self.is_counted_at_once() {
            self.tallies.last.clear();
            self.tallies.under_way = None;
            return false;
        }
        if self.tallies.ends.seen != (self.members.generation, self.matrix.len()) {
            self.tallies.ends = self.numbered_ends();
        }
        let (metric, first, mut counted) =
            self.tallies.under_way.take().unwrap_or_else(|| (Metric::ALL[0], 0, self.begin_count()));
        let len = self.matrix.len();
        let end = first.saturating_add(u32::try_from((PORTION / len).max(1)).unwrap_or(u32::MAX));
        let ends = std::mem::take(&mut self.tallies.ends);
        self.count(metric, first..end, &ends, &mut counted, now);
        self.tallies.ends = ends;
        self.tallies.under_way = Some(if (end as usize) < len {
            (metric, end, counted)
        } else {
            self.tallies.last.insert(metric, Arc::new(counted));
            let place = Metric::ALL.iter().position(|of| *of == metric).unwrap_or(0);
            (Metric::ALL[(place + 1) % Metric::ALL.len()], 0, self.begin_count())
        });
        true
    }

    fn begin_count(&self) -> Counted {
        let ends = &self.tallies.ends;
        let groups = [
            (ends.nodes.len(), ends.of.iter().map(|end| end.map(|end| end.node)).collect::<Vec<_>>()),
            (
                self.places().leaves.len(),
                self.places().of.iter().map(|place| Some(place.as_ref()?.leaf?.0)).collect(),
            ),
        ];
        let worst = groups.map(|(count, groups)| {
            let few = count * count <= WORST_MAX;
            if few { Worst::between(count, groups) } else { Worst::default() }
        });
        Counted {
            tally: Tally::with_worst(worst.to_vec()),
            nodes: ends.nodes.clone(),
            leaves: self.places().leaves.clone(),
        }
    }

    fn numbered_ends(&self) -> Ends {
        let mut nodes: BTreeMap<&str, u32> = BTreeMap::new();
        let mut ends = Ends {
            seen: (self.members.generation, self.matrix.len()),
            of: vec![None; self.matrix.len()],
            nodes: Vec::new(),
        };
        for (index, endpoint) in self.members.endpoints() {
            let info = &endpoint.info;
            let node = *nodes.entry(&info.name.node).or_insert_with(|| {
                ends.nodes.push(info.name.node.clone());
                u32::try_from(ends.nodes.len() - 1).unwrap_or(u32::MAX)
            });
            let end = End { fabric: info.fabric, node, datagrams: info.datagrams.is_some() };
            ends.of.iter_mut().skip(index.0 as usize).take(1).for_each(|place| *place = Some(end));
        }
        ends
    }

    fn count(
        &self,
        metric: Metric,
        sources: std::ops::Range<u32>,
        ends: &Ends,
        counted: &mut Counted,
        now: Now,
    ) {
        let end = |index: EndpointIndex| ends.of.get(index.0 as usize).copied().flatten();
        let expected = |source, target| is_expected(metric, (end(source), end(target)));
        let when = (now.wall, self.fresh_for());
        self.matrix.tally(metric, sources, when, self.places(), &expected, &mut counted.tally);
    }
}
