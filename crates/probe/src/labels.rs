//! How many path labels it takes to hit every one of several equal-cost paths.

/// Labels that hit all of `paths` equal paths with at least this probability, when each label takes a path at random: ⌈ln(1 − p^(1/m)) /
/// ln(1 − 1/m)⌉ (R-Pingmesh, SIGCOMM 2024, section 4.2). 1 for a single path; never more than [`crate::limits::LABELS_MAX`].
#[must_use]
pub fn labels_needed(paths: u32, probability: f64) -> u32 {
    if paths <= 1 {
        return 1;
    }
    let paths = f64::from(paths);
    let missed = 1.0 - probability.clamp(0.0, 1.0).powf(paths.recip());
    let labels = (missed.ln() / (1.0 - paths.recip()).ln()).ceil();
    // A probability of 1 would take labels without end; the cast saturates.
    (labels as u32).clamp(1, crate::limits::LABELS_MAX)
}

#[cfg(test)]
mod tests {
    use super::labels_needed;

    #[test]
    fn the_published_figures_come_out() {
        let figures =
            [(1, 0.99, 1), (4, 0.99, 21), (8, 0.99, 51), (16, 0.99, 115), (32, 0.99, 255), (16, 0.9, 78)];
        for (paths, probability, labels) in figures {
            assert_eq!(labels_needed(paths, probability), labels, "{paths} paths, {probability}");
        }
    }

    #[test]
    fn nonsense_asks_for_no_more_than_a_lease_may_have() {
        assert_eq!(labels_needed(1_000_000, 0.99), 256);
        assert_eq!(labels_needed(4, 1.0), 256);
        assert_eq!((labels_needed(0, 0.99), labels_needed(4, 0.0)), (1, 1));
    }
}
