//! Who is doubted since when, what was asked to be measured again, and whether that confirmed it.

use super::observe::Scene;
use super::retest::Retest;
use super::support::{Both, Through, through};
use super::symptom::{Blame, Candidate, SHARE_MAX, Symptom, Usual, is_of_figures};
use crate::hypotheses::rank;
use crate::{Component, Suspect};
use rdmascope_model::Wall;
use std::time::Duration;

/// What was measured since the doubt began must speak for the fault by so many nats (1 : 1,000): the fault was named before, so nothing
/// is to be paid for having chosen it among many.
const CONFIRMS: f64 = 7.0;
/// A pair's figures confirm it only when they were measured again three times: what a job sends slows some pair of tens of thousands twice
/// in a row every few minutes (six false pairs in 500 simulated runs of 256 endpoints, after two).
const PAIR_CONFIRMS: f64 = 20.0;
/// Rounds in which two explanations are tried to be told apart.
const ROUNDS_MAX: u32 = 3;
const GIVEN_UP_AFTER: Duration = Duration::from_secs(45);
/// A round that nobody could run is over after this.
const ROUND_WITHIN: Duration = Duration::from_secs(12);
/// What is open is measured again this often, so that its end is seen.
const AGAIN_EVERY: Duration = Duration::from_secs(30);
/// A doubt that was not seen in so many looks is over.
const MISSED_MAX: u32 = 3;
/// Beginnings of faults that windows of age are made for.
const BEGUN_MAX: usize = 4;
/// What a doubt had measured again is looked at together for so long.
const TOGETHER_MAX: Duration = Duration::from_secs(30);
/// Times in which something suffered are several when so much lies between them: a host that stood still once shows in all batches that
/// were under way, which take 6 s at most.
const EPISODES_APART: Duration = Duration::from_secs(8);
const EPISODES_MIN: u32 = 3;
/// Two are enough where so many pairs suffered at once in each: a port that is away for two seconds is missed by three of its peers.
const PAIRS_BACK: usize = 2;
/// What comes and goes is expected back for so long.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);
/// Share of the figures of a slow part that are slow when they are measured alone, and how many are needed to say so.
const STEADY: f64 = 0.8;
const ALONE_MIN: u32 = 6;
/// So many, measured at times without a rhythm, are enough in one round when all of them are slow.
const ALONE_ALL: u32 = 8;

/// One doubt.
#[derive(Clone, Debug)]
pub(crate) struct Doubt {
    pub(crate) components: Vec<Component>,
    pub(crate) symptom: Symptom,
    pub(crate) since: Wall,
    /// When it began, as far as the cells tell.
    begun: Wall,
    pub(crate) rounds: u32,
    asked: Vec<Retest>,
    asked_at: Wall,
    pub(crate) confirmed: bool,
    missed: u32,
    /// How it comes and goes: beginnings of times in which it suffered, and when it suffered last.
    pub(crate) episodes: u32,
    pub(crate) last_bad: Wall,
    /// Most pairs that suffered at once in the last two of these times.
    pairs: [usize; 2],
    /// Who was told last, for the time in which it is not to be seen.
    pub(crate) kept: Option<(Blame, Suspect)>,
    /// Nats of a pair's cells that have been overwritten since.
    heard: f64,
    heard_at: Wall,
}

/// What is known by now.
#[derive(Clone, Debug)]
pub(crate) struct Again {
    /// What was measured, and what of it since the doubt began.
    pub(crate) through: Both,
    /// It is time to ask again.
    pub(crate) ask: bool,
}

impl Doubt {
    fn new(components: Vec<Component>, symptom: Symptom, now: Wall) -> Self {
        Self {
            components,
            symptom,
            since: now,
            begun: now,
            rounds: 0,
            asked: Vec::new(),
            asked_at: Wall(0),
            confirmed: false,
            missed: 0,
            episodes: 0,
            last_bad: Wall(0),
            pairs: [0; 2],
            kept: None,
            heard: 0.0,
            heard_at: now,
        }
    }

    pub(crate) fn ask(&mut self, retests: Vec<Retest>, now: Wall) {
        self.asked = retests;
        self.asked_at = now;
        self.rounds += 1;
    }

    /// Looks at what has been measured since; `apart` says that no other explanation is as good any more, `alone` that nothing else is
    /// wrong where it is.
    pub(crate) fn look(
        &mut self,
        scene: &Scene<'_>,
        best: &Candidate,
        usual: &Usual,
        apart: bool,
        alone: impl FnOnce(&Through) -> bool,
    ) -> Again {
        let through = through(scene, best, usual, self.since);
        // What was measured again has taken the place of what showed it first.
        self.begun = if self.rounds == 0 { through.begun } else { self.begun.min(through.begun) };
        let measured = |retest: &&Retest| measured_since(scene, retest, self.asked_at);
        let done = self.asked.iter().filter(measured).count();
        let late = scene.now.since(self.asked_at) > ROUND_WITHIN;
        // Where nothing can be asked for, what is measured anyhow has to tell, for as long.
        let answered = |share: usize| !self.asked.is_empty() && done * share >= self.asked.len();
        let (round_over, enough) = (answered(1) || late, answered(2) || late);
        let pair = rank(best.blame.component) == 0;
        let nats = self.nats(scene, best, usual, &through);
        let needed = if pair && is_of_figures(self.symptom) { PAIR_CONFIRMS } else { CONFIRMS };
        let paid = best.gain > 0.0 || (pair && is_of_figures(self.symptom));
        let waited = if pair { round_over } else { enough };
        let told_apart = apart || self.is_given_up(scene.now);
        // Who takes the place of another one has to be measured again, too.
        self.confirmed &= self.kept.as_ref().is_none_or(|(kept, _)| kept.component == best.blame.component);
        let steady = self.is_steady(&through.again, rank(best.blame.component))
            && through.all.is_broad(scene, best.blame.component);
        self.count_episode(scene.now, &through.all);
        let measured = nats >= needed && waited && steady && self.rounds > 0;
        let returns = (self.comes_and_goes() || self.came_back()) && !pair;
        // Asked last: it costs another pass over the cells.
        self.confirmed =
            self.confirmed || ((measured || returns) && paid && told_apart && alone(&through.again));
        let again = scene.now.since(self.asked_at) > AGAIN_EVERY;
        let ask =
            if self.confirmed || self.rounds > 2 * ROUNDS_MAX { again && round_over } else { round_over };
        Again { through, ask }
    }

    /// Measured again so often, and for so long, that nothing more will tell it from others.
    pub(crate) fn is_given_up(&self, now: Wall) -> bool {
        self.rounds >= ROUNDS_MAX && now.since(self.since) >= GIVEN_UP_AFTER
    }

    /// What a job sends to one of its nodes waits in a queue for a part of the time, and that is no fault: a narrow part that is slow is so
    /// whenever it is measured alone.
    fn is_steady(&self, again: &Through, rank: u8) -> bool {
        self.symptom != Symptom::Slow
            || rank > 2
            || again.alone.trials == 0
            || (rank == 0 && again.alone.share() >= STEADY)
            || (again.alone.trials >= ALONE_ALL && again.alone.bad == again.alone.trials)
            || (again.alone.trials >= ALONE_MIN && self.rounds >= 2 && again.alone.share() >= STEADY)
    }

    fn count_episode(&mut self, now: Wall, all: &Through) {
        let Some(age_ms) = all.newest_bad_ms else { return };
        let at = Wall(now.0.saturating_sub(age_ms));
        if at.since(self.last_bad) >= EPISODES_APART {
            self.episodes += 1;
            self.last_bad = at;
            self.pairs = [self.pairs[1], 0];
        }
        self.pairs[1] = self.pairs[1].max(all.recent());
    }

    /// It suffered several times, whatever it is like when it is measured again.
    pub(crate) fn comes_and_goes(&self) -> bool {
        self.episodes >= EPISODES_MIN && !is_of_figures(self.symptom)
    }

    /// It suffered twice, and so many peers with it that neither was a chance.
    fn came_back(&self) -> bool {
        self.episodes >= 2
            && self.pairs.iter().all(|pairs| *pairs >= PAIRS_BACK)
            && !is_of_figures(self.symptom)
    }

    /// It may well come back.
    fn is_remembered(&self, now: Wall) -> bool {
        !is_of_figures(self.symptom) && now.since(self.last_bad) < REMEMBERED_FOR
    }

    /// Nats of what was measured since the doubt began. The figures of one pair are two cells, which each round overwrites: they are
    /// added up.
    fn nats(&mut self, scene: &Scene<'_>, best: &Candidate, usual: &Usual, all: &Both) -> f64 {
        let share = best.share.min(SHARE_MAX);
        if rank(best.blame.component) > 0 || !is_of_figures(self.symptom) {
            return self.symptom.nats(all.again.count, share, usual);
        }
        let new = through(scene, best, usual, Wall(self.heard_at.0 + 1)).again.count;
        if new.trials > 0 {
            self.heard += self.symptom.nats(new, share, usual);
            self.heard_at = scene.now;
        }
        self.heard
    }
}

fn measured_since(scene: &Scene<'_>, retest: &Retest, since: Wall) -> bool {
    let at = scene.matrix.written_at(retest.metric, retest.source, retest.target);
    at.is_some_and(|at| at >= since)
}

/// All doubts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doubts {
    list: Vec<Doubt>,
}

impl Doubts {
    /// The doubt about these components, begun now if there is none. `related` says that two components may be the same fault.
    pub(crate) fn of(
        &mut self,
        components: &[Component],
        symptom: Symptom,
        now: Wall,
        related: impl Fn(Component, Component) -> bool,
    ) -> &mut Doubt {
        let shares = |doubt: &Doubt| doubt.components.iter().any(|known| components.contains(known));
        let new = components;
        let related = |doubt: &Doubt| {
            let either = |known: &Component| new.iter().any(|new| related(*known, *new));
            // What was measured again for another pair says nothing of this one.
            let wide = components.iter().all(|component| rank(*component) > 0);
            let recent = (1..=MISSED_MAX).contains(&doubt.missed);
            wide && !doubt.confirmed && recent && doubt.components.iter().any(either)
        };
        let alike = |doubt: &&Doubt| {
            doubt.symptom == symptom || (!is_of_figures(symptom) && !is_of_figures(doubt.symptom))
        };
        let position =
            |fits: &dyn Fn(&Doubt) -> bool| self.list.iter().position(|doubt| alike(&doubt) && fits(doubt));
        let at = position(&shares).or_else(|| position(&related)).unwrap_or_else(|| {
            self.list.push(Doubt::new(components.to_vec(), symptom, now));
            self.list.len() - 1
        });
        let doubt = &mut self.list[at];
        doubt.components = components.to_vec();
        doubt.symptom = symptom;
        doubt.missed = 0;
        doubt
    }

    /// When the faults began that are known by now, as ages.
    pub(crate) fn begun(&self, now: Wall) -> Vec<u64> {
        let mut doubts: Vec<&Doubt> = self.list.iter().collect();
        // The wide ones first: they need it most.
        doubts.sort_by_key(|doubt| doubt.components.iter().map(|c| std::cmp::Reverse(rank(*c))).min());
        let mut ages: Vec<u64> = Vec::new();
        for doubt in doubts {
            let age = u64::try_from(now.since(doubt.begun).as_millis()).unwrap_or(u64::MAX);
            if ages.len() < BEGUN_MAX && !ages.iter().any(|known| known.abs_diff(age) * 10 < age) {
                ages.push(age);
            }
        }
        ages
    }

    /// The age of the oldest doubt that is being measured again.
    pub(crate) fn oldest_open(&self, now: Wall) -> u64 {
        let open = self.list.iter().filter(|doubt| !doubt.confirmed && doubt.missed < MISSED_MAX);
        let age = |doubt: &Doubt| now.since(doubt.begun).min(TOGETHER_MAX);
        let oldest = open.map(age).max().unwrap_or_default();
        u64::try_from(oldest.as_millis()).unwrap_or(0)
    }

    /// A look begins: whoever is not seen in it was missed.
    pub(crate) fn begin(&mut self, now: Wall) {
        self.list.retain(|doubt| doubt.missed < MISSED_MAX || doubt.is_remembered(now));
        self.list.iter_mut().for_each(|doubt| doubt.missed += 1);
    }

    /// Faults that were measured again and are so.
    pub(crate) fn known(&self) -> Vec<Blame> {
        let known = self.list.iter().filter(|doubt| doubt.confirmed).filter_map(|doubt| doubt.kept.as_ref());
        known.map(|(blame, _)| *blame).collect()
    }

    /// Those that were measured again in vain: what they seemed to explain is something else's.
    pub(crate) fn refuted(&self) -> Vec<Component> {
        let refuted = self
            .list
            .iter()
            .filter(|doubt| !doubt.confirmed && doubt.rounds >= ROUNDS_MAX && doubt.episodes < 2);
        refuted.flat_map(|doubt| doubt.components.iter().copied()).collect()
    }

    /// Those who come and go, and are not to be seen in this look.
    pub(crate) fn not_seen(&self, now: Wall) -> impl Iterator<Item = &Suspect> {
        let away = self.list.iter().filter(move |doubt| {
            doubt.confirmed && doubt.missed > 0 && doubt.comes_and_goes() && doubt.is_remembered(now)
        });
        away.filter_map(|doubt| doubt.kept.as_ref()).map(|(_, suspect)| suspect)
    }
}
