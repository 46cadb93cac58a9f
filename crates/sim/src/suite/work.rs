//! All runs, in parts that can be done one beside the other: a part is one warm cluster and the runs that go on from it.

use super::file::Suite;
use super::run::{run, warm};
use super::score::Outcome;
use crate::random::mix;
use std::collections::BTreeMap;

/// Runs that one warm cluster is used for: more would see the same noise in their past, fewer would take longer.
const RUNS_OF_A_PART: usize = 60;

/// Which runs are done.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Runs of each size.
    pub runs: usize,
    /// Only this size.
    pub endpoints: Option<usize>,
    /// Only kinds whose names contain this.
    pub kind: Option<String>,
    /// Decides what is left to chance.
    pub seed: u64,
    /// Only the run of this seed, in the cluster that it has among the others.
    pub only: Option<u64>,
}

/// One warm cluster and its runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    size: usize,
    shape: usize,
    /// The kind whose cluster is another one.
    changed: Option<usize>,
    seed: u64,
    /// Kind and seed.
    runs: Vec<(usize, u64)>,
}

impl Plan {
    /// All parts, the largest clusters first. Kinds come in turns, and so do the shapes of each.
    #[must_use]
    pub fn parts(&self, suite: &Suite) -> Vec<Part> {
        let wanted = |name: &str| self.kind.as_deref().is_none_or(|part| name.contains(part));
        let kinds: Vec<_> = (0..suite.kinds.len()).filter(|&kind| wanted(&suite.kinds[kind].name)).collect();
        let mut parts = Vec::new();
        for (size, row) in suite.sizes.iter().enumerate().rev() {
            if kinds.is_empty() || self.endpoints.is_some_and(|wanted| wanted != row.endpoints) {
                continue;
            }
            let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
            for at in 0..self.runs {
                let (turn, kind) = (at / kinds.len(), kinds[at % kinds.len()]);
                let shape = (turn + kind) % row.shapes.len();
                let changed = suite.kinds[kind].cluster.as_ref().map(|_| kind);
                let seed =
                    mix(self.seed
                        ^ mix((row.endpoints as u64) << 32 | (turn * suite.kinds.len() + kind) as u64));
                groups.entry((shape, changed)).or_default().push((kind, seed));
            }
            for ((shape, changed), runs) in groups {
                for runs in runs.chunks(RUNS_OF_A_PART) {
                    let seed = mix(runs.iter().fold(0, |all, (_, seed)| mix(all ^ seed)));
                    let mut runs = runs.to_vec();
                    runs.retain(|(_, seed)| self.only.is_none_or(|only| only == *seed));
                    parts.push(Part { size, shape, changed, seed, runs });
                }
            }
        }
        parts.retain(|part| !part.is_empty());
        parts
    }
}

impl Part {
    /// How many runs it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// It has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Does them all; `each` is given every run as it ends.
    pub fn run(&self, suite: &Suite, mut each: impl FnMut(Outcome)) {
        let shape = &suite.sizes[self.size].shapes[self.shape];
        let change = self.changed.and_then(|kind| suite.kinds[kind].cluster.as_ref());
        let usual = (shape.clone(), suite.fabric.clone());
        let (layout, parameters) = change.map_or(usual, |change| change.of(shape, &suite.fabric));
        let base = warm(&layout, &parameters, self.seed);
        for &(kind, seed) in &self.runs {
            each(run(&base, &suite.kinds[kind], suite, seed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::tests::text;
    use super::*;

    fn suite() -> Suite {
        Suite::parse(text()).unwrap()
    }

    #[test]
    fn every_kind_gets_its_turn_in_every_size_and_runs_differ() {
        let suite = suite();
        let plan = Plan { runs: 500, seed: 1, ..Plan::default() };
        let parts = plan.parts(&suite);
        let runs: Vec<_> =
            parts.iter().flat_map(|part| part.runs.iter().map(|run| (part.size, *run))).collect();
        assert_eq!(runs.len(), 500 * suite.sizes.len());
        for size in 0..suite.sizes.len() {
            for kind in 0..suite.kinds.len() {
                let count = runs.iter().filter(|(s, (k, _))| (*s, *k) == (size, kind)).count();
                assert!(count >= 500 / suite.kinds.len(), "{}: {count}", suite.kinds[kind].name);
            }
        }
        let seeds: std::collections::BTreeSet<_> = runs.iter().map(|(_, (_, seed))| seed).collect();
        assert_eq!(seeds.len(), runs.len());
        assert!(parts.iter().all(|part| part.len() <= RUNS_OF_A_PART && !part.is_empty()));
    }

    #[test]
    fn one_run_can_be_had_again_in_the_cluster_that_it_was_in() {
        let suite = suite();
        let plan = Plan { runs: 200, seed: 1, endpoints: Some(32), ..Plan::default() };
        let among = plan.parts(&suite).remove(1);
        let (kind, seed) = among.runs[3];
        let again = Plan { only: Some(seed), ..plan }.parts(&suite);
        assert_eq!(again, [Part { runs: vec![(kind, seed)], ..among }]);
    }

    #[test]
    fn one_kind_of_one_size_can_be_had_alone() {
        let suite = suite();
        let plan = Plan { runs: 7, seed: 1, endpoints: Some(32), kind: Some("spine".to_owned()), only: None };
        let parts = plan.parts(&suite);
        assert_eq!(parts.iter().map(Part::len).sum::<usize>(), 7);
        let named = |(kind, _): &(usize, u64)| suite.kinds[*kind].name.contains("spine");
        assert!(parts.iter().all(|part| part.size == 1 && part.runs.iter().all(named)));
    }

    #[test]
    fn the_same_seed_tells_the_same_story_and_a_run_sees_its_fault() {
        let mut suite = suite();
        suite.sizes[0].shapes.truncate(1);
        let plan =
            Plan { runs: 2, seed: 4, endpoints: Some(8), kind: Some("endpoint dead".to_owned()), only: None };
        let outcomes = |seed| {
            let mut outcomes = Vec::new();
            let plan = Plan { seed, ..plan.clone() };
            plan.parts(&suite).iter().for_each(|part| part.run(&suite, |outcome| outcomes.push(outcome)));
            outcomes
        };
        let once = outcomes(4);
        assert_eq!(once, outcomes(4));
        assert_ne!(once[0].trace, outcomes(5)[0].trace);
        assert_eq!((once.len(), once[0].faults.len(), once[0].endpoints), (2, 1, 8));
        assert!(once[0].kit.found.hits == 1, "a pair that cannot talk is bad by any rule: {:?}", once[0].kit);
        assert!(once[0].pings > 300, "8 endpoints at 10 pings a second: {}", once[0].pings);
    }
}
