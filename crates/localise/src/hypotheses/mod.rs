//! What can be to blame: one file for each kind of component, one line in the list. A hypothesis says which components of its kind there
//! are and which of the sums belong to one of them; [`crate::judge`] says which explains what is seen.

mod cluster;
mod endpoint;
mod leaf;
mod leaf_pair;
mod node;
mod pair;
mod spines;
mod uplinks;

use crate::judge::{Layout, Sums, Tally, WINDOWS};
use crate::{Component, Way};

pub(crate) use pair::evidence as pair_evidence;

/// One kind of component.
pub(crate) struct Hypothesis {
    /// The components of this kind that something could be wrong with.
    pub(crate) candidates: fn(&Layout) -> Vec<Component>,
    /// What is known of one of them.
    pub(crate) evidence: fn(&Layout, &Sums, Component) -> Evidence,
}

/// All kinds but pairs, of which there are so many that only those are looked at that show something. From the narrow to the wide, so
/// that the narrow one is named where both explain the same.
pub(crate) const ALL: [&Hypothesis; 7] = [
    &endpoint::HYPOTHESIS,
    &node::HYPOTHESIS,
    &leaf_pair::HYPOTHESIS,
    &uplinks::HYPOTHESIS,
    &leaf::HYPOTHESIS,
    &spines::HYPOTHESIS,
    &cluster::HYPOTHESIS,
];

/// Ways in which a component can suffer.
pub(crate) const WAYS: [Way; 3] = [Way::Both, Way::Out, Way::In];

/// What is known of a component, in each window of age: trials of both ways, of what it sends and of what it receives. Trials whose
/// direction is not known are in all three.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) ways: [[Tally; WINDOWS]; 3],
}

impl Evidence {
    /// Adds trials of a window.
    fn add(&mut self, window: usize, out: &Tally, into: &Tally, both: &Tally, either: &Tally) {
        for (way, tally) in self.ways.iter_mut().zip([both, out, into]) {
            way[window].add(tally);
            way[window].add(either);
        }
    }
}

/// How wide a component is; what is wider can hold what is narrower.
pub(crate) fn rank(component: Component) -> u8 {
    match component {
        Component::Pair(..) => 0,
        Component::Endpoint(_) => 1,
        Component::Node(_) | Component::LeafPair(..) => 2,
        Component::Uplinks(_) => 3,
        Component::Leaf(_) => 4,
        Component::Spines => 5,
        Component::Cluster => 6,
    }
}
