//! All cells of all ordered pairs, by small numbers that stand for endpoints.
//!
//! An endpoint keeps its number for as long as the coordinator runs, so that a matrix never renumbers under a reader.
//!
//! What the pairs of 4,096 endpoints take (16.8 million): latency of all pairs 671 MB, pings of all pairs 940 MB, bandwidth by rail
//! (2.1 million pairs of 512 nodes with 8 rails) 109 MB. A failed or excluded cell takes the place of its figures, so that a dead node, or
//! a dead cluster, takes no more than a live one.

use crate::brief::{self, Brief};
use crate::names::Names;
use crate::row::{self, BandwidthRow, Kind, LatencyRow, TEXT};
use crate::texts::Texts;
use crate::tiles::{Sparse, Tiles};
use crate::{Because, Cell, FEW_ENDPOINTS, Measured, Moment, Trails, Was, ping, ping_failure};
use rdmascope_model::{EndpointName, Exclusion, Failure, Metric, PackedPings, StampClock, Wall};
use std::collections::BTreeMap;

/// The number of an endpoint in one coordinator's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointIndex(pub u32);

impl EndpointIndex {
    /// Stands for an endpoint of which only the name is known: it comes from an earlier run, and nobody has told of it since.
    pub const UNKNOWN: Self = Self(u32::MAX);
}

/// The cells of all ordered pairs.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    names: Names,
    /// The same in the order of names.
    order: BTreeMap<EndpointName, EndpointIndex>,
    pub(crate) latency: Tiles<{ size_of::<LatencyRow>() / 4 }>,
    pub(crate) bandwidth: Sparse<{ size_of::<BandwidthRow>() / 4 }>,
    pub(crate) ping: Tiles<{ size_of::<ping::PingRow>() / 4 }>,
    pub(crate) texts: Texts,
    trails: Trails,
    revision: u64,
}

impl Matrix {
    /// The number of an endpoint, given now if it has none yet.
    pub fn intern(&mut self, name: &EndpointName) -> EndpointIndex {
        if let Some(index) = self.names.find(name) {
            return index;
        }
        let index = self.names.add(name.clone());
        self.order.insert(name.clone(), index);
        self.revision += 1;
        index
    }

    /// The number of an endpoint that is known already.
    #[must_use]
    pub fn find(&self, name: &EndpointName) -> Option<EndpointIndex> {
        self.names.find(name)
    }

    /// The name behind a number of this matrix.
    #[must_use]
    pub fn name(&self, index: EndpointIndex) -> &EndpointName {
        &self.names.list()[index.0 as usize]
    }

    /// Known endpoints, gone ones included, in the order of their names.
    pub fn endpoints(&self) -> impl Iterator<Item = (&EndpointName, EndpointIndex)> {
        self.order.iter().map(|(name, &index)| (name, index))
    }

    /// How many endpoints are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.list().len()
    }

    /// No endpoint is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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

    /// Bytes that cells and texts take at most. Of a tile the system gives only the pages that were written.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.latency.bytes() + self.bandwidth.bytes() + self.ping.bytes() + self.texts.bytes()
    }

    /// One cell.
    #[must_use]
    pub fn cell(&self, metric: Metric, source: EndpointIndex, target: EndpointIndex) -> Cell {
        match metric {
            Metric::Latency => self.whole(self.latency.row(source, target), row::unpack_latency),
            Metric::Bandwidth => self.whole(self.bandwidth.row(source, target), row::unpack_bandwidth),
            Metric::Ping => {
                let row = self.ping.row(source, target);
                let silent = row.filter(|row| ping::silent_batch(row).is_some());
                match silent.and_then(|row| Some((row, ping_failure(&ping::unpack(row))?))) {
                    Some((row, failure)) => Cell::Failed { at: row::at(row), failure },
                    None => self.whole(row, |row| Measured::Ping(ping::unpack(row))),
                }
            }
        }
    }

    fn whole<const WORDS: usize>(
        &self,
        row: Option<&[u32; WORDS]>,
        measured: impl Fn(&[u32; WORDS]) -> Measured,
    ) -> Cell {
        let Some(row) = row else { return Cell::Never };
        let at = row::at(row);
        match row::kind(row) {
            Kind::Never => Cell::Never,
            Kind::Known => Cell::Known { at, measured: measured(row) },
            Kind::Failed => {
                let (cause, step, side) = row::reason(row);
                let evidence = self.texts.get(row[TEXT]).to_owned();
                Cell::Failed { at, failure: Failure { cause, step, side, evidence } }
            }
            Kind::Excluded => Cell::Excluded { at, why: row::unpack_exclusion(row) },
        }
    }

    /// One cell in short.
    #[must_use]
    #[inline]
    pub fn brief(&self, metric: Metric, source: EndpointIndex, target: EndpointIndex) -> Brief {
        match metric {
            Metric::Latency => brief::latency(self.latency.row(source, target)),
            Metric::Bandwidth => brief::bandwidth(self.bandwidth.row(source, target)),
            Metric::Ping => brief::pings(self.ping.row(source, target)),
        }
    }

    /// When a cell came to be what it is; `None` when it was never written.
    #[must_use]
    pub fn written_at(&self, metric: Metric, source: EndpointIndex, target: EndpointIndex) -> Option<Wall> {
        match metric {
            Metric::Latency => self.latency.row(source, target).and_then(row::written_at),
            Metric::Bandwidth => self.bandwidth.row(source, target).and_then(row::written_at),
            Metric::Ping => self.ping.row(source, target).and_then(row::written_at),
        }
    }

    /// Which clock stamped the last pings of a pair; the host's where there are none.
    #[must_use]
    pub fn ping_clock(&self, source: EndpointIndex, target: EndpointIndex) -> StampClock {
        let row = self.ping.row(source, target).filter(|row| row::kind(row) == Kind::Known);
        match row {
            Some(row) if ping::figures_of(row).by_hardware() => StampClock::Hardware,
            _ => StampClock::Software,
        }
    }

    /// Why the last probe of a pair failed, if it did.
    #[must_use]
    pub fn failure(&self, metric: Metric, source: EndpointIndex, target: EndpointIndex) -> Option<Failure> {
        match self.cell(metric, source, target) {
            Cell::Failed { failure, .. } => Some(failure),
            Cell::Never | Cell::Known { .. } | Cell::Excluded { .. } => None,
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
        let texts = &mut self.texts;
        let written = match measured {
            Measured::Latency(stats, delta) => {
                let row = row::pack_latency(at, stats, *delta);
                write(self.latency.slot(source, target), row, texts)
            }
            Measured::Bandwidth(stats, delta) => {
                let row = row::pack_bandwidth(at, stats, *delta);
                write(self.bandwidth.slot(source, target), row, texts)
            }
            Measured::Ping(figures) => {
                let row = ping::pack(at, PackedPings::pack(figures));
                write(self.ping.slot(source, target), row, texts)
            }
        };
        self.written(written, measured.metric(), source, target)
    }

    /// Writes a batch of pings that was answered; an older one than what is there is ignored. True when it was written.
    pub fn record_pings(
        &mut self,
        source: EndpointIndex,
        target: EndpointIndex,
        at: Wall,
        figures: PackedPings,
    ) -> bool {
        let written = write(self.ping.slot(source, target), ping::pack(at, figures), &mut self.texts);
        self.written(written, Metric::Ping, source, target)
    }

    /// Writes a batch of pings of which none was answered, with its number: a failure whose cause follows from its counts. Ignored when
    /// something newer is there. True when it was written.
    pub fn record_silence(
        &mut self,
        source: EndpointIndex,
        target: EndpointIndex,
        at: Wall,
        figures: PackedPings,
        batch: u32,
    ) -> bool {
        let row = ping::pack_silence(at, figures, batch);
        let written = write(self.ping.slot(source, target), row, &mut self.texts);
        self.written(written, Metric::Ping, source, target)
    }

    /// Likewise, where something says more of the failure than its counts do, which are kept beside it: the port is down, say.
    pub fn fail_pings(
        &mut self,
        source: EndpointIndex,
        target: EndpointIndex,
        at: Wall,
        failure: &Failure,
        figures: PackedPings,
    ) -> bool {
        let row = ping::pack_failure(row::failed(at, failure, &mut self.texts), figures);
        let written = write(self.ping.slot(source, target), row, &mut self.texts);
        self.written(written, Metric::Ping, source, target)
    }

    /// Completes the last batch, if it is this one and nobody has told yet in which direction it was lost, by what its responder heard:
    /// so many small and large pings. True when it was.
    pub fn explain_silence(
        &mut self,
        source: EndpointIndex,
        target: EndpointIndex,
        batch: u32,
        (small, large): (u32, u32),
    ) -> bool {
        let Some(row) = self.ping.row(source, target) else { return false };
        if ping::silent_batch(row) != Some(batch) {
            return false;
        }
        let figures = ping::unpack(row);
        if !figures.directions_unknown() {
            return false;
        }
        let figures = PackedPings::pack(&figures.with_heard(small, large));
        let explained = ping::pack_silence(row::at(row), figures, batch);
        *self.ping.slot(source, target) = explained;
        self.revision += 1;
        true
    }

    /// Writes that the last probe failed; ignored when something newer is there. True when it was written.
    pub fn fail(
        &mut self,
        metric: Metric,
        source: EndpointIndex,
        target: EndpointIndex,
        at: Wall,
        failure: &Failure,
    ) -> bool {
        let texts = &mut self.texts;
        let written = match metric {
            Metric::Latency => fail(self.latency.slot(source, target), at, failure, texts),
            Metric::Bandwidth => fail(self.bandwidth.slot(source, target), at, failure, texts),
            Metric::Ping => fail(self.ping.slot(source, target), at, failure, texts),
        };
        self.written(written, metric, source, target)
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
        let texts = &mut self.texts;
        let written = match metric {
            Metric::Latency => write(self.latency.slot(source, target), row::excluded(at, why), texts),
            Metric::Bandwidth => write(self.bandwidth.slot(source, target), row::excluded(at, why), texts),
            Metric::Ping => write(self.ping.slot(source, target), row::excluded(at, why), texts),
        };
        self.written(written, metric, source, target)
    }
}

impl Matrix {
    /// The pairs whose history is kept.
    #[must_use]
    pub fn trails(&self) -> &Trails {
        &self.trails
    }

    /// The same, for who says which these are.
    pub fn trails_mut(&mut self) -> &mut Trails {
        &mut self.trails
    }

    /// Keeps the history of a pair for a reason that holds until then; it begins with what is known of the pair.
    pub fn keep_trail(
        &mut self,
        because: Because,
        source: EndpointIndex,
        target: EndpointIndex,
        until: Wall,
    ) {
        if self.trails.keep(because, source, target, until) {
            Metric::ALL.into_iter().for_each(|metric| self.remember(metric, source, target));
        }
    }

    /// A cell was written or not.
    #[inline]
    fn written(
        &mut self,
        written: bool,
        metric: Metric,
        source: EndpointIndex,
        target: EndpointIndex,
    ) -> bool {
        if written {
            self.revision += 1;
            if self.len() <= FEW_ENDPOINTS || self.trails.of(source, target).is_some() {
                self.remember(metric, source, target);
            }
        }
        written
    }

    /// Adds what a cell says to the history of its pair, where there is room for it.
    fn remember(&mut self, metric: Metric, source: EndpointIndex, target: EndpointIndex) {
        let brief = self.brief(metric, source, target);
        let (at, was) = match brief {
            Brief::Never => return,
            Brief::Known { at, .. } => (at, Was::Measured),
            Brief::Failed { at, cause, .. } => (at, Was::Failed(cause)),
            Brief::Excluded { at, why } => (at, Was::Excluded(why)),
        };
        let mut moment = Moment { at, until: at, was, headline: None, tail: None, sent_lost: None };
        if let Brief::Known { headline, p99_ns, .. } = brief {
            (moment.headline, moment.tail) = (headline, p99_ns);
        }
        let pings = self
            .ping
            .row(source, target)
            .filter(|row| metric == Metric::Ping && matches!(row::kind(row), Kind::Known | Kind::Failed));
        if let Some(figures) = pings.map(ping::figures_of) {
            let short = figures.in_short();
            moment.sent_lost = (short.sent > 0).then_some([short.sent, short.lost]);
            moment.tail = figures.figures().network.map(|network| network.max_ns);
        }
        if self.len() <= FEW_ENDPOINTS {
            self.trails.keep(Because::FewEndpoints, source, target, at);
        }
        if let Some(pair) = self.trails.of_mut(source, target) {
            pair.add(metric, &moment);
        }
    }
}

/// Replaces a row by a newer one.
pub(crate) fn write<const WORDS: usize>(
    slot: &mut [u32; WORDS],
    row: [u32; WORDS],
    texts: &mut Texts,
) -> bool {
    let news = row::is_older(slot, row::at(&row));
    if news {
        texts.release(row::text_of(slot));
        *slot = row;
    } else {
        texts.release(row::text_of(&row));
    }
    news
}

fn fail<const WORDS: usize>(slot: &mut [u32; WORDS], at: Wall, failure: &Failure, texts: &mut Texts) -> bool {
    let row = row::failed(at, failure, texts);
    write(slot, row, texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CellState;
    use rdmascope_model::{BandwidthStats, Cause, CounterDelta, LatencyStats, Side, Step};
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
        let pings = Measured::Ping(ping::tests::figures());
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
        assert!(!m.fail(Metric::Latency, a, b, Wall(10), &failure()));
        assert!(m.fail(Metric::Latency, a, b, Wall(12), &failure()));
        assert!(!m.record(a, b, Wall(11), &latency(3)), "a failure is as good as a figure");
        assert!(m.record(a, b, Wall(13), &latency(4)));
        assert_eq!(m.cell(Metric::Latency, a, b), Cell::Known { at: Wall(13), measured: latency(4) });
    }

    #[test]
    fn silence_is_explained_later_and_only_while_it_is_the_last_word() {
        let (mut m, a, b) = two();
        let evidence = |m: &Matrix| m.failure(Metric::Ping, a, b).unwrap().evidence;
        assert!(!m.explain_silence(a, b, 7, (0, 0)), "it has not failed");
        assert!(m.record_silence(a, b, Wall(10), PackedPings::pack(&ping::tests::silent(40)), 7));
        assert_eq!(
            m.failure(Metric::Ping, a, b).map(|f| (f.cause, f.step)),
            Some((Cause::NoFirstByte, Step::FirstByte))
        );
        assert!(evidence(&m).contains("not known"), "{}", evidence(&m));
        assert!(!m.explain_silence(a, b, 6, (0, 0)), "that was another batch");
        assert!(m.explain_silence(a, b, 7, (0, 0)));
        assert!(evidence(&m).contains("the peer heard none"), "{}", evidence(&m));
        assert!(!m.explain_silence(a, b, 7, (40, 0)), "told once");
        let Cell::Failed { at, .. } = m.cell(Metric::Ping, a, b) else { panic!("it has failed still") };
        assert_eq!(at, Wall(10));
        m.record(a, b, Wall(12), &Measured::Ping(ping::tests::figures()));
        assert!(!m.explain_silence(a, b, 7, (0, 0)), "the pair has gone on");
    }

    #[test]
    fn in_short_a_cell_says_the_same() {
        let (mut m, a, b) = two();
        let short = |m: &Matrix| Metric::ALL.map(|metric| m.brief(metric, a, b));
        assert_eq!(short(&m), [Brief::Never; 3]);
        let pings = ping::tests::figures();
        m.record(a, b, Wall(1), &latency(21_000));
        m.record(a, b, Wall(1), &Measured::Ping(pings));
        m.exclude(Metric::Bandwidth, a, b, Wall(1), Exclusion::Maintenance);
        let known =
            |headline, p99_ns, lost| Brief::Known { at: Wall(1), headline: Some(headline), p99_ns, lost };
        for (metric, brief) in [
            (Metric::Latency, known(21_000, Some(21_000), None)),
            (Metric::Ping, known(pings.network.unwrap().p50_ns, None, Some([2, 59]))),
            (Metric::Bandwidth, Brief::Excluded { at: Wall(1), why: Exclusion::Maintenance }),
        ] {
            assert_eq!(m.brief(metric, a, b), brief);
        }
        for metric in Metric::ALL {
            m.fail(metric, a, b, Wall(2), &failure());
            let Failure { cause, step, side, .. } = failure();
            assert_eq!(m.brief(metric, a, b), Brief::Failed { at: Wall(2), cause, step, side });
        }
        m.record_silence(a, b, Wall(3), PackedPings::pack(&ping::tests::silent(40)), 7);
        let (cause, step, side) = (Cause::NoFirstByte, Step::FirstByte, Side::Source);
        assert_eq!(m.brief(Metric::Ping, a, b), Brief::Failed { at: Wall(3), cause, step, side });
    }

    #[test]
    fn a_dead_cluster_takes_no_more_memory_than_a_live_one() {
        let mut m = Matrix::default();
        let all: Vec<_> = (0..128).map(|i| m.intern(&format!("n{i}/d/1").parse().unwrap())).collect();
        let pairs = || all.iter().flat_map(|&a| all.iter().map(move |&b| (a, b)));
        for (a, b) in pairs() {
            m.record(a, b, Wall(1), &Measured::Ping(ping::tests::figures()));
        }
        let live = m.bytes();
        for (a, b) in pairs() {
            let evidence = format!("the agent of n{} is not connected", b.0);
            m.fail(Metric::Ping, a, b, Wall(2), &Failure { evidence, ..failure() });
        }
        let texts = 128 * "the agent of n100 is not connected".len();
        assert!(m.bytes() <= live + texts, "{} instead of {live}", m.bytes());
        for (a, b) in pairs() {
            m.record(a, b, Wall(3), &Measured::Ping(ping::tests::figures()));
        }
        assert_eq!(m.bytes(), live, "nothing of it is left");
    }

    #[test]
    fn age_decides_between_fresh_and_stale_and_nothing_else_does() {
        let (mut m, a, b) = two();
        m.record(a, b, Wall(1_000), &latency(1));
        let state = |m: &Matrix, now| m.cell(Metric::Latency, a, b).state(Wall(now), Duration::from_secs(1));
        assert_eq!(state(&m, 2_000), CellState::Fresh);
        assert_eq!(state(&m, 2_001), CellState::Stale);
        m.fail(Metric::Latency, a, b, Wall(3_000), &failure());
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
