//! Several sources send to one target at once: the case that priority flow control and congestion notification exist for.

use super::verdict::{Verdict, pauses_by_priority, rate};
use super::{Measurement, Part, Progress, Report, ceiling_bps, expected_mtu};
use rdmascope_model::{Effects, EndpointInfo, EndpointName, Status};
use std::collections::BTreeMap;

/// A healthy receiver takes this share of its goodput ceiling from all senders together, per cent.
const OF_CEILING: u64 = 90;
/// The slowest sender of a fair receiver has this share of the fastest one's, per cent.
const FAIR: u64 = 50;

/// One source of an incast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncastSource {
    /// Its endpoint.
    pub name: EndpointName,
    /// What it reached, bits per second; `None` when it did not run to its end.
    pub average_bps: Option<u64>,
    /// Packets that it sent again.
    pub retransmits: Option<u64>,
}

/// What an incast found.
#[derive(Clone, Debug, PartialEq)]
pub struct Incast {
    /// Each source.
    pub sources: Vec<IncastSource>,
    /// All sources together, bits per second.
    pub sum_bps: u64,
    /// That as a share of the receiver's line rate; `None` when the rate is not known.
    pub of_line_rate: Option<f64>,
    /// That as a share of the goodput ceiling at the expected MTU.
    pub of_ceiling: Option<f64>,
    /// The slowest source over the fastest.
    pub fairness: Option<f64>,
    /// Packets sent again by all sources; `None` when no driver counts them.
    pub retransmits: Option<u64>,
    /// Pause frames at target and sources, by priority; `None` when no driver counts them.
    pub pauses: Option<BTreeMap<usize, u64>>,
    /// Congestion notifications that the target sent.
    pub notifications: Option<u64>,
}

/// Puts the measurements of an incast together.
#[must_use]
pub fn incast(measurements: &[Measurement], target: &EndpointInfo) -> Incast {
    let of_incast = || measurements.iter().filter(|m| m.part == Part::Incast);
    let sources: Vec<_> = of_incast()
        .map(|m| IncastSource {
            name: m.source.clone(),
            average_bps: m.average_bps(0),
            retransmits: m.retransmits(0),
        })
        .collect();
    let reached = || sources.iter().filter_map(|source| source.average_bps);
    let sum_bps = reached().sum();
    let fairness = reached().min().zip(reached().max()).map(|(low, high)| low as f64 / high.max(1) as f64);
    let ceiling = ceiling_bps([target, target], expected_mtu([target, target]));
    let effects = || of_incast().flat_map(|m| [m.effects(0), m.effects(1)]).flatten();
    let counts_pauses = effects().any(|e| e.pause_received.is_some() || e.pause_sent.is_some());
    // The leases of one target overlap in time: each of them saw the same port, so the largest delta is the port's.
    let at_target = || of_incast().filter_map(|m| m.effects(1));
    Incast {
        sum_bps,
        of_line_rate: target.rate_bps.map(|line| sum_bps as f64 / line.max(1) as f64),
        of_ceiling: ceiling.map(|ceiling| sum_bps as f64 / ceiling.max(1) as f64),
        fairness,
        retransmits: of_incast().filter_map(|m| m.retransmits(0)).reduce(u64::saturating_add),
        pauses: counts_pauses.then(|| pauses(of_incast(), at_target())),
        notifications: at_target().filter_map(|e| e.congestion_notifications_sent).max(),
        sources,
    }
}

fn pauses<'a>(
    all: impl Iterator<Item = &'a Measurement>,
    at_target: impl Iterator<Item = &'a Effects>,
) -> BTreeMap<usize, u64> {
    let mut sums = pauses_by_priority(all.filter_map(|m| m.effects(0)));
    let mut target: BTreeMap<usize, u64> = BTreeMap::new();
    for e in at_target {
        for (priority, count) in pauses_by_priority(std::iter::once(e)) {
            let most = target.entry(priority).or_default();
            *most = count.max(*most);
        }
    }
    for (priority, count) in target {
        *sums.entry(priority).or_default() += count;
    }
    sums
}

/// Judges an incast; `priority` is that of its class, as far as it is known (a DSCP's upper three bits).
#[must_use]
pub fn incast_verdicts(found: &Incast, report: &Report, priority: Option<usize>) -> Vec<Verdict> {
    let target = &report.ends[1].info.name;
    let subject = format!("{} sources -> {target}", found.sources.len());
    let mut verdicts = not_run(report);
    if found.sources.iter().all(|source| source.average_bps.is_none()) {
        verdicts.push(Verdict::new(
            "incast",
            Status::Unknown,
            subject,
            "not known: no source ran to its end",
        ));
        return verdicts;
    }
    verdicts.push(collapse(found, subject.clone()));
    if let Some(fairness) = found.fairness {
        let status = if fairness * 100.0 < FAIR as f64 { Status::Warn } else { Status::Ok };
        let text = format!("the slowest source has {:.0} % of the fastest one's share", 100.0 * fairness);
        verdicts.push(Verdict::new("incast-fairness", status, subject.clone(), text).next(
            "Sources are served unequally: compare their paths (hops, rates) and whether all obey congestion notifications (ECN on every sender).",
        ));
    }
    verdicts.extend(lossless(found, subject, priority));
    verdicts.sort_by_key(|verdict| std::cmp::Reverse(verdict.status));
    verdicts
}

fn not_run(report: &Report) -> Vec<Verdict> {
    let failed = report.measurements.iter().filter_map(|m| match &m.progress {
        Progress::Failed(failure) => Some(
            Verdict::new(
                "steps",
                Status::Fail,
                m.direction(),
                format!("failed at step {}: {}", failure.step.as_str(), failure.cause.text()),
            )
            .seen(failure.evidence.clone())
            .cause(failure.cause),
        ),
        Progress::Excluded(why) => Some(
            Verdict::new("steps", Status::Unknown, m.direction(), format!("not measured: {}", why.text()))
                .next(why.next_step()),
        ),
        _ => None,
    });
    failed.collect()
}

fn collapse(found: &Incast, subject: String) -> Verdict {
    let verdict = |status, text: String| Verdict::new("incast", status, subject, text);
    match (found.of_ceiling, found.of_line_rate) {
        (Some(ceiling), Some(line)) => {
            let status = if ceiling * 100.0 < OF_CEILING as f64 { Status::Fail } else { Status::Ok };
            let text = format!(
                "the receiver takes {}: {:.1} % of its line rate, {:.1} % of what is possible",
                rate(found.sum_bps),
                100.0 * line,
                100.0 * ceiling
            );
            verdict(status, text).next(
                "Goodput collapses when several send at once: see that the class is lossless on every hop (PFC) or marked in time (ECN), and its buffers.",
            )
        }
        _ => verdict(
            Status::Unknown,
            format!("the receiver takes {}; its rate is not known", rate(found.sum_bps)),
        ),
    }
}

/// Pauses, notifications and retransmissions together tell whether the class is lossless.
fn lossless(found: &Incast, subject: String, priority: Option<usize>) -> Vec<Verdict> {
    let verdict = |status, text: String| Verdict::new("incast-lossless", status, subject.clone(), text);
    let mut verdicts = Vec::new();
    let again = found.retransmits;
    let paused: u64 = found.pauses.iter().flat_map(|pauses| pauses.values()).sum();
    let notified = found.notifications.unwrap_or(0);
    let seen = |v: Verdict| {
        let counted = |count: Option<u64>| count.map_or("not counted".to_owned(), |count| count.to_string());
        let pauses = found.pauses.as_ref().map(|p| {
            let words: Vec<_> =
                p.iter().map(|(priority, count)| format!("{count} on priority {priority}")).collect();
            if words.is_empty() { "none".to_owned() } else { words.join(", ") }
        });
        v.seen(format!("sent again by the sources: {}", counted(again)))
            .seen(format!("pause frames: {}", pauses.unwrap_or("not counted".to_owned())))
            .seen(format!("congestion notifications of the target: {}", counted(found.notifications)))
    };
    verdicts.push(seen(match again {
        None => verdict(Status::Unknown, "not known: no driver counts packets that are sent again".to_owned()),
        Some(0) => verdict(Status::Ok, "nothing had to be sent again".to_owned()),
        Some(again) if found.pauses.is_some() && paused == 0 && notified == 0 => {
            verdict(Status::Fail, format!("{again} packets sent again, and neither pauses nor notifications: nothing protects this class"))
                .next("The class is not lossless: see PFC for its priority on both ends and on every switch port, trust and DSCP map.")
        }
        Some(again) => verdict(Status::Warn, format!("{again} packets sent again although senders were slowed down"))
            .next("Packets are lost in spite of flow control: buffers and headroom of the switch ports, MTU and cable length there."),
    }));
    if let (Some(own), Some(pauses)) = (priority, &found.pauses) {
        for (&other, count) in pauses.iter().filter(|(other, _)| **other != own) {
            let text =
                format!("{count} pause frames on priority {other}, though the streams are of priority {own}");
            verdicts.push(verdict(Status::Warn, text).next(
                "Flow control works on another priority than the streams use: compare the DSCP map, trust and PFC of all ports.",
            ));
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::{Asked, End, Told, incast_task};
    use super::*;
    use rdmascope_model::{BandwidthStats, CounterDelta, Fabric, Outcome, PerPriority};

    fn info(name: &str) -> EndpointInfo {
        EndpointInfo {
            rate_bps: Some(100_000_000_000),
            ..EndpointInfo::bare(name.parse().unwrap(), Fabric::Roce)
        }
    }

    fn measurement(source: usize, bps: u64, again: u64, effects: Effects) -> Measurement {
        let task = incast_task(Some(26), Fabric::Roce);
        let stats = BandwidthStats {
            bytes: bps / 8,
            duration_ns: 1_000_000_000,
            average_bps: bps,
            worst_window_bps: None,
            variation_permille: None,
            completions: 1,
        };
        let outcome = Outcome::Bandwidth(stats, CounterDelta { retransmits: Some(again) });
        Measurement {
            part: Part::Incast,
            source: format!("s{source}/d/1").parse().unwrap(),
            target: "t/d/1".parse().unwrap(),
            spec: task.spec,
            manner: task.manner,
            progress: Progress::Done,
            told: [
                Some(Told { outcome, effects: None }),
                Some(Told { outcome: Outcome::Served, effects: Some(Box::new(effects)) }),
            ],
        }
    }

    fn counting(priority: usize, pauses: u64) -> Effects {
        let mut sent = PerPriority::default();
        sent.0[priority] = pauses;
        Effects { pause_sent: Some(sent), congestion_notifications_sent: Some(0), ..Effects::default() }
    }

    fn judge(rates: &[u64], again: u64, effects: &Effects) -> Vec<Verdict> {
        let measurements: Vec<_> =
            rates.iter().enumerate().map(|(i, &bps)| measurement(i, bps, again, effects.clone())).collect();
        let found = incast(&measurements, &info("t/d/1"));
        let end = |name| End { info: info(name), findings: Vec::new() };
        let asked = Asked { class: Some(26), paths: 4, labels: 1, gpu: None };
        let report = Report { ends: [end("s0/d/1"), end("t/d/1")], asked, measurements, skipped: Vec::new() };
        incast_verdicts(&found, &report, Some(3))
    }

    fn status(verdicts: &[Verdict], id: &str) -> Status {
        verdicts.iter().find(|v| v.id == id).unwrap().status
    }

    const FAIR_SHARE: [u64; 3] = [32_000_000_000; 3];

    #[test]
    fn a_fair_and_lossless_incast_is_ok() {
        let verdicts = judge(&FAIR_SHARE, 0, &counting(3, 40));
        assert!(verdicts.iter().all(|v| v.status == Status::Ok), "{verdicts:?}");
        assert!(verdicts[0].text.contains("96.0 Gbit/s: 96.0 % of its line rate"), "{verdicts:?}");
    }

    #[test]
    fn collapse_and_unfairness_are_told() {
        let verdicts = judge(&[40_000_000_000, 10_000_000_000], 0, &counting(3, 0));
        assert_eq!(status(&verdicts, "incast"), Status::Fail);
        assert_eq!(status(&verdicts, "incast-fairness"), Status::Warn);
    }

    #[test]
    fn retransmissions_without_any_pause_say_that_nothing_protects_the_class() {
        let verdicts = judge(&FAIR_SHARE, 100, &counting(3, 0));
        assert_eq!(status(&verdicts, "incast-lossless"), Status::Fail);
        let slowed = judge(&FAIR_SHARE, 100, &counting(3, 7));
        assert_eq!(status(&slowed, "incast-lossless"), Status::Warn);
        let uncounted = judge(&FAIR_SHARE, 100, &Effects::default());
        assert_eq!(
            status(&uncounted, "incast-lossless"),
            Status::Warn,
            "nobody knows whether there were pauses"
        );
    }

    #[test]
    fn pauses_on_another_priority_are_told_and_those_of_one_port_count_once() {
        let verdicts = judge(&FAIR_SHARE, 0, &counting(0, 9));
        let other: Vec<_> = verdicts.iter().filter(|v| v.status == Status::Warn).collect();
        assert_eq!(other.len(), 1);
        assert!(
            other[0].text.starts_with("9 pause frames on priority 0"),
            "three leases saw one port: {other:?}"
        );
    }

    #[test]
    fn sources_that_did_not_run_are_no_collapse() {
        let verdicts = judge(&[], 0, &Effects::default());
        assert_eq!((verdicts.len(), status(&verdicts, "incast")), (1, Status::Unknown));
    }
}
