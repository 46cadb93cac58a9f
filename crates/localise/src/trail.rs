//! What one pair was over time in one metric: the newest moments by the minute, a day by the quarter of an hour.
//!
//! Whoever is called at night asks two things: since when, and was it so before? The first wants the last hour as it was measured, the
//! second a day without gaps. So the newest [`MINUTES`] points are of a minute each (pairs of 128 endpoints are measured every other
//! minute, which makes it an hour and a half), and what is older is put together by the quarter of an hour until it is a day old: 144
//! points of 24 bytes for a pair that goes on alike, [`POINTS_MAX`] for one that flaps. A span tells the worst that was in it and adds up
//! what was sent and lost. What failed is a point of its own beside what was measured in the same span: neither hides the other.

use rdmascope_model::{Cause, Exclusion, Metric, Wall};

/// Points of a minute.
pub(crate) const MINUTES: usize = 48;
/// Points in all: half of the quarters of a day may have failures beside figures, and more.
pub(crate) const POINTS_MAX: usize = 288;
/// Seconds that are put together among the newest points, and among the older ones. What is not measured goes on as it is, and must not
/// push the figures from before out of the newest points: it is put together by the longer span at once.
const MINUTE: u32 = 60;
const QUARTER: u32 = 15 * 60;
/// Seconds after which nothing is kept.
const DAY: u32 = 24 * 60 * 60;
/// Memory grows by so many points: doubling would leave half of it empty.
const GROWS_BY: usize = 8;

/// What a pair was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Was {
    /// Measured.
    Measured,
    /// Not measured for too long.
    Stale,
    /// Its probe failed.
    Failed(Cause),
    /// Its probe was not run.
    Excluded(Exclusion),
}

/// A span of time in which a pair was the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The first that is known of it, to the second.
    pub at: Wall,
    /// The last.
    pub until: Wall,
    /// What it was.
    pub was: Was,
    /// The worst of the span: of medians the largest, nanoseconds; of averages of bandwidth the smallest, bits per second.
    pub headline: Option<u64>,
    /// The largest of the span, nanoseconds: of latency the 99th percentile, of pings the longest round trip.
    pub tail: Option<u64>,
    /// Pings that were sent, and of them those without any answer; also of batches that failed.
    pub sent_lost: Option<[u32; 2]>,
}

/// The same in 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    /// Seconds since 1970.
    at: u32,
    /// Nanoseconds, or 1,000 bits per second; 0: not known.
    headline: u32,
    tail: u32,
    sent: u32,
    lost: u32,
    /// Seconds, a quarter of an hour at most.
    lasts: u16,
    was: u16,
}

/// Words of a point that is kept over a restart.
pub(crate) const POINT_WORDS: usize = 6;
/// What the numbers of a bandwidth stand for, bits per second.
const RATE_UNIT: u64 = 1_000;
/// Numbers of what a pair was: these, or a kind and the number of its cause.
const MEASURED: u16 = 0;
const STALE: u16 = 1;
const EXCLUDED: u16 = 1 << 8;
const FAILED: u16 = 2 << 8;

fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl Point {
    pub(crate) fn new(metric: Metric, moment: &Moment) -> Self {
        let (at, until) = (narrow(moment.at.0 / 1_000), narrow(moment.until.0 / 1_000));
        let unit = unit(metric);
        let [sent, lost] = moment.sent_lost.unwrap_or_default();
        Self {
            at,
            headline: moment.headline.map_or(0, |value| narrow((value / unit).max(1))),
            tail: moment.tail.map_or(0, narrow),
            sent,
            lost,
            lasts: u16::try_from(until.saturating_sub(at)).unwrap_or(u16::MAX),
            was: match moment.was {
                Was::Measured => MEASURED,
                Was::Stale => STALE,
                // Both have numbers below 256.
                Was::Excluded(why) => EXCLUDED | why as u16,
                Was::Failed(cause) => FAILED | cause as u16,
            },
        }
    }

    /// `None` for what no version has written.
    fn moment(&self, metric: Metric) -> Option<Moment> {
        let number = self.was & 0xFF;
        let was = match self.was & !0xFF {
            0 if number == MEASURED => Was::Measured,
            0 if number == STALE => Was::Stale,
            EXCLUDED => Was::Excluded(Exclusion::ALL.into_iter().find(|why| *why as u16 == number)?),
            FAILED => Was::Failed(Cause::from_number(number.into())?),
            _ => return None,
        };
        let known = |value: u32| (value > 0).then_some(u64::from(value));
        let wall = |seconds: u32| Wall(u64::from(seconds) * 1_000);
        Some(Moment {
            at: wall(self.at),
            until: wall(self.until()),
            was,
            headline: known(self.headline).map(|value| value * unit(metric)),
            tail: known(self.tail),
            sent_lost: (self.sent > 0).then_some([self.sent, self.lost]),
        })
    }

    fn until(&self) -> u32 {
        self.at.saturating_add(self.lasts.into())
    }

    /// Takes another one of the same kind in.
    fn absorb(&mut self, other: &Self, smallest: bool) {
        let until = self.until().max(other.until());
        self.at = self.at.min(other.at);
        self.lasts = u16::try_from(until - self.at).unwrap_or(u16::MAX);
        self.headline = match (self.headline, other.headline) {
            (0, known) | (known, 0) => known,
            (a, b) if smallest => a.min(b),
            (a, b) => a.max(b),
        };
        self.tail = self.tail.max(other.tail);
        self.sent = self.sent.saturating_add(other.sent);
        self.lost = self.lost.saturating_add(other.lost);
    }

    pub(crate) fn words(&self) -> [u32; POINT_WORDS] {
        let kind = u32::from(self.lasts) | u32::from(self.was) << 16;
        [self.at, self.headline, self.tail, self.sent, self.lost, kind]
    }

    pub(crate) fn from_words([at, headline, tail, sent, lost, kind]: [u32; POINT_WORDS]) -> Self {
        Self { at, headline, tail, sent, lost, lasts: kind as u16, was: (kind >> 16) as u16 }
    }
}

fn unit(metric: Metric) -> u64 {
    if metric == Metric::Bandwidth { RATE_UNIT } else { 1 }
}

/// The points of one pair and metric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trail {
    quarters: Vec<Point>,
    minutes: Vec<Point>,
}

impl Trail {
    pub(crate) fn is_empty(&self) -> bool {
        self.minutes.is_empty() && self.quarters.is_empty()
    }

    /// Adds what was seen. `smallest`: of two figures the smaller one is worse.
    pub(crate) fn add(&mut self, point: Point, smallest: bool) {
        let span = if point.was == MEASURED { MINUTE } else { QUARTER };
        if is_absorbed(&mut self.minutes, &point, span, smallest) {
            return;
        }
        if self.minutes.len() >= MINUTES {
            let oldest = self.minutes.remove(0);
            self.age(oldest, smallest);
        }
        push(&mut self.minutes, point);
    }

    fn age(&mut self, point: Point, smallest: bool) {
        if is_absorbed(&mut self.quarters, &point, QUARTER, smallest) {
            return;
        }
        if self.quarters.len() >= POINTS_MAX - MINUTES {
            self.quarters.remove(0);
        }
        push(&mut self.quarters, point);
    }

    /// Forgets what is more than a day old.
    pub(crate) fn forget(&mut self, now: Wall) {
        let oldest = narrow(now.0 / 1_000).saturating_sub(DAY);
        self.quarters.retain(|point| point.until() >= oldest);
        self.minutes.retain(|point| point.until() >= oldest);
    }

    /// In the order of time.
    pub(crate) fn moments(&self, metric: Metric) -> Vec<Moment> {
        let all = self.points().filter_map(|point| point.moment(metric));
        let mut all: Vec<_> = all.collect();
        // What is noted by the coordinator's clock may come before what an agent measured a moment ago.
        all.sort_by_key(|moment| (moment.at, moment.was));
        all
    }

    pub(crate) fn points(&self) -> impl Iterator<Item = &Point> {
        self.quarters.iter().chain(&self.minutes)
    }

    /// Takes points back, the oldest first; how many are too many is forgotten.
    pub(crate) fn restore(points: &[Point]) -> Self {
        let points = &points[points.len().saturating_sub(POINTS_MAX)..];
        let (quarters, minutes) = points.split_at(points.len().saturating_sub(MINUTES));
        Self { quarters: quarters.to_vec(), minutes: minutes.to_vec() }
    }

    /// Bytes that the points take.
    pub(crate) fn bytes(&self) -> usize {
        (self.quarters.capacity() + self.minutes.capacity()) * size_of::<Point>()
    }
}

/// Puts a point into one that is there of the same span and kind, if there is one.
fn is_absorbed(list: &mut [Point], new: &Point, span: u32, smallest: bool) -> bool {
    let of_span = |point: &&mut Point| point.at / span == new.at / span;
    let alike = list.iter_mut().rev().take_while(of_span).find(|point| point.was == new.was);
    alike.is_some_and(|point| {
        point.absorb(new, smallest);
        true
    })
}

fn push(list: &mut Vec<Point>, point: Point) {
    if list.len() == list.capacity() {
        list.reserve_exact(GROWS_BY);
    }
    list.push(point);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A point in time that begins a day and a quarter of an hour, seconds since 1970.
    pub(crate) const START: u64 = 1_790_035_200;

    pub(crate) fn moment(second: u64, was: Was) -> Moment {
        let at = Wall((START + second) * 1_000);
        Moment { at, until: at, was, headline: None, tail: None, sent_lost: None }
    }

    fn measured(second: u64, headline: u64, lost: u32) -> Moment {
        let tail = Some(headline * 3);
        let sent_lost = Some([60, lost]);
        Moment { headline: Some(headline), tail, sent_lost, ..moment(second, Was::Measured) }
    }

    fn trail(metric: Metric, moments: &[Moment]) -> Trail {
        let mut trail = Trail::default();
        moments.iter().for_each(|m| trail.add(Point::new(metric, m), metric == Metric::Bandwidth));
        trail
    }

    fn seconds(moments: &[Moment]) -> Vec<(u64, u64)> {
        moments.iter().map(|m| (m.at.0 / 1_000 - START, m.until.0 / 1_000 - START)).collect()
    }

    #[test]
    fn a_moment_comes_back_as_it_was_seen() {
        let rate = Moment { headline: Some(97_123_456_000), ..moment(5, Was::Measured) };
        for (metric, seen) in [
            (Metric::Ping, measured(0, 3_000, 2)),
            (Metric::Latency, Moment { sent_lost: None, ..measured(1, 2_000, 0) }),
            (Metric::Bandwidth, rate),
            (Metric::Ping, moment(2, Was::Stale)),
            (
                Metric::Ping,
                Moment { sent_lost: Some([40, 40]), ..moment(3, Was::Failed(Cause::NoFirstByte)) },
            ),
            (Metric::Latency, moment(4, Was::Excluded(Exclusion::Maintenance))),
        ] {
            let point = Point::new(metric, &seen);
            assert_eq!(Point::from_words(point.words()), point);
            assert_eq!(trail(metric, &[seen]).moments(metric), [seen]);
        }
        assert_eq!(size_of::<Point>(), 24);
    }

    #[test]
    fn a_minute_tells_its_worst_and_adds_up_what_was_lost() {
        let seen =
            trail(Metric::Ping, &[measured(0, 3_000, 1), measured(20, 9_000, 0), measured(59, 4_000, 2)]);
        let expected = Moment { sent_lost: Some([180, 3]), ..measured(0, 9_000, 0) };
        assert_eq!(seen.moments(Metric::Ping), [Moment { until: Wall((START + 59) * 1_000), ..expected }]);
        let rates = [90_000_000_000, 40_000_000_000, 95_000_000_000]
            .map(|rate| Moment { headline: Some(rate), ..moment(0, Was::Measured) });
        let slowest = trail(Metric::Bandwidth, &rates).moments(Metric::Bandwidth);
        assert_eq!(slowest[0].headline, Some(40_000_000_000), "of bandwidth the smallest is the worst");
    }

    #[test]
    fn a_failure_beside_figures_hides_none_of_them_and_has_none() {
        let failed = Moment { sent_lost: Some([60, 60]), ..moment(30, Was::Failed(Cause::NoFirstByte)) };
        let seen = trail(Metric::Ping, &[measured(0, 3_000, 0), failed, measured(50, 3_500, 0)]);
        let moments = seen.moments(Metric::Ping);
        assert_eq!(moments.iter().map(|m| m.was).collect::<Vec<_>>(), [Was::Measured, failed.was]);
        assert_eq!(moments[0].headline, Some(3_500));
        assert_eq!(moments[1], failed);
        let other = moment(55, Was::Failed(Cause::PortDown));
        let two = trail(Metric::Ping, &[failed, other]).moments(Metric::Ping);
        assert_eq!(two, [failed, other], "another cause is another point");
    }

    #[test]
    fn a_day_is_there_the_newest_by_the_minute_and_the_rest_by_the_quarter_of_an_hour() {
        let mut seen = Trail::default();
        // A day and a half, measured every half minute.
        let last = 36 * 3_600 - 30;
        for second in (0..=last).step_by(30) {
            let slow = second == last - 5 * 3_600;
            let one = measured(second, if slow { 50_000 } else { 3_000 }, u32::from(slow));
            seen.add(Point::new(Metric::Ping, &one), false);
        }
        seen.forget(Wall((START + last) * 1_000));
        let moments = seen.moments(Metric::Ping);
        let spans = seconds(&moments);
        let (quarters, minutes) = spans.split_at(spans.len() - MINUTES);
        assert!(minutes.iter().all(|(at, until)| at % 60 == 0 && until - at == 30), "{minutes:?}");
        assert_eq!(minutes[MINUTES - 1], (last - 30, last));
        // The last quarter is still being put together.
        assert!(quarters[..quarters.len() - 1].iter().all(|(at, until)| at % 900 == 0 && until - at == 870));
        assert!((93..=94).contains(&quarters.len()), "{}", quarters.len());
        assert!(quarters[0].1 >= last - 24 * 3_600, "nothing older than a day");
        let sent: u32 = moments.iter().filter_map(|m| m.sent_lost).map(|[sent, _]| sent).sum();
        let from = moments[0].at.0 / 1_000 - START;
        assert_eq!(u64::from(sent), (last + 30 - from) / 30 * 60, "every batch counts once");
        let slow: Vec<_> = moments.iter().filter(|m| m.headline == Some(50_000)).collect();
        assert_eq!(slow.len(), 1, "five hours later it is told still");
        assert_eq!((slow[0].tail, slow[0].sent_lost), (Some(150_000), Some([1_800, 1])));
    }

    #[test]
    fn what_flaps_takes_no_more_than_its_points_and_what_goes_on_as_it_is_takes_few() {
        let mut seen = Trail::default();
        let causes = [Cause::PortDown, Cause::PeerGone, Cause::NoFirstByte, Cause::RetryExceeded];
        for second in 0..40 * 3_600 {
            let was = Was::Failed(causes[second as usize % causes.len()]);
            seen.add(Point::new(Metric::Ping, &moment(second, was)), false);
            seen.add(Point::new(Metric::Ping, &measured(second, 3_000, 0)), false);
        }
        assert_eq!(seen.points().count(), POINTS_MAX);
        assert!(seen.bytes() <= (POINTS_MAX + GROWS_BY) * 24, "{}", seen.bytes());
        let mut stale = trail(Metric::Ping, &[measured(0, 3_000, 0)]);
        for minute in 1..12 * 60 {
            stale.add(Point::new(Metric::Ping, &moment(minute * 60, Was::Stale)), false);
        }
        assert_eq!(stale.points().count(), 49, "one for each quarter of an hour, and what was before");
        assert_eq!(stale.moments(Metric::Ping)[0], measured(0, 3_000, 0));
    }

    #[test]
    fn what_is_restored_goes_on_as_if_nothing_had_been() {
        let all: Vec<_> = (0..300).map(|i| measured(i * 47, 3_000 + i, 0)).collect();
        let whole = trail(Metric::Ping, &all);
        let half = trail(Metric::Ping, &all[..150]);
        let kept: Vec<Point> = half.points().copied().collect();
        let mut back = Trail::restore(&kept);
        all[150..].iter().for_each(|m| back.add(Point::new(Metric::Ping, m), false));
        assert_eq!(back, whole);
        let many = vec![kept[0]; POINTS_MAX + 5];
        assert_eq!(Trail::restore(&many).points().count(), POINTS_MAX);
    }
}
