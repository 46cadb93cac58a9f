//! The history of some pairs: which are kept and why, for how long, and as bytes over a restart.
//!
//! All cells over time would be another Prometheus. Up to [`FEW_ENDPOINTS`] every pair is kept; above, those that somebody will ask for:
//! the worst ones, those of incidents, and pinned ones. A pair that is no longer among them stays for as long as it was promised
//! ([`Trails::keep`]), and there are never more than [`PAIRS_MAX`]: with one metric of each, a day of it, 62 MB.

use crate::EndpointIndex;
use crate::keep::{CUT, KeptError};
use crate::trail::{Moment, POINT_WORDS, Point, Trail, Was};
use rdmascope_model::{Metric, Wall};
use std::cmp::Ordering;

/// Up to so many endpoints every pair is kept.
pub const FEW_ENDPOINTS: usize = 128;
/// Pairs that are kept at most: those of so many endpoints.
pub const PAIRS_MAX: usize = FEW_ENDPOINTS * (FEW_ENDPOINTS - 1);

/// Why the history of a pair is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// There are few endpoints.
    FewEndpoints = 0,
    /// It shows, or is measured again for, an incident or a suspect.
    Incident = 1,
    /// It is among the worst.
    Worst = 2,
    /// An operator asked for it.
    Pinned = 3,
}

impl Because {
    /// Those that end by themselves, the one that is told first.
    const PASSING: [Self; 3] = [Self::FewEndpoints, Self::Incident, Self::Worst];

    /// The word used on the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FewEndpoints => "few-endpoints",
            Self::Incident => "incident",
            Self::Worst => "worst",
            Self::Pinned => "pinned",
        }
    }
}

/// One pair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptPair {
    /// In the order of [`Metric::ALL`].
    trails: [Trail; Metric::ALL.len()],
    pinned: bool,
    /// Until when each of [`Because::PASSING`] holds, seconds since 1970.
    until: [u32; Because::PASSING.len()],
}

impl KeptPair {
    /// What it was in a metric, in the order of time; moments of different kinds may overlap.
    #[must_use]
    pub fn moments(&self, metric: Metric) -> Vec<Moment> {
        self.trails[place(metric)].moments(metric)
    }

    /// Something is known of it in a metric.
    #[must_use]
    pub fn has(&self, metric: Metric) -> bool {
        !self.trails[place(metric)].is_empty()
    }

    /// Why it is kept, and until when if nobody asks for it again; `None` for as long as it is pinned.
    #[must_use]
    pub fn because(&self, now: Wall) -> (Because, Option<Wall>) {
        if self.pinned {
            return (Because::Pinned, None);
        }
        let holds = |because: &Because| self.until[*because as usize] > seconds(now);
        let because = Because::PASSING.into_iter().find(holds).unwrap_or(Because::Worst);
        (because, Some(Wall(u64::from(self.last()) * 1_000)))
    }

    /// Notes that it is not measured now, and why, where something is known of it in the metric.
    pub fn note(&mut self, metric: Metric, was: Was, now: Wall) {
        let trail = &mut self.trails[place(metric)];
        if !trail.is_empty() {
            let moment = Moment { at: now, until: now, was, headline: None, tail: None, sent_lost: None };
            trail.add(Point::new(metric, &moment), false);
        }
    }

    pub(crate) fn add(&mut self, metric: Metric, moment: &Moment) {
        self.trails[place(metric)].add(Point::new(metric, moment), metric == Metric::Bandwidth);
    }

    /// A reason that ends by itself holds until then, or longer; a pin has no end.
    pub fn holds_until(&mut self, because: Because, until: Wall) {
        if let Some(known) = self.until.get_mut(because as usize) {
            *known = seconds(until).max(*known);
        }
    }

    fn last(&self) -> u32 {
        self.until.into_iter().max().unwrap_or(0)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.trails.iter().map(Trail::bytes).sum::<usize>()
    }
}

fn place(metric: Metric) -> usize {
    match metric {
        Metric::Latency => 0,
        Metric::Bandwidth => 1,
        Metric::Ping => 2,
    }
}

fn seconds(at: Wall) -> u32 {
    u32::try_from(at.0 / 1_000).unwrap_or(u32::MAX)
}

/// All pairs whose history is kept.
#[derive(Clone, Debug, Default)]
pub struct Trails {
    /// By source: nearly all batches of a large mesh find an empty list.
    sources: Vec<Line>,
    count: usize,
}

/// The pairs of one source: targets in rising order.
#[derive(Clone, Debug, Default)]
struct Line {
    targets: Vec<u32>,
    pairs: Vec<KeptPair>,
}

impl Trails {
    /// A pair, if it is kept.
    #[must_use]
    pub fn of(&self, source: EndpointIndex, target: EndpointIndex) -> Option<&KeptPair> {
        let line = self.sources.get(source.0 as usize)?;
        line.pairs.get(line.targets.binary_search(&target.0).ok()?)
    }

    #[inline]
    pub(crate) fn of_mut(&mut self, source: EndpointIndex, target: EndpointIndex) -> Option<&mut KeptPair> {
        let line = self.sources.get_mut(source.0 as usize)?;
        line.pairs.get_mut(line.targets.binary_search(&target.0).ok()?)
    }

    /// How many pairs are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// None is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that all of it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let line = |line: &Line| {
            let spare = line.pairs.capacity() - line.pairs.len();
            let pairs = line.pairs.iter().map(KeptPair::bytes).sum::<usize>();
            line.targets.capacity() * size_of::<u32>() + spare * size_of::<KeptPair>() + pairs
        };
        self.sources.iter().map(line).sum()
    }

    /// The pair, kept from now on if it was not; `None` where there is no room for another one.
    fn begin(&mut self, source: EndpointIndex, target: EndpointIndex) -> Option<&mut KeptPair> {
        let from = source.0 as usize;
        if self.sources.len() <= from {
            self.sources.resize_with(from + 1, Line::default);
        }
        let line = &mut self.sources[from];
        let at = match line.targets.binary_search(&target.0) {
            Ok(at) => at,
            Err(_) if self.count >= PAIRS_MAX => return None,
            Err(at) => {
                line.targets.insert(at, target.0);
                line.pairs.insert(at, KeptPair::default());
                self.count += 1;
                at
            }
        };
        line.pairs.get_mut(at)
    }

    /// Keeps a pair for a reason that holds until then. True when it was not kept before.
    pub fn keep(
        &mut self,
        because: Because,
        source: EndpointIndex,
        target: EndpointIndex,
        until: Wall,
    ) -> bool {
        let before = self.count;
        if let Some(pair) = self.begin(source, target) {
            pair.pinned |= because == Because::Pinned;
            pair.holds_until(because, until);
        }
        self.count > before
    }

    /// Takes a pin away: what else keeps the pair holds, and it stays until then.
    pub fn unpin(&mut self, source: EndpointIndex, target: EndpointIndex, until: Wall) {
        if let Some(pair) = self.of_mut(source, target) {
            pair.pinned = false;
            pair.holds_until(Because::Worst, until);
        }
    }

    fn pinned(&self) -> usize {
        self.sources.iter().flat_map(|line| &line.pairs).filter(|pair| pair.pinned).count()
    }

    /// Looks at all of them.
    pub fn each(&mut self, mut look: impl FnMut(EndpointIndex, EndpointIndex, &mut KeptPair)) {
        for (source, line) in (0..).zip(&mut self.sources) {
            for (&target, pair) in line.targets.iter().zip(&mut line.pairs) {
                look(EndpointIndex(source), EndpointIndex(target), pair);
            }
        }
    }

    /// Forgets what is more than a day old, and pairs for which no reason holds any more. Where there would not be `room` for others, those
    /// go, too, whose reasons end first.
    pub fn forget(&mut self, room: usize, now: Wall) {
        let mut ends = Vec::new();
        self.each(|_, _, pair| {
            pair.trails.iter_mut().for_each(|trail| trail.forget(now));
            if !pair.pinned && pair.last() > seconds(now) {
                ends.push(pair.last());
            }
        });
        let over = (ends.len() + self.pinned() + room).saturating_sub(PAIRS_MAX).min(ends.len());
        let (mut last, mut of_last) = (seconds(now), usize::MAX);
        if over > 0 {
            last = *ends.select_nth_unstable(over - 1).1;
            // Many end at the same time; no more of them go than must.
            of_last = over - ends.iter().filter(|end| **end < last).count();
        }
        let mut stays = |pair: &KeptPair| match pair.last().cmp(&last) {
            _ if pair.pinned => true,
            Ordering::Equal if of_last == 0 => true,
            Ordering::Equal => {
                of_last -= 1;
                false
            }
            order => order == Ordering::Greater,
        };
        self.count = 0;
        for line in &mut self.sources {
            let stay: Vec<bool> = line.pairs.iter().map(&mut stays).collect();
            let (mut of_targets, mut of_pairs) = (stay.iter(), stay.iter());
            line.targets.retain(|_| of_targets.next() == Some(&true));
            line.pairs.retain(|_| of_pairs.next() == Some(&true));
            self.count += line.pairs.len();
        }
    }

    /// Appends the history of the pairs from one source to the first `endpoints` as words (little-endian): the source, and for each pair the
    /// target, until when it is kept for which reason, and for each metric how many points, and these. Pins are kept elsewhere. Nothing
    /// when there is nothing.
    pub fn write(&self, source: EndpointIndex, endpoints: u32, out: &mut Vec<u8>) {
        let Some(line) = self.sources.get(source.0 as usize).filter(|line| !line.pairs.is_empty()) else {
            return;
        };
        let mut put = |word: u32| out.extend(word.to_le_bytes());
        put(source.0);
        for (&target, pair) in line.targets.iter().zip(&line.pairs).take_while(|(to, _)| **to < endpoints) {
            put(target);
            pair.until.into_iter().for_each(&mut put);
            for trail in &pair.trails {
                put(u32::try_from(trail.points().count()).unwrap_or(u32::MAX));
                trail.points().flat_map(Point::words).for_each(&mut put);
            }
        }
    }

    /// Takes back what [`Self::write`] wrote, where nothing newer is there. `numbers` says who had which number then. Answers how many pairs
    /// were taken.
    ///
    /// # Errors
    /// The bytes are not what was written.
    pub fn read(&mut self, kept: &[u8], numbers: &[EndpointIndex]) -> Result<usize, KeptError> {
        let (words, []) = kept.as_chunks() else { return Err(CUT) };
        let mut words = words.iter().map(|word| u32::from_le_bytes(*word));
        let number =
            |word: u32| numbers.get(word as usize).copied().ok_or(KeptError("are of an unknown endpoint"));
        let source = number(words.next().ok_or(CUT)?)?;
        let mut taken = 0;
        while let Some(target) = words.next() {
            let target = number(target)?;
            let mut pair = KeptPair::default();
            for until in &mut pair.until {
                *until = words.next().ok_or(CUT)?;
            }
            for trail in &mut pair.trails {
                let count = words.next().ok_or(CUT)?;
                let mut points = Vec::new();
                for _ in 0..count {
                    points.push(Point::from_words(taken_from(&mut words)?));
                }
                *trail = Trail::restore(&points);
            }
            if let Some(known) =
                self.begin(source, target).filter(|known| known.trails.iter().all(Trail::is_empty))
            {
                *known = KeptPair { pinned: known.pinned, ..pair };
                taken += 1;
            }
        }
        Ok(taken)
    }
}

fn taken_from(words: &mut impl Iterator<Item = u32>) -> Result<[u32; POINT_WORDS], KeptError> {
    let mut point = [0; POINT_WORDS];
    for place in &mut point {
        *place = words.next().ok_or(CUT)?;
    }
    Ok(point)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trail::tests::{START, moment};

    fn wall(second: u64) -> Wall {
        Wall((START + second) * 1_000)
    }

    fn pair(source: u32, target: u32) -> (EndpointIndex, EndpointIndex) {
        (EndpointIndex(source), EndpointIndex(target))
    }

    fn measured(second: u64) -> Moment {
        Moment {
            headline: Some(3_000),
            tail: Some(9_000),
            sent_lost: Some([9, 0]),
            ..moment(second, Was::Measured)
        }
    }

    #[test]
    fn a_pair_is_kept_for_its_strongest_reason_and_as_long_as_one_holds() {
        let mut trails = Trails::default();
        let (a, b) = pair(3, 5);
        assert!(trails.keep(Because::Worst, a, b, wall(100)));
        assert!(!trails.keep(Because::Incident, a, b, wall(50)), "it is kept already");
        let why = |trails: &Trails, second| trails.of(a, b).unwrap().because(wall(second));
        assert_eq!(why(&trails, 0), (Because::Incident, Some(wall(100))));
        assert_eq!(why(&trails, 60), (Because::Worst, Some(wall(100))));
        trails.keep(Because::Pinned, a, b, Wall(0));
        assert_eq!(why(&trails, 0), (Because::Pinned, None));
        trails.forget(0, wall(9_000));
        trails.unpin(a, b, wall(9_060));
        trails.forget(0, wall(9_059));
        assert_eq!((trails.len(), why(&trails, 9_059)), (1, (Because::Worst, Some(wall(9_060)))));
        trails.forget(0, wall(9_060));
        assert!(trails.is_empty() && trails.of(a, b).is_none());
    }

    #[test]
    fn there_are_never_too_many_and_those_go_first_that_end_first() {
        let mut trails = Trails::default();
        let all = || (0..200_u32).flat_map(|a| (0..200).map(move |b| (a, b))).filter(|(a, b)| a != b);
        let (pinned, last) = (pair(0, 1), pair(199, 0));
        trails.keep(Because::Pinned, pinned.0, pinned.1, Wall(0));
        for (number, (a, b)) in (1..).zip(all()) {
            trails.keep(Because::Worst, EndpointIndex(a), EndpointIndex(b), wall(number));
        }
        assert_eq!(trails.len(), PAIRS_MAX);
        assert!(!trails.keep(Because::Incident, last.0, last.1, wall(9)), "no room");
        trails.forget(1_000, wall(0));
        assert_eq!(trails.len(), PAIRS_MAX - 1_000);
        assert!(trails.of(pinned.0, pinned.1).is_some(), "a pin holds");
        let first: Vec<_> = all()
            .take(1_001)
            .filter(|&(a, b)| trails.of(EndpointIndex(a), EndpointIndex(b)).is_some())
            .collect();
        assert_eq!(first, [(0, 1)], "the pinned one, whose other reason ended first");
        assert!(trails.keep(Because::Incident, last.0, last.1, wall(9)));
        trails.each(|_, _, pair| pair.until = [seconds(wall(9_000)); 3]);
        trails.forget(1_500, wall(10));
        assert_eq!(trails.len(), PAIRS_MAX - 1_500, "no more go than must, although all end together");
    }

    #[test]
    fn a_day_of_all_pairs_of_128_endpoints_takes_what_is_stated() {
        let mut trails = Trails::default();
        // One source stands for all: what it takes is multiplied.
        for target in 1..FEW_ENDPOINTS as u32 {
            let (a, b) = pair(0, target);
            trails.keep(Because::FewEndpoints, a, b, wall(0));
            let kept = trails.of_mut(a, b).unwrap();
            for second in (0..30 * 3_600).step_by(30) {
                kept.add(Metric::Ping, &measured(second));
                kept.trails.iter_mut().for_each(|trail| trail.forget(wall(second)));
            }
        }
        let all = trails.bytes() * FEW_ENDPOINTS;
        assert!((55_000_000..64_000_000).contains(&all), "{all}");
    }

    #[test]
    fn what_is_written_comes_back_and_what_is_damaged_is_an_error_or_less() {
        let mut before = Trails::default();
        let [(a, b), (_, c)] = [pair(0, 1), pair(0, 2)];
        before.keep(Because::Worst, a, b, wall(100));
        before.keep(Because::Incident, a, c, wall(200));
        for second in (0..9_000).step_by(61) {
            before.of_mut(a, b).unwrap().add(Metric::Ping, &measured(second));
        }
        before.of_mut(a, b).unwrap().note(Metric::Ping, Was::Stale, wall(10_000));
        before.of_mut(a, c).unwrap().add(Metric::Bandwidth, &measured(7));
        let mut kept = Vec::new();
        before.write(a, 3, &mut kept);
        // They have other numbers now.
        let numbers = [7, 8, 9].map(EndpointIndex);
        let mut after = Trails::default();
        after.keep(Because::Pinned, numbers[0], numbers[2], Wall(0));
        assert_eq!(after.read(&kept, &numbers), Ok(2));
        assert_eq!(after.of(numbers[0], numbers[1]), before.of(a, b));
        let bandwidth = |trails: &Trails, a, c| trails.of(a, c).unwrap().moments(Metric::Bandwidth);
        assert_eq!(bandwidth(&after, numbers[0], numbers[2]), bandwidth(&before, a, c));
        assert_eq!(after.of(numbers[0], numbers[2]).unwrap().because(wall(0)).0, Because::Pinned);
        assert_eq!(after.read(&kept, &numbers), Ok(0), "what is known is not replaced");
        let mut sound = Vec::new();
        for cut in 0..kept.len() {
            let mut bad = kept.clone();
            bad[cut] ^= 0x55;
            let _ = Trails::default().read(&bad, &numbers);
            sound.extend(Trails::default().read(&kept[..cut], &numbers));
        }
        assert_eq!(sound, [0, 1], "cut before the first pair, and before the second");
        let mut empty = Vec::new();
        Trails::default().write(a, 3, &mut empty);
        assert!(empty.is_empty());
    }
}
