//! Many schedules of disturbances, each drawn from a seed, over a cluster that measures by itself all the while.

use crate::world::{Act, World, draw};
use rdmascope_control::coordinator::Settings;
use rdmascope_sim::Random;
use std::fmt::Write as _;
use std::time::Duration;

/// Seeds of an ordinary run of the tests.
const SEEDS: u64 = 40;
/// Things that are done in one schedule.
const ACTS: usize = 50;

/// Until the next thing is done: so many events of the whole cluster, for moments within a probe, or so long.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Events(u64),
    For(Duration),
}

/// What is done so far; printed when the test fails, whichever assertion it was.
struct Log(String);

impl Drop for Log {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not '{text}'")))
}

fn run(seed: u64) {
    let mut log = Log(format!(
        "seed {seed}; again: CHAOS_SEED={seed} cargo test -p rdmascope-sim --test chaos schedules\n"
    ));
    let mut random = Random::new(seed);
    let nodes = 2 + usize::try_from(random.below(4)).unwrap();
    // Short, so that a run sees many probes, and cells that go stale.
    let settings =
        Settings { coverage: Duration::from_secs(20), pause: Duration::from_secs(1), ..Settings::default() };
    let mut world = World::new(seed, nodes, settings);
    for _ in 0..ACTS {
        let wait = if random.chance(600_000) {
            Wait::Events(1 + random.below(60))
        } else {
            Wait::For(Duration::from_millis(random.below(20_000)))
        };
        match wait {
            Wait::Events(count) => {
                let then = world.c.events() + count;
                world.c.run_until(Duration::from_secs(20), |c| c.events() >= then);
            }
            Wait::For(time) => world.c.run_for(time),
        }
        let act = draw(&mut random, nodes);
        writeln!(log.0, "  {:?} later, at {:?}: {act:?}", wait, world.c.elapsed()).unwrap();
        world.act(&act);
        // The next moment is disturbed too; now is looked at what this one has done.
        assert_eq!(world.complaints(), [""; 0]);
    }
    writeln!(log.0, "  at {:?}: all is mended", world.c.elapsed()).unwrap();
    world.mend();
    world.recovers();
}

#[test]
fn whatever_is_done_in_whichever_order_nothing_forbidden_happens_and_all_is_well_afterwards() {
    if let Some(seed) = number("CHAOS_SEED") {
        return run(seed);
    }
    (0..number("CHAOS_SEEDS").unwrap_or(SEEDS)).for_each(run);
}

#[test]
fn a_checker_that_sees_everything_as_right_is_none() {
    // The disk forgets what it said it has.
    let mut world = World::new(1, 2, Settings { pings_per_second: 0, ..Settings::default() });
    world.act(&Act::Event(0));
    world.c.run_for(Duration::from_secs(1));
    assert_eq!(world.complaints(), [""; 0]);
    assert_eq!(world.c.safe_events().count(), 1, "it was acknowledged");
    world.c.give_new_disk();
    let told = world.complaints();
    assert!(told.iter().any(|text| text.contains("was acknowledged and is on no disk")), "{told:?}");
}
