//! The spines, or one of them: everything between leaves suffers. They have no way of their own: what they send, they received.

use super::{Evidence, Hypothesis};
use crate::Component;
use crate::judge::{Layout, Sums, Tally};

pub(super) const HYPOTHESIS: Hypothesis = Hypothesis { candidates, evidence };

fn candidates(layout: &Layout) -> Vec<Component> {
    if layout.of_leaf.len() > 1 { vec![Component::Spines] } else { Vec::new() }
}

fn evidence(layout: &Layout, sums: &Sums, _: Component) -> Evidence {
    let mut evidence = Evidence::default();
    let leaves: Vec<u32> = layout.of_leaf.keys().copied().collect();
    let none = Tally::default();
    for &a in &leaves {
        for &b in leaves.iter().filter(|&&b| b != a) {
            for (window, sides) in sums.leaf_pair(a, b).iter().enumerate() {
                // Round trips stand in both orders.
                let either = if a < b { &sides.either } else { &none };
                evidence.add(window, &none, &none, &sides.out, &none);
                evidence.ways[0][window].add(either);
            }
        }
    }
    evidence
}
