//! "Never hurt the job", on the coordinator's side: caps, the share of a port, forced probes, and streams that were given up.

use super::*;
use rdmascope_model::{Congestion, Exclusion, ProbeSpec};
use rdmascope_probe::limits::live_bytes_max;

const RATE: u64 = 100_000_000_000;

/// Nodes with ports of a known rate; the first half hangs on `leaf-a`, the rest on `leaf-b`.
fn cluster(count: u64, settings: Settings) -> Bench {
    let mut bench = Bench::new(settings);
    for i in 0..count {
        bench.hello(i, &format!("n{i}"), &format!("m{i}"));
        bench.inventory(i, vec![EndpointInfo { rate_bps: Some(RATE), ..endpoint(&format!("n{i}/d/1")) }]);
    }
    bench.take();
    bench
}

pub(super) fn two_leaves(count: u64, streams_per_leaf: u32) -> Settings {
    let leaf = |i| if i < count / 2 { "leaf-a" } else { "leaf-b" };
    let leaves = (0..count).map(|i| (format!("n{i}"), leaf(i).to_owned())).collect();
    Settings { streams_per_leaf, leaves, ..quiet() }
}

/// Runs the sweep that was begun, and answers how many streams ran at the same time at the most: between leaves, and within them.
fn most_at_once(bench: &mut Bench, count: u64) -> (usize, usize) {
    let leaf = |plan: &ProbePlan, name: &EndpointName| {
        assert!(plan.spec.load() == rdmascope_model::Load::Streams);
        name.node[1..].parse::<u64>().unwrap() < count / 2
    };
    let (mut crossing, mut within) = (0, 0);
    let mut running = bench.take_leases();
    while !running.is_empty() {
        let sources = running.iter().filter(|(_, plan)| plan.role == Role::Source);
        let cross =
            sources.clone().filter(|(_, plan)| leaf(plan, &plan.local) != leaf(plan, &plan.peer)).count();
        crossing = crossing.max(cross);
        within = within.max(sources.count() - cross);
        let lease = running[0].1.lease;
        let (over, go_on): (Vec<_>, Vec<_>) = running.into_iter().partition(|(_, plan)| plan.lease == lease);
        bench.complete(&over);
        running = go_on;
        running.extend(bench.take_leases());
    }
    assert!(bench.c.sweep().unwrap().finished_at.is_some(), "nothing waits for ever");
    assert_eq!(bench.c.leases_running(), 0);
    (crossing, within)
}

#[test]
fn streams_across_a_leafs_uplinks_are_capped_and_those_within_it_are_not() {
    for cap in [1, 2] {
        let mut bench = cluster(12, two_leaves(12, cap));
        bench.sweep(&[Metric::Bandwidth]).unwrap();
        let (crossing, within) = most_at_once(&mut bench, 12);
        assert_eq!(crossing, cap as usize, "on drained nodes too: others share the uplinks");
        assert!(within > 2, "{within}");
        assert_eq!(bench.c.sweep().unwrap().failed, 0);
    }
}

#[test]
fn without_leaves_only_nodes_are_capped() {
    let mut bench = cluster(12, Settings { streams_per_leaf: 1, ..quiet() });
    bench.sweep(&[Metric::Bandwidth]).unwrap();
    let (crossing, _) = most_at_once(&mut bench, 12);
    assert!(crossing > 2, "{crossing}");
    // A node that the file does not name still shares the other end's uplinks.
    let mut settings = two_leaves(12, 1);
    settings.leaves.retain(|node, _| node != "n11");
    let mut bench = cluster(12, settings);
    bench.sweep(&[Metric::Bandwidth]).unwrap();
    assert_eq!(most_at_once(&mut bench, 12).0, 1);
}

fn bytes_of(plan: &ProbePlan) -> u64 {
    match plan.spec {
        ProbeSpec::Bandwidth(spec) => spec.bytes_max,
        other => panic!("{other:?} is no stream"),
    }
}

#[test]
fn on_nodes_that_may_work_streams_are_short_and_a_port_rests_after_each() {
    let mut bench = cluster(2, quiet());
    let slow = EndpointInfo { rate_bps: Some(RATE / 10), ..endpoint("n1/d/1") };
    bench.inventory(1, vec![slow]);
    bench.take();
    bench.c.start_sweep(&[Metric::Bandwidth], false, bench.now).unwrap();
    let first = bench.take_leases();
    assert_eq!(pairs(&first), [("n0".to_owned(), "n1".to_owned())]);
    assert!(
        first.iter().all(|(_, plan)| bytes_of(plan) == live_bytes_max(RATE / 10)),
        "the slower port's share"
    );
    bench.complete(&first);
    let second = bench.take_leases();
    assert_eq!(
        pairs(&second),
        [("n1".to_owned(), "n0".to_owned())],
        "the other direction of both ports has rested"
    );
    bench.complete(&second);

    bench.c.start_sweep(&[Metric::Bandwidth], false, bench.now).unwrap();
    assert_eq!(pairs(&bench.take_leases()).len(), 0, "10 % of the rate: both have to rest");
    let mut waited = Duration::ZERO;
    let next = loop {
        let wakeup = bench.c.next_wakeup().expect("it waits for time alone");
        let step = wakeup.since(bench.now.mono);
        assert!(step > Duration::ZERO, "woken at once, again and again");
        waited += step;
        bench.pass(step);
        bench.handle(Event::Tick);
        let leases = bench.take_leases();
        if !leases.is_empty() {
            break leases;
        }
    };
    assert_eq!(pairs(&next).len(), 1);
    assert_eq!(
        waited,
        Duration::from_millis(2_600),
        "a quarter of a second is a tenth of 2.5 s; and some for the way"
    );
}

#[test]
fn on_drained_nodes_nothing_is_held_back() {
    let mut bench = cluster(2, quiet());
    for _ in 0..2 {
        bench.sweep(&[Metric::Bandwidth]).unwrap();
        let leases = bench.take_leases();
        assert!(leases.iter().all(|(_, plan)| bytes_of(plan) > live_bytes_max(RATE)));
        bench.complete(&leases);
        let leases = bench.take_leases();
        bench.complete(&leases);
        assert!(bench.c.sweep().unwrap().finished_at.is_some());
    }
}

fn forced_rows(bench: &Bench) -> Vec<(String, String)> {
    let rows = bench.c.health().events().filter(|row| row.kind == RowKind::ForcedProbe);
    let mut rows: Vec<_> = rows.map(|row| (row.node.clone(), row.text.clone())).collect();
    rows.reverse();
    rows
}

#[test]
fn a_forced_probe_names_one_pair_and_both_nodes_histories_have_its_beginning_and_its_end() {
    let mut bench = cluster(3, quiet());
    let id = bench.c.start_forced_probe("n0", "n1", &[Metric::Bandwidth], bench.now).unwrap();
    let leases = bench.take_leases();
    assert_eq!(pairs(&leases), [("n0".to_owned(), "n1".to_owned())]);
    assert!(leases.iter().all(|(_, plan)| plan.urgency == Urgency::Forced));
    assert!(leases.iter().all(|(_, plan)| bytes_of(plan) == live_bytes_max(RATE)), "the floors hold");
    let began = "the forced probe n0/d/1 -> n1/d/1 of bandwidth was ordered; it must begin within 60 s";
    let row = |node: &str, text: &str| (node.to_owned(), text.to_owned());
    assert_eq!(forced_rows(&bench), [row("n0", began), row("n1", began)]);
    bench.complete(&leases);
    assert_eq!(bench.c.probe(id).unwrap().left, 0);
    let over = "the forced probe n0/d/1 -> n1/d/1 is over";
    assert_eq!(forced_rows(&bench)[2..], [row("n0", over), row("n1", over)]);
    bench.pass(Duration::from_secs(100));
    bench.handle(Event::Tick);
    assert_eq!(forced_rows(&bench).len(), 4, "told once");
}

/// Lets time pass while both agents say that they live.
fn live_on(bench: &mut Bench, seconds: u64) {
    for _ in 0..seconds {
        bench.pass(Duration::from_secs(1));
        for connection in [0, 1] {
            bench.frame(connection, ToCoordinator::heartbeat(PauseFlags::default()));
        }
    }
}

#[test]
fn a_forced_probe_that_cannot_begin_in_time_never_does() {
    let mut bench = cluster(2, quiet());
    // Twelve that are not answered keep both ends busy for 80 s.
    for _ in 0..12 {
        bench.c.start_probe("n0", "n1", &[Metric::Bandwidth], true, bench.now).unwrap();
    }
    let id = bench.c.start_forced_probe("n0", "n1", &[Metric::Bandwidth], bench.now).unwrap();
    live_on(&mut bench, 59);
    assert_eq!(bench.c.probe(id).unwrap().left, 1, "it waits");
    live_on(&mut bench, 2);
    assert_eq!(bench.c.probe(id).unwrap().left, 0);
    let rows = forced_rows(&bench);
    assert_eq!(rows.len(), 4);
    assert!(rows[3].1.ends_with("ran out: what had not begun by then was not run"), "{}", rows[3].1);
    live_on(&mut bench, 60);
    assert!(bench.take_leases().iter().all(|(_, plan)| plan.urgency != Urgency::Forced));
}

#[test]
fn an_agent_that_knows_no_forced_probes_is_not_asked_for_one() {
    let mut bench = cluster(1, quiet());
    bench.frame(1, ToCoordinator::Hello(Hello { protocol_max: 2, ..hello("n1", "m1") }));
    bench.inventory(1, vec![endpoint("n1/d/1")]);
    let error = bench.c.start_forced_probe("n0", "n1", &[Metric::Bandwidth], bench.now).unwrap_err();
    assert!(error.to_string().contains("n1") && error.to_string().contains("update"), "{error}");
    assert_eq!(forced_rows(&bench), []);
}

#[test]
fn a_pause_holds_against_a_forced_probe() {
    let mut bench = cluster(2, quiet());
    bench.c.set_pause(None, |flags| flags.all = true, bench.now).unwrap();
    let error = bench.c.start_forced_probe("n0", "n1", &[Metric::Bandwidth], bench.now).unwrap_err();
    assert!(error.to_string().contains("paused"), "{error}");
    bench.c.set_pause(None, |flags| *flags = PauseFlags { all: false, bandwidth: true }, bench.now).unwrap();
    bench.c.start_forced_probe("n0", "n1", &[Metric::Bandwidth], bench.now).unwrap();
    assert_eq!(bench.take_leases().len(), 0);
    assert!(matches!(
        bench.cell(Metric::Bandwidth, "n0", "n1"),
        Cell::Excluded { why: Exclusion::Policy, .. }
    ));
    assert_eq!(forced_rows(&bench).len(), 4, "ordered, and over");
}

fn given_up(seen: Option<BandwidthStats>) -> Outcome {
    Outcome::Aborted(seen, CounterDelta { retransmits: Some(3) }, Congestion::Pauses)
}

#[test]
fn a_stream_that_was_given_up_is_evidence_and_neither_a_failure_nor_a_figure() {
    let seen = BandwidthStats {
        bytes: 1 << 28,
        duration_ns: 80_000_000,
        average_bps: 26_843_000_000,
        variation_permille: None,
        worst_window_bps: None,
        completions: 40,
    };
    for role in [Role::Source, Role::Target] {
        let mut bench = cluster(2, quiet());
        bench.c.start_probe("n0", "n1", &[Metric::Bandwidth], true, bench.now).unwrap();
        let leases = bench.take_leases();
        bench.complete(&leases);
        let before = bench.cell(Metric::Bandwidth, "n0", "n1");
        assert!(matches!(before, Cell::Known { .. }));
        live_on(&mut bench, 20);
        bench.take();
        let id = bench.c.start_probe("n0", "n1", &[Metric::Bandwidth], false, bench.now).unwrap();
        let leases = bench.take_leases();
        let (connection, plan) = leases.iter().find(|(_, plan)| plan.role == role).unwrap().clone();
        bench.report(connection, &plan, given_up((role == Role::Source).then_some(seen)));
        // The other side has nothing to say any more.
        live_on(&mut bench, 10);
        assert_eq!(bench.cell(Metric::Bandwidth, "n0", "n1"), before, "the cell keeps what it had");
        assert_eq!(bench.probed.last(), Some(&Probed::Excluded(Metric::Bandwidth)));
        let run = bench.c.probe(id).unwrap();
        assert_eq!(run.left, 0);
        let texts: Vec<_> = run.steps.iter().map(|step| step.text.as_str()).collect();
        let told = texts.iter().find(|text| text.starts_with("aborted(congested): ")).unwrap();
        assert!(told.contains("pause frames"), "{told}");
        assert_eq!(told.ends_with("until then 26843 Mb/s over 80 ms"), role == Role::Source, "{told}");
        assert!(texts.iter().any(|text| text.contains("the cell keeps what it had")), "{texts:?}");
    }
}

#[test]
fn a_sweep_counts_what_was_given_up_as_not_run() {
    let mut bench = cluster(2, quiet());
    bench.c.start_sweep(&[Metric::Bandwidth], false, bench.now).unwrap();
    let leases = bench.take_leases();
    bench.report(leases[0].0, &leases[0].1, given_up(None));
    let sweep = bench.c.sweep().unwrap();
    assert_eq!((sweep.done, sweep.failed, sweep.excluded), (1, 0, 1));
    assert_eq!(bench.cell(Metric::Bandwidth, "n0", "n1"), Cell::Never, "and no cell comes of it");
}

#[test]
fn who_is_in_the_way_stands_in_the_steps_of_the_probe() {
    let mut bench = cluster(2, quiet());
    let id = bench.c.start_probe("n0", "n1", &[Metric::Bandwidth], false, bench.now).unwrap();
    let leases = bench.take_leases();
    let (connection, plan) = leases[1].clone();
    let result = ProbeResult {
        lease: Some(plan.lease),
        local: plan.local.clone(),
        peer: plan.peer.clone(),
        role: plan.role,
        metric: plan.cell(),
        measured_at: bench.now.wall,
        outcome: Outcome::Excluded(Exclusion::Busy),
        effects: None,
        evidence: "job 4711 of user alice holds mlx5_0".to_owned(),
    };
    bench.frame(connection.0, ToCoordinator::Results(vec![result]));
    let run = bench.c.probe(id).unwrap();
    let told =
        run.steps.iter().find(|step| step.text == "not run: busy: job 4711 of user alice holds mlx5_0");
    assert_eq!(told.map(|step| step.side), Some(Side::Target));
    assert!(matches!(bench.cell(Metric::Bandwidth, "n0", "n1"), Cell::Excluded { why: Exclusion::Busy, .. }));
}
