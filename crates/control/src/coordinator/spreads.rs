//! How figures are spread, added up since the start for each rail and distance: what Prometheus makes quantiles and heat maps of.

use super::Coordinator;
use rdmascope_localise::{EndpointIndex, Group};
use rdmascope_model::{Fabric, Metric};

/// Upper ends of the buckets of latencies, seconds: about √2 apart from 1 µs to 1 ms, then coarse. No whole number among them: Prometheus 3
/// would rename the bucket of one.
const LATENCY_BOUNDS: [f64; 23] = [
    1.0e-6, 1.4e-6, 2.0e-6, 2.8e-6, 4.0e-6, 5.6e-6, 8.0e-6, 11e-6, 16e-6, 22e-6, 32e-6, 45e-6, 64e-6, 90e-6,
    128e-6, 180e-6, 256e-6, 360e-6, 512e-6, 720e-6, 1e-3, 10e-3, 100e-3,
];
/// Upper ends of the buckets of bandwidth, as shares of the signalling rate of the slower port; 0.98 is the goodput ceiling at an RDMA MTU
/// of 4096, 0.92 that at 1024.
const RATIO_BOUNDS: [f64; 12] = [0.1, 0.25, 0.5, 0.7, 0.8, 0.85, 0.9, 0.92, 0.95, 0.97, 0.98, 0.99];
/// Rows at most: groups of a cluster whose rails change their names all the time. What comes then has no rail of its own.
const ROWS_MAX: usize = 512;
/// Ways to measure: each metric, over RDMA and over TCP.
const WAYS: usize = 2 * Metric::ALL.len();

/// What was seen of one group of pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// What was measured.
    pub metric: Metric,
    /// Over TCP: such figures never pass for RDMA.
    pub tcp: bool,
    /// Rail, as [`rdmascope_localise::PairRail::name`].
    pub rail: String,
    /// How far apart, as [`Group::scope`].
    pub scope: &'static str,
    /// Figures in each bucket, that behind the last end included.
    pub counts: Vec<u64>,
    /// Their sum.
    pub sum: f64,
}

impl Spread {
    /// Upper ends of the buckets of a metric.
    #[must_use]
    pub fn bounds(metric: Metric) -> &'static [f64] {
        if metric == Metric::Bandwidth { &RATIO_BOUNDS } else { &LATENCY_BOUNDS }
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Spreads {
    rows: Vec<Spread>,
    /// The row of each way and group, as the rails are numbered now.
    known: Vec<Option<usize>>,
}

impl Spreads {
    /// Rails may have other numbers now.
    pub(super) fn places_changed(&mut self) {
        self.known.clear();
    }

    fn row(&mut self, (metric, tcp): (Metric, bool), group: Group, rail: &str) -> &mut Spread {
        let way = Metric::ALL.iter().position(|of| *of == metric).unwrap_or(0) * 2 + usize::from(tcp);
        let slot = way * Group::COUNT + group.number();
        self.known.resize(WAYS * Group::COUNT, None);
        let at = match self.known[slot] {
            Some(at) => at,
            None => {
                let rail = if self.rows.len() < ROWS_MAX { rail } else { "other" };
                let is = |row: &Spread| {
                    (row.metric, row.tcp, row.rail.as_str(), row.scope) == (metric, tcp, rail, group.scope())
                };
                let at = self.rows.iter().position(is).unwrap_or(self.rows.len());
                if at == self.rows.len() {
                    let counts = vec![0; Spread::bounds(metric).len() + 1];
                    let (rail, scope) = (rail.to_owned(), group.scope());
                    self.rows.push(Spread { metric, tcp, rail, scope, counts, sum: 0.0 });
                }
                self.known[slot] = Some(at);
                at
            }
        };
        &mut self.rows[at]
    }

    fn add(&mut self, way: (Metric, bool), group: Group, rail: &str, figure: f64) {
        let row = self.row(way, group, rail);
        // Looking at each end is quicker than searching: no look waits for the one before.
        let at = Spread::bounds(way.0).iter().map(|end| usize::from(*end < figure)).sum::<usize>();
        row.counts[at] += 1;
        row.sum += figure;
    }
}

impl Coordinator {
    /// What was measured since the start, spread over buckets.
    #[must_use]
    pub fn spreads(&self) -> &[Spread] {
        &self.spreads.rows
    }

    /// A pair was measured: seconds, or the share of its line rate.
    pub(super) fn spread(
        &mut self,
        metric: Metric,
        source: EndpointIndex,
        target: EndpointIndex,
        figure: f64,
    ) {
        let places = &self.standing.places;
        let group = Group::between(places.place(source), places.place(target));
        let rail = group.rail.name(places);
        let tcp = self.standing.fabric(source) == Some(Fabric::Tcp);
        self.spreads.add((metric, tcp), group, rail, figure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_localise::{Distance, PairRail};

    #[test]
    fn each_figure_is_in_one_bucket_and_rows_outlast_new_numbers_of_rails() {
        let mut spreads = Spreads::default();
        let group = |rail| Group { rail, distance: Distance::Leaf };
        let way = (Metric::Latency, false);
        for figure in [0.5e-6, 1.0e-6, 1.1e-6, 5.0] {
            spreads.add(way, group(PairRail::Rail(1)), "a", figure);
        }
        spreads.places_changed();
        spreads.add(way, group(PairRail::Rail(0)), "a", 1.0e-6);
        spreads.add(way, group(PairRail::Rail(1)), "b", 1.0e-6);
        spreads.add((Metric::Bandwidth, false), group(PairRail::Rail(1)), "b", 0.93);
        let [a, b, bandwidth] = &spreads.rows[..] else { panic!("{:?}", spreads.rows) };
        assert_eq!((a.rail.as_str(), &a.counts[..3], a.counts.last()), ("a", &[3, 1, 0][..], Some(&1)));
        assert_eq!(a.counts.iter().sum::<u64>(), 5);
        assert!((a.sum - 5.000_003_6).abs() < 1e-9, "{}", a.sum);
        assert_eq!((b.rail.as_str(), b.counts[0]), ("b", 1));
        assert_eq!((bandwidth.counts.len(), bandwidth.counts[8]), (13, 1), "0.92 to 0.95");
    }

    #[test]
    fn however_often_rails_are_renamed_the_number_of_rows_ends() {
        let mut spreads = Spreads::default();
        for name in 0..5_000 {
            spreads.places_changed();
            let group = Group { rail: PairRail::Rail(0), distance: Distance::Far };
            spreads.add((Metric::Ping, false), group, &name.to_string(), 1e-6);
        }
        assert_eq!(spreads.rows.len(), ROWS_MAX + 1);
        assert_eq!(spreads.rows.last().map(|row| (row.rail.as_str(), row.counts[0])), Some(("other", 4_488)));
    }
}
