//! How much gets through: against the goodput ceiling, one direction against the other, verb against verb, RDMA against TCP.

use super::{Report, Verdict, micros, per_cent, rate};
use crate::pair::{Measurement, Part, Progress, ceiling_bps, expected_mtu};
use rdmascope_model::{BandwidthStats, Cause, Operation, Outcome, ProbeSpec, Status};

/// A healthy pair reaches this share of the goodput ceiling, per cent (the figure of NVIDIA's and Azure's own checks of the line rate).
const OF_CEILING: u64 = 90;
/// One direction may be slower than the other by chance: down to this share, per cent.
const OF_OTHER_DIRECTION: u64 = 90;
/// Reads and sends cost more than writes, but not a third, per cent.
const OF_WRITE: u64 = 70;
/// The slowest tenth of the window of a steady stream, per cent of its average.
const WORST_WINDOW: u64 = 70;
/// What fills a fast port: so many queue pairs with messages of so many bytes (perftest issues 252 and 318).
const SATURATES: (u32, u32) = (4, 1 << 20);

fn message_bytes(m: &Measurement) -> u32 {
    match m.spec {
        ProbeSpec::Bandwidth(spec) => spec.message_bytes,
        _ => 0,
    }
}

fn saturates(m: &Measurement) -> bool {
    m.manner.queue_pairs >= SATURATES.0 && message_bytes(m) >= SATURATES.1
}

/// Streams of one way from A to B (0) or B to A (1); a read's bytes travel the other way than its requests.
fn one_way(report: &Report, direction: usize) -> impl Iterator<Item = (&Measurement, u64)> {
    let all = report.of(Part::Bandwidth).filter(|m| !m.manner.both_ways);
    let towards = move |m: &&Measurement| {
        let asked = report.end_of(m, 0);
        let read = usize::from(m.manner.operation == Operation::Read);
        asked ^ read == direction
    };
    all.filter(towards).filter_map(|m| Some((m, m.average_bps(0)?)))
}

fn best(report: &Report, direction: usize) -> Option<(&Measurement, u64)> {
    one_way(report, direction).max_by_key(|(_, bps)| *bps)
}

fn stats(m: &Measurement) -> Option<&BandwidthStats> {
    match m.found() {
        Some(Outcome::Bandwidth(stats, _)) => Some(stats),
        _ => None,
    }
}

/// The best combination of each direction against what the port can carry.
pub(super) fn ceiling(report: &Report) -> Vec<Verdict> {
    [0, 1].into_iter().flat_map(|direction| ceiling_of(report, direction)).collect()
}

fn ceiling_of(report: &Report, direction: usize) -> Vec<Verdict> {
    let subject = report.direction(direction);
    let Some((m, bps)) = best(report, direction) else {
        return report.unknown("ceiling", subject, Part::Bandwidth);
    };
    let ends = [&report.ends[0].info, &report.ends[1].info];
    let mtu = expected_mtu(ends);
    let verdict = |status, text: String| {
        Verdict::new("ceiling", status, subject.clone(), text).seen(format!("best: {}", m.label()))
    };
    let Some(ceiling) = ceiling_bps(ends, mtu) else {
        return vec![verdict(
            Status::Unknown,
            format!("{}; not known what the port can carry: no rate was told", rate(bps)),
        )];
    };
    let of_ceiling = format!(
        "{} is {:.1} % of the {} that are possible at MTU {mtu}",
        rate(bps),
        per_cent(bps, ceiling),
        rate(ceiling)
    );
    let enough = bps * 100 >= ceiling * OF_CEILING;
    let saturating = one_way(report, direction).any(|(m, _)| saturates(m));
    let mut verdicts = vec![match (enough, saturating) {
        (true, _) => verdict(Status::Ok, of_ceiling),
        (false, false) => verdict(
            Status::Unknown,
            format!("not saturating: {of_ceiling}, but no stream with {} queue pairs and 1 MiB messages was measured", SATURATES.0),
        )
        .next("Measure with 4 queue pairs and 1 MiB messages: `rdmascope probe A B --full --drained`."),
        (false, true) => verdict(Status::Fail, of_ceiling).next(
            "See `rdmascope check` on both nodes (PCIe width and speed, rate, FEC, MTU), then the path: retransmissions, pauses, shared links.",
        ),
    }];
    let uneven = stats(m)
        .and_then(|s| Some((s.worst_window_bps?, s.average_bps)))
        .filter(|(worst, average)| worst * 100 < average * WORST_WINDOW);
    if let Some((worst, average)) = uneven {
        let text =
            format!("the slowest tenth of the time has {} of {} on average", rate(worst), rate(average));
        verdicts.push(Verdict::new("uneven", Status::Warn, report.direction(direction), text).next(
            "The stream comes in bursts: look for pauses, retransmissions, or another job on the path.",
        ));
    }
    verdicts
}

/// One direction against the other, and both at once.
pub(super) fn directions(report: &Report) -> Vec<Verdict> {
    let [Some((_, there)), Some((_, back))] = [best(report, 0), best(report, 1)] else {
        return report.unknown("direction", report.both(), Part::Bandwidth);
    };
    let slower = usize::from(back < there);
    let (low, high) = (there.min(back), there.max(back));
    let text =
        format!("{} and {} the other way", rate([there, back][slower]), rate([there, back][1 - slower]));
    let same = low * 100 >= high * OF_OTHER_DIRECTION;
    let status = if same { Status::Ok } else { Status::Warn };
    let subject = if same { report.both() } else { report.direction(slower) };
    let next = "One direction alone is slow: look at the sender's PCIe and cable, the switch ports of this direction, and the receiver's buffers.";
    let mut verdicts = vec![Verdict::new("direction", status, subject, text).next(next)];
    let both =
        report.of(Part::Bandwidth).filter(|m| m.manner.both_ways && m.manner.operation == Operation::Write);
    let both = both
        .filter_map(|m| Some([m.average_bps(0)?, m.average_bps(1)?]))
        .max_by_key(|both| both[0].min(both[1]));
    verdicts.push(match both {
        None => Verdict::new("both-ways", Status::Unknown, report.both(), format!("not known: {}", report.why_not(Part::Bandwidth))),
        Some([a, b]) => {
            let enough = a * 100 >= there * OF_WRITE && b * 100 >= back * OF_WRITE;
            let status = if enough { Status::Ok } else { Status::Warn };
            let text = format!("both directions at once: {} and {}", rate(a), rate(b));
            Verdict::new("both-ways", status, report.both(), text)
                .seen(format!("alone: {} and {}", rate(there), rate(back)))
                .next("A host cannot send and receive at full rate: PCIe width and speed, memory placement (NUMA), relaxed ordering.")
        }
    });
    verdicts
}

/// Reads and sends against writes.
pub(super) fn verbs(report: &Report) -> Vec<Verdict> {
    let best = |operation| {
        let of = report
            .of(Part::Bandwidth)
            .filter(move |m| m.manner.operation == operation && !m.manner.both_ways);
        of.filter_map(|m| m.average_bps(0)).max()
    };
    if report.ends[0].info.fabric == rdmascope_model::Fabric::Tcp {
        return vec![Verdict::new("verbs", Status::Ok, report.both(), "TCP has no verbs to compare")];
    }
    let Some(write) = best(Operation::Write) else {
        return report.unknown("verbs", report.both(), Part::Bandwidth);
    };
    let compare = |operation: Operation| {
        let name = operation.as_str().to_uppercase();
        let verdict = |status, text: String| Verdict::new("verbs", status, name.clone(), text);
        match best(operation) {
            None => verdict(Status::Unknown, format!("not known: no {name} was measured to its end")),
            Some(bps) => {
                let status = if bps * 100 < write * OF_WRITE { Status::Warn } else { Status::Ok };
                let next = match operation {
                    Operation::Read => {
                        "See outstanding reads (max_rd_atomic of both devices), PCIe read requests (max read request size), ACS."
                    }
                    _ => {
                        "See the receiving host: its processor, its receive buffers, receiver-not-ready events (rnr_nak)."
                    }
                };
                verdict(status, format!("{} against {} of WRITE", rate(bps), rate(write))).next(next)
            }
        }
    };
    vec![compare(Operation::Read), compare(Operation::Send)]
}

/// Processor seconds for 10^9 bytes at the source (0) or the target (1) of a stream.
fn processor_seconds_per_gigabyte(m: &Measurement, end: usize) -> Option<f64> {
    let bytes = stats(m)?.bytes;
    let ns = m.effects(end)?.processor_ns?;
    (bytes > 0).then(|| ns as f64 / bytes as f64)
}

/// What RDMA gains over TCP on the same network devices.
pub(super) fn baseline(report: &Report) -> Vec<Verdict> {
    if report.ends[0].info.fabric == rdmascope_model::Fabric::Tcp {
        return vec![Verdict::new("baseline", Status::Ok, report.both(), "the endpoints are TCP themselves")];
    }
    let tcp_latency = report.of(Part::Baseline).find_map(Measurement::p50_ns);
    let tcp_stream = report.of(Part::Baseline).find_map(|m| Some((m, m.average_bps(0)?)));
    let write = |m: &&Measurement| m.manner.operation == Operation::Write;
    let rdma_latency = report.of(Part::Latency).filter(write).find_map(Measurement::p50_ns);
    let rdma_stream = one_way(report, 0).max_by_key(|(_, bps)| *bps);
    let mut words = Vec::new();
    let mut slower = false;
    if let (Some(rdma), Some(tcp)) = (rdma_latency, tcp_latency) {
        slower |= tcp < rdma;
        words.push(format!("latency {} instead of {}", micros(rdma), micros(tcp)));
    }
    if let (Some((_, rdma)), Some((_, tcp))) = (rdma_stream, tcp_stream) {
        slower |= tcp > rdma;
        words.push(format!("bandwidth {} instead of {}", rate(rdma), rate(tcp)));
    }
    if words.is_empty() {
        let part =
            if tcp_latency.is_none() && tcp_stream.is_none() { Part::Baseline } else { Part::Bandwidth };
        return report.unknown("baseline", report.both(), part);
    }
    let cpu = |end: usize| {
        let (rdma, tcp) = (rdma_stream?.0, tcp_stream?.0);
        Some((processor_seconds_per_gigabyte(rdma, end)?, processor_seconds_per_gigabyte(tcp, end)?))
    };
    let processors = [0, 1].map(|end| {
        let who = ["source", "target"][end];
        match cpu(end) {
            Some((rdma, tcp)) => {
                format!("processor seconds per GB at the {who}: RDMA {rdma:.3}, TCP {tcp:.3}")
            }
            None => format!("processor seconds per GB at the {who}: not known"),
        }
    });
    let [source, target] = processors;
    let (id, status, begin) = if slower {
        ("tcp-faster", Status::Warn, "TCP is faster than RDMA here")
    } else {
        ("baseline", Status::Ok, "RDMA gains over TCP")
    };
    let text = format!("{begin}: {}", words.join(", "));
    vec![
        Verdict::new(id, status, report.both(), text).seen(source).seen(target).next(
            "RDMA should never lose: see MTU, PFC and ECN of its class, retransmissions, and PCIe; software RDMA devices are expected to lose.",
        ),
    ]
}

/// GPU memory against host memory; nothing where it was not asked for.
pub(super) fn gpu(report: &Report) -> Vec<Verdict> {
    if report.asked.gpu.is_none() {
        return Vec::new();
    }
    let missing = report.of(Part::Gpu).find_map(|m| match &m.progress {
        Progress::Failed(failure) if failure.cause == Cause::NotAvailable => Some(failure.evidence.clone()),
        _ => None,
    });
    if let Some(evidence) = missing {
        let text = "not available: GPU memory cannot be registered here";
        return vec![
            Verdict::new("gpu", Status::Unknown, report.both(), text)
                .seen(evidence)
                .cause(Cause::NotAvailable),
        ];
    }
    let gpu = report.of(Part::Gpu).find_map(|m| m.average_bps(0));
    let (Some(gpu), Some((_, host))) = (gpu, best(report, 0)) else {
        return report.unknown("gpu", report.both(), Part::Gpu);
    };
    let status = if gpu * 100 < host * OF_WRITE { Status::Warn } else { Status::Ok };
    let text = format!("GPU memory reaches {}, host memory {}", rate(gpu), rate(host));
    vec![Verdict::new("gpu", status, report.both(), text).next(
        "The way between GPU and port is narrow: ACS redirect, IOMMU, another PCIe switch or NUMA node; `rdmascope check` names ACS.",
    )]
}

#[cfg(test)]
mod tests {
    use super::super::samples::{change, healthy, stream, the, told_failure};
    use super::*;

    /// Sets the goodput of the streams for which `which` says so.
    fn slow(report: &mut Report, which: impl Fn(&Measurement) -> bool, bps: u64) {
        for m in report.measurements.iter_mut().filter(|m| which(m)) {
            stream(m, bps);
        }
    }

    #[test]
    fn the_best_combination_is_judged_against_the_ceiling() {
        let mut report = healthy();
        let (a, _) = (report.ends[0].info.name.clone(), ());
        slow(&mut report, |m| m.part == Part::Bandwidth && !saturates(m), 40_000_000_000);
        let best: Vec<_> =
            super::super::verdicts(&report).into_iter().filter(|v| v.id == "ceiling").collect();
        assert!(
            best.iter().all(|v| v.status == Status::Ok),
            "one queue pair with 64 KiB is not judged: {best:?}"
        );
        slow(
            &mut report,
            |m| m.part == Part::Bandwidth && (m.source == a) == (m.manner.operation != Operation::Read),
            80_000_000_000,
        );
        let verdicts: Vec<_> = ceiling(&report);
        assert_eq!((verdicts[0].status, verdicts[1].status), (Status::Fail, Status::Ok));
        assert!(verdicts[0].text.contains("80.0 Gbit/s is 81.6 % of the 98.0 Gbit/s"), "{verdicts:?}");
        let direction = the(&report, "direction");
        assert_eq!((direction.status, direction.subject.as_str()), (Status::Warn, "a/d0/1 -> b/d0/1"));
    }

    #[test]
    fn what_does_not_saturate_is_not_judged() {
        let mut report = healthy();
        report.measurements.retain(|m| m.part != Part::Bandwidth || !saturates(m));
        slow(&mut report, |m| m.part == Part::Bandwidth, 40_000_000_000);
        let verdict = the(&report, "ceiling");
        assert_eq!(verdict.status, Status::Unknown);
        assert!(verdict.text.starts_with("not saturating"), "{verdict:?}");
        report.ends[0].info.rate_bps = None;
        assert!(the(&report, "ceiling").text.contains("no rate was told"));
    }

    #[test]
    fn a_stream_in_bursts_a_slow_verb_and_a_narrow_host_are_warned_of() {
        let mut report = healthy();
        change(&mut report, Part::Bandwidth, |m| {
            if let Some(Outcome::Bandwidth(stats, _)) = m.told[0].as_mut().map(|told| &mut told.outcome) {
                stats.worst_window_bps = Some(stats.average_bps / 2);
            }
        });
        assert_eq!(the(&report, "uneven").status, Status::Warn);
        let mut report = healthy();
        slow(&mut report, |m| m.manner.operation == Operation::Read, 50_000_000_000);
        let verdict = the(&report, "verbs");
        assert_eq!((verdict.status, verdict.subject.as_str()), (Status::Warn, "READ"));
        let mut report = healthy();
        slow(&mut report, |m| m.manner.both_ways, 50_000_000_000);
        assert_eq!(the(&report, "both-ways").status, Status::Warn);
    }

    #[test]
    fn rdma_that_loses_against_tcp_is_warned_of_and_the_gain_is_told() {
        let mut report = healthy();
        let verdict = the(&report, "baseline");
        assert!(verdict.text.contains("latency 2.00 µs instead of 20.00 µs"), "{verdict:?}");
        assert!(verdict.text.contains("bandwidth 96.0 Gbit/s instead of 30.0 Gbit/s"), "{verdict:?}");
        assert_eq!(verdict.evidence[0], "processor seconds per GB at the source: RDMA 0.020, TCP 0.500");
        change(&mut report, Part::Baseline, |m| stream(m, 97_000_000_000));
        assert_eq!(the(&report, "tcp-faster").status, Status::Warn);
        change(&mut report, Part::Baseline, told_failure(Cause::ConnectRefused));
        assert!(the(&report, "baseline").text.contains("refused the TCP connection"));
    }

    #[test]
    fn gpu_memory_that_is_not_there_is_not_available_and_slow_one_is_warned_of() {
        let mut report = healthy();
        report.asked.gpu = Some(0);
        assert_eq!(the(&report, "gpu").status, Status::Unknown);
        let host = report.of(Part::Bandwidth).find(|m| saturates(m)).unwrap().clone();
        let mut of_gpu = Measurement { part: Part::Gpu, ..host };
        stream(&mut of_gpu, 20_000_000_000);
        report.measurements.push(of_gpu);
        assert_eq!(the(&report, "gpu").status, Status::Warn);
        change(&mut report, Part::Gpu, told_failure(Cause::NotAvailable));
        assert_eq!(the(&report, "gpu").cause, Some(Cause::NotAvailable));
    }
}
