//! Ways through the cells of a matrix: those of a source, of a pair, and of all that crosses a component.

use super::count::Fine;
use super::observe::{Observation, STALL_NS, Scene, number};
use crate::row::{self, Kind};
use crate::{Component, EndpointIndex, ping};
use rdmascope_model::Metric;

impl Scene<'_> {
    /// All that is known of the pairs from one source, with the number of the target; a pair may come once for each metric.
    pub(crate) fn from(&self, source: usize, mut each: impl FnMut(usize, &Observation)) {
        let (matrix, index) = (self.matrix, number(source));
        self.judged(source, matrix.latency.from(index), |target, row| {
            self.latency(source, target, row).iter().for_each(|seen| each(target, seen));
        });
        self.judged(source, matrix.bandwidth.from(index), |target, row| {
            self.bandwidth(source, target, row).iter().for_each(|seen| each(target, seen));
        });
        self.judged(source, matrix.ping.from(index), |target, row| {
            self.ping(source, target, row).iter().for_each(|seen| each(target, seen));
        });
    }

    /// Likewise, with pairs of which nothing went wrong told apart from `others`, by their window: of millions nearly all are so.
    pub(crate) fn sorted_from(
        &self,
        source: usize,
        mut fine: impl FnMut(usize, usize, Fine),
        mut others: impl FnMut(usize, &Observation),
    ) {
        let (matrix, index) = (self.matrix, number(source));
        self.judged(source, matrix.latency.from(index), |target, row| {
            match self.fine_latency(source, target, row) {
                Some((window, trials)) => fine(target, window, trials),
                None => self.latency(source, target, row).iter().for_each(|seen| others(target, seen)),
            }
        });
        self.judged(source, matrix.bandwidth.from(index), |target, row| {
            self.bandwidth(source, target, row).iter().for_each(|seen| others(target, seen));
        });
        self.judged(source, matrix.ping.from(index), |target, row| {
            match self.fine_ping(source, target, row) {
                Some((window, trials)) => fine(target, window, trials),
                None => self.ping(source, target, row).iter().for_each(|seen| others(target, seen)),
            }
        });
    }

    /// Those of a source's rows whose pair is judged.
    #[inline]
    fn judged<'a, const WORDS: usize>(
        &self,
        source: usize,
        rows: impl Iterator<Item = (EndpointIndex, &'a [u32; WORDS])>,
        mut each: impl FnMut(usize, &[u32; WORDS]),
    ) {
        for (target, row) in rows {
            let target = target.0 as usize;
            if target < self.layout.len && self.layout.is_pair(source, target) {
                each(target, row);
            }
        }
    }

    /// All that is known of one pair.
    pub(crate) fn between(&self, source: usize, target: usize, mut each: impl FnMut(&Observation)) {
        if !self.layout.is_pair(source, target) {
            return;
        }
        let (a, b) = (number(source), number(target));
        let seen = [
            self.matrix.ping.row(a, b).and_then(|row| self.ping(source, target, row)),
            self.matrix.latency.row(a, b).and_then(|row| self.latency(source, target, row)),
            self.matrix.bandwidth.row(a, b).and_then(|row| self.bandwidth(source, target, row)),
        ];
        seen.iter().flatten().for_each(&mut each);
    }

    /// All cells whose round trips cross a component.
    pub(crate) fn through(&self, component: Component, mut each: impl FnMut(usize, usize, &Observation)) {
        let layout = self.layout;
        let crosses = |a: usize, b: usize| layout.crossing(component, a, b).any();
        let ends = layout.ends(component);
        for source in 0..layout.len {
            match &ends {
                Some(ends) if ends.binary_search(&u32::try_from(source).unwrap_or(u32::MAX)).is_err() => {
                    for &target in ends.iter().filter(|&&target| crosses(source, target as usize)) {
                        self.between(source, target as usize, |seen| each(source, target as usize, seen));
                    }
                }
                _ => self.from(source, |target, seen| {
                    if crosses(source, target) {
                        each(source, target, seen);
                    }
                }),
            }
        }
    }

    /// Whether the pings of a pair saw a host stand still lately.
    pub(crate) fn host_stood_still(&self, source: usize, target: usize) -> bool {
        let row = self.matrix.ping.row(number(source), number(target));
        let known = row.filter(|row| row::kind(row) == Kind::Known);
        known.is_some_and(|row| {
            ping::figures_of(row).hosts().iter().flatten().any(|host| host.max_ns > STALL_NS)
        })
    }

    /// Whether a pair was ever measured, however it came out.
    pub(crate) fn is_known(&self, source: usize, target: usize) -> bool {
        let (a, b) = (number(source), number(target));
        Metric::ALL.iter().any(|&metric| self.matrix.written_at(metric, a, b).is_some())
    }
}
