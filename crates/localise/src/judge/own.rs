//! What is usual for each endpoint itself, so that one that slowly takes longer than it did is seen though others always take as long.
//!
//! By how much an endpoint's round trips differ from those of their tiers is its part: the length of its cable, its adapter. Jobs and the
//! load of the day move it, too. So it is held against what it was in the endpoint's first day, hour by hour, and against how much it moved
//! then. What changes an endpoint on purpose begins a new first day.

use super::layout::Layout;
use super::observe::Scene;
use super::yardstick::{PARTS, known, log, parts_of, quantile};
use crate::{Component, EndpointIndex, PlaceIndex, ping};
use rdmascope_model::Wall;
use std::collections::{BTreeSet, VecDeque};

/// Rows that are looked at in one look: a cluster with more endpoints is looked through in several.
const ROWS_AT_ONCE: usize = 256;
/// Fewer peers have no median that is worth to be remembered.
const PEERS_MIN: usize = 8;
/// So long an endpoint's parts are averaged, milliseconds: longer than the phases of a job.
const SLOT_MS: u64 = 15 * 60_000;
/// Averages that tell what is usual: a day of them, and two hours at least.
const USUAL: usize = 96;
const USUAL_MIN: usize = 8;
/// Averages that must all be out of the ordinary: an hour.
const LATEST: usize = 4;
/// Longer by this at least, and by so many times the distance from the middle that nine tenths of what was usual kept to (five deviations
/// of what is normally distributed; a job that comes and goes is not).
const LONGER_BY: f64 = 1.08;
const TIMES: i32 = 3;

/// What is known of one endpoint's part, in the unit of [`log`].
#[derive(Clone, Debug, Default)]
struct Learned {
    /// Averages of the first day.
    usual: Vec<i32>,
    /// The latest ones, the newest last; they are not yet in the others.
    latest: VecDeque<i32>,
    /// The number of the slot that goes on, and the sum of so many parts in it.
    slot: u64,
    sum: i64,
    seen: u32,
    /// It takes longer.
    longer: bool,
}

impl Learned {
    fn note(&mut self, part: i32, now: Wall) {
        let slot = now.0 / SLOT_MS;
        if slot != self.slot {
            self.end_slot();
            self.slot = slot;
        }
        self.sum += i64::from(part);
        self.seen += 1;
    }

    fn end_slot(&mut self) {
        let Some(average) = self.sum.checked_div(self.seen.into()) else { return };
        (self.sum, self.seen) = (0, 0);
        self.latest.push_back(i32::try_from(average).unwrap_or(0));
        if self.latest.len() > LATEST
            && let Some(oldest) = self.latest.pop_front()
            && self.usual.len() < USUAL
            && !self.longer
        {
            self.usual.push(oldest);
        }
        let Some((middle, limit)) = self.usual() else { return };
        self.longer = if self.longer {
            self.latest.back().is_some_and(|newest| *newest > middle + limit / 2)
        } else {
            self.latest.len() == LATEST && self.latest.iter().all(|average| *average > middle + limit)
        };
    }

    /// What is usual, and by how much more is out of the ordinary.
    fn usual(&self) -> Option<(i32, i32)> {
        let mut usual = self.usual.clone();
        let middle = quantile(&mut usual, 50).filter(|_| usual.len() >= USUAL_MIN)?;
        usual.iter_mut().for_each(|average| *average = (*average - middle).abs());
        Some((middle, parts_of(LONGER_BY).max(TIMES * quantile(&mut usual, 90)?)))
    }

    /// By how much the latest hour lies above what is usual.
    fn shift(&self) -> Option<i32> {
        let (middle, _) = self.usual()?;
        let mut latest: Vec<i32> = self.latest.iter().copied().collect();
        quantile(&mut latest, 50).map(|latest| latest - middle)
    }
}

/// One that takes longer than it did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Longer {
    /// An endpoint, or a node of which all endpoints do.
    pub(crate) component: Component,
    /// By what share of a round trip.
    pub(crate) by: f64,
}

/// What is usual for every endpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    learned: Vec<Learned>,
    /// What each endpoint was made of.
    made_of: Vec<u64>,
    /// The row to begin with in the next look.
    next: usize,
}

impl Own {
    /// Forgets those who are not what they were, or on whom somebody works.
    pub(crate) fn forget(&mut self, layout: &Layout, made_of: &[u64]) {
        self.learned.resize(layout.len, Learned::default());
        self.made_of.resize(layout.len, 0);
        for (at, learned) in self.learned.iter_mut().enumerate() {
            let made_of = made_of.get(at).copied().unwrap_or(0);
            if self.made_of[at] != made_of || !layout.judged[at] {
                *learned = Learned::default();
            }
            self.made_of[at] = made_of;
        }
    }

    /// Learns from the rows whose turn it is.
    pub(crate) fn learn(&mut self, scene: &Scene<'_>) {
        let layout = scene.layout;
        let mut row = Vec::new();
        for _ in 0..layout.len.min(ROWS_AT_ONCE) {
            let a = self.next % layout.len;
            self.next = a + 1;
            let source = EndpointIndex(u32::try_from(a).unwrap_or(u32::MAX));
            for (b, at_ms, cell) in known(scene.matrix.ping.from(source)) {
                let pings = ping::figures_of(cell);
                let pair = b < layout.len && layout.is_pair(a, b);
                let (Some(ns), Some(age_ms), true) = (pings.network_p50_ns(), scene.age((a, b), at_ms), pair)
                else {
                    continue;
                };
                let tier = (layout.tier(a, b), pings.by_hardware());
                let usual = scene.yardstick.usual_ping(tier, scene.windows.of(age_ms));
                row.extend(usual.map(|usual| log(ns.into()) - usual));
            }
            if let (true, Some(part)) = (row.len() >= PEERS_MIN, quantile(&mut row, 50)) {
                self.learned[a].note(part, scene.now);
            }
            row.clear();
        }
    }

    /// Those who take longer than they did while the others below their leaf do not.
    pub(crate) fn longer(&self, layout: &Layout) -> Vec<Longer> {
        let is_longer = |at: u32| self.learned.get(at as usize).is_some_and(|learned| learned.longer);
        let mut found = Vec::new();
        let mut nodes = BTreeSet::new();
        for EndpointIndex(at) in layout.endpoints().filter(|at| is_longer(at.0)) {
            let node = layout.node[at as usize];
            let of_node = layout.of_node.get(&node).map_or(&[][..], Vec::as_slice);
            let all = of_node.len() > 1 && of_node.iter().all(|&other| is_longer(other));
            let Some(shift) =
                self.learned[at as usize].shift().filter(|&shift| !self.is_shared(layout, at, shift))
            else {
                continue;
            };
            let component =
                if all { Component::Node(PlaceIndex(node)) } else { Component::Endpoint(EndpointIndex(at)) };
            if !all || nodes.insert(node) {
                found.push(Longer { component, by: (f64::from(shift) / f64::from(PARTS)).exp2() - 1.0 });
            }
        }
        found
    }

    /// Most others below the leaf take longer, too, by half as much at least.
    fn is_shared(&self, layout: &Layout, at: u32, shift: i32) -> bool {
        let node = layout.node[at as usize];
        let below = layout.of_leaf.get(&layout.leaf[at as usize]).into_iter().flatten();
        let others = below.filter(|&&other| layout.node[other as usize] != node);
        let mut shifts: Vec<i32> = others.filter_map(|&other| self.learned[other as usize].shift()).collect();
        quantile(&mut shifts, 50).is_some_and(|others| 2 * others >= shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::world::{Fault, World};

    const HOUR_MS: u64 = 3_600_000;

    /// Hours in which a part is what `part` says of each slot.
    fn hours(learned: &mut Learned, from: u64, hours: u64, part: impl Fn(u64) -> i32) {
        for slot in 4 * from..4 * (from + hours) {
            for second in [0, 300, 600] {
                learned.note(part(slot), Wall(HOUR_MS * 24_000 + slot * SLOT_MS + second * 1_000));
            }
        }
    }

    #[test]
    fn what_creeps_up_for_days_is_told_when_an_hour_of_it_is_out_of_the_ordinary() {
        let eight_per_cent = parts_of(LONGER_BY);
        let mut learned = Learned::default();
        hours(&mut learned, 0, 24, |_| 10);
        // One part in an hour: 0.27 %, so that eight per cent are passed after 29 hours.
        let creeps = |slot: u64| 10 + i32::try_from(slot / 4).unwrap() - 24;
        hours(&mut learned, 24, 28, creeps);
        assert!(!learned.longer);
        hours(&mut learned, 52, 4, creeps);
        assert!(learned.longer);
        assert!(learned.shift().unwrap() > eight_per_cent);
        // And it is over when it is what it was.
        hours(&mut learned, 56, 1, |_| 10);
        assert!(!learned.longer);
    }

    #[test]
    fn what_always_moves_is_out_of_the_ordinary_only_when_it_moves_by_far_more() {
        let mut learned = Learned::default();
        let moves = |slot: u64| if slot.is_multiple_of(2) { -40 } else { 40 };
        hours(&mut learned, 0, 24, moves);
        hours(&mut learned, 24, 4, |_| 80);
        assert!(!learned.longer, "from 40 to -40 is 80, and three times that is 240");
        hours(&mut learned, 28, 4, |_| 400);
        assert!(learned.longer);
    }

    #[test]
    fn an_hour_is_not_told_and_neither_is_anything_in_the_first_three() {
        let mut learned = Learned::default();
        hours(&mut learned, 0, 3, |slot| if slot < 4 { 0 } else { 100 });
        assert!(!learned.longer, "nothing is usual yet");
        let mut learned = Learned::default();
        hours(&mut learned, 0, 24, |_| 0);
        hours(&mut learned, 24, 1, |slot| if slot < 98 { 100 } else { 0 });
        assert!(!learned.longer, "half an hour");
    }

    /// A cluster for a day, and five hours more in which one endpoint's round trips take a tenth longer: fewer than what is slow among others.
    fn five_hours_of_a_tenth(fault: Component, made_of: u64) -> World {
        let mut world = World::new(1, 12, 1, 4);
        world.made_of = vec![1; 12];
        let begin = world.now_ms;
        let slow = Fault { from_ms: begin + 24 * HOUR_MS, ..Fault::slow(fault, 1.1) };
        world.faults = vec![slow];
        for minute in (5..29 * 60).step_by(5) {
            world.now_ms = begin + minute * 60_000;
            if minute == 24 * 60 {
                world.made_of[5] = made_of;
            }
            for (a, b) in (0..12).flat_map(|a| (0..12).filter(move |&b| a != b).map(move |b| (a, b))) {
                world.ping(a, b, 60);
            }
            world.look();
        }
        world
    }

    #[test]
    fn an_endpoint_that_takes_longer_than_it_did_is_told_and_one_with_other_firmware_is_not() {
        let endpoint = Component::Endpoint(EndpointIndex(5));
        let world = five_hours_of_a_tenth(endpoint, 1);
        let [(_, incident)] = &world.opened[..] else { panic!("{:?}", world.opened) };
        assert!(incident.title.starts_with("n5/mlx5_0/1 is slow: round trips take "), "{}", incident.title);
        assert!(
            incident.evidence.contains(&"confidence: medium, it was compared with itself alone".to_owned())
        );
        assert_eq!(world.open(), [vec![endpoint]]);
        assert!(five_hours_of_a_tenth(endpoint, 2).opened.is_empty(), "another part has no past");
        let leaf = five_hours_of_a_tenth(Component::Leaf(PlaceIndex(1)), 1);
        assert!(leaf.opened.is_empty(), "what all below a leaf share is none of one endpoint's");
    }
}
