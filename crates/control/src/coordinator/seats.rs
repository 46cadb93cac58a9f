//! Who is to be paired, and with whom: rails, fabrics, nodes, and what pings cover already.

use super::circle::mixed;
use rdmascope_localise::{EndpointIndex, PlaceIndex};
use rdmascope_model::Fabric;

/// One endpoint that is to be paired.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub(super) index: EndpointIndex,
    pub(super) node: PlaceIndex,
    pub(super) leaf: Option<PlaceIndex>,
    pub(super) rail: Option<PlaceIndex>,
    pub(super) fabric: Fabric,
    /// It takes datagrams.
    pub(super) pinged: bool,
}

/// Pairs of two rails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CrossRail {
    /// None of them.
    Never,
    /// All of them.
    All,
    /// One part of so many, by a rule that puts every pair into one.
    Part(u32, u32),
}

/// Which pairs are wanted. Endpoints of one node and of different fabrics never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) cross_rail: CrossRail,
    /// Only where not both ends take datagrams.
    pub(super) unless_pinged: bool,
    /// Only so many rounds, in which chance decides who is with whom.
    pub(super) quick: Option<u32>,
}

impl Wanted {
    pub(super) fn wants(&self, a: &Seat, b: &Seat) -> bool {
        a.node != b.node && self.may_meet(&Track::of(a), &Track::of(b)) && self.is_drawn(a, b)
    }

    /// As far as that depends on their tracks.
    pub(super) fn may_meet(&self, a: &Track, b: &Track) -> bool {
        let cross = is_cross(a.rail, b.rail) && self.cross_rail == CrossRail::Never;
        a.fabric == b.fabric && !(self.unless_pinged && a.pinged && b.pinged) && !cross
    }

    fn is_drawn(&self, a: &Seat, b: &Seat) -> bool {
        match self.cross_rail {
            CrossRail::Part(part, of) if is_cross(a.rail, b.rail) => {
                let (low, high) = (a.index.0.min(b.index.0), a.index.0.max(b.index.0));
                mixed(u64::from(low) << 32 | u64::from(high)) % u64::from(of.max(1)) == u64::from(part)
            }
            _ => true,
        }
    }
}

/// Two rails, as far as both are known.
fn is_cross(a: Option<PlaceIndex>, b: Option<PlaceIndex>) -> bool {
    a.zip(b).is_some_and(|(a, b)| a != b)
}

/// What one adapter of each node makes up: a rail, and where a node has several adapters on one rail, the first, second, … of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Track {
    pub(super) rail: Option<PlaceIndex>,
    pub(super) fabric: Fabric,
    pub(super) pinged: bool,
    pub(super) lane: u32,
}

impl Track {
    pub(super) fn of(seat: &Seat) -> Self {
        Self { rail: seat.rail, fabric: seat.fabric, pinged: seat.pinged, lane: 0 }
    }
}
