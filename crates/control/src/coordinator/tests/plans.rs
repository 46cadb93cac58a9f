//! What a sweep is made of: rails, nodes, classes, random partners, budgets; what it says before it begins; and who is left out.

use super::*;
use rdmascope_model::{Exclusion, ProbeSpec};
use std::collections::BTreeMap;

const RATE: u64 = 100_000_000_000;

/// Nodes `n0`, `n1`, … with devices `d0`, `d1`, … in the same PCI slots everywhere, which makes rails of them.
fn railed(nodes: u64, rails: u64, settings: Settings) -> Bench {
    let mut bench = Bench::new(settings);
    for node in 0..nodes {
        bench.hello(node, &format!("n{node}"), &format!("m{node}"));
        let device = |rail: u64| EndpointInfo {
            pci_address: Some(format!("0000:{rail:02x}:00.0")),
            rate_bps: Some(RATE),
            ..endpoint(&format!("n{node}/d{rail}/1"))
        };
        bench.inventory(node, (0..rails).map(device).collect());
    }
    bench.take();
    bench
}

fn order(metrics: &[Metric]) -> SweepOrder {
    SweepOrder { metrics: metrics.to_vec(), drained: true, ..SweepOrder::default() }
}

const LATENCY: &[Metric] = &[Metric::Latency];
const BANDWIDTH: &[Metric] = &[Metric::Bandwidth];

/// Full names of source and target.
type Pair = (String, String);

/// Runs a sweep to its end: the pairs in the order in which they began, and how many ran at the same time at most.
fn run(bench: &mut Bench, order: &SweepOrder, outcome: impl Fn(&ProbePlan) -> Outcome) -> (Vec<Pair>, usize) {
    bench.c.start_sweep_of(order, bench.now).unwrap();
    let (mut begun, mut running, mut most) = (Vec::new(), Vec::new(), 0);
    loop {
        let new = bench.take_leases();
        let sources = new.iter().filter(|(_, plan)| plan.role == Role::Source);
        begun.extend(sources.map(|(_, plan)| (plan.local.to_string(), plan.peer.to_string())));
        running.extend(new);
        most = most.max(running.len() / 2);
        if running.is_empty() {
            break;
        }
        bench.pass(Duration::from_millis(10));
        for connection in 0..bench.c.members().connected() as u64 {
            bench.frame(connection, ToCoordinator::heartbeat(PauseFlags::default()));
        }
        let lease = running[0].1.lease;
        let (over, go_on) = running.into_iter().partition(|(_, plan)| plan.lease == lease);
        running = go_on;
        let over: Vec<(ConnectionId, ProbePlan)> = over;
        for (connection, plan) in &over {
            let stream = plan.spec.load() != rdmascope_model::Load::Spins;
            let passive = stream && plan.role == Role::Target;
            bench.report(*connection, plan, if passive { Outcome::Served } else { outcome(plan) });
        }
    }
    assert!(
        bench.c.sweep().unwrap().finished_at.is_some(),
        "{:?}",
        bench.c.sweep().map(|s| (s.done, s.total))
    );
    (begun, most)
}

fn fine(plan: &ProbePlan) -> Outcome {
    completed(plan.spec.metric().unwrap())
}

/// The rail in a name of [`railed`].
fn rail(name: &str) -> &str {
    name.split('/').nth(1).unwrap()
}

#[test]
fn a_sweep_is_by_rail_and_across_rails_where_somebody_asks_for_it() {
    let mut bench = railed(4, 3, quiet());
    let plan = bench.c.plan_sweep(&order(LATENCY), bench.now).unwrap();
    assert_eq!((plan.endpoints, plan.rails, plan.without_rail), (12, 3, 0));
    assert_eq!((plan.pairs, plan.probes, plan.rounds), (36, 18, 3));
    let (pairs, _) = run(&mut bench, &order(LATENCY), fine);
    assert_eq!(pairs.len(), 18);
    assert!(pairs.iter().all(|(a, b)| rail(a) == rail(b)), "{pairs:?}");

    let all = SweepOrder { cross_rail: true, ..order(LATENCY) };
    let plan = bench.c.plan_sweep(&all, bench.now).unwrap();
    assert_eq!((plan.pairs, plan.probes), (6 * 9 * 2, 6 * 9));
    let (pairs, _) = run(&mut bench, &all, fine);
    let distinct: BTreeSet<_> = pairs.iter().collect();
    assert_eq!((pairs.len(), distinct.len()), (54, 54));
}

#[test]
fn rails_that_are_not_routed_to_each_other_are_never_crossed_and_count_as_excluded() {
    let mut bench = railed(3, 2, Settings { rails_routed: false, ..quiet() });
    let all = SweepOrder { cross_rail: true, ..order(LATENCY) };
    let refused = bench.c.plan_sweep(&all, bench.now).unwrap_err().to_string();
    assert!(refused.contains("rails_routed"), "{refused}");
    run(&mut bench, &order(LATENCY), fine);
    let index = |name: &str| bench.c.find_endpoint(name).unwrap();
    let shown = bench.c.shown(bench.now.wall);
    let cell = shown.cell(Metric::Latency, index("n0/d0"), index("n1/d1"));
    assert!(matches!(cell, Cell::Excluded { why: Exclusion::Policy, .. }), "{cell:?}");
    assert!(matches!(shown.cell(Metric::Latency, index("n0/d0"), index("n1/d0")), Cell::Known { .. }));
}

#[test]
fn a_quick_sweep_gives_everybody_so_many_partners() {
    let mut bench = railed(8, 2, quiet());
    let quick = SweepOrder { quick: Some(3), seed: Some(5), ..order(LATENCY) };
    let plan = bench.c.plan_sweep(&quick, bench.now).unwrap();
    assert_eq!((plan.pairs, plan.probes, plan.rounds), (2 * 24, 24, 3));
    let (pairs, _) = run(&mut bench, &quick, fine);
    let mut partners: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (a, b) in &pairs {
        assert!(partners.entry(a).or_default().insert(b) && partners.entry(b).or_default().insert(a));
    }
    assert_eq!(partners.len(), 16);
    assert!(partners.values().all(|with| with.len() == 3), "{partners:?}");
    let again = run(&mut bench, &quick, fine).0;
    let sorted = |pairs: &[Pair]| pairs.iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(sorted(&again), sorted(&pairs), "the same seed, the same partners");
    let other = run(&mut bench, &SweepOrder { seed: Some(6), ..quick }, fine).0;
    assert_ne!(sorted(&other), sorted(&pairs));
}

#[test]
fn a_job_has_its_nodes_and_devices_probed_and_nobody_elses() {
    let mut bench = railed(6, 3, quiet());
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let job = SweepOrder {
        nodes: Some(names(&["n1", "n4", "n5"])),
        devices: names(&["d0", "d2"]),
        ..order(LATENCY)
    };
    let (pairs, _) = run(&mut bench, &job, fine);
    assert_eq!(pairs.len(), 6);
    let meant =
        |name: &String| ["n1/", "n4/", "n5/"].iter().any(|node| name.starts_with(node)) && rail(name) != "d1";
    assert!(pairs.iter().all(|(a, b)| meant(a) && meant(b)), "{pairs:?}");

    let unknown = SweepOrder { nodes: Some(names(&["n1", "n77"])), ..order(LATENCY) };
    assert!(
        matches!(bench.c.plan_sweep(&unknown, bench.now), Err(CommandError::UnknownNode(text)) if text.contains("n77"))
    );
    let unknown = SweepOrder { devices: names(&["mlx5_9"]), ..order(LATENCY) };
    assert!(
        matches!(bench.c.plan_sweep(&unknown, bench.now), Err(CommandError::Unknown(text)) if text.contains("d0, d1"))
    );
}

#[test]
fn what_is_measured_in_another_class_stays_with_the_sweep() {
    let mut bench = railed(3, 1, quiet());
    run(&mut bench, &order(LATENCY), |_| latency(2_000));
    let marked = SweepOrder { class: Some(26), ..order(LATENCY) };
    let failure = |plan: &ProbePlan| Failure {
        cause: Cause::PathLost,
        step: Step::Measure,
        side: plan.role.side(),
        evidence: String::new(),
    };
    run(&mut bench, &marked, |plan| {
        assert_eq!(plan.manner.marks.traffic_class, 26 << 2);
        let lost = plan.local.node == "n2" || plan.peer.node == "n2";
        if lost { Outcome::Failed(failure(plan)) } else { latency(9_000) }
    });
    let sweep = bench.c.sweep().unwrap();
    assert_eq!((sweep.class, sweep.failed, sweep.found.len()), (Some(26), 2, 6));
    let good: Vec<_> = sweep.found.iter().filter_map(|found| found.value.ok()).collect();
    assert_eq!(good, [9_000, 9_000], "both directions of n0 and n1");
    assert!(
        sweep
            .found
            .iter()
            .filter_map(|found| found.value.err())
            .all(|miss| miss == Miss::Failed(Cause::PathLost))
    );
    for (source, target) in [("n0", "n1"), ("n0", "n2")] {
        let cell = bench.cell(Metric::Latency, source, target);
        assert!(
            matches!(cell, Cell::Known { measured, .. } if measured.headline() == Some(2_000)),
            "as it was"
        );
    }
    let wrong = SweepOrder { class: Some(64), ..order(LATENCY) };
    assert!(bench.c.plan_sweep(&wrong, bench.now).is_err());
}

#[test]
fn every_pass_measures_every_pair_beside_others() {
    let mut bench = railed(6, 1, quiet());
    let thrice = SweepOrder { passes: 3, ..order(LATENCY) };
    assert_eq!(bench.c.plan_sweep(&thrice, bench.now).unwrap().probes, 45);
    let (pairs, _) = run(&mut bench, &thrice, fine);
    let mut times: BTreeMap<Pair, usize> = BTreeMap::new();
    pairs.iter().for_each(|pair| *times.entry(pair.clone()).or_default() += 1);
    assert_eq!((times.len(), times.values().all(|times| *times == 3)), (15, true), "{times:?}");
    assert!(bench.c.plan_sweep(&SweepOrder { passes: 11, ..order(LATENCY) }, bench.now).is_err());
}

#[test]
fn no_more_pairs_run_at_the_same_time_than_the_budgets_allow() {
    let budget = Settings { pairs_at_once: 3, ..quiet() };
    assert_eq!(run(&mut railed(12, 1, budget), &order(LATENCY), fine).1, 3);
    for per_node in [1, 3] {
        let settings = Settings { streams_per_node: per_node, ..quiet() };
        let mut bench = railed(2, 4, settings);
        assert_eq!(run(&mut bench, &order(BANDWIDTH), fine).1, per_node as usize, "one pair of nodes");
    }
}

/// A stream that sent so many bytes.
fn sent(bytes: u64) -> Outcome {
    let stats = BandwidthStats {
        bytes,
        duration_ns: 200_000_000,
        average_bps: 1_000_000_000,
        worst_window_bps: None,
        variation_permille: None,
        completions: 100,
    };
    Outcome::Bandwidth(stats, CounterDelta { retransmits: None })
}

#[test]
fn a_sweep_that_would_send_too_much_is_refused_and_one_that_does_ends_there() {
    // 12 streams of 220 ms at 100 Gb/s are 33 GB; each of them may send ten.
    let limited = |gigabytes: u64| Settings { sweep_bytes_max: gigabytes * 1_000_000_000, ..quiet() };
    let mut bench = railed(4, 1, limited(32));
    assert_eq!(bench.c.plan_sweep(&order(LATENCY), bench.now).unwrap().bytes, 6 * 2 * 8 * 1_100);
    let refused = bench.c.start_sweep_of(&order(BANDWIDTH), bench.now).unwrap_err().to_string();
    assert!(refused.contains("33 GB") && refused.contains("gigabytes_max"), "{refused}");
    assert!(bench.c.sweep().is_none());

    let mut bench = railed(4, 1, limited(33));
    assert_eq!(bench.c.plan_sweep(&order(BANDWIDTH), bench.now).unwrap().bytes, 33_000_000_000);
    let (pairs, _) = run(&mut bench, &order(BANDWIDTH), |_| sent(2_500_000_000));
    let sweep = bench.c.sweep().unwrap();
    assert_eq!((pairs.len(), sweep.excluded, sweep.out_of_bytes), (12, 0, false));
    assert_eq!(sweep.bytes_sent, 12 * 2_502_500_000, "with its 20 ms of warm-up");

    // Ports that send all that they may.
    let mut bench = railed(4, 1, limited(33));
    let (pairs, most) = run(&mut bench, &order(BANDWIDTH), |_| sent(20_000_000_000));
    let sweep = bench.c.sweep().unwrap();
    assert_eq!(
        (pairs.len(), sweep.excluded, sweep.out_of_bytes),
        (4, 8, true),
        "the last one with what was left"
    );
    assert!(sweep.bytes_sent <= 33_000_000_000 && most <= 3, "{} bytes", sweep.bytes_sent);
    assert!(matches!(bench.cell(Metric::Bandwidth, "n0", "n1"), Cell::Known { .. } | Cell::Never));
}

#[test]
fn who_fails_with_everybody_is_given_up_and_named() {
    let mut bench = railed(9, 1, quiet());
    let (pairs, _) = run(&mut bench, &order(LATENCY), |plan| {
        let dead = plan.local.node == "n3" || plan.peer.node == "n3";
        let failure = Failure {
            cause: Cause::PathLost,
            step: Step::Measure,
            side: plan.role.side(),
            evidence: String::new(),
        };
        if dead { Outcome::Failed(failure) } else { latency(2_000) }
    });
    let sweep = bench.c.sweep().unwrap();
    let given_up: Vec<_> =
        sweep.given_up.iter().map(|index| bench.c.matrix().name(*index).node.clone()).collect();
    assert_eq!(given_up, ["n3"]);
    assert_eq!((pairs.len(), sweep.failed, sweep.excluded, sweep.done), (28 + 6, 6, 2, 36));
    assert_eq!(bench.c.leases_running(), 0);
}

#[test]
fn thousands_of_pairs_that_are_known_to_fail_do_not_stop_the_coordinator() {
    let mut bench = railed(70, 1, quiet());
    for node in 0..70 {
        let down = EndpointInfo { unusable: Some(Cause::PortDown), ..endpoint(&format!("n{node}/d0/1")) };
        bench.inventory(node, vec![down]);
    }
    bench.c.start_sweep_of(&order(LATENCY), bench.now).unwrap();
    let settled = bench.c.sweep().unwrap().done;
    assert!((1..=2_000).contains(&settled), "{settled} of 2,415 at once");
    let wakeup = bench.c.next_wakeup().unwrap().since(bench.now.mono);
    assert!(wakeup > Duration::ZERO && wakeup <= Duration::from_millis(1), "{wakeup:?}");
    bench.pass(wakeup);
    bench.handle(Event::Tick);
    let sweep = bench.c.sweep().unwrap();
    assert_eq!((sweep.failed, sweep.finished_at.is_some()), (2_415, true));
}

/// Nodes that a list has, with what it says of them.
fn listed(nodes: &[&str]) -> BTreeMap<String, String> {
    nodes.iter().map(|node| ((*node).to_owned(), "drained: bad DIMM".to_owned())).collect()
}

#[test]
fn nodes_that_a_list_has_in_maintenance_are_left_out_silenced_and_come_back() {
    let mut bench = railed(4, 1, quiet());
    run(&mut bench, &order(LATENCY), fine);
    bench.pass(Duration::from_secs(1));
    let since = bench.now.wall;
    bench.c.set_listed(listed(&["n2", "elsewhere"]), bench.now);
    assert_eq!(bench.c.health().maintenance_of("n2").unwrap().note, "drained: bad DIMM");
    let plan = bench.c.plan_sweep(&order(LATENCY), bench.now).unwrap();
    assert_eq!((plan.endpoints, plan.in_maintenance, plan.pairs), (3, 1, 6));
    let index = |bench: &Bench, name: &str| bench.c.find_endpoint(name).unwrap();
    let shown = |bench: &Bench| {
        let cells = bench.c.shown(bench.now.wall);
        cells.cell(Metric::Latency, index(bench, "n0"), index(bench, "n2"))
    };
    let why = Exclusion::Maintenance;
    assert_eq!(shown(&bench), Cell::Excluded { at: since, why }, "what it was before says nothing of it now");
    // Whoever names it has it probed: before it is handed over again.
    bench.pass(Duration::from_secs(1));
    let named = SweepOrder { nodes: Some(vec!["n0".into(), "n2".into()]), ..order(LATENCY) };
    assert_eq!(run(&mut bench, &named, fine).0.len(), 1);
    assert!(matches!(shown(&bench), Cell::Known { .. }), "measured since");
    // The list is read again and says the same: nothing happens, and the beginning stays.
    let events = bench.c.health().events().count();
    bench.c.set_listed(listed(&["n2", "elsewhere"]), bench.now);
    assert_eq!(bench.c.health().events().count(), events);
    assert_eq!(bench.c.health().maintenance_of("n2").unwrap().since, since);
    bench.c.set_listed(BTreeMap::new(), bench.now);
    assert!(bench.c.health().maintenance_of("n2").is_none());
    assert_eq!(run(&mut bench, &order(LATENCY), fine).0.len(), 6);
    let told: Vec<_> =
        bench.c.health().events().filter(|row| row.node == "n2").map(|row| row.text.clone()).collect();
    assert_eq!(told[..2], ["the maintenance of n2 is over", "n2 is in maintenance: drained: bad DIMM"]);
}

#[test]
fn a_maintenance_that_begins_in_mid_sweep_keeps_the_rest_of_its_pairs_out() {
    let mut bench = railed(4, 1, quiet());
    bench.c.start_sweep_of(&order(LATENCY), bench.now).unwrap();
    let first = bench.take_leases();
    bench.c.maintain("n3", Some(Duration::from_secs(3_600)), "new cable".to_owned(), bench.now).unwrap();
    bench.complete(&first);
    loop {
        let leases = bench.take_leases();
        if leases.is_empty() {
            break;
        }
        assert!(leases.iter().all(|(_, plan)| plan.local.node != "n3"), "{leases:?}");
        bench.complete(&leases);
    }
    let sweep = bench.c.sweep().unwrap();
    assert_eq!((sweep.done, sweep.excluded, sweep.finished_at.is_some()), (6, 2, true));
}

#[test]
fn the_first_guess_of_a_plan_becomes_what_probes_take_here() {
    let mut bench = railed(8, 1, quiet());
    let guess = bench.c.plan_sweep(&order(LATENCY), bench.now).unwrap().time;
    assert_eq!(guess, 7 * Duration::from_millis(16), "seven rounds");
    run(&mut bench, &order(LATENCY), fine);
    let learned = bench.c.plan_sweep(&order(LATENCY), bench.now).unwrap().time;
    // In this play the oldest of four probes ends every 10 ms.
    assert!(
        learned > 7 * Duration::from_millis(20) && learned < 7 * Duration::from_millis(50),
        "{learned:?}"
    );
    let live =
        bench.c.plan_sweep(&SweepOrder { drained: false, ..order(BANDWIDTH) }, bench.now).unwrap().time;
    assert_eq!(live, 14 * Duration::from_millis(2_600), "a port rests after each stream");
}

#[test]
fn an_endpoint_whose_rate_nobody_knows_counts_with_all_that_it_may_send() {
    let mut bench = Bench::apart(quiet(), 2);
    let ProbeSpec::Bandwidth(spec) = ProbeSpec::usual(Metric::Bandwidth) else { panic!("a stream") };
    assert_eq!(bench.c.plan_sweep(&order(BANDWIDTH), bench.now).unwrap().bytes, 2 * spec.bytes_max);
    bench.inventory(0, vec![EndpointInfo { rate_bps: Some(RATE), ..endpoint("n0/d/1") }]);
    bench.inventory(1, vec![EndpointInfo { rate_bps: Some(RATE / 10), ..endpoint("n1/d/1") }]);
    assert_eq!(
        bench.c.plan_sweep(&order(BANDWIDTH), bench.now).unwrap().bytes,
        2 * 275_000_000,
        "by the slower port"
    );
}
