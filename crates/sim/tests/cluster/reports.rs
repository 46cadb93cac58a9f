//! Full reports and incasts from the command to the verdicts, on a healthy fabric and on broken ones.

use crate::common::*;
use rdmascope_control::coordinator::{IncastRequest, Measure, PairRequest, ProbeRun};
use rdmascope_localise::pair::{Part, Progress, Verdict};
use rdmascope_model::{Cause, DatagramAddress, EndpointInfo, Exclusion, LabelBy, Metric, ProbeSpec, Status};
use rdmascope_probe::mesh::MeshEvent;
use rdmascope_sim::Cluster;

/// As a RoCE port with datagrams, path labels and a network device of MTU 9000.
fn as_roce(host: usize) -> impl FnOnce(&mut EndpointInfo) {
    move |info| {
        let gid = format!("::ffff:10.0.0.{}", host + 1).parse().unwrap();
        info.gid = Some(gid);
        info.netdev = Some("eth0".to_owned());
        info.netdev_mtu = Some(9_000);
        info.connections_labelled_by = LabelBy::FlowLabel;
        info.datagrams_labelled_by = LabelBy::FlowLabel;
    }
}

fn roce(nodes: usize) -> Cluster {
    let mut c = cluster(nodes, quiet());
    for host in 0..nodes {
        c.change_endpoint(host, as_roce(host));
        let gid = format!("::ffff:10.0.0.{}", host + 1).parse().unwrap();
        let address = DatagramAddress { gid, lid: 0, queue_pair: 17, queue_key: 1, mtu_bytes: 4_096 };
        let name = c.endpoint(host);
        c.mesh_says(host, MeshEvent::Opened(name, address));
    }
    c.run_for(seconds(1));
    c
}

fn ask(c: &mut Cluster, class: Option<u8>, drained: bool, gpu: Option<u8>) -> u64 {
    let request = PairRequest {
        source: "node-0".to_owned(),
        target: "node-1".to_owned(),
        device: None,
        class,
        service: None,
        drained,
        forced: false,
        measure: Measure::Full { paths: 4, gpu },
    };
    c.command(|coordinator, now| coordinator.start_pair(&request, now)).unwrap().unwrap()
}

fn finish(c: &mut Cluster, id: u64) -> ProbeRun {
    let over = c.run_until(seconds(600), |c| c.coordinator().probe(id).unwrap().left == 0);
    let run = c.coordinator().probe(id).unwrap().clone();
    assert!(over, "{} measurements are left, the last step is {:?}", run.left, run.steps.last());
    run
}

/// A full report of nodes 0 and 1 in class 26.
fn full(c: &mut Cluster) -> ProbeRun {
    let id = ask(c, Some(26), true, None);
    finish(c, id)
}

fn bad(run: &ProbeRun) -> Vec<Verdict> {
    run.verdicts().into_iter().filter(|v| v.status != Status::Ok).collect()
}

#[track_caller]
fn the<'v>(verdicts: &'v [Verdict], id: &str) -> &'v Verdict {
    verdicts.iter().find(|v| v.id == id).unwrap_or_else(|| panic!("no {id} in {verdicts:#?}"))
}

#[test]
fn a_healthy_pair_is_measured_in_every_manner_and_found_healthy() {
    let mut c = roce(2);
    let run = full(&mut c);
    let not_done: Vec<_> = run.measurements.iter().filter(|m| m.progress != Progress::Done).collect();
    assert!(not_done.is_empty(), "{not_done:#?}");
    let silent: Vec<_> =
        run.measurements.iter().filter(|m| m.effects(0).is_none() || m.effects(1).is_none()).collect();
    assert!(silent.is_empty(), "both ends tell what was moved: {silent:#?}");
    assert_eq!(bad(&run), Vec::new());
    let read =
        run.measurements.iter().find(|m| m.part == Part::Latency && m.label().contains("READ")).unwrap();
    let write =
        run.measurements.iter().find(|m| m.part == Part::Latency && m.label().contains("WRITE")).unwrap();
    let ratio = read.p50_ns().unwrap() as f64 / write.p50_ns().unwrap() as f64;
    assert!((1.9..=2.1).contains(&ratio), "a read takes a whole round trip, not {ratio} of a half");
    nothing_is_left(&mut c, 2);
}

#[test]
fn the_matrix_has_only_what_it_would_have_had() {
    let mut c = roce(2);
    let id = ask(&mut c, None, true, None);
    finish(&mut c, id);
    is_right(&c, Metric::Latency, 0, 1);
    is_right(&c, Metric::Latency, 1, 0);
    is_right(&c, Metric::Bandwidth, 0, 1);
    is_right(&c, Metric::Bandwidth, 1, 0);
}

#[test]
fn a_slow_and_a_lossy_path_are_named_by_their_labels() {
    let mut c = roce(2);
    let (a, b) = (c.endpoint(0), c.endpoint(1));
    c.fabric().borrow_mut().set_label_fault(&a, &b, 7, 4_000, 0);
    c.fabric().borrow_mut().set_label_fault(&a, &b, 11, 0, 100_000);
    let verdicts = bad(&full(&mut c));
    let slow: Vec<_> = verdicts.iter().filter(|v| v.id == "slow-label").map(|v| v.subject.as_str()).collect();
    assert!(slow.contains(&"path label 7"), "{verdicts:#?}");
    assert_eq!(the(&verdicts, "lossy-label").subject, "path label 11");
}

#[test]
fn loss_in_one_direction_is_that_direction_s() {
    let mut c = roce(2);
    let (a, b) = (c.endpoint(0), c.endpoint(1));
    c.fabric().borrow_mut().set_direction_loss(&b, &a, 50_000);
    let run = full(&mut c);
    let verdicts = run.verdicts();
    let loss: Vec<_> = verdicts.iter().filter(|v| v.id == "loss").collect();
    assert_eq!((loss[0].status, loss[0].subject.as_str()), (Status::Fail, "node-1/sim0/1 -> node-0/sim0/1"));
    assert!(loss[0].text.ends_with("in this direction only") && loss[1].status == Status::Ok, "{loss:#?}");
    assert_eq!(the(&verdicts, "direction").subject, "node-1/sim0/1 -> node-0/sim0/1");
    let sent_again =
        |v: &Verdict| v.id == "retransmits" && v.status != Status::Ok && v.subject == "host node-1";
    assert!(verdicts.iter().any(sent_again), "{verdicts:#?}");
}

#[test]
fn a_path_that_drops_large_packets_is_told_from_ends_that_differ() {
    let mut c = roce(2);
    let (a, b) = (c.endpoint(0), c.endpoint(1));
    c.fabric().borrow_mut().lose_large(&a, &b);
    let verdicts = bad(&full(&mut c));
    assert_eq!(the(&verdicts, "path-mtu").cause, Some(Cause::PathMtu));
    assert_eq!(the(&verdicts, "echo-mtu").status, Status::Fail);
    c.change_endpoint(1, |info| (info.active_mtu, info.netdev_mtu) = (Some(1_024), Some(1_500)));
    c.run_for(seconds(1));
    let verdicts = bad(&full(&mut c));
    assert_eq!(the(&verdicts, "mtu-mismatch").cause, Some(Cause::MtuMismatch));
    assert_eq!(the(&verdicts, "path-mtu").cause, Some(Cause::MtuMismatch));
    assert_eq!(the(&verdicts, "own-mtu").subject, "host node-1");
}

#[test]
fn a_class_that_a_port_ignores_is_seen_in_its_counters() {
    let mut c = roce(2);
    let a = c.endpoint(0);
    c.fabric().borrow_mut().ignore_class(&a);
    let run = full(&mut c);
    let verdict = the(&run.verdicts(), "class").clone();
    assert!(
        verdict.status == Status::Fail && verdict.text.contains("priority 0, like class 0"),
        "{verdict:?}"
    );
}

#[test]
fn a_path_that_breaks_on_the_way_is_another_cause_than_one_that_never_worked() {
    let mut c = roce(2);
    let id = ask(&mut c, None, true, None);
    let streams = |c: &Cluster| {
        let run = c.coordinator().probe(id).unwrap();
        run.measurements.iter().any(|m| m.part == Part::Load && m.progress == Progress::Running)
    };
    assert!(c.run_until(seconds(600), streams));
    c.run_for(std::time::Duration::from_millis(300));
    c.block_path(0, 1, true);
    let run = finish(&mut c, id);
    let verdicts = bad(&run);
    let causes: Vec<_> = verdicts.iter().filter(|v| v.id == "steps").filter_map(|v| v.cause).collect();
    assert!(causes.contains(&Cause::PathLost) && causes.contains(&Cause::RetryExceeded), "{verdicts:#?}");
    nothing_is_left(&mut c, 2);
}

#[test]
fn a_gpu_that_is_not_there_is_not_available_and_the_rest_is_measured() {
    let mut c = roce(2);
    let id = ask(&mut c, Some(26), true, Some(0));
    let verdicts = bad(&finish(&mut c, id));
    assert_eq!(
        (the(&verdicts, "gpu").status, the(&verdicts, "gpu").cause),
        (Status::Unknown, Some(Cause::NotAvailable))
    );
    assert!(verdicts.iter().all(|v| v.cause == Some(Cause::NotAvailable)), "{verdicts:#?}");
}

#[test]
fn busy_ports_keep_their_bandwidth_and_the_report_goes_on() {
    let mut c = roce(2);
    let id = ask(&mut c, None, false, None);
    c.make_busy(0);
    let run = finish(&mut c, id);
    for m in &run.measurements {
        let stream = matches!(m.spec, ProbeSpec::Bandwidth(_));
        let expected = if stream { Progress::Excluded(Exclusion::Busy) } else { Progress::Done };
        let beside = m.part == Part::UnderLoad && m.progress == Progress::Nothing;
        assert!(m.progress == expected || beside, "{m:?}");
    }
    let verdicts = bad(&run);
    assert!(the(&verdicts, "steps").next_step.contains("--drained"), "{verdicts:#?}");
    assert!(verdicts.iter().all(|v| v.status == Status::Unknown), "{verdicts:#?}");
}

fn incast(c: &mut Cluster, sources: usize) -> ProbeRun {
    let request = IncastRequest {
        sources: (1..=sources).map(|node| format!("node-{node}")).collect(),
        target: "node-0".to_owned(),
        device: None,
        class: Some(26),
        drained: true,
    };
    let id = c.command(|coordinator, now| coordinator.start_incast(&request, now)).unwrap().unwrap();
    finish(c, id)
}

#[test]
fn sources_of_an_incast_send_at_the_same_time_and_share_the_receiver() {
    for sources in [2, 4, 8] {
        let mut c = roce(9);
        let run = incast(&mut c, sources);
        assert_eq!(bad(&run), Vec::new());
        let found = run.incast().unwrap();
        assert_eq!(found.sources.len(), sources);
        assert!((0.9..=1.0).contains(&found.of_line_rate.unwrap()), "{found:?}");
        let fabric = c.fabric();
        let fabric = fabric.borrow();
        let last = fabric.history().iter().map(|e| e.began).max().unwrap();
        assert!(fabric.history().iter().all(|e| last < e.ends), "all {sources} ran at once");
    }
}

#[test]
fn an_incast_over_a_lossy_receiver_collapses() {
    let mut c = roce(5);
    let target = c.endpoint(0);
    c.fabric().borrow_mut().set_loss(&target, 10_000);
    let run = incast(&mut c, 4);
    let verdicts = bad(&run);
    assert_eq!(the(&verdicts, "incast").status, Status::Fail);
    assert!(the(&verdicts, "incast-lossless").text.contains("nothing protects this class"), "{verdicts:#?}");
    nothing_is_left(&mut c, 5);
}
