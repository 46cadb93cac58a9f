//! Where endpoints stand in the fabric: which node, rail, leaf and pod each belongs to, and how far apart two of them are.

use crate::EndpointIndex;

/// A node, rail, leaf or pod by its place in the list of names of [`Places`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaceIndex(pub u32);

impl PlaceIndex {
    /// Stands for a place of which only the name is known: it comes from an earlier run.
    pub const UNKNOWN: Self = Self(u32::MAX);
}

/// Where one endpoint stands. What nobody told is `None`, and no verdict is based on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its node.
    pub node: PlaceIndex,
    /// Which plane of the fabric it belongs to.
    pub rail: Option<PlaceIndex>,
    /// The switch that it hangs on.
    pub leaf: Option<PlaceIndex>,
    /// The group of leaves below the same spines.
    pub pod: Option<PlaceIndex>,
    /// Signalling rate, bits per second.
    pub rate_bps: Option<u64>,
}

/// Where all of them stand, by their numbers in the matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// One for each endpoint of the matrix; `None` for one that is gone or not known any more, which no verdict looks at.
    pub of: Vec<Option<Place>>,
    /// Names of nodes.
    pub nodes: Vec<String>,
    /// Names of rails.
    pub rails: Vec<String>,
    /// Names of leaves.
    pub leaves: Vec<String>,
    /// Names of pods.
    pub pods: Vec<String>,
}

/// How far apart two endpoints are; figures are compared within a tier only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// On one node.
    Node,
    /// On one leaf.
    Leaf,
    /// On two leaves of one pod.
    Pod,
    /// In two pods, or on two leaves where nobody told of pods.
    Far,
    /// Nobody told on which leaves they are.
    Unknown,
}

impl Distance {
    /// How far two places are apart.
    #[must_use]
    #[inline]
    pub fn between(a: &Place, b: &Place) -> Self {
        let same = |x: Option<PlaceIndex>, y: Option<PlaceIndex>| x.zip(y).map(|(x, y)| x == y);
        if a.node == b.node {
            return Self::Node;
        }
        match same(a.leaf, b.leaf) {
            None => Self::Unknown,
            Some(true) => Self::Leaf,
            Some(false) if same(a.pod, b.pod) == Some(true) => Self::Pod,
            Some(false) => Self::Far,
        }
    }

    /// The word used everywhere.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node => "same node",
            Self::Leaf => "same leaf",
            Self::Pod => "same pod",
            Self::Far => "far",
            Self::Unknown => "unknown distance",
        }
    }
}

/// Pairs whose figures may be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tier {
    /// How far apart.
    pub distance: Distance,
    /// Both ends belong to one rail; true where nobody told of rails.
    pub same_rail: bool,
    /// Rate of the slower end, bits per second; 0 where it is not known.
    pub rate_bps: u64,
}

impl Places {
    /// Where an endpoint stands.
    #[must_use]
    #[inline]
    pub fn place(&self, endpoint: EndpointIndex) -> Option<&Place> {
        self.of.get(endpoint.0 as usize)?.as_ref()
    }

    /// The tier of a pair; `None` when one of the two is gone.
    #[must_use]
    pub fn tier(&self, source: EndpointIndex, target: EndpointIndex) -> Option<Tier> {
        let (a, b) = (self.place(source)?, self.place(target)?);
        let rate = a.rate_bps.zip(b.rate_bps).map_or(0, |(a, b)| a.min(b));
        let same_rail = a.rail.zip(b.rail).is_none_or(|(a, b)| a == b);
        Some(Tier { distance: Distance::between(a, b), same_rail, rate_bps: rate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(node: u32, leaf: Option<u32>, pod: Option<u32>) -> Option<Place> {
        let at = |index: Option<u32>| index.map(PlaceIndex);
        Some(Place { node: PlaceIndex(node), rail: None, leaf: at(leaf), pod: at(pod), rate_bps: Some(100) })
    }

    #[test]
    fn a_tier_says_what_was_told_and_nothing_else() {
        let of = vec![
            place(0, Some(0), Some(0)),
            place(0, Some(1), Some(0)),
            place(1, Some(0), Some(0)),
            place(2, Some(1), Some(0)),
            place(3, Some(2), Some(1)),
            place(4, None, None),
            None,
        ];
        let places = Places { of, ..Places::default() };
        let distance = |b| places.tier(EndpointIndex(0), EndpointIndex(b)).map(|tier| tier.distance);
        assert_eq!(
            [1, 2, 3, 4, 5, 6].map(distance),
            [
                Some(Distance::Node),
                Some(Distance::Leaf),
                Some(Distance::Pod),
                Some(Distance::Far),
                Some(Distance::Unknown),
                None
            ]
        );
    }
}
