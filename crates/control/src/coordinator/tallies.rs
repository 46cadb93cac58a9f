//! The matrix in few numbers, for metrics and medians: small ones are counted when somebody asks, large ones all the time and in portions,
//! so that no question waits for millions of cells.

use super::Coordinator;
use rdmascope_localise::{Place, Tally, Worst};
use rdmascope_model::{Metric, Now};
use std::collections::BTreeMap;
use std::ops::Range;
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

/// What was counted last, and how far the next count is.
#[derive(Clone, Debug, Default)]
pub(super) struct Tallies {
    last: BTreeMap<Metric, Arc<Counted>>,
    /// The metric, the first source that is not counted yet, and what is counted so far.
    under_way: Option<(Metric, u32, Counted)>,
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
        let under_way = self.tallies.under_way.take();
        let (metric, first, mut counted) =
            under_way.unwrap_or_else(|| (Metric::ALL[0], 0, self.begin_count()));
        let len = self.matrix.len();
        let end = first.saturating_add(u32::try_from((PORTION / len).max(1)).unwrap_or(u32::MAX));
        self.count(metric, first..end, &mut counted.tally, now);
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
