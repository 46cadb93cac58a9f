//! How far the endpoints of a sweep are: whose turn it is with whom, what is done, and who fails too often to be waited for.
//!
//! There is no barrier. An endpoint that is free takes the first round that is still open for it whose partner is free, too, from the
//! next few; the other one has left that round out. What is done is one bit for each pair (2 MB for 4,096 endpoints).
//!
//! An endpoint that fails several times in a row would cost each of its partners a lease: it is set aside, its turns become byes. When
//! all others are through, it is tried again, with those that are fit. If one probe succeeds, it takes part again; if all fail, the
//! rest of its pairs is not run.

use super::rounds::{Round, Rounds};
use super::seats::{Seat, Wanted};
use rdmascope_localise::EndpointIndex;
use std::collections::{BTreeMap, BTreeSet};

/// Partners that a free endpoint looks at: more would only let those run ahead that have no slow partner.
const LOOK_AHEAD: usize = 16;
/// Rounds that it looks through for them; those that are done between two that are not cost time, too.
const LOOK_THROUGH: usize = 128;
/// Failures in a row after which an endpoint is set aside: two may be a partner's fault each.
const FAILURES_MAX: u8 = 3;

/// What a pair does in one lap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// Places in the list of seats: the first one is the source, but on the way back.
    pub(super) source: u32,
    pub(super) target: u32,
    lap: u32,
}

/// How far an endpoint is in all: the first lap and round that are not known to be done.
type Mark = (u32, Round);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    #[default]
    Fit,
    /// Set aside.
    Aside,
    /// Tried again.
    OnTrial,
    /// Given up.
    Out,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    /// `None`: through.
    from: Option<Mark>,
    standing: Standing,
    /// In a row.
    failures: u8,
    /// It was set aside before.
    tried: bool,
}

const AT_THE_START: Option<Mark> = Some((0, Round::START));

/// The turns of all endpoints in the probes of one metric.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    seats: Vec<Seat>,
    place: BTreeMap<EndpointIndex, u32>,
    /// One for each relabelling.
    rounds: Vec<Rounds>,
    /// Laps for each relabelling: there, or there and back.
    ways: u32,
    /// One bit for each relabelling and ordered pair.
    done: Vec<u64>,
    progress: Vec<Progress>,
    open: u64,
}

/// What the turns of some endpoints are going to be.
#[derive(Clone, Debug)]
pub(super) struct Scheme {
    pub(super) wanted: Wanted,
    /// How often every pair is measured, each time in other company.
    pub(super) passes: u32,
    pub(super) seed: u64,
}

impl Turns {
    /// Nothing is done yet. `ways`: 2 where the two directions of a pair are two probes.
    pub(super) fn new(seats: &[Seat], scheme: &Scheme, ways: u32) -> Self {
        // The chance of a quick sweep needs no second pass.
        let passes = if scheme.wanted.quick.is_some() { 1 } else { u64::from(scheme.passes.max(1)) };
        let seed = |pass: u64| scheme.seed.wrapping_add(pass << 32);
        let rounds: Vec<_> = (0..passes).map(|pass| Rounds::new(seats, scheme.wanted, seed(pass))).collect();
        let n = seats.len();
        let bits = rounds.len() * n * n;
        let mut turns = Self {
            seats: seats.to_vec(),
            place: seats.iter().map(|seat| seat.index).zip(0..).collect(),
            rounds,
            ways,
            done: vec![0; bits.div_ceil(64)],
            progress: vec![
                Progress { from: AT_THE_START, standing: Standing::Fit, failures: 0, tried: false };
                n
            ],
            open: 0,
        };
        let mut pairs = 0;
        turns.for_each_pair(|_, _| pairs += 1);
        turns.open = pairs * u64::from(ways) * passes;
        turns
    }

    /// Every pair of endpoints, once in one direction; of a quick sweep the pairs of all its rounds.
    pub(super) fn for_each_pair(&self, mut of: impl FnMut(u32, u32)) {
        let Some(rounds) = self.rounds.first() else { return };
        let wanted = rounds.wanted();
        let all = u32::try_from(self.seats.len()).unwrap_or(u32::MAX);
        for a in 0..all {
            if wanted.quick.is_none() {
                let meets = |b: &u32| wanted.wants(&self.seats[a as usize], &self.seats[*b as usize]);
                (a + 1..all).filter(meets).for_each(|b| of(a, b));
                continue;
            }
            let mut from = Round::START;
            while let Some((round, b)) = rounds.next(a, from) {
                if a < b {
                    of(a, b);
                }
                from = round.next();
            }
        }
    }

    /// Rounds in all.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds.iter().map(Rounds::count).sum::<u64>() * u64::from(self.ways)
    }

    /// Probes that have not been handed out.
    pub(super) fn open(&self) -> u64 {
        self.open
    }

    /// The endpoints.
    pub(super) fn seats(&self) -> &[Seat] {
        &self.seats
    }

    pub(super) fn place(&self, index: EndpointIndex) -> Option<u32> {
        self.place.get(&index).copied()
    }

    /// Those of `who` that have something to do, who is behind first; everybody for `None`.
    pub(super) fn in_order(&mut self, who: Option<&BTreeSet<EndpointIndex>>) -> Vec<u32> {
        let all = 0..u32::try_from(self.seats.len()).unwrap_or(u32::MAX);
        let mut found: Vec<u32> = match who {
            Some(who) => who.iter().filter_map(|index| self.place(*index)).collect(),
            None => all.collect(),
        };
        found.retain(|own| self.may_begin(*own) && self.advance(*own).is_some());
        found.sort_by_key(|own| (self.progress[*own as usize].from, *own));
        found
    }

    /// Moves an endpoint's mark to its first open turn. Answers that turn.
    fn advance(&mut self, own: u32) -> Option<Turn> {
        let mut from = self.progress[own as usize].from?;
        let open = loop {
            let Some(((lap, round), partner)) = self.next(own, from) else { break None };
            let turn = self.turn(lap, own, partner);
            if self.may_meet(own, partner) && !self.is_done(turn) {
                break Some(((lap, round), turn));
            }
            from = (lap, round.next());
        };
        self.progress[own as usize].from = open.map(|(mark, _)| mark);
        open.map(|(_, turn)| turn)
    }

    fn may_begin(&self, own: u32) -> bool {
        matches!(self.progress[own as usize].standing, Standing::Fit | Standing::OnTrial)
    }

    /// Two endpoints may be probed together now: whoever is on trial meets only who is fit.
    fn may_meet(&self, a: u32, b: u32) -> bool {
        let [a, b] = [a, b].map(|own| self.progress[own as usize].standing);
        matches!(
            (a, b),
            (Standing::Fit, Standing::Fit | Standing::OnTrial) | (Standing::OnTrial, Standing::Fit)
        )
    }

    fn next(&self, own: u32, (mut lap, mut from): Mark) -> Option<(Mark, u32)> {
        while let Some(rounds) = self.rounds.get((lap / self.ways) as usize) {
            if let Some((round, partner)) = rounds.next(own, from) {
                return Some(((lap, round), partner));
            }
            (lap, from) = (lap + 1, Round::START);
        }
        None
    }

    fn turn(&self, lap: u32, a: u32, b: u32) -> Turn {
        let (source, target) = if (a < b) == lap.is_multiple_of(self.ways) { (a, b) } else { (b, a) };
        Turn { source, target, lap }
    }

    fn bit(&self, turn: Turn) -> (usize, u64) {
        let n = self.seats.len();
        let pass = (turn.lap / self.ways) as usize;
        let at = (pass * n + turn.source as usize) * n + turn.target as usize;
        (at / 64, 1 << (at % 64))
    }

    fn is_done(&self, turn: Turn) -> bool {
        let (word, bit) = self.bit(turn);
        self.done.get(word).is_some_and(|word| word & bit != 0)
    }

    /// The next turns of an endpoint that are open, the first one first.
    pub(super) fn look(&mut self, own: u32) -> Vec<Turn> {
        let Some(first) = self.advance(own) else { return Vec::new() };
        let mut found = vec![first];
        let mut from = self.progress[own as usize].from.map(|(lap, round)| (lap, round.next()));
        for _ in 0..LOOK_THROUGH {
            let Some(((lap, round), partner)) = from.and_then(|from| self.next(own, from)) else { break };
            let turn = self.turn(lap, own, partner);
            if self.may_meet(own, partner) && !self.is_done(turn) {
                found.push(turn);
                if found.len() >= LOOK_AHEAD {
                    break;
                }
            }
            from = Some((lap, round.next()));
        }
        found
    }

    /// A turn is taken: it is run, or need not be.
    pub(super) fn take(&mut self, turn: Turn) {
        let (word, bit) = self.bit(turn);
        let Some(word) = self.done.get_mut(word).filter(|word| **word & bit == 0) else { return };
        *word |= bit;
        self.open -= 1;
    }

    /// A probe has ended, and says something of its ends. True when that changes who may be probed.
    pub(super) fn ended(&mut self, ends: [EndpointIndex; 2], succeeded: bool) -> bool {
        let [Some(a), Some(b)] = ends.map(|end| self.place(end)) else { return false };
        let trial = [a, b].map(|own| self.progress[own as usize].standing == Standing::OnTrial);
        let mut changed = false;
        for (own, other_on_trial) in [(a, trial[1]), (b, trial[0])] {
            let it = &mut self.progress[own as usize];
            if succeeded {
                it.failures = 0;
                if it.standing == Standing::OnTrial {
                    (it.standing, it.from) = (Standing::Fit, AT_THE_START);
                    changed = true;
                }
                continue;
            }
            // Nobody is blamed for whoever is on trial.
            if other_on_trial {
                continue;
            }
            it.failures = it.failures.saturating_add(1);
            if it.failures >= FAILURES_MAX && matches!(it.standing, Standing::Fit | Standing::OnTrial) {
                it.standing = if it.tried { Standing::Out } else { Standing::Aside };
                changed = true;
            }
        }
        changed
    }

    /// Nobody has anything left to begin; ask with [`Self::look`] of everybody first, and only when nothing runs. Brings those back
    /// that were set aside; false when there are none, and it is all over.
    pub(super) fn bring_back(&mut self) -> bool {
        let mut any = false;
        let aside = self.progress.iter().any(|it| it.standing == Standing::Aside);
        for it in &mut self.progress {
            match it.standing {
                Standing::Aside => {
                    let standing = Standing::OnTrial;
                    *it = Progress { from: AT_THE_START, standing, failures: 0, tried: true };
                    any = true;
                }
                // Nobody who is fit was left for it: it goes on with those that are like it.
                Standing::OnTrial if !aside => {
                    (it.standing, it.from) = (Standing::Fit, AT_THE_START);
                    any = true;
                }
                Standing::OnTrial | Standing::Fit | Standing::Out => {}
            }
        }
        any
    }

    /// Somebody may still have something to begin.
    pub(super) fn goes_on(&self) -> bool {
        (0..).zip(&self.progress).any(|(own, it)| it.from.is_some() && self.may_begin(own))
    }

    /// Those that were given up.
    pub(super) fn given_up(&self) -> impl Iterator<Item = EndpointIndex> {
        let out = self.progress.iter().zip(&self.seats).filter(|(it, _)| it.standing == Standing::Out);
        out.map(|(_, seat)| seat.index)
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
