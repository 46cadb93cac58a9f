//! The fabric does to packets what was asked of it.
//!
//! Shares are compared with five standard deviations of a binomial draw, which one run in three million exceeds.

use super::topology::tests::layout;
use super::*;
use rdmascope_localise::Way;

#[derive(serde::Deserialize)]
struct File {
    fabric: Parameters,
}

pub(crate) fn parameters() -> Parameters {
    let text = include_str!("../../../../tests/faults.yaml");
    serde_yaml::from_str::<File>(text).unwrap().fabric
}

/// Nothing but the wire: no noise, no load, no jobs.
pub(crate) fn bare() -> Parameters {
    let usual = parameters();
    Parameters {
        noise: Noise { loss_per_million: 0.0, jitter: 0.0, tail_share: 0.0, ..usual.noise },
        load: Load { mean: 0.0, ..usual.load },
        jobs: Jobs { share: 0.0, ..usual.jobs },
        ..usual
    }
}

fn packet(from: usize, to: usize, label: u32) -> Packet {
    Packet { from, to, label, large: false, at: 1_000_000_000 }
}

#[track_caller]
fn near(seen: usize, of: usize, share: f64) {
    let (n, seen) = (of as f64, seen as f64);
    let allowed = 5.0 * (n * share * (1.0 - share)).sqrt();
    assert!((seen - n * share).abs() <= allowed, "{seen} of {n}, {share} was asked for");
}

#[test]
fn labels_spread_a_pair_evenly_over_the_spines_and_each_keeps_its_own() {
    let net = Net::new(&layout(8, 1, 4, 4), &bare(), 7);
    let mut counts = [0; 4];
    for label in 1..=4_000 {
        let spine = net.spine(0, 6, label).unwrap();
        assert_eq!(net.spine(0, 6, label), Some(spine));
        counts[spine] += 1;
    }
    counts.into_iter().for_each(|count| near(count, 4_000, 0.25));
    assert_eq!(net.spine(0, 1, 5), None, "both hang on one leaf");
}

#[test]
fn what_is_lost_and_added_is_what_was_injected_and_nowhere_else() {
    let mut net = Net::new(&layout(8, 1, 4, 2), &bare(), 3);
    net.add_fault(Spot::Endpoint(2, Way::Out), Harm { loss: 0.05, delay_ns: 7_000.0, ..Harm::default() });
    let mut random = Random::new(1);
    let mut lost = 0;
    for label in 0..20_000 {
        match net.carry(&packet(2, 6, label), &mut random) {
            None => lost += 1,
            Some(ns) => {
                let bare = net.bare_ns(2, 6, net.spine(2, 6, label), false) as u64;
                assert!((ns - 7_000).abs_diff(bare) <= 1, "{ns} on a way of {bare}");
            }
        }
        let back = net.carry(&packet(6, 2, label), &mut random).unwrap();
        assert!(back < 5_000, "the way back is as it was");
    }
    near(lost, 20_000, 0.05);
}

#[test]
fn one_bad_spine_loses_what_hashes_onto_it() {
    let mut net = Net::new(&layout(8, 1, 4, 4), &bare(), 3);
    net.add_fault(Spot::Spine(0, 1), Harm { loss: 1.0, ..Harm::default() });
    let mut random = Random::new(1);
    for label in 0..1_000 {
        let lost = net.carry(&packet(1, 7, label), &mut random).is_none();
        assert_eq!(lost, net.spine(1, 7, label) == Some(1));
    }
}

#[test]
fn noise_has_the_median_of_the_wire_and_a_heavy_tail() {
    let usual = parameters();
    let quiet = Parameters { jobs: Jobs { share: 0.0, ..usual.jobs.clone() }, ..usual };
    let net = Net::new(&layout(8, 1, 4, 2), &quiet, 3);
    let mut random = Random::new(1);
    let mut times: Vec<u64> = (0..200_000).filter_map(|_| net.carry(&packet(0, 1, 0), &mut random)).collect();
    times.sort_unstable();
    let bare = net.bare_ns(0, 1, None, false) as u64;
    let (median, last) = (times[times.len() / 2], times[times.len() - 2]);
    assert!(median.abs_diff(bare) < bare / 20, "{median} on a wire of {bare}");
    assert!(last > 20 * bare, "of 200,000 packets the second slowest took {last}");
    near(200_000 - times.len(), 200_000, 2e-6);
}

#[test]
fn the_day_decides_how_many_packets_wait_and_oversubscription_those_that_leave_the_leaf() {
    let load = Load { mean: 0.2, swing: 0.5, queue_ns: 100_000.0 };
    let busy = Parameters { load, ..bare() };
    let over = Layout { oversubscription: 2.0, ..layout(8, 1, 4, 2) };
    let net = Net::new(&over, &busy, 3);
    let mut random = Random::new(1);
    let mut waits = |from, to, hour: u64| {
        let at = (hour * 3_600 + 5) * 1_000_000_000;
        let slow = |net: &Net, random: &mut Random| {
            net.carry(&Packet { at, ..packet(from, to, 0) }, random).is_some_and(|ns| ns > 5_000)
        };
        (0..20_000).filter(|_| slow(&net, &mut random)).count()
    };
    // Of waits with a mean of 100 µs one in fifty is below 2 µs.
    let share = |busy: f64| busy * 0.98;
    near(waits(0, 1, 6), 20_000, share(0.3));
    near(waits(0, 1, 18), 20_000, share(0.1));
    near(waits(0, 7, 6), 20_000, share(0.6));
}

#[test]
fn a_starved_host_holds_datagrams_and_the_network_does_not() {
    let mut net = Net::new(&layout(4, 2, 2, 2), &parameters(), 3);
    net.starve(1, 0, 0.5);
    let mut random = Random::new(1);
    let mut slow = |end| {
        let times = (0..10_000).map(|i| 1_000_000_000 + i * 10_000_000_u64);
        times.filter(|&at| net.held(end, at, &mut random).unwrap().ns > 5_000_000).count()
    };
    let both = [slow(2), slow(3)];
    // Half of each tenth of a second is taken; of what remains of a stop of 50 ms the last 5 are not counted.
    assert!(
        both.iter().all(|slow| (4_000..5_500).contains(slow)),
        "both endpoints of the node wait: {both:?}"
    );
    assert!(slow(0) < 20 && slow(4) < 20);
}

#[test]
fn the_same_seed_makes_the_same_fabric_and_another_one_another() {
    let ways = |seed| {
        let net = Net::new(&layout(8, 1, 4, 4), &parameters(), seed);
        let mut random = Random::new(seed);
        (0..100).map(|label| net.carry(&packet(0, 7, label), &mut random)).collect::<Vec<_>>()
    };
    assert_eq!(ways(5), ways(5));
    assert_ne!(ways(5), ways(6));
}
