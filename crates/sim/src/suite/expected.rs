//! Who is to be named: all components that no evidence of a run can tell from the one that is broken.
//!
//! Two components cannot be told apart when the same ordered pairs suffer through them, of the pairs that are pinged. Loss is seen in each
//! direction, delay only over a round trip. A node with one endpoint is called by that endpoint, unless its host is slow: that is a
//! matter of the node.

use crate::net::{Topology, leaf_name, node_name};
use rdmascope_localise::Way;
use std::collections::BTreeSet;
use std::fmt;

/// A part of the cluster by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Node(usize),
    Endpoint(usize),
    Leaf(usize),
    Uplinks(usize),
    LeafPair(usize, usize),
    Spines,
    Pair(usize, usize),
    Everything,
}

/// A part of the cluster by its names, in the order in which a set of them is printed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// A host.
    Node(String),
    /// An endpoint.
    Endpoint(String),
    /// A leaf.
    Leaf(String),
    /// What a leaf does towards the spines.
    Uplinks(String),
    /// What lies between two leaves, in the order of their names.
    LeafPair(String, String),
    /// The spines.
    Spines,
    /// Two endpoints, in the order of their names.
    Pair(String, String),
    /// All of the cluster.
    Cluster,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "node {name}"),
            Self::Endpoint(name) => write!(f, "endpoint {name}"),
            Self::Leaf(name) => write!(f, "leaf {name}"),
            Self::Uplinks(name) => write!(f, "uplinks of {name}"),
            Self::LeafPair(a, b) => write!(f, "between {a} and {b}"),
            Self::Spines => f.write_str("spines"),
            Self::Pair(a, b) => write!(f, "pair {a}–{b}"),
            Self::Cluster => f.write_str("cluster"),
        }
    }
}

impl Named {
    /// Two things without an order.
    #[must_use]
    pub(crate) fn between(make: fn(String, String) -> Self, a: String, b: String) -> Self {
        if a < b { make(a, b) } else { make(b, a) }
    }
}

impl Part {
    pub(crate) fn name(self, topology: &Topology) -> Named {
        let end = |end: usize| topology.name(end).to_string();
        match self {
            Self::Node(node) => Named::Node(node_name(node)),
            Self::Endpoint(at) => Named::Endpoint(end(at)),
            Self::Leaf(leaf) => Named::Leaf(leaf_name(leaf)),
            Self::Uplinks(leaf) => Named::Uplinks(leaf_name(leaf)),
            Self::LeafPair(a, b) => Named::between(Named::LeafPair, leaf_name(a), leaf_name(b)),
            Self::Spines => Named::Spines,
            Self::Pair(a, b) => Named::between(Named::Pair, end(a), end(b)),
            Self::Everything => Named::Cluster,
        }
    }

    /// A packet from the one endpoint to the other suffers from this part, on this way of it.
    pub(crate) fn meets(self, way: Way, from: usize, to: usize, topology: &Topology) -> bool {
        let (a, b) = (&topology.ends[from], &topology.ends[to]);
        let (out, into) = (way != Way::In, way != Way::Out);
        let along = |x: usize, y: usize, from: usize, to: usize| {
            (out && (x, y) == (from, to)) || (into && (y, x) == (from, to))
        };
        match self {
            Self::Node(node) => (out && a.node == node) || (into && b.node == node),
            Self::Endpoint(end) => (out && from == end) || (into && to == end),
            Self::Leaf(leaf) => (out && a.leaf == leaf) || (into && b.leaf == leaf),
            Self::Uplinks(leaf) => a.leaf != b.leaf && ((out && a.leaf == leaf) || (into && b.leaf == leaf)),
            Self::LeafPair(x, y) => along(x, y, a.leaf, b.leaf),
            Self::Spines => a.leaf != b.leaf,
            Self::Pair(x, y) => along(x, y, from, to),
            Self::Everything => true,
        }
    }

    /// Parts that a packet between two endpoints may suffer from.
    fn all(from: usize, to: usize, topology: &Topology) -> Vec<Self> {
        let (a, b) = (&topology.ends[from], &topology.ends[to]);
        let mut parts = vec![Self::Endpoint(from), Self::Endpoint(to), Self::Pair(from, to)];
        if topology.layout.rails > 1 {
            parts.extend([Self::Node(a.node), Self::Node(b.node)]);
        }
        parts.extend([Self::Leaf(a.leaf), Self::Leaf(b.leaf)]);
        if a.leaf != b.leaf {
            let between = Self::LeafPair(a.leaf.min(b.leaf), a.leaf.max(b.leaf));
            parts.extend([Self::Uplinks(a.leaf), Self::Uplinks(b.leaf), between, Self::Spines]);
        }
        parts.push(Self::Everything);
        parts
    }
}

/// All parts that cannot be told from this one, it included. `round_trips`: only round trips show it.
pub(crate) fn alike(part: Part, way: Way, round_trips: bool, topology: &Topology) -> BTreeSet<Named> {
    let ends = 0..topology.len();
    let pairs = || {
        let pairs = ends.clone().flat_map(|from| ends.clone().map(move |to| (from, to)));
        pairs.filter(|&(from, to)| topology.is_pinged(from, to))
    };
    let shows = |part: Part, way: Way, from: usize, to: usize| {
        part.meets(way, from, to, topology) || (round_trips && part.meets(way, to, from, topology))
    };
    let Some(witness) = pairs().find(|&(from, to)| shows(part, way, from, to)) else {
        return BTreeSet::new();
    };
    let same = |other: Part, others_way: Way| {
        pairs().all(|(from, to)| shows(part, way, from, to) == shows(other, others_way, from, to))
    };
    let ways = [Way::Both, Way::Out, Way::In];
    let parts = Part::all(witness.0, witness.1, topology).into_iter();
    parts
        .filter(|&other| ways.into_iter().any(|way| same(other, way)))
        .map(|other| other.name(topology))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Layout;

    fn layout(nodes: usize, rails: usize, leaves: usize) -> Layout {
        Layout {
            nodes,
            rails,
            leaves,
            spines: 2,
            pods: 1,
            lonely: false,
            rates_gbps: vec![400],
            oversubscription: 1.0,
            hardware_stamps: true,
        }
    }

    #[track_caller]
    fn set(part: Part, way: Way, layout: &Layout) -> Vec<String> {
        let topology = Topology::new(layout);
        alike(part, way, false, &topology).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn in_an_ordinary_cluster_every_part_is_named_alone() {
        let usual = layout(8, 2, 4);
        for way in [Way::Both, Way::Out, Way::In] {
            assert_eq!(set(Part::Endpoint(5), way, &usual), ["endpoint node-2/sim1/1"]);
            assert_eq!(set(Part::Node(2), way, &usual), ["node node-2"]);
            assert_eq!(set(Part::Leaf(1), way, &usual), ["leaf leaf-1"]);
            assert_eq!(set(Part::Uplinks(1), way, &usual), ["uplinks of leaf-1"]);
            assert_eq!(set(Part::LeafPair(1, 3), way, &usual), ["between leaf-1 and leaf-3"]);
            assert_eq!(set(Part::Pair(1, 9), way, &usual), ["pair node-0/sim1/1–node-4/sim1/1"]);
        }
        assert_eq!(set(Part::Spines, Way::Both, &usual), ["spines"]);
        assert_eq!(set(Part::Everything, Way::Both, &usual), ["cluster"]);
    }

    #[test]
    fn an_endpoint_alone_on_its_leaf_cannot_be_told_from_the_leaf() {
        let lonely = Layout { lonely: true, ..layout(8, 1, 4) };
        let all = ["endpoint node-7/sim0/1", "leaf leaf-3", "uplinks of leaf-3"];
        assert_eq!(set(Part::Endpoint(7), Way::Both, &lonely), all);
        assert_eq!(set(Part::Leaf(3), Way::Out, &lonely), all);
        assert_eq!(set(Part::Endpoint(0), Way::Both, &lonely), ["endpoint node-0/sim0/1"]);
    }

    #[test]
    fn a_node_alone_on_its_leaf_is_the_leaf_and_its_endpoints_are_not() {
        let lonely = Layout { lonely: true, ..layout(8, 2, 4) };
        let all = ["node node-7", "leaf leaf-3", "uplinks of leaf-3"];
        assert_eq!(set(Part::Node(7), Way::Both, &lonely), all);
        assert_eq!(set(Part::Uplinks(3), Way::In, &lonely), all);
        assert_eq!(set(Part::Endpoint(15), Way::Both, &lonely), ["endpoint node-7/sim1/1"]);
    }

    #[test]
    fn between_two_leaves_nobody_can_say_whose_uplinks_they_are() {
        let all = ["uplinks of leaf-0", "uplinks of leaf-1", "between leaf-0 and leaf-1", "spines"];
        assert_eq!(set(Part::LeafPair(0, 1), Way::Both, &layout(8, 1, 2)), all);
        assert_eq!(set(Part::Uplinks(1), Way::Both, &layout(8, 1, 2)), all);
        // Spines have no way of their own.
        assert_eq!(set(Part::Uplinks(1), Way::Out, &layout(8, 1, 2)), all[..3]);
    }

    #[test]
    fn delay_of_one_direction_is_seen_in_both() {
        let topology = Topology::new(&layout(8, 1, 2));
        let names = |way| alike(Part::Uplinks(1), way, true, &topology);
        assert_eq!(names(Way::Out), names(Way::Both));
        assert_eq!(names(Way::Out).len(), 4);
    }

    #[test]
    fn a_node_with_one_endpoint_is_called_by_it() {
        assert_eq!(set(Part::Node(2), Way::Both, &layout(8, 1, 4)), ["endpoint node-2/sim0/1"]);
    }
}
