//! Operators' runs: full reports, incasts, classes, devices and services.

use super::*;
use rdmascope_localise::pair::{Part, Progress};
use rdmascope_model::{EchoStats, Effects, LabelBy, Load, Manner, Operation, ProbeSpec, Side, Status};

fn moved(processor_ns: u64) -> Option<Box<Effects>> {
    Some(Box::new(Effects { processor_ns: Some(processor_ns), ..Effects::default() }))
}

/// What a plan's side would report if all went well.
fn well(plan: &ProbePlan) -> Outcome {
    match (&plan.spec, plan.role) {
        (ProbeSpec::Latency(_), _) => latency(2_000),
        (ProbeSpec::Bandwidth(_), Role::Target) if !plan.manner.both_ways => Outcome::Served,
        (ProbeSpec::Bandwidth(_), _) => bandwidth(),
        (ProbeSpec::Echo(spec), Role::Source) => Outcome::Echo(EchoStats {
            payload_bytes: spec.payload_bytes,
            sent: spec.count,
            heard: Some(spec.count),
            answered: spec.count,
            round_trip: None,
        }),
        (ProbeSpec::Pings(_) | ProbeSpec::Echo(_), _) => Outcome::Served,
    }
}

impl Bench {
    /// Reports as `report`, with effects.
    fn tell(&mut self, (connection, plan): &(ConnectionId, ProbePlan), outcome: Outcome) {
        let result = ProbeResult {
            lease: Some(plan.lease),
            local: plan.local.clone(),
            peer: plan.peer.clone(),
            role: plan.role,
            metric: plan.cell(),
            measured_at: self.now.wall,
            outcome,
            effects: moved(if plan.role == Role::Source { 1 } else { 2 }),
            evidence: String::new(),
        };
        self.frame(connection.0, ToCoordinator::Results(vec![result]));
    }

    fn ready(&mut self, (connection, plan): &(ConnectionId, ProbePlan)) {
        self.frame(connection.0, ToCoordinator::Relay { lease: plan.lease, payload: RelayPayload::Ready });
    }

    /// Two nodes whose endpoints are as a RoCE port's, but for datagrams.
    fn pair() -> Self {
        let mut bench = Self::apart(quiet(), 2);
        for node in 0..2 {
            let info = EndpointInfo {
                netdev_mtu: Some(9_000),
                active_mtu: Some(4_096),
                rate_bps: Some(100_000_000_000),
                connections_labelled_by: LabelBy::FlowLabel,
                ..endpoint(&format!("n{node}/d/1"))
            };
            bench.inventory(node, vec![info]);
        }
        bench.take();
        bench
    }

    fn start(&mut self, measure: Measure, class: Option<u8>) -> Result<u64, CommandError> {
        let request = PairRequest {
            source: "n0".to_owned(),
            target: "n1".to_owned(),
            device: None,
            class,
            service: None,
            drained: true,
            forced: false,
            measure,
        };
        let id = self.c.start_pair(&request, self.now);
        self.drain();
        id
    }

    fn full(&mut self) -> u64 {
        self.start(Measure::Full { paths: 2, gpu: None }, None).unwrap()
    }

    fn incast(&mut self, sources: &[&str]) -> Result<u64, CommandError> {
        self.incast_to("n0", sources)
    }

    fn incast_to(&mut self, target: &str, sources: &[&str]) -> Result<u64, CommandError> {
        let sources = sources.iter().map(|name| (*name).to_owned()).collect();
        let request =
            IncastRequest { sources, target: target.to_owned(), device: None, class: None, drained: true };
        let id = self.c.start_incast(&request, self.now);
        self.drain();
        id
    }
}

#[test]
fn a_full_report_measures_one_after_another_and_keeps_what_both_ends_told() {
    let mut bench = Bench::pair();
    let id = bench.full();
    let mut taken = 0;
    while bench.c.probe(id).unwrap().left > 0 {
        let leases = bench.take_leases();
        assert_eq!(leases.len(), 2, "one measurement at a time, after {taken}");
        bench.pass(Duration::from_millis(10));
        leases.iter().for_each(|lease| bench.ready(lease));
        let beside = bench.take_leases();
        assert_eq!(beside.len(), if leases[0].1.expires_in > Duration::from_secs(7) { 2 } else { 0 });
        for lease in beside.iter().chain(&leases) {
            bench.tell(lease, well(&lease.1));
        }
        taken += 1;
    }
    let run = bench.c.probe(id).unwrap();
    assert!(run.measurements.iter().all(|m| m.progress == Progress::Done), "{:?}", run.measurements);
    let processor = |end: usize| run.measurements.iter().map(move |m| m.effects(end).unwrap().processor_ns);
    assert!(processor(0).all(|ns| ns == Some(1)) && processor(1).all(|ns| ns == Some(2)));
    assert!(
        run.skipped.iter().any(|s| s.part == Part::Ping && s.reason.contains("no address for datagrams"))
    );
    let verdicts = run.verdicts();
    assert!(verdicts.iter().any(|v| v.id == "baseline") && verdicts.iter().any(|v| v.id == "slow-label"));
    assert!(bench.c.leases_running() == 0 && bench.take_leases().is_empty());
}

#[test]
fn an_incast_keeps_to_the_cap_of_a_leafs_uplinks() {
    // n0 to n3 hang on one leaf, the others on the other one.
    let mut bench = Bench::apart(safety::two_leaves(8, 2), 8);
    let refused = bench.incast(&["n4", "n5", "n6"]).unwrap_err().to_string();
    assert!(refused.contains("3 streams") && refused.contains("streams_per_leaf allows 2"), "{refused}");
    assert!(bench.take_leases().is_empty());
    // Sources of its own leaf cross nothing.
    let within = bench.incast(&["n1", "n2", "n4"]).unwrap();
    let leases = bench.take_leases();
    assert_eq!(pairs(&leases).len(), 3, "one of them across");
    // Each of the next two had room beside that one, and both have not.
    let waiting = bench.incast_to("n3", &["n5", "n6"]).unwrap();
    assert!(bench.take_leases().is_empty());
    leases.iter().for_each(|lease| bench.tell(lease, well(&lease.1)));
    assert_eq!(bench.c.probe(within).unwrap().left, 0);
    assert_eq!(pairs(&bench.take_leases()).len(), 2);
    assert!(bench.c.probe(waiting).unwrap().left > 0);
}

#[test]
fn only_what_the_matrix_compares_goes_into_it() {
    let mut bench = Bench::pair();
    let id = bench.full();
    let mut figure = 1_000;
    while bench.c.probe(id).unwrap().left > 0 {
        bench.pass(Duration::from_millis(10));
        for lease in bench.take_leases() {
            bench.ready(&lease);
            figure += 1;
            let mut outcome = well(&lease.1);
            match &mut outcome {
                Outcome::Latency(stats, _) => stats.p50_ns = figure,
                Outcome::Bandwidth(stats, _) => stats.average_bps = figure,
                _ => {}
            }
            bench.tell(&lease, outcome);
        }
    }
    let run = bench.c.probe(id).unwrap();
    for (metric, part) in [(Metric::Latency, Part::Latency), (Metric::Bandwidth, Part::Bandwidth)] {
        let usual =
            run.measurements.iter().find(|m| m.part == part && m.manner == Manner::default()).unwrap();
        let figure = usual.p50_ns().or(usual.average_bps(0));
        let Cell::Known { measured, .. } = bench.cell(metric, "n0", "n1") else { panic!("never measured") };
        assert_eq!(measured.headline(), figure, "other sizes, verbs, labels and TCP came later: {metric}");
    }
}

#[test]
fn what_is_measured_beside_a_stream_starts_when_the_stream_runs() {
    let mut bench = Bench::pair();
    let id = bench.full();
    loop {
        let leases = bench.take_leases();
        let long = leases[0].1.expires_in > Duration::from_secs(7);
        if !long {
            leases.iter().for_each(|lease| bench.tell(lease, well(&lease.1)));
            continue;
        }
        bench.ready(&leases[0]);
        assert!(bench.take_leases().is_empty(), "the target is not connected yet");
        bench.ready(&leases[1]);
        let beside = bench.take_leases();
        assert_eq!(beside[0].1.spec.load(), Load::Spins, "latency beside a stream of the same pair");
        leases.iter().for_each(|lease| bench.tell(lease, well(&lease.1)));
        assert!(bench.take_leases().is_empty(), "the next measurement waits for both");
        beside.iter().for_each(|lease| bench.tell(lease, well(&lease.1)));
        assert_eq!(bench.take_leases().len(), 2);
        break;
    }
    assert!(bench.c.probe(id).unwrap().left > 0);
}

#[test]
fn a_stream_that_never_ran_ends_what_should_have_run_beside_it() {
    let mut bench = Bench::pair();
    let id = bench.full();
    while bench.c.probe(id).unwrap().left > 0 {
        for lease in bench.take_leases() {
            let failure = Failure {
                cause: Cause::PortDown,
                step: Step::Open,
                side: Side::Source,
                evidence: String::new(),
            };
            let long = lease.1.expires_in > Duration::from_secs(7);
            let outcome = if long { Outcome::Failed(failure) } else { well(&lease.1) };
            bench.tell(&lease, outcome);
        }
    }
    let run = bench.c.probe(id).unwrap();
    let of = |part| run.measurements.iter().find(|m| m.part == part).unwrap();
    assert!(matches!(of(Part::Load).progress, Progress::Failed(_)));
    assert_eq!(of(Part::UnderLoad).progress, Progress::Nothing);
}

#[test]
fn the_target_s_word_is_waited_for_half_a_second_and_no_longer() {
    let mut bench = Bench::pair();
    let id = bench.start(Measure::Metrics(vec![Metric::Bandwidth]), None).unwrap();
    let leases = bench.take_leases();
    bench.tell(&leases[0], bandwidth());
    assert_eq!(bench.c.probe(id).unwrap().left, 1, "the target has not told its counters yet");
    bench.pass(Duration::from_millis(500));
    bench.handle(Event::Tick);
    let run = bench.c.probe(id).unwrap();
    assert_eq!((run.left, &run.measurements[0].progress), (0, &Progress::Done));
    assert!(run.measurements[0].effects(0).is_some() && run.measurements[0].told[1].is_none());
}

#[test]
fn an_older_agent_is_neither_waited_for_nor_asked_for_what_it_does_not_know() {
    let mut bench = Bench::pair();
    let old = Hello { protocol_max: 2, instance: 2, ..hello("n1", "m1") };
    bench.frame(7, ToCoordinator::Hello(old));
    bench.inventory(7, vec![endpoint("n1/d/1")]);
    bench.take();
    let id = bench.start(Measure::Metrics(vec![Metric::Bandwidth]), None).unwrap();
    let leases = bench.take_leases();
    bench.tell(&leases[0], bandwidth());
    assert_eq!(bench.c.probe(id).unwrap().left, 0, "it would never tell");
    bench.take();
    let id = bench.start(Measure::Metrics(vec![Metric::Latency]), Some(26)).unwrap();
    assert!(bench.take_leases().is_empty());
    let Progress::Failed(failure) = &bench.c.probe(id).unwrap().measurements[0].progress else { panic!() };
    assert_eq!((failure.cause, failure.side), (Cause::NotAvailable, Side::Target));
    assert!(failure.evidence.contains("speaks protocol 2; this needs 3"), "{failure}");
}

#[test]
fn both_directions_at_once_need_both_results() {
    let mut bench = Bench::pair();
    let id = bench.full();
    loop {
        let leases = bench.take_leases();
        if !leases[0].1.manner.both_ways {
            leases.iter().for_each(|lease| bench.ready(lease));
            let beside = bench.take_leases();
            beside.iter().chain(&leases).for_each(|lease| bench.tell(lease, well(&lease.1)));
            continue;
        }
        bench.tell(&leases[0], bandwidth());
        bench.pass(Duration::from_secs(2));
        bench.handle(Event::Tick);
        assert!(bench.take_leases().is_empty(), "the other direction may be slower");
        bench.tell(&leases[1], bandwidth());
        assert_eq!(bench.take_leases().len(), 2);
        break;
    }
    let run = bench.c.probe(id).unwrap();
    let both = run.measurements.iter().find(|m| m.manner.both_ways).unwrap();
    assert!(both.average_bps(0).is_some() && both.average_bps(1).is_some());
}

#[test]
fn an_incast_starts_all_sources_together_and_nothing_beside_them() {
    let mut bench = Bench::apart(quiet(), 6);
    let id = bench.incast(&["n1", "n2", "n3", "n4"]).unwrap();
    let leases = bench.take_leases();
    assert_eq!(leases.len(), 8, "four leases, one target");
    let targets = leases.iter().filter(|(to, plan)| *to == ConnectionId(0) && plan.role == Role::Target);
    assert_eq!(targets.count(), 4);
    assert!(
        leases
            .iter()
            .all(|(_, plan)| plan.manner.queue_pairs == 4 && plan.manner.operation == Operation::Write)
    );
    let other = bench.c.start_probe("n5", "n0", &[Metric::Latency], true, bench.now).unwrap();
    assert!(bench.take_leases().is_empty(), "the target is busy");
    leases.iter().for_each(|lease| bench.tell(lease, well(&lease.1)));
    let run = bench.c.probe(id).unwrap();
    assert_eq!((run.left, run.incast().unwrap().sources.len()), (0, 4));
    assert_eq!(run.incast().unwrap().sum_bps, 4 * 64_000_000_000);
    assert_eq!(bench.take_leases().len(), 2, "now the other one");
    assert_eq!(bench.c.probe(other).unwrap().left, 1);
}

#[test]
fn an_incast_waits_until_its_machines_are_quiet() {
    let mut bench = Bench::nodes(quiet(), 6, |i| format!("m{}", i % 3));
    bench.c.start_probe("n3", "n4", &[Metric::Bandwidth], true, bench.now).unwrap();
    let running = bench.take_leases();
    bench.incast(&["n1", "n2"]).unwrap();
    assert!(
        bench.take_leases().is_empty(),
        "a stream runs on the machines of n0 and n1: beside it the sum would mean nothing"
    );
    running.iter().for_each(|lease| bench.tell(lease, well(&lease.1)));
    assert_eq!(bench.take_leases().len(), 4);
}

#[test]
fn an_incast_of_nonsense_is_refused() {
    let mut bench = Bench::apart(quiet(), 10);
    let many: Vec<_> = (1..10).map(|i| format!("n{i}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let cases: [(&[&str], &str); 4] =
        [(&["n1"], "2 to 8"), (&many, "2 to 8"), (&["n1", "n1"], "twice"), (&["n1", "n0"], "twice")];
    for (sources, why) in cases {
        let refused = bench.incast(sources).unwrap_err().to_string();
        assert!(refused.contains(why), "{sources:?}: {refused}");
    }
    assert!(bench.take_leases().is_empty());
}

#[test]
fn a_failed_source_of_an_incast_does_not_hold_up_the_others() {
    let mut bench = Bench::apart(quiet(), 3);
    let id = bench.incast(&["n1", "n2"]).unwrap();
    let leases = bench.take_leases();
    let failure =
        Failure { cause: Cause::PortDown, step: Step::Open, side: Side::Source, evidence: String::new() };
    bench.tell(&leases[0], Outcome::Failed(failure));
    leases[2..].iter().for_each(|lease| bench.tell(lease, well(&lease.1)));
    let run = bench.c.probe(id).unwrap();
    assert_eq!((run.left, run.incast().unwrap().sum_bps), (0, 64_000_000_000));
    assert!(run.verdicts().iter().any(|v| v.id == "steps" && v.status == Status::Fail));
}

#[test]
fn a_service_brings_its_device_and_its_class() {
    let embed = Service { device: Some("d1".to_owned()), class: Some(26), peers: vec!["n1".to_owned()] };
    let settings = Settings { services: [("embed".to_owned(), embed)].into(), ..quiet() };
    let mut bench = Bench::apart(settings, 2);
    for node in 0..2 {
        let both = [endpoint(&format!("n{node}/d/1")), endpoint(&format!("n{node}/d1/1"))];
        bench.inventory(node, both.to_vec());
    }
    bench.take();
    let request = PairRequest {
        source: "n0".to_owned(),
        target: "n1".to_owned(),
        device: None,
        class: None,
        service: Some("embed".to_owned()),
        drained: false,
        forced: false,
        measure: Measure::Metrics(vec![Metric::Latency]),
    };
    bench.c.start_pair(&request, bench.now).unwrap();
    let plan = &bench.take_leases()[0].1;
    assert_eq!((plan.local.device.as_str(), plan.manner.marks.traffic_class), ("d1", 26 << 2));
    let unknown = PairRequest { service: Some("emebd".to_owned()), ..request.clone() };
    assert!(bench.c.start_pair(&unknown, bench.now).unwrap_err().to_string().ends_with("there are: embed"));
    let nonsense = PairRequest { service: None, device: Some("d".to_owned()), class: Some(64), ..request };
    assert!(bench.c.start_pair(&nonsense, bench.now).unwrap_err().to_string().contains("no DSCP"));
}
