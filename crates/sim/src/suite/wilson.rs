//! How far a share of few runs may be off.

/// A count of runs, and of those of them for which something holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// For which it holds.
    pub hits: usize,
    /// All.
    pub of: usize,
}

impl Share {
    /// Counts one more.
    pub fn count(&mut self, hit: bool) {
        self.of += 1;
        self.hits += usize::from(hit);
    }

    /// Counts those of another one.
    pub fn add(&mut self, other: Self) {
        self.of += other.of;
        self.hits += other.hits;
    }

    /// Percent; `None` of nothing.
    #[must_use]
    pub fn percent(self) -> Option<f64> {
        (self.of > 0).then(|| 100.0 * self.hits as f64 / self.of as f64)
    }

    /// Between these percentages it lies with a probability of 95 %: the score interval of Wilson (1927), which holds for few runs and
    /// for shares close to 0 and 1, too. `None` of nothing.
    #[must_use]
    pub fn interval(self) -> Option<(f64, f64)> {
        /// Two-sided 95 % of the normal distribution.
        const Z: f64 = 1.959_963_984_540_054;
        if self.of == 0 {
            return None;
        }
        let (n, p) = (self.of as f64, self.hits as f64 / self.of as f64);
        let centre = p + Z * Z / (2.0 * n);
        let spread = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        let whole = 1.0 + Z * Z / n;
        Some((100.0 * (centre - spread).max(0.0) / whole, 100.0 * ((centre + spread) / whole).min(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is((hits, of): (usize, usize), low: f64, high: f64) {
        let (seen_low, seen_high) = Share { hits, of }.interval().unwrap();
        assert!(
            (seen_low - low).abs() < 0.01 && (seen_high - high).abs() < 0.01,
            "{seen_low} to {seen_high}"
        );
    }

    #[test]
    fn intervals_are_those_of_the_published_formula() {
        // Newcombe (1998), "Two-sided confidence intervals for the single proportion", table I, method 3.
        is((81, 263), 25.53, 36.62);
        is((15, 148), 6.24, 16.05);
        is((0, 20), 0.0, 16.11);
        is((1, 29), 0.61, 17.18);
        assert_eq!(Share::default().interval(), None);
        assert_eq!(Share { hits: 3, of: 4 }.percent(), Some(75.0));
    }
}
