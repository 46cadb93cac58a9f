//! Whether a pair is all of what is wrong at its ends: what comes and goes at an end, or becomes slower and slower, shows in one of its
//! pairs first.

use super::{ALIKE, Search, covered};
use crate::Component;
use crate::judge::count::{Channel, Count, Tally};
use crate::judge::symptom::{Blame, Symptom};

/// So many packets lost in other pairs of both ends, not longer ago, milliseconds, are no chance: usual is one in ten thousand.
const BESIDE_MIN: u32 = 3;
const BESIDE_MS: u64 = 90_000;
/// Slow figures that are older say little of an end that becomes slower and slower.
const SLOW_BESIDE_MS: u64 = 45_000;

impl Search<'_> {
    /// Nothing else is wrong at either end of a pair that is not explained by now: else an end that comes and goes shows in whichever of its
    /// pairs is looked at in such a moment.
    pub(crate) fn is_alone(&self, blame: &Blame, bad: &[(u32, u32)]) -> bool {
        let Component::Pair(a, b) = blame.component else { return true };
        let layout = self.scene.layout;
        let others = bad.iter().map(|&(x, y)| (x as usize, y as usize)).filter(|&(x, y)| {
            let at_it = [x, y].iter().any(|&end| end == a.0 as usize || end == b.0 as usize);
            // What explains the others must itself be sure.
            at_it
                && (x.min(y), x.max(y)) != (a.0 as usize, b.0 as usize)
                && !covered(layout, &self.known, x, y).either
        });
        let mut beside = Tally::default();
        for (x, y) in others {
            self.scene.between(x, y, |seen| {
                let all = seen.forward.and(&seen.backward).and(&seen.either);
                beside.add(&if seen.age_ms > BESIDE_MS { Tally::default() } else { all });
            });
        }
        if blame.symptom != Symptom::Slow {
            return Symptom::Loss.count(&beside).bad < BESIDE_MIN;
        }
        [a, b].iter().all(|end| self.is_usual_beside((a.0, b.0), end.0))
    }

    /// What an end of a slow pair takes to others was of late as it always is, by chance and for the jobs that run there; and what of that
    /// was measured again, which is more exact, is not slow.
    fn is_usual_beside(&self, (a, b): (u32, u32), end: u32) -> bool {
        let layout = self.scene.layout;
        let (mut all, mut alone) = (Count::default(), Count::default());
        for other in (0..layout.len).filter(|&other| other != a as usize && other != b as usize) {
            for (x, y) in [(end as usize, other), (other, end as usize)] {
                if covered(layout, &self.known, x, y).either {
                    continue;
                }
                self.scene.between(x, y, |seen| {
                    if seen.age_ms <= SLOW_BESIDE_MS {
                        let count = seen.either.of(Channel::Slow);
                        all.add(count);
                        alone.add(if seen.alone { count } else { Count::default() });
                    }
                });
            }
        }
        let more = all.share() > self.usual.slow;
        let nats = Symptom::Slow.nats(all, all.share(), &self.usual);
        !(more && nats > ALIKE) && alone.bad * 2 <= alone.trials
    }
}
