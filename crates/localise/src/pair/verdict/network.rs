//! What the network does to packets: loss by direction, slow or lossy paths, delay beside a stream; and what the hosts do, kept apart.

use super::{Report, Verdict, micros, per_cent};
use crate::median;
use crate::pair::{Measurement, Part};
use rdmascope_model::{Cause, Delays, LabelResult, Outcome, PingStats, ProbeSpec, StampClock, Status};

/// Slower than the median of the labels by so many scaled deviations, and by so much, is slow (matrix.md 4.3: no false alarm in its sample).
const LABEL_DEVIATIONS: f64 = 3.5;
const LABEL_EXCESS: f64 = 1.08;
/// Turns a median deviation into a standard deviation of the normal distribution.
const MAD_SCALE: f64 = 1.4826;
/// A stream that fills the port may delay others by the packets ahead of them in the queue; ten times is more than that.
const UNDER_LOAD_RATIO: f64 = 10.0;
/// A host is late when this was exceeded, nanoseconds: of hardware stamps, and of software stamps.
const HOST_LATE_NS: [u64; 2] = [50_000, 1_000_000];
/// Share of the samples that may be late by chance.
const HOST_LATE_SHARE: u32 = 20;

fn ping_stats(m: &Measurement) -> Option<&PingStats> {
    match m.found() {
        Some(Outcome::Pings(stats)) => Some(stats),
        _ => None,
    }
}

/// Loss in each direction. Sizes of which nothing arrives are the MTU's affair.
pub(super) fn loss(report: &Report) -> Vec<Verdict> {
    let Some(stats) = report.of(Part::Ping).find_map(ping_stats) else {
        return report.unknown("loss", report.both(), Part::Ping);
    };
    let hole = stats.small.answered > 0 && stats.large.answered == 0;
    let sizes: &[_] = if hole { &[stats.small] } else { &[stats.small, stats.large] };
    let sent: u32 = sizes.iter().map(|counts| counts.sent).sum();
    let lost = |at: usize| {
        let of = |counts: &rdmascope_model::PingCounts| [counts.lost_forward, counts.lost_backward][at];
        sizes.iter().map(of).sum::<Option<u32>>()
    };
    let [there, back] = [lost(0), lost(1)];
    let (Some(there), Some(back)) = (there, back) else {
        let answered: u32 = sizes.iter().map(|counts| counts.answered + counts.late).sum();
        let missing = sent.saturating_sub(answered);
        let text = format!(
            "{missing} of {sent} pings had no answer; in which direction they were lost is not known"
        );
        let status = if missing == 0 { Status::Ok } else { Status::Fail };
        return vec![
            Verdict::new("loss", status, report.both(), text)
                .next("Look at the peer: is its agent running, and does it answer others?"),
        ];
    };
    let direction = |at: usize, lost: u32, of: u32, other: u32| {
        let status = match lost {
            0 => Status::Ok,
            1 => Status::Warn,
            _ => Status::Fail,
        };
        let alone = if lost > 0 && other == 0 { ", in this direction only" } else { "" };
        let text = format!("{lost} of {of} datagrams lost{alone}");
        Verdict::new("loss", status, report.direction(at), text).next(
            "Look at this direction's way: error counters of the sender's cable, discards of the switch ports, discards of the receiving port.",
        )
    };
    let after =
        |counts: &rdmascope_model::PingCounts| counts.sent.saturating_sub(counts.lost_forward.unwrap_or(0));
    let answers = sizes.iter().map(after).sum();
    let late: u32 = sizes.iter().map(|counts| counts.late).sum();
    let mut both = vec![direction(0, there, sent, back), direction(1, back, answers, there)];
    if late > 0 {
        both.iter_mut().for_each(|v| v.evidence.push(format!("{late} answers came after the time-out")));
    }
    both
}

/// Delay inside the hosts: it is not the network's.
pub(super) fn host_delay(report: &Report) -> Vec<Verdict> {
    let stats = report.of(Part::Ping).find_map(ping_stats);
    vec![host(report, 0, stats), host(report, 1, stats)]
}

fn host(report: &Report, at: usize, stats: Option<&PingStats>) -> Verdict {
    let verdict = |status, text: String| Verdict::new("host-delay", status, report.host(at), text);
    let delays: Option<(&Delays, u64)> = stats.and_then(|stats| {
        let late = HOST_LATE_NS[usize::from(stats.clock == StampClock::Software)];
        let delays = if at == 0 { stats.prober.as_ref() } else { stats.responder.as_ref() };
        delays.map(|delays| (delays, late))
    });
    let preempted = report.of(Part::Latency).filter_map(|m| {
        let side = report.end_of(m, at);
        match &m.told[side].as_ref()?.outcome {
            Outcome::Latency(stats, _) => Some((stats.host_delayed, stats.count)),
            _ => None,
        }
    });
    let (delayed, of) = preempted.fold((0, 0), |(a, b), (delayed, count)| (a + delayed, b + count));
    if delays.is_none() && of == 0 {
        return verdict(Status::Unknown, format!("not known: {}", report.why_not(Part::Latency)));
    }
    let slow = delays.filter(|(d, late)| {
        let tail = d.p99_ns.unwrap_or(d.max_ns);
        tail > *late && tail > 5 * d.p50_ns
    });
    let often = delayed > of / HOST_LATE_SHARE;
    let mut verdict = if slow.is_some() || often {
        verdict(
            Status::Warn,
            "the host itself delays messages; the network is not to blame for that".to_owned(),
        )
        .cause(Cause::HostStarved)
    } else {
        verdict(Status::Ok, "the host answers without delay of its own".to_owned())
    };
    if let Some((d, _)) = delays {
        let tail = d.p99_ns.map_or("max", |_| "p99");
        let value = d.p99_ns.unwrap_or(d.max_ns);
        verdict =
            verdict.seen(format!("inside the host: median {}, {tail} {}", micros(d.p50_ns), micros(value)));
    }
    if of > 0 {
        verdict = verdict
            .seen(format!("{delayed} of {of} round trips in which the measuring thread was interrupted"));
    }
    verdict
}

/// A path label whose connections are slower than those of the others.
pub(super) fn labels(report: &Report) -> Vec<Verdict> {
    let figures: Vec<_> = report
        .of(Part::Label)
        .filter(|m| m.manner.marks.flow_label != 0)
        .filter_map(|m| Some((m.manner.marks.flow_label, m.p50_ns()?)))
        .collect();
    let Some(middle) =
        median(&mut figures.iter().map(|(_, ns)| *ns).collect::<Vec<_>>()).filter(|_| figures.len() >= 3)
    else {
        return report.unknown("slow-label", report.both(), Part::Label);
    };
    let deviation =
        median(&mut figures.iter().map(|(_, ns)| ns.abs_diff(middle)).collect::<Vec<_>>()).unwrap_or(0);
    let bound =
        (middle as f64 * LABEL_EXCESS).max(middle as f64 + LABEL_DEVIATIONS * MAD_SCALE * deviation as f64);
    let slow = figures.iter().filter(|(_, ns)| *ns as f64 > bound);
    let verdicts: Vec<_> = slow
        .map(|(label, ns)| {
            let text = format!("{} instead of {} on this path", micros(*ns), micros(middle));
            Verdict::new("slow-label", Status::Warn, format!("path label {label}"), text)
                .seen(format!("median of {} labels {}, slow above {}", figures.len(), micros(middle), micros(bound as u64)))
                .next("One of the equal-cost paths is slow: trace this label through the fabric and look at its links (errors, FEC, rate).")
        })
        .collect();
    if verdicts.is_empty() {
        let text =
            format!("{} path labels take the same time, {} in the median", figures.len(), micros(middle));
        return vec![Verdict::new("slow-label", Status::Ok, report.both(), text)];
    }
    verdicts
}

/// A path label on which packets are lost, by counts: retransmissions, failed connections, unanswered datagrams.
pub(super) fn lossy_labels(report: &Report) -> Vec<Verdict> {
    let connections = report.of(Part::Label).filter(|m| m.manner.marks.flow_label != 0);
    let counted = connections.filter_map(|m| {
        let again: u64 = [0, 1].iter().filter_map(|&end| m.retransmits(end)).sum();
        let known = [0, 1].iter().any(|&end| m.retransmits(end).is_some());
        known.then(|| {
            (m.manner.marks.flow_label, again, format!("{again} packets sent again or out of order"))
        })
    });
    let datagrams = report.of(Part::Label).filter_map(ping_stats).flat_map(|stats| &stats.labels).map(
        |LabelResult { flow_label, sent, answered, .. }| {
            let missing = u64::from(sent.saturating_sub(*answered));
            (*flow_label, missing, format!("{missing} of {sent} datagrams without an answer"))
        },
    );
    let all: Vec<_> = counted.chain(datagrams).collect();
    if all.is_empty() {
        return report.unknown("lossy-label", report.both(), Part::Label);
    }
    // Where most labels lose, it is not the path: that is told as loss of the pair.
    let usual = median(&mut all.iter().map(|(_, lost, _)| *lost).collect::<Vec<_>>()).unwrap_or(0);
    let lossy = all.iter().filter(|(_, lost, _)| *lost > 2 * usual + 1);
    let verdicts: Vec<_> = lossy
        .map(|(label, _, text)| {
            Verdict::new("lossy-label", Status::Fail, format!("path label {label}"), text.clone())
                .seen(format!("{usual} in the median of {} labels", all.len()))
                .next("One of the equal-cost paths loses packets: trace this label through the fabric and look at its links (errors, discards).")
        })
        .collect();
    if verdicts.is_empty() {
        return vec![Verdict::new(
            "lossy-label",
            Status::Ok,
            report.both(),
            "no path label loses more than the others",
        )];
    }
    verdicts
}

/// How long a message takes beside a stream of the same pair.
pub(super) fn under_load(report: &Report) -> Vec<Verdict> {
    let beside = report.of(Part::UnderLoad).find_map(|m| Some((m, m.p50_ns()?)));
    let loaded = report.of(Part::Load).any(|m| m.average_bps(0).is_some());
    let alone = beside.and_then(|(m, _)| {
        let same = match m.spec {
            ProbeSpec::Pings(_) => Part::Ping,
            _ => Part::Latency,
        };
        report.of(same).find(|a| a.manner.operation == m.manner.operation)?.p50_ns()
    });
    let (Some((_, beside)), Some(alone), true) = (beside, alone, loaded) else {
        let part = if loaded { Part::UnderLoad } else { Part::Load };
        return report.unknown("under-load", report.direction(0), part);
    };
    let ratio = beside as f64 / alone.max(1) as f64;
    let status = if ratio > UNDER_LOAD_RATIO { Status::Warn } else { Status::Ok };
    let text =
        format!("beside a stream {} instead of {}: {ratio:.1} times as long", micros(beside), micros(alone));
    let stream = report.of(Part::Load).find_map(|m| m.average_bps(0)).map_or(String::new(), super::rate);
    let verdict = Verdict::new("under-load", status, report.direction(0), text)
        .seen(format!("stream {stream}, {:.0} % more delay", per_cent(beside.saturating_sub(alone), alone)))
        .next("Queues fill before anybody slows down: look at ECN thresholds and the queue of this class on the switch ports.");
    vec![verdict]
}

#[cfg(test)]
mod tests {
    use super::super::samples::{change, healthy, latency_stats, moved, pings, the};
    use super::super::verdicts;
    use super::*;

    fn of(report: &Report, id: &str) -> Vec<Verdict> {
        verdicts(report).into_iter().filter(|v| v.id == id).collect()
    }

    #[test]
    fn loss_is_told_by_direction() {
        let mut report = healthy();
        change(
            &mut report,
            Part::Ping,
            pings(|stats| {
                (stats.small.answered, stats.small.lost_backward) = (190, Some(10));
            }),
        );
        let verdicts = of(&report, "loss");
        assert_eq!((verdicts[0].status, verdicts[0].subject.as_str()), (Status::Fail, "b/d0/1 -> a/d0/1"));
        assert_eq!(verdicts[0].text, "10 of 400 datagrams lost, in this direction only");
        assert_eq!(verdicts[1].status, Status::Ok, "the other direction is clean");
    }

    #[test]
    fn one_lost_datagram_is_a_warning_and_an_unknown_direction_is_said() {
        let mut report = healthy();
        change(
            &mut report,
            Part::Ping,
            pings(|stats| (stats.small.answered, stats.small.lost_forward) = (199, Some(1))),
        );
        assert_eq!(the(&report, "loss").status, Status::Warn);
        change(
            &mut report,
            Part::Ping,
            pings(|stats| {
                (stats.small.answered, stats.large.answered) = (0, 0);
                (stats.small.lost_forward, stats.small.lost_backward) = (None, None);
            }),
        );
        let verdict = the(&report, "loss");
        assert_eq!(verdict.status, Status::Fail);
        assert!(verdict.text.contains("in which direction they were lost is not known"), "{verdict:?}");
    }

    #[test]
    fn a_late_host_is_named_and_the_network_is_not() {
        let mut report = healthy();
        change(
            &mut report,
            Part::Ping,
            pings(|stats| {
                stats.responder =
                    Some(Delays { count: 200, min_ns: 1_000, p50_ns: 2_000, p99_ns: None, max_ns: 900_000 });
            }),
        );
        let verdict = the(&report, "host-delay");
        assert_eq!((verdict.status, verdict.cause), (Status::Warn, Some(Cause::HostStarved)));
        assert_eq!(verdict.subject, "host b");
        let software = |stats: &mut PingStats| stats.clock = StampClock::Software;
        change(&mut report, Part::Ping, pings(software));
        assert_eq!(the(&report, "host-delay").status, Status::Ok, "below what software stamps can tell");
        change(&mut report, Part::Latency, latency_stats(0, |stats| stats.host_delayed = 100));
        assert_eq!(the(&report, "host-delay").subject, "host a");
    }

    fn of_label(label: u32, how: impl Fn(&mut Measurement)) -> impl FnMut(&mut Measurement) {
        move |m| {
            if m.manner.marks.flow_label == label {
                how(m);
            }
        }
    }

    #[test]
    fn one_slow_path_of_several_is_named_by_its_label() {
        let mut report = healthy();
        change(&mut report, Part::Label, of_label(7, |m| latency_stats(0, |s| s.p50_ns = 2_150)(m)));
        assert_eq!(the(&report, "slow-label").status, Status::Ok, "7.5 % is within the noise");
        change(&mut report, Part::Label, of_label(7, |m| latency_stats(0, |s| s.p50_ns = 3_000)(m)));
        let slow = of(&report, "slow-label");
        assert_eq!(slow.len(), 1, "{slow:?}");
        assert_eq!((slow[0].status, slow[0].subject.as_str()), (Status::Warn, "path label 7"));
    }

    #[test]
    fn one_lossy_path_is_named_by_counts_and_loss_everywhere_is_no_path_s() {
        let mut report = healthy();
        change(&mut report, Part::Label, of_label(3, |m| moved(0, |e| e.retransmits = Some(12))(m)));
        let lossy = of(&report, "lossy-label");
        assert_eq!((lossy.len(), lossy[0].subject.as_str()), (1, "path label 3"));
        change(&mut report, Part::Label, moved(0, |e| e.retransmits = Some(12)));
        change(
            &mut report,
            Part::Label,
            pings(|s| s.labels.iter_mut().for_each(|l| l.answered = l.sent - 12)),
        );
        assert_eq!(the(&report, "lossy-label").status, Status::Ok);
    }

    #[test]
    fn delay_beside_a_stream_is_compared_with_delay_without() {
        let mut report = healthy();
        assert!(the(&report, "under-load").text.contains("1.0 times"));
        change(
            &mut report,
            Part::UnderLoad,
            pings(|stats| {
                stats.network =
                    Some(Delays { count: 200, min_ns: 1, p50_ns: 80_000, p99_ns: None, max_ns: 90_000 });
            }),
        );
        let verdict = the(&report, "under-load");
        assert_eq!(verdict.status, Status::Warn);
        assert!(verdict.text.contains("80.00 µs instead of 4.00 µs: 20.0 times"), "{verdict:?}");
    }
}
