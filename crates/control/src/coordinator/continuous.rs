//! What goes on by itself: how pings and background probes are spread over the pairs, and in which time they have covered all of them.
//!
//! Peers of one rail come first, since that is where jobs talk. As long as all pairs fit into the coverage time, rails make no
//! difference; above that, each fourth turn is for a peer on another rail, so that those pairs are covered, too, in a longer time.
//! Where rails are not routed to each other nobody is pinged across them.

use super::Coordinator;
use super::seats::{CrossRail, Seat};
use super::settings::Settings;
use rdmascope_localise::PlaceIndex;
use rdmascope_model::{Fabric, LatencySpec};
use std::collections::BTreeMap;
use std::time::Duration;

/// Fewest and most samples of a background probe.
const BACKGROUND_SAMPLES: (u64, u64) = (30, 1_000);
/// Fewest and most pings of a batch, a third of them large: three large ones tell a path with a smaller MTU from chance, and more
/// than 60 would make a large mesh's pairs wait for each other.
pub(super) const PINGS_PER_BATCH: (u64, u64) = (9, 60);
/// A batch is over half a second after its last ping, and its agent tells of it within 5 s.
const PINGS_TOLD_WITHIN: Duration = Duration::from_secs(6);
/// Where not all pairs fit, one turn in so many is for another rail: same-rail pairs then take a third longer than without.
const CROSS_RAIL_EVERY: u32 = 4;
/// What one ping of the mesh makes both ends send, bytes: two of three are small. The ping and its first answer are 64 or 4,096 bytes, the
/// second answer is 64, each with 70 bytes of headers (Ethernet, IP, UDP, BTH, DETH, checksums).
pub(super) const BYTES_PER_PING: u64 = (2 * 3 * (64 + 70) + 2 * (4_096 + 70) + 64 + 70) / 3;
/// The same of one round trip of a background probe.
const BYTES_PER_ROUND_TRIP: u64 = 2 * (8 + 74);

/// How many peers the endpoint with the most of them has, and how many ordered pairs there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// On its rail, or where a rail is not known.
    pub(super) same: u64,
    /// On others.
    pub(super) cross: u64,
    pub(super) same_pairs: u64,
    pub(super) cross_pairs: u64,
}

impl Reach {
    /// Of endpoints that `meet`; across rails only where these are `routed` to each other.
    pub(super) fn of(seats: &[Seat], routed: bool, meet: impl Fn(&Seat, &Seat) -> bool) -> Self {
        type Kind = (Option<PlaceIndex>, Fabric, bool);
        let kind = |seat: &Seat| -> Kind { (seat.rail, seat.fabric, seat.pinged) };
        let mut kinds: BTreeMap<Kind, (Seat, u64)> = BTreeMap::new();
        let mut on_node: BTreeMap<(PlaceIndex, Kind), u64> = BTreeMap::new();
        for seat in seats {
            kinds.entry(kind(seat)).or_insert((*seat, 0)).1 += 1;
            *on_node.entry((seat.node, kind(seat))).or_default() += 1;
        }
        let mut reach = Self::default();
        for seat in seats {
            let (mut same, mut cross) = (0, 0);
            for (other, (example, count)) in &kinds {
                if seat.fabric != example.fabric || !meet(seat, example) {
                    continue;
                }
                let peers = count - on_node.get(&(seat.node, *other)).copied().unwrap_or(0);
                let two_rails = seat.rail.zip(example.rail).is_some_and(|(a, b)| a != b);
                *(if two_rails { &mut cross } else { &mut same }) += peers;
            }
            cross = if routed { cross } else { 0 };
            reach.same_pairs += same;
            reach.cross_pairs += cross;
            (reach.same, reach.cross) = (reach.same.max(same), reach.cross.max(cross));
        }
        reach
    }

    fn is_empty(&self) -> bool {
        self.same + self.cross == 0
    }
}

/// The rate that the configuration allows, and the time in which it wants all pairs covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    /// Pings, or round trips, per second and endpoint; 0: nothing goes on by itself.
    pub(super) per_second: u32,
    pub(super) coverage: Duration,
    pub(super) pause: Duration,
}

/// How pings are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PingTurns {
    pub(super) per_batch: u32,
    /// 1: rails make no difference; 0: nobody on another rail.
    pub(super) cross_rail_every: u32,
    /// Pairs of one rail (and all, where rails make no difference) are covered in this time; `None` when there are none.
    pub(super) covers: Option<Duration>,
    /// And those of two rails.
    pub(super) covers_cross: Option<Duration>,
}

/// How background probes are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProbeTurns {
    pub(super) spec: LatencySpec,
    /// Each sweep has one part of so many of the pairs of two rails.
    pub(super) parts: u32,
    pub(super) covers: Option<Duration>,
    pub(super) covers_cross: Option<Duration>,
}

impl Rate {
    pub(super) fn of(settings: &Settings) -> Self {
        let Settings { pings_per_second, coverage, pause, .. } = *settings;
        Self { per_second: pings_per_second, coverage, pause }
    }

    /// The same where some endpoints are pinged and others need connections: each kind of probe gets half of the rate, so that
    /// an endpoint that takes part in both stays within it.
    pub(super) fn halved(self) -> Self {
        Self { per_second: self.per_second.div_ceil(2), ..self }
    }

    /// Pings of one endpoint in the coverage time.
    fn budget(&self) -> u64 {
        u64::from(self.per_second) * self.coverage.as_secs()
    }

    /// How long so many pings take; `None` when there are none, or none may be sent.
    fn time(&self, pings: u64) -> Option<Duration> {
        let millis = (pings * 1_000).checked_div(self.per_second.into())?;
        (pings > 0).then(|| Duration::from_millis(millis))
    }

    /// Batches are as long as the rate allows within the coverage time, and a multiple of three, since each third ping is large.
    pub(super) fn ping_turns(&self, reach: &Reach) -> PingTurns {
        let all = reach.same + reach.cross;
        let alike = reach.cross == 0 || all * PINGS_PER_BATCH.0 <= self.budget();
        let per_batch = |peers: u64, budget: u64| {
            (budget / peers.max(1)).clamp(PINGS_PER_BATCH.0, PINGS_PER_BATCH.1) / 3 * 3
        };
        let told = |pings: u64| self.time(pings).map(|time| time + PINGS_TOLD_WITHIN);
        let narrow = |pings: u64| u32::try_from(pings).unwrap_or(u32::MAX);
        if alike {
            let batch = per_batch(all, self.budget());
            return PingTurns {
                per_batch: narrow(batch),
                cross_rail_every: 1,
                covers: told(all * batch),
                covers_cross: told(all * batch).filter(|_| reach.cross > 0),
            };
        }
        let every = u64::from(CROSS_RAIL_EVERY);
        let batch = per_batch(reach.same, self.budget() * (every - 1) / every);
        PingTurns {
            per_batch: narrow(batch),
            cross_rail_every: CROSS_RAIL_EVERY,
            covers: told((reach.same * batch * every).div_ceil(every - 1)),
            covers_cross: told(reach.cross * batch * every),
        }
    }

    /// Samples are as many as the rate allows within the coverage time.
    pub(super) fn probe_turns(&self, reach: &Reach) -> ProbeTurns {
        let all = reach.same + reach.cross;
        let fits = all * BACKGROUND_SAMPLES.0 <= self.budget();
        // A fourth of each sweep is for other rails, as with pings.
        let share = (reach.same / u64::from(CROSS_RAIL_EVERY - 1)).max(1);
        let parts = if fits || reach.cross == 0 { 1 } else { reach.cross.div_ceil(share) };
        let peers = reach.same + reach.cross.div_ceil(parts);
        let samples = (self.budget() / peers.max(1)).clamp(BACKGROUND_SAMPLES.0, BACKGROUND_SAMPLES.1);
        let samples = u32::try_from(samples).unwrap_or(u32::MAX);
        let spec = LatencySpec { samples, warmup: 0, ..LatencySpec::USUAL };
        let parts = u32::try_from(parts).unwrap_or(u32::MAX);
        let covers = (self.per_second > 0 && peers > 0)
            .then(|| self.rest(&spec) * u32::try_from(peers).unwrap_or(u32::MAX) + self.pause);
        let covers_cross = covers.filter(|_| reach.cross > 0).map(|covers| covers * parts);
        ProbeTurns { spec, parts, covers, covers_cross }
    }

    /// How long an endpoint rests after such a background probe to stay within the rate.
    pub(super) fn rest(&self, probe: &LatencySpec) -> Duration {
        let pings = u64::from(probe.samples) + u64::from(probe.warmup);
        Duration::from_millis(pings * 1_000 / u64::from(self.per_second.max(1)))
    }
}

/// What goes on by itself, and what that costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covering {
    /// Ordered pairs of one rail, or of which a rail is not known.
    pub pairs: u64,
    /// They are covered in this time.
    pub within: Duration,
    /// Ordered pairs of two rails; 0 where rails are not routed to each other.
    pub cross_rail_pairs: u64,
    /// They are covered in this time; `None` when there are none.
    pub cross_rail_within: Option<Duration>,
    /// Pings, or round trips, per second and endpoint, at most.
    pub per_second: u32,
    /// Of them to one peer, one after the other.
    pub per_turn: u32,
    /// Bytes that one endpoint's pings make it and its peers send in a second, headers included.
    pub bytes_per_second: u64,
}

/// Both kinds of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContinuousPlan {
    /// Pings between endpoints that take datagrams.
    pub pings: Option<Covering>,
    /// Latency probes between all others.
    pub connections: Option<Covering>,
}

impl Coordinator {
    /// The rate that pings and background probes go by now.
    pub(super) fn rate(&self) -> Rate {
        let rate = Rate::of(&self.settings);
        let both = self.members.pinged() >= 2 && self.members.needs_connections();
        if both { rate.halved() } else { rate }
    }

    pub(super) fn ping_turns(&self) -> PingTurns {
        self.rate().ping_turns(&self.standing.pinged)
    }

    pub(super) fn probe_turns(&self) -> ProbeTurns {
        self.rate().probe_turns(&self.standing.probed)
    }

    /// Which pairs of two rails the next background sweep has.
    pub(super) fn cross_rail_part(&self) -> CrossRail {
        let parts = self.probe_turns().parts;
        match self.settings.rails_routed {
            false => CrossRail::Never,
            true if parts <= 1 => CrossRail::All,
            true => CrossRail::Part(self.work.background_turn % parts, parts),
        }
    }

    /// In this time pings and continuous sweeps cover all pairs of one rail; `None` when they are off.
    #[must_use]
    pub fn coverage(&self) -> Option<Duration> {
        let probed = self.probe_turns().covers.filter(|_| self.members.needs_connections());
        probed.max(self.ping_turns().covers)
    }

    /// The same for pairs of two rails; `None` when they are off, or there are no such pairs.
    #[must_use]
    pub fn cross_rail_coverage(&self) -> Option<Duration> {
        let probed = self.probe_turns().covers_cross.filter(|_| self.members.needs_connections());
        probed.max(self.ping_turns().covers_cross)
    }

    /// What goes on by itself, in which time it covers all pairs, and what it costs.
    #[must_use]
    pub fn continuous_plan(&self) -> ContinuousPlan {
        let rate = self.rate();
        let (pings, probes) = (self.ping_turns(), self.probe_turns());
        let covering = |reach: &Reach, within: Option<Duration>, cross, per_turn, bytes| {
            within.filter(|_| !reach.is_empty()).map(|within| Covering {
                pairs: reach.same_pairs,
                within,
                cross_rail_pairs: reach.cross_pairs,
                cross_rail_within: cross,
                per_second: rate.per_second,
                per_turn,
                bytes_per_second: u64::from(rate.per_second) * bytes,
            })
        };
        let (pinged, probed) = (&self.standing.pinged, &self.standing.probed);
        let samples = probes.spec.samples;
        ContinuousPlan {
            pings: covering(pinged, pings.covers, pings.covers_cross, pings.per_batch, BYTES_PER_PING),
            connections: covering(probed, probes.covers, probes.covers_cross, samples, BYTES_PER_ROUND_TRIP)
                .filter(|_| self.members.needs_connections()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_localise::EndpointIndex;

    const RATE: Rate =
        Rate { per_second: 10, coverage: Duration::from_secs(120), pause: Duration::from_secs(10) };

    fn seconds(n: u64) -> Option<Duration> {
        Some(Duration::from_secs(n))
    }

    /// One rail: everybody is everybody's peer.
    fn flat(endpoints: u64) -> Reach {
        let same = endpoints.saturating_sub(1);
        Reach { same, same_pairs: endpoints * same, ..Reach::default() }
    }

    #[test]
    fn small_clusters_get_tails_and_large_ones_stay_within_the_rate() {
        let turns = |endpoints| RATE.probe_turns(&flat(endpoints));
        assert_eq!(turns(4).spec.samples, 400);
        assert_eq!(RATE.rest(&turns(4).spec), Duration::from_secs(40));
        assert_eq!(turns(4).covers, seconds(130));
        assert_eq!(turns(1_000).spec.samples, 30, "fewer would say nothing");
        assert_eq!(turns(1_000).covers, seconds(3 * 999 + 10));
        assert_eq!(Rate { per_second: 0, ..RATE }.probe_turns(&flat(4)).covers, None);
    }

    #[test]
    fn batches_are_as_long_as_the_coverage_time_allows_and_a_third_of_them_large() {
        let turns = |endpoints| RATE.ping_turns(&flat(endpoints));
        assert_eq!((turns(4).per_batch, turns(4).covers), (60, seconds(3 * 6 + 6)));
        // 10 a second for 120 s are 1,200 pings for 63 peers: 19, of which 18 can be two thirds small.
        assert_eq!(turns(64).per_batch, 18);
        assert!(turns(64).covers <= seconds(120), "{:?}", turns(64).covers);
        assert_eq!(turns(4_096).per_batch, 9, "fewer would say nothing");
        assert_eq!(turns(1_001).covers, seconds(900 + 6));
        for endpoints in [0, 1, 2, 3, 10, 100, 1_000] {
            let pings = turns(endpoints).per_batch;
            assert!(pings % 3 == 0 && (9..=60).contains(&pings), "{pings}");
        }
        assert_eq!((turns(0).covers, turns(1).covers), (None, None));
        assert_eq!(Rate { per_second: 0, ..RATE }.ping_turns(&flat(4)).covers, None);
    }

    #[test]
    fn rails_make_no_difference_while_all_pairs_fit_and_then_other_rails_are_a_fourth() {
        let rails = |nodes: u64, rails: u64| Reach {
            same: nodes - 1,
            cross: (nodes - 1) * (rails - 1),
            ..Reach::default()
        };
        // 8 nodes of 8 rails: 56 peers, 21 pings each.
        let small = RATE.ping_turns(&rails(8, 8));
        assert_eq!((small.cross_rail_every, small.per_batch), (1, 21));
        assert_eq!((small.covers, small.covers_cross), (small.covers_cross, small.covers));
        // 128 nodes of 8 rails: 127 peers on the rail, 889 on others.
        let large = RATE.ping_turns(&rails(128, 8));
        assert_eq!((large.cross_rail_every, large.per_batch), (4, 9));
        assert_eq!(large.covers, Some(Duration::from_millis(152_400 + 6_000)), "127 × 9 pings and a third");
        assert_eq!(large.covers_cross, Some(Duration::from_millis(889 * 9 * 400 + 6_000)));
        let probes = RATE.probe_turns(&rails(128, 8));
        assert_eq!((probes.parts, probes.spec.samples), (22, 30), "889 in parts of 42");
        assert_eq!(probes.covers, seconds(3 * (127 + 41) + 10));
        assert_eq!(probes.covers_cross, seconds(22 * (3 * (127 + 41) + 10)));
    }

    #[test]
    fn peers_are_counted_by_rail_and_never_on_the_own_node_nor_across_fabrics() {
        let seat = |index: u32, node, rail: Option<u32>, fabric| Seat {
            index: EndpointIndex(index),
            node: PlaceIndex(node),
            leaf: None,
            rail: rail.map(PlaceIndex),
            fabric,
            pinged: true,
        };
        let mut all = Vec::new();
        for node in 0..4 {
            all.extend((0..2).map(|rail| seat(2 * node + rail, node, Some(rail), Fabric::Roce)));
        }
        all.push(seat(90, 9, None, Fabric::Roce));
        all.push(seat(91, 9, Some(0), Fabric::InfiniBand));
        let reach = Reach::of(&all, true, |a, b| a.pinged && b.pinged);
        assert_eq!((reach.same, reach.cross), (8, 3), "who is on no rail has everybody");
        assert_eq!((reach.same_pairs, reach.cross_pairs), (8 * 4 + 8, 8 * 3));
        assert_eq!(Reach::of(&all, false, |_, _| true).cross, 0);
        assert!(Reach::of(&all, true, |_, _| false).is_empty());
    }
}
