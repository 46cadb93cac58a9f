//! Who is with whom in which round: every wanted pair once, nobody twice in a round, and each leaf with one other leaf at a time.
//!
//! First come the pairs of one track, then all others; a track is what one adapter of each node makes up, usually a rail. Each part is
//! made of circles, one inside the other (1-factorisations of complete graphs). The outermost goes over leaves: in each of its rounds a
//! leaf is with itself (the first one) or with exactly one other leaf, so that a slow round names a pair of leaves. The next one goes
//! over the tracks that two leaves have, the innermost over the endpoints that two groups of one leaf and one track have: they turn past
//! each other one by one. Leaves that have no track in common do not wait for each other: each kind of leaf has a circle of its own.
//! Groups need not be of one size; where there is nobody, there is a bye.
//!
//! A partner follows from a formula, so that nothing is kept but the groups: a sweep over 4,096 endpoints has 8 million pairs.
//! Nobody waits for a round to end: the rounds say what comes first, and [`super::turns`] what goes on meanwhile.

use super::circle::{circle, circle_rounds, drawn, next_ahead, next_behind, next_in_circle};
use super::seats::{CrossRail, Seat, Track, Wanted};
use rdmascope_localise::PlaceIndex;
use std::collections::BTreeMap;

/// One round, as the places of its circles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Round {
    part: Part,
    /// Of the leaves; 0: each with itself.
    leaves: u32,
    /// Of the tracks.
    tracks: u32,
    /// Of the endpoints.
    shift: u32,
}

/// Which pairs it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Those of one track.
    Along,
    /// Those of two.
    Across,
}

impl Round {
    /// The first one.
    pub(super) const START: Self = Self { part: Part::Along, leaves: 0, tracks: 0, shift: 0 };

    /// The one behind it.
    pub(super) fn next(self) -> Self {
        Self { shift: self.shift + 1, ..self }
    }
}

/// The endpoints of one leaf and one track.
#[derive(Clone, Copy, Debug)]
struct Group {
    leaf: u32,
    track: u32,
    /// Among the groups of its leaf.
    lane: u32,
    begin: u32,
    count: u32,
}

/// The place of a leaf in its circle.
#[derive(Clone, Copy, Debug, Default)]
struct Standpoint {
    /// Where its circle begins in the line of leaves.
    begin: u32,
    own: u32,
    count: u32,
}

/// The circles of leaves of one part.
#[derive(Clone, Debug, Default)]
struct Circles {
    /// Leaves, those of one circle one behind the other.
    line: Vec<u32>,
    standpoints: Vec<Standpoint>,
}

/// How two groups turn past each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// A group with itself.
    Circle,
    /// This one is the first of the two.
    First,
    /// This one is the second.
    Second,
}

/// The rounds of some endpoints. They are called by their place in the list that the rounds were made from.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    seats: Vec<Seat>,
    wanted: Wanted,
    /// Endpoints in the order of their groups, and where each of them is in it.
    order: Vec<u32>,
    place: Vec<u32>,
    groups: Vec<Group>,
    group_of: Vec<u32>,
    /// The groups of each leaf, in the order of their tracks.
    on_leaf: Vec<Vec<u32>>,
    tracks: Vec<Track>,
    along: Circles,
    /// `None` where there are no pairs of two tracks.
    across: Option<Circles>,
}

impl Rounds {
    /// The rounds of these endpoints; another `seed` puts other pairs together at the same time.
    pub(super) fn new(seats: &[Seat], wanted: Wanted, seed: u64) -> Self {
        let lanes = lanes(seats, &wanted);
        let place = |at: usize| {
            let (leaf, track) = grouping(&seats[at], &wanted);
            (
                drawn(seed, leaf.map_or(0, |leaf| 1 + u64::from(leaf.0))),
                leaf,
                Track { lane: lanes[at], ..track },
            )
        };
        let mut tracks: Vec<_> = (0..seats.len()).map(|at| place(at).2).collect();
        tracks.sort_unstable();
        tracks.dedup();
        // Nodes are in the same order in all groups, so that most pairs of one node fall into one round.
        let chance = |at: u32| match (wanted.quick, u64::from(seats[at as usize].node.0)) {
            (Some(_), _) => drawn(seed, u64::from(at)),
            (None, node) if seed == 0 => node,
            (None, node) => drawn(seed, node),
        };
        let mut order: Vec<u32> = (0..count(seats)).collect();
        order.sort_by_cached_key(|&at| (place(at as usize), chance(at), at));
        let mut rounds = Self {
            seats: seats.to_vec(),
            wanted,
            place: vec![0; seats.len()],
            groups: Vec::new(),
            group_of: vec![0; seats.len()],
            on_leaf: Vec::new(),
            tracks,
            along: Circles::default(),
            across: None,
            order: Vec::new(),
        };
        let mut before = None;
        for (begin, &at) in (0_u32..).zip(&order) {
            let (drawn, leaf, track) = place(at as usize);
            rounds.seat(at, begin, before, (drawn, leaf), track);
            before = Some((drawn, leaf));
        }
        rounds.order = order;
        let across = |a: u32, b: u32| {
            a != b && wanted.may_meet(&rounds.tracks[a as usize], &rounds.tracks[b as usize])
        };
        let all = count(&rounds.tracks);
        let any = (0..all).any(|a| (a + 1..all).any(|b| across(a, b)));
        let circles = [rounds.circles(|a, b| a == b), rounds.circles(across)];
        let [along, meeting] = circles;
        Self { along, across: Some(meeting).filter(|_| any && wanted.quick.is_none()), ..rounds }
    }

    /// Which pairs they are for.
    pub(super) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Gives the next endpoint in order its place.
    fn seat<L: PartialEq>(&mut self, at: u32, begin: u32, before: Option<L>, leaf: L, track: Track) {
        let track = self.tracks.binary_search(&track).map_or(0, |track| u32::try_from(track).unwrap_or(0));
        let new_leaf = before.is_none_or(|before| before != leaf);
        if new_leaf {
            self.on_leaf.push(Vec::new());
        }
        if new_leaf || self.groups.last().is_none_or(|group| group.track != track) {
            let leaf = count(&self.on_leaf) - 1;
            let number = count(&self.groups);
            if let Some(there) = self.on_leaf.last_mut() {
                self.groups.push(Group { leaf, track, lane: count(there), begin, count: 0 });
                there.push(number);
            }
        }
        self.groups.iter_mut().next_back().into_iter().for_each(|group| group.count += 1);
        self.place[at as usize] = begin;
        self.group_of[at as usize] = count(&self.groups) - 1;
    }

    /// Circles of leaves, where those stand in one whose tracks meet, by themselves or through others.
    fn circles(&self, meet: impl Fn(u32, u32) -> bool) -> Circles {
        let tracks = count(&self.tracks);
        let mut kind: Vec<u32> = (0..tracks).collect();
        let join = |kind: &mut Vec<u32>, a: u32, b: u32| {
            let (from, to) = (kind[a as usize], kind[b as usize]);
            if from != to {
                kind.iter_mut().filter(|kind| **kind == from).for_each(|kind| *kind = to);
            }
        };
        for a in 0..tracks {
            (a + 1..tracks).filter(|&b| meet(a, b)).for_each(|b| join(&mut kind, a, b));
        }
        for groups in &self.on_leaf {
            let tracks: Vec<u32> = groups.iter().map(|group| self.groups[*group as usize].track).collect();
            tracks.windows(2).for_each(|pair| join(&mut kind, pair[0], pair[1]));
        }
        let of_leaf = |leaf: &u32| {
            let group = self.on_leaf[*leaf as usize].first().map(|group| &self.groups[*group as usize]);
            group.map(|group| kind[group.track as usize])
        };
        let mut line: Vec<u32> = (0..count(&self.on_leaf)).collect();
        line.sort_by_key(of_leaf);
        let mut standpoints = vec![Standpoint::default(); line.len()];
        for circle in line.chunk_by(|a, b| of_leaf(a) == of_leaf(b)) {
            let begin = u32::try_from(line.iter().position(|leaf| *leaf == circle[0]).unwrap_or(0));
            for (own, leaf) in (0_u32..).zip(circle) {
                standpoints[*leaf as usize] =
                    Standpoint { begin: begin.unwrap_or(0), own, count: count(circle) };
            }
        }
        Circles { line, standpoints }
    }

    fn circles_of(&self, part: Part) -> Option<&Circles> {
        match part {
            Part::Along => Some(&self.along),
            Part::Across => self.across.as_ref(),
        }
    }

    /// Rounds of leaves that a group has in a part.
    fn leaf_rounds(&self, part: Part, group: &Group) -> u32 {
        let circles = self.circles_of(part);
        circles.map_or(0, |circles| circle_rounds(circles.standpoints[group.leaf as usize].count))
    }

    /// The leaf that a leaf is with.
    fn leaf_with(&self, group: &Group, round: Round) -> Option<u32> {
        if round.leaves == 0 {
            return Some(group.leaf);
        }
        let circles = self.circles_of(round.part)?;
        let standpoint = circles.standpoints[group.leaf as usize];
        let with = circle(standpoint.own, round.leaves - 1, standpoint.count)?;
        circles.line.get((standpoint.begin + with) as usize).copied()
    }

    /// The rounds of tracks that a group has with a leaf.
    fn track_rounds(&self, part: Part, group: &Group, leaf: u32) -> u32 {
        let lanes = |leaf: u32| count(&self.on_leaf[leaf as usize]);
        match part {
            Part::Along => 1,
            Part::Across if leaf == group.leaf => circle_rounds(lanes(leaf)),
            Part::Across => lanes(leaf).max(lanes(group.leaf)),
        }
    }

    /// The group that a group is with in a round on this leaf, and how the two turn.
    fn partners(&self, group: &Group, round: Round, leaf: u32) -> Option<(&Group, Order)> {
        let there = &self.on_leaf[leaf as usize];
        let track = |number: &u32| self.groups[*number as usize].track;
        let order = if group.leaf < leaf { Order::First } else { Order::Second };
        if round.part == Part::Along {
            let found = there.binary_search_by_key(&group.track, track).ok()?;
            let order = if leaf == group.leaf { Order::Circle } else { order };
            return Some((&self.groups[there[found] as usize], order));
        }
        let own = count(&self.on_leaf[group.leaf as usize]);
        let turns = own.max(count(there)).max(1);
        let (lane, order) = match order {
            _ if leaf == group.leaf => {
                let lane = circle(group.lane, round.tracks, own)?;
                (lane, if group.lane < lane { Order::First } else { Order::Second })
            }
            Order::First => ((group.lane + round.tracks) % turns, order),
            _ => ((group.lane + turns - round.tracks % turns) % turns, order),
        };
        let other = &self.groups[*there.get(lane as usize)? as usize];
        let (a, b) = (&self.tracks[group.track as usize], &self.tracks[other.track as usize]);
        (group.track != other.track && self.wanted.may_meet(a, b)).then_some((other, order))
    }

    /// The first round from `from` on in which an endpoint has a partner, and who that is.
    pub(super) fn next(&self, seat: u32, from: Round) -> Option<(Round, u32)> {
        let group = &self.groups[self.group_of[seat as usize] as usize];
        let mut round = from;
        loop {
            if let Some(leaf) = self.leaf_with(group, round) {
                while round.tracks < self.track_rounds(round.part, group, leaf) {
                    let found = self.next_shift(seat, group, leaf, round);
                    if found.is_some() {
                        return found;
                    }
                    round = Round { tracks: round.tracks + 1, shift: 0, ..round };
                }
            }
            round = if round.leaves < self.leaf_rounds(round.part, group) {
                Round { leaves: round.leaves + 1, tracks: 0, shift: 0, ..round }
            } else if round.part == Part::Along && self.across.is_some() {
                Round { part: Part::Across, ..Round::START }
            } else {
                return None;
            };
        }
    }

    fn next_shift(&self, seat: u32, group: &Group, leaf: u32, mut round: Round) -> Option<(Round, u32)> {
        let (other, order) = self.partners(group, round, leaf)?;
        let own = self.place[seat as usize] - group.begin;
        loop {
            let (shift, partner) = match order {
                Order::Circle => next_in_circle(own, round.shift, group.count, self.wanted.quick)?,
                Order::First => next_behind(own, round.shift, group.count, other.count)?,
                Order::Second => next_ahead(own, round.shift, other.count, group.count)?,
            };
            round.shift = shift;
            let partner = self.order[(other.begin + partner) as usize];
            if self.wanted.wants(&self.seats[seat as usize], &self.seats[partner as usize]) {
                return Some((round, partner));
            }
            round = round.next();
        }
    }

    /// How many rounds there are at most, those that nobody needs left out: one in which everybody's partner is on the own node counts.
    pub(super) fn count(&self) -> u64 {
        let mut rounds = 0;
        for part in [Part::Along, Part::Across] {
            if self.circles_of(part).is_none() {
                continue;
            }
            let last = self.groups.iter().map(|group| self.leaf_rounds(part, group)).max().unwrap_or(0);
            for leaves in 0..=last {
                let mut longest: BTreeMap<u32, u32> = BTreeMap::new();
                for group in self.groups.iter().filter(|group| leaves <= self.leaf_rounds(part, group)) {
                    let Some(leaf) = self.leaf_with(group, Round { part, leaves, ..Round::START }) else {
                        continue;
                    };
                    for tracks in 0..self.track_rounds(part, group, leaf) {
                        let round = Round { part, leaves, tracks, shift: 0 };
                        let turns =
                            self.partners(group, round, leaf).map_or(0, |(other, order)| match order {
                                Order::Circle => {
                                    circle_rounds(group.count).min(self.wanted.quick.unwrap_or(u32::MAX))
                                }
                                Order::First | Order::Second => group.count.max(other.count),
                            });
                        let longest = longest.entry(tracks).or_default();
                        *longest = turns.max(*longest);
                    }
                }
                rounds += longest.into_values().map(u64::from).sum::<u64>();
            }
        }
        rounds
    }
}

/// Leaf and track of an endpoint, its lane left open. A few random rounds go over everybody at once.
fn grouping(seat: &Seat, wanted: &Wanted) -> (Option<PlaceIndex>, Track) {
    let track = Track { pinged: seat.pinged && wanted.unless_pinged, ..Track::of(seat) };
    match (wanted.quick, wanted.cross_rail) {
        (None, _) => (seat.leaf, track),
        (Some(_), CrossRail::Never) => (None, track),
        (Some(_), _) => (None, Track { rail: None, ..track }),
    }
}

/// Which of the adapters that its node has on one track each endpoint is.
fn lanes(seats: &[Seat], wanted: &Wanted) -> Vec<u32> {
    let mut taken: BTreeMap<(PlaceIndex, Option<PlaceIndex>, Track), u32> = BTreeMap::new();
    let lane = |seat: &Seat| {
        let (leaf, track) = grouping(seat, wanted);
        // With chance, everybody may meet everybody.
        if wanted.quick.is_some() && wanted.cross_rail != CrossRail::Never {
            return 0;
        }
        let next = taken.entry((seat.node, leaf, track)).or_default();
        *next += 1;
        *next - 1
    };
    seats.iter().map(lane).collect()
}

fn count<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "rounds_tests.rs"]
mod tests;
