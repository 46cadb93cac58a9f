//! Two coordinators by mistake, agents of older versions, clocks that are set, and connections of which 30 % of the frames break them.

use crate::world::{Act, World, pairs, seconds, state};
use rdmascope_control::coordinator::Settings;
use rdmascope_localise::CellState;
use rdmascope_model::Metric;
use rdmascope_sim::Cluster;

const NODES: usize = 4;

fn fresh(c: &Cluster) -> usize {
    pairs(NODES).filter(|&(a, b)| state(c, Metric::Latency, a, b) == Some(CellState::Fresh)).count()
}

fn measured(seed: u64) -> World {
    let mut world = World::new(seed, NODES, Settings::default());
    assert!(world.c.run_until(seconds(600), |c| fresh(c) == NODES * (NODES - 1)));
    world
}

#[test]
fn a_second_coordinator_with_an_older_epoch_gets_nobody_and_nothing_done() {
    let mut world = measured(1);
    world.act(&Act::StartRival(true));
    for _ in 0..30 {
        (0..NODES).for_each(|host| world.act(&Act::Reset(host)));
        world.c.run_for(seconds(10));
        assert_eq!(world.complaints(), [""; 0]);
        let rival = world.c.rival().unwrap();
        assert_eq!((rival.leases_running(), rival.matrix().len()), (0, 0), "it was told of no endpoint");
    }
    world.act(&Act::StopRival);
    let all = world.c.run_until(seconds(600), |c| fresh(c) == NODES * (NODES - 1));
    assert!(all, "the right one, which nobody started again, measures everything");
}

#[test]
fn agents_go_to_the_newer_of_two_coordinators_and_never_back() {
    let mut world = measured(2);
    world.act(&Act::StartRival(false));
    let newer = world.c.rival().unwrap().epoch();
    let all_there = |c: &Cluster| c.rival().is_some_and(|rival| rival.members().connected() == NODES);
    for _ in 0..40 {
        (0..NODES).for_each(|host| world.act(&Act::Reset(host)));
        world.c.run_until(seconds(20), all_there);
        assert_eq!(world.complaints(), [""; 0]);
    }
    // Whoever has dialled the newer one once obeys it alone.
    for _ in 0..40 {
        for host in 0..NODES {
            if world.c.agent(host).is_some_and(|agent| agent.epoch() < newer) {
                world.act(&Act::Reset(host));
            }
        }
        world.c.run_for(seconds(20));
    }
    assert!((0..NODES).all(|host| world.c.agent(host).unwrap().epoch() == newer));
    assert!(world.c.run_until(seconds(60), all_there), "everybody is at the newer one");
    assert_eq!(world.complaints(), [""; 0]);
    world.mend();
    world.recovers();
}

#[test]
fn agents_one_and_two_versions_behind_are_measured_like_the_others_and_asked_for_nothing_new() {
    let mut world = World::new(4, NODES, Settings::default());
    for (host, newest) in [(0, 1), (1, 2), (2, 3)] {
        world.act(&Act::Protocol(host, newest));
        world.act(&Act::Reset(host));
    }
    assert!(world.everybody_is_here(30));
    let spoken = |host: usize| {
        let members = world.c.coordinator().members();
        members.agent(&format!("node-{host}")).unwrap().protocol
    };
    assert_eq!([0, 1, 2].map(spoken), [1, 2, 3]);
    (0..3).for_each(|host| world.act(&Act::Event(host)));
    world.act(&Act::Sweep(true));
    world.c.run_for(seconds(400));
    assert_eq!(fresh(&world.c), NODES * (NODES - 1));
    assert_eq!(world.complaints(), [""; 0]);
    assert_eq!(world.c.safe_events().count(), 2, "version 1 knows no events: its agent keeps its own");
    assert_eq!(world.c.agent(0).unwrap().events_waiting(), 1);
    // It is updated, and tells.
    world.act(&Act::Protocol(0, 3));
    world.act(&Act::Reset(0));
    assert!(world.everybody_is_here(30));
    world.c.run_for(seconds(1));
    assert_eq!((world.c.safe_events().count(), world.complaints()), (3, Vec::new()));
}

#[test]
fn agents_that_come_while_no_port_works_are_measured_when_ports_work_again() {
    let mut world = measured(3);
    (0..NODES).for_each(|host| world.act(&Act::PortDown(host)));
    world.c.run_for(seconds(10));
    (0..NODES).for_each(|host| world.act(&Act::Reset(host)));
    world.c.run_for(seconds(30));
    assert_eq!(
        world.c.coordinator().members().connected(),
        NODES,
        "everybody is back, and nobody can be probed"
    );
    (0..NODES).for_each(|host| world.act(&Act::PortUp(host)));
    world.recovers();
}

#[test]
fn with_three_frames_of_ten_breaking_their_connection_nothing_is_believed_that_is_not_so() {
    for seed in 0..4 {
        let mut world = measured(10 + seed);
        world.act(&Act::Breaks(300_000));
        for host in 0..NODES {
            (0..5).for_each(|_| world.act(&Act::Event(host)));
        }
        for _ in 0..30 {
            world.c.run_for(seconds(10));
            assert_eq!(world.complaints(), [""; 0], "seed {seed}");
        }
        world.mend();
        world.recovers();
        assert_eq!(world.c.safe_events().count(), 5 * NODES, "every event arrived in the end");
    }
}

#[test]
fn what_is_old_is_not_new_because_a_clock_was_set() {
    for (agent_ms, coordinator_ms) in
        [(3_600_000, 0), (-3_600_000, 0), (0, -3_600_000), (0, 3_600_000), (86_400_000, -86_400_000)]
    {
        let mut world = measured(20);
        (0..NODES).for_each(|host| world.act(&Act::AgentClock(host, agent_ms)));
        world.act(&Act::KeepMatrix);
        world.act(&Act::KillCoordinator);
        // Longer than anything is fresh for: whatever agents and disk bring back is old.
        world.c.run_for(seconds(600));
        world.act(&Act::CoordinatorClock(coordinator_ms));
        world.act(&Act::StartCoordinator);
        assert!(world.everybody_is_here(30));
        assert_eq!(world.complaints(), [""; 0], "{agent_ms} {coordinator_ms}");
        world.mend();
        world.recovers();
    }
}
