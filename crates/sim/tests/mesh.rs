//! What is injected into the wire is what the mesh reports: direction, size, network or host.
//!
//! Two tolerances, both with a reason. Counts are compared with what the wire really did, and must be equal. Rates are compared
//! with what was asked of the wire: of n datagrams that are lost with chance p, np are lost on average with a standard deviation
//! of √(np(1 − p)); five of those are allowed, which one run in three million exceeds.

use rdmascope_model::{Mono, PingCounts};
use rdmascope_probe::mesh::MeshGrant;
use rdmascope_sim::{MeshFabric, Path, Report, WIRE_NS, mesh_name};

const SECOND: u64 = 1_000_000_000;
const SEEDS: [u64; 2] = [1, 2];

fn grant(seconds: u64) -> MeshGrant {
    MeshGrant {
        until: Mono(seconds * SECOND),
        pings_per_second: 100,
        pings_per_batch: 60,
        labels: 1,
        cross_rail_every: 1,
        sweep: None,
    }
}

/// All pings for so many seconds, and then until everything is told.
fn run(fabric: &mut MeshFabric, seconds: u64) {
    fabric.set_grant(Some(grant(1 + seconds)));
    fabric.run_until(Mono((1 + seconds + 5) * SECOND));
}

/// The sums over all batches from one endpoint to another; the direction of a batch's loss that its prober could not tell is
/// taken from what the responder heard, as the coordinator does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    sent: u32,
    answered: u32,
    forward: u32,
    backward: u32,
    late: u32,
    duplicate: u32,
    reordered: u32,
    /// Batches whose direction the prober could not tell.
    untold: u32,
}

fn sum(fabric: &MeshFabric, from: usize, to: usize, large: bool) -> Sum {
    let mut sum = Sum::default();
    for report in of(fabric, from, to) {
        let stats = &report.stats;
        let counts: &PingCounts = if large { &stats.large } else { &stats.small };
        let heard = fabric.heard().iter().filter(|heard| {
            heard.batch == stats.batch && heard.local == mesh_name(to) && heard.peer == mesh_name(from)
        });
        let heard = heard.map(|heard| if large { heard.large } else { heard.small }).max().unwrap_or(0);
        sum.untold += u32::from(counts.lost_forward.is_none());
        assert_eq!(counts.lost_forward.is_none(), counts.lost_backward.is_none());
        sum.sent += counts.sent;
        sum.answered += counts.answered;
        sum.forward += counts.lost_forward.unwrap_or_else(|| counts.sent - heard);
        sum.backward += counts.lost_backward.unwrap_or_else(|| heard - counts.answered - counts.late);
        sum.late += counts.late;
        sum.duplicate += counts.duplicate;
        sum.reordered += counts.reordered;
    }
    sum
}

fn of(fabric: &MeshFabric, from: usize, to: usize) -> impl Iterator<Item = &Report> {
    fabric.reports().iter().filter(move |report| report.from == from && report.to == to)
}

#[track_caller]
fn near(seen: u32, of: u32, per_million: u32) {
    let (n, p) = (f64::from(of), f64::from(per_million) / 1e6);
    let allowed = 5.0 * (n * p * (1.0 - p)).sqrt();
    assert!((f64::from(seen) - n * p).abs() <= allowed, "{seen} of {of} at {per_million} in a million");
}

#[test]
fn loss_is_told_with_its_direction_and_amount() {
    for seed in SEEDS {
        for lost in [1_000, 10_000, 50_000] {
            let mut fabric = MeshFabric::new(seed, 4);
            fabric.set_path(0, 1, Path { lost, ..Path::default() });
            run(&mut fabric, 90);
            for large in [false, true] {
                let size = usize::from(large);
                let (pings, answers) = (sum(&fabric, 0, 1, large), sum(&fabric, 1, 0, large));
                // From 0 to 1 go the pings of 0 and the answers to 1's pings.
                let done = fabric.done(0, 1);
                assert_eq!(
                    pings.forward + answers.backward,
                    done.lost[size],
                    "seed {seed}, {lost}, {pings:?}"
                );
                assert_eq!(pings.sent + answers.sent - answers.forward, done.carried[size]);
                assert_eq!((pings.backward, answers.forward), (0, 0), "the other direction is clean");
                near(pings.forward, pings.sent, lost);
                near(answers.backward, answers.sent, lost);
                assert_eq!(pings.sent, pings.answered + pings.forward);
            }
            for (from, to) in [(2, 3), (0, 2), (3, 1)] {
                let clean = sum(&fabric, from, to, false);
                assert_eq!((clean.forward, clean.backward, clean.sent), (0, 0, clean.answered));
                assert!(clean.sent > 500, "{clean:?}");
            }
        }
    }
}

#[test]
fn a_hole_for_large_datagrams_shows_as_small_fine_and_large_lost() {
    for (from, to) in [(0, 1), (1, 0)] {
        let mut fabric = MeshFabric::new(7, 4);
        fabric.set_path(from, to, Path { large_lost: 1_000_000, ..Path::default() });
        run(&mut fabric, 60);
        let (small, large) = (sum(&fabric, 0, 1, false), sum(&fabric, 0, 1, true));
        assert_eq!((small.sent, small.forward, small.backward), (small.answered, 0, 0));
        assert!(small.sent > 500 && large.sent > 250, "{small:?} {large:?}");
        assert_eq!((large.answered, large.untold), (0, 0));
        let lost = if from == 0 { (large.forward, large.backward) } else { (large.backward, large.forward) };
        assert_eq!(lost, (large.sent, 0), "all of them, in the direction of the hole");
    }
}

#[test]
fn delay_is_the_networks_and_is_told_as_large_as_it_is() {
    let mut fabric = MeshFabric::new(3, 4);
    fabric.set_path(0, 1, Path { delay_ns: 1_000_000, jitter_ns: 300_000, ..Path::default() });
    run(&mut fabric, 60);
    for report in of(&fabric, 0, 1) {
        let network = report.stats.network.unwrap();
        let (least, most) = (2 * WIRE_NS + 700_000, 2 * WIRE_NS + 1_300_000);
        assert!(network.min_ns >= least && network.max_ns <= most, "{network:?}");
        // The median of 40 even draws of ±300 µs has a standard deviation of 300 µs / √40 = 47 µs.
        assert!(network.p50_ns.abs_diff(1_000_000 + 2 * WIRE_NS) < 240_000, "{network:?}");
        assert_eq!((report.stats.responder.unwrap().max_ns, report.stats.prober.unwrap().max_ns), (0, 0));
        assert_eq!(report.stats.host_delayed, 0);
    }
    assert!(of(&fabric, 2, 3).all(|report| report.stats.network.unwrap().max_ns == 2 * WIRE_NS));
}

#[test]
fn a_starved_host_shows_as_its_own_delay_and_not_as_the_networks() {
    let mut fabric = MeshFabric::new(5, 4);
    fabric.set_host_delay(1, 20_000_000);
    run(&mut fabric, 60);
    let all = |from, to| of(&fabric, from, to).map(|report| &report.stats);
    for stats in all(0, 1) {
        assert_eq!(stats.network.unwrap().max_ns, 2 * WIRE_NS, "the network is as it was");
        let responder = stats.responder.unwrap();
        assert!(responder.min_ns >= 20_000_000 && responder.p50_ns < 25_000_000, "{responder:?}");
        assert_eq!(stats.prober.unwrap().max_ns, 0);
    }
    for stats in all(1, 0) {
        assert_eq!((stats.network.unwrap().max_ns, stats.responder.unwrap().max_ns), (2 * WIRE_NS, 0));
        assert!(stats.prober.unwrap().min_ns >= 20_000_000, "{stats:?}");
    }
    assert!(all(0, 1).count() > 5 && all(1, 0).count() > 5);
}

#[test]
fn a_host_that_is_busy_now_and_then_is_counted_as_delayed_pings() {
    let mut fabric = MeshFabric::new(5, 2);
    fabric.set_grant(Some(grant(60)));
    for second in 1..50 {
        fabric.set_host_delay(1, 0);
        fabric.run_until(Mono(second * SECOND + 800_000_000));
        fabric.set_host_delay(1, 8_000_000);
        fabric.run_until(Mono((second + 1) * SECOND));
    }
    let stats: Vec<_> = of(&fabric, 0, 1).map(|report| &report.stats).collect();
    let (delayed, answered): (u32, u32) =
        stats.iter().fold((0, 0), |(d, a), s| (d + s.host_delayed, a + s.small.answered + s.large.answered));
    // A fifth of the time, 20 of 100 pings a second; one at each border may fall on the other side.
    let share = f64::from(delayed) / f64::from(answered);
    assert!((0.18..0.22).contains(&share), "{delayed} of {answered}");
    assert!(stats.iter().all(|s| s.network.unwrap().max_ns == 2 * WIRE_NS));
}

#[test]
fn duplicates_are_told_and_are_no_loss() {
    let mut fabric = MeshFabric::new(11, 2);
    fabric.set_path(0, 1, Path { doubled: 20_000, ..Path::default() });
    run(&mut fabric, 120);
    let pings = [sum(&fabric, 0, 1, false), sum(&fabric, 0, 1, true)];
    let answers = [sum(&fabric, 1, 0, false), sum(&fabric, 1, 0, true)];
    let told: u32 = pings.iter().chain(&answers).map(|sum| sum.duplicate).sum();
    // A doubled ping is answered twice, a doubled answer is there twice. Not told: of a batch's last ping, when the batch is
    // over before the second one is there.
    let (done, batches) = (fabric.done(0, 1).doubled, fabric.reports().len());
    assert!(told <= done && (done - told) as usize <= batches / 10, "{told} of {done} in {batches} batches");
    near(pings[0].duplicate, pings[0].sent, 20_000);
    for sum in pings.iter().chain(&answers) {
        assert_eq!((sum.forward, sum.backward, sum.sent), (0, 0, sum.answered));
    }
}

#[test]
fn overtaken_answers_are_told_and_are_no_loss() {
    let mut fabric = MeshFabric::new(13, 2);
    fabric.set_path(0, 1, Path { overtaken: 30_000, ..Path::default() });
    run(&mut fabric, 120);
    let sums = [(0, 1, false), (0, 1, true), (1, 0, false), (1, 0, true)]
        .map(|(from, to, large)| sum(&fabric, from, to, large));
    let told: u32 = sums.iter().map(|sum| sum.reordered).sum();
    let done = fabric.done(0, 1).overtaken;
    // Not told: the last two of a batch, which nothing of the batch overtakes, and one whose follower was held up as well.
    assert!(told <= done && f64::from(told) > 0.9 * f64::from(done), "{told} of {done}");
    for sum in sums {
        assert_eq!((sum.forward, sum.backward, sum.sent), (0, 0, sum.answered));
    }
}

#[test]
fn a_dead_direction_is_known_only_with_what_the_responder_heard() {
    let mut fabric = MeshFabric::new(17, 4);
    fabric.set_path(1, 0, Path { lost: 1_000_000, ..Path::default() });
    run(&mut fabric, 60);
    let (pings, back) = (sum(&fabric, 0, 1, false), sum(&fabric, 1, 0, false));
    assert!(pings.untold > 5 && back.untold > 5, "no answer told a direction: {pings:?} {back:?}");
    assert!(of(&fabric, 0, 1).all(|report| report.stats.network.is_none()));
    assert_eq!(
        (pings.answered, pings.forward, pings.backward),
        (0, 0, pings.sent),
        "1 heard all, its answers died"
    );
    assert_eq!((back.answered, back.forward, back.backward), (0, back.sent, 0), "0 heard nothing");
    assert_eq!(sum(&fabric, 2, 1, false).untold, 0, "others are fine");
}

#[test]
fn a_restarted_peer_is_stale_and_not_lost() {
    for seed in SEEDS {
        let mut fabric = MeshFabric::new(seed, 2);
        fabric.set_grant(Some(grant(61)));
        for second in [10, 20, 30, 40] {
            fabric.run_until(Mono(second * SECOND + 70_000_000 * seed));
            fabric.restart(1);
            // The new book is there 100 ms later: before the batch at hand is over.
            fabric.run_until(Mono(second * SECOND + 70_000_000 * seed + 100_000_000));
            fabric.hand_out_book();
        }
        fabric.run_until(Mono(66 * SECOND));
        let stale: u32 = of(&fabric, 0, 1).map(|report| report.stats.stale).sum();
        let (small, large) = (sum(&fabric, 0, 1, false), sum(&fabric, 0, 1, true));
        assert_eq!((small.sent, large.sent), (small.answered, large.answered), "seed {seed}");
        // Two or three moments of four pings in 100 ms, four times.
        assert!((32..=48).contains(&stale), "{stale} stale with seed {seed}");
        assert!(small.sent > 3_500, "{small:?}");
    }
}

#[test]
fn sixteen_endpoints_with_trouble_everywhere_report_exactly_what_the_wire_did() {
    let mut fabric = MeshFabric::new(23, 16);
    for from in 0..16 {
        for to in (0..16).filter(|&to| to != from) {
            let lost = (from * 16 + to) as u32 * 200;
            fabric.set_path(from, to, Path { lost, jitter_ns: 50_000, ..Path::default() });
        }
    }
    run(&mut fabric, 120);
    for from in 0..16 {
        assert_eq!(fabric.refused(from), 0, "answers of endpoint {from} were refused");
        for to in (0..16).filter(|&to| to != from) {
            for large in [false, true] {
                let (pings, answers) = (sum(&fabric, from, to, large), sum(&fabric, to, from, large));
                let done = fabric.done(from, to).lost[usize::from(large)];
                assert_eq!(pings.forward + answers.backward, done, "{from} to {to}: {pings:?} {answers:?}");
            }
        }
    }
}
