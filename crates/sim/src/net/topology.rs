//! Which endpoint hangs on which leaf, and what lies between leaves.

use rdmascope_model::EndpointName;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What a cluster is made of. All endpoints of a node hang on one leaf.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// Nodes.
    pub nodes: usize,
    /// Endpoints of each.
    pub rails: usize,
    /// Leaves, which get about as many nodes each.
    pub leaves: usize,
    /// Spines of each pod; each leaf has one uplink to each.
    pub spines: usize,
    /// Pods, which get about as many leaves each.
    #[serde(default = "one")]
    pub pods: usize,
    /// The last leaf has the last node alone.
    #[serde(default)]
    pub lonely: bool,
    /// Rates of ports, Gbit/s, given to the nodes in turns.
    #[serde(default = "usual_rate")]
    pub rates_gbps: Vec<u64>,
    /// How much more a leaf can receive from its nodes than its uplinks carry.
    #[serde(default = "not_at_all")]
    pub oversubscription: f32,
    /// Devices stamp the pings; else the agents do.
    #[serde(default)]
    pub hardware_stamps: bool,
}

fn one() -> usize {
    1
}

fn usual_rate() -> Vec<u64> {
    vec![400]
}

fn not_at_all() -> f32 {
    1.0
}

/// Where one endpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Its node.
    pub node: usize,
    /// Which of the node's endpoints.
    pub rail: usize,
    /// Its leaf.
    pub leaf: usize,
    /// Its pod.
    pub pod: usize,
    /// Rate of its port, bits per second.
    pub rate_bps: u64,
}

/// All endpoints by their numbers: those of a node stand together.
#[derive(Clone, Debug)]
pub struct Topology {
    /// What it was made from.
    pub layout: Layout,
    /// Where each endpoint stands.
    pub ends: Vec<End>,
    index: BTreeMap<EndpointName, usize>,
}

impl Topology {
    /// The endpoints of a layout.
    #[must_use]
    pub fn new(layout: &Layout) -> Self {
        let Layout { nodes, rails, leaves, .. } = *layout;
        let (shared, on) = if layout.lonely { (leaves - 1, nodes - 1) } else { (leaves, nodes) };
        let leaf = |node: usize| if node < on { node * shared / on } else { leaves - 1 };
        let end = |node: usize, rail: usize| End {
            node,
            rail,
            leaf: leaf(node),
            pod: leaf(node) * layout.pods / leaves,
            rate_bps: layout.rates_gbps[node % layout.rates_gbps.len()] * 1_000_000_000,
        };
        let ends: Vec<_> = (0..nodes).flat_map(|node| (0..rails).map(move |rail| end(node, rail))).collect();
        let mut topology = Self { layout: layout.clone(), ends, index: BTreeMap::new() };
        topology.index = (0..topology.ends.len()).map(|at| (topology.name(at), at)).collect();
        topology
    }

    /// How many endpoints there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The name of an endpoint.
    #[must_use]
    pub fn name(&self, end: usize) -> EndpointName {
        let End { node, rail, .. } = self.ends[end];
        EndpointName { node: node_name(node), device: format!("sim{rail}"), port: 1 }
    }

    /// The endpoint of a name.
    #[must_use]
    pub fn find(&self, name: &EndpointName) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// The numbers of a node's endpoints.
    #[must_use]
    pub fn of_node(&self, node: usize) -> std::ops::Range<usize> {
        node * self.layout.rails..(node + 1) * self.layout.rails
    }

    /// The leaf of each node, as a topology file tells it.
    #[must_use]
    pub fn leaves(&self) -> BTreeMap<String, String> {
        self.ends.iter().map(|end| (node_name(end.node), leaf_name(end.leaf))).collect()
    }

    /// Two endpoints ping each other: those of one node do not.
    #[must_use]
    pub fn is_pinged(&self, from: usize, to: usize) -> bool {
        self.ends[from].node != self.ends[to].node
    }
}

/// The name of a node.
#[must_use]
pub fn node_name(node: usize) -> String {
    format!("node-{node}")
}

/// The name of a leaf.
#[must_use]
pub fn leaf_name(leaf: usize) -> String {
    format!("leaf-{leaf}")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn layout(nodes: usize, rails: usize, leaves: usize, spines: usize) -> Layout {
        Layout {
            nodes,
            rails,
            leaves,
            spines,
            pods: 1,
            lonely: false,
            rates_gbps: vec![400],
            oversubscription: 1.0,
            hardware_stamps: true,
        }
    }

    fn per_leaf(topology: &Topology) -> Vec<usize> {
        let mut counts = vec![0; topology.layout.leaves];
        topology.ends.iter().for_each(|end| counts[end.leaf] += 1);
        counts
    }

    #[test]
    fn leaves_get_about_as_many_nodes_each_and_a_lonely_one_gets_one() {
        assert_eq!(per_leaf(&Topology::new(&layout(8, 2, 4, 2))), [4, 4, 4, 4]);
        let lonely = Topology::new(&Layout { lonely: true, ..layout(16, 2, 4, 2) });
        assert_eq!(per_leaf(&lonely), [10, 10, 10, 2]);
        let pods = Topology::new(&Layout { pods: 2, ..layout(8, 1, 4, 2) });
        assert_eq!(pods.ends.iter().map(|end| end.pod).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1, 1, 1]);
    }

    #[test]
    fn names_lead_back_to_their_endpoint_and_a_node_pings_only_others() {
        let topology = Topology::new(&layout(4, 2, 2, 2));
        assert!((0..8).all(|end| topology.find(&topology.name(end)) == Some(end)));
        assert_eq!(topology.name(5).to_string(), "node-2/sim1/1");
        assert!(!topology.is_pinged(4, 5) && topology.is_pinged(4, 3));
        assert_eq!(topology.leaves()["node-3"], "leaf-1");
    }
}
