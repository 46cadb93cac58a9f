//! The counters of one source over a day, thinned out with their age, so that a rise over a minute and over a day cost the same.

use super::Rise;
use crate::counters::Width;
use rdmascope_model::{Mono, Reading};
use std::collections::VecDeque;
use std::time::Duration;

/// Rings: a sample at most so often, kept for so long.
const RINGS: [(Duration, Duration); 3] = [
    (Duration::from_secs(60), Duration::from_secs(6 * 60)),
    (Duration::from_secs(5 * 60), Duration::from_secs(70 * 60)),
    (Duration::from_secs(3600), Duration::from_secs(25 * 3600)),
];

/// Which ring's number of samples makes a median: three steps of an hour.
const MEDIAN_STEPS_MIN: usize = 3;

/// A counter that was not read when the sample was taken. No total comes so far.
const MISSING: u64 = u64::MAX;

/// In words for people.
const SEEN_ONCE: &str = "seen once only: how fast it rises is not known yet";

/// One value of a source as it was read now.
pub(super) struct Seen {
    /// Number of the counter's name.
    pub(super) id: u16,
    /// What it does at its end.
    pub(super) width: Width,
    /// The value.
    pub(super) value: Reading<u64>,
}

/// What is known of the source as a whole at one look.
pub(super) struct Around {
    /// When.
    pub(super) at: Mono,
    /// The machine was started again since the last look.
    pub(super) restarted: bool,
    /// Why counters that are not listed could not be read.
    pub(super) unread: Option<String>,
    /// A counter that is not listed stands at 0 (PCI errors).
    pub(super) unlisted_is_zero: bool,
}

/// The memory of one source. Samples hold what a counter rose by since it is watched, so that wraps and resets are dealt with once.
#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    columns: Vec<Column>,
    rings: [VecDeque<Sample>; 3],
    first: Option<Mono>,
    pub(super) last: Mono,
    unread: Option<String>,
    unlisted_is_zero: bool,
}

#[derive(Clone, Debug)]
struct Column {
    id: u16,
    width: Width,
    raw: u64,
    total: u64,
    since: Mono,
    now: Now,
}

/// Whether a counter was read at the last look.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Now {
    Read,
    Reset,
    Gone,
    Unread(String),
}

#[derive(Clone, Debug)]
struct Sample {
    at: Mono,
    totals: Box<[u64]>,
}

impl Track {
    /// Takes in what was read of the source.
    pub(super) fn observe(&mut self, around: Around, seen: &[Seen]) {
        let Around { at, unlisted_is_zero, .. } = around;
        let first = *self.first.get_or_insert(at);
        let back = |s: &&Seen| {
            let before = self.columns.iter().find(|c| c.id == s.id);
            before.zip(s.value.value()).is_some_and(|(before, value)| *value < before.raw)
        };
        // One counter that goes back was wrapped or reset by hand; several at once were lost with a driver or its firmware.
        let generation = around.restarted || seen.iter().filter(back).count() > 1;
        let unlisted = if unlisted_is_zero && around.unread.is_none() { Some(0) } else { None };
        for column in &mut self.columns {
            match (seen.iter().find(|s| s.id == column.id).map(|s| &s.value), unlisted) {
                (Some(Reading::Value(value)), _) => column.take(*value, at, generation),
                (Some(Reading::Failed(why)), _) => column.now = Now::Unread(why.clone()),
                (None, Some(value)) => column.take(value, at, generation),
                (Some(Reading::Absent) | None, _) => column.now = Now::Gone,
            }
        }
        for Seen { id, width, value } in seen {
            let known = self.columns.iter().any(|c| c.id == *id);
            if let Some(raw) = value.value().copied().filter(|_| !known) {
                // A PCI error that was not listed before stood at 0.
                let (total, since) = if unlisted_is_zero && first != at { (raw, first) } else { (0, at) };
                let width = *width;
                self.columns.push(Column { id: *id, width, raw, total, since, now: Now::Read });
            }
        }
        (self.unread, self.last, self.unlisted_is_zero) = (around.unread, at, unlisted_is_zero);
        self.keep(at);
    }

    fn keep(&mut self, at: Mono) {
        let total = |c: &Column| if matches!(c.now, Now::Read | Now::Reset) { c.total } else { MISSING };
        let totals: Box<[u64]> = self.columns.iter().map(total).collect();
        for (ring, (every, long)) in self.rings.iter_mut().zip(RINGS) {
            if ring.back().is_none_or(|newest| at.since(newest.at) >= every) {
                ring.push_back(Sample { at, totals: totals.clone() });
            }
            while ring.front().is_some_and(|oldest| at.since(oldest.at) > long) {
                ring.pop_front();
            }
        }
    }

    /// How far a counter rose; `name` is for the words alone.
    pub(super) fn rise(&self, id: Option<u16>, name: &str, window: Duration) -> Rise {
        let found = self.columns.iter().enumerate().find(|(_, c)| Some(c.id) == id);
        let Some((place, column)) = found else { return self.no_such(name, window) };
        match &column.now {
            Now::Gone => return self.no_such(name, window),
            Now::Unread(why) => return Rise::Unknown(format!("{name} could not be read: {why}")),
            Now::Read | Now::Reset if column.width == Width::StopsAt(column.raw) => {
                return Rise::Saturated(column.raw);
            }
            Now::Reset => return Rise::Unknown(format!("{name} went back: it was reset")),
            Now::Read => {}
        }
        let usable = |sample: &&Sample| sample.at >= column.since && sample.at < self.last;
        let older = self.rings.iter().flatten().filter(usable);
        let older = older.filter_map(|sample| Some((self.last.since(sample.at), sample.total(place)?)));
        let oldest = window + slack(window);
        let (mut far_enough, mut within) = (None::<(Duration, u64)>, None::<(Duration, u64)>);
        for seen in older.filter(|(age, _)| *age <= oldest) {
            if seen.0 < window {
                within = within.max(Some(seen));
            } else {
                far_enough = Some(far_enough.map_or(seen, |nearest| nearest.min(seen)));
            }
        }
        match far_enough.or(within) {
            Some((age, total)) => Rise::By(column.total.saturating_sub(total), age),
            None => Rise::Unknown(SEEN_ONCE.to_owned()),
        }
    }

    fn no_such(&self, name: &str, window: Duration) -> Rise {
        match &self.unread {
            Some(why) => Rise::Unknown(format!("{name} could not be read: {why}")),
            None if self.unlisted_is_zero => match self.first.filter(|first| *first < self.last) {
                Some(first) => Rise::By(0, window.min(self.last.since(first))),
                None => Rise::Unknown(SEEN_ONCE.to_owned()),
            },
            None => Rise::Unknown(format!("there is no {name}")),
        }
    }

    /// The median of its rises per second over the hours of the last day.
    pub(super) fn median(&self, id: u16) -> Option<f64> {
        let place = self.columns.iter().position(|c| c.id == id)?;
        let since = self.columns.get(place)?.since;
        let hours: Vec<(Mono, u64)> = self.rings[2]
            .iter()
            .filter(|sample| sample.at >= since)
            .filter_map(|sample| Some((sample.at, sample.total(place)?)))
            .collect();
        let mut steps: Vec<f64> = hours
            .windows(2)
            .filter_map(|pair| match pair {
                // Counts beyond 2^53 would lose their last digit, which no median needs.
                [(from, less), (to, more)] => {
                    Some(more.saturating_sub(*less) as f64 / to.since(*from).as_secs_f64())
                }
                _ => None,
            })
            .collect();
        steps.sort_by(f64::total_cmp);
        if steps.len() < MEDIAN_STEPS_MIN { None } else { steps.get(steps.len() / 2).copied() }
    }

    /// Bytes that its samples take.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let samples = self.rings.iter().flatten();
        let of_samples: usize =
            samples.map(|s| size_of::<Sample>() + s.totals.len() * size_of::<u64>()).sum();
        of_samples + self.columns.len() * size_of::<Column>()
    }
}

/// How much older than the window a sample may be that stands for its beginning: a step of the ring that covers it.
fn slack(window: Duration) -> Duration {
    let step = RINGS.iter().find(|(_, long)| window <= *long).map_or(RINGS[2].0, |(every, _)| *every);
    step + step / 4
}

impl Sample {
    /// The total of a column; a column that came later was not there.
    fn total(&self, place: usize) -> Option<u64> {
        self.totals.get(place).copied().or(Some(0)).filter(|total| *total != MISSING)
    }
}

impl Column {
    fn take(&mut self, value: u64, at: Mono, generation: bool) {
        let wrapped = value.saturating_add(1 << 32).saturating_sub(self.raw);
        self.now = Now::Read;
        if generation {
            // What was counted between the last look and the restart is lost; what comes now is the new count's.
        } else if value >= self.raw {
            self.total += value - self.raw;
        } else if self.width == Width::Wraps32 && wrapped < 1 << 31 {
            self.total += wrapped;
        } else {
            // Half of the range within one look is no wrap: somebody reset it.
            (self.since, self.now) = (at, Now::Reset);
        }
        self.raw = value;
    }
}
