//! Counting: how many trials, how many of them went wrong, and how much more likely that is with a fault than without.

/// Trials, and those of them that went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) trials: u32,
    pub(crate) bad: u32,
}

/// Nothing was tried.
pub(crate) const NO_TRIAL: Count = Count { trials: 0, bad: 0 };

impl Count {
    pub(crate) fn new(trials: u32, bad: u32) -> Self {
        Self { trials, bad }
    }

    #[inline]
    pub(crate) fn add(&mut self, other: Self) {
        self.trials = self.trials.wrapping_add(other.trials);
        self.bad = self.bad.wrapping_add(other.bad);
    }

    pub(crate) fn take(&mut self, other: Self) {
        self.trials = self.trials.wrapping_sub(other.trials);
        self.bad = self.bad.wrapping_sub(other.bad);
    }

    pub(crate) fn and(mut self, other: Self) -> Self {
        self.add(other);
        self
    }

    /// Share that went wrong; 0 without trials.
    pub(crate) fn share(self) -> f64 {
        if self.trials == 0 { 0.0 } else { f64::from(self.bad) / f64::from(self.trials) }
    }

    /// By how many nats the counts are more likely when each trial goes wrong with `fault` than with `usual`; both within (0, 1].
    pub(crate) fn log_likelihood_ratio(self, fault: f64, usual: f64) -> f64 {
        let good = f64::from(self.trials.saturating_sub(self.bad));
        let of_bad = f64::from(self.bad) * (fault / usual).ln();
        if good > 0.0 { of_bad + good * ((1.0 - fault).max(1e-12) / (1.0 - usual)).ln() } else { of_bad }
    }
}

/// What a trial can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Channel {
    /// A small packet, or a whole probe of connections, did not arrive.
    Small,
    /// A packet of the full path MTU did not arrive.
    Large,
    /// A pair took longer than others of its tier.
    Slow,
    /// A stream was slower than others of its tier.
    Narrow,
}

/// One count for each channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally(pub(crate) [Count; 4]);

impl Tally {
    pub(crate) fn of(&self, channel: Channel) -> Count {
        self.0[channel as usize]
    }

    pub(crate) fn of_mut(&mut self, channel: Channel) -> &mut Count {
        &mut self.0[channel as usize]
    }

    #[inline]
    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            mine.add(theirs);
        }
    }

    #[inline]
    pub(crate) fn take(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            mine.take(theirs);
        }
    }

    pub(crate) fn and(&self, other: &Self) -> Self {
        let mut sum = *self;
        sum.add(other);
        sum
    }
}

/// Trials of which none went wrong: small and large packets of each way, round trips, samples of each host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fine(pub(crate) [u32; 4]);

impl Fine {
    #[inline]
    pub(crate) fn add(&mut self, other: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.wrapping_add(theirs);
        }
    }

    /// What was sent one way.
    #[inline]
    pub(crate) fn way(self) -> Tally {
        let [small, large, ..] = self.0;
        Tally([Count::new(small, 0), Count::new(large, 0), NO_TRIAL, NO_TRIAL])
    }

    /// Round trips.
    #[inline]
    pub(crate) fn either(self) -> Tally {
        let mut tally = Tally::default();
        *tally.of_mut(Channel::Slow) = Count::new(self.0[2], 0);
        tally
    }

    /// Of one host.
    #[inline]
    pub(crate) fn host(self) -> Count {
        Count::new(self.0[3], 0)
    }
}

/// Windows of age.
pub(crate) const WINDOWS: usize = 8;

/// Ages of cells, milliseconds, at which one window ends and the next begins: short ones first, so that a fault that has just begun is
/// not watered down by what was measured before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Windows([u64; WINDOWS - 1]);

impl Default for Windows {
    fn default() -> Self {
        Self([4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000])
    }
}

impl Windows {
    /// With ends where faults that are known by now began: each in the place of the end that is nearest to it. Else what was measured
    /// just before a fault would speak against those of its explanations that had many cells then. No window ends after `newest`, where
    /// somebody began to be doubted: what was measured again for that is to be looked at together.
    pub(crate) fn with(begun: impl Iterator<Item = u64>, newest: u64) -> Self {
        let mut windows = Self::default();
        let mut free = [true; WINDOWS - 1];
        for age_ms in begun {
            let distance = |end: u64| end.max(age_ms) as f64 / end.min(age_ms).max(1) as f64;
            let nearest = (0..WINDOWS - 1)
                .filter(|&at| free[at])
                .min_by(|&a, &b| distance(windows.0[a]).total_cmp(&distance(windows.0[b])));
            let Some(nearest) = nearest else { break };
            free[nearest] = false;
            windows.0[nearest] = age_ms;
        }
        windows.0.iter_mut().for_each(|end| *end = newest.max(*end));
        windows.0.sort_unstable();
        windows
    }

    /// The window of an age.
    #[inline]
    pub(crate) fn of(&self, age_ms: u64) -> usize {
        // Without branches: it is asked for every cell.
        self.0.iter().map(|end| usize::from(age_ms >= *end)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_wrong_than_usual_speaks_for_a_fault_and_less_against_it() {
        let dead = Count::new(45, 45).log_likelihood_ratio(1.0, 1e-4);
        assert!((dead - 45.0 * 10_000_f64.ln()).abs() < 1e-9);
        let clean = Count::new(100, 0).log_likelihood_ratio(0.2, 1e-4);
        assert!((-22.4..-22.2).contains(&clean), "100 x ln 0.8 = {clean}");
        let usual = Count::new(10_000, 1).log_likelihood_ratio(1e-4, 1e-4);
        assert!(usual.abs() < 1e-9);
    }

    #[test]
    fn windows_are_short_where_it_matters_and_end_where_a_fault_began() {
        let usual = Windows::default();
        let ages = [0, 3_999, 4_000, 15_000, 255_999, 256_000, u64::MAX];
        assert_eq!(ages.map(|age| usual.of(age)), [0, 0, 1, 2, 6, 7, 7]);
        let known = Windows::with([40_001, 41_000].into_iter(), 0);
        assert_eq!([40_000, 40_001, 40_999, 41_000].map(|age| known.of(age)), [3, 4, 4, 5]);
        let doubted = Windows::with([9_001].into_iter(), 9_001);
        assert_eq!([0, 9_000, 9_001, 20_000].map(|age| doubted.of(age)), [0, 0, 2, 3]);
    }
}
