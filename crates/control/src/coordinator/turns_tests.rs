//! Whoever is slow, hangs or fails: every pair has its turn once, nobody waits for a round, and who fails with everybody is not waited for.

use super::super::seats::CrossRail;
use super::*;
use rdmascope_localise::PlaceIndex;
use rdmascope_model::Fabric;
use std::collections::BTreeSet;

const ALL: Wanted = Wanted { cross_rail: CrossRail::All, unless_pinged: false, quick: None };

fn seats(nodes: u32, leaf_size: u32) -> Vec<Seat> {
    let seat = |node: u32| Seat {
        index: EndpointIndex(100 + node),
        node: PlaceIndex(node),
        leaf: Some(PlaceIndex(node / leaf_size)),
        rail: None,
        fabric: Fabric::Roce,
        pinged: false,
    };
    (0..nodes).map(seat).collect()
}

fn scheme(wanted: Wanted, passes: u32) -> Scheme {
    Scheme { wanted, passes, seed: 3 }
}

/// Probes on a clock of whole ticks.
struct Play {
    turns: Turns,
    running: Vec<(u64, Turn)>,
    now: u64,
    /// Turns in the order in which they began.
    begun: Vec<(u64, Turn)>,
    failed: Vec<Turn>,
    /// How long a turn takes, and whether it succeeds.
    run: fn(Turn) -> (u64, bool),
}

impl Play {
    fn new(turns: Turns, run: fn(Turn) -> (u64, bool)) -> Self {
        Self { turns, running: Vec::new(), now: 0, begun: Vec::new(), failed: Vec::new(), run }
    }

    fn busy(&self, own: u32) -> bool {
        self.running.iter().any(|(_, turn)| turn.source == own || turn.target == own)
    }

    fn begin(&mut self) {
        for own in self.turns.in_order(None) {
            if self.busy(own) {
                continue;
            }
            let found = self.turns.look(own);
            let free = found.iter().find(|turn| !self.busy(turn.source) && !self.busy(turn.target));
            if let Some(&turn) = free {
                self.turns.take(turn);
                self.running.push((self.now + (self.run)(turn).0, turn));
                self.begun.push((self.now, turn));
            }
        }
    }

    /// Until nothing is left.
    fn play(&mut self) {
        loop {
            self.begin();
            let Some(next) = self.running.iter().map(|(end, _)| *end).min() else {
                if self.turns.open() == 0 || (!self.turns.goes_on() && !self.turns.bring_back()) {
                    return;
                }
                continue;
            };
            self.now = next;
            let (over, go_on) =
                std::mem::take(&mut self.running).into_iter().partition(|(end, _)| *end <= next);
            self.running = go_on;
            let over: Vec<(u64, Turn)> = over;
            for (_, turn) in over {
                let good = (self.run)(turn).1;
                self.failed.extend(Some(turn).filter(|_| !good));
                let index = |own: u32| self.turns.seats()[own as usize].index;
                self.turns.ended([index(turn.source), index(turn.target)], good);
            }
        }
    }
}

fn involves(turn: &Turn, own: u32) -> bool {
    turn.source == own || turn.target == own
}

#[test]
fn every_turn_comes_once_in_each_direction_and_each_pass_however_long_others_take() {
    let run = |turn: Turn| (1 + u64::from(turn.source * 7 + turn.target * 5) % 13, true);
    for (nodes, leaf, ways, passes) in [(9, 3, 2, 1), (12, 5, 1, 3), (2, 2, 2, 2), (7, 7, 1, 1)] {
        let mut play = Play::new(Turns::new(&seats(nodes, leaf), &scheme(ALL, passes), ways), run);
        let total = u64::from(nodes * (nodes - 1) / 2 * ways * passes);
        assert_eq!(play.turns.open(), total);
        play.play();
        let distinct: BTreeSet<_> = play.begun.iter().map(|(_, t)| (t.lap, t.source, t.target)).collect();
        assert_eq!((play.begun.len() as u64, distinct.len() as u64, play.turns.open()), (total, total, 0));
        let pairs: BTreeSet<_> = play.begun.iter().map(|(_, t)| (t.source, t.target)).collect();
        assert_eq!(pairs.len() as u32, nodes * (nodes - 1) / 2 * ways);
    }
}

#[test]
fn equal_probes_need_no_more_time_than_there_are_rounds() {
    for (nodes, leaf) in [(16, 4), (15, 15), (32, 8)] {
        let mut play = Play::new(Turns::new(&seats(nodes, leaf), &scheme(ALL, 1), 1), |_| (1, true));
        let rounds = play.turns.rounds();
        play.play();
        assert_eq!(play.now, rounds, "{nodes} endpoints");
    }
}

#[test]
fn one_slow_pair_holds_up_its_own_two_ends_and_nobody_else() {
    let slow = |turn: Turn| if involves(&turn, 0) && involves(&turn, 1) { (40, true) } else { (1, true) };
    let mut play = Play::new(Turns::new(&seats(16, 4), &scheme(ALL, 1), 1), slow);
    play.play();
    let others = play.begun.iter().filter(|(_, turn)| !involves(turn, 0) && !involves(turn, 1));
    let last = others.map(|(at, _)| *at).max().unwrap();
    assert!(last < 20, "91 pairs of 14 endpoints are 13 rounds; the last began at {last}");
    assert!(play.now <= 40 + 15, "and those two have the rest of theirs behind it: {}", play.now);
}

#[test]
fn who_fails_with_everybody_is_set_aside_tried_again_at_the_end_and_given_up() {
    let dead = |turn: Turn| if involves(&turn, 5) { (2, false) } else { (1, true) };
    let mut play = Play::new(Turns::new(&seats(24, 6), &scheme(ALL, 1), 1), dead);
    play.play();
    assert_eq!(play.failed.len(), 6, "three times, and three times at the end");
    assert_eq!(Vec::from_iter(play.turns.given_up()), [EndpointIndex(105)]);
    assert_eq!(play.turns.open(), 23 - 6, "the rest of its pairs");
    assert_eq!(play.begun.len(), 23 * 22 / 2 + 6, "all others have met");
    let (first, again) = play
        .begun
        .iter()
        .filter(|(_, turn)| involves(turn, 5))
        .map(|(at, _)| *at)
        .enumerate()
        .partition::<Vec<_>, _>(|(i, _)| *i < 3);
    let others = play.begun.iter().filter(|(_, turn)| !involves(turn, 5)).map(|(at, _)| *at).max().unwrap();
    assert!(first.iter().all(|(_, at)| *at < others) && again.iter().all(|(_, at)| *at >= others));
}

#[test]
fn who_fails_for_a_while_gets_the_rest_of_its_turns() {
    // Fails with the first three that it can meet in its first round of leaves.
    let flaky = |turn: Turn| {
        if involves(&turn, 0) && (involves(&turn, 1) || involves(&turn, 2) || involves(&turn, 3)) {
            (2, false)
        } else {
            (1, true)
        }
    };
    let mut play = Play::new(Turns::new(&seats(16, 4), &scheme(ALL, 1), 1), flaky);
    play.play();
    assert_eq!((play.turns.open(), play.begun.len()), (0, 120));
    assert_eq!(play.turns.given_up().count(), 0);
}

#[test]
fn a_leaf_whose_uplinks_are_dead_does_not_take_the_others_along() {
    // Endpoints 0 to 3 reach each other only.
    let cut = |turn: Turn| if (turn.source < 4) == (turn.target < 4) { (1, true) } else { (10, false) };
    let mut play = Play::new(Turns::new(&seats(20, 4), &scheme(ALL, 1), 1), cut);
    play.play();
    let out: BTreeSet<_> = play.turns.given_up().collect();
    assert!(out.iter().all(|index| index.0 < 104), "only those behind the cut: {out:?}");
    let met = |turn: &Turn| (turn.source < 4) == (turn.target < 4);
    let good = play.begun.iter().filter(|(_, turn)| met(turn)).count();
    assert_eq!(good, 6 + 16 * 15 / 2, "whoever can meet has met");
}

#[test]
fn two_that_are_dead_and_a_cluster_of_the_dead_come_to_an_end() {
    let dead = |turn: Turn| if involves(&turn, 2) || involves(&turn, 9) { (5, false) } else { (1, true) };
    let mut play = Play::new(Turns::new(&seats(12, 4), &scheme(ALL, 2), 2), dead);
    play.play();
    assert_eq!(play.turns.given_up().count(), 2);
    let mut play = Play::new(Turns::new(&seats(12, 4), &scheme(ALL, 1), 2), |_| (5, false));
    play.play();
    assert_eq!(play.turns.given_up().count(), 12);
    assert!(play.begun.len() <= 12 * 6, "{} leases are spent on it", play.begun.len());
}

#[test]
fn who_meets_several_that_are_tried_again_is_not_set_aside_for_it() {
    let mut turns = Turns::new(&seats(8, 8), &scheme(ALL, 1), 1);
    let [healthy, other, dead @ .., _] = [100, 101, 102, 103, 104, 105].map(EndpointIndex);
    for endpoint in dead {
        for _ in 0..3 {
            turns.ended([endpoint, other], false);
            turns.ended([healthy, other], true);
        }
    }
    assert!(turns.bring_back(), "three were set aside");
    for endpoint in dead {
        assert!(!turns.ended([endpoint, healthy], false), "one failure on trial decides nothing");
    }
    assert!(!turns.look(0).is_empty(), "the healthy one goes on");
}

#[test]
fn a_quick_sweep_counts_its_rounds_once() {
    let quick = Wanted { quick: Some(3), ..ALL };
    let mut play = Play::new(Turns::new(&seats(10, 5), &scheme(quick, 7), 2), |_| (1, true));
    assert_eq!((play.turns.open(), play.turns.rounds()), (30, 6));
    play.play();
    assert_eq!((play.begun.len(), play.turns.open()), (30, 0));
}
