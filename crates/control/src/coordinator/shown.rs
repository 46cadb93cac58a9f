//! What a cell is to whoever looks at it: what was measured, or why it is not to be: a maintenance, or ends that are never paired.

use super::Coordinator;
use super::settings::FRESH_FOR_MIN;
use rdmascope_localise::{Brief, Cell, EndpointIndex, Light, Matrix, PlaceIndex};
use rdmascope_model::{Fabric, Metric, Wall};
use std::time::Duration;

/// The matrix as it is shown. Made once for many cells: what decides lies side by side, since there are millions of them.
#[derive(Debug)]
pub struct Shown<'a> {
    matrix: &'a Matrix,
    now: Wall,
    ends: Vec<End>,
    rails_routed: bool,
    fresh_for: Duration,
    fresh_for_cross_rail: Duration,
}

/// What decides how the pairs of an endpoint are shown.
#[derive(Clone, Copy, Debug)]
struct End {
    /// `None` where nobody told where it stands.
    stands: Option<(PlaceIndex, Fabric)>,
    rail: Option<PlaceIndex>,
    /// Pings reach it.
    datagrams: bool,
    /// Since when its node is in maintenance.
    silenced: Option<Wall>,
}

/// An endpoint of which nothing is known.
const NOWHERE: End = End { stands: None, rail: None, datagrams: false, silenced: None };

impl End {
    #[inline]
    fn cross_rail(&self, other: &Self) -> bool {
        matches!((self.rail, other.rail), (Some(a), Some(b)) if a != b)
    }
}

impl Coordinator {
    /// The matrix as it is shown now.
    #[must_use]
    pub fn shown(&self, now: Wall) -> Shown<'_> {
        let mut ends = vec![NOWHERE; self.matrix.len()];
        for (at, (end, place)) in (0..).zip(ends.iter_mut().zip(&self.places().of)) {
            end.rail = place.and_then(|place| place.rail);
            end.stands = place.map(|place| place.node).zip(self.standing.fabric(EndpointIndex(at)));
        }
        for (index, endpoint) in self.members.endpoints() {
            if let Some(end) = ends.get_mut(index.0 as usize) {
                end.datagrams = endpoint.info.datagrams.is_some();
                let work = self.health.maintenance_of(&endpoint.info.name.node);
                end.silenced = work.map(|work| work.since);
            }
        }
        let fresh_for = self.fresh_for();
        let cross = self.cross_rail_coverage().map_or(Duration::ZERO, |coverage| coverage * 3);
        let rails_routed = self.settings.rails_routed;
        let fresh_for_cross_rail = fresh_for.max(cross);
        Shown { matrix: &self.matrix, now, ends, rails_routed, fresh_for, fresh_for_cross_rail }
    }

    /// Figures of pairs of one rail that are older than this are stale. Pings of a small cluster cover it sooner than they were asked
    /// to; an operator's sweep, which nobody repeats where pings cover the pairs, must not be stale sooner for it.
    #[must_use]
    pub fn fresh_for(&self) -> Duration {
        let coverage =
            self.coverage().map_or(Duration::ZERO, |coverage| coverage.max(self.settings.coverage));
        FRESH_FOR_MIN.max(coverage * 3)
    }
}

impl Shown<'_> {
    #[inline]
    fn end(&self, index: EndpointIndex) -> &End {
        self.ends.get(index.0 as usize).unwrap_or(&NOWHERE)
    }

    /// One cell.
    #[must_use]
    pub fn cell(&self, metric: Metric, source: EndpointIndex, target: EndpointIndex) -> Cell {
        self.light(source, target).shown_whole(self.matrix.cell(metric, source, target), self.now)
    }

    /// One cell in short.
    #[must_use]
    pub fn brief(&self, metric: Metric, source: EndpointIndex, target: EndpointIndex) -> Brief {
        self.light(source, target).shown(self.matrix.brief(metric, source, target), self.now)
    }

    /// Figures of this pair that are older than this are stale: it is three times the time in which such pairs are covered.
    #[must_use]
    pub fn fresh_for(&self, source: EndpointIndex, target: EndpointIndex) -> Duration {
        let cross = self.end(source).cross_rail(self.end(target));
        if cross { self.fresh_for_cross_rail } else { self.fresh_for }
    }

    /// The light that a pair is seen in.
    #[must_use]
    pub fn light(&self, source: EndpointIndex, target: EndpointIndex) -> Light {
        self.lights()(source, target)
    }

    /// The same for who asks millions of times.
    pub fn lights(&self) -> impl Fn(EndpointIndex, EndpointIndex) -> Light {
        let fresh_since = self.fresh_since();
        move |source, target| self.between(self.end(source), self.end(target), fresh_since)
    }

    /// The same for the pairs from one source.
    #[inline]
    pub fn lights_from(&self, source: EndpointIndex) -> impl Fn(EndpointIndex) -> Light {
        let (fresh_since, source) = (self.fresh_since(), *self.end(source));
        move |target| self.between(&source, self.end(target), fresh_since)
    }

    /// Figures of pairs of one rail, and of two, from before then are stale.
    fn fresh_since(&self) -> [Wall; 2] {
        [self.fresh_for, self.fresh_for_cross_rail]
            .map(|age| Wall(self.now.0.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))))
    }

    #[inline]
    fn between(&self, a: &End, b: &End, fresh_since: [Wall; 2]) -> Light {
        Light {
            fresh_since: fresh_since[usize::from(a.cross_rail(b))],
            silenced: a.silenced.max(b.silenced),
            apart: self.apart(a, b),
        }
    }

    /// Two endpoints that are never paired: of one node, of different fabrics, or on rails that are not routed to each other.
    #[inline]
    fn apart(&self, a: &End, b: &End) -> bool {
        let (Some((node, fabric)), Some((other_node, other))) = (a.stands, b.stands) else { return false };
        node == other_node || fabric != other || (!self.rails_routed && a.cross_rail(b))
    }

    /// Somebody is to measure this pair in this way: where he has not, it is a gap. Pings are for the pairs that they cover, and for these
    /// nobody probes latency by itself: a pair that is never measured in one way because the other has it is no gap. Nor is a pair whose
    /// ends are never paired.
    #[must_use]
    pub fn is_expected(&self, metric: Metric, source: EndpointIndex, target: EndpointIndex) -> bool {
        let (a, b) = (self.end(source), self.end(target));
        let (paired, pinged) = (!self.apart(a, b), a.datagrams && b.datagrams);
        match metric {
            Metric::Latency => paired && !pinged,
            Metric::Bandwidth => paired,
            Metric::Ping => paired && pinged,
        }
    }
}
