//! Path labels: which ones a pair takes to meet its equal-cost paths ([`crate::labels_needed`] says how many).

use rdmascope_model::EndpointName;
use std::time::Duration;

/// A fifth of a pair's labels is exchanged this often, so that no path stays unseen for long (R-Pingmesh, section 4.2).
const ROTATES_EVERY: Duration = Duration::from_secs(3_600);
const SHARE: u64 = 5;

/// The flow label, 20 bits and never 0, of one label of an ordered pair. `age` is how long the prober has run: a fifth of
/// the labels changes every hour.
#[must_use]
pub fn flow_label(pair: u64, index: u16, age: Duration) -> u32 {
    let hours = age.as_secs() / ROTATES_EVERY.as_secs();
    let rotation = (hours + u64::from(index) % SHARE) / SHARE;
    let mixed = mix(pair ^ mix(u64::from(index) << 32 ^ rotation));
    // 1 to 2^20 - 1.
    u32::try_from(mixed % 0x000f_ffff).unwrap_or(0) + 1
}

/// What the labels of an ordered pair are derived from.
#[must_use]
pub fn pair_seed(source: &EndpointName, target: &EndpointName) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for name in [source, target] {
        name.node.bytes().chain([b'/']).chain(name.device.bytes()).for_each(&mut add);
        add(name.port);
    }
    hash
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, 2014): every bit depends on every bit.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn labels_of_a_pair_differ_and_are_spread() {
        let name = |text: &str| text.parse::<EndpointName>().unwrap();
        let seed = pair_seed(&name("a/d/1"), &name("b/d/1"));
        assert_ne!(seed, pair_seed(&name("b/d/1"), &name("a/d/1")), "each direction has its own");
        let labels: BTreeSet<u32> = (0..255).map(|i| flow_label(seed, i, Duration::ZERO)).collect();
        assert!(labels.len() >= 254, "{} of 255 differ", labels.len());
        assert!(labels.iter().all(|&label| label > 0 && label < 1 << 20));
        // Of 255 draws into 16 boxes each box gets 16 on average; an empty one would have a chance of 1e-7.
        let boxes: BTreeSet<u32> = labels.iter().map(|label| label >> 16).collect();
        assert_eq!(boxes.len(), 16);
    }

    #[test]
    fn a_fifth_of_the_labels_changes_every_hour() {
        let at = |hours: u64| -> Vec<u32> {
            (0..20).map(|i| flow_label(7, i, Duration::from_secs(3_600 * hours))).collect()
        };
        for hour in 0..10 {
            let changed = at(hour).iter().zip(at(hour + 1)).filter(|(old, new)| **old != *new).count();
            assert_eq!(changed, 4, "of 20 labels after hour {hour}");
        }
    }
}
