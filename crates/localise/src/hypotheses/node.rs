//! A host. With one endpoint it cannot be told from that endpoint by what the network shows, and is not named for it; with more, all of
//! them suffer.

use super::{Evidence, Hypothesis, endpoint};
use crate::judge::{Layout, Sums};
use crate::{Component, PlaceIndex};

pub(super) const HYPOTHESIS: Hypothesis = Hypothesis { candidates, evidence };

fn candidates(layout: &Layout) -> Vec<Component> {
    let several = layout.of_node.iter().filter(|(_, endpoints)| endpoints.len() > 1);
    several.map(|(&node, _)| Component::Node(PlaceIndex(node))).collect()
}

fn evidence(layout: &Layout, sums: &Sums, component: Component) -> Evidence {
    let mut evidence = Evidence::default();
    for at in layout.ends(component).into_iter().flatten() {
        endpoint::add(&mut evidence, sums, at);
    }
    evidence
}
