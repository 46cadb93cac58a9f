//! Did the packets go out, and come in, in the class that was asked for? The ports' own counters by priority are the proof.

use super::{Report, Verdict, per_cent, rate};
use crate::pair::{Measurement, Part};
use rdmascope_model::{PerPriority, ProbeSpec, Status};

/// The asked class may be slower than class 0 by so much.
const SLOWER: u64 = 80;

/// The priority that carried most of the packets, where one did.
fn main_priority(packets: Option<PerPriority>) -> Option<usize> {
    let packets = packets?;
    let (priority, most) = packets.0.iter().enumerate().max_by_key(|(_, count)| **count)?;
    (*most > 0 && 2 * *most >= packets.sum()).then_some(priority)
}

fn stream(report: &Report, part: Part) -> Option<&Measurement> {
    report.of(part).find(|m| matches!(m.spec, ProbeSpec::Bandwidth(_)) && m.average_bps(0).is_some())
}

/// Whether the class was honoured, and what it costs.
pub(super) fn honoured(report: &Report) -> Vec<Verdict> {
    let subject = report.direction(0);
    let Some(class) = report.asked.class.filter(|class| *class != 0) else {
        let text = "not known of the workload's class: all ran in class 0";
        let next = "Name the class that the workload uses: `--class` with its DSCP (its service level on InfiniBand).";
        return vec![Verdict::new("class", Status::Unknown, subject, text).next(next)];
    };
    // Any measurement of the class proves it; the longest has most packets.
    let longest = |part| stream(report, part).or_else(|| report.of(part).find(|m| m.found().is_some()));
    let Some(of_class) = longest(Part::Class) else {
        return report.unknown("class", subject, Part::Class);
    };
    let sent = main_priority(of_class.effects(0).and_then(|e| e.packets_sent));
    let received = main_priority(of_class.effects(1).and_then(|e| e.packets_received));
    let control = longest(Part::Control).and_then(|m| main_priority(m.effects(0)?.packets_sent));
    let mut verdicts = vec![proof(subject, class, sent, received, control)];
    verdicts.extend(cost(report));
    verdicts
}

fn proof(
    subject: String,
    class: u8,
    sent: Option<usize>,
    received: Option<usize>,
    control: Option<usize>,
) -> Verdict {
    let verdict = |status, text: String| Verdict::new("class", status, subject.clone(), text);
    let seen = |priority: Option<usize>| priority.map_or("cannot be told".to_owned(), |p| p.to_string());
    let evidence = format!(
        "priority by the ports' counters: sent {}, received {}, class 0 sent {}",
        seen(sent),
        seen(received),
        seen(control)
    );
    match (sent, received, control) {
        (None, None, _) => verdict(
            Status::Unknown,
            "not known: the ports do not count packets by priority, so it cannot be told here".to_owned(),
        ),
        (Some(sent), _, Some(control)) if sent == control => {
            verdict(Status::Fail, format!("class {class} went out in priority {sent}, like class 0: it was not honoured"))
                .next("See whether the port trusts DSCP (`mlnx_qos -i NETDEV`) and maps this class to a priority of its own.")
        }
        (Some(sent), Some(received), _) if sent != received => {
            verdict(Status::Fail, format!("class {class} went out in priority {sent} and came in in priority {received}"))
                .next("A switch rewrites the class, or the receiver maps it differently: compare trust and DSCP maps along the path.")
        }
        (Some(sent), _, _) => verdict(Status::Ok, format!("class {class} went out in priority {sent}")),
        (None, Some(received), _) => verdict(Status::Ok, format!("class {class} came in in priority {received}")),
    }
    .seen(evidence)
}

/// Is the class much slower than class 0?
fn cost(report: &Report) -> Option<Verdict> {
    let [class, control] =
        [Part::Class, Part::Control].map(|part| stream(report, part).and_then(|m| m.average_bps(0)));
    let (class, control) = (class?, control?);
    let share = per_cent(class, control);
    let status = if class * 100 < control * SLOWER { Status::Warn } else { Status::Ok };
    let text = format!("the class reaches {} ({share:.0} % of class 0's {})", rate(class), rate(control));
    let next = "The class has a smaller share or is limited: compare ETS shares and rate limits of the ports (`mlnx_qos`), and the switch's scheduler.";
    Some(Verdict::new("class-bandwidth", status, report.direction(0), text).next(next))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{change, healthy, moved, priority, stream, the};
    use super::*;

    #[test]
    fn a_class_that_nobody_asked_for_is_unknown() {
        let mut report = healthy();
        report.asked.class = None;
        let verdict = the(&report, "class");
        assert!(verdict.status == Status::Unknown && verdict.next_step.contains("--class"), "{verdict:?}");
    }

    #[test]
    fn a_class_that_goes_out_like_class_0_was_not_honoured() {
        let mut report = healthy();
        assert_eq!(the(&report, "class").text, "class 26 went out in priority 3");
        change(&mut report, Part::Class, moved(0, |e| e.packets_sent = Some(priority(0, 9_000))));
        let verdict = the(&report, "class");
        assert_eq!(verdict.status, Status::Fail);
        assert!(verdict.text.contains("was not honoured"), "{verdict:?}");
    }

    #[test]
    fn a_class_that_changes_on_its_way_is_told() {
        let mut report = healthy();
        change(&mut report, Part::Class, moved(1, |e| e.packets_received = Some(priority(5, 9_000))));
        let verdict = the(&report, "class");
        assert!(
            verdict.status == Status::Fail && verdict.text.contains("came in in priority 5"),
            "{verdict:?}"
        );
    }

    #[test]
    fn without_counters_by_priority_it_cannot_be_told() {
        let mut report = healthy();
        for end in [0, 1] {
            change(
                &mut report,
                Part::Class,
                moved(end, |e| (e.packets_sent, e.packets_received) = (None, None)),
            );
        }
        let verdict = the(&report, "class");
        assert!(
            verdict.status == Status::Unknown && verdict.text.contains("cannot be told here"),
            "{verdict:?}"
        );
    }

    #[test]
    fn a_class_that_is_much_slower_than_class_0_is_warned_of() {
        let mut report = healthy();
        change(&mut report, Part::Class, |m| stream(m, 10_000_000_000));
        assert_eq!(the(&report, "class-bandwidth").status, Status::Warn);
    }
}
