//! Where endpoints stand, in arrays that a pass over millions of cells can read.

use crate::{Component, Distance, EndpointIndex, PlaceIndex, Places};
use rdmascope_model::Wall;
use std::collections::BTreeMap;

/// Stands for "nobody told".
pub(crate) const NONE: u32 = u32::MAX;
/// A table of leaf by leaf has room for so many: more are not told apart, and leaves of one endpoint tell nothing that it does not.
const LEAVES_MAX: usize = 512;
/// Rates that are told apart.
const RATES: usize = 8;
/// Kinds of distance.
const DISTANCES: usize = 5;
/// Tiers that there can be.
pub(crate) const TIERS: usize = DISTANCES * 2 * RATES;

/// How a packet's way crosses a component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Crossing {
    /// As something that the component sends.
    pub(crate) out: bool,
    /// As something that it receives.
    pub(crate) into: bool,
}

impl Crossing {
    pub(crate) fn any(self) -> bool {
        self.out || self.into
    }
}

/// All endpoints that are judged.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// Number of endpoints of the matrix.
    pub(crate) len: usize,
    /// Judged: it is there, and nobody works on it.
    pub(crate) judged: Vec<bool>,
    pub(crate) node: Vec<u32>,
    pub(crate) leaf: Vec<u32>,
    rail: Vec<u32>,
    pod: Vec<u32>,
    /// Place of the rate in the ascending list of rates.
    rate: Vec<u8>,
    /// What was measured before this says nothing of it, milliseconds since 1970.
    counted_from: Vec<u64>,
    /// Judged endpoints of each node and leaf.
    pub(crate) of_node: BTreeMap<u32, Vec<u32>>,
    pub(crate) of_leaf: BTreeMap<u32, Vec<u32>>,
    /// How many endpoints are judged.
    pub(crate) count: usize,
    /// One more than the largest leaf.
    pub(crate) leaves: usize,
}

impl Layout {
    /// Of the endpoints that are there and not `silenced`.
    pub(crate) fn new(places: &Places, silenced: &[bool], counted_from: &[Wall]) -> Self {
        let len = places.of.len();
        let mut layout = Self { len, ..Self::default() };
        let mut rates: Vec<u64> =
            places.of.iter().flatten().map(|place| place.rate_bps.unwrap_or(0)).collect();
        rates.sort_unstable();
        rates.dedup();
        let known = |place: Option<PlaceIndex>| place.map_or(NONE, |place| place.0);
        let leaves =
            places.of.iter().flatten().filter_map(|place| place.leaf).map(|leaf| leaf.0 as usize + 1).max();
        layout.leaves = leaves.filter(|&leaves| leaves <= LEAVES_MAX).unwrap_or(0);
        for (at, place) in places.of.iter().enumerate() {
            layout.counted_from.push(counted_from.get(at).map_or(0, |from| from.0));
            let judged = place.is_some() && !silenced.get(at).copied().unwrap_or(false);
            let leaf = place.map_or(NONE, |place| known(place.leaf));
            let leaf = if layout.leaves == 0 { NONE } else { leaf };
            let node = place.map_or(NONE, |place| place.node.0);
            layout.judged.push(judged);
            layout.node.push(node);
            layout.leaf.push(leaf);
            layout.rail.push(place.map_or(NONE, |place| known(place.rail)));
            layout.pod.push(place.map_or(NONE, |place| known(place.pod)));
            let rate = place.and_then(|place| place.rate_bps).unwrap_or(0);
            let rate = rates.iter().position(|&known| known == rate).unwrap_or(0).min(RATES - 1);
            layout.rate.push(u8::try_from(rate).unwrap_or(0));
            if judged {
                layout.count += 1;
                let endpoint = u32::try_from(at).unwrap_or(NONE);
                layout.of_node.entry(node).or_default().push(endpoint);
                if leaf != NONE {
                    layout.of_leaf.entry(leaf).or_default().push(endpoint);
                }
            }
        }
        layout
    }

    /// The tier of a pair, as a number below [`TIERS`]; the same as [`Places::tier`] tells, without its names.
    pub(crate) fn tier(&self, a: usize, b: usize) -> usize {
        let distance = if self.node[a] == self.node[b] {
            Distance::Node
        } else if self.leaf[a] == NONE || self.leaf[b] == NONE {
            Distance::Unknown
        } else if self.leaf[a] == self.leaf[b] {
            Distance::Leaf
        } else if self.pod[a] != NONE && self.pod[a] == self.pod[b] {
            Distance::Pod
        } else {
            Distance::Far
        };
        let same_rail = self.rail[a] == self.rail[b] || self.rail[a] == NONE || self.rail[b] == NONE;
        let rate = usize::from(self.rate[a].min(self.rate[b]));
        (distance as usize * 2 + usize::from(same_rail)) * RATES + rate
    }

    /// Whether a tier has nothing but one leaf's hardware, or is not known to have more: there designed oversubscription plays no part.
    pub(crate) fn is_near(tier: usize) -> bool {
        let distance = tier / (2 * RATES);
        distance == Distance::Leaf as usize || distance == Distance::Unknown as usize
    }

    /// From when on what was measured between two endpoints counts.
    pub(crate) fn counts_from(&self, a: usize, b: usize) -> u64 {
        self.counted_from[a].max(self.counted_from[b])
    }

    /// A pair that can be probed at all.
    pub(crate) fn is_pair(&self, a: usize, b: usize) -> bool {
        a != b && self.judged[a] && self.judged[b] && self.node[a] != self.node[b]
    }

    fn between_leaves(&self, from: usize, to: usize) -> bool {
        self.leaf[from] != NONE && self.leaf[to] != NONE && self.leaf[from] != self.leaf[to]
    }

    /// How what `from` sends to `to` crosses a component.
    pub(crate) fn crossing(&self, component: Component, from: usize, to: usize) -> Crossing {
        let (out, into) = match component {
            Component::Node(node) => (self.node[from] == node.0, self.node[to] == node.0),
            Component::Endpoint(e) => (from == e.0 as usize, to == e.0 as usize),
            Component::Leaf(leaf) => (self.leaf[from] == leaf.0, self.leaf[to] == leaf.0),
            Component::Uplinks(leaf) => {
                let leaves = self.between_leaves(from, to);
                (leaves && self.leaf[from] == leaf.0, leaves && self.leaf[to] == leaf.0)
            }
            Component::LeafPair(a, b) => (
                self.leaf[from] == a.0 && self.leaf[to] == b.0,
                self.leaf[from] == b.0 && self.leaf[to] == a.0,
            ),
            Component::Spines => {
                let leaves = self.between_leaves(from, to);
                (leaves, leaves)
            }
            Component::Pair(a, b) => {
                let (a, b) = (a.0 as usize, b.0 as usize);
                ((from, to) == (a, b), (from, to) == (b, a))
            }
            Component::Cluster => (true, true),
        };
        Crossing { out, into }
    }

    /// Endpoints of which one is at an end of everything that crosses a component, in their order; `None` for all.
    pub(crate) fn ends(&self, component: Component) -> Option<Vec<u32>> {
        let of =
            |map: &BTreeMap<u32, Vec<u32>>, place: PlaceIndex| map.get(&place.0).cloned().unwrap_or_default();
        match component {
            Component::Node(node) => Some(of(&self.of_node, node)),
            Component::Endpoint(e) => Some(vec![e.0]),
            Component::Leaf(leaf) | Component::Uplinks(leaf) => Some(of(&self.of_leaf, leaf)),
            Component::LeafPair(a, _) => Some(of(&self.of_leaf, a)),
            Component::Pair(a, _) => Some(vec![a.0]),
            Component::Spines | Component::Cluster => None,
        }
    }

    /// The leaf of an endpoint, where it is known.
    pub(crate) fn leaf_of(&self, at: u32) -> Option<u32> {
        self.leaf.get(at as usize).copied().filter(|&leaf| leaf != NONE)
    }

    /// Judged endpoints.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = EndpointIndex> {
        (0_u32..).zip(&self.judged).filter(|(_, judged)| **judged).map(|(at, _)| EndpointIndex(at))
    }
}
