//! Which pairs are probed at the same time: rounds in which no endpoint appears twice, and every pair appears once.
//!
//! The circle method: endpoint 0 stays, the others turn by one place each round (a 1-factorisation of the complete
//! graph). With an odd count a bye sits in the circle, and its partner rests. Nobody waits for a round to end: the order
//! only makes it likely that the next pairs are free.

/// All unordered pairs of `count` endpoints, in the order of their rounds; `turn` starts with another round, so that
/// repeated sweeps do not always measure the same pairs first.
pub(super) fn pairs(count: u32, turn: u32) -> impl Iterator<Item = (u32, u32)> {
    let places = count + count % 2;
    let rounds = places.saturating_sub(1);
    let at = move |place: u32, round: u32| if place == 0 { 0 } else { 1 + (place - 1 + round) % rounds };
    (0..rounds).flat_map(move |r| {
        let round = (r + turn) % rounds;
        (0..places / 2).filter_map(move |k| {
            let (a, b) = (at(k, round), at(places - 1 - k, round));
            (a < count && b < count).then_some((a.min(b), a.max(b)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::pairs;
    use std::collections::BTreeSet;

    #[test]
    fn every_pair_once_and_no_endpoint_twice_in_a_round() {
        for count in 0..=17_u32 {
            let all: Vec<_> = pairs(count, count / 3).collect();
            let distinct: BTreeSet<_> = all.iter().copied().collect();
            let expected = (count * count.saturating_sub(1) / 2) as usize;
            assert_eq!((all.len(), distinct.len()), (expected, expected), "{count} endpoints");
            assert!(all.iter().all(|&(a, b)| a < b && b < count));
            let per_round = (count / 2).max(1) as usize;
            for round in all.chunks(per_round) {
                let busy: BTreeSet<_> = round.iter().flat_map(|&(a, b)| [a, b]).collect();
                assert_eq!(busy.len(), 2 * round.len(), "{count} endpoints, round {round:?}");
            }
        }
    }

    #[test]
    fn another_turn_starts_with_another_round() {
        assert_ne!(pairs(8, 0).next(), pairs(8, 1).next());
    }
}
