//! A healthy pair made up for the tests of verdicts, and ways to break it.

use super::{Verdict, verdicts};
use crate::pair::{Asked, End, Measurement, Part, Progress, Report, Told, full};
use rdmascope_model::{
    BandwidthStats, Carrier, Cause, CounterDelta, DatagramAddress, Delays, EchoStats, Effects, EndpointInfo,
    Fabric, Failure, LabelBy, LabelResult, LatencyStats, Outcome, PerPriority, PingCounts, PingStats,
    ProbeSpec, Side, StampClock, Status, Step,
};

const NONE_AGAIN: CounterDelta = CounterDelta { retransmits: Some(0) };

fn end(node: &str) -> End {
    let gid = "::ffff:10.0.0.1".parse().unwrap();
    let name = format!("{node}/d0/1").parse().unwrap();
    let info = EndpointInfo {
        gid: Some(gid),
        netdev_mtu: Some(9_000),
        active_mtu: Some(4_096),
        rate_bps: Some(100_000_000_000),
        datagrams: Some(DatagramAddress { gid, lid: 0, queue_pair: 17, queue_key: 1, mtu_bytes: 4_096 }),
        connections_labelled_by: LabelBy::FlowLabel,
        datagrams_labelled_by: LabelBy::FlowLabel,
        ..EndpointInfo::bare(name, Fabric::Roce)
    };
    End { info, findings: Vec::new() }
}

fn latency(p50_ns: u64) -> Outcome {
    let stats = LatencyStats {
        count: 1_000,
        min_ns: p50_ns,
        p50_ns,
        p90_ns: p50_ns,
        p99_ns: Some(p50_ns),
        p999_ns: None,
        max_ns: p50_ns,
        host_delayed: 0,
    };
    Outcome::Latency(stats, NONE_AGAIN)
}

pub(super) fn bandwidth(average_bps: u64) -> Outcome {
    let stats = BandwidthStats {
        bytes: 1_000_000_000,
        duration_ns: 80_000_000,
        average_bps,
        worst_window_bps: Some(average_bps),
        variation_permille: Some(10),
        completions: 1_000,
    };
    Outcome::Bandwidth(stats, NONE_AGAIN)
}

fn delays(p50_ns: u64) -> Delays {
    Delays { count: 200, min_ns: p50_ns, p50_ns, p99_ns: None, max_ns: p50_ns }
}

fn ping_stats(labels: u32) -> PingStats {
    let counts = |payload_bytes| PingCounts {
        payload_bytes,
        sent: 200,
        answered: 200,
        lost_forward: Some(0),
        lost_backward: Some(0),
        ..PingCounts::default()
    };
    let label = |flow_label| LabelResult { flow_label, sent: 40, answered: 40, p50_ns: Some(4_000) };
    PingStats {
        batch: 1,
        clock: StampClock::Hardware,
        small: counts(64),
        large: counts(4_096),
        network: Some(delays(4_000)),
        network_large: Some(delays(5_000)),
        responder: Some(delays(2_000)),
        prober: Some(delays(2_000)),
        host_delayed: 0,
        invalid_stamps: 0,
        stale: 0,
        labels: if labels > 1 { (1..=labels).map(label).collect() } else { Vec::new() },
    }
}

/// All eight priorities, with so many packets in one.
pub(super) fn priority(at: usize, packets: u64) -> PerPriority {
    let mut counts = PerPriority::default();
    counts.0[at] = packets;
    counts
}

fn effects(m: &Measurement) -> Effects {
    let class = usize::from(m.manner.marks.traffic_class >> 5);
    let packets = Some(priority(class, 10_000));
    let none = Some(PerPriority::default());
    Effects {
        retransmits: Some(0),
        congestion_notifications_sent: Some(0),
        congestion_notifications_handled: Some(0),
        congestion_marked: Some(0),
        discards: Some(0),
        pause_received: none,
        pause_received_ns: none,
        pause_sent: none,
        packets_sent: packets,
        packets_received: packets,
        processor_ns: Some(if m.manner.carrier == Carrier::Tcp { 500_000_000 } else { 20_000_000 }),
    }
}

fn outcome(m: &Measurement) -> [Outcome; 2] {
    let tcp = m.manner.carrier == Carrier::Tcp;
    match m.spec {
        ProbeSpec::Latency(_) if tcp => [latency(20_000), latency(20_000)],
        ProbeSpec::Latency(_) => [latency(2_000), latency(2_000)],
        ProbeSpec::Bandwidth(_) if tcp => [bandwidth(30_000_000_000), Outcome::Served],
        ProbeSpec::Bandwidth(_) if m.manner.both_ways => {
            [bandwidth(96_000_000_000), bandwidth(96_000_000_000)]
        }
        ProbeSpec::Bandwidth(_) => [bandwidth(96_000_000_000), Outcome::Served],
        ProbeSpec::Pings(spec) => [Outcome::Pings(Box::new(ping_stats(spec.labels))), Outcome::Served],
        ProbeSpec::Echo(spec) => {
            let round_trip = Some(delays(30_000));
            let (sent, answered, heard) = (spec.count, spec.count, Some(spec.count));
            [
                Outcome::Echo(EchoStats {
                    payload_bytes: spec.payload_bytes,
                    sent,
                    heard,
                    answered,
                    round_trip,
                }),
                Outcome::Served,
            ]
        }
    }
}

/// A report of everything but GPU memory, of class 26, in which nothing is wrong.
pub(super) fn healthy() -> Report {
    let ends = [end("a"), end("b")];
    let asked = Asked { class: Some(26), paths: 4, labels: 21, gpu: None };
    let (stages, skipped) = full(&asked, [&ends[0].info, &ends[1].info]);
    let tasks = stages.into_iter().flat_map(|stage| [Some(stage.first), stage.beside]).flatten();
    let measurements = tasks.map(|task| {
        let names = [&ends[0].info.name, &ends[1].info.name].map(Clone::clone);
        let [a, b] = names;
        let (source, target) = if task.reverse { (b, a) } else { (a, b) };
        let (part, spec, manner) = (task.part, task.spec, task.manner);
        let mut m =
            Measurement { part, source, target, spec, manner, progress: Progress::Done, told: [None, None] };
        let moved = effects(&m);
        m.told = outcome(&m).map(|outcome| Some(Told { outcome, effects: Some(Box::new(moved.clone())) }));
        m
    });
    let measurements = measurements.collect();
    Report { ends, asked, measurements, skipped }
}

/// Changes the measurements of a part.
pub(super) fn change(report: &mut Report, part: Part, mut how: impl FnMut(&mut Measurement)) {
    let mut changed = 0;
    for m in report.measurements.iter_mut().filter(|m| m.part == part) {
        how(m);
        changed += 1;
    }
    assert!(changed > 0, "no measurement of {part:?}");
}

/// Changes what pings found.
pub(super) fn pings(how: impl Fn(&mut PingStats)) -> impl FnMut(&mut Measurement) {
    move |m| {
        if let Some(Outcome::Pings(stats)) = m.told[0].as_mut().map(|told| &mut told.outcome) {
            how(stats);
        }
    }
}

/// Changes what latency found at one end.
pub(super) fn latency_stats(end: usize, how: impl Fn(&mut LatencyStats)) -> impl FnMut(&mut Measurement) {
    move |m| {
        if let Some(Outcome::Latency(stats, _)) = m.told[end].as_mut().map(|told| &mut told.outcome) {
            how(stats);
        }
    }
}

/// Changes the effects at one end.
pub(super) fn moved(end: usize, how: impl Fn(&mut Effects)) -> impl FnMut(&mut Measurement) {
    move |m| {
        if let Some(effects) = m.told[end].as_mut().and_then(|told| told.effects.as_mut()) {
            how(effects);
        }
    }
}

/// Gives the streams of a measurement another goodput.
pub(super) fn stream(m: &mut Measurement, bps: u64) {
    for told in m.told.iter_mut().flatten() {
        if let Outcome::Bandwidth(stats, _) = &mut told.outcome {
            (stats.average_bps, stats.worst_window_bps) = (bps, Some(bps));
        }
    }
}

/// Lets a measurement fail at its source.
pub(super) fn told_failure(cause: Cause) -> impl FnMut(&mut Measurement) {
    move |m| {
        let failure =
            Failure { cause, step: Step::FirstByte, side: Side::Source, evidence: "seen".to_owned() };
        m.told = [Some(Told { outcome: Outcome::Failed(failure.clone()), effects: None }), None];
        m.progress = Progress::Failed(failure);
    }
}

/// The worst verdict with this id.
#[track_caller]
pub(super) fn the(report: &Report, id: &str) -> Verdict {
    verdicts(report).into_iter().find(|verdict| verdict.id == id).unwrap_or_else(|| panic!("no verdict {id}"))
}

#[track_caller]
pub(super) fn status_of(report: &Report, id: &str) -> Status {
    the(report, id).status
}
