//! Sweeps: how many pairs at once, in which order, and what holds them back.

use super::*;
use std::collections::BTreeSet;

#[test]
fn one_machine_measures_latency_pair_by_pair_and_then_bandwidth_two_at_once() {
    let mut bench = Bench::nodes(quiet(), 4, |_| "shared".to_owned());
    bench.sweep(&[Metric::Latency, Metric::Bandwidth]).unwrap();
    let mut seen = BTreeSet::new();
    for _ in 0..6 {
        let leases = bench.take_leases();
        assert_eq!(leases.len(), 2, "one pair at a time: {:?}", pairs(&leases));
        assert_eq!(leases[0].1.spec.metric().unwrap(), Metric::Latency);
        seen.extend(pairs(&leases));
        bench.pass(Duration::from_millis(50));
        bench.complete(&leases);
    }
    assert_eq!(seen.len(), 6);
    let mut running = bench.take_leases();
    let mut given = pairs(&running);
    assert_eq!(given.len(), 2, "two disjoint pairs at once");
    while !running.is_empty() {
        assert!(running.iter().all(|(_, plan)| plan.spec.load() == rdmascope_model::Load::Streams));
        assert!(running.len() <= 4, "more than two pairs: {:?}", pairs(&running));
        let busy: BTreeSet<_> = running.iter().map(|(connection, _)| connection.0).collect();
        assert_eq!(busy.len(), running.len(), "an endpoint is in two pairs");
        let ended = running[0].1.lease;
        let (over, still): (Vec<_>, Vec<_>) = running.into_iter().partition(|(_, plan)| plan.lease == ended);
        running = still;
        bench.complete(&over);
        let new = bench.take_leases();
        given.extend(pairs(&new));
        running.extend(new);
    }
    assert_eq!(given.len(), 12);
    assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), 12, "each direction once");
    let sweep = bench.c.sweep().unwrap();
    assert_eq!((sweep.total, sweep.done, sweep.failed, sweep.excluded), (18, 18, 0, 0));
    assert!(sweep.finished_at.is_some());
}

#[test]
fn machines_of_their_own_are_measured_side_by_side_round_by_round() {
    for count in [2_u64, 5, 8] {
        let mut bench = Bench::apart(quiet(), count);
        bench.sweep(&[Metric::Latency]).unwrap();
        let mut rounds = 0;
        loop {
            let leases = bench.take_leases();
            if leases.is_empty() {
                break;
            }
            let full = usize::try_from(count / 2).unwrap();
            assert_eq!(pairs(&leases).len(), full, "{count} endpoints: as many pairs as there can be");
            rounds += 1;
            bench.complete_together(&leases);
        }
        assert_eq!(rounds, count - 1 + count % 2, "no round is lost, with a bye for an odd count");
        assert!(bench.c.sweep().unwrap().finished_at.is_some());
    }
}

impl Bench {
    /// All results arrive before the coordinator acts on any: it goes on once, with every endpoint free.
    fn complete_together(&mut self, leases: &[(ConnectionId, ProbePlan)]) {
        for (connection, plan) in leases {
            let outcome = completed(plan.spec.metric().unwrap());
            let result = ProbeResult {
                lease: Some(plan.lease),
                local: plan.local.clone(),
                peer: plan.peer.clone(),
                role: plan.role,
                metric: plan.cell(),
                measured_at: self.now.wall,
                outcome,
                effects: None,
                evidence: String::new(),
            };
            let node = plan.local.node.clone();
            self.c.result(*connection, &node, result, self.now);
        }
        self.handle(Event::Tick);
    }
}

#[test]
fn endpoints_of_one_node_and_of_different_fabrics_are_not_paired() {
    let mut bench = Bench::new(quiet());
    bench.hello(0, "n0", "m0");
    bench.inventory(0, vec![endpoint("n0/a/1"), endpoint("n0/b/1")]);
    bench.hello(1, "n1", "m1");
    bench.inventory(1, vec![EndpointInfo { fabric: Fabric::Tcp, ..endpoint("n1/a/1") }]);
    bench.take();
    bench.sweep(&[Metric::Latency]).unwrap();
    assert_eq!(bench.take_leases(), []);
    let sweep = bench.c.sweep().unwrap();
    assert_eq!((sweep.total, sweep.excluded), (0, 0), "no pair is wanted");
    assert!(sweep.finished_at.is_some());
    let (shown, index) = (bench.c.shown(bench.now.wall), |name: &str| bench.c.find_endpoint(name).unwrap());
    for (source, target) in [("n0/a", "n0/b"), ("n0/a", "n1/a"), ("n1/a", "n0/b")] {
        let cell = shown.cell(Metric::Latency, index(source), index(target));
        let why = rdmascope_model::Exclusion::Policy;
        assert_eq!(cell, Cell::Excluded { at: bench.now.wall, why }, "{source} to {target}");
    }
}

/// Pitfall 20: what two ports of one node say to each other may never leave the node, so it is no figure of the fabric, whoever asks
/// and however hard.
#[test]
fn a_pair_on_one_node_is_never_a_figure_of_the_fabric() {
    let mut bench = Bench::new(Settings::default());
    bench.hello(0, "n0", "m0");
    bench.inventory(0, vec![endpoint("n0/a/1"), endpoint("n0/b/1")]);
    bench.take();
    bench.sweep(&[Metric::Latency, Metric::Bandwidth]).unwrap();
    bench.c.start_probe("n0/a/1", "n0/b/1", &[Metric::Latency], true, bench.now).unwrap();
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.take_leases(), []);
    let index = |name: &str| bench.c.matrix().find(&name.parse().unwrap()).unwrap();
    for (source, target) in [("n0/a/1", "n0/b/1"), ("n0/b/1", "n0/a/1")] {
        for metric in [Metric::Latency, Metric::Bandwidth] {
            let cell = bench.c.shown(bench.now.wall).cell(metric, index(source), index(target));
            assert!(
                matches!(cell, Cell::Excluded { why: rdmascope_model::Exclusion::Policy, .. }),
                "{source} to {target}: {cell:?}"
            );
        }
    }
}

#[test]
fn what_cannot_be_probed_is_named_and_holds_nobody_up() {
    let mut bench = Bench::apart(quiet(), 4);
    let down = EndpointInfo {
        unusable: Some(Cause::PortDown),
        unusable_detail: "state DOWN".to_owned(),
        ..endpoint("n2/d/1")
    };
    bench.inventory(2, vec![down]);
    bench.handle(Event::Closed(ConnectionId(3)));
    bench.sweep(&[Metric::Latency]).unwrap();
    let leases = bench.take_leases();
    assert_eq!(pairs(&leases), [("n0".to_owned(), "n1".to_owned())]);
    bench.complete(&leases);
    assert_eq!(bench.take_leases(), []);
    assert_eq!(bench.cause(Metric::Latency, "n0", "n2"), Cause::PortDown);
    assert_eq!(bench.cause(Metric::Latency, "n2", "n0"), Cause::PortDown);
    assert_eq!(bench.cause(Metric::Latency, "n0", "n3"), Cause::PeerGone);
    assert_eq!(bench.cause(Metric::Latency, "n3", "n0"), Cause::AgentGone);
    let sweep = bench.c.sweep().unwrap();
    assert_eq!((sweep.done, sweep.failed), (6, 5));
}

#[test]
fn a_sweep_that_cannot_begin_says_why() {
    let mut alone = Bench::apart(quiet(), 1);
    assert!(alone.sweep(&[Metric::Latency]).unwrap_err().to_string().contains("there are 1"));
    let mut bench = Bench::apart(quiet(), 2);
    bench.sweep(&[Metric::Latency]).unwrap();
    assert!(bench.sweep(&[Metric::Latency]).unwrap_err().to_string().contains("is running"));
    let leases = bench.take_leases();
    bench.complete(&leases);
    bench.c.set_pause(None, |flags| flags.all = true, bench.now).unwrap();
    assert!(bench.sweep(&[Metric::Latency]).unwrap_err().to_string().contains("paused"));
    assert!(bench.c.start_probe("n0", "n1", &[Metric::Latency], false, bench.now).is_err());
    bench.c.set_pause(None, |flags| flags.all = false, bench.now).unwrap();
    assert_eq!(bench.sweep(&[Metric::Latency]), Ok(2));
}

#[test]
fn a_pause_starts_nothing_more_and_a_resume_goes_on_where_it_stopped() {
    let mut bench = Bench::nodes(quiet(), 4, |_| "shared".to_owned());
    bench.sweep(&[Metric::Latency]).unwrap();
    let running = bench.take_leases();
    bench.c.set_pause(None, |flags| flags.all = true, bench.now).unwrap();
    let told = bench.take();
    let paused = ToAgent::Pause(PauseFlags { all: true, bandwidth: false });
    for connection in 0..4 {
        assert!(told.contains(&Action::Send(ConnectionId(connection), paused.clone())));
    }
    for (connection, plan) in &running {
        bench.report(*connection, plan, Outcome::Excluded(rdmascope_model::Exclusion::Policy));
    }
    assert_eq!((bench.take_leases().len(), bench.c.leases_running()), (0, 0));
    bench.c.set_pause(None, |flags| flags.all = false, bench.now).unwrap();
    let mut done = 1;
    loop {
        let leases = bench.take_leases();
        if leases.is_empty() {
            break;
        }
        done += 1;
        bench.complete(&leases);
    }
    assert_eq!(done, 6);
    let sweep = bench.c.sweep().unwrap();
    assert_eq!((sweep.done, sweep.excluded), (6, 1));
}

#[test]
fn a_paused_node_is_left_out_at_once_and_the_others_go_on() {
    let mut bench = Bench::apart(quiet(), 3);
    bench.c.set_pause(Some(&["n2".to_owned()]), |flags| flags.all = true, bench.now).unwrap();
    bench.take();
    bench.sweep(&[Metric::Latency]).unwrap();
    let leases = bench.take_leases();
    assert_eq!(pairs(&leases), [("n0".to_owned(), "n1".to_owned())]);
    bench.complete(&leases);
    assert_eq!(bench.take_leases(), []);
    assert!(matches!(bench.cell(Metric::Latency, "n0", "n2"), Cell::Excluded { .. }));

    // The agent's own file says it through its heartbeat; here for bandwidth alone.
    bench.c.set_pause(Some(&["n2".to_owned()]), |flags| flags.all = false, bench.now).unwrap();
    bench.frame(1, ToCoordinator::heartbeat(PauseFlags { all: false, bandwidth: true }));
    bench.take();
    bench.sweep(&[Metric::Bandwidth]).unwrap();
    let leases = bench.take_leases();
    assert_eq!(pairs(&leases).len(), 1);
    assert!(leases.iter().all(|(connection, _)| connection.0 != 1));
}

#[test]
fn an_operator_goes_before_the_continuous_sweep() {
    let mut bench = Bench::nodes(Settings::default(), 3, |_| "shared".to_owned());
    bench.pass(Duration::from_secs(1));
    bench.handle(Event::Tick);
    let background = bench.take_leases();
    assert_eq!(background.len(), 2);
    assert_eq!(background[0].1.urgency, Urgency::Background);
    bench.sweep(&[Metric::Latency]).unwrap();
    bench.complete(&background);
    for _ in 0..3 {
        let leases = bench.take_leases();
        assert_eq!(leases.len(), 2);
        assert_eq!(leases[0].1.urgency, Urgency::Drained);
        bench.complete(&leases);
    }
    assert!(bench.c.sweep().unwrap().finished_at.is_some());
}

#[test]
fn a_background_probe_rests_its_endpoints_by_what_it_cost() {
    let mut bench = Bench::apart(Settings::default(), 2);
    bench.pass(Duration::from_secs(1));
    bench.handle(Event::Tick);
    let leases = bench.take_leases();
    let rdmascope_model::ProbeSpec::Latency(spec) = leases[0].1.spec else { panic!("{leases:?}") };
    let cost = Duration::from_millis(u64::from(spec.samples) * 100);
    // Many more endpoints come: each later probe is cheaper, this one was not.
    for i in 2..40 {
        bench.hello(i, &format!("n{i}"), &format!("m{i}"));
        bench.inventory(i, vec![endpoint(&format!("n{i}/d/1"))]);
    }
    bench.complete(&leases);
    bench.pass(Duration::from_secs(1));
    let began = bench.now.mono;
    let mut next = None;
    for _ in 0..1_000 {
        bench.handle(Event::Tick);
        let leases = bench.take_leases();
        if leases.iter().any(|(connection, _)| connection.0 == 0) {
            next = Some(bench.now.mono.since(began));
            break;
        }
        bench.complete(&leases);
        let wakeup = bench.c.next_wakeup().unwrap();
        bench.pass(wakeup.since(bench.now.mono).max(Duration::from_millis(1)));
        for connection in 0..40 {
            bench.frame(connection, ToCoordinator::heartbeat(PauseFlags::default()));
        }
    }
    let next = next.expect("n0 is probed again");
    assert!(next + Duration::from_secs(1) >= cost, "after {next:?}, {cost:?} of pings were spent");
}
