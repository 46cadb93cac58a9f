//! Does the kernel log, or a log of an application, report a fault? Each finding carries the id of its rule.

use super::place::{self, Place};
use super::{conditions, events_text};
use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown};
use crate::limits;
use crate::log::{Condition, Count, Rule};
use rdmascope_model::{Finding, KernelLog, LogHit, Reading, Status, Wall};
use std::collections::BTreeMap;
use std::time::Duration;

const ID: &str = "kernel-log";

/// Events of one PCI function closer together than this are one chain, whose first link is the cause: an adapter that overheats is gone
/// within five minutes of its first warning, in the published sequence.
const CHAIN: Duration = Duration::from_secs(600);

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Does the kernel log report a fault of an adapter, a port, a slot or a cable?",
    meaning: "The driver says first and most precisely what broke; every rule has an id and a text of its own.",
    causes: &["see the rule that the finding names"],
    next_steps: &["`rdmascope explain ID` with the id of the finding; `dmesg -T | grep ADDRESS`."],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&limits::LOG_WINDOW_SECONDS],
    judge,
};

/// All recent lines of one rule about one thing.
#[derive(Debug)]
pub(super) struct Event<'a> {
    pub(super) rule: &'a Rule,
    pub(super) place: Place<'a>,
    pub(super) count: u64,
    /// Times of the last lines, the earliest first; empty where lines have none.
    pub(super) times: Vec<Wall>,
    pub(super) line: String,
    pub(super) status: Option<Status>,
    /// Id of the rule that explains it.
    pub(super) explained: Option<String>,
}

impl Event<'_> {
    fn first(&self) -> Option<Wall> {
        self.times.first().copied()
    }

    pub(super) fn last(&self) -> Option<Wall> {
        self.times.last().copied()
    }
}

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let machine = || "machine".to_owned();
    let log = match look.log {
        Reading::Value(log) => log,
        Reading::Absent => return Vec::new(),
        Reading::Failed(why) => return vec![unread(why)],
    };
    let mut events = recent(look, log);
    for event in &mut events {
        event.status = status(event, look);
    }
    explain(&mut events);
    let mut findings: Vec<Finding> = events
        .iter()
        .filter_map(|event| Some(events_text::finding(event, event.status?, cause_of(event, &events))))
        .collect();
    findings.extend(log.unread.iter().map(|why| unread(why)));
    if findings.iter().all(|finding| finding.status == Status::Ok) {
        let rules = look.policy.rules.docs().len();
        let summary = format!("{} lines looked at, none of the faults of {rules} rules", log.lines);
        findings.push(ok(ID, machine(), summary));
    }
    findings
}

fn unread(why: &str) -> Finding {
    Finding {
        cause: "no access to /dev/kmsg (CAP_SYSLOG where kernel.dmesg_restrict is 1), a container without it, or a part that this \
                capture does not have"
            .to_owned(),
        next_step: "Run as root with /dev/kmsg, or name a plain log file; `journalctl -k -b > FILE` makes one where there is \
                    only a journal."
            .to_owned(),
        ..unknown(ID, "machine".to_owned(), "the kernel log", why)
    }
}

/// Hits within the window, those about one thing put together, the latest first.
fn recent<'a>(look: &Look<'a>, log: &KernelLog) -> Vec<Event<'a>> {
    let seconds = look.policy.limit(&limits::LOG_WINDOW_SECONDS);
    let oldest = Wall(look.now.taken_at.0.saturating_sub((seconds * 1_000.0) as u64));
    let mut events: Vec<Event<'a>> = Vec::new();
    let mut index: BTreeMap<(String, String), usize> = BTreeMap::new();
    for hit in &log.hits {
        let Some(rule) = look.policy.rules.get(&hit.rule) else { continue };
        let Some(place) = place::find(look.now, look.policy, hit.subject.as_deref()) else { continue };
        let times: Vec<Wall> = hit.recent.iter().copied().filter(|at| *at >= oldest).collect();
        if times.is_empty() && !hit.recent.is_empty() {
            continue;
        }
        let count = recent_count(hit, times.len());
        match index.get(&(hit.rule.clone(), place.subject.clone())) {
            Some(at) => {
                let event = &mut events[*at];
                event.count += count;
                event.times.extend(times);
                event.times.sort_unstable();
            }
            None => {
                index.insert((hit.rule.clone(), place.subject.clone()), events.len());
                let line = hit.line.clone();
                events.push(Event { rule, place, count, times, line, status: None, explained: None });
            }
        }
    }
    events
}

/// How many lines count: all, unless some of the kept times are too old.
fn recent_count(hit: &LogHit, times: usize) -> u64 {
    if times == hit.recent.len() { hit.count } else { times as u64 }
}

fn status(event: &Event<'_>, look: &Look<'_>) -> Option<Status> {
    let rule = event.rule;
    let escalated = rule.escalate.filter(|(count, _)| reached(*count, event)).map(|(_, to)| to);
    if rule.at_least.is_some_and(|count| !reached(count, event)) {
        return escalated;
    }
    let base = rule.class.status();
    let held = |condition| conditions::holds(condition, &event.place, &event.line, look.now, look.policy);
    let base = match rule.only_when.map(|condition| (condition, held(condition))) {
        None | Some((_, Some(true))) => base,
        Some((Condition::PciBelowPortRate, None)) => base.map(|status| status.min(Status::Warn)),
        Some((_, Some(false) | None)) => None,
    };
    base.max(escalated)
}

/// So many lines within so long, at any time of the window. Lines without a time are taken together.
fn reached(count: Count, event: &Event<'_>) -> bool {
    if event.times.is_empty() {
        return event.count >= count.count as u64;
    }
    event.times.windows(count.count).any(|w| w[w.len() - 1].since(w[0]) <= count.within)
}

/// Where a line that explains another was written near it, the other is no fault of its own.
fn explain(events: &mut [Event<'_>]) {
    let near = |a: &Event<'_>, b: &Event<'_>| match (a.last(), b.last()) {
        (Some(a), Some(b)) => a.since(b).max(b.since(a)) <= CHAIN,
        _ => true,
    };
    let found: Vec<Option<String>> = events
        .iter()
        .map(|event| {
            let explains = |other: &&Event<'_>| event.rule.explained_by.contains(&other.rule.id);
            events.iter().filter(explains).find(|other| near(event, other)).map(|o| o.rule.id.clone())
        })
        .collect();
    for (event, explained) in events.iter_mut().zip(found) {
        if explained.is_some() && event.status.is_some() {
            event.status = Some(Status::Ok);
            event.explained = explained;
        }
    }
}

/// The earliest failure of the same PCI function within the chain before this one.
fn cause_of<'e>(event: &Event<'_>, events: &'e [Event<'e>]) -> Option<&'e Event<'e>> {
    let (pci, first) = (event.place.pci.as_ref()?, event.first()?);
    let before = |other: &&Event<'_>| {
        let at = other.first();
        other.status == Some(Status::Fail)
            && other.place.pci.as_ref() == Some(pci)
            && at.is_some_and(|at| at < first && first.since(at) <= CHAIN)
    };
    events.iter().filter(before).min_by_key(|other| other.first())
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
