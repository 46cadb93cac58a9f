//! The history of pairs on the virtual clock: what happens at a known time is there at that time, and stays over a restart.

use crate::common::*;
use rdmascope_control::coordinator::{Event, Settings};
use rdmascope_localise::{Because, Moment, Was};
use rdmascope_model::{Metric, Wall};
use rdmascope_sim::Cluster;

fn moments(c: &Cluster, source: usize, target: usize) -> Vec<Moment> {
    let coordinator = c.coordinator();
    let index = |host| coordinator.matrix().find(&c.endpoint(host)).unwrap();
    let trail = coordinator.trail(index(source), index(target), c.now().wall).expect("few endpoints");
    assert_eq!((trail.because, trail.until), (Because::FewEndpoints, None));
    trail.pair.map(|pair| pair.moments(Metric::Latency)).unwrap_or_default()
}

fn figures(moments: &[Moment], within: impl Fn(&Moment) -> bool) -> Vec<u64> {
    moments.iter().filter(|moment| within(moment)).filter_map(|moment| moment.headline).collect()
}

/// A time without its milliseconds, as points have it.
fn second(at: Wall) -> Wall {
    Wall(at.0 / 1_000 * 1_000)
}

#[test]
fn a_pair_that_slows_at_a_known_time_shows_it_at_that_time() {
    let mut c = cluster(4, Settings::default());
    c.run_for(seconds(1_800));
    let slow_from = c.now().wall;
    let slow = c.endpoint(2);
    c.fabric().borrow_mut().set_delay(&slow, 1_000_000);
    c.run_for(seconds(1_200));
    let slow_until = c.now().wall;
    c.fabric().borrow_mut().set_delay(&slow, 0);
    c.run_for(seconds(1_200));
    for (a, b) in [(0, 2), (2, 0), (3, 2)] {
        let seen = moments(&c, a, b);
        // A minute may hold the end of one time and the begin of the next; it tells the worst of both.
        let before = figures(&seen, |m| m.until < second(slow_from));
        let meanwhile = figures(&seen, |m| m.at > slow_from && m.until < slow_until);
        let after = figures(&seen, |m| m.at > slow_until);
        for part in [&before, &meanwhile, &after] {
            assert!(part.len() >= 5, "{a} to {b}: {seen:?}");
        }
        let usual = before.iter().max().unwrap() + 500_000;
        assert!(after.iter().all(|ns| *ns < usual), "{a} to {b}: {after:?}");
        assert!(meanwhile.iter().all(|ns| *ns > usual), "{a} to {b}: {meanwhile:?}");
    }
    let other = figures(&moments(&c, 0, 1), |_| true);
    assert!(other.iter().max() < Some(&500_000), "it was never slow: {other:?}");
}

#[test]
fn a_pair_that_dies_has_a_cause_from_that_time_on_and_no_number() {
    let mut c = cluster(3, Settings::default());
    c.run_for(seconds(1_200));
    let died = c.now().wall;
    c.kill_agent(2);
    c.run_for(seconds(2_400));
    let seen = moments(&c, 0, 2);
    let before: Vec<_> = seen.iter().filter(|m| m.until < second(died)).collect();
    let since: Vec<_> = seen.iter().filter(|m| m.at > died).collect();
    let figure = |m: &&Moment| m.was == Was::Measured && m.headline.is_some();
    assert!(before.len() >= 5 && before.iter().all(figure), "{before:?}");
    assert!(!since.is_empty() && since.iter().all(|m| m.was != Was::Measured), "{since:?}");
    assert!(since.iter().all(|m| (m.headline, m.tail) == (None, None)), "{since:?}");
    let last = seen.iter().map(|m| m.until).max().unwrap();
    assert!(c.now().wall.since(last) <= seconds(61), "it is noted every minute that it goes on: {last}");
    let alive = figures(&moments(&c, 0, 1), |m| m.at > died);
    assert!(alive.len() >= 10, "others go on: {alive:?}");
}

#[test]
fn history_outlasts_a_coordinator() {
    let mut c = cluster(3, Settings::default());
    c.run_for(seconds(1_200));
    let mut kept = Vec::new();
    let names = c.coordinator().kept_names();
    let from = c.coordinator().matrix().find(&c.endpoint(0)).unwrap();
    c.coordinator().keep_trails(from, 3, &mut kept);
    let before = moments(&c, 0, 1);
    c.kill_coordinator();
    c.run_for(seconds(120));
    c.start_coordinator();
    c.command(|coordinator, now| {
        let numbers = coordinator.restore_names(&names);
        assert_eq!(coordinator.restore_trails(&kept, &numbers), Ok(2));
        coordinator.handle(Event::Tick, now);
    });
    assert!(everybody_is_here(&mut c, 3, seconds(10)));
    c.run_for(seconds(600));
    let after = moments(&c, 0, 1);
    assert_eq!(after[..before.len() - 1], before[..before.len() - 1], "the last one may still grow");
    assert!(after.len() > before.len() + 3, "{after:?}");
}
