//! A leaf as a whole, or what it does towards the endpoints below it.

use super::{Evidence, Hypothesis, uplinks};
use crate::judge::{Layout, Sums};
use crate::{Component, PlaceIndex};

pub(super) const HYPOTHESIS: Hypothesis = Hypothesis { candidates, evidence };

fn candidates(layout: &Layout) -> Vec<Component> {
    layout.of_leaf.keys().map(|&leaf| Component::Leaf(PlaceIndex(leaf))).collect()
}

fn evidence(layout: &Layout, sums: &Sums, component: Component) -> Evidence {
    let Component::Leaf(PlaceIndex(leaf)) = component else { return Evidence::default() };
    let mut evidence = uplinks::of(layout, sums, leaf);
    // What stays below it is sent by it and received by it.
    for (window, sides) in sums.leaf_pair(leaf, leaf).iter().enumerate() {
        evidence.add(window, &sides.out, &sides.out, &sides.out, &sides.either);
    }
    evidence
}
