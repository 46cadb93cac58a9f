//! From runs of the checks to what stands: since when, what still settles, what is over and kept in sight; and what happened, as events.
//!
//! One look judges one moment. A link that trains again after a bounce, a machine that has just booted and a driver that is being
//! reloaded look broken for a moment, and 214 nodes were once flagged for that (NVIDIA/NVSentinel #1701). So a state that comes and
//! goes is shown at once, as settling, and fails only when it stays; the raw change is told as an event at once all the same.

mod log;
mod settings;
mod states;

use super::drain::HardFault;
use log::Lines;
use rdmascope_checks::log::Rules;
use rdmascope_checks::replay::{ASKED_MAX, basis};
use rdmascope_checks::{ALL, Look, Settles, is_hard, limits};
use rdmascope_link::{EventKind, Fact, FindingBrief, NodeEvent};
use rdmascope_model::{Finding, Mono, Now, Reading, Status, Wall};
use settings::Settings;
use states::States;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is known of a machine over time.
#[derive(Debug, Default)]
pub struct Watch {
    states: States,
    settings: Settings,
    lines: Lines,
    tracks: BTreeMap<(String, String), Track>,
    shown: Vec<Finding>,
    events: Vec<NodeEvent>,
    /// How often the checks may still be asked in this look what their findings rest on.
    ask_again: u32,
}

/// A finding above ok, from its first look on.
#[derive(Debug)]
struct Track {
    /// As it is shown: settling lowers a `fail`.
    finding: Finding,
    since: Wall,
    /// Looks in a row that said `fail`, and when the first of them was.
    failing: Option<(u32, Mono)>,
    settling: bool,
    /// The worst status of which an event told, and when.
    raised: Option<(Status, Mono)>,
    /// No check says it any more; kept in sight.
    over: bool,
    seen_now: bool,
}

/// Why a `fail` is not one yet.
enum Settling {
    /// It may be gone in a moment.
    Young,
    /// The machine or the driver has just started.
    Initialising(String),
}

impl Watch {
    /// Takes one run of the checks: what was looked at, and what they said of it.
    pub fn look(&mut self, look: &Look<'_>, findings: Vec<Finding>, now: Now) {
        self.states.observe(look.now, now, &mut self.events);
        self.settings.observe(look.now, now, &mut self.events);
        self.lines.observe(look.log, now, &mut self.events);
        self.shown.clear();
        self.ask_again = ASKED_MAX;
        for finding in findings {
            let shown = self.judged(look, finding, now);
            self.shown.push(shown);
        }
        self.not_said_any_more(look, now);
    }

    /// Every finding as it is shown, also those that are fine.
    #[must_use]
    pub fn shown(&self) -> &[Finding] {
        &self.shown
    }

    /// What stands, for the coordinator: the worst first, what is over last.
    #[must_use]
    pub fn standing(&self) -> Vec<FindingBrief> {
        let mut standing: Vec<FindingBrief> = self.tracks.values().map(Track::brief).collect();
        standing.sort_by_key(|finding| (finding.latched, Reverse(finding.status)));
        standing
    }

    /// The hard local faults that stand, by what `rules` say of the kernel log's: never what settles, is over, or could not be looked at.
    #[must_use]
    pub fn hard_faults(&self, rules: &Rules) -> Vec<HardFault> {
        let stands = |track: &&Track| !track.over && !track.settling && track.finding.status == Status::Fail;
        let hard = self.tracks.values().filter(stands).filter(|track| is_hard(&track.finding.id, rules));
        let fault = |track: &Track| {
            track.failing.map(|(_, since)| HardFault { finding: track.finding.clone(), since })
        };
        hard.filter_map(fault).collect()
    }

    /// Settings and versions, as they were read last.
    #[must_use]
    pub fn facts(&self) -> Vec<Fact> {
        self.settings.facts()
    }

    /// What happened since this was called last; the numbers are not given yet.
    #[must_use]
    pub fn take_events(&mut self) -> Vec<NodeEvent> {
        std::mem::take(&mut self.events)
    }

    /// Something settles: the checks must look again soon, whether anything changes or not.
    #[must_use]
    pub fn is_settling(&self) -> bool {
        self.tracks.values().any(|track| track.settling)
    }

    /// One finding as it is shown.
    fn judged(&mut self, look: &Look<'_>, mut finding: Finding, now: Now) -> Finding {
        let key = (finding.id.clone().into_owned(), finding.subject.clone());
        if finding.status == Status::Ok {
            return finding;
        }
        let before = self.tracks.get(&key);
        let once = u32::from(before.is_none_or(|track| !track.seen_now));
        let failing = match (finding.status, before.and_then(|track| track.failing)) {
            (Status::Fail, None) => Some((1, now.mono)),
            (Status::Fail, Some((looks, since))) => Some((looks.saturating_add(once), since)),
            // Not seeing is no sign of health.
            (Status::Unknown, failing) => failing,
            (Status::Ok | Status::Warn, _) => None,
        };
        let settling = match failing {
            Some(failing) if finding.status == Status::Fail => self.settling(look, &finding, failing, now),
            _ => None,
        };
        match &settling {
            Some(Settling::Young) => finding.status = Status::Warn,
            Some(Settling::Initialising(why)) => {
                finding.status = Status::Unknown;
                finding.summary = format!("initialising ({why}): {}", finding.summary);
            }
            None => {}
        }
        let track = self.tracks.entry(key).or_insert_with(|| Track::new(&finding, now));
        // A check that says two things of one subject: the worse one stands.
        if !track.seen_now || track.finding.status < finding.status {
            track.said(&finding, failing, settling.is_some(), now);
            let ask_again = &mut self.ask_again;
            let basis = |f: &Finding| {
                basis(look, &f.id, &f.subject, &f.evidence, ask_again).map(|basis| basis.lines())
            };
            track.tell_if_worse(now, basis, &mut self.events);
        }
        finding
    }

    fn settling(
        &self,
        look: &Look<'_>,
        finding: &Finding,
        (looks, since): (u32, Mono),
        now: Now,
    ) -> Option<Settling> {
        // What the kernel wrote into its log has happened; there is nothing to wait for.
        let check = ALL.iter().find(|check| check.id == finding.id)?;
        let debounced = check.settles == Settles::AfterDebounce;
        if let Some(why) = self.states.initialising(look, &finding.subject, debounced, now) {
            return Some(Settling::Initialising(why));
        }
        let stayed = looks >= look.policy.whole(&limits::SETTLE_POLLS)
            && now.mono.since(since) >= seconds(look, &limits::SETTLE_SECONDS);
        (debounced && !stayed).then_some(Settling::Young)
    }

    /// What was said before and is not said now: it is over, or its subject could not be looked at.
    fn not_said_any_more(&mut self, look: &Look<'_>, now: Now) {
        let window = seconds(look, &limits::LOG_WINDOW_SECONDS);
        let judged_fine = |finding: &Finding, id: &str, subject: &str| {
            finding.status == Status::Ok && finding.id == id && finding.subject == subject
        };
        let (states, shown, events) = (&self.states, &mut self.shown, &mut self.events);
        self.tracks.retain(|(id, subject), track| {
            if std::mem::take(&mut track.seen_now) {
                return true;
            }
            let fine = shown.iter().any(|finding| judged_fine(finding, id, subject));
            if !fine && !track.over {
                let why = unread(look).or_else(|| states.initialising(look, subject, false, now));
                if let Some(why) = why {
                    track.hold(&why);
                    shown.push(track.finding.clone());
                    return true;
                }
            }
            track.settling = false;
            track.failing = None;
            let Some((status, raised_at)) = track.raised else { return false };
            if !track.over {
                track.over = true;
                events.push(track.event(EventKind::FindingCleared, status.as_str(), "ok", now));
            }
            // What could not be told did not happen: nothing of it is left to be seen.
            let happened = matches!(status, Status::Warn | Status::Fail);
            happened && stays_in_sight(id) && now.mono.since(raised_at) < window
        });
    }
}

impl Track {
    fn new(finding: &Finding, now: Now) -> Self {
        Self {
            finding: finding.clone(),
            since: now.wall,
            failing: None,
            settling: false,
            raised: None,
            over: false,
            seen_now: false,
        }
    }

    fn said(&mut self, finding: &Finding, failing: Option<(u32, Mono)>, settling: bool, now: Now) {
        if self.over {
            *self = Self::new(finding, now);
        }
        self.finding = finding.clone();
        self.failing = failing;
        self.settling = settling;
        self.seen_now = true;
    }

    /// One event for each step up, and none while it settles: the change of state was told already.
    fn tell_if_worse(
        &mut self,
        now: Now,
        basis: impl FnOnce(&Finding) -> Option<Vec<String>>,
        events: &mut Vec<NodeEvent>,
    ) {
        let status = self.finding.status;
        if self.settling {
            return;
        }
        match self.raised {
            // One look that saw nothing must not make a second fail of the first one.
            Some((told, _)) if status == told || (status == Status::Unknown && told == Status::Fail) => {}
            Some((told, _)) if status < told => self.raised = Some((status, now.mono)),
            _ => {
                let before = self.raised.map_or(Status::Ok, |(told, _)| told).as_str();
                self.raised = Some((status, now.mono));
                let event = self.event(EventKind::FindingRaised, before, status.as_str(), now);
                events.push(NodeEvent { basis: basis(&self.finding), ..event });
            }
        }
    }

    /// It could not be looked at: neither well nor over.
    fn hold(&mut self, why: &str) {
        if self.finding.status != Status::Unknown {
            self.finding.summary =
                format!("cannot be looked at now ({why}); before: {}", self.finding.summary);
            self.finding.status = Status::Unknown;
        }
        self.settling = true;
    }

    fn event(&self, kind: EventKind, before: &str, after: &str, now: Now) -> NodeEvent {
        NodeEvent {
            number: 0,
            at: now.wall,
            kind,
            subject: self.finding.subject.clone(),
            id: self.finding.id.clone().into_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
            text: self.finding.summary.clone(),
            basis: None,
        }
    }

    fn brief(&self) -> FindingBrief {
        let finding = &self.finding;
        FindingBrief {
            id: finding.id.clone().into_owned(),
            status: finding.status,
            subject: finding.subject.clone(),
            summary: finding.summary.clone(),
            cause: finding.cause.clone(),
            next_step: finding.next_step.clone(),
            evidence: finding.evidence.clone(),
            settling: self.settling,
            since: self.since,
            latched: self.over,
        }
    }
}

/// What heals by itself and comes again: losses of a link, a GID that moved, lines of the kernel log (their ids are no check's). It
/// stays in sight for its window, so that a drop at night is still seen in the morning (leptonai/gpud #1110).
fn stays_in_sight(id: &str) -> bool {
    id.contains("flap") || id.contains("gid-moved") || !ALL.iter().any(|check| check.id == id)
}

/// Why nothing can be said of any device now.
fn unread(look: &Look<'_>) -> Option<String> {
    match &look.now.devices {
        Reading::Failed(why) => Some(why.clone()),
        Reading::Value(_) | Reading::Absent => None,
    }
}

fn seconds(look: &Look<'_>, limit: &limits::Limit) -> Duration {
    Duration::try_from_secs_f64(look.policy.limit(limit)).unwrap_or(Duration::MAX)
}

/// An event whose number is given when it is queued.
fn event(kind: EventKind, subject: &str, id: &str, (before, after): (&str, &str), now: Now) -> NodeEvent {
    let text = match (before, after) {
        ("", after) => format!("{subject}: {id} is {after}"),
        (before, "") => format!("{subject}: {id} was {before} and is not there any more"),
        (before, after) => format!("{subject}: {id} was {before} and is {after}"),
    };
    NodeEvent {
        number: 0,
        at: now.wall,
        kind,
        subject: subject.to_owned(),
        id: id.to_owned(),
        before: before.to_owned(),
        after: after.to_owned(),
        text,
        basis: None,
    }
}

#[cfg(test)]
mod tests;
