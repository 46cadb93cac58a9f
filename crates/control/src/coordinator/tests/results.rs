//! What becomes of results: which cell, which time, and whom to believe.

use super::*;

fn remembered(at: Wall, outcome: Outcome) -> ToCoordinator {
    ToCoordinator::Results(vec![ProbeResult {
        lease: None,
        local: "n0/d/1".parse().unwrap(),
        peer: "n1/d/1".parse().unwrap(),
        role: Role::Source,
        metric: Some(Metric::Latency),
        measured_at: at,
        outcome,
        effects: None,
        evidence: String::new(),
    }])
}

#[test]
fn a_cluster_as_large_as_can_be_gets_remembered_results_back_and_grows_no_further() {
    let mut bench = Bench::apart(quiet(), 2);
    let others = (2..settings::ENDPOINTS_MAX).map(|at| format!("n{at}/d/1").parse().unwrap());
    let others: Vec<EndpointName> = others.collect();
    assert_eq!(bench.c.restore_names(&others).len(), settings::ENDPOINTS_MAX - 2);
    assert!(bench.c.restore_names(&["stranger/d/1".parse().unwrap()]).is_empty());
    let mut results = remembered(bench.now.wall, latency(1_500));
    let ToCoordinator::Results(all) = &mut results else { panic!("{results:?}") };
    let stranger = ProbeResult { peer: "stranger/d/1".parse().unwrap(), ..all[0].clone() };
    all.push(stranger);
    bench.frame(0, results);
    assert!(matches!(bench.cell(Metric::Latency, "n0", "n1"), Cell::Known { .. }));
    assert_eq!(bench.c.matrix().len(), settings::ENDPOINTS_MAX);
}

#[test]
fn remembered_results_keep_their_time_and_do_not_become_fresh_by_being_sent_again() {
    let mut bench = Bench::apart(quiet(), 2);
    let then = Wall(bench.now.wall.0 - 3_600_000);
    let frame = remembered(then, latency(77));
    for _ in 0..3 {
        bench.frame(0, frame.clone());
        bench.pass(Duration::from_secs(4));
        let cell = bench.cell(Metric::Latency, "n0", "n1");
        assert_eq!(cell.at(), Some(then));
        assert_eq!(
            cell.state(bench.now.wall, bench.c.fresh_for()),
            rdmascope_localise::CellState::Stale,
            "an hour is older than any limit of a small cluster"
        );
    }
    assert_eq!(bench.cell(Metric::Latency, "n1", "n0"), Cell::Never, "it is one direction's");
    let revision = bench.c.matrix().revision();
    bench.frame(0, frame);
    assert_eq!(bench.c.matrix().revision(), revision, "nothing new");
}

#[test]
fn a_remembered_result_never_replaces_what_was_measured_since() {
    let mut bench = Bench::apart(quiet(), 2);
    bench.sweep(&[Metric::Latency]).unwrap();
    let leases = bench.take_leases();
    bench.complete(&leases);
    let known = bench.cell(Metric::Latency, "n0", "n1");
    let old = remembered(Wall(bench.now.wall.0 - 1_000), latency(77));
    bench.frame(0, old);
    assert_eq!(bench.cell(Metric::Latency, "n0", "n1"), known);
}

#[test]
fn a_remembered_result_from_an_hour_ahead_tells_no_age_and_is_not_taken() {
    let mut bench = Bench::apart(quiet(), 2);
    bench.frame(0, remembered(Wall(bench.now.wall.0 + 3_600_000), latency(77)));
    assert_eq!(bench.cell(Metric::Latency, "n0", "n1"), Cell::Never);
    bench.frame(0, remembered(Wall(bench.now.wall.0 + 3_000), latency(77)));
    assert_eq!(bench.cell(Metric::Latency, "n0", "n1").at(), Some(bench.now.wall), "as of now at most");
}

#[test]
fn a_remembered_result_may_name_a_peer_that_is_not_back_yet() {
    let mut bench = Bench::new(quiet());
    bench.hello(0, "n0", "m");
    let frame = remembered(bench.now.wall, latency(77));
    bench.frame(0, frame.clone());
    assert_eq!(bench.c.matrix().len(), 0, "an endpoint that is not in the inventory has no results");
    bench.inventory(0, vec![endpoint("n0/d/1")]);
    bench.frame(0, frame);
    assert!(matches!(bench.cell(Metric::Latency, "n0", "n1/d/1"), Cell::Known { .. }));
    bench.hello(1, "n1", "m1");
    bench.inventory(1, vec![endpoint("n1/d/1")]);
    assert_eq!(bench.c.matrix().len(), 2);
    bench.take();
    bench.sweep(&[Metric::Latency]).unwrap();
    assert_eq!(bench.take_leases().len(), 2);
}

#[test]
fn a_clock_that_is_wrong_does_not_date_a_result() {
    for skew_ms in [-3_600_000_i64, -40, 40, 3_600_000] {
        let mut bench = Bench::apart(quiet(), 2);
        bench.sweep(&[Metric::Latency]).unwrap();
        let leases = bench.take_leases();
        bench.pass(Duration::from_millis(20));
        for (connection, plan) in &leases {
            let result = ProbeResult {
                lease: Some(plan.lease),
                local: plan.local.clone(),
                peer: plan.peer.clone(),
                role: plan.role,
                metric: Some(Metric::Latency),
                measured_at: Wall(bench.now.wall.0.saturating_add_signed(skew_ms)),
                outcome: latency(1),
                effects: None,
                evidence: String::new(),
            };
            bench.frame(connection.0, ToCoordinator::Results(vec![result]));
        }
        let at = bench.cell(Metric::Latency, "n0", "n1").at().unwrap();
        assert_eq!(at, bench.now.wall, "measured within its lease, on a clock {skew_ms} ms off");
    }
}

#[test]
fn success_right_after_a_failure_is_the_newer_news_on_a_slow_clock_too() {
    let mut bench = Bench::apart(quiet(), 2);
    bench.sweep(&[Metric::Latency]).unwrap();
    let leases = bench.take_leases();
    bench.pass(Duration::from_millis(100));
    bench.report(leases[0].0, &leases[0].1, Outcome::Excluded(rdmascope_model::Exclusion::Busy));
    assert!(matches!(bench.cell(Metric::Latency, "n0", "n1"), Cell::Excluded { .. }));
    bench.pass(Duration::from_millis(100));
    bench.sweep(&[Metric::Latency]).unwrap();
    let leases = bench.take_leases();
    bench.pass(Duration::from_millis(30));
    // The agents' clock is a second behind: on it, this was before the exclusion.
    bench.now.wall.0 -= 1_000;
    let results: Vec<_> = leases
        .iter()
        .map(|(connection, plan)| {
            let result = ProbeResult {
                lease: Some(plan.lease),
                local: plan.local.clone(),
                peer: plan.peer.clone(),
                role: plan.role,
                metric: Some(Metric::Latency),
                measured_at: bench.now.wall,
                outcome: latency(5),
                effects: None,
                evidence: String::new(),
            };
            (*connection, result)
        })
        .collect();
    bench.now.wall.0 += 1_000;
    for (connection, result) in results {
        bench.frame(connection.0, ToCoordinator::Results(vec![result]));
    }
    assert!(matches!(bench.cell(Metric::Latency, "n0", "n1"), Cell::Known { .. }));
}

#[test]
fn only_the_two_agents_of_a_lease_are_heard_about_it() {
    let mut bench = Bench::apart(quiet(), 4);
    bench.c.start_probe("n0", "n1", &[Metric::Latency], false, bench.now).unwrap();
    let leases = bench.take_leases();
    let lease = leases[0].1.lease;
    for stranger in [2, 3] {
        let forged = ProbePlan { local: format!("n{stranger}/d/1").parse().unwrap(), ..leases[0].1.clone() };
        bench.report(ConnectionId(stranger), &forged, latency(1));
        bench.frame(stranger, ToCoordinator::Relay { lease, payload: RelayPayload::Ready });
    }
    assert_eq!(bench.take(), [], "a stranger's offer would lead a probe astray");
    assert_eq!(bench.c.leases_running(), 1);
    bench.frame(0, ToCoordinator::Relay { lease, payload: RelayPayload::Offer(vec![1]) });
    let relayed = ToAgent::Relay { lease, payload: RelayPayload::Offer(vec![1]) };
    assert_eq!(bench.take(), [Action::Send(ConnectionId(1), relayed)]);
    bench.complete(&leases);
    bench.frame(0, ToCoordinator::Relay { lease, payload: RelayPayload::Ready });
    let ended: Vec<_> = bench.take();
    assert!(
        ended.iter().all(|a| matches!(a, Action::Send(_, ToAgent::LeaseEnd { lease: l }) if *l == lease)),
        "nothing is relayed for a lease that is over: {ended:?}"
    );
    assert_eq!(ended.len(), 2);
}

#[test]
fn a_probe_tells_its_steps_in_order_and_its_end() {
    let mut bench = Bench::apart(quiet(), 2);
    let id = bench.c.start_probe("n0", "n1", &[Metric::Latency, Metric::Bandwidth], true, bench.now).unwrap();
    for _ in 0..2 {
        let leases = bench.take_leases();
        bench.pass(Duration::from_millis(10));
        bench.complete(&leases);
    }
    let run = bench.c.probe(id).unwrap();
    assert_eq!(run.left, 0);
    assert!(run.steps.is_sorted_by_key(|step| step.at_ms));
    let last = &run.steps.last().unwrap().text;
    assert!(last.starts_with("done in 10 ms"), "{last}");
    assert!(bench.c.start_probe("n0", "n0/d/1", &[Metric::Latency], true, bench.now).is_err(), "no pair");
}

#[test]
fn a_lease_that_nobody_answers_ends_and_frees_its_endpoints() {
    let mut bench = Bench::apart(quiet(), 2);
    bench.sweep(&[Metric::Latency]).unwrap();
    let first = bench.take_leases();
    while bench.c.leases_running() > 0 {
        for connection in 0..2 {
            bench.frame(connection, ToCoordinator::heartbeat(PauseFlags::default()));
        }
        bench.pass(Duration::from_millis(500));
    }
    let held = bench.now.mono.since(Mono(1_000_000_000));
    assert!(held <= first[0].1.expires_in + Duration::from_millis(1_500), "held for {held:?}");
    assert_eq!(bench.cause(Metric::Latency, "n0", "n1"), Cause::AgentSilent);
    assert!(bench.c.sweep().unwrap().finished_at.is_some());
    bench.sweep(&[Metric::Latency]).unwrap();
    assert_eq!(bench.take_leases().len(), 2, "both endpoints are free");
}

/// What the answer to a heartbeat says of the pairs of an agent.
fn told(bench: &mut Bench, connection: u64) -> Vec<PairsBrief> {
    bench.frame(connection, ToCoordinator::heartbeat(PauseFlags::default()));
    let replies = bench.take().into_iter().filter_map(|action| match action {
        Action::Send(_, ToAgent::HeartbeatReply { pairs, .. }) => Some(pairs),
        _ => None,
    });
    match &replies.collect::<Vec<_>>()[..] {
        [pairs] => pairs.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_agent_hears_how_its_pairs_do_once_for_each_count() {
    let mut bench = Bench::apart(quiet(), 3);
    assert_eq!(told(&mut bench, 0), [], "nobody has counted yet");
    bench.frame(0, remembered(bench.now.wall, latency(77)));
    let failed =
        Failure { cause: Cause::PortDown, step: Step::Open, side: Side::Source, evidence: String::new() };
    let mut others = remembered(bench.now.wall, Outcome::Failed(failed));
    let ToCoordinator::Results(all) = &mut others else { panic!("{others:?}") };
    (all[0].local, all[0].peer) = ("n2/d/1".parse().unwrap(), "n0/d/1".parse().unwrap());
    bench.frame(2, others);
    bench.take();
    bench.c.count_on(bench.now);
    let of = |outgoing, fresh, failed, worst| {
        let (device, metric) = ("d".to_owned(), Metric::Latency);
        PairsBrief { device, port: 1, metric, outgoing, fresh, stale: 0, failed, worst }
    };
    let latencies = |pairs: Vec<PairsBrief>| {
        pairs.into_iter().filter(|pairs| pairs.metric == Metric::Latency).collect::<Vec<_>>()
    };
    assert_eq!(latencies(told(&mut bench, 0)), [of(true, 1, 0, Some(77)), of(false, 0, 1, None)]);
    assert_eq!(latencies(told(&mut bench, 1)), [of(true, 0, 0, None), of(false, 1, 0, Some(77))]);
    assert_eq!(told(&mut bench, 0), [], "it knows");
    bench.pass(Duration::from_secs(15));
    bench.c.count_on(bench.now);
    assert_eq!(latencies(told(&mut bench, 0)).len(), 2, "counted again");
}
