//! When which part of the machine is read again; pure, so that its tests need no waiting.

use rdmascope_control::agent::Part;
use rdmascope_host::Tier;
use rdmascope_model::Mono;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// How often ports' state and traffic, devices and the pause file are looked at.
const GLANCE: Duration = Duration::from_secs(1);
/// Counters: what is judged by them looks over minutes.
const COUNTERS: Duration = Duration::from_secs(10);
/// String statistics: some hundred values of each network device, by a driver call.
const STATISTICS: Duration = Duration::from_secs(30);
/// Everything else. A GID table of 256 slots costs 0.1 s in the lab's emulated machine, and modules are read over a slow bus.
const SLOW: Duration = Duration::from_secs(60);
/// After an event of the link of a port a glance follows so soon: the port's own state comes a moment later.
const GLANCE_AFTER_EVENT: Duration = Duration::from_millis(20);
/// Events come in bursts; what they changed is read together.
const BURST: Duration = Duration::from_millis(100);
/// ... and not more often than that, however many there are.
const EVENT_GAP: Duration = Duration::from_secs(1);
/// Events of devices that carry no RDMA, such as those of containers, which may come all the time.
const OTHERS: Duration = Duration::from_secs(10);

/// How old what is known may be: when each part was read, and judged, and how often it is to be. Events, which come or do not, are none.
pub(crate) fn parts(read_at: &BTreeMap<&'static str, Mono>) -> [Part; 5] {
    let part = |name, every| Part { name, every, read_at: read_at.get(name).copied() };
    [
        part(Tier::State.as_str(), GLANCE),
        part(Tier::Counters.as_str(), COUNTERS),
        part(Tier::Statistics.as_str(), STATISTICS),
        part(Tier::Slow.as_str(), SLOW),
        // After everything was read it is judged, changed or not.
        part("checks", SLOW),
    ]
}

/// What is due when.
#[derive(Debug)]
pub(super) struct Schedule {
    glance: Instant,
    counters: Instant,
    statistics: Instant,
    slow: Instant,
    event: Option<Instant>,
    last_glance: Option<Instant>,
    last_event: Option<Instant>,
}

impl Schedule {
    /// Everything is due now; a glance can wait for it.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            glance: now + GLANCE,
            counters: now + COUNTERS,
            statistics: now + STATISTICS,
            slow: now,
            event: None,
            last_glance: None,
            last_event: None,
        }
    }

    /// Something happened; `ours`: to a network device or an RDMA device that we watch.
    pub(super) fn event(&mut self, now: Instant, ours: bool) {
        let due = if ours {
            let glance = (now + GLANCE_AFTER_EVENT).max(self.last_glance.map_or(now, |last| last + BURST));
            self.glance = self.glance.min(glance);
            (now + BURST).max(self.last_event.map_or(now, |last| last + EVENT_GAP))
        } else {
            now + OTHERS
        };
        self.event = Some(self.event.map_or(due, |before| before.min(due)));
    }

    /// Everything must be read now.
    pub(super) fn everything(&mut self, now: Instant) {
        self.slow = now;
    }

    /// When the next glance is due.
    pub(super) fn glance(&self) -> Instant {
        self.glance
    }

    /// A glance begins.
    pub(super) fn glanced(&mut self, now: Instant) {
        self.last_glance = Some(now);
        self.glance = now + GLANCE;
    }

    /// The next part that is due, and when. Statistics go before counters: both are judged together.
    pub(super) fn next(&self) -> (Instant, Tier) {
        let event = self.event.map(|due| (due, Tier::Event));
        let timed =
            [(self.slow, Tier::Slow), (self.statistics, Tier::Statistics), (self.counters, Tier::Counters)];
        let all = timed.into_iter().chain(event);
        all.min_by_key(|(due, _)| *due).unwrap_or((self.slow, Tier::Slow))
    }

    /// The reading of a part begins.
    pub(super) fn began(&mut self, tier: Tier, now: Instant) {
        match tier {
            Tier::State => {}
            Tier::Counters => self.counters = now + COUNTERS,
            Tier::Statistics => self.statistics = now + STATISTICS,
            Tier::Event => {
                self.event = None;
                self.last_event = Some(now);
            }
            Tier::Slow => {
                *self = Self {
                    slow: now + SLOW,
                    glance: self.glance,
                    last_glance: self.last_glance,
                    ..Self::new(now)
                };
                self.last_event = Some(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the schedule for so long, with events of ours or of others at the times (ms) that are given; gives what was read when.
    fn run(seconds: u64, event: impl Fn(u64) -> Option<bool>) -> Vec<(u64, Tier)> {
        let start = Instant::now();
        let mut schedule = Schedule::new(start);
        let mut read = Vec::new();
        for ms in (0..seconds * 1_000).step_by(10) {
            let now = start + Duration::from_millis(ms);
            if let Some(ours) = event(ms) {
                schedule.event(now, ours);
            }
            if schedule.glance() <= now {
                schedule.glanced(now);
                read.push((ms, Tier::State));
            }
            while let (due, tier) = schedule.next()
                && due <= now
            {
                schedule.began(tier, now);
                read.push((ms, tier));
            }
        }
        read
    }

    fn times(read: &[(u64, Tier)], tier: Tier) -> Vec<u64> {
        read.iter().filter(|(_, t)| *t == tier).map(|(ms, _)| *ms).collect()
    }

    #[test]
    fn each_part_is_read_at_its_own_pace() {
        let read = run(120, |_| None);
        assert_eq!(times(&read, Tier::Slow), [0, 60_000]);
        assert_eq!(times(&read, Tier::State).len(), 119);
        // Everything holds the others too.
        let counters: Vec<u64> = (1..12).filter(|n| *n != 6).map(|n| n * 10_000).collect();
        assert_eq!(times(&read, Tier::Counters), counters);
        assert_eq!(times(&read, Tier::Statistics), [30_000, 90_000]);
        assert!(times(&read, Tier::Event).is_empty());
    }

    #[test]
    fn an_event_is_answered_at_once_and_a_storm_once_a_second() {
        let read = run(10, |ms| (ms == 4_500).then_some(true));
        assert!(times(&read, Tier::State).contains(&4_520));
        assert_eq!(times(&read, Tier::Event), [4_600]);
        let read = run(10, |ms| (2_000..8_000).contains(&ms).then_some(true));
        assert_eq!(times(&read, Tier::Event), [2_100, 3_100, 4_100, 5_100, 6_100, 7_100, 8_100]);
        assert!(times(&read, Tier::State).len() <= 9 + 60, "ten a second at the most");
    }

    #[test]
    fn what_happens_to_others_waits_and_hurries_nothing() {
        let read = run(50, |ms| (2_000..40_000).contains(&ms).then_some(false));
        assert!(times(&read, Tier::Event).len() <= 4, "{read:?}");
        assert_eq!(times(&read, Tier::State).len(), 49);
    }
}
