//! What a leaf does towards the spines: what stays below it does not suffer.

use super::{Evidence, Hypothesis};
use crate::judge::{Layout, Sums};
use crate::{Component, PlaceIndex};

pub(super) const HYPOTHESIS: Hypothesis = Hypothesis { candidates, evidence };

fn candidates(layout: &Layout) -> Vec<Component> {
    let leaves = layout.of_leaf.keys().filter(|_| layout.of_leaf.len() > 1);
    leaves.map(|&leaf| Component::Uplinks(PlaceIndex(leaf))).collect()
}

fn evidence(layout: &Layout, sums: &Sums, component: Component) -> Evidence {
    let Component::Uplinks(PlaceIndex(leaf)) = component else { return Evidence::default() };
    of(layout, sums, leaf)
}

/// What is known of everything that leaves or enters a leaf.
pub(super) fn of(layout: &Layout, sums: &Sums, leaf: u32) -> Evidence {
    let mut evidence = Evidence::default();
    for &other in layout.of_leaf.keys().filter(|&&other| other != leaf) {
        let (there, back) = (sums.leaf_pair(leaf, other), sums.leaf_pair(other, leaf));
        for (window, (there, back)) in there.iter().zip(back).enumerate() {
            evidence.add(window, &there.out, &back.out, &there.out.and(&back.out), &there.either);
        }
    }
    evidence
}
