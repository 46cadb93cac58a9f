//! What a cell is to whoever looks at it: what was measured, or why it is not to be: a maintenance, or ends that are never paired.

use super::Coordinator;
use super::settings::FRESH_FOR_MIN;
use rdmascope_localise::{Cell, EndpointIndex};
use rdmascope_model::{Exclusion, Metric, Wall};
use std::time::Duration;

/// The matrix as it is shown. Made once for many cells.
#[derive(Debug)]
pub struct Shown<'a> {
    coordinator: &'a Coordinator,
    now: Wall,
    /// Since when each endpoint's node is in maintenance.
    silenced: Vec<Option<Wall>>,
    fresh_for: Duration,
    fresh_for_cross_rail: Duration,
}

impl Coordinator {
    /// The matrix as it is shown now.
    #[must_use]
    pub fn shown(&self, now: Wall) -> Shown<'_> {
        let mut silenced = vec![None; self.matrix.len()];
        for (index, endpoint) in self.members.endpoints() {
            let since = self.health.maintenance_of(&endpoint.info.name.node).map(|work| work.since);
            silenced.iter_mut().skip(index.0 as usize).take(1).for_each(|slot| *slot = since);
        }
        let fresh_for = self.fresh_for();
        let cross = self.cross_rail_coverage().map_or(Duration::ZERO, |coverage| coverage * 3);
        Shown { coordinator: self, now, silenced, fresh_for, fresh_for_cross_rail: fresh_for.max(cross) }
    }

    /// Figures of pairs of one rail that are older than this are stale. Pings of a small cluster cover it sooner than they were asked
    /// to; an operator's sweep, which nobody repeats where pings cover the pairs, must not be stale sooner for it.
    #[must_use]
    pub fn fresh_for(&self) -> Duration {
        let coverage =
            self.coverage().map_or(Duration::ZERO, |coverage| coverage.max(self.settings.coverage));
        FRESH_FOR_MIN.max(coverage * 3)
    }

    /// Two endpoints that are never paired: of one node, of different fabrics, or on rails that are not routed to each other.
    #[must_use]
    pub fn never_meet(&self, source: EndpointIndex, target: EndpointIndex) -> bool {
        let at = |index: EndpointIndex| Some((self.places().place(index)?, self.standing.fabric(index)?));
        let Some(((a, fabric), (b, other))) = at(source).zip(at(target)) else { return false };
        let cross = a.rail.zip(b.rail).is_some_and(|(a, b)| a != b);
        a.node == b.node || fabric != other || (cross && !self.settings.rails_routed)
    }
}

impl Shown<'_> {
    /// One cell. A pair with an end in maintenance is excluded, but for what was measured since that began (an operator may probe it by
    /// name); a pair that is never probed is excluded as long as nobody has measured it all the same.
    #[must_use]
    pub fn cell(&self, metric: Metric, source: EndpointIndex, target: EndpointIndex) -> Cell {
        let cell = self.coordinator.matrix.cell(metric, source, target);
        let since = |index: EndpointIndex| self.silenced.get(index.0 as usize).copied().flatten();
        if let Some(since) = since(source).into_iter().chain(since(target)).max() {
            let measured = matches!(&cell, Cell::Known { at, .. } if *at >= since);
            let why = Exclusion::Maintenance;
            return if measured { cell } else { Cell::Excluded { at: since, why } };
        }
        match cell {
            Cell::Never if self.coordinator.never_meet(source, target) => {
                Cell::Excluded { at: self.now, why: Exclusion::Policy }
            }
            cell => cell,
        }
    }

    /// Figures of this pair that are older than this are stale: it is three times the time in which such pairs are covered.
    #[must_use]
    pub fn fresh_for(&self, source: EndpointIndex, target: EndpointIndex) -> Duration {
        let rail = |index| self.coordinator.places().place(index)?.rail;
        let cross = rail(source).zip(rail(target)).is_some_and(|(a, b)| a != b);
        if cross { self.fresh_for_cross_rail } else { self.fresh_for }
    }
}
