//! The one source of chance: small, seeded, and the same on every machine.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw().checked_rem(bound).unwrap_or(0)
    }

    /// A number from 0 up to but not including 1.
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number between two others.
    pub fn between(&mut self, [from, to]: [f32; 2]) -> f32 {
        from + (to - from) * self.unit() as f32
    }

    /// A wait with this mean, exponentially distributed.
    pub(crate) fn wait(&mut self, mean: f32) -> f32 {
        -(1.0 - self.unit()).ln() as f32 * mean
    }

    /// True so many times in a million.
    pub fn chance(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.below(1_000_000) < u64::from(per_million)
    }
}

/// 64 bits that depend on every bit of one number: the finaliser of SplitMix64.
#[must_use]
pub(crate) fn mix(value: u64) -> u64 {
    Random(value.wrapping_sub(0x9e37_79b9_7f4a_7c15)).draw()
}

/// 64 bits that depend on every byte (FNV-1a, as its authors publish it); for traces and for figures of a pair.
#[must_use]
pub(crate) fn digest(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Where a digest begins.
pub(crate) const DIGEST_START: u64 = 0xcbf2_9ce4_8422_2325;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_algorithm() {
        // First two outputs for seed 0, as in the reference implementation splitmix64.c by Sebastiano Vigna.
        let mut random = Random::new(0);
        assert_eq!([random.draw(), random.draw()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
        // FNV-1a test vector of "a".
        assert_eq!(digest(DIGEST_START, b"a"), 0xaf63_dc4c_8601_ec8c);
    }

    #[test]
    fn chances_are_about_as_asked() {
        let mut random = Random::new(1);
        let hits = (0..100_000).filter(|_| random.chance(10_000)).count();
        assert!((800..1_200).contains(&hits), "{hits} of 100,000 at 1 %");
        assert!(!random.chance(0));
        assert_eq!(random.below(0), 0);
    }
}
