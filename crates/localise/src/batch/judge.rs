//! Whether each pair keeps to the limits, and what all of them together look like beside each limit.

use super::{Limit, Limits};
use rdmascope_model::Metric;

/// What came of one ordered pair and metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// It has a figure.
    Measured {
        /// Median latency in nanoseconds, or average goodput in bits per second.
        value: u64,
        /// 99th percentile of latency, nanoseconds.
        p99_ns: Option<u64>,
        /// Packets sent again; `None` where nobody counts them.
        retransmits: Option<u64>,
        /// Largest goodput that is possible, bits per second.
        ceiling_bps: Option<u64>,
    },
    /// Its probe failed.
    Failed,
    /// It was not looked at, for a reason that says nothing about it.
    NotTested,
}

/// One ordered pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairLook {
    /// Place of the source among the endpoints.
    pub source: u32,
    /// Place of the target.
    pub target: u32,
    /// Latency or bandwidth.
    pub metric: Metric,
    /// What came of it.
    pub looked: Looked,
}

/// A limit that a pair does not keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Miss {
    /// Which one.
    pub limit: Limit,
    /// What was asked, in its unit.
    pub asked: f64,
    /// What was seen, in its unit.
    pub seen: f64,
}

/// What is to be said of one pair.
#[derive(Clone, Debug, PartialEq)]
pub enum Judged {
    /// It keeps to every limit that could be held against it.
    Fine,
    /// It misses these; none where its probe failed.
    Bad(Vec<Miss>),
    /// It was not tested.
    NotTested,
}

/// One limit, and what all pairs look like beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Which limit.
    pub limit: Limit,
    /// What is asked, in its unit.
    pub asked: f64,
    /// The worst that was seen; `None` where nothing was.
    pub worst: Option<f64>,
    /// The median of what was seen.
    pub median: Option<f64>,
    /// Pairs that it could be held against.
    pub judged: usize,
    /// Pairs that miss it.
    pub missed: usize,
    /// Pairs that have a figure and lack what this limit needs.
    pub unknown: usize,
}

/// Limits of pairs and the metric that each belongs to; `None`: both.
const OF_PAIRS: [(Limit, Option<Metric>); 6] = [
    (Limit::Latency, Some(Metric::Latency)),
    (Limit::LatencyOfBatch, Some(Metric::Latency)),
    (Limit::P99, Some(Metric::Latency)),
    (Limit::Goodput, Some(Metric::Bandwidth)),
    (Limit::GoodputOfBatch, Some(Metric::Bandwidth)),
    (Limit::Retransmits, None),
];

/// Judges every pair, in their order, and tells of each limit that was asked.
#[must_use]
pub fn judge(pairs: &[PairLook], limits: &Limits) -> (Vec<Judged>, Vec<Row>) {
    let better = [better_quarter(pairs, Metric::Latency), better_quarter(pairs, Metric::Bandwidth)];
    let asked: Vec<_> =
        OF_PAIRS.into_iter().filter_map(|(limit, of)| Some((limit, of, limits.get(limit)?))).collect();
    let mut seen: Vec<(Vec<f64>, usize, usize)> = asked.iter().map(|_| (Vec::new(), 0, 0)).collect();
    let mut judge_one = |pair: &PairLook| {
        let mut misses = Vec::new();
        match pair.looked {
            Looked::Failed => return Judged::Bad(misses),
            Looked::NotTested => return Judged::NotTested,
            Looked::Measured { .. } => {}
        }
        for ((limit, of, asked), (values, missed, unknown)) in asked.iter().zip(&mut seen) {
            if of.is_some_and(|metric| metric != pair.metric) {
                continue;
            }
            match beside(*limit, pair, better) {
                Some(value) => {
                    values.push(value);
                    if !limit.holds(*asked, value) {
                        *missed += 1;
                        misses.push(Miss { limit: *limit, asked: *asked, seen: value });
                    }
                }
                None => *unknown += 1,
            }
        }
        if misses.is_empty() { Judged::Fine } else { Judged::Bad(misses) }
    };
    let judged = pairs.iter().map(&mut judge_one).collect();
    let row = |((limit, _, asked), (mut values, missed, unknown)): (&(Limit, _, f64), (Vec<f64>, _, _))| {
        values.sort_by(f64::total_cmp);
        let worst = if limit.holds(*asked, f64::MAX) { values.first() } else { values.last() };
        Row {
            limit: *limit,
            asked: *asked,
            worst: worst.copied(),
            median: values.get(values.len() / 2).copied(),
            judged: values.len(),
            missed,
            unknown,
        }
    };
    (judged, asked.iter().zip(seen).map(row).collect())
}

/// A pair's figure in the unit of a limit; `None` where something is missing for it.
fn beside(limit: Limit, pair: &PairLook, better: [Option<u64>; 2]) -> Option<f64> {
    let Looked::Measured { value, p99_ns, retransmits, ceiling_bps } = pair.looked else { return None };
    let over = |base: Option<u64>| base.filter(|base| *base > 0).map(|base| value as f64 / base as f64);
    match limit {
        Limit::Latency => Some(value as f64 / 1e3),
        Limit::LatencyOfBatch => over(better[0]),
        Limit::P99 => p99_ns.map(|ns| ns as f64 / 1e3),
        Limit::Goodput => over(ceiling_bps).map(|ratio| 100.0 * ratio),
        Limit::GoodputOfBatch => over(better[1]).map(|ratio| 100.0 * ratio),
        Limit::Retransmits => retransmits.map(|count| count as f64),
        _ => None,
    }
}

/// What the better quarter of the pairs reaches. With one of four ends broken half of all pairs are bad, so that a median would be of
/// the broken ones.
fn better_quarter(pairs: &[PairLook], metric: Metric) -> Option<u64> {
    let value = |pair: &PairLook| match pair.looked {
        Looked::Measured { value, .. } if pair.metric == metric => Some(value),
        _ => None,
    };
    let mut values: Vec<u64> = pairs.iter().filter_map(value).collect();
    values.sort_unstable();
    if metric == Metric::Bandwidth {
        values.reverse();
    }
    values.get(values.len() / 4).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Preset;

    fn pair(metric: Metric, value: u64) -> PairLook {
        let looked = Looked::Measured {
            value,
            p99_ns: Some(2 * value),
            retransmits: Some(0),
            ceiling_bps: (metric == Metric::Bandwidth).then_some(98_000_000_000),
        };
        PairLook { source: 0, target: 1, metric, looked }
    }

    fn limits(name: &str) -> Limits {
        Preset::from_name(name).unwrap().limits
    }

    #[test]
    fn healthy_figures_are_fine_and_each_limit_tells_worst_and_median() {
        let pairs = [
            pair(Metric::Latency, 2_000),
            pair(Metric::Latency, 3_000),
            pair(Metric::Latency, 4_000),
            pair(Metric::Bandwidth, 97_500_000_000),
        ];
        let (judged, rows) = judge(&pairs, &limits("100g"));
        assert!(judged.iter().all(|one| *one == Judged::Fine), "{judged:?}");
        let row = |limit| rows.iter().find(|row| row.limit == limit).unwrap();
        let latency = row(Limit::Latency);
        assert_eq!((latency.worst, latency.median, latency.judged), (Some(4.0), Some(3.0), 3));
        assert_eq!((row(Limit::P99).worst, row(Limit::Retransmits).judged), (Some(8.0), 4));
        assert!(rows.iter().all(|row| row.missed == 0 && row.unknown == 0), "{rows:?}");
        assert!(!rows.iter().any(|row| row.limit == Limit::LatencyOfBatch), "not asked");
    }

    #[test]
    fn what_is_missed_is_named_and_what_nobody_counts_is_unknown() {
        let slow = PairLook {
            looked: Looked::Measured { value: 20_000, p99_ns: None, retransmits: Some(3), ceiling_bps: None },
            ..pair(Metric::Latency, 0)
        };
        let (judged, rows) = judge(&[slow], &limits("100g"));
        let Judged::Bad(misses) = &judged[0] else { panic!("{judged:?}") };
        let named: Vec<_> = misses.iter().map(|miss| (miss.limit, miss.asked, miss.seen)).collect();
        assert_eq!(named, [(Limit::Latency, 6.0, 20.0), (Limit::Retransmits, 0.0, 3.0)]);
        let p99 = rows.iter().find(|row| row.limit == Limit::P99).unwrap();
        assert_eq!((p99.unknown, p99.judged, p99.worst), (1, 0, None));
    }

    #[test]
    fn a_failed_pair_is_bad_and_one_that_nobody_looked_at_is_neither() {
        let of = |looked| PairLook { looked, ..pair(Metric::Latency, 0) };
        let (judged, _) = judge(&[of(Looked::Failed), of(Looked::NotTested)], &Limits::NONE);
        assert_eq!(judged, [Judged::Bad(Vec::new()), Judged::NotTested]);
    }

    #[test]
    fn among_four_one_slow_end_does_not_become_the_measure() {
        // Six pairs of the slow end, six others.
        let mut pairs = vec![pair(Metric::Latency, 200_000); 6];
        pairs.extend(vec![pair(Metric::Latency, 2_000_000); 6]);
        let (judged, _) = judge(&pairs, &limits("lab"));
        let bad = judged.iter().map(|one| matches!(one, Judged::Bad(_))).collect::<Vec<_>>();
        assert_eq!(bad, [[false; 6], [true; 6]].concat());
        let mut streams = vec![pair(Metric::Bandwidth, 800_000_000); 6];
        streams.extend(vec![pair(Metric::Bandwidth, 80_000_000); 6]);
        let (judged, _) = judge(&streams, &limits("lab"));
        assert_eq!(judged.iter().filter(|one| matches!(one, Judged::Bad(_))).count(), 6);
    }
}
