//! What a cell is shown as, beside what was measured: how old it may be, and whether anybody was to measure it.

use crate::row::Kind;
use crate::{Brief, Cell, CellState};
use rdmascope_model::{Exclusion, Wall};

/// The light that one pair is seen in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Light {
    /// Figures from before this are stale.
    pub fresh_since: Wall,
    /// One of its ends is in maintenance since then: excluded, but for what was measured since (an operator may probe it by name).
    pub silenced: Option<Wall>,
    /// Its ends are never paired: excluded as long as nobody has measured it all the same.
    pub apart: bool,
}

impl Light {
    /// Why a cell of this kind and time is shown as excluded, whatever was measured.
    #[inline]
    fn exclusion(self, kind: Kind, at: Wall) -> Option<Exclusion> {
        match self.silenced {
            Some(since) => (kind != Kind::Known || at < since).then_some(Exclusion::Maintenance),
            None => (kind == Kind::Never && self.apart).then_some(Exclusion::Policy),
        }
    }

    /// Why such a cell is shown as excluded, and since when it is.
    #[inline]
    pub(crate) fn excluded(self, kind: Kind, at: Wall, now: Wall) -> Option<(Wall, Exclusion)> {
        self.exclusion(kind, at).map(|why| (self.silenced.unwrap_or(now), why))
    }

    /// The state that a row of this kind and time is shown with.
    #[inline]
    pub(crate) fn state(self, kind: Kind, at: Wall) -> CellState {
        if self.exclusion(kind, at).is_some() {
            return CellState::Excluded;
        }
        match kind {
            Kind::Never => CellState::Never,
            Kind::Known if at >= self.fresh_since => CellState::Fresh,
            Kind::Known => CellState::Stale,
            Kind::Failed => CellState::Failed,
            Kind::Excluded => CellState::Excluded,
        }
    }

    /// A cell in short as it is shown at `now`.
    #[must_use]
    pub fn shown(self, cell: Brief, now: Wall) -> Brief {
        let (kind, at) = match cell {
            Brief::Known { at, .. } => (Kind::Known, at),
            Brief::Never => (Kind::Never, Wall(0)),
            Brief::Failed { at, .. } => (Kind::Failed, at),
            Brief::Excluded { at, .. } => (Kind::Excluded, at),
        };
        self.excluded(kind, at, now).map_or(cell, |(at, why)| Brief::Excluded { at, why })
    }

    /// A whole cell as it is shown at `now`.
    #[must_use]
    pub fn shown_whole(self, cell: Cell, now: Wall) -> Cell {
        let (kind, at) = match &cell {
            Cell::Known { at, .. } => (Kind::Known, *at),
            Cell::Never => (Kind::Never, Wall(0)),
            Cell::Failed { at, .. } => (Kind::Failed, *at),
            Cell::Excluded { at, .. } => (Kind::Excluded, *at),
        };
        self.excluded(kind, at, now).map_or(cell, |(at, why)| Cell::Excluded { at, why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Light = Light { fresh_since: Wall(50), silenced: None, apart: false };

    #[test]
    fn age_decides_between_fresh_and_stale() {
        assert_eq!(
            [50, 49].map(|at| PLAIN.state(Kind::Known, Wall(at))),
            [CellState::Fresh, CellState::Stale]
        );
        let kinds = [Kind::Never, Kind::Failed, Kind::Excluded];
        let states = [CellState::Never, CellState::Failed, CellState::Excluded];
        assert_eq!(kinds.map(|kind| PLAIN.state(kind, Wall(0))), states);
    }

    #[test]
    fn a_maintenance_excludes_all_but_what_was_measured_since_it_began() {
        let light = Light { silenced: Some(Wall(60)), ..PLAIN };
        let known = |at| Brief::Known { at: Wall(at), headline: None, p99_ns: None, lost: None };
        let excluded = Brief::Excluded { at: Wall(60), why: Exclusion::Maintenance };
        assert_eq!(
            [60, 59].map(|at| light.state(Kind::Known, Wall(at))),
            [CellState::Fresh, CellState::Excluded]
        );
        assert_eq!(light.shown(known(60), Wall(99)), known(60));
        for cell in [known(59), Brief::Never, Brief::Excluded { at: Wall(70), why: Exclusion::Busy }] {
            assert_eq!(light.shown(cell, Wall(99)), excluded);
        }
    }

    #[test]
    fn who_never_meets_is_excluded_until_somebody_measures_it() {
        let light = Light { apart: true, ..PLAIN };
        assert_eq!(light.state(Kind::Never, Wall(0)), CellState::Excluded);
        assert_eq!(
            light.shown(Brief::Never, Wall(99)),
            Brief::Excluded { at: Wall(99), why: Exclusion::Policy }
        );
        assert_eq!(light.state(Kind::Known, Wall(70)), CellState::Fresh);
    }
}
