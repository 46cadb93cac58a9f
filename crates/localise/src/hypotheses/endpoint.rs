//! An endpoint: its adapter, its cable, or the port of the switch.

use super::{Evidence, Hypothesis};
use crate::judge::{Layout, Sums};
use crate::{Component, EndpointIndex};

pub(super) const HYPOTHESIS: Hypothesis = Hypothesis { candidates, evidence };

fn candidates(layout: &Layout) -> Vec<Component> {
    layout.endpoints().map(Component::Endpoint).collect()
}

fn evidence(_: &Layout, sums: &Sums, component: Component) -> Evidence {
    let mut evidence = Evidence::default();
    if let Component::Endpoint(EndpointIndex(at)) = component {
        add(&mut evidence, sums, at);
    }
    evidence
}

/// Adds what is known of one endpoint; no trial has two endpoints of one node.
pub(super) fn add(evidence: &mut Evidence, sums: &Sums, at: u32) {
    for (window, sides) in sums.endpoints[at as usize].iter().enumerate() {
        evidence.add(window, &sides.out, &sides.into, &sides.out.and(&sides.into), &sides.either);
    }
}
