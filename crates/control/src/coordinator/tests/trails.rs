//! Whose history is kept, and for how long.

use super::*;
use rdmascope_localise::{Because, FEW_ENDPOINTS, Matrix, Measured, Moment, PAIRS_MAX, Was};
use rdmascope_model::Exclusion;

fn index(bench: &Bench, node: &str) -> EndpointIndex {
    bench.c.find_endpoint(node).unwrap()
}

fn because(bench: &Bench, source: &str, target: &str) -> Option<Because> {
    let trail = bench.c.trail(index(bench, source), index(bench, target), bench.now.wall);
    trail.map(|trail| trail.because)
}

fn moments(bench: &Bench, source: &str, target: &str) -> Vec<Moment> {
    let trail = bench.c.trail(index(bench, source), index(bench, target), bench.now.wall);
    trail.and_then(|trail| trail.pair).map(|pair| pair.moments(Metric::Latency)).unwrap_or_default()
}

/// Tells of the latency of a pair, as measured now.
fn measured(bench: &mut Bench, source: u64, target: u64, p50_ns: u64) {
    let result = ProbeResult {
        lease: None,
        local: format!("n{source}/d/1").parse().unwrap(),
        peer: format!("n{target}/d/1").parse().unwrap(),
        role: Role::Source,
        metric: Some(Metric::Latency),
        measured_at: bench.now.wall,
        outcome: latency(p50_ns),
        effects: None,
        evidence: String::new(),
    };
    bench.frame(source, ToCoordinator::Results(vec![result]));
}

/// A coordinator that has so many endpoints, of which only the first two have agents; every pair has a latency, and those that `n5` takes
/// part in have the largest, n5 -> n0 before n5 -> n1 and so on.
fn filled(endpoints: u64) -> Bench {
    let mut bench = Bench::apart(quiet(), 2);
    let names: Vec<EndpointName> = (0..endpoints).map(|at| format!("n{at}/d/1").parse().unwrap()).collect();
    let mut matrix = Matrix::default();
    let all: Vec<_> = names.iter().map(|name| matrix.intern(name)).collect();
    for (&a, &b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))).filter(|(a, b)| a != b) {
        let slow = u64::from(a.0 == 5) * 50_000 - u64::from(a.0 == 5) * u64::from(b.0);
        let Outcome::Latency(stats, delta) = latency(2_000 + slow + u64::from(a.0 * 7 + b.0 * 3) % 100)
        else {
            panic!("a latency")
        };
        matrix.record(a, b, bench.now.wall, &Measured::Latency(stats, delta));
    }
    let numbers = bench.c.restore_names(&names);
    for &source in &all {
        let mut part = Vec::new();
        matrix.keep(Metric::Latency, source, endpoints as u32, &mut part);
        bench.c.restore(&part, &numbers, bench.now).unwrap();
    }
    bench
}

/// So many minutes in which the agents live.
fn live(bench: &mut Bench, minutes: u64) {
    for _ in 0..minutes * 6 {
        bench.pass(Duration::from_secs(10));
        bench.frame(0, ToCoordinator::heartbeat(PauseFlags::default()));
        bench.frame(1, ToCoordinator::heartbeat(PauseFlags::default()));
    }
}

#[test]
fn among_few_endpoints_every_pair_has_a_history_with_what_was_not_measured() {
    let mut bench = Bench::apart(quiet(), 3);
    let began = bench.now.wall;
    measured(&mut bench, 0, 1, 2_000);
    assert_eq!(because(&bench, "n0", "n1"), Some(Because::FewEndpoints));
    assert_eq!(because(&bench, "n2", "n0"), Some(Because::FewEndpoints), "although nothing is known of it");
    let seen = moments(&bench, "n0", "n1");
    assert_eq!((seen[0].at, seen[0].headline, seen[0].tail), (began, Some(2_000), Some(2_000)));
    // Nobody measures it again: it is stale from when it is, and a maintenance has a name.
    live(&mut bench, 20);
    let stale = moments(&bench, "n0", "n1")[1..].to_vec();
    assert!(
        !stale.is_empty() && stale.iter().all(|m| m.was == Was::Stale && m.headline.is_none()),
        "{stale:?}"
    );
    let fresh_for = bench.c.fresh_for();
    assert!((fresh_for..fresh_for + Duration::from_secs(70)).contains(&stale[0].at.since(began)));
    bench.c.maintain("n1", Some(Duration::from_secs(3_600)), String::new(), bench.now).unwrap();
    live(&mut bench, 2);
    let last = moments(&bench, "n0", "n1").last().map(|m| m.was);
    assert_eq!(last, Some(Was::Excluded(Exclusion::Maintenance)));
    assert_eq!(moments(&bench, "n2", "n0"), [], "of what was never measured there is nothing to tell");
}

#[test]
fn among_many_the_worst_are_kept_and_stay_for_an_hour() {
    let mut bench = filled(130);
    assert!(bench.c.matrix().len() > FEW_ENDPOINTS);
    live(&mut bench, 2);
    assert_eq!(bench.c.matrix().trails().len(), 1_000);
    assert_eq!(because(&bench, "n5", "n0"), Some(Because::Worst));
    let known = moments(&bench, "n5", "n7")[0];
    assert_eq!((known.was, known.headline.is_some()), (Was::Measured, true), "it begins with what is known");
    let not_kept = (0..130).filter(|at| because(&bench, "n0", &format!("n{at}")).is_none()).count();
    assert!(not_kept > 100, "{not_kept}");
    // Nothing is fresh any more, so nobody is the worst of those that are; what was goes on for an hour, with what is measured.
    live(&mut bench, 30);
    measured(&mut bench, 0, 1, 900_000);
    live(&mut bench, 2);
    assert_eq!(because(&bench, "n0", "n1"), Some(Because::Worst), "the worst by now");
    bench.pass(Duration::from_secs(1));
    measured(&mut bench, 0, 1, 2_000);
    assert_eq!(moments(&bench, "n0", "n1").last().map(|m| m.headline), Some(Some(2_000)));
    assert_eq!(because(&bench, "n5", "n0"), Some(Because::Worst), "within the hour");
    live(&mut bench, 45);
    assert_eq!(because(&bench, "n5", "n0"), None);
    assert_eq!(because(&bench, "n0", "n1"), Some(Because::Worst), "it was the worst later");
    live(&mut bench, 61);
    assert!(bench.c.matrix().trails().is_empty());
}

#[test]
fn what_is_pinned_is_kept_until_it_is_not_pinned_any_more_and_notes_are_written_down() {
    let mut bench = filled(130);
    live(&mut bench, 1);
    let [a, b] = ["n20", "n30"].map(|node| index(&bench, node));
    assert_eq!(because(&bench, "n20", "n30"), None);
    let refused = bench.c.pin(a, b, false, bench.now).unwrap_err();
    assert!(refused.to_string().contains("n20/d/1 -> n30/d/1 is not pinned"), "{refused}");
    bench.take();
    bench.c.pin(a, b, true, bench.now).unwrap();
    assert_eq!(bench.take(), [Action::KeepNotes]);
    assert_eq!(
        (because(&bench, "n20", "n30"), moments(&bench, "n20", "n30").len()),
        (Some(Because::Pinned), 1)
    );
    live(&mut bench, 150);
    assert_eq!(because(&bench, "n20", "n30"), Some(Because::Pinned));
    let pins: Vec<_> = bench.c.pins().cloned().collect();
    bench.c.pin(a, b, false, bench.now).unwrap();
    assert_eq!((because(&bench, "n20", "n30"), bench.c.pins().count()), (Some(Because::Worst), 0));
    live(&mut bench, 61);
    assert_eq!(because(&bench, "n20", "n30"), None, "an hour later");
    bench.c.restore_pins(pins);
    bench.pass(Duration::from_secs(1));
    bench.handle(Event::Tick);
    assert_eq!(because(&bench, "n20", "n30"), Some(Because::Pinned), "as after a restart");
}

#[test]
fn pins_are_bounded() {
    let mut bench = filled(130);
    let mut pin = |a: u32, b: u32| bench.c.pin(EndpointIndex(a), EndpointIndex(b), true, bench.now);
    let pairs = (0..130).flat_map(|a| (0..130).map(move |b| (a, b))).filter(|(a, b)| a != b);
    assert!(pairs.clone().take(1_000).all(|(a, b)| pin(a, b).is_ok()));
    assert_eq!(pin(0, 1), Ok(()), "it is pinned already");
    assert!(
        matches!(pin(99, 98), Err(CommandError::Conflict(text)) if text.contains("1000 pairs are pinned"))
    );
    assert!(bench.c.matrix().trails().len() <= PAIRS_MAX);
}

#[test]
fn when_few_endpoints_become_many_what_was_kept_stays_for_an_hour() {
    let mut bench = filled(128);
    bench.pass(Duration::from_secs(1));
    measured(&mut bench, 0, 1, 2_000);
    live(&mut bench, 2);
    assert_eq!(because(&bench, "n0", "n1"), Some(Because::FewEndpoints));
    bench.c.restore_names(&["new/d/1".parse().unwrap()]);
    live(&mut bench, 50);
    assert_eq!(because(&bench, "n0", "n1"), Some(Because::FewEndpoints));
    assert_eq!(because(&bench, "n0", "new"), None);
    live(&mut bench, 15);
    assert_eq!(because(&bench, "n0", "n1"), None);
}
