//! What the ports' own counters moved during the report: pauses, congestion notifications, retransmissions, discards.

use super::{Report, Verdict, per_cent};
use crate::pair::Measurement;
use rdmascope_model::{Carrier, Effects, Outcome, PerPriority, Status};
use std::collections::BTreeMap;

/// Above this share of lost packets a pair is broken (matrix.md 4.3), per million.
const LOSS_PER_MILLION: u64 = 1_000;

/// Effects of one end over all RDMA measurements of the pair.
fn effects(report: &Report, end: usize) -> impl Iterator<Item = (&Measurement, &Effects)> {
    let rdma = |m: &&Measurement| m.manner.carrier == Carrier::Native;
    report.measurements.iter().filter(rdma).filter_map(move |m| Some((m, m.effects(report.end_of(m, end))?)))
}

fn sum(report: &Report, end: usize, of: impl Fn(&Effects) -> Option<u64>) -> Option<u64> {
    effects(report, end).filter_map(|(_, e)| of(e)).reduce(u64::saturating_add)
}

/// Priorities with more than 0, with their sum.
fn moved(report: &Report, end: usize, of: impl Fn(&Effects) -> Option<PerPriority>) -> BTreeMap<usize, u64> {
    let mut sums = BTreeMap::new();
    for (_, e) in effects(report, end) {
        for (priority, count) in of(e).iter().flat_map(|counts| counts.0.iter().enumerate()) {
            if *count > 0 {
                *sums.entry(priority).or_default() += count;
            }
        }
    }
    sums
}

/// Pauses and congestion notifications, by host and priority.
pub(super) fn congestion(report: &Report) -> Vec<Verdict> {
    [0, 1].into_iter().flat_map(|end| congestion_at(report, end)).collect()
}

fn congestion_at(report: &Report, end: usize) -> Vec<Verdict> {
    let looked = effects(report, end).any(|(_, e)| {
        e.pause_received.is_some() || e.pause_sent.is_some() || e.congestion_notifications_sent.is_some()
    });
    let verdict = |status, subject: String, text: String| Verdict::new("congestion", status, subject, text);
    if !looked {
        let why = if effects(report, end).next().is_some() {
            "the driver does not count pauses or congestion notifications"
        } else {
            "the agent told no counters"
        };
        return vec![verdict(Status::Unknown, report.host(end), format!("not known: {why}"))];
    }
    let mut verdicts = Vec::new();
    let received = moved(report, end, |e| e.pause_received);
    let sent = moved(report, end, |e| e.pause_sent);
    for (&priority, count) in &received {
        let text = format!("{count} pause frames received: the switch or the peer could not take more");
        verdicts.push(verdict(Status::Warn, format!("priority {priority} of {}", report.host(end)), text).next(
            "Look for the slow receiver behind the pauses: `rdmascope findings`, pause counters of the switch ports along the path.",
        ));
    }
    for (&priority, count) in &sent {
        let text = format!("{count} pause frames sent: this host does not take packets as fast as they come");
        verdicts.push(verdict(Status::Warn, format!("priority {priority} of {}", report.host(end)), text).next(
            "Look at this host: PCIe width and speed, memory placement (NUMA), ACS and IOMMU; `rdmascope check` there.",
        ));
    }
    let notified = sum(report, end, |e| e.congestion_notifications_sent).unwrap_or(0);
    let obeyed = sum(report, end, |e| e.congestion_notifications_handled).unwrap_or(0);
    if notified > 0 || obeyed > 0 {
        let text = format!(
            "congestion notifications: {notified} sent, {obeyed} obeyed: packets met a queue on their way"
        );
        verdicts.push(verdict(Status::Warn, report.host(end), text).next(
            "Something else shares the path, or a port is slower than another: see which switch port marks packets.",
        ));
    }
    if verdicts.is_empty() {
        verdicts.push(verdict(
            Status::Ok,
            report.host(end),
            "no pause frames, no congestion notifications".to_owned(),
        ));
    }
    verdicts
}

/// Retransmissions and discards, by host.
pub(super) fn losses(report: &Report) -> Vec<Verdict> {
    [0, 1].into_iter().flat_map(|end| [retransmits(report, end), discards(report, end)]).collect()
}

fn retransmits(report: &Report, end: usize) -> Verdict {
    let verdict = |status, text: String| Verdict::new("retransmits", status, report.host(end), text);
    let rdma = || report.measurements.iter().filter(|m| m.manner.carrier == Carrier::Native);
    let counted = rdma().filter_map(|m| m.retransmits(report.end_of(m, end))).reduce(u64::saturating_add);
    let Some(again) = counted else {
        return verdict(
            Status::Unknown,
            "not known: the driver does not count packets that are sent again".to_owned(),
        );
    };
    let bytes: u64 = rdma()
        .flat_map(|m| m.told.iter().flatten())
        .map(|told| match &told.outcome {
            Outcome::Bandwidth(stats, _) => stats.bytes,
            _ => 0,
        })
        .sum();
    let packets = bytes / u64::from(report.ends[0].info.active_mtu.unwrap_or(1_024).max(1)) + 1;
    let status = match again {
        0 => Status::Ok,
        _ if again.saturating_mul(1_000_000) > packets.saturating_mul(LOSS_PER_MILLION) => Status::Fail,
        _ => Status::Warn,
    };
    let worst = rdma().max_by_key(|m| m.retransmits(report.end_of(m, end)));
    let mut verdict = verdict(status, format!("{again} packets sent again or out of order"))
        .next("Packets are lost or reordered: error counters of both ports and the switch ports, PFC on the class in use, adaptive routing.");
    if let (Some(worst), true) = (worst, again > 0) {
        verdict = verdict
            .seen(format!("most during {} ({})", worst.label(), worst.direction()))
            .seen(format!("{:.3} % of about {packets} packets", per_cent(again, packets)));
    }
    verdict
}

fn discards(report: &Report, end: usize) -> Verdict {
    let verdict = |status, text: String| Verdict::new("discards", status, report.host(end), text);
    match sum(report, end, |e| e.discards) {
        None => verdict(Status::Unknown, "not known: the agent told no discards".to_owned()),
        Some(0) => verdict(Status::Ok, "the port threw nothing away".to_owned()),
        Some(count) => verdict(Status::Fail, format!("the port threw {count} packets away for want of buffers"))
            .next("The host does not drain its port: PCIe width and speed, receive buffers, and PFC on the class in use."),
    }
}

/// What the ends of any measurements moved at one priority, for other judgements.
pub(in crate::pair) fn pauses_by_priority<'a>(
    all: impl Iterator<Item = &'a Effects>,
) -> BTreeMap<usize, u64> {
    let mut sums = BTreeMap::new();
    for e in all {
        for counts in [e.pause_received, e.pause_sent].into_iter().flatten() {
            for (priority, count) in counts.0.iter().enumerate().filter(|(_, count)| **count > 0) {
                *sums.entry(priority).or_default() += count;
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::super::samples::{change, healthy, moved, priority, the};
    use super::*;
    use crate::pair::Part;

    #[test]
    fn pauses_and_notifications_are_told_with_host_and_priority() {
        let mut report = healthy();
        change(&mut report, Part::Load, moved(1, |e| e.pause_sent = Some(priority(3, 40))));
        let verdict = the(&report, "congestion");
        assert_eq!((verdict.status, verdict.subject.as_str()), (Status::Warn, "priority 3 of host b"));
        let mut report = healthy();
        change(&mut report, Part::Load, moved(0, |e| e.congestion_notifications_handled = Some(9)));
        assert_eq!(the(&report, "congestion").subject, "host a");
    }

    #[test]
    fn a_driver_that_counts_nothing_leaves_everything_unknown() {
        let mut report = healthy();
        for m in &mut report.measurements {
            for told in m.told.iter_mut().flatten() {
                told.effects = Some(Box::new(Effects::default()));
                if let Outcome::Latency(_, delta) | Outcome::Bandwidth(_, delta) = &mut told.outcome {
                    delta.retransmits = None;
                }
            }
        }
        for id in ["congestion", "retransmits", "discards"] {
            assert_eq!(the(&report, id).status, Status::Unknown, "{id}");
        }
    }

    #[test]
    fn a_few_retransmissions_are_a_warning_and_many_a_failure() {
        let mut report = healthy();
        change(&mut report, Part::Load, moved(0, |e| e.retransmits = Some(5)));
        let verdict = the(&report, "retransmits");
        assert_eq!((verdict.status, verdict.subject.as_str()), (Status::Warn, "host a"));
        assert!(verdict.evidence[0].contains("bandwidth WRITE, 1 MiB, 4 queue pairs"), "{verdict:?}");
        change(&mut report, Part::Load, moved(0, |e| e.retransmits = Some(1_000_000)));
        assert_eq!(the(&report, "retransmits").status, Status::Fail);
    }

    #[test]
    fn discards_are_the_host_s() {
        let mut report = healthy();
        change(&mut report, Part::Load, moved(1, |e| e.discards = Some(3)));
        let verdict = the(&report, "discards");
        assert_eq!((verdict.status, verdict.subject.as_str()), (Status::Fail, "host b"));
    }
}
