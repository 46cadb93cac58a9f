//! Latency figures from samples; a quantile is given only where the count supports it.

use rdmascope_model::LatencyStats;

/// Below so many samples the 99th percentile is absent: with 300 there is a 95 % chance that one lies beyond it (1 - 0.99^300).
pub(crate) const P99_SAMPLES_MIN: usize = 300;
/// The same for the 99.9th percentile (1 - 0.999^3000).
const P999_SAMPLES_MIN: usize = 3_000;

/// Figures of half round trips in nanoseconds; sorts `samples` in place. `None` when there is no sample.
///
/// The largest and smallest samples are kept: the worst one is what people look for.
#[must_use]
pub fn latency_stats(samples: &mut [u64], host_delayed: u32) -> Option<LatencyStats> {
    samples.sort_unstable();
    let (&min_ns, &max_ns) = (samples.first()?, samples.last()?);
    let tail =
        |needed: usize, per_mille: usize| (samples.len() >= needed).then(|| quantile(samples, per_mille));
    Some(LatencyStats {
        count: u32::try_from(samples.len()).unwrap_or(u32::MAX),
        min_ns,
        p50_ns: quantile(samples, 500),
        p90_ns: quantile(samples, 900),
        p99_ns: tail(P99_SAMPLES_MIN, 990),
        p999_ns: tail(P999_SAMPLES_MIN, 999),
        max_ns,
        host_delayed,
    })
}

/// Nearest-rank quantile: the smallest sample that at least `per_mille` thousandths of the samples do not exceed.
pub(crate) fn quantile(sorted: &[u64], per_mille: usize) -> u64 {
    let rank = (sorted.len() * per_mille).div_ceil(1_000).max(1);
    sorted[rank - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_nearest_ranks_of_the_samples() {
        let mut samples: Vec<u64> = (1..=1_000).rev().collect();
        let stats = latency_stats(&mut samples, 2).unwrap();
        assert_eq!((stats.min_ns, stats.p50_ns, stats.p90_ns), (1, 500, 900));
        assert_eq!(
            (stats.p99_ns, stats.max_ns, stats.count, stats.host_delayed),
            (Some(990), 1_000, 1_000, 2)
        );
        assert_eq!(stats.p999_ns, None, "1,000 samples cannot tell a 99.9th percentile");
    }

    #[test]
    fn a_quantile_appears_at_the_count_that_supports_it() {
        let with = |count: u64| latency_stats(&mut (0..count).collect::<Vec<_>>(), 0).unwrap();
        assert_eq!(with(299).p99_ns, None);
        assert!(with(300).p99_ns.is_some());
        assert_eq!(with(2_999).p999_ns, None);
        assert!(with(3_000).p999_ns.is_some());
    }

    #[test]
    fn no_sample_gives_no_figure() {
        assert_eq!(latency_stats(&mut [], 0), None);
    }
}
