//! Sweeps with other messages: what they keep of each pair, why a pair has nothing, and that a seed means the same every time.

use super::*;
use rdmascope_model::{Exclusion, LatencySpec, ProbeSpec};

/// Nodes in this order, each with one endpoint on the leaf that its number gives.
fn nodes(order: &[u64]) -> Bench {
    let leaves = order.iter().map(|node| (format!("n{node}"), format!("leaf{}", node % 2))).collect();
    let mut bench = Bench::new(Settings { leaves, ..quiet() });
    for &node in order {
        bench.hello(node, &format!("n{node}"), &format!("m{node}"));
        bench.inventory(node, vec![endpoint(&format!("n{node}/d/1"))]);
    }
    bench.take();
    bench
}

fn order(metric: Metric, message_bytes: u32) -> SweepOrder {
    SweepOrder {
        metrics: vec![metric],
        drained: true,
        message_bytes: Some(message_bytes),
        ..SweepOrder::default()
    }
}

/// Runs a sweep to its end; pairs in the order in which they began.
fn run(
    bench: &mut Bench,
    order: &SweepOrder,
    outcome: impl Fn(&ProbePlan) -> Outcome,
) -> Vec<(String, String)> {
    bench.c.start_sweep_of(order, bench.now).unwrap();
    bench.drain();
    let mut begun = Vec::new();
    loop {
        let leases = bench.take_leases();
        if leases.is_empty() {
            return begun;
        }
        begun.extend(pairs(&leases));
        bench.pass(Duration::from_millis(10));
        for (connection, plan) in &leases {
            let passive = plan.spec.load() == rdmascope_model::Load::Streams && plan.role == Role::Target;
            bench.report(*connection, plan, if passive { Outcome::Served } else { outcome(plan) });
        }
    }
}

fn found(bench: &Bench, source: &str, target: &str) -> Result<Found, NotRun> {
    let index = |name: &str| bench.c.find_endpoint(name).unwrap();
    let ends = (index(source), index(target));
    let all = bench.c.sweep().unwrap().pairs();
    all.into_iter().find(|pair| (pair.source, pair.target) == ends).unwrap().found
}

#[test]
fn messages_of_another_size_reach_the_agents_and_their_figures_stay_with_the_sweep() {
    let mut bench = nodes(&[0, 1, 2]);
    let outcome = |plan: &ProbePlan| {
        let asked = LatencySpec { message_bytes: 64, ..LatencySpec::USUAL };
        assert_eq!(plan.spec, ProbeSpec::Latency(asked));
        let Outcome::Latency(stats, _) = latency(3_000) else { panic!("no latency") };
        let stats = LatencyStats { p99_ns: Some(7_000), ..stats };
        Outcome::Latency(stats, CounterDelta { retransmits: Some(2) })
    };
    run(&mut bench, &order(Metric::Latency, 64), outcome);
    let told = found(&bench, "n2", "n0").unwrap();
    assert_eq!((told.value, told.p99_ns, told.retransmits), (Ok(3_000), Some(7_000), Some(2)));
    assert_eq!(bench.c.sweep().unwrap().pairs().len(), 6, "every ordered pair");
    assert_eq!(bench.cell(Metric::Latency, "n0", "n1"), Cell::Never, "the matrix compares like with like");
}

#[test]
fn the_usual_messages_fill_the_matrix_too_and_an_ordinary_sweep_keeps_nothing() {
    let mut bench = nodes(&[0, 1]);
    run(&mut bench, &order(Metric::Bandwidth, 65_536), |_| bandwidth());
    assert_eq!(found(&bench, "n0", "n1").unwrap().value, Ok(64_000_000_000));
    assert!(matches!(bench.cell(Metric::Bandwidth, "n0", "n1"), Cell::Known { .. }));
    bench.sweep(&[Metric::Latency]).unwrap();
    let leases = bench.take_leases();
    bench.complete(&leases);
    assert_eq!(bench.c.sweep().unwrap().pairs(), []);
}

#[test]
fn a_stream_of_large_messages_has_few_of_them_under_way() {
    let mut bench = nodes(&[0, 1]);
    bench.c.start_sweep_of(&order(Metric::Bandwidth, 1 << 20), bench.now).unwrap();
    let leases = bench.take_leases();
    let ProbeSpec::Bandwidth(spec) = leases[0].1.spec else { panic!("{leases:?}") };
    assert_eq!((spec.message_bytes, spec.depth), (1 << 20, 4));
    assert!(rdmascope_probe::limits::admit(&leases[0].1).is_ok());
    let mut bench = nodes(&[0, 1]);
    bench.c.start_sweep_of(&order(Metric::Bandwidth, 64), bench.now).unwrap();
    let leases = bench.take_leases();
    assert!(rdmascope_probe::limits::admit(&leases[0].1).is_ok(), "agents take a million messages");
}

#[test]
fn every_pair_without_a_figure_says_why() {
    let mut bench = nodes(&[0, 1, 2]);
    let down = EndpointInfo { unusable: Some(Cause::PortDown), ..endpoint("n2/d/1") };
    bench.inventory(2, vec![down]);
    bench.take();
    run(&mut bench, &order(Metric::Latency, 64), |_| Outcome::Excluded(Exclusion::Busy));
    assert_eq!(found(&bench, "n0", "n1").unwrap().value, Err(Miss::Excluded(Exclusion::Busy)));
    for ends in [("n0", "n2"), ("n2", "n0")] {
        assert_eq!(found(&bench, ends.0, ends.1).unwrap().value, Err(Miss::Failed(Cause::PortDown)));
    }
}

#[test]
fn a_sweep_that_is_ended_early_measures_what_runs_and_tells_of_the_rest() {
    let mut bench = nodes(&[0, 1, 2, 3]);
    let id = bench.c.start_sweep_of(&order(Metric::Latency, 64), bench.now).unwrap();
    let leases = bench.take_leases();
    assert_eq!(pairs(&leases).len(), 2);
    assert_eq!(found(&bench, "n0", "n1"), Err(NotRun::NotYet));
    assert!(bench.c.cancel_sweep(id + 1, bench.now).is_err(), "another one");
    bench.c.cancel_sweep(id, bench.now).unwrap();
    bench.complete(&leases);
    assert_eq!(bench.take_leases(), [], "nothing begins any more");
    let sweep = bench.c.sweep().unwrap();
    assert!(sweep.finished_at.is_some() && sweep.cancelled);
    assert_eq!((sweep.done, sweep.excluded), (6, 4));
    let all = sweep.pairs();
    let count = |of: &dyn Fn(&FoundPair) -> bool| all.iter().filter(|pair| of(pair)).count();
    assert_eq!(count(&|pair| pair.found.is_ok()), 4);
    assert_eq!(count(&|pair| pair.found == Err(NotRun::Cancelled)), 8);
    assert!(bench.c.cancel_sweep(id, bench.now).is_err(), "it is over");
    assert!(bench.c.start_sweep_of(&order(Metric::Latency, 64), bench.now).is_ok());
}

#[test]
fn the_same_seed_puts_the_same_pairs_side_by_side_whoever_came_first() {
    let begun = |came: &[u64], metric, seed| {
        let order = SweepOrder { seed: Some(seed), ..order(metric, 64) };
        run(&mut nodes(came), &order, |plan| completed(plan.spec.metric().unwrap()))
    };
    for metric in [Metric::Latency, Metric::Bandwidth] {
        let one = begun(&[0, 1, 2, 3, 4, 5, 6, 7], metric, 5);
        let other = begun(&[6, 3, 7, 0, 5, 1, 4, 2], metric, 5);
        assert_eq!(one, other, "{metric}");
        assert_ne!(one, begun(&[0, 1, 2, 3, 4, 5, 6, 7], metric, 6), "{metric}: another seed");
    }
}

#[test]
fn what_cannot_be_asked_for_is_refused() {
    let bench = nodes(&[0, 1]);
    let both = SweepOrder { metrics: vec![Metric::Latency, Metric::Bandwidth], ..order(Metric::Latency, 64) };
    for wrong in
        [order(Metric::Latency, 0), order(Metric::Bandwidth, (8 << 20) + 1), order(Metric::Ping, 64), both]
    {
        assert!(bench.c.clone().plan_sweep(&wrong, bench.now).is_err(), "{wrong:?}");
    }
    for bytes in [1, 8 << 20] {
        assert!(bench.c.clone().plan_sweep(&order(Metric::Latency, bytes), bench.now).is_ok(), "{bytes}");
    }
}
