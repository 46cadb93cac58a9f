//! The history of pairs over time: whose is kept, what is noted while nothing is measured, and what an operator pins.
//!
//! Measurements come by themselves, with every cell that is written (`localise`, `trails.rs`). What is done here is done once a minute, and
//! is so little that looks do not feel it: the worst pairs are those of the last tallies, which are counted anyway.

use super::settings::TRAIL_KEPT_FOR;
use super::{Action, CommandError, Coordinator};
use rdmascope_localise::{
    Because, Brief, CellState, Component, EndpointIndex, FEW_ENDPOINTS, IncidentState, KeptError, KeptPair,
    PAIRS_MAX, Was,
};
use rdmascope_model::{EndpointName, Metric, Mono, Now, Wall};
use std::collections::BTreeSet;
use std::time::Duration;

/// Between two looks at whose history is kept: the finest that it tells apart.
const TENDED_EVERY: Duration = Duration::from_secs(60);
/// So many of the worst pairs are kept.
const WORST_MAX: usize = 1_000;
/// So many pairs may be pinned: a sixteenth of what is kept at most.
const PINS_MAX: usize = 1_000;

type Pair = (EndpointIndex, EndpointIndex);

/// What is kept beside the points themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct TrailKeeper {
    /// By names: an endpoint may be pinned that an earlier run knew, and that nobody has told of since.
    pins: BTreeSet<(EndpointName, EndpointName)>,
    tended_at: Option<Mono>,
}

impl TrailKeeper {
    /// When to look again.
    pub(super) fn next_look(&self, endpoints: usize) -> Option<Mono> {
        (endpoints > 0).then(|| self.tended_at.map_or(Mono(0), |at| at.after(TENDED_EVERY)))
    }
}

/// The history of one pair, and why it is kept.
#[derive(Clone, Copy, Debug)]
pub struct PairTrail<'a> {
    /// Why.
    pub because: Because,
    /// Until when, if nobody asks for it again; `None`: as long as that holds.
    pub until: Option<Wall>,
    /// What it was; `None`: nothing was measured of it yet.
    pub pair: Option<&'a KeptPair>,
}

impl Coordinator {
    /// The history of a pair; `None` when none is kept.
    #[must_use]
    pub fn trail(&self, source: EndpointIndex, target: EndpointIndex, now: Wall) -> Option<PairTrail<'_>> {
        let pair = self.matrix.trails().of(source, target);
        match pair.map(|pair| pair.because(now)) {
            Some((because @ Because::Pinned, until)) => Some(PairTrail { because, until, pair }),
            _ if self.matrix.len() <= FEW_ENDPOINTS => {
                Some(PairTrail { because: Because::FewEndpoints, until: None, pair })
            }
            Some((because, until)) => Some(PairTrail { because, until, pair }),
            None => None,
        }
    }

    /// Pairs that are pinned, by their names.
    pub fn pins(&self) -> impl Iterator<Item = &(EndpointName, EndpointName)> {
        self.trails.pins.iter()
    }

    /// Brings back the pins of an earlier run.
    pub fn restore_pins(&mut self, pins: impl IntoIterator<Item = (EndpointName, EndpointName)>) {
        self.trails.pins.extend(pins.into_iter().take(PINS_MAX));
        self.trails.tended_at = None;
    }

    /// Keeps the history of a pair from now on, or no longer.
    ///
    /// # Errors
    /// There are too many pins, or the pair is not pinned.
    pub fn pin(
        &mut self,
        from: EndpointIndex,
        to: EndpointIndex,
        on: bool,
        now: Now,
    ) -> Result<(), CommandError> {
        let names = (self.matrix.name(from).clone(), self.matrix.name(to).clone());
        if !on {
            if !self.trails.pins.remove(&names) {
                let text = format!(
                    "{} -> {} is not pinned; GET /api/v1/history/pins lists what is",
                    names.0, names.1
                );
                return Err(CommandError::Unknown(text));
            }
            let until = after(now.wall, TRAIL_KEPT_FOR);
            self.matrix.trails_mut().unpin(from, to, until);
        } else if self.trails.pins.len() >= PINS_MAX && !self.trails.pins.contains(&names) {
            let text =
                format!("{PINS_MAX} pairs are pinned, which is as many as can be; take one away first");
            return Err(CommandError::Conflict(text));
        } else {
            self.trails.pins.insert(names);
            let trails = self.matrix.trails_mut();
            if trails.of(from, to).is_none() && trails.len() >= PAIRS_MAX {
                trails.forget(1, now.wall);
            }
            self.matrix.keep_trail(Because::Pinned, from, to, Wall(0));
        }
        self.outbox.push_back(Action::KeepNotes);
        Ok(())
    }

    /// Appends the history of the pairs from one source to the first `endpoints`, to be kept over a restart.
    pub fn keep_trails(&self, source: EndpointIndex, endpoints: u32, out: &mut Vec<u8>) {
        self.matrix.trails().write(source, endpoints, out);
    }

    /// Takes history back that an earlier coordinator kept; answers how many pairs.
    ///
    /// # Errors
    /// The bytes are not what [`Self::keep_trails`] wrote.
    pub fn restore_trails(&mut self, kept: &[u8], numbers: &[EndpointIndex]) -> Result<usize, KeptError> {
        self.matrix.trails_mut().read(kept, numbers)
    }

    /// A pair shows an incident or a suspect, or is measured again for one.
    pub(super) fn keep_for_incident(&mut self, source: EndpointIndex, target: EndpointIndex, now: Wall) {
        let until = after(now, TRAIL_KEPT_FOR);
        for (a, b) in [(source, target), (target, source)] {
            self.matrix.keep_trail(Because::Incident, a, b, until);
        }
    }

    /// Says whose history is kept, and notes what is not measured, when it is time to.
    pub(super) fn tend_trails(&mut self, now: Now) {
        if self.trails.next_look(self.matrix.len()).is_none_or(|at| at > now.mono) {
            return;
        }
        self.trails.tended_at = Some(now.mono);
        self.note_unmeasured(now);
        let (pinned, of_incidents, worst) =
            (self.pinned_pairs(), self.incident_pairs(), self.worst_of_all(now));
        let new = |pair: &&Pair| self.matrix.trails().of(pair.0, pair.1).is_none();
        let room = pinned.iter().chain(&of_incidents).chain(&worst).filter(new).count();
        self.matrix.trails_mut().forget(room, now.wall);
        let until = after(now.wall, TRAIL_KEPT_FOR);
        for (because, pairs) in
            [(Because::Pinned, pinned), (Because::Incident, of_incidents), (Because::Worst, worst)]
        {
            for (source, target) in pairs {
                self.matrix.keep_trail(because, source, target, until);
            }
        }
    }

    /// What is stale, has failed or is excluded goes on being so although nobody measures it.
    fn note_unmeasured(&mut self, now: Now) {
        // Taken out, so that the rest can be looked at meanwhile.
        let mut trails = std::mem::take(self.matrix.trails_mut());
        let few = (self.matrix.len() <= FEW_ENDPOINTS).then(|| after(now.wall, TRAIL_KEPT_FOR));
        let shown = self.shown(now.wall);
        trails.each(|source, target, pair| {
            if let Some(until) = few {
                pair.holds_until(Because::FewEndpoints, until);
            }
            for metric in Metric::ALL {
                if !pair.has(metric) {
                    continue;
                }
                let cell = shown.brief(metric, source, target);
                let was = match (cell, cell.state(shown.light(source, target).fresh_since)) {
                    (_, CellState::Stale) => Was::Stale,
                    (Brief::Failed { cause, .. }, _) => Was::Failed(cause),
                    (Brief::Excluded { why, .. }, _) => Was::Excluded(why),
                    (Brief::Known { .. } | Brief::Never, _) => continue,
                };
                pair.note(metric, was, now.wall);
            }
        });
        *self.matrix.trails_mut() = trails;
    }

    /// Pinned pairs of which both ends are known.
    fn pinned_pairs(&self) -> Vec<Pair> {
        let known = |(source, target): &(EndpointName, EndpointName)| {
            self.matrix.find(source).zip(self.matrix.find(target))
        };
        self.trails.pins.iter().filter_map(known).collect()
    }

    /// Pairs that show what is suspected or blamed now, both directions. Those that are measured again for it are kept when they are asked
    /// for.
    fn incident_pairs(&self) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for incident in self.incidents().iter().filter(|incident| incident.state != IncidentState::Closed) {
            let suspect = &incident.suspect;
            let blamed = suspect.components.iter().filter_map(|component| match component {
                Component::Pair(source, target) => Some((*source, *target)),
                _ => None,
            });
            pairs.extend(suspect.support.worst.into_iter().chain(blamed));
        }
        // An incident of an earlier run may name an endpoint that nobody has told of since.
        let count = self.matrix.len();
        pairs.retain(|(a, b)| (a.0 as usize) < count && (b.0 as usize) < count);
        pairs.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect()
    }

    /// The worst pairs of all metrics as they were counted last: those that failed and those that are slow, of each metric in turn, so that a
    /// dead node does not take the place of all the others.
    fn worst_of_all(&self, now: Now) -> Vec<Pair> {
        if self.matrix.len() <= FEW_ENDPOINTS {
            return Vec::new();
        }
        let mut lists: Vec<_> = Vec::new();
        for metric in Metric::ALL {
            let counted = self.counted(metric, now);
            lists.push(counted.tally.failed.clone().into_iter());
            lists.push(counted.tally.worst_of_all().into_iter());
        }
        let mut worst = BTreeSet::new();
        while worst.len() < WORST_MAX && lists.iter().any(|list| list.len() > 0) {
            let next = lists.iter_mut().filter_map(Iterator::next);
            let next: Vec<_> = next.take(WORST_MAX - worst.len()).collect();
            worst.extend(next);
        }
        worst.into_iter().collect()
    }
}

fn after(at: Wall, by: Duration) -> Wall {
    Wall(at.0.saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)))
}
