//! One pair of endpoints and nobody else. There are too many to keep sums of: the cells are read again.

use super::Evidence;
use crate::judge::{Scene, Tally};

/// What is known of a pair, both orders; its way out is that from `a` to `b`.
pub(crate) fn evidence(scene: &Scene<'_>, a: usize, b: usize) -> Evidence {
    let mut evidence = Evidence::default();
    scene.between(a, b, |seen| {
        let seen = seen.of_pair();
        let both = seen.forward.and(&seen.backward);
        evidence.add(seen.window, &seen.forward, &seen.backward, &both, &seen.either);
    });
    scene.between(b, a, |seen| {
        let seen = seen.of_pair();
        let both: Tally = seen.forward.and(&seen.backward);
        evidence.add(seen.window, &seen.backward, &seen.forward, &both, &seen.either);
    });
    evidence
}
