//! What the measurements of a report mean: one verdict for each question, the worst first, each with its evidence and a next step.
//!
//! A question that could not be answered is `unknown` and says why; it is never left out.

mod bandwidth;
mod class;
mod counters;
mod network;
mod packets;
#[cfg(test)]
mod samples;
mod steps;

pub(super) use counters::pauses_by_priority;

use super::{Measurement, Part, Progress, Report};
use rdmascope_model::{Cause, Status};
use std::cmp::Reverse;

/// One judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Stable kebab-case id.
    pub id: &'static str,
    /// How bad.
    pub status: Status,
    /// What it is about: a direction, a host, a path label, a priority.
    pub subject: String,
    /// What was found, in words.
    pub text: String,
    /// The figures behind it.
    pub evidence: Vec<String>,
    /// What to do; empty where nothing is to be done.
    pub next_step: String,
    /// The cause among those of failed probes, where one fits.
    pub cause: Option<Cause>,
}

impl Verdict {
    pub(super) fn new(
        id: &'static str,
        status: Status,
        subject: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        let (subject, text) = (subject.into(), text.into());
        Self { id, status, subject, text, evidence: Vec::new(), next_step: String::new(), cause: None }
    }

    pub(super) fn seen(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    /// What to do, where something is wrong.
    pub(super) fn next(mut self, step: &str) -> Self {
        if self.status != Status::Ok {
            step.clone_into(&mut self.next_step);
        }
        self
    }

    pub(super) fn cause(mut self, cause: Cause) -> Self {
        self.cause = Some(cause);
        if self.next_step.is_empty() {
            cause.next_step().clone_into(&mut self.next_step);
        }
        self
    }
}

/// The questions.
const RULES: [fn(&Report) -> Vec<Verdict>; 19] = [
    steps::failures,
    steps::findings,
    packets::mtu,
    packets::own_mtu,
    packets::path_mtu,
    packets::echo,
    network::loss,
    network::host_delay,
    network::labels,
    network::lossy_labels,
    network::under_load,
    class::honoured,
    bandwidth::ceiling,
    bandwidth::directions,
    bandwidth::verbs,
    bandwidth::baseline,
    bandwidth::gpu,
    counters::congestion,
    counters::losses,
];

/// Judges a report whose measurements are over; the worst first, within that in the order of the questions.
#[must_use]
pub fn verdicts(report: &Report) -> Vec<Verdict> {
    let mut all: Vec<_> = RULES.iter().flat_map(|rule| rule(report)).collect();
    all.sort_by_key(|verdict| Reverse(verdict.status));
    all
}

impl Report {
    fn of(&self, part: Part) -> impl Iterator<Item = &Measurement> {
        self.measurements.iter().filter(move |m| m.part == part)
    }

    /// `A -> B` (0) or `B -> A` (1).
    fn direction(&self, at: usize) -> String {
        let [a, b] = [&self.ends[at].info.name, &self.ends[1 - at].info.name];
        format!("{a} -> {b}")
    }

    /// The pair as a whole.
    fn both(&self) -> String {
        format!("{} <-> {}", self.ends[0].info.name, self.ends[1].info.name)
    }

    fn host(&self, at: usize) -> String {
        format!("host {}", self.ends[at].info.name.node)
    }

    /// Which end of the report a measurement's source (0) or target (1) is.
    fn end_of(&self, measurement: &Measurement, side: usize) -> usize {
        let reversed = measurement.source != self.ends[0].info.name;
        side ^ usize::from(reversed)
    }

    /// Why there is no figure of a part.
    fn why_not(&self, part: Part) -> String {
        if let Some(skipped) = self.skipped.iter().find(|skipped| skipped.part == part) {
            return skipped.reason.clone();
        }
        let first = self.of(part).find(|m| m.progress != Progress::Done);
        match first.map(|m| &m.progress) {
            Some(Progress::Failed(failure)) => format!("the measurement failed: {}", failure.cause.text()),
            Some(Progress::Excluded(why)) => format!("it was not run: {}", why.text()),
            Some(_) => "nothing was learned".to_owned(),
            None => "what was measured does not tell".to_owned(),
        }
    }

    fn unknown(&self, id: &'static str, subject: String, part: Part) -> Vec<Verdict> {
        vec![Verdict::new(id, Status::Unknown, subject, format!("not known: {}", self.why_not(part)))]
    }
}

/// Bits per second as people read them.
pub(super) fn rate(bps: u64) -> String {
    if bps >= 1_000_000_000 {
        format!("{:.1} Gbit/s", bps as f64 / 1e9)
    } else {
        format!("{:.1} Mbit/s", bps as f64 / 1e6)
    }
}

pub(super) fn micros(ns: u64) -> String {
    format!("{:.2} µs", ns as f64 / 1e3)
}

/// `part` of `whole` in per cent.
pub(super) fn per_cent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::samples::{healthy, status_of};
    use super::*;

    #[test]
    fn a_healthy_pair_has_nothing_but_ok() {
        let verdicts = verdicts(&healthy());
        let not_ok: Vec<_> = verdicts.iter().filter(|v| v.status != Status::Ok).collect();
        assert_eq!(not_ok, Vec::<&Verdict>::new());
        assert!(verdicts.len() >= RULES.len(), "each question has an answer");
    }

    #[test]
    fn nothing_measured_is_unknown_everywhere_and_never_ok() {
        let mut report = healthy();
        report.measurements.clear();
        let about_packets =
            |v: &&Verdict| !["mtu-mismatch", "own-mtu", "host-findings", "steps"].contains(&v.id);
        for verdict in verdicts(&report).iter().filter(about_packets) {
            assert_eq!(verdict.status, Status::Unknown, "{verdict:?}");
            assert!(verdict.text.starts_with("not known: "), "{verdict:?}");
        }
    }

    #[test]
    fn the_worst_stands_first() {
        let mut report = healthy();
        report.ends[1].info.active_mtu = Some(1_024);
        let verdicts = verdicts(&report);
        assert_eq!((verdicts[0].id, verdicts[0].status), ("mtu-mismatch", Status::Fail));
        assert_eq!(status_of(&report, "own-mtu"), Status::Warn);
        assert!(verdicts.is_sorted_by_key(|v| Reverse(v.status)));
    }
}
