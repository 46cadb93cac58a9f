//! Circles: the partner of a round by a formula, for one group with itself and for two groups that turn past each other.

/// Rounds of a circle of so many: with an odd count everybody has one bye.
pub(super) fn circle_rounds(count: u32) -> u32 {
    if count < 2 { 0 } else { count - 1 + count % 2 }
}

/// Who is with `own` in a round of a circle of so many; `None` for a bye.
///
/// With an odd count m, those are together whose numbers add up to the round (modulo m); one is left alone. With an even one, that one
/// is with the last, which takes no part in the sums.
pub(super) fn circle(own: u32, round: u32, count: u32) -> Option<u32> {
    let rounds = circle_rounds(count);
    if round >= rounds {
        return None;
    }
    if own == rounds {
        // Twice whose number is the round: m is odd, so (m + 1) / 2 is what to multiply by.
        let half = u64::from(rounds).div_ceil(2);
        return u32::try_from(u64::from(round) * half % u64::from(rounds)).ok();
    }
    let partner = (round + rounds - own) % rounds;
    match partner == own {
        true => count.is_multiple_of(2).then_some(rounds),
        false => Some(partner),
    }
}

pub(super) fn next_in_circle(own: u32, from: u32, count: u32, most: Option<u32>) -> Option<(u32, u32)> {
    let rounds = circle_rounds(count).min(most.unwrap_or(u32::MAX));
    (from..rounds).find_map(|round| Some((round, circle(own, round, count)?)))
}

/// Two groups of `first` and `second`: the first one's `own` is with who stands as many places behind it in the second as the round says.
pub(super) fn next_behind(own: u32, from: u32, first: u32, second: u32) -> Option<(u32, u32)> {
    let turns = first.max(second);
    let partner = (own + from) % turns.max(1);
    let wait = if partner < second { 0 } else { turns - partner };
    let shift = from.checked_add(wait)?;
    (shift < turns).then(|| (shift, (own + shift) % turns))
}

/// The same, seen from the second group.
pub(super) fn next_ahead(own: u32, from: u32, first: u32, second: u32) -> Option<(u32, u32)> {
    let turns = first.max(second);
    if from >= turns {
        return None;
    }
    let partner = (own + turns - from) % turns;
    let wait = (partner + 1).saturating_sub(first);
    let shift = from + wait;
    (shift < turns).then(|| (shift, partner - wait))
}

/// A number that stands for chance; 0 as the seed leaves everything in its order.
pub(super) fn drawn(seed: u64, what: u64) -> u64 {
    if seed == 0 { 0 } else { mixed(seed ^ mixed(what)) }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, 2014): every bit depends on every bit.
pub(super) fn mixed(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
