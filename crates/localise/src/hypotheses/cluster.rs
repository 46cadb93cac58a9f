//! All of it: compared with each other its parts look the same.

use super::{Evidence, Hypothesis};
use crate::Component;
use crate::judge::{Layout, Sums, Tally, WINDOWS};

pub(super) const HYPOTHESIS: Hypothesis = Hypothesis { candidates, evidence };

fn candidates(_: &Layout) -> Vec<Component> {
    vec![Component::Cluster]
}

fn evidence(layout: &Layout, sums: &Sums, _: Component) -> Evidence {
    let mut evidence = Evidence::default();
    for endpoint in layout.endpoints() {
        for (window, sides) in sums.endpoints[endpoint.0 as usize].iter().enumerate() {
            evidence.ways[0][window].add(&sides.out);
            evidence.ways[0][window].add(&sides.either);
        }
    }
    // A round trip has two ends.
    for window in 0..WINDOWS {
        halve(&mut evidence.ways[0][window], layout, sums, window);
    }
    evidence
}

fn halve(all: &mut Tally, layout: &Layout, sums: &Sums, window: usize) {
    let mut either = Tally::default();
    for endpoint in layout.endpoints() {
        either.add(&sums.endpoints[endpoint.0 as usize][window].either);
    }
    for (count, twice) in all.0.iter_mut().zip(either.0) {
        count.trials -= twice.trials - twice.trials / 2;
        count.bad -= twice.bad - twice.bad / 2;
    }
}
