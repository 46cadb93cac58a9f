//! Whole verdicts: what is broken in a made-up cluster is what is blamed, and nothing else.

use super::told::Told;
use super::world::{Fault, World};
use crate::{Component, Confidence, Effect, EndpointIndex, IncidentState, PlaceIndex, Reason, Way};
use rdmascope_model::Status;
use std::time::Duration;

const SEEDS: u64 = 3;

fn endpoint(at: u32) -> Component {
    Component::Endpoint(EndpointIndex(at))
}

fn pair(a: u32, b: u32) -> Component {
    Component::Pair(EndpointIndex(a), EndpointIndex(b))
}

fn leaf(at: u32) -> PlaceIndex {
    PlaceIndex(at)
}

/// 32 nodes with an endpoint each, eight below each leaf: what is open so many seconds after a fault began.
fn after(seed: u64, faults: &[Fault], seconds: u64) -> World {
    let mut world = World::new(seed, 32, 1, 8);
    world.faults = faults.to_vec();
    world.warm_up();
    world.run(seconds);
    world
}

/// Four nodes of which no leaf is known, as in a virtual machine.
fn four_without_leaves(seed: u64) -> World {
    let mut world = World::new(seed, 4, 1, 4);
    world.places.of.iter_mut().flatten().for_each(|place| place.leaf = None);
    world.places.leaves.clear();
    world.moved();
    world
}

/// The fault alone is open in the end, and nothing else ever was.
#[track_caller]
fn blames(fault: Fault, seconds: u64, effect: Effect, way: Way) {
    for seed in 0..SEEDS {
        let world = after(seed, &[fault], seconds);
        let told: Vec<_> = world.opened.iter().map(|(_, incident)| incident.title.clone()).collect();
        assert_eq!(world.open(), [vec![fault.at]], "seed {seed}: {told:?}");
        assert_eq!(world.opened.len(), 1, "seed {seed}: {told:?}");
        let suspect = &world.opened[0].1.suspect;
        assert_eq!((suspect.effect, suspect.way), (effect, way), "seed {seed}: {told:?}");
    }
}

#[test]
fn an_endpoint_is_named_with_its_effect_and_its_way() {
    let lossy = |loss| Fault::lossy(endpoint(5), loss);
    blames(lossy(1.0), 30, Effect::Dead, Way::Both);
    blames(lossy(0.2), 30, Effect::Lossy, Way::Both);
    blames(Fault { way: Way::Out, ..lossy(0.2) }, 30, Effect::Lossy, Way::Out);
    blames(Fault { way: Way::In, ..lossy(1.0) }, 30, Effect::Dead, Way::In);
    blames(Fault { large_only: true, ..lossy(1.0) }, 30, Effect::LargeLost, Way::Both);
    blames(Fault::slow(endpoint(5), 1.6), 40, Effect::Slow, Way::Both);
}

/// Names of the endpoints that are blamed in the end, one list for each incident, when this node's is broken.
fn blamed(seed: u64, order: &[usize], node: usize, loss: f64, slower: f64) -> Vec<Vec<String>> {
    let mut world = World::in_order(seed, order, 1, 8);
    let culprit = order.iter().position(|at| *at == node).unwrap();
    let at = endpoint(u32::try_from(culprit).unwrap());
    world.faults = vec![Fault { loss, slower, ..Fault::new(at) }];
    world.warm_up();
    world.run(60);
    let name = |component: Component| match component {
        Component::Endpoint(index) => world.matrix.name(index).node.clone(),
        other => format!("{other:?}"),
    };
    world.open().into_iter().map(|components| components.into_iter().map(name).collect()).collect()
}

#[test]
fn whichever_endpoint_breaks_is_named_whatever_its_number_and_however_many_healthy_ones_come() {
    for seed in 0..6_u64 {
        let mut random = super::world_random::Random(seed);
        let mut below = |bound: usize| usize::try_from(random.draw() % bound as u64).unwrap();
        let nodes = 16 + 8 * below(3);
        let node = below(nodes);
        let (loss, slower) = [(1.0, 1.0), (0.3, 1.0), (0.0, 1.8)][below(3)];
        let own: Vec<usize> = (0..nodes).collect();
        // Fisher and Yates: any order is as likely as any other.
        let mut mixed = own.clone();
        (1..nodes).rev().for_each(|at| mixed.swap(at, below(at + 1)));
        let more: Vec<usize> = (0..nodes + 16).collect();
        for (what, order) in [("as they are", &own), ("in another order", &mixed), ("with 16 more", &more)] {
            let told = blamed(seed, order, node, loss, slower);
            let what = format!("seed {seed}, {nodes} nodes {what}: loss {loss}, {slower} times as slow");
            assert_eq!(told, [[format!("n{node}")]], "{what}");
        }
    }
}

#[test]
fn a_dead_endpoint_is_named_within_ten_seconds() {
    for seed in 0..SEEDS {
        let world = after(seed, &[Fault::lossy(endpoint(5), 1.0)], 10);
        assert_eq!(world.open(), [vec![endpoint(5)]]);
    }
}

#[test]
fn leaves_and_what_is_above_them_are_told_from_their_look_alikes() {
    blames(Fault::lossy(Component::Leaf(leaf(1)), 0.1), 40, Effect::Lossy, Way::Both);
    blames(Fault::lossy(Component::Uplinks(leaf(1)), 0.1), 40, Effect::Lossy, Way::Both);
    blames(Fault::lossy(Component::LeafPair(leaf(0), leaf(1)), 0.2), 40, Effect::Lossy, Way::Both);
    blames(Fault::lossy(Component::Spines, 0.1), 40, Effect::Lossy, Way::Both);
}

#[test]
fn a_pair_is_named_within_a_coverage_time() {
    blames(Fault::lossy(pair(3, 20), 1.0), 150, Effect::Dead, Way::Both);
    blames(Fault { way: Way::Out, ..Fault::lossy(pair(3, 20), 0.4) }, 150, Effect::Lossy, Way::Out);
}

#[test]
fn a_slow_host_is_no_slow_adapter() {
    let at = Component::Node(PlaceIndex(5));
    blames(Fault { host_ns: 5_000_000, ..Fault::new(at) }, 30, Effect::HostSlow, Way::Both);
}

#[test]
fn two_faults_are_two_incidents() {
    let faults = [Fault::lossy(endpoint(2), 1.0), Fault::lossy(endpoint(30), 0.3)];
    let mut open = after(1, &faults, 40).open();
    open.sort();
    assert_eq!(open, [vec![endpoint(2)], vec![endpoint(30)]]);
}

#[test]
fn what_cannot_be_told_apart_is_named_together() {
    // The last of 17 nodes hangs on a leaf of its own.
    let mut world = World::new(2, 17, 1, 8);
    world.faults = vec![Fault::lossy(endpoint(16), 1.0)];
    world.warm_up();
    world.run(40);
    let alike = vec![endpoint(16), Component::Leaf(leaf(2)), Component::Uplinks(leaf(2))];
    assert_eq!(world.open(), [alike]);
}

#[test]
fn what_a_job_sends_to_a_node_for_half_of_each_second_is_no_slow_endpoint() {
    for seed in 0..SEEDS {
        let queue = Fault { of_second_ms: 450, ..Fault::slow(endpoint(5), 4.0) };
        let world = after(seed, &[queue], 120);
        assert!(world.opened.is_empty(), "seed {seed}: {:?}", world.opened);
        assert!(world.retests > 0, "it was doubted");
    }
}

#[test]
fn an_endpoint_that_is_away_for_two_seconds_again_and_again_is_named_as_such() {
    for seed in 0..SEEDS {
        let mut world = after(seed, &[], 0);
        for _ in 0..6 {
            let (from_ms, until_ms) = (world.now_ms + 3_000, world.now_ms + 5_000);
            world.faults = vec![Fault { from_ms, until_ms, ..Fault::lossy(endpoint(5), 1.0) }];
            world.run(12);
        }
        let wrong = world.opened.iter().filter(|(_, opened)| opened.suspect.components != [endpoint(5)]);
        assert_eq!(wrong.count(), 0, "seed {seed}: {:?}", world.opened);
    }
}

#[test]
fn a_healthy_cluster_with_heavy_tails_has_no_incident() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, 32, 1, 8);
        world.noise_loss = 5e-5;
        world.noise = (0.04, 0.02);
        world.warm_up();
        world.run(600);
        assert!(world.opened.is_empty(), "{:?}", world.opened);
    }
}

#[test]
fn an_incident_ends_with_its_fault_and_comes_back_as_the_same() {
    let fault = Fault { until_ms: 30_000, ..Fault::lossy(endpoint(5), 1.0) };
    let mut world = after(1, &[fault], 25);
    assert_eq!(world.open(), [vec![endpoint(5)]]);
    // What comes and goes is expected back for a minute.
    world.run(120);
    assert!(world.open().is_empty());
    assert!(world.incidents.all().iter().any(|incident| incident.state == IncidentState::Closed));
    let again = Fault { from_ms: world.now_ms, until_ms: u64::MAX, ..fault };
    world.faults = vec![again];
    world.run(20);
    let numbers: Vec<u64> = world.opened.iter().map(|(_, incident)| incident.id).collect();
    assert_eq!((numbers.len(), numbers[0]), (2, numbers[1]), "one incident, told twice");
}

#[test]
fn what_was_lost_while_an_agent_started_anew_says_nothing_of_its_endpoint() {
    let fault = Fault { until_ms: 4_000, ..Fault::lossy(endpoint(5), 1.0) };
    let run = |forgiven: bool| {
        let mut world = World::new(1, 32, 1, 8);
        world.faults = vec![fault];
        world.warm_up();
        let back = rdmascope_model::Wall(world.now_ms + 14_000);
        let from = |at| if forgiven && at == 5 { back } else { rdmascope_model::Wall(0) };
        world.counted_from = (0..32).map(from).collect();
        world.run(40);
        world.incidents.all().len() + world.retests
    };
    assert!(run(false) > 0, "else nobody would have noticed");
    assert_eq!(run(true), 0);
}

fn told(component: Component, id: &str, status: Status) -> Told {
    let reason = Reason {
        id: id.to_owned(),
        node: "n5".to_owned(),
        subject: "mlx5_0/1".to_owned(),
        status,
        summary: "rx pause storm".to_owned(),
        next_step: "look at the receiver".to_owned(),
        since_ms: 0,
    };
    Told { component, reason }
}

#[test]
fn what_a_node_tells_of_itself_is_the_reason_of_what_the_matrix_shows() {
    let mut world = World::new(1, 32, 1, 8);
    world.faults = vec![Fault::slow(endpoint(5), 1.6)];
    world.told =
        vec![told(endpoint(5), "pause-storm", Status::Warn), told(endpoint(9), "pause-storm", Status::Warn)];
    world.warm_up();
    world.run(40);
    assert_eq!(world.open(), [vec![endpoint(5)]], "a warning alone is no incident");
    let suspect = &world.opened[0].1.suspect;
    assert_eq!((suspect.reasons.len(), suspect.confidence), (1, Confidence::High));
    assert!(world.opened[0].1.title.contains("rx pause storm"), "{}", world.opened[0].1.title);
}

#[test]
fn a_node_that_says_that_it_is_broken_is_believed_at_once_and_not_while_somebody_works_on_it() {
    let mut world = World::new(1, 32, 1, 8);
    world.told = vec![told(endpoint(5), "port-state", Status::Fail)];
    world.warm_up();
    world.look();
    assert_eq!(world.open(), [vec![endpoint(5)]]);
    let mut quiet = World::new(1, 32, 1, 8);
    quiet.told = vec![told(endpoint(5), "port-state", Status::Fail)];
    quiet.silenced = (0..32).map(|at| at == 5).collect();
    quiet.warm_up();
    quiet.look();
    assert!(quiet.open().is_empty());
}

#[test]
fn streams_are_compared_within_a_tier_and_a_narrow_one_has_a_direction() {
    let mut world = World::new(1, 32, 1, 8);
    // Half of the ports are slower by design, which is no fault.
    for place in world.places.of.iter_mut().flatten().step_by(2) {
        place.rate_bps = Some(100_000_000_000);
    }
    world.moved();
    world.faults = vec![Fault { way: Way::In, narrower: 0.7, ..Fault::new(endpoint(5)) }];
    for _ in 0..3 {
        world.now_ms += 2_000;
        for a in 0..32 {
            (0..32).filter(|&b| b != a).for_each(|b| world.stream(a, b));
        }
        world.look();
    }
    assert_eq!(world.open(), [vec![endpoint(5)]]);
    let suspect = &world.opened[0].1.suspect;
    assert_eq!((suspect.effect, suspect.way), (Effect::Narrow, Way::In));
}

#[test]
fn a_cluster_that_is_narrow_throughout_is_below_the_ceiling() {
    let mut world = World::new(1, 32, 1, 32);
    world.ceilings = vec![Some(392_000_000_000); 32];
    world.faults = vec![Fault { narrower: 0.6, ..Fault::new(Component::Cluster) }];
    for _ in 0..4 {
        world.now_ms += 2_000;
        for a in 0..32 {
            (0..32).filter(|&b| b != a).for_each(|b| world.stream(a, b));
        }
        world.look();
    }
    // With one leaf only, that leaf is all that the pairs have in common.
    assert_eq!(world.open(), [vec![Component::Leaf(leaf(0))]]);
}

#[test]
fn one_dead_endpoint_of_four_without_known_leaves_is_named_although_the_others_hosts_are_busy() {
    for (seed, way) in [(0, Way::Both), (1, Way::In), (2, Way::Out)] {
        let mut world = four_without_leaves(seed);
        world.warm_up();
        let busy = |node| Fault { host_ns: 5_000_000, ..Fault::new(Component::Node(PlaceIndex(node))) };
        world.faults = vec![Fault { way, ..Fault::lossy(endpoint(1), 1.0) }, busy(0), busy(2), busy(3)];
        world.run(60);
        assert!(world.open().contains(&vec![endpoint(1)]), "seed {seed}, {way:?}: {:?}", world.opened);
    }
}

#[test]
fn what_is_lost_beside_hosts_that_stand_still_is_blamed_unless_their_buffers_ran_over() {
    for seed in 0..SEEDS {
        let open = |buffers_last| {
            let mut world = World::new(seed, 4, 1, 4);
            world.buffers_last = buffers_last;
            world.warm_up();
            // 150 ms at the longest, in every batch: an emulated machine, or one with too few processors.
            let busy = |node| Fault { host_ns: 50_000_000, ..Fault::new(Component::Node(PlaceIndex(node))) };
            let lossy = Fault { way: Way::In, ..Fault::lossy(endpoint(2), 0.05) };
            world.faults = (0..4).map(busy).chain([lossy]).collect();
            world.run(90);
            let blamed: Vec<_> = world.opened.iter().map(|(_, incident)| incident.suspect.effect).collect();
            (world.open().contains(&vec![endpoint(2)]), blamed.contains(&Effect::Lossy))
        };
        assert_eq!(
            open(Duration::from_secs(1)),
            (true, true),
            "seed {seed}: no buffer runs over at 10 pings a second"
        );
        assert_eq!(
            open(Duration::from_millis(20)),
            (false, false),
            "seed {seed}: the hosts may have lost it"
        );
    }
}

#[test]
fn a_delay_that_no_fabric_has_is_blamed_although_all_hosts_are_busy() {
    for seed in 0..SEEDS {
        let mut world = four_without_leaves(seed);
        // As in an emulated machine: figures of one pair differ by a factor of two.
        world.noise = (0.7, 0.01);
        world.warm_up();
        let busy = |node| Fault { host_ns: 5_000_000, ..Fault::new(Component::Node(PlaceIndex(node))) };
        world.faults = (0..4).map(busy).chain([Fault::slow(endpoint(2), 5_000.0)]).collect();
        world.run(90);
        assert!(world.open().contains(&vec![endpoint(2)]), "seed {seed}: {:?}", world.opened);
    }
}
