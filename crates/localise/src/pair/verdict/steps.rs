//! What failed or was not run, with the cause of both ends, and what the ends' own checks have found.

use super::{Report, Verdict};
use crate::pair::{Measurement, Progress, Told};
use rdmascope_model::{Cause, Outcome, Status};

/// What one end told of its failure.
fn witness(name: &str, told: Option<&Told>) -> String {
    match told.map(|told| &told.outcome) {
        None => format!("{name}: told nothing"),
        Some(Outcome::Failed(failure)) => format!("{name}: {failure}"),
        Some(Outcome::Excluded(why)) => format!("{name}: not run, {}", why.as_str()),
        Some(Outcome::Aborted(_, _, why)) => format!("{name}: given up, {why}"),
        Some(_) => format!("{name}: did its part"),
    }
}

/// Failed measurements by cause and step, and those that were not run by their reason.
pub(super) fn failures(report: &Report) -> Vec<Verdict> {
    let mut verdicts: Vec<(Verdict, usize)> = Vec::new();
    for m in &report.measurements {
        let Some(verdict) = failure(report, m) else { continue };
        let same = |(earlier, _): &&mut (Verdict, usize)| {
            (earlier.cause, &earlier.text, &earlier.subject)
                == (verdict.cause, &verdict.text, &verdict.subject)
        };
        match verdicts.iter_mut().find(same) {
            Some((_, more)) => *more += 1,
            None => verdicts.push((verdict, 0)),
        }
    }
    if verdicts.is_empty() {
        let done = report.measurements.iter().filter(|m| m.progress == Progress::Done).count();
        let text = format!("{done} of {} measurements ran to their end", report.measurements.len());
        let status = if done > 0 { Status::Ok } else { Status::Unknown };
        return vec![Verdict::new("steps", status, report.both(), text)];
    }
    let with_count = |(verdict, more): (Verdict, usize)| match more {
        0 => verdict,
        more => verdict.seen(format!("and {more} more measurements for the same reason")),
    };
    verdicts.into_iter().map(with_count).collect()
}

fn failure(report: &Report, m: &Measurement) -> Option<Verdict> {
    let aborted = m.told.iter().flatten().find_map(|told| match told.outcome {
        Outcome::Aborted(_, _, why) => Some(why),
        _ => None,
    });
    let verdict = match &m.progress {
        Progress::Failed(failure) if failure.cause == Cause::NotAvailable => Verdict::new(
            "steps",
            Status::Unknown,
            m.direction(),
            format!("not available: {}", failure.evidence),
        )
        .cause(failure.cause),
        Progress::Failed(failure) => {
            let text = format!("failed at step {}: {}", failure.step.as_str(), failure.cause.text());
            Verdict::new("steps", Status::Fail, m.direction(), text)
                .cause(failure.cause)
                .seen(witness(&m.source.to_string(), m.told[0].as_ref()))
                .seen(witness(&m.target.to_string(), m.told[1].as_ref()))
        }
        Progress::Excluded(why) => {
            let text = format!("{} was not measured: {}", m.spec.as_str(), why.text());
            Verdict::new("steps", Status::Unknown, report.both(), text).next(why.next_step())
        }
        Progress::Nothing => {
            Verdict::new("steps", Status::Unknown, m.direction(), "it ended and nothing was learned")
        }
        Progress::Done | Progress::Waiting | Progress::Running => {
            let text = format!("given up so as not to hurt a job: {}", aborted?);
            Verdict::new("steps", Status::Warn, m.direction(), text)
                .next("Measure again when the ports are idle, or with --drained when no job runs.")
        }
    };
    Some(verdict.seen(format!("during {}", m.label())))
}

/// What the checks of both ends have found.
pub(super) fn findings(report: &Report) -> Vec<Verdict> {
    let end = |at: usize| -> Vec<Verdict> {
        let subject = report.host(at);
        let found: Vec<_> = report.ends[at].findings.iter().filter(|f| f.status != Status::Ok).collect();
        if found.is_empty() {
            return vec![Verdict::new(
                "host-findings",
                Status::Ok,
                subject,
                "its own checks have found nothing",
            )];
        }
        let verdict = |f: &&crate::pair::EndFinding| {
            Verdict::new(
                "host-findings",
                f.status,
                format!("{subject}, {}", f.subject),
                format!("{} [{}]", f.summary, f.id),
            )
            .next(&f.next_step)
        };
        found.iter().map(verdict).collect()
    };
    [end(0), end(1)].concat()
}

#[cfg(test)]
mod tests {
    use super::super::samples::{change, healthy, the, told_failure};
    use super::super::verdicts;
    use super::*;
    use crate::pair::{EndFinding, Part};
    use rdmascope_model::{Congestion, CounterDelta, Exclusion};

    #[test]
    fn a_failed_step_names_its_cause_and_what_both_ends_saw() {
        let mut report = healthy();
        change(&mut report, Part::Latency, told_failure(Cause::RetryExceeded));
        let verdict = the(&report, "steps");
        assert_eq!((verdict.status, verdict.cause), (Status::Fail, Some(Cause::RetryExceeded)));
        assert!(verdict.text.starts_with("failed at step first-byte"), "{verdict:?}");
        assert!(verdict.evidence[0].starts_with("a/d0/1: retry-exceeded at step first-byte"), "{verdict:?}");
        assert_eq!(verdict.evidence[1], "b/d0/1: told nothing");
        assert_eq!(verdict.evidence.last().unwrap(), "and 2 more measurements for the same reason");
        assert_eq!(verdict.next_step, Cause::RetryExceeded.next_step());
    }

    #[test]
    fn at_the_start_and_in_the_middle_are_different_causes() {
        let mut report = healthy();
        change(&mut report, Part::Bandwidth, told_failure(Cause::PathLost));
        change(&mut report, Part::Latency, told_failure(Cause::RetryExceeded));
        let causes: Vec<_> = verdicts(&report).iter().filter(|v| v.id == "steps").map(|v| v.cause).collect();
        assert!(causes.contains(&Some(Cause::PathLost)) && causes.contains(&Some(Cause::RetryExceeded)));
    }

    #[test]
    fn a_busy_port_is_unknown_with_the_way_out() {
        let mut report = healthy();
        change(&mut report, Part::Bandwidth, |m| {
            m.progress = Progress::Excluded(Exclusion::Busy);
            m.told = [None, None];
        });
        let of_bandwidth: Vec<_> =
            verdicts(&report).into_iter().filter(|v| ["steps", "ceiling"].contains(&v.id)).collect();
        assert!(of_bandwidth.iter().all(|v| v.status == Status::Unknown), "{of_bandwidth:?}");
        assert!(the(&report, "steps").next_step.contains("--drained"));
    }

    #[test]
    fn a_stream_that_was_given_up_says_why() {
        let mut report = healthy();
        change(&mut report, Part::Load, |m| {
            let outcome = Outcome::Aborted(None, CounterDelta { retransmits: None }, Congestion::Pauses);
            m.told[0] = Some(Told { outcome, effects: None });
        });
        let verdict = the(&report, "steps");
        assert!(verdict.status == Status::Warn && verdict.text.contains("pause frames"), "{verdict:?}");
    }

    #[test]
    fn the_ends_own_findings_are_told() {
        let mut report = healthy();
        report.ends[1].findings.push(EndFinding {
            id: "pci-width".to_owned(),
            status: Status::Fail,
            subject: "mlx5_0".to_owned(),
            summary: "x8 of x16".to_owned(),
            next_step: "Reseat the card.".to_owned(),
        });
        let verdict = the(&report, "host-findings");
        assert_eq!(verdict.text, "x8 of x16 [pci-width]");
        assert_eq!((verdict.status, verdict.subject.as_str()), (Status::Fail, "host b, mlx5_0"));
    }
}
