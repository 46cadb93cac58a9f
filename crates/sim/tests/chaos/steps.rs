//! Kill -9 of each side after every single event of a probe: whatever it had begun, nothing is left, and the next probe is right.

use crate::check::CELLS;
use crate::world::{Act, World, cell, seconds};
use rdmascope_control::coordinator::Settings;
use rdmascope_localise::Cell;
use rdmascope_model::Cause;
use rdmascope_sim::Cluster;
use std::time::Duration;

/// Causes that say who was killed, and not that something is wrong with the network.
const NAMED: [Cause; 4] = [Cause::AgentGone, Cause::PeerGone, Cause::AgentSilent, Cause::PeerSilent];

/// Two nodes of which nobody measures anything by itself, and a probe of both metrics that has just begun.
fn begun() -> World {
    let mut world = World::new(3, 2, Settings { pings_per_second: 0, ..Settings::default() });
    world.act(&Act::Probe(0, 1));
    world
}

fn is_over(c: &Cluster) -> bool {
    c.coordinator().probes().all(|(_, run)| run.left == 0)
}

#[test]
fn whoever_is_killed_after_whichever_event_of_a_probe_leaves_nothing_behind() {
    let mut world = begun();
    let first = world.c.events();
    assert!(world.c.run_until(seconds(30), is_over));
    let events = world.c.events() - first;
    assert!(events > 30, "lease, set-up, run and report of two probes are more than {events} events");
    let victims = [
        (Act::KillAgent(0), Act::StartAgent(0)),
        (Act::KillAgent(1), Act::StartAgent(1)),
        (Act::KillCoordinator, Act::StartCoordinator),
    ];
    for after in 0..=events {
        // Each moment with one victim, and its neighbours with the others.
        let (kill, start) = &victims[usize::try_from(after % 3).unwrap()];
        let mut world = begun();
        world.c.run_until(seconds(30), |c| c.events() >= first + after);
        world.act(kill);
        assert_eq!(world.complaints(), [""; 0], "{kill:?} after {after} events");
        world.c.run_for(Duration::from_millis(after * 37 % 8_000));
        assert_eq!(world.complaints(), [""; 0], "{kill:?} after {after} events, later");
        if world.coordinator {
            for metric in CELLS {
                match cell(&world.c, metric, 0, 1) {
                    Some(Cell::Known { .. }) => world.is_right(metric, 0, 1),
                    Some(Cell::Failed { failure, .. }) => {
                        assert!(NAMED.contains(&failure.cause), "{kill:?} after {after} events: {failure}");
                    }
                    _ => {}
                }
            }
        }
        world.act(start);
        // Until the end of the old connection has arrived, and everybody has dialled again.
        world.c.run_for(seconds(4));
        assert!(world.everybody_is_here(30), "{kill:?} after {after} events: not everybody is back");
        world.sweep_is_right();
    }
}

#[test]
fn a_coordinator_that_is_killed_at_every_step_of_a_write_has_what_it_acknowledged_and_has_it_once() {
    // Micro-steps of 300 µs through the way of an event: to the coordinator, to its disk, and the word back.
    for step in 0..60 {
        let mut world = World::new(step, 2, Settings { pings_per_second: 0, ..Settings::default() });
        for _ in 0..3 {
            world.act(&Act::Event(0));
            world.act(&Act::Event(1));
            world.c.run_for(Duration::from_micros(step * 300));
        }
        world.act(&Act::KillCoordinator);
        assert_eq!(world.complaints(), [""; 0], "step {step}");
        world.c.run_for(seconds(step % 3));
        world.act(&Act::StartCoordinator);
        assert!(world.everybody_is_here(30));
        world.c.run_for(seconds(1));
        assert_eq!(world.complaints(), [""; 0], "step {step}, started again");
        let safe = world.c.safe_events().count();
        assert_eq!(safe, 6, "step {step}: agents send again what was not acknowledged");
    }
}

#[test]
fn a_full_disk_acknowledges_nothing_and_everything_once_it_has_room() {
    let mut world = World::new(5, 2, Settings { pings_per_second: 0, ..Settings::default() });
    world.act(&Act::DiskFull(true));
    (0..5).for_each(|_| world.act(&Act::Event(0)));
    world.c.run_for(seconds(30));
    assert_eq!((world.c.safe_events().count(), world.c.agent(0).unwrap().events_waiting()), (0, 5));
    world.act(&Act::DiskFull(false));
    world.act(&Act::Event(0));
    world.c.run_for(seconds(1));
    assert_eq!((world.c.safe_events().count(), world.c.agent(0).unwrap().events_waiting()), (6, 0));
    assert_eq!(world.complaints(), [""; 0]);
}
