//! All cells of all ordered pairs, by small numbers that stand for endpoints.
//!
//! An endpoint keeps its number for as long as the coordinator runs, so that a matrix never renumbers under a reader.
//! Figures are packed into 32-bit fields: 4,096 endpoints have 16.8 million pairs for each metric.

mod rows;

pub(crate) use rows::{BandwidthRow, LatencyRow};

use crate::ping::PingRow;
use crate::{Cell, Measured, PingFigures};
use rdmascope_model::{EndpointName, Exclusion, Failure, Metric, Wall};
use rows::{pack_bandwidth, pack_latency, unpack_bandwidth, unpack_latency};
use std::collections::BTreeMap;

/// The number of an endpoint in one coordinator's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointIndex(pub u32);

impl EndpointIndex {
    /// Stands for an endpoint of which only the name is known: it comes from an earlier run, and nobody has told of it since.
    pub const UNKNOWN: Self = Self(u32::MAX);
}

/// Why a cell has no figure; kept apart, since there are few of them.
#[derive(Clone, Debug)]
pub(crate) enum Exception {
    Failed(Wall, Failure),
    Excluded(Wall, Exclusion),
}

impl Exception {
    /// When.
    pub(crate) fn at(&self) -> Wall {
        match self {
            Self::Failed(at, _) | Self::Excluded(at, _) => *at,
        }
    }
}

/// The cells of all ordered pairs.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    names: Vec<EndpointName>,
    index: BTreeMap<EndpointName, EndpointIndex>,
    /// Row = source; a row grows when one of its cells is first written.
    latency: Vec<Vec<LatencyRow>>,
    bandwidth: Vec<Vec<BandwidthRow>>,
    ping: Vec<Vec<PingRow>>,
    exceptions: BTreeMap<(Metric, EndpointIndex, EndpointIndex), Exception>,
    revision: u64,
}

impl Matrix {
    /// The number of an endpoint, given now if it has none yet.
    pub fn intern(&mut self, name: &EndpointName) -> EndpointIndex {
        if let Some(&index) = self.index.get(name) {
            return index;
        }
        let index = EndpointIndex(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.names.push(name.clone());
        self.index.insert(name.clone(), index);
        self.latency.push(Vec::new());
        self.bandwidth.push(Vec::new());
        self.ping.push(Vec::new());
        self.revision += 1;
        index
    }

    /// The number of an endpoint that is known already.
    #[must_use]
    pub fn find(&self, name: &EndpointName) -> Option<EndpointIndex> {
        self.index.get(name).copied()
    }

    /// The name behind a number of this matrix.
    #[must_use]
    pub fn name(&self, index: EndpointIndex) -> &EndpointName {
        &self.names[index.0 as usize]
    }

    /// Known endpoints, gone ones included, in the order of their names.
    pub fn endpoints(&self) -> impl Iterator<Item = (&EndpointName, EndpointIndex)> {
        self.index.iter().map(|(name, &index)| (name, index))
    }

    /// How many endpoints are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// No endpoint is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Grows with every change, so that a reader can tell whether to look again.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// A change outside the cells that readers of the matrix must see.
    pub fn touch(&mut self) {
        self.revision += 1;
    }

    /// One cell.
    #[must_use]
    pub fn cell(&self, metric: Metric, source: EndpointIndex, target: EndpointIndex) -> Cell {
        match self.exceptions.get(&(metric, source, target)) {
            Some(Exception::Failed(at, failure)) => Cell::Failed { at: *at, failure: failure.clone() },
            Some(Exception::Excluded(at, why)) => Cell::Excluded { at: *at, why: *why },
            None => self.measured(metric, source, target),
        }
    }

    /// Why the last probe of a pair failed, if it did.
    #[must_use]
    pub fn failure(&self, metric: Metric, source: EndpointIndex, target: EndpointIndex) -> Option<&Failure> {
        match self.exceptions.get(&(metric, source, target)) {
            Some(Exception::Failed(_, failure)) => Some(failure),
            Some(Exception::Excluded(..)) | None => None,
        }
    }

    /// Writes a completed probe; an older one than what is there is ignored. True when it was written.
    pub fn record(
        &mut self,
        source: EndpointIndex,
        target: EndpointIndex,
        at: Wall,
        measured: &Measured,
    ) -> bool {
        let metric = match measured {
            Measured::Latency(..) => Metric::Latency,
            Measured::Bandwidth(..) => Metric::Bandwidth,
            Measured::Ping(..) => Metric::Ping,
        };
        if !self.is_news(metric, source, target, at) {
            return false;
        }
        match measured {
            Measured::Latency(stats, delta) => {
                *slot(&mut self.latency[source.0 as usize], target) = pack_latency(at, stats, *delta);
            }
            Measured::Bandwidth(stats, delta) => {
                *slot(&mut self.bandwidth[source.0 as usize], target) = pack_bandwidth(at, stats, *delta);
            }
            Measured::Ping(figures) => {
                *slot(&mut self.ping[source.0 as usize], target) = PingRow::pack(at, figures);
            }
        }
        self.exceptions.remove(&(metric, source, target));
        self.revision += 1;
        true
    }

    /// The cells of a source as they are packed, by the number of the target; one that is not there was never measured. For who
    /// looks at all of them. What [`Self::exceptions_from`] tells of a cell is newer.
    pub(crate) fn pings_from(&self, source: EndpointIndex) -> &[PingRow] {
        self.ping.get(source.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// Likewise.
    pub(crate) fn latencies_from(&self, source: EndpointIndex) -> &[LatencyRow] {
        self.latency.get(source.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// Likewise.
    pub(crate) fn bandwidths_from(&self, source: EndpointIndex) -> &[BandwidthRow] {
        self.bandwidth.get(source.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// The cells of a source that have no figure, in the order of the targets.
    pub(crate) fn exceptions_from(
        &self,
        metric: Metric,
        source: EndpointIndex,
    ) -> impl Iterator<Item = (EndpointIndex, &Exception)> {
        let all = (metric, source, EndpointIndex(0))..=(metric, source, EndpointIndex(u32::MAX));
        self.exceptions.range(all).map(|(&(_, _, target), exception)| (target, exception))
    }

    /// Why one cell has no figure.
    pub(crate) fn exception(
        &self,
        metric: Metric,
        source: EndpointIndex,
        target: EndpointIndex,
    ) -> Option<&Exception> {
        self.exceptions.get(&(metric, source, target))
    }

    /// Writes that nobody answered a batch of pings; as [`Self::fail`], and its counts are kept: they tell the direction.
    pub fn fail_pings(
        &mut self,
        source: EndpointIndex,
        target: EndpointIndex,
        at: Wall,
        failure: Failure,
        figures: &PingFigures,
    ) -> bool {
        let news = self.fail(Metric::Ping, source, target, at, failure);
        if news {
            *slot(&mut self.ping[source.0 as usize], target) = PingRow::pack(at, figures);
        }
        news
    }

    /// As [`Self::explain`], with what is known of the direction by now.
    pub fn explain_pings(
        &mut self,
        source: EndpointIndex,
        target: EndpointIndex,
        at: Wall,
        failure: Failure,
        figures: &PingFigures,
    ) -> bool {
        let news = self.explain(Metric::Ping, source, target, at, failure);
        if news {
            *slot(&mut self.ping[source.0 as usize], target) = PingRow::pack(at, figures);
        }
        news
    }

    /// Writes that the last probe failed; ignored when something newer is there. True when it was written.
    pub fn fail(
        &mut self,
        metric: Metric,
        source: EndpointIndex,
        target: EndpointIndex,
        at: Wall,
        failure: Failure,
    ) -> bool {
        self.except(metric, source, target, at, Exception::Failed(at, failure))
    }

    /// Replaces why a probe failed by what is known of the same probe since; ignored when the cell has gone on. True when it was
    /// written.
    pub fn explain(
        &mut self,
        metric: Metric,
        source: EndpointIndex,
        target: EndpointIndex,
        at: Wall,
        failure: Failure,
    ) -> bool {
        match self.exceptions.get_mut(&(metric, source, target)) {
            Some(Exception::Failed(failed_at, known)) if *failed_at == at => {
                *known = failure;
                self.revision += 1;
                true
            }
            _ => false,
        }
    }

    /// Writes that the last probe was not run; ignored when something newer is there. True when it was written.
    pub fn exclude(
        &mut self,
        metric: Metric,
        source: EndpointIndex,
        target: EndpointIndex,
        at: Wall,
        why: Exclusion,
    ) -> bool {
        self.except(metric, source, target, at, Exception::Excluded(at, why))
    }

    fn except(
        &mut self,
        metric: Metric,
        source: EndpointIndex,
        target: EndpointIndex,
        at: Wall,
        exception: Exception,
    ) -> bool {
        let news = self.is_news(metric, source, target, at);
        if news {
            self.exceptions.insert((metric, source, target), exception);
            self.revision += 1;
        }
        news
    }

    fn is_news(&self, metric: Metric, source: EndpointIndex, target: EndpointIndex, at: Wall) -> bool {
        self.cell(metric, source, target).at().is_none_or(|known| known < at)
    }

    fn measured(&self, metric: Metric, source: EndpointIndex, target: EndpointIndex) -> Cell {
        let (row, column) = (source.0 as usize, target.0 as usize);
        let known = match metric {
            Metric::Latency => self.latency[row].get(column).and_then(unpack_latency),
            Metric::Bandwidth => self.bandwidth[row].get(column).and_then(unpack_bandwidth),
            Metric::Ping => {
                let known = self.ping[row].get(column).and_then(PingRow::unpack);
                known.map(|(at, figures)| (at, Measured::Ping(figures)))
            }
        };
        known.map_or(Cell::Never, |(at, measured)| Cell::Known { at, measured })
    }
}

fn slot<T: Copy + Default>(row: &mut Vec<T>, target: EndpointIndex) -> &mut T {
    let column = target.0 as usize;
    if row.len() <= column {
        row.resize(column + 1, T::default());
    }
    &mut row[column]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CellState;
    use rdmascope_model::{BandwidthStats, CounterDelta, LatencyStats};
    use rdmascope_model::{Cause, Side, Step};
    use std::time::Duration;

    fn latency(p50_ns: u64) -> Measured {
        let stats = LatencyStats {
            count: 1_000,
            min_ns: 1,
            p50_ns,
            p90_ns: p50_ns,
            p99_ns: Some(p50_ns),
            p999_ns: None,
            max_ns: p50_ns,
            host_delayed: 3,
        };
        Measured::Latency(stats, CounterDelta { retransmits: Some(4) })
    }

    fn two() -> (Matrix, EndpointIndex, EndpointIndex) {
        let mut matrix = Matrix::default();
        let a = matrix.intern(&"a/d/1".parse().unwrap());
        let b = matrix.intern(&"b/d/1".parse().unwrap());
        (matrix, a, b)
    }

    fn failure() -> Failure {
        Failure { cause: Cause::PortDown, step: Step::Open, side: Side::Source, evidence: String::new() }
    }

    #[test]
    fn figures_come_back_as_they_were_recorded_and_only_in_their_cell() {
        let (mut m, a, b) = two();
        let bandwidth = Measured::Bandwidth(
            BandwidthStats {
                bytes: 1 << 40,
                duration_ns: 7,
                average_bps: 400_000_000_000,
                worst_window_bps: None,
                variation_permille: None,
                completions: 49,
            },
            CounterDelta { retransmits: None },
        );
        assert!(m.record(a, b, Wall(10), &latency(21_000)));
        assert!(m.record(a, b, Wall(11), &bandwidth));
        assert_eq!(m.cell(Metric::Latency, a, b), Cell::Known { at: Wall(10), measured: latency(21_000) });
        assert_eq!(m.cell(Metric::Bandwidth, a, b), Cell::Known { at: Wall(11), measured: bandwidth });
        let pings = Measured::Ping(crate::ping::tests::figures());
        assert!(m.record(a, b, Wall(12), &pings));
        assert_eq!(m.cell(Metric::Ping, a, b), Cell::Known { at: Wall(12), measured: pings });
        assert_eq!(m.cell(Metric::Latency, b, a), Cell::Never);
        assert_eq!(m.cell(Metric::Ping, b, a), Cell::Never);
    }

    #[test]
    fn what_comes_late_never_overwrites_what_is_newer() {
        let (mut m, a, b) = two();
        assert!(m.record(a, b, Wall(10), &latency(1)));
        assert!(!m.record(a, b, Wall(9), &latency(2)));
        assert!(!m.fail(Metric::Latency, a, b, Wall(10), failure()));
        assert!(m.fail(Metric::Latency, a, b, Wall(12), failure()));
        assert!(!m.record(a, b, Wall(11), &latency(3)), "a failure is as good as a figure");
        assert!(m.record(a, b, Wall(13), &latency(4)));
        assert_eq!(m.cell(Metric::Latency, a, b), Cell::Known { at: Wall(13), measured: latency(4) });
    }

    #[test]
    fn a_failure_is_explained_later_and_only_while_it_is_the_last_word() {
        let (mut m, a, b) = two();
        let explained = Failure { evidence: "heard none".to_owned(), ..failure() };
        assert!(!m.explain(Metric::Ping, a, b, Wall(10), explained.clone()), "it has not failed");
        m.fail(Metric::Ping, a, b, Wall(10), failure());
        assert!(m.explain(Metric::Ping, a, b, Wall(10), explained.clone()));
        assert_eq!(m.cell(Metric::Ping, a, b), Cell::Failed { at: Wall(10), failure: explained.clone() });
        m.fail(Metric::Ping, a, b, Wall(12), failure());
        assert!(!m.explain(Metric::Ping, a, b, Wall(10), explained), "that was another batch");
        assert_eq!(m.failure(Metric::Ping, a, b), Some(&failure()));
    }

    #[test]
    fn age_decides_between_fresh_and_stale_and_nothing_else_does() {
        let (mut m, a, b) = two();
        m.record(a, b, Wall(1_000), &latency(1));
        let state = |m: &Matrix, now| m.cell(Metric::Latency, a, b).state(Wall(now), Duration::from_secs(1));
        assert_eq!(state(&m, 2_000), CellState::Fresh);
        assert_eq!(state(&m, 2_001), CellState::Stale);
        m.fail(Metric::Latency, a, b, Wall(3_000), failure());
        assert_eq!(state(&m, 900_000), CellState::Failed);
        m.exclude(Metric::Latency, a, b, Wall(4_000), Exclusion::Busy);
        assert_eq!(state(&m, 900_000), CellState::Excluded);
    }

    #[test]
    fn every_change_moves_the_revision_and_nothing_else_does() {
        let (mut m, a, b) = two();
        let before = m.revision();
        m.record(a, b, Wall(10), &latency(1));
        assert!(m.revision() > before);
        let after = m.revision();
        m.record(a, b, Wall(10), &latency(1));
        m.intern(&"a/d/1".parse().unwrap());
        assert_eq!(m.revision(), after);
    }
}
