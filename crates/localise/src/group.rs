//! Which pairs the metrics tell apart: by their rail, and by how far their ends are apart. There are never more groups than the code says.

use crate::{Distance, Place, PlaceIndex, Places};

/// Rails with a name of their own; all further ones are one.
pub const RAILS_NAMED_MAX: usize = 16;
/// The rails with a name, and besides: nobody told, two rails, and any further rail.
pub(crate) const RAIL_SLOTS: usize = RAILS_NAMED_MAX + 3;
const DISTANCES: [Distance; 5] =
    [Distance::Node, Distance::Leaf, Distance::Pod, Distance::Far, Distance::Unknown];

/// Which rail a pair is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PairRail {
    /// Nobody told of one of its ends.
    Unknown,
    /// Its ends are on two.
    Cross,
    /// One of more than [`RAILS_NAMED_MAX`].
    Other,
    /// This one, by its place in the list of names.
    Rail(u8),
}

impl PairRail {
    #[inline]
    fn between(a: Option<PlaceIndex>, b: Option<PlaceIndex>) -> Self {
        match (a, b) {
            (Some(a), Some(b)) if a != b => Self::Cross,
            (Some(PlaceIndex(at)), Some(_)) => match u8::try_from(at) {
                Ok(at) if usize::from(at) < RAILS_NAMED_MAX => Self::Rail(at),
                _ => Self::Other,
            },
            _ => Self::Unknown,
        }
    }

    #[inline]
    pub(crate) fn slot(self) -> usize {
        match self {
            Self::Unknown => 0,
            Self::Cross => 1,
            Self::Other => 2,
            Self::Rail(at) => 3 + usize::from(at),
        }
    }

    pub(crate) fn of_slot(slot: usize) -> Self {
        match slot {
            0 => Self::Unknown,
            1 => Self::Cross,
            2 => Self::Other,
            _ => Self::Rail(u8::try_from(slot - 3).unwrap_or(u8::MAX)),
        }
    }

    /// Its name as a label; empty where nobody told.
    #[must_use]
    #[inline]
    pub fn name(self, places: &Places) -> &str {
        match self {
            Self::Unknown => "",
            Self::Cross => "cross",
            Self::Other => "other",
            Self::Rail(at) => places.rails.get(usize::from(at)).map_or("", String::as_str),
        }
    }
}

/// A group of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// On which rail.
    pub rail: PairRail,
    /// How far apart.
    pub distance: Distance,
}

impl Group {
    /// How many there can be.
    pub const COUNT: usize = RAIL_SLOTS * DISTANCES.len();

    /// The group of a pair; of one whose end is gone nothing is known.
    #[must_use]
    #[inline]
    pub fn between(source: Option<&Place>, target: Option<&Place>) -> Self {
        let (Some(a), Some(b)) = (source, target) else {
            return Self { rail: PairRail::Unknown, distance: Distance::Unknown };
        };
        Self { rail: PairRail::between(a.rail, b.rail), distance: Distance::between(a, b) }
    }

    /// Its number, below [`Self::COUNT`].
    #[must_use]
    #[inline]
    pub fn number(self) -> usize {
        self.rail.slot() * DISTANCES.len() + self.distance as usize
    }

    /// The group of a number.
    #[must_use]
    pub fn of_number(number: usize) -> Self {
        let distance = DISTANCES[number % DISTANCES.len()];
        Self { rail: PairRail::of_slot(number / DISTANCES.len()), distance }
    }

    /// How far apart, as a label.
    #[must_use]
    pub fn scope(self) -> &'static str {
        match self.distance {
            Distance::Node => "node",
            Distance::Leaf => "leaf",
            Distance::Pod => "pod",
            Distance::Far => "far",
            Distance::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_has_a_number_of_its_own_and_no_pair_is_beyond_them() {
        for number in 0..Group::COUNT {
            assert_eq!(Group::of_number(number).number(), number);
        }
        let place = |rail: u32| Place {
            node: PlaceIndex(rail),
            rail: Some(PlaceIndex(rail)),
            leaf: None,
            pod: None,
            rate_bps: None,
        };
        for (a, b, rail) in [
            (0, 0, PairRail::Rail(0)),
            (15, 15, PairRail::Rail(15)),
            (16, 16, PairRail::Other),
            (9_999, 9_999, PairRail::Other),
            (3, 4, PairRail::Cross),
        ] {
            let group = Group::between(Some(&place(a)), Some(&place(b)));
            assert_eq!(group.rail, rail);
            assert!(group.number() < Group::COUNT);
        }
        assert_eq!(Group::between(None, Some(&place(1))).rail, PairRail::Unknown);
    }
}
