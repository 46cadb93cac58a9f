//! What lies between two leaves and concerns no third one. Its way out is that from the smaller to the larger one.

use super::{Evidence, Hypothesis};
use crate::judge::{Layout, Sums};
use crate::{Component, PlaceIndex};

pub(super) const HYPOTHESIS: Hypothesis = Hypothesis { candidates, evidence };

fn candidates(layout: &Layout) -> Vec<Component> {
    let leaves: Vec<u32> = layout.of_leaf.keys().copied().collect();
    let pairs = leaves.iter().enumerate().flat_map(|(at, &a)| leaves[at + 1..].iter().map(move |&b| (a, b)));
    pairs.map(|(a, b)| Component::LeafPair(PlaceIndex(a), PlaceIndex(b))).collect()
}

fn evidence(_: &Layout, sums: &Sums, component: Component) -> Evidence {
    let mut evidence = Evidence::default();
    if let Component::LeafPair(PlaceIndex(a), PlaceIndex(b)) = component {
        for (window, (there, back)) in sums.leaf_pair(a, b).iter().zip(sums.leaf_pair(b, a)).enumerate() {
            evidence.add(window, &there.out, &back.out, &there.out.and(&back.out), &there.either);
        }
    }
    evidence
}
