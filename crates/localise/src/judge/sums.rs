//! All cells added up once: by endpoint, and by pair of leaves, for each window of age. Every other component is a sum of those.

use super::count::{Channel, Count, Fine, Tally, WINDOWS};
use super::layout::{Layout, NONE};
use super::observe::{Observation, Scene};

/// Most pairs of which something went wrong that are remembered one by one.
const BAD_PAIRS_MAX: usize = 1 << 16;

/// Of one component and one window: what it sent, what it received, and round trips through it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sides {
    pub(crate) out: Tally,
    pub(crate) into: Tally,
    pub(crate) either: Tally,
}

impl Sides {
    /// Both directions, where no trial is in both.
    pub(crate) fn both(&self) -> Tally {
        self.out.and(&self.into).and(&self.either)
    }
}

/// Sides in each window of age, the newest first.
pub(crate) type Aged = [Sides; WINDOWS];

/// Which part of an observation counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) forward: bool,
    pub(crate) backward: bool,
    /// What is known of the round trip only.
    pub(crate) either: bool,
}

impl Counted {
    pub(crate) const ALL: Self = Self { forward: true, backward: true, either: true };
}

/// Cells in which nothing went wrong, added up in four numbers each: of millions nearly all are so.
struct AllFine {
    ends: Vec<[Fine; WINDOWS]>,
    /// From the source's leaf to the target's.
    leaves: Vec<[Fine; WINDOWS]>,
}

impl AllFine {
    #[inline]
    fn add(&mut self, layout: &Layout, (source, target): (usize, usize), window: usize, fine: Fine) {
        self.ends[source][window].add(fine);
        self.ends[target][window].add(fine);
        let (from, to) = (layout.leaf[source], layout.leaf[target]);
        if from != NONE && to != NONE {
            self.leaves[from as usize * layout.leaves + to as usize][window].add(fine);
        }
    }
}

/// The sums.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    pub(crate) endpoints: Vec<Aged>,
    /// From leaf to leaf; `into` is not used. Round trips are counted once for each order.
    pub(crate) leaves: Vec<Aged>,
    /// Samples of each node's host in each window.
    pub(crate) hosts: Vec<[Count; WINDOWS]>,
    /// Source and target of cells that show something wrong.
    pub(crate) bad: Vec<(u32, u32)>,
    leaf_count: usize,
}

impl Sums {
    fn none(layout: &Layout) -> Self {
        let nodes = layout.node.iter().filter(|node| **node != NONE).map(|node| *node as usize + 1).max();
        Self {
            endpoints: vec![[Sides::default(); WINDOWS]; layout.len],
            leaves: vec![[Sides::default(); WINDOWS]; layout.leaves * layout.leaves],
            hosts: vec![[Count::default(); WINDOWS]; nodes.unwrap_or(0)],
            bad: Vec::new(),
            leaf_count: layout.leaves,
        }
    }

    pub(crate) fn new(scene: &Scene<'_>) -> Self {
        let layout = scene.layout;
        let mut sums = Self::none(layout);
        let mut all_fine = AllFine {
            ends: vec![[Fine::default(); WINDOWS]; layout.len],
            leaves: vec![[Fine::default(); WINDOWS]; layout.leaves * layout.leaves],
        };
        for source in 0..layout.len {
            if !layout.judged[source] {
                continue;
            }
            let add_fine = |target, window, trials| {
                all_fine.add(layout, (source, target), window, trials);
            };
            scene.sorted_from(source, add_fine, |target, seen| {
                sums.count(layout, (source, target), seen, Counted::ALL, Tally::add);
                sums.count_hosts(layout, (source, target), seen);
                if seen.is_bad() && sums.bad.len() < BAD_PAIRS_MAX {
                    sums.bad.push((source as u32, target as u32));
                }
            });
        }
        sums.add_fine(layout, &all_fine);
        sums
    }

    fn add_fine(&mut self, layout: &Layout, all: &AllFine) {
        for (end, windows) in all.ends.iter().enumerate() {
            for (at, fine) in windows.iter().enumerate() {
                let sides = &mut self.endpoints[end][at];
                sides.out.add(&fine.way());
                sides.into.add(&fine.way());
                sides.either.add(&fine.either());
                if let Some(host) = self.hosts.get_mut(layout.node[end] as usize) {
                    host[at].add(fine.host());
                }
            }
        }
        for (there, windows) in all.leaves.iter().enumerate() {
            let back = there % self.leaf_count * self.leaf_count + there / self.leaf_count;
            for (at, fine) in windows.iter().enumerate() {
                self.leaves[there][at].out.add(&fine.way());
                self.leaves[back][at].out.add(&fine.way());
                self.leaves[there][at].either.add(&fine.either());
                if there != back {
                    self.leaves[back][at].either.add(&fine.either());
                }
            }
        }
    }

    fn count_hosts(&mut self, layout: &Layout, (source, target): (usize, usize), seen: &Observation) {
        for (end, count) in [source, target].into_iter().zip(seen.hosts) {
            if let Some(windows) = self.hosts.get_mut(layout.node[end] as usize) {
                windows[seen.window].add(count);
            }
        }
    }

    /// From one leaf to another; both must be known.
    pub(crate) fn leaf_pair(&self, from: u32, to: u32) -> &Aged {
        &self.leaves[from as usize * self.leaf_count + to as usize]
    }

    /// Adds one cell to all sums that it belongs to, or (with [`Tally::take`]) takes it out again.
    #[inline]
    pub(crate) fn count(
        &mut self,
        layout: &Layout,
        (a, b): (usize, usize),
        seen: &Observation,
        counted: Counted,
        change: impl Fn(&mut Tally, &Tally),
    ) {
        let at = seen.window;
        for (end, out, into) in [(a, &seen.forward, &seen.backward), (b, &seen.backward, &seen.forward)] {
            let sides = &mut self.endpoints[end][at];
            let (may_out, may_into) = if end == a {
                (counted.forward, counted.backward)
            } else {
                (counted.backward, counted.forward)
            };
            if may_out {
                change(&mut sides.out, out);
            }
            if may_into {
                change(&mut sides.into, into);
            }
            if counted.either {
                change(&mut sides.either, &seen.either);
            }
        }
        let (from, to) = (layout.leaf[a], layout.leaf[b]);
        if from == NONE || to == NONE {
            return;
        }
        let (there, back) =
            (from as usize * self.leaf_count + to as usize, to as usize * self.leaf_count + from as usize);
        if counted.forward {
            change(&mut self.leaves[there][at].out, &seen.forward);
        }
        if counted.backward {
            change(&mut self.leaves[back][at].out, &seen.backward);
        }
        if counted.either {
            change(&mut self.leaves[there][at].either, &seen.either);
            if there != back {
                change(&mut self.leaves[back][at].either, &seen.either);
            }
        }
    }

    /// The median over endpoints of the share of trials that went wrong: what is usual, as long as most are well.
    pub(crate) fn usual_share(&self, layout: &Layout, channels: &[Channel]) -> f64 {
        let share = |windows: &Aged| {
            let mut sum = Count::default();
            for sides in windows {
                let both = sides.both();
                channels.iter().for_each(|&channel| sum.add(both.of(channel)));
            }
            (sum.trials > 0).then(|| sum.share())
        };
        median(layout.endpoints().filter_map(|e| share(&self.endpoints[e.0 as usize])).collect())
    }

    /// Likewise of hosts.
    pub(crate) fn usual_host(&self) -> f64 {
        let sum =
            |windows: &[Count; WINDOWS]| windows.iter().fold(Count::default(), |sum, count| sum.and(*count));
        let counts = self.hosts.iter().map(sum).filter(|count| count.trials > 0);
        median(counts.map(Count::share).collect())
    }
}

fn median(mut shares: Vec<f64>) -> f64 {
    let Some(middle) = shares.len().checked_sub(1).map(|last| last / 2) else { return 0.0 };
    *shares.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::world::{Fault, World};
    use crate::{Component, EndpointIndex, PlaceIndex};

    #[test]
    fn cells_that_are_fine_are_added_up_like_those_that_are_not() {
        let lossy = Fault::lossy(Component::Endpoint(EndpointIndex(5)), 0.2);
        let host = Fault { host_ns: 5_000_000, ..Fault::new(Component::Node(PlaceIndex(3))) };
        let mut world = World::new(1, 32, 2, 8);
        world.faults = vec![lossy, host];
        world.warm_up();
        world.run(20);
        world.scene(|scene| {
            let layout = scene.layout;
            let (mut one_by_one, mut fine) = (Sums::none(layout), 0);

            for source in 0..layout.len {
                scene.from(source, |target, seen| {
                    one_by_one.count(layout, (source, target), seen, Counted::ALL, Tally::add);
                    one_by_one.count_hosts(layout, (source, target), seen);
                    if seen.is_bad() {
                        one_by_one.bad.push((source as u32, target as u32));
                    }
                });
            }
            (0..layout.len).for_each(|source| scene.sorted_from(source, |_, _, _| fine += 1, |_, _| {}));
            let bad = one_by_one.bad.len();
            assert!(fine > 2_000 && bad > 50, "{fine} cells are fine and {bad} are not");
            assert!(Sums::new(&scene) == one_by_one, "sums differ");
        });
    }
}
