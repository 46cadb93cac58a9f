//! What a cell is shown as, beside what was measured: how old it may be, and whether anybody was to measure it.

use crate::row::Kind;
use crate::{Brief, CellState};
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
    /// The state that a row of this kind and time is shown with.
    #[inline]
    pub(crate) fn state(self, kind: Kind, at: Wall) -> CellState {
        if self.silenced.is_some_and(|since| kind != Kind::Known || at < since) {
            return CellState::Excluded;
        }
        match kind {
            Kind::Never if self.apart => CellState::Excluded,
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
        match (self.silenced, cell) {
            (Some(since), Brief::Known { at, .. }) if at >= since => cell,
            (Some(since), _) => Brief::Excluded { at: since, why: Exclusion::Maintenance },
            (None, Brief::Never) if self.apart => Brief::Excluded { at: now, why: Exclusion::Policy },
            (None, cell) => cell,
        }
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
