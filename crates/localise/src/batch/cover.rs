//! Who is to blame: the fewest parts that explain the bad pairs, the one that explains most of them first.
//!
//! A part explains what most of its tested pairs share. Pairs that are fine speak against it, twice as much as a bad one speaks for it:
//! otherwise two bad ends of four would read as "everything is bad". What explains exactly the same pairs is named together. What the
//! machines themselves say goes before all of this.

use std::collections::BTreeSet;

/// Share of a part's tested pairs that must be bad, per cent.
const SHARE_MIN: usize = 60;
/// How much more a fine pair speaks against a part than a bad one for it.
const AGAINST: i64 = 2;
/// A part explains at least so many bad pairs: two are one pair there and back.
const EXPLAINS_MIN: usize = 3;
/// Parts that are named before the rest is told as pairs: a batch with more faults than that needs no list.
const BLAMED_MAX: usize = 64;

/// Where an endpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Number of its node.
    pub node: u32,
    /// Number of its leaf; `None` where nobody says.
    pub leaf: Option<u32>,
}

/// One ordered pair that was tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Place of the source among the endpoints.
    pub source: u32,
    /// Place of the target.
    pub target: u32,
    /// It misses a limit, or failed.
    pub bad: bool,
}

/// What can be to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// One endpoint, whichever way.
    Endpoint(u32),
    /// What it sends.
    Sender(u32),
    /// What it receives.
    Receiver(u32),
    /// A node with several endpoints.
    Node(u32),
    /// The uplinks of a leaf.
    Uplinks(u32),
    /// A leaf.
    Leaf(u32),
    /// Two endpoints, and what lies between them.
    Pair(u32, u32),
    /// All of it.
    Batch,
}

impl Part {
    /// A pair goes through it.
    #[must_use]
    pub fn holds(self, standings: &[Standing], source: u32, target: u32) -> bool {
        let [a, b] = [source, target].map(|end| standings.get(end as usize).copied());
        let leaf = |end: Option<Standing>| end.and_then(|end| end.leaf);
        match self {
            Self::Endpoint(own) => source == own || target == own,
            Self::Sender(own) => source == own,
            Self::Receiver(own) => target == own,
            Self::Node(own) => [a, b].iter().flatten().any(|end| end.node == own),
            Self::Uplinks(own) => (leaf(a) == Some(own)) != (leaf(b) == Some(own)),
            Self::Leaf(own) => leaf(a) == Some(own) || leaf(b) == Some(own),
            Self::Pair(one, other) => (source, target) == (one, other) || (source, target) == (other, one),
            Self::Batch => true,
        }
    }
}

/// What is blamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blamed {
    /// The part; several where nothing tells them apart.
    pub parts: Vec<Part>,
    /// Bad pairs that it explains, ordered ones.
    pub explains: usize,
    /// Its tested pairs.
    pub tested: usize,
    /// The node itself says that something is wrong there.
    pub told: bool,
}

/// Blames parts for the bad pairs; `told` are the endpoints of which their nodes say that something is wrong.
#[must_use]
pub fn cover(standings: &[Standing], trials: &[Trial], told: &BTreeSet<u32>) -> Vec<Blamed> {
    let mut live: Vec<Trial> = trials.to_vec();
    let mut blamed = Vec::new();
    for &own in told {
        let part = Part::Endpoint(own);
        let (explains, tested) = count(part, standings, trials);
        blamed.push(Blamed { parts: vec![part], explains, tested, told: true });
        live.retain(|trial| !part.holds(standings, trial.source, trial.target));
    }
    while blamed.len() < BLAMED_MAX {
        let Some(found) = best(standings, &live) else { break };
        live.retain(|trial| !found.parts.iter().any(|p| p.holds(standings, trial.source, trial.target)));
        blamed.push(found);
    }
    blamed.extend(pairs(standings, &live));
    blamed
}

/// Bad and all pairs of a part.
fn count(part: Part, standings: &[Standing], trials: &[Trial]) -> (usize, usize) {
    let of = || trials.iter().filter(|trial| part.holds(standings, trial.source, trial.target));
    (of().filter(|trial| trial.bad).count(), of().count())
}

/// The part that explains most, with those that explain the same.
fn best(standings: &[Standing], live: &[Trial]) -> Option<Blamed> {
    let score = |(bad, tested): (usize, usize)| {
        let (bad, tested) = (bad as i64, tested as i64);
        bad - AGAINST * (tested - bad)
    };
    let enough =
        |&(_, (bad, tested)): &(Part, (usize, usize))| bad >= EXPLAINS_MIN && 100 * bad >= SHARE_MIN * tested;
    let eligible: Vec<_> = Counts::of(standings, live).parts(standings).into_iter().filter(enough).collect();
    // The narrower one where two have the same score: parts come in that order.
    let &(part, counted) = eligible.iter().rev().max_by_key(|(_, counted)| score(*counted))?;
    let same = |other: Part| {
        live.iter().filter(|trial| trial.bad).all(|trial| {
            let holds = |part: Part| part.holds(standings, trial.source, trial.target);
            holds(part) == holds(other)
        })
    };
    let alike = eligible.iter().filter(|(other, with)| *other != part && *with == counted && same(*other));
    let parts = std::iter::once(part).chain(alike.map(|(other, _)| *other)).collect();
    Some(Blamed { parts, explains: counted.0, tested: counted.1, told: false })
}

/// What no part explains, pair by pair; an end without a single fine pair may be it as well.
fn pairs(standings: &[Standing], live: &[Trial]) -> Vec<Blamed> {
    let ends = |trial: &Trial| (trial.source.min(trial.target), trial.source.max(trial.target));
    let bad: BTreeSet<(u32, u32)> = live.iter().filter(|trial| trial.bad).map(ends).collect();
    let counts = Counts::of(standings, live);
    let never_fine = |own: u32| {
        let (bad, tested) = counts.endpoint[own as usize];
        bad > 0 && bad == tested
    };
    let of = |&(a, b): &(u32, u32)| {
        let part = Part::Pair(a, b);
        let (explains, tested) = count_pair(live, a, b);
        let alike = [a, b].into_iter().filter(|own| never_fine(*own)).map(Part::Endpoint);
        Blamed { parts: std::iter::once(part).chain(alike).collect(), explains, tested, told: false }
    };
    bad.iter().map(of).collect()
}

fn count_pair(live: &[Trial], a: u32, b: u32) -> (usize, usize) {
    let of = || live.iter().filter(move |t| (t.source, t.target) == (a, b) || (t.source, t.target) == (b, a));
    (of().filter(|trial| trial.bad).count(), of().count())
}

/// Bad and all pairs of every part, counted in one go.
struct Counts {
    endpoint: Vec<(usize, usize)>,
    sender: Vec<(usize, usize)>,
    receiver: Vec<(usize, usize)>,
    node: Vec<(usize, usize)>,
    uplinks: Vec<(usize, usize)>,
    leaf: Vec<(usize, usize)>,
    all: (usize, usize),
}

impl Counts {
    fn of(standings: &[Standing], live: &[Trial]) -> Self {
        let none = |count: usize| vec![(0, 0); count];
        let most = |of: &dyn Fn(&Standing) -> Option<u32>| {
            standings.iter().filter_map(of).max().map_or(0, |most| most as usize + 1)
        };
        let (n, nodes, leaves) = (standings.len(), most(&|s| Some(s.node)), most(&|s| s.leaf));
        let mut counts = Self {
            endpoint: none(n),
            sender: none(n),
            receiver: none(n),
            node: none(nodes),
            uplinks: none(leaves),
            leaf: none(leaves),
            all: (0, 0),
        };
        for trial in live {
            let add = |at: &mut (usize, usize)| {
                at.0 += usize::from(trial.bad);
                at.1 += 1;
            };
            let (source, target) = (trial.source as usize, trial.target as usize);
            let (Some(a), Some(b)) = (standings.get(source), standings.get(target)) else { continue };
            add(&mut counts.all);
            add(&mut counts.sender[source]);
            add(&mut counts.receiver[target]);
            add(&mut counts.endpoint[source]);
            add(&mut counts.endpoint[target]);
            add(&mut counts.node[a.node as usize]);
            if a.node != b.node {
                add(&mut counts.node[b.node as usize]);
            }
            let across = a.leaf != b.leaf;
            for leaf in [a.leaf, b.leaf.filter(|_| across)].into_iter().flatten() {
                add(&mut counts.leaf[leaf as usize]);
                if across {
                    add(&mut counts.uplinks[leaf as usize]);
                }
            }
        }
        counts
    }

    /// From the narrow to the wide. A node with one endpoint is that endpoint.
    fn parts(self, standings: &[Standing]) -> Vec<(Part, (usize, usize))> {
        let mut endpoints = vec![0_u32; self.node.len()];
        standings.iter().for_each(|standing| endpoints[standing.node as usize] += 1);
        let each = |counts: Vec<(usize, usize)>, part: fn(u32) -> Part| {
            (0..).zip(counts).map(move |(at, counted)| (part(at), counted)).collect::<Vec<_>>()
        };
        let mut parts = each(self.endpoint, Part::Endpoint);
        parts.extend(each(self.sender, Part::Sender));
        parts.extend(each(self.receiver, Part::Receiver));
        let several = each(self.node, Part::Node).into_iter().zip(endpoints).filter(|(_, count)| *count > 1);
        parts.extend(several.map(|(part, _)| part));
        parts.extend(each(self.uplinks, Part::Uplinks));
        parts.extend(each(self.leaf, Part::Leaf));
        parts.push((Part::Batch, self.all));
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes of `per_node` endpoints each, the first half of them on leaf 0, the others on leaf 1.
    fn world(nodes: u32, per_node: u32) -> Vec<Standing> {
        let of = |node| Standing { node, leaf: Some(u32::from(node >= nodes / 2)) };
        (0..nodes).flat_map(|node| (0..per_node).map(move |_| of(node))).collect()
    }

    /// All pairs of different nodes.
    fn trials(world: &[Standing], bad: impl Fn(u32, u32) -> bool) -> Vec<Trial> {
        let n = u32::try_from(world.len()).unwrap();
        let pairs = (0..n).flat_map(|a| (0..n).map(move |b| (a, b)));
        let apart = pairs.filter(|(a, b)| world[*a as usize].node != world[*b as usize].node);
        apart.map(|(source, target)| Trial { source, target, bad: bad(source, target) }).collect()
    }

    fn blamed(world: &[Standing], bad: impl Fn(u32, u32) -> bool) -> Vec<Vec<Part>> {
        let found = cover(world, &trials(world, bad), &BTreeSet::new());
        found.into_iter().map(|blamed| blamed.parts).collect()
    }

    #[test]
    fn nothing_wrong_blames_nobody() {
        assert!(blamed(&world(8, 2), |_, _| false).is_empty());
        assert!(cover(&[], &[], &BTreeSet::new()).is_empty());
    }

    #[test]
    fn a_slow_endpoint_is_named_among_many_and_among_four() {
        for nodes in [4, 16] {
            let world = world(nodes, 1);
            assert_eq!(blamed(&world, |a, b| a == 2 || b == 2), [vec![Part::Endpoint(2)]], "{nodes}");
            assert_eq!(blamed(&world, |a, _| a == 2), [vec![Part::Sender(2)]], "{nodes}");
            assert_eq!(blamed(&world, |_, b| b == 2), [vec![Part::Receiver(2)]], "{nodes}");
        }
        // Three: each of the others has half of its pairs with it.
        assert_eq!(blamed(&world(3, 1), |a, b| a == 2 || b == 2), [vec![Part::Endpoint(2)]]);
    }

    #[test]
    fn an_endpoint_most_of_whose_pairs_are_bad_is_named_not_its_pairs() {
        let world = world(16, 1);
        let found = blamed(&world, |a, b| (a == 5 || b == 5) && a + b > 8);
        assert_eq!(found, [vec![Part::Endpoint(5)]]);
    }

    #[test]
    fn a_slow_node_and_a_slow_leaf_are_named_as_such() {
        let world = world(8, 4);
        let of_node = |end: u32| world[end as usize].node == 3;
        assert_eq!(blamed(&world, |a, b| of_node(a) || of_node(b)), [vec![Part::Node(3)]]);
        let of_leaf = |end: u32| world[end as usize].leaf == Some(1);
        assert_eq!(blamed(&world, |a, b| of_leaf(a) || of_leaf(b)), [vec![Part::Leaf(1)]]);
    }

    #[test]
    fn uplinks_of_two_leaves_cannot_be_told_apart_and_are_named_together() {
        let world = world(8, 1);
        let leaf = |end: u32| world[end as usize].leaf;
        assert_eq!(blamed(&world, |a, b| leaf(a) != leaf(b)), [vec![Part::Uplinks(0), Part::Uplinks(1)]]);
    }

    #[test]
    fn one_bad_pair_is_a_pair_and_between_two_nodes_anything_may_be_it() {
        let pair = |a, b| (a, b) == (1, 2) || (a, b) == (2, 1);
        assert_eq!(blamed(&world(8, 1), pair), [vec![Part::Pair(1, 2)]]);
        let two = blamed(&world(2, 1), |_, _| true);
        assert_eq!(two, [vec![Part::Pair(0, 1), Part::Endpoint(0), Part::Endpoint(1)]]);
    }

    #[test]
    fn two_faults_are_both_named_the_larger_one_first() {
        let world = world(8, 2);
        let of_node = |end: u32| world[end as usize].node == 1;
        let bad = |a, b| of_node(a) || of_node(b) || a == 9 || b == 9;
        assert_eq!(blamed(&world, bad), [vec![Part::Node(1)], vec![Part::Endpoint(9)]]);
        let four = self::world(4, 1);
        let found = blamed(&four, |a, b| [1, 2].contains(&a) || [1, 2].contains(&b));
        assert_eq!(found, [vec![Part::Endpoint(1)], vec![Part::Endpoint(2)]]);
    }

    #[test]
    fn when_everything_is_bad_nobody_in_particular_is() {
        assert_eq!(blamed(&world(4, 2), |_, _| true)[0], vec![Part::Batch]);
    }

    #[test]
    fn what_was_not_tested_speaks_neither_for_nor_against() {
        let world = world(8, 1);
        let all = trials(&world, |a, b| a == 2 || b == 2);
        let half: Vec<_> = all.into_iter().filter(|trial| (trial.source + trial.target) % 2 == 0).collect();
        let found = cover(&world, &half, &BTreeSet::new());
        assert_eq!((found.len(), &found[0].parts), (1, &vec![Part::Endpoint(2)]));
        assert_eq!((found[0].explains, found[0].tested), (6, 6));
    }

    #[test]
    fn what_a_node_says_itself_goes_before_what_follows_from_pairs() {
        let world = world(4, 1);
        let bad = |a, b| a == 1 || b == 1 || (a, b) == (2, 3);
        let found = cover(&world, &trials(&world, bad), &BTreeSet::from([1]));
        assert_eq!((found[0].parts.as_slice(), found[0].told), (&[Part::Endpoint(1)][..], true));
        assert_eq!((found[0].explains, found[0].tested), (6, 6));
        assert_eq!(found[1].parts, [Part::Pair(2, 3)]);
    }

    #[test]
    fn a_thousand_endpoints_are_no_matter() {
        let world = world(1_024, 1);
        let found = cover(&world, &trials(&world, |a, b| a % 400 == 7 || b % 400 == 7), &BTreeSet::new());
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().all(|blamed| matches!(blamed.parts[..], [Part::Endpoint(_)])));
    }
}
